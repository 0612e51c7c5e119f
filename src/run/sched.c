/*
 * sched: what is READY, which fiber a worker runs next, and what happens when it stops.
 *
 * Invariants.
 *  - A fiber is in at most one place: a run queue, a slot, or on a thread; only a READY fiber is in a queue or slot.
 *  - A push makes `count` visible (seq_cst) before it reads `nidle`; a worker makes itself visible in `nidle` before it
 *    looks at the counts for the last time (idle.c). So a pushed fiber is seen by one of the two and no wake-up is lost.
 *  - Slots wake nobody: what sits in one is the next to run on its own worker. One that stays there too long, because its
 *    worker computes, is taken by the watcher (idle.c) or the monitor (monitor.c).
 *  - Fields marked (holder) are touched only by the thread that holds the worker and runs no fiber.
 *
 * Longer than other files: what is inlined into each other on the way of a message stays together.
 */
#include "base/rank.h"
#include "run/rt.h"
#include "run/crew.h"
#include "run/hold.h"
#include "run/talk.h"
#include "run/traced.h"
#include "run/replay.h"
#include "port/system.h"

mr_runtime mr_rt = { .ilock = PORT_LOCK(MR_RANK_IDLE) };
PORT_TLS mr_thread *mr_this_thread;

/* ---- becoming ready ---- */

static void queue_with(mr_worker *w, mr_fiber *f, int front);

/* Somebody queued with a worker that has retired in between: nobody would look there. */
static PORT_NOINLINE void rescue(mr_worker *w) {
  mr_fiber *f;
  while ((f = mr_queue_take(&w->queue)) != NULL) queue_with(NULL, f, 0);
}

/* A worker that retires clears w->thread and then rescues: so one of the two, it or the caller, finds what has been queued here. */
static void queue_with(mr_worker *w, mr_fiber *f, int due) {
  if (PORT_UNLIKELY(mr_fiber_heed(f) & HEED_LEVEL)) {
    int urgent = !w && mr_fiber_level(f) == LEVEL_HIGH;
    mr_share_push(f, due);
    if (urgent) mr_monitor_urge();              /* it comes from a thread that will not look for it itself */
    return;
  }
  if (!w) {
    mr_queue_add(&mr_rt.queue, f, due);
    return;
  }
  mr_queue_add(&w->queue, f, due);
  if (PORT_UNLIKELY(atomic_load(&w->thread) == 0)) rescue(w);
}

void mr_enqueue(mr_worker *w, mr_fiber *f, int due) {
  queue_with(w, f, due);
  mr_wake_idle();
}

static PORT_NOINLINE void not_next(mr_worker *w, mr_fiber *f) { mr_enqueue(w, f, 0); }

/* f is next on w, which t holds and goes on running with. Returns what sat there. */
static inline mr_fiber *into_slot(mr_thread *t, mr_worker *w, mr_fiber *f) {
  mr_fiber_placed(f);
  mr_fiber *old = atomic_load_explicit(&w->slot, memory_order_relaxed);
  atomic_store_explicit(&w->slot, f, memory_order_release);
  mr_hold_end(t);
  return old;
}

static PORT_NOINLINE void out_of_slot(mr_worker *w, mr_fiber *f) {
  mr_fiber_taken(f);
  mr_enqueue(w, f, 0);
}

/* The rest of hand_over, when somebody acts in t's place. */
static PORT_NOINLINE void hand_over_later(mr_thread *t, mr_worker *w, mr_fiber *f) {
  if (mr_hold_on(t, w)) {
    mr_fiber *old = into_slot(t, w, f);
    if (old) out_of_slot(w, old);
    return;
  }
  mr_hold_end(t);                               /* it goes on without a worker */
  not_next(NULL, f);
}

/*
 * A woken fiber runs next on the worker of who woke it; what sat there waits in the queue. Only the worker's holder may
 * fill the slot: the holder always looks there before it sleeps.
 */
static inline void hand_over(mr_thread *t, mr_fiber *f) {
  mr_worker *w = t->worker;
  mr_fiber *old;
  if (PORT_UNLIKELY(!w)) {
    not_next(NULL, f);
    return;
  }
  if (PORT_UNLIKELY(mr_fiber_heed(f) & HEED_LEVEL) && mr_fiber_level(f) == LEVEL_LOW) {
    not_next(w, f);                             /* nobody of its level goes before others */
    return;
  }
  mr_assert(t == mr_this_thread && atomic_load(&t->runs));
  if (PORT_UNLIKELY(!mr_hold_now(t, w))) hand_over_later(t, w, f);
  else if (PORT_UNLIKELY((old = into_slot(t, w, f)) != NULL)) out_of_slot(w, old);
}

/*
 * The claimer's last step. Returns what is to be queued: f, the token of its crew if that was idle, or NULL: a host's thread has been told,
 * or f's own thread still unwinds and will see it.
 */
static inline mr_fiber *make_ready(mr_fiber *f, mr_reason why, int where) {
  mr_assert(!(atomic_load(&f->ticket) & 1));    /* claimed, and nobody but the claimer comes by here */
  mr_thread *host = f->mode == WAIT_HOST ? f->thread : NULL;   /* read now: once READY, f may go its way and end */
  f->reason = (unsigned char)why;                /* before READY: from then on f may go its way */
  port_chaos();
  unsigned was = atomic_load_explicit(&f->state, memory_order_acquire);
  /* whoever claimed a fiber that is PARKED is the only one who can change that; release: mr_fiber_wake reads `reason` then */
  if (PORT_LIKELY(was == FIBER_PARKED)) atomic_store_explicit(&f->state, FIBER_READY, memory_order_release);
  /* It was PARKING: its thread may park it now. Either its compare-and-swap fails and it goes on, or we find PARKED here and queue it. */
  else was = atomic_exchange_explicit(&f->state, FIBER_READY, memory_order_acq_rel);
  mr_assert(was == FIBER_PARKING || was == FIBER_PARKED);
  if (host) {
    port_event_set(&host->event);
    return NULL;
  }
  if (was != FIBER_PARKED) return NULL;         /* f may have ended: not touched again */
  mr_crew *c = f->crew;
  if (PORT_LIKELY(!c)) return f;
  return mr_crew_push(f, where) ? &c->token : NULL;
}

static inline void woken_seen(const mr_fiber *f, mr_reason why, const mr_fiber *near) {
  if (mr_trace_on()) mr_traced_woken(f, why, near != NULL);
  if (near && why == MR_WOKEN && mr_talk_on()) mr_talk_woken(f, near);
}

/* In functions of their own, or mr_ready would have to save registers for them. */
static PORT_NOINLINE void ready_any(mr_fiber *f, mr_reason why, mr_fiber *near) {
  if (mr_tracing_any()) woken_seen(f, why, near);
  if ((f = make_ready(f, why, CREW_LAST)) == NULL) return;
  if (atomic_load_explicit(&mr_rt.live, memory_order_relaxed) > PREFETCH_FROM && !f->crew) mr_run_body.prefetch(f);
  if (near) hand_over(near->thread, f);
  else mr_enqueue(NULL, f, 0);
}

/* f is PARKED, and it is what is queued: the usual case of make_ready. */
static inline void ready_parked(mr_fiber *f, mr_reason why, mr_fiber *near) {
  f->reason = (unsigned char)why;
  port_chaos();
  atomic_store_explicit(&f->state, FIBER_READY, memory_order_release);
  hand_over(near->thread, f);
}

static PORT_NOINLINE void ready_far(mr_fiber *f, mr_reason why, mr_fiber *near) {
  mr_run_body.prefetch(f);
  ready_parked(f, why, near);
}

void mr_ready(mr_fiber *f, mr_reason why, mr_fiber *near) {
  mr_assert_unlocked();
  mr_assert(!(atomic_load(&f->ticket) & 1));    /* claimed, and nobody but the claimer comes by here */
  if (PORT_UNLIKELY(mr_tracing_any()) || !near || PORT_UNLIKELY(f->crew != NULL) || PORT_UNLIKELY(f->mode == WAIT_HOST) ||
      PORT_UNLIKELY(atomic_load_explicit(&f->state, memory_order_acquire) != FIBER_PARKED)) ready_any(f, why, near);
  else if (PORT_UNLIKELY(atomic_load_explicit(&mr_rt.live, memory_order_relaxed) > PREFETCH_FROM)) ready_far(f, why, near);
  else ready_parked(f, why, near);
}

mr_fiber *mr_ready_due(mr_fiber *f, mr_reason why) {
  if (mr_trace_on()) mr_traced_woken(f, why, 0);
  return make_ready(f, why, CREW_DUE);
}

void mr_ready_polled(mr_fiber *f, mr_worker *w) {
  if (mr_trace_on()) mr_traced_woken(f, MR_WOKEN, 0);
  if ((f = make_ready(f, MR_WOKEN, CREW_LAST)) != NULL) queue_with(w, f, 0);
}

/* A fiber that can't sit in queues itself: through its crew, if it has one. */
static void requeue(mr_fiber *f, mr_worker *w, int where) {
  if (PORT_LIKELY(!f->crew)) mr_enqueue(w, f, 0);
  else if (mr_crew_push(f, where)) mr_enqueue(w, &f->crew->token, 0);
}

/*
 * The thread of f, which yielded in order to wait: 0: it has been woken already and goes on. 1: f is not touched again, as another thread may
 * run it and end it by now; only its crew may be, which the caller runs.
 */
int mr_fiber_parked(mr_fiber *f) {
  unsigned parking = FIBER_PARKING;
  port_chaos();
  return atomic_compare_exchange_strong_explicit(&f->state, &parking, FIBER_PARKED, memory_order_acq_rel, memory_order_acquire);
}

/* ---- dispatch ---- */

static mr_fiber *take_slot(mr_worker *w) {
  mr_fiber *f = atomic_load_explicit(&w->slot, memory_order_acquire);
  if (!f) return NULL;
  mr_fiber_taken(f);
  atomic_store_explicit(&w->slot, NULL, memory_order_relaxed);
  return f;
}

/* What is due, and now and then what is ready outside. */
void mr_fire_due(mr_worker *w, int poll) {
  if (poll && atomic_load_explicit(&mr_rt.polling, memory_order_relaxed)) mr_poll(w, 0);
  uint64_t due = atomic_load_explicit(&mr_rt.next_due, memory_order_relaxed);
  if (due == UINT64_MAX) return;
  uint64_t now = port_now();
  if (due <= now) mr_timers_fire(now, w);
}

/* One of LEVEL_HIGH, unless so many of them went before that it is the others' turn. */
static PORT_NOINLINE mr_fiber *take_high(mr_worker *w) {
  mr_fiber *f = w->streak < TURNS ? mr_share_pop(LEVEL_HIGH) : NULL;
  if (f) w->streak++;
  return f;
}

/* The same, also out of the slot: it would wait there behind what find_outside finds. */
static mr_fiber *find_high(mr_worker *w) {
  mr_fiber *f = take_high(w);
  if (f || w->streak >= TURNS || (f = take_slot(w)) == NULL) return f;
  if (mr_fiber_level(f) == LEVEL_HIGH) {
    w->streak++;
    return f;
  }
  mr_fiber_placed(f);                           /* back: nobody else fills the slot, so it is empty */
  atomic_store(&w->slot, f);
  return NULL;
}

/* Others than the own queue's and the slot's. Whose turn it is keeps it while those of LEVEL_HIGH go before. */
static PORT_NOINLINE mr_fiber *find_outside(mr_thread *t, mr_worker *w, uint64_t tick) {
  mr_fiber *f;
  if (PORT_UNLIKELY(mr_replay_on)) return mr_replay_find(t, w);
  mr_fire_due(w, tick % TURNS == 0);
  if (tick % TURNS == 0) w->turn |= TURN_LOOK | TURN_LOW;
  if (PORT_UNLIKELY(atomic_load_explicit(&mr_rt.levels, memory_order_relaxed)) && (f = find_high(w)) != NULL) return f;
  unsigned turn = w->turn;
  w->turn = 0;
  if ((turn & TURN_LOW) && (f = mr_share_low(t, w)) != NULL) {
    w->turn = (unsigned char)(turn & ~(unsigned)TURN_LOW);
    return f;
  }
  if ((turn & TURN_LOOK) && (f = mr_share_look(t, w)) != NULL) return f;
  if ((f = mr_queue_take(&mr_rt.queue)) != NULL) w->served = 1;
  return f;
}

/* Neither the slot nor the own queue has any. */
static PORT_NOINLINE mr_fiber *find_elsewhere(mr_worker *w) {
  mr_fiber *f;
  mr_fire_due(w, 0);
  if ((f = take_high(w)) != NULL) return f;
  if ((f = mr_queue_take(&w->queue)) != NULL) return f;
  if ((f = mr_queue_take(&mr_rt.queue)) != NULL) return f;
  if ((f = mr_steal(w)) != NULL) return f;
  if ((f = mr_share_pop(LEVEL_NORMAL)) != NULL) return f;
  return mr_share_pop(LEVEL_LOW);
}

static inline mr_fiber *find(mr_thread *t, mr_worker *w) {
  mr_fiber *f;
  mr_worker_check(w, t);
  uint64_t tick = atomic_load_explicit(&w->tick, memory_order_relaxed);
  if (PORT_UNLIKELY(tick % TURNS == 0 || w->turn) && (f = find_outside(t, w, tick)) != NULL) return f;
  w->served = 0;
  if (PORT_UNLIKELY(mr_waiting(LEVEL_HIGH)) && (f = take_high(w)) != NULL) return f;
  if (w->streak < TURNS) {
    if ((f = take_slot(w)) != NULL) {
      w->streak++;
      return f;
    }
  }
  w->streak = 0;
  if ((f = mr_queue_take(&w->queue)) != NULL) return f;
  if ((f = take_slot(w)) != NULL) return f;
  return find_elsewhere(w);
}

mr_fiber *mr_find(mr_thread *t, mr_worker *w) { return find(t, w); }

/* ---- running ---- */

static inline void set_current(mr_thread *t, mr_fiber *f) { atomic_store_explicit(&t->current, f, memory_order_relaxed); }

static void give_to_waiter(mr_thread *t, mr_worker *w, mr_fiber *f) {
  mr_thread *waiter = f->thread;
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  t->worker = NULL;
  /* Its own before it is told: it may be back from its fiber at once, and then looks whether it still has it (leave_fiber). */
  mr_worker_leave(w, t, waiter);
  atomic_store(&waiter->given, w);
  port_event_set(&waiter->event);
}

/* The caller stops running c, which is queued if more of it is ready. */
static void leave_crew(mr_crew *c, mr_worker *w) {
  if (mr_crew_leave(c)) mr_enqueue(w, &c->token, 0);
}

/*
 * The thread is back from its fiber. 0: the monitor has given its worker to another; then it has also left the crew, before it counts as
 * gone: what is ready there must be in a queue when others look whether anything is left.
 */
static PORT_INLINE int leave_fiber(mr_thread *t, mr_worker *w, mr_crew *c) {
  if (PORT_LIKELY(mr_hold(t, w))) {
    if (PORT_UNLIKELY(t->left)) mr_run_body.recycle(w, t);
    if (PORT_UNLIKELY(t->gave_way)) {
      /* in turns, or one of the two queues would starve */
      if (t->gave_way & GAVE_WAY) w->turn = (unsigned char)((w->turn & ~(unsigned)TURN_GLOBAL) | (w->served ? 0 : TURN_GLOBAL));
      if (t->gave_way & (LONG_TURN | LENT)) mr_share_settle(t, w);
      if (!c) t->gave_way = 0;
    }
    return 1;
  }
  if (t->left) mr_run_body.recycle(NULL, t);
  t->worker = NULL;
  t->timing = t->gave_way = 0;
  if (c) leave_crew(c, NULL);
  atomic_fetch_sub(&mr_rt.ndetached, 1);
  mr_quiet_check();
  return 0;
}

static inline int run(mr_thread *t, mr_fiber *f) {
  mr_assert(atomic_load_explicit(&f->state, memory_order_relaxed) == FIBER_READY && f->thread == t && t == mr_this_thread);
  mr_assert_unlocked();
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  set_current(t, f);
  if (PORT_UNLIKELY(f->crew != NULL)) f->job->fiber = f;
  return mr_trace_on() ? mr_traced_resume(f) : mr_run_body.resume(f);
}

/* f has ended. 1: its whole job is over. */
static PORT_NOINLINE int ended(mr_thread *t, mr_fiber *f, int how) {
  int over = mr_run_body.end(t, f, how);
  set_current(t, NULL);
  if (over && PORT_UNLIKELY(t->timing)) mr_share_ended(t);
  return over;
}

/*
 * Returns the crew of its job, which the caller still runs; NULL: there is none (a parked fiber may be elsewhere by now), or no job
 * any more.
 */
static PORT_INLINE mr_crew *resume(mr_thread *t, mr_fiber *f) {
  mr_crew *c;
  int goes_on;
  f->thread = t;
  do {
    goes_on = 0;
    int how = run(t, f);
    if (PORT_UNLIKELY(t->timing)) mr_share_charge(t, f);
    if (PORT_UNLIKELY(atomic_load_explicit(&t->sampled, memory_order_relaxed))) mr_sample_charge(t, f->job);
    c = f->crew;
    if (how != BODY_YIELDS) {
      if (ended(t, f, how)) return NULL;
    } else if (f->sysyield == SYS_PARK) {
      set_current(t, NULL);
      goes_on = !mr_fiber_parked(f);          /* parked, it may be another thread's by now */
    } else {
      int gave = f->sysyield != SYS_PREEMPTED && f->sysyield != SYS_CEDED;
      set_current(t, NULL);
      t->gave_way |= GAVE_WAY;                /* or it would find itself before those in the global queue */
      /* no wait is open, so nobody else looks at the state; once queued, f may run elsewhere */
      atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
      if (gave) requeue(f, t->worker, CREW_LAST);
      else mr_share_step_back(t, f);
    }
  } while (goes_on);
  return c;
}

/* f, which the caller has found, runs until it stops. NULL or its crew, as resume. */
static PORT_INLINE mr_crew *take_turn(mr_thread *t, mr_worker *w, mr_fiber *f) {
  if (PORT_UNLIKELY(f->fresh)) mr_run_body.get(w, f);
  atomic_store_explicit(&t->poke, 0, memory_order_relaxed);
  mr_hold_end(t);
  return resume(t, f);
}

#define CREW_RUN 61                           /* so many of its fibers in a row, while others wait */

/*
 * A fiber of c has stopped: the next one, or NULL when there is none or it is others' turn; then the crew's token is
 * queued if need be. What gave way goes behind the others.
 */
static mr_fiber *next_of_crew(mr_thread *t, mr_worker *w, mr_crew *c, unsigned *row) {
  mr_fiber *f = NULL;
  if (!(t->gave_way & GAVE_WAY) && (*row)++ < CREW_RUN && !mr_share_over(c)) f = mr_crew_next(c);
  else leave_crew(c, w);
  if (!f && t->timing) mr_share_turn_over(t);
  t->gave_way = 0;
  return f;
}

/* The first of c's fibers has stopped, and t still holds its worker: others have their turns. 0: it does not hold it any more. */
static PORT_NOINLINE int run_crew(mr_thread *t, mr_crew *c) {
  unsigned row = 0;
  mr_fiber *f;
  while (c && (f = next_of_crew(t, t->worker, c, &row)) != NULL) {
    if (PORT_UNLIKELY(f->mode == WAIT_HANDOVER)) {
      give_to_waiter(t, t->worker, f);
      return 0;
    }
    c = take_turn(t, t->worker, f);
    if (!leave_fiber(t, t->worker, c)) return 0;
  }
  return 1;
}

/* 0: there is a place for it again. mr_workers_set decides by w->thread, under the same lock, whether it must start another. */
static int retire(mr_thread *t, mr_worker *w) {
  mr_runtime *r = &mr_rt;
  mr_run_body.flush(w);
  mr_moving();
  mr_fiber *f = take_slot(w);
  if (f) mr_queue_add(&w->queue, f, 0);
  port_acquire(&r->ilock);
  int stays = !atomic_load(&r->stopping) && w->id < (unsigned)atomic_load(&r->target);
  if (!stays) {
    mr_worker_rests(w);
    mr_worker_leave(w, t, NULL);
    r->nactive--;
  }
  port_unlock(&r->ilock);
  if (stays) {
    atomic_fetch_sub(&r->nmoving, 1);
    return 0;
  }
  t->worker = NULL;
  rescue(w);                                    /* after `thread` is 0: see mr_enqueue */
  mr_wake_idle();
  atomic_fetch_sub(&r->nmoving, 1);
  mr_quiet_check();
  return 1;
}

static void work(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  mr_worker *w = t->worker;
  int holds = 1;
  if (mr_trace_on()) mr_trace_worker(w->id);
  mr_share_rested(t, w);
  mr_worker_works(w);
  if (PORT_UNLIKELY(t->exact_from)) mr_sample_rest(t);
  while (holds) {
    if (PORT_UNLIKELY(atomic_load_explicit(&r->stopping, memory_order_relaxed) ||
                      w->id >= (unsigned)atomic_load_explicit(&r->target, memory_order_relaxed))) {
      if (retire(t, w)) return;
    }
    mr_fiber *f = find(t, w);
    if (PORT_UNLIKELY(!f) && (f = mr_idle(t, w)) == NULL) continue;
    atomic_store_explicit(&w->tick, atomic_load_explicit(&w->tick, memory_order_relaxed) + 1, memory_order_relaxed);
    if (PORT_UNLIKELY(mr_fiber_heed(f)) && !mr_share_heed(t, w, f)) continue;
    if (PORT_UNLIKELY(f->crew != NULL)) f = mr_crew_next(f->crew);   /* it is the token */
    if (PORT_UNLIKELY(f->mode == WAIT_HANDOVER)) {
      give_to_waiter(t, w, f);
      return;
    }
    mr_crew *c = take_turn(t, w, f);
    w = t->worker;                              /* another one, if the fiber blocked its thread meanwhile */
    holds = leave_fiber(t, w, c);
    if (PORT_UNLIKELY(c != NULL) && holds) {
      holds = run_crew(t, c);
      w = t->worker;
    }
  }
}

void mr_run_thread(void *arg) {
  mr_thread *t = arg;
  mr_this_thread = t;
  port_thread_self(&t->os);
  port_signals_allow_pipe();
  while (!atomic_load(&mr_rt.stopping)) {
    mr_worker *w = atomic_exchange(&t->given, NULL);
    if (w) {
      t->seasoned = 1;
      t->worker = w;
      work(t);
      t->worker = NULL;
    } else if (!mr_spare_wait(t)) {
      break;
    }
  }
  mr_thread_free(t);
}
