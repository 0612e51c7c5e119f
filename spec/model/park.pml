/*
 * park: one fiber that waits by yielding, and everybody who may end its wait: a sender through the object's queue, a timer by a ticket of
 * its own, an interrupt by whatever ticket is open. src/run/park.h, mr_ready.
 *
 * Holds: a wait is claimed once; the claimer alone touches the mail until it calls mr_ready; the fiber is in one queue at most, and two
 * threads never run it; whoever is claimed goes on; an interrupt that came when the wait was given up is not lost.
 *
 * check: safety
 * check: ltl goes_on
 * broken: BROKEN_CLAIM finds ticket         (looks at the ticket and writes it, in two steps)
 * broken: BROKEN_TICKET finds ticket        (claims whichever wait is open)
 * broken: BROKEN_READY finds lost_wakeup    (READY is stored, not exchanged: the thread parks in between)
 * broken: BROKEN_CANCEL finds owned         (goes on while the claimer still writes)
 * broken: BROKEN_UNLINK finds linked        (the node of a wait that ended stays in the queue)
 * broken: BROKEN_ABANDON finds lost_interrupt   (a claim that nobody expected is forgotten)
 */
#include "base.inc"
#define WAITS 3

mr_fiber f;
bool lock;                     /* of the object that f waits for */
bool linked;                   /* (lock) f.wait is in its queue */
bool tlock, timer_in;          /* the timers' lock; f.timer is in the heap */
byte timer_ticket;
bool timed;
bool interrupted;              /* mr_rt.interrupted */
bool mail;                     /* f.mail holds a message */
byte queue = 1;                  /* how often f is in run queues */
bool inside;                   /* (ghost) a thread is in f's state */
byte raised, seen;             /* (ghost) interrupts */
bool lost_wakeup, lost_interrupt;

inline enqueue(was) {
  if :: was == FIBER_PARKED -> d_step { queue++; assert(queue == 1) } :: else fi
}

/* k: mr_wake, then what each continuation does. */
inline woken() {
  assert(!f.owned);
  if :: timed -> timed = false; port_acquire(tlock); timer_in = false; port_unlock(tlock) :: else fi;
  if
  :: f.reason == MR_WOKEN -> d_step { assert(mail); mail = false }
  :: f.reason == MR_NONE -> skip
  :: else ->
    if :: f.reason == MR_INTERRUPTED -> seen++ :: else fi;
#ifndef BROKEN_UNLINK
    port_acquire(lock); linked = false; port_unlock(lock)
#endif
  fi
}

inline link_node() { port_acquire(lock); linked = true; port_unlock(lock) }

active [2] proctype worker() {
  bool ok;
end:
  do
  :: d_step { queue > 0 -> queue--; assert(!inside); inside = true; f.thread = _pid };
resume:
    assert(f.state == FIBER_READY);
    f.state = FIBER_RUNNING;
    woken();
again:
    if :: f.steps == WAITS -> f.state = FIBER_DONE; inside = false; break :: else -> f.steps++ fi;
    assert(!linked);
    mr_wait_open(f);
    if
    :: mr_wait_cancel(f, ok);                 /* mr_wait_abandon: it could complete at once */
#ifndef BROKEN_ABANDON
      if :: !ok && f.reason == MR_INTERRUPTED -> interrupted = true :: else fi;
#endif
      goto again
    :: link_node();                           /* select: a case behind this one may be ready */
      mr_wait_cancel(f, ok);
      if
      :: ok -> port_acquire(lock); linked = false; port_unlock(lock)
      :: else -> woken()
      fi;
      goto again
    :: link_node();                           /* mr_park */
      if
      :: port_acquire(tlock); timer_in = true; timer_ticket = f.node; timed = true; port_unlock(tlock)
      :: skip
      fi;
      d_step {                                /* mr_fiber_parked */
        ok = (f.state == FIBER_PARKING);
        if :: ok -> f.state = FIBER_PARKED; inside = false :: else fi
      }
      if :: ok -> skip :: else -> goto resume fi
    fi
  od
}

active proctype sender() {
  mtype was; bool ok;
end:
  do
  :: d_step { linked && !lock -> lock = true };
    linked = false;
    mr_wait_claim(f, f.node, ok);
    port_unlock(lock);
    if
    :: ok -> d_step { assert(f.owned); assert(!mail); mail = true }
      mr_ready(f, MR_WOKEN, was);
      enqueue(was)
    :: else
    fi
  od
}

active proctype timer() {
  mtype was; bool ok;
end:
  do
  :: d_step { timer_in && !tlock -> tlock = true };
    timer_in = false;
    mr_wait_claim(f, timer_ticket, ok);
    port_unlock(tlock);
    if :: ok -> mr_ready(f, MR_TIMEOUT, was); enqueue(was) :: else fi
  od
}

active proctype monitor() {
  mtype was; byte t; bool ok;
  raised++;
  interrupted = true;
end:
  do
  :: interrupted && f.ticket % 2 -> t = f.ticket;
    if
    :: t % 2 -> mr_wait_claim(f, t, ok);
      if :: ok -> interrupted = false; mr_ready(f, MR_INTERRUPTED, was); enqueue(was) :: else fi
    :: else
    fi
  od
}

/* When nobody can take a step. */
active proctype quiet() {
  timeout ->
    lost_wakeup = !(f.state == FIBER_DONE || (f.state == FIBER_PARKED && f.ticket % 2 && f.ticket == f.node));
    assert(!lost_wakeup);
    lost_interrupt = (raised != seen + interrupted);
    assert(!lost_interrupt)
}

ltl goes_on { [] ((f.owned) -> <> (f.state == FIBER_RUNNING)) }
