/*
 * crew: the token of a process with several fibers. Wakers push fibers into the crew's list, threads take the token and run what is there;
 * fibers yield, are preempted, wait by yielding, and wait where the VM can't yield, keeping their thread. src/run/crew.c, next_of_crew,
 * block_handed_over, give_to_waiter.
 *
 * Holds: the token is queued once at most; who takes it finds a fiber; two fibers never run at the same time; a ready fiber is never left
 * with an idle token.
 *
 * check: safety
 * check: ltl goes_on
 * broken: BROKEN_PUSH finds                 (looks whether the crew is idle before it has the lock)
 * broken: BROKEN_LEAVE finds left_behind    (leaves the crew without a look at its list)
 * broken: BROKEN_HANDOVER finds             (leaves the crew before its own fiber has parked)
 * broken: BROKEN_TOKEN finds more           (a push queues the token whatever the crew does)
 */
#include "base.inc"
#define FIBERS 2
#define THREADS 3
#define STEPS 1
#define NONE 255

mr_fiber f[FIBERS];
chan list = [FIBERS] of { byte };
byte interrupted = NONE;
mtype crew_state = CREW_QUEUED;
bool lock;
byte token = 1;                /* how often it is in run queues */
bool given[THREADS];              /* by thread: it may go on with its fiber, and runs the crew */
bool runs;                     /* (ghost) a thread is in the process's state */
bool left_behind;

inline mr_crew_push(i, first, start) {
#ifdef BROKEN_PUSH
  start = (crew_state == CREW_IDLE);
#endif
  port_acquire(lock);
  if
  :: first -> assert(interrupted == NONE); interrupted = i
  :: else -> assert(nfull(list)); list ! i
  fi;
#ifdef BROKEN_TOKEN
  start = true;
#endif
#if !defined BROKEN_PUSH && !defined BROKEN_TOKEN
  start = (crew_state == CREW_IDLE);
#endif
  if :: start -> crew_state = CREW_QUEUED :: else fi;
  port_unlock(lock)
}

inline mr_crew_next(i, some) {
  port_acquire(lock);
  if
  :: interrupted != NONE -> i = interrupted; interrupted = NONE; some = true
  :: else ->
    if :: nempty(list) -> list ? i; some = true :: empty(list) -> some = false fi
  fi;
  if :: some -> crew_state = CREW_RUNNING :: else -> crew_state = CREW_IDLE fi;
  port_unlock(lock)
}

inline mr_crew_leave(more) {
  port_acquire(lock);
#ifdef BROKEN_LEAVE
  more = false;
#else
  more = (nempty(list) || interrupted != NONE);
#endif
  if :: more -> crew_state = CREW_QUEUED :: else -> crew_state = CREW_IDLE fi;
  port_unlock(lock)
}

inline enqueue_token() { d_step { token++; assert(token == 1) } }

inline leave_crew(more) {
  mr_crew_leave(more);
  if :: more -> enqueue_token() :: else fi
}

inline block_handed_over(i, ok, more) {
  d_step { assert(runs); runs = false }
#ifdef BROKEN_HANDOVER
  leave_crew(more);
#endif
  mr_fiber_parked(f[i], ok);
  if :: ok -> skip :: else -> mr_crew_push(i, false, more) fi;   /* we run the crew: nothing to be queued yet */
#ifndef BROKEN_HANDOVER
  leave_crew(more);
#endif
endw: d_step { given[me] -> given[me] = false }
}

proctype mr_run_thread(byte me) {
  byte i; bool some, more, ok;
end:
  do
  :: d_step { token > 0 -> token-- };
    mr_crew_next(i, some);
    assert(some);
dispatch:
    if
    :: f[i].mode == WAIT_HANDOVER ->          /* give_to_waiter */
      f[i].state = FIBER_RUNNING;
      given[f[i].thread] = true;
      goto end
    :: else
    fi;
    assert(f[i].state == FIBER_READY);
    d_step { assert(!runs); runs = true }
resume:
    f[i].state = FIBER_RUNNING;
    f[i].thread = me;
running:
    if
    :: f[i].steps == STEPS -> f[i].state = FIBER_DONE; runs = false
    :: else -> f[i].steps++;
      if
      :: runs = false; f[i].state = FIBER_READY;        /* it yields, or is preempted */
        if
        :: mr_crew_push(i, false, more)
        :: mr_crew_push(i, true, more)
        fi;
        assert(!more)
      :: mr_wait_open(f[i]);                            /* it waits by yielding */
        d_step {                                        /* mr_fiber_parked */
          ok = (f[i].state == FIBER_PARKING);
          if :: ok -> f[i].state = FIBER_PARKED; runs = false :: else fi
        }
        if :: ok -> skip :: else -> goto resume fi
      :: f[i].mode = WAIT_HANDOVER;                     /* it keeps its thread */
        mr_wait_open(f[i]);
        block_handed_over(i, ok, more);
        f[i].mode = WAIT_YIELD;
        d_step { assert(!runs); runs = true }
        goto running
      fi
    fi;
    if                                                  /* next_of_crew: more of it, or others' turn */
    :: mr_crew_next(i, some);
      if :: some -> goto dispatch :: else fi
    :: leave_crew(more)
    fi
  od
}

proctype waker(byte i) {
  byte t; mtype was; bool ok, start;
end:
  do
  :: f[i].ticket % 2 -> t = f[i].ticket;
    mr_wait_claim(f[i], t, ok);
    assert(ok);
    mr_ready(f[i], MR_WOKEN, was);
    if
    :: was == FIBER_PARKED -> mr_crew_push(i, false, start);
      if :: start -> enqueue_token() :: else fi
    :: else
    fi
  od
}

proctype quiet() {
  timeout -> left_behind = (f[0].state != FIBER_DONE || f[1].state != FIBER_DONE || nempty(list) || crew_state != CREW_IDLE);
    assert(!left_behind)
}

init {
  atomic {
    list ! 0; list ! 1;
    run mr_run_thread(0); run mr_run_thread(1); run mr_run_thread(2);
    run waker(0); run waker(1); run quiet()
  }
}

ltl goes_on { [] ((f[0].owned) -> <> (f[0].state == FIBER_RUNNING)) }
