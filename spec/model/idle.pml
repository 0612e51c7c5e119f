/*
 * idle: workers that run out of work, look once more, and sleep; and pushes that wake as few of them as need be. One may compute for ever.
 * src/run/sched.c: mr_enqueue, mr_wake_idle, next_fiber, spin, sleep_idle, queue_steal.
 *
 * Holds: when nothing moves any more, no worker sleeps while something is queued; nspinning counts who spins, or was woken to.
 * The watcher, who would find what is forgotten some time later, is left out.
 *
 * check: safety
 * check: ltl found
 * broken: BROKEN_PUSH finds forgotten       (nidle is read before the count is raised)
 * broken: BROKEN_SLEEP finds forgotten      (the last look is before the idle list)
 * broken: MORE BROKEN_SPIN finds forgotten  (no second look after nspinning is lowered)
 * broken: BROKEN_WAKE finds nspinning       (who is woken does not know that it is counted)
 */
#include "base.inc"
#define WORKERS 2
#define CPUS 2
#ifdef MORE
#define ITEMS 2                /* pushed by a host */
#else
#define ITEMS 1
#endif
#define BORN 2                 /* and by what runs */

byte qcount;                   /* the global queue */
byte count[WORKERS];
byte nidle, nspinning;
bool ilock;
bool listed[WORKERS];          /* (ilock) LIST_IDLE */
bool event[WORKERS];
byte born;                     /* (ghost) what running fibers have pushed */
byte busy;                     /* (ghost) workers whose fiber computes for ever */
bool forgotten;

inline pop(n, some) { d_step { some = (n > 0); if :: some -> n-- :: else fi } }

/* Half of the other's queue: the first is returned, the rest becomes visible here a moment later. */
inline queue_steal(some, n) {
  d_step {
    n = (count[1 - _pid] + 1) / 2;
    count[1 - _pid] = count[1 - _pid] - n
  }
  some = (n > 0);
  if :: n > 1 -> count[_pid] = count[_pid] + n - 1 :: else fi
}

inline find(some, n) {
  pop(count[_pid], some);
  if :: !some -> pop(qcount, some) :: else fi;
  if :: !some -> queue_steal(some, n) :: else fi
}

inline mr_anything_queued(any) {
  any = (qcount > 0);
  if :: !any -> any = (count[0] > 0) :: else fi;
  if :: !any -> any = (count[1] > 0) :: else fi
}

inline mr_wake_idle(t) {
  if
  :: nidle == 0
  :: else ->
    if
    :: nspinning != 0
    :: else ->
      port_acquire(ilock);
      d_step {
        t = WORKERS;
        if
        :: nspinning == 0 && listed[0] -> t = 0
        :: nspinning == 0 && !listed[0] && listed[1] -> t = 1
        :: else
        fi
      }
      if
      :: t < WORKERS -> listed[t] = false; nidle--; nspinning++
      :: else
      fi;
      port_unlock(ilock);
      if :: t < WORKERS -> event[t] = true :: else fi
    fi
  fi
}

/* The host's, and a worker's own queue. */
inline mr_enqueue(n, t) {
#ifdef BROKEN_PUSH
  t = nidle;
  n++;
  if :: t > 0 -> mr_wake_idle(t) :: else fi
#else
  n++;
  mr_wake_idle(t)
#endif
}

active [WORKERS] proctype worker() {
  bool some, any, spinning; byte n, t;
  do
  :: spinning = false;
    find(some, n);
    if :: some -> goto runs :: else fi;
    if
    :: 2 * (nspinning + 1) <= CPUS -> nspinning++;      /* spin */
      pop(qcount, some);
      if :: !some -> queue_steal(some, n) :: else fi;
      nspinning--
    :: skip
    fi;
    if
    :: some -> skip
    :: else ->                                          /* sleep_idle */
#ifdef BROKEN_SLEEP
      mr_anything_queued(any);
#endif
      port_acquire(ilock); listed[_pid] = true; nidle++; port_unlock(ilock);
#ifndef BROKEN_SLEEP
      mr_anything_queued(any);
#endif
      if
      :: any -> skip
      :: else ->
end:    d_step { event[_pid] -> event[_pid] = false }
      fi;
      port_acquire(ilock);                              /* leave_idle_list */
      if
      :: listed[_pid] -> listed[_pid] = false; nidle--
#ifdef BROKEN_WAKE
      :: else
#else
      :: else -> spinning = true
#endif
      fi;
      port_unlock(ilock)
    fi;
    if :: !some -> find(some, n) :: else fi;
    if :: spinning -> nspinning-- :: else fi;
#ifndef BROKEN_SPIN
    any = false;
    if :: some -> mr_anything_queued(any) :: else fi;
    if :: any -> mr_wake_idle(t) :: else fi;
#endif
    if :: !some -> goto next :: else fi;
runs:
    if
    :: born < BORN -> born++; mr_enqueue(count[_pid], t)
    :: skip
    fi;
    if
    :: d_step { busy < WORKERS - 1 -> busy++ };
endb: false
    :: skip
    fi;
next: skip;
    d_step { some = false; any = false; n = 0; t = 0 }   /* fewer states */
  od
}

active proctype host() {
  byte i, t;
  do
  :: i < ITEMS -> i++; mr_enqueue(qcount, t)
  :: else -> break
  od
}

active proctype quiet() {
  timeout -> assert(nspinning == 0);
    forgotten = (qcount + count[0] + count[1] > 0 && nidle > 0);
    assert(!forgotten)
}

ltl found { [] ((qcount > 0) -> <> (qcount == 0)) }
