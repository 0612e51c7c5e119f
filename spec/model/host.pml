/*
 * host: a wait of a host's own thread (WAIT_HOST), which never parks: it sleeps on its event until the state is READY or its deadline has
 * passed. Others set the same event for reasons of their own. src/run/park.c: block_host, host_woken.
 *
 * Holds: the thread never sleeps on while its fiber is READY; it never goes on while the claimer still writes; at the deadline either it
 * claims its wait itself or somebody else has.
 *
 * check: safety
 * check: ltl goes_on
 * broken: BROKEN_EVENT finds lost_wakeup    (the event is set before the state)
 * broken: BROKEN_WOKEN finds owned          (a set event is taken for a wake-up)
 * broken: BROKEN_DEADLINE finds owned       (the deadline ends the wait without a claim)
 */
#include "base.inc"
#define WAITS 2

mr_fiber f;
bool event;                    /* of the thread */
bool lock, linked;
bool asleep;                   /* (ghost) */
bool lost_wakeup;

active proctype host() {
  bool ok, deadline, woken;
  do
  :: f.steps == WAITS -> break
  :: else -> f.steps++;
    mr_wait_open(f);
    port_acquire(lock); linked = true; port_unlock(lock);
    if :: deadline = true :: deadline = false fi;
    woken = false;
    if                                        /* port_event_spin */
    :: d_step { event -> event = false };
      woken = (f.state == FIBER_READY)
    :: skip
    fi;
    do                                        /* host_woken */
    :: woken -> break
    :: else -> asleep = true;
end:  if
      :: d_step { event -> event = false; asleep = false };
#ifdef BROKEN_WOKEN
        woken = true
#else
        woken = (f.state == FIBER_READY)
#endif
      :: deadline -> asleep = false;
        woken = (f.state == FIBER_READY);
        break
      fi
    od;
    if
    :: woken -> skip
#ifdef BROKEN_DEADLINE
    :: else -> f.ticket = f.node + 1; f.reason = MR_TIMEOUT
#else
    :: else ->
      d_step {
        ok = (f.ticket == f.node);
        if :: ok -> f.ticket = f.node + 1; f.reason = MR_TIMEOUT :: else fi
      }
      if :: ok -> skip :: else -> f.state == FIBER_READY fi
#endif
    fi;
    f.state = FIBER_RUNNING;
    assert(!f.owned);
    if :: f.reason != MR_WOKEN -> port_acquire(lock); linked = false; port_unlock(lock) :: else -> assert(!linked) fi
  od;
  f.state = FIBER_DONE
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
    :: ok ->
#ifdef BROKEN_EVENT
      event = true;
#endif
      mr_ready(f, MR_WOKEN, was);
#ifndef BROKEN_EVENT
      event = true
#endif
    :: else
    fi
  od
}

/* The record of the thread had another owner; a fiber of the host became ready; who polls is to give the role up. */
active proctype stranger() { event = true; event = true }

active proctype quiet() {
  timeout -> lost_wakeup = asleep && (f.state == FIBER_READY || linked);
    assert(!lost_wakeup)
}

ltl goes_on { [] ((f.owned) -> <> (f.state == FIBER_RUNNING)) }
