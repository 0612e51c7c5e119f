/*
 * ending: one fiber that waits, and others who ask its job to end, at any moment. src/run/ending.c, mr_wait_open and see_end of
 * src/process/park.c, limit.c.
 *
 * Here one order of memory is modelled: the store that opens the ticket may stay in its thread's buffer until a lock is taken, or a fence made.
 *
 * Holds: whoever was asked to end does not wait on, though its wait was opened at that moment. A masked wait learns until when it may go on;
 * a kill ends it. A message that has woken it first is its own.
 *
 * check: safety
 * broken: BROKEN_SEE finds lost_end         (who opens a wait does not look once more)
 * broken: BROKEN_ORDER finds lost_end       (the asker looks for open waits, and then says it)
 * broken: BROKEN_FENCE finds lost_end       (who opens a wait looks before its ticket can be seen)
 * broken: BROKEN_MASK finds lost_end        (a masked wait that opens does not look once more, and misses a kill)
 * broken: BROKEN_AGAIN finds lost_end       (a masked wait that is open is not told)
 * broken: BROKEN_TICKET finds ticket        (the asker claims whichever wait is open, not the one that it saw)
 */
#include "base.inc"
#define MESSAGES 2

mr_fiber f;
byte ends;                     /* 1: cancelled, 2: killed */
bool pending;                  /* the ticket's store is in the buffer of f's thread */
bool lock, linked;
bool masked, noticed;
bool timer_in;                 /* its grace has a timer */
byte timer_ticket;
byte queue;
byte sent;
bool lost_end;

inline enqueue(was) {
  if :: was == FIBER_PARKED -> d_step { queue++; assert(queue == 1) } :: else fi
}

/* Of the thread that opened the wait: what it stored is seen before what it loads from here on. */
inline fence() {
#ifndef BROKEN_FENCE
  !pending
#else
  skip
#endif
}

active proctype buffer() {
end:
  do :: d_step { pending -> f.ticket = f.node; pending = false } od
}

active proctype fiber() {
  mtype was; bool ok;
  if :: masked = true :: masked = false fi;
again:
  f.state = FIBER_RUNNING;
  assert(!pending && !linked);
  if                                          /* mr_wait_open */
  :: ends == 2 || (ends == 1 && !masked) -> goto over
  :: else
  fi;
  f.node = f.ticket + 1;
  f.state = FIBER_PARKING;
  pending = true;
  if
  :: fence(); port_acquire(lock); linked = true; port_unlock(lock)
  :: fence()                                  /* a sleep: there is no lock, it calls mr_wait_fence */
  fi;
  if                                          /* limited: until when a masked one may wait */
  :: masked && ends -> noticed = true; timer_ticket = f.node; timer_in = true
  :: masked && ends -> noticed = true         /* for ever: process.masked(math.huge, …) */
  :: else
  fi;
#ifndef BROKEN_SEE
  if                                          /* see_end */
  :: ends == 0
#ifdef BROKEN_MASK
  :: ends && masked
  :: ends && !masked ->
#else
  :: ends == 1 && masked && noticed
  :: (ends == 1 && !(masked && noticed)) || ends == 2 ->
#endif
    !pending;                                 /* a claim is a compare-and-swap */
    mr_wait_claim(f, f.node, ok);
    if
    :: ok && masked && ends == 1 -> mr_ready(f, MR_AGAIN, was)
    :: ok && !(masked && ends == 1) -> mr_ready(f, MR_CLOSED, was)
    :: else
    fi
  fi;
#endif
  mr_fiber_parked(f, ok);
  if
  :: ok ->
end_parked: d_step { queue > 0 -> queue-- }
  :: !ok
  fi;
  assert(f.state == FIBER_READY && !f.owned && !pending);
  port_acquire(lock); linked = false; port_unlock(lock);
  timer_in = false;
  if
  :: f.reason == MR_CLOSED -> assert(ends == 2 || (ends == 1 && !masked))
  :: f.reason == MR_TIMEOUT -> assert(masked && ends)
  :: else -> goto again
  fi;
over:
  f.state = FIBER_DONE
}

/* Who asks, with whatever he finds open. */
inline ask(how, t, ok, was) {
#ifndef BROKEN_ORDER
  d_step { if :: ends < how -> ends = how :: else fi }
#endif
  t = f.ticket;
  if
#ifdef BROKEN_AGAIN
  :: t % 2 && !(masked && how == 1) ->
#else
  :: t % 2 ->
#endif
    mr_wait_claim(f, t, ok);
    if
    :: ok && masked && how == 1 -> mr_ready(f, MR_AGAIN, was); enqueue(was)
    :: ok && !(masked && how == 1) -> mr_ready(f, MR_CLOSED, was); enqueue(was)
    :: else
    fi
  :: else
  fi;
#ifdef BROKEN_ORDER
  d_step { if :: ends < how -> ends = how :: else fi }
#endif
}

active proctype canceller() {
  mtype was; byte t; bool ok;
  ask(1, t, ok, was)
}

active proctype killer() {
  mtype was; byte t; bool ok;
  if :: ask(2, t, ok, was) :: skip fi
}

active proctype sender() {
  mtype was; bool ok;
end:
  do
  :: d_step { sent < MESSAGES && linked && !lock -> lock = true };
    linked = false;
    sent++;
    mr_wait_claim(f, f.node, ok);
    port_unlock(lock);
    if :: ok -> mr_ready(f, MR_WOKEN, was); enqueue(was) :: else fi
  od
}

active proctype timer() {
  mtype was; bool ok;
end:
  do
  :: d_step { timer_in -> timer_in = false };
    mr_wait_claim(f, timer_ticket, ok);
    if :: ok -> mr_ready(f, MR_TIMEOUT, was); enqueue(was) :: else fi
  od
}

/* When nobody can take a step. */
active proctype quiet() {
  timeout ->
    lost_end = (f.state != FIBER_DONE && (ends == 2 || (ends == 1 && !(masked && noticed))));
    assert(!lost_end)
}
