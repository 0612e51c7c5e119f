/*
 * worker: one worker, the threads that hold it one after the other, and the monitor, which takes it away from a thread whose fiber goes on too
 * long, or takes what such a thread has left in its slot. Fibers wake each other through the slot, wait by yielding, and wait where the VM can't
 * yield: then their thread gives the worker away, and gets it back with the fiber. src/run/hold.h, worker.c, sched.c hand_over, leave_fiber,
 * give_to_waiter.
 *
 * Holds: one thread holds the worker; a fiber is in one place and one thread runs it; ndetached counts the threads that run a fiber without
 * a worker; a fiber in the slot is not left there by a holder that sleeps.
 *
 * A thread's store to its `runs` is seen late: before its next one, or when the monitor makes all stores seen.
 *
 * check: safety
 * broken: BROKEN_TAKE finds                 (the monitor takes the worker without a look at who holds it)
 * broken: BROKEN_LEAVE finds                (the thread comes back from its fiber without a look at who holds the worker)
 * broken: BROKEN_RUNS finds                 (who acts in its place does not look whether it runs a fiber)
 * broken: BROKEN_SEEN finds                 (nor makes its store seen)
 * broken: BROKEN_SLOT finds                 (the slot is filled without a look at who holds the worker)
 * broken: BROKEN_GIVE finds                 (the waiting thread is told before the worker is its own)
 * broken: BROKEN_DETACHED finds stranded    (who blocks without a worker goes on being counted)
 */
#include "base.inc"
#define FIBERS 2
#define THREADS 3
#define STEPS (2 - i)          /* of fiber i */
#define TAKES 1                /* how often the monitor takes the worker away, */
#define ROBS 1                 /* and a fiber out of the slot */
#define NONE 255
#define MARK 100               /* thread + MARK: somebody acts in its place: | 1 in the code */

mr_fiber f[FIBERS];
byte holder;                   /* w->thread */
bool runs[THREADS];            /* thread->runs */
bool late[THREADS];            /* it has stored 0 there, and nobody has seen it yet */
byte slot = NONE;              /* w->slot */
chan queue = [FIBERS] of { byte };   /* the global one; a push wakes the holder */
bool given[THREADS];           /* thread->given */
bool has_worker[THREADS];      /* thread->worker != NULL: it believes to hold it */
bool spare[THREADS];           /* LIST_SPARE */
byte ndetached;
bool lives[FIBERS];            /* (ghost) a thread runs it */
byte places[FIBERS];           /* (ghost) how often it is in the queue, or the slot */
bool stranded, stuck;

inline enqueue(i) { d_step { assert(places[i] == 0); places[i]++; queue ! i } }

inline spare_get(t) {
  d_step {
    t = 0;
    do
    :: t < THREADS && !spare[t] -> t++
    :: t < THREADS && spare[t] -> spare[t] = false; break
    :: t == THREADS -> break
    od
  }
}

/* ---- hold.h ---- */

inline mr_hold(ok) {
  late[me] = true;
  d_step { holder != me + MARK -> ok = (holder == me) }   /* mr_hold_on */
}

/* Stores are seen in order: the 1 not before the 0. */
inline mr_hold_end() { d_step { late[me] = false; runs[me] = true } }

inline mr_worker_seize(t, ok) {
  d_step {
    ok = (holder == t);
    if :: ok -> holder = t + MARK :: else fi
  }
  if
  :: ok ->
#ifdef BROKEN_SEEN
    if :: true -> d_step { if :: late[t] -> late[t] = false; runs[t] = false :: else fi } :: true fi;
#else
    d_step { if :: late[t] -> late[t] = false; runs[t] = false :: else fi };
#endif
#ifndef BROKEN_RUNS
    ok = runs[t];
    if :: ok :: else -> holder = t fi
#endif
  :: else
  fi
}

inline mr_worker_leave(t) { d_step { holder == me -> holder = t } }

inline slot_in(i) { d_step { assert(places[i] == 0); slot = i; places[i]++ } }
inline slot_out(i) { d_step { slot = NONE; assert(places[i] == 1); places[i]-- } }

/* j: what was in the slot */
inline hand_over(i, j, ok) {
  if
  :: has_worker[me] ->
#ifdef BROKEN_SLOT
    late[me] = true; ok = true;
#else
    mr_hold(ok);
#endif
    if
    :: ok -> j = slot;
      if :: j != NONE -> slot_out(j) :: else fi;
      slot_in(i)
    :: else -> j = i
    fi;
    mr_hold_end();
    if :: j != NONE -> enqueue(j) :: else fi
  :: else -> enqueue(i)
  fi
}

/* By the thread itself; ok: thread `to` holds it now. */
inline mr_worker_take(to, ok) {
  mr_hold(ok);
  if :: ok -> mr_worker_leave(to) :: else fi;
  mr_hold_end();
  if :: ok -> assert(!given[to]); given[to] = true :: else fi
}

inline block_handed_over(i, t, ok) {
  spare_get(t);                               /* reserve_spare: in mr_wait_open, before all */
  if
  :: t == THREADS -> skip                     /* MR_ESPARE: nothing has happened */
  :: else ->
    f[i].mode = WAIT_HANDOVER;
    mr_wait_open(f[i]);
    has_worker[me] = false;
    mr_worker_take(t, ok);
    if
    :: ok -> skip
    :: else -> spare[t] = true;               /* the monitor had taken it */
#ifndef BROKEN_DETACHED
      assert(ndetached > 0);
      ndetached--
#endif
    fi;
    lives[i] = false;
    mr_fiber_parked(f[i], ok);
    if :: ok -> skip :: else -> enqueue(i) fi;
endw: d_step { given[me] -> given[me] = false };
    has_worker[me] = true;
    f[i].mode = WAIT_YIELD;
    d_step { assert(!lives[i]); lives[i] = true }
  fi
}

proctype mr_run_thread(byte me) {
  byte i, j, t, o; bool ok; mtype was;
start: skip;
end: d_step { given[me] -> given[me] = false };
  has_worker[me] = true;
  do
  :: assert(holder % MARK == me && (!runs[me] || late[me]));   /* find */
    i = slot;
    if
    :: i != NONE -> slot_out(i)
    :: else ->
endf: d_step { queue ? i -> places[i]-- }     /* it sleeps as long as the queue is empty */
    fi;
    if
    :: f[i].mode == WAIT_HANDOVER ->          /* give_to_waiter */
      t = f[i].thread;
      f[i].state = FIBER_RUNNING;
      has_worker[me] = false;
#ifdef BROKEN_GIVE
      given[t] = true;
      mr_worker_leave(t);
#else
      mr_worker_leave(t);
      assert(!given[t]);
      given[t] = true;
#endif
      spare[me] = true;
      goto start
    :: else
    fi;
    assert(f[i].state == FIBER_READY);
    mr_hold_end();
    d_step { assert(!lives[i]); lives[i] = true }
resume:
    f[i].state = FIBER_RUNNING;
    f[i].thread = me;
    do
    :: f[i].steps == STEPS -> f[i].state = FIBER_DONE; lives[i] = false; break
    :: f[i].steps < STEPS -> f[i].steps++;
      if
      :: f[1 - i].ticket % 2 -> o = 1 - i;              /* it wakes the other, if that waits */
        t = f[o].ticket;
        if
        :: t % 2 -> mr_wait_claim(f[o], t, ok);
          if
          :: ok -> mr_ready(f[o], MR_WOKEN, was);
            if :: was == FIBER_PARKED -> hand_over(o, j, ok) :: else fi
          :: else
          fi
        :: else
        fi
      :: block_handed_over(i, t, ok)
      :: mr_wait_open(f[i]);
        d_step {                              /* mr_fiber_parked */
          ok = (f[i].state == FIBER_PARKING);
          if :: ok -> f[i].state = FIBER_PARKED; lives[i] = false :: else fi
        }
        if :: ok -> break :: else -> goto resume fi
      :: lives[i] = false; f[i].state = FIBER_READY; enqueue(i); break    /* it yields */
      fi
    od;
    skip;
    mr_hold(ok);                              /* leave_fiber */
#ifdef BROKEN_LEAVE
    ok = true; holder = me;
#endif
    if
    :: ok -> skip
    :: else -> has_worker[me] = false; assert(ndetached > 0); ndetached--;
      spare[me] = true;
      goto start
    fi
  od
}

proctype monitor() {
  byte t, s, n, m, i; bool ok;
end:
  do
  :: n < TAKES && holder < MARK && runs[holder] -> n++;
    t = holder;
    spare_get(s);
    if
    :: s < THREADS -> ndetached++;
#ifdef BROKEN_TAKE
      ok = true;
#else
      mr_worker_seize(t, ok);
#endif
      if
      :: ok -> holder = s; assert(!given[s]); given[s] = true
      :: else -> ndetached--; spare[s] = true
      fi
    :: else
    fi
  :: m < ROBS && slot != NONE -> m++;          /* mr_slot_take */
    i = slot;
    t = holder;
    if :: t < MARK -> mr_worker_seize(t, ok) :: else -> ok = false fi;
    if
    :: ok ->
      ok = (i != NONE && slot == i);
      if :: ok -> slot_out(i) :: else fi;
      holder = t;
      if :: ok -> enqueue(i) :: else fi
    :: else
    fi
  od
}

/* Somebody outside wakes what would wait for ever. */
proctype outside() {
  byte i; bool ok; mtype was; byte t;
end:
  do
  :: timeout ->
    stranded = (slot != NONE || nempty(queue) || ndetached != 0);
    assert(!stranded);
    if :: f[0].state == FIBER_DONE && f[1].state == FIBER_DONE -> break :: else fi;
    stuck = true;
    i = 0;
    do
    :: i < FIBERS && f[i].ticket % 2 == 0 -> i++
    :: i < FIBERS && f[i].ticket % 2 -> t = f[i].ticket;
      if :: t % 2 -> mr_wait_claim(f[i], t, ok) :: else -> ok = false fi;
      if
      :: ok -> mr_ready(f[i], MR_WOKEN, was);
        if :: was == FIBER_PARKED -> enqueue(i) :: else fi
      :: else
      fi;
      stuck = false;
      i++
    :: i == FIBERS -> break
    od;
    assert(!stuck)
  od
}

init {
  atomic {
    places[0] = 1; places[1] = 1; queue ! 0; queue ! 1;
    spare[1] = true; spare[2] = true;
    given[0] = true;                          /* holder is 0 */
    run mr_run_thread(0); run mr_run_thread(1); run mr_run_thread(2);
    run monitor(); run outside()
  }
}
