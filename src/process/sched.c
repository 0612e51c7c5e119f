/*
 * sched: run queues, stealing, the hand-over slot, and how a worker finds its next fiber.
 *
 * Invariants.
 *  - A fiber is in at most one place: a run queue, a slot, or on a thread; only a READY fiber is in a queue or slot.
 *  - A push makes `count` visible (seq_cst) before it reads `nidle`; a worker makes itself visible in `nidle` before it
 *    looks at the counts for the last time. So a pushed fiber is seen by one of the two and no wake-up is lost.
 *  - Slots wake nobody: what sits in one is the next to run on its own worker. One that stays there too long, because its
 *    worker computes, is taken by the watcher (worker.c) or the monitor (preempt.c).
 *  - Fields marked (holder) are touched only by the thread that holds the worker and runs no fiber.
 *
 * Longer than other files: queues, dispatch and idling share these invariants, and are inlined into each other on the way of a message.
 */
#include "process/rt.h"
#include "process/crew.h"

#include <stdlib.h>

mr_runtime mr_rt;
PORT_TLS mr_thread *mr_tls;

#define TURNS 61                     /* every so many dispatches: timers, the global queue and the own queue's head first */

/* ---- queues ---- */

static void queue_push(mr_worker *w, mr_fiber *f, int front) {
  port_acquire(&w->lock);
  if (front) {
    f->next = w->head;
    w->head = f;
    if (!w->tail) w->tail = f;
  } else {
    f->next = NULL;
    if (w->tail) w->tail->next = f;
    else w->head = f;
    w->tail = f;
  }
  unsigned n = atomic_load_explicit(&w->count, memory_order_relaxed);
  atomic_store(&w->count, n + 1);
  port_unlock(&w->lock);
}

static mr_fiber *queue_pop(mr_worker *w) {
  if (atomic_load_explicit(&w->count, memory_order_relaxed) == 0) return NULL;
  port_acquire(&w->lock);
  mr_fiber *f = w->head;
  if (f) {
    w->head = f->next;
    if (!w->head) w->tail = NULL;
    unsigned n = atomic_load_explicit(&w->count, memory_order_relaxed);
    atomic_store_explicit(&w->count, n - 1, memory_order_relaxed);
  }
  port_unlock(&w->lock);
  return f;
}

static void global_push(mr_fiber *f, int front) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->qlock);
  if (front) {
    f->next = r->qhead;
    r->qhead = f;
    if (!r->qtail) r->qtail = f;
  } else {
    f->next = NULL;
    if (r->qtail) r->qtail->next = f;
    else r->qhead = f;
    r->qtail = f;
  }
  atomic_store(&r->qcount, atomic_load_explicit(&r->qcount, memory_order_relaxed) + 1);
  port_unlock(&r->qlock);
}

static mr_fiber *global_pop(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load_explicit(&r->qcount, memory_order_relaxed) == 0) return NULL;
  port_acquire(&r->qlock);
  mr_fiber *f = r->qhead;
  if (f) {
    r->qhead = f->next;
    if (!r->qhead) r->qtail = NULL;
    atomic_store_explicit(&r->qcount, atomic_load_explicit(&r->qcount, memory_order_relaxed) - 1, memory_order_relaxed);
  }
  port_unlock(&r->qlock);
  return f;
}

/* Takes half of the victim's queue, in order; the first is returned, the rest goes to w's queue. */
static mr_fiber *queue_steal(mr_worker *w, mr_worker *victim) {
  unsigned n = atomic_load_explicit(&victim->count, memory_order_relaxed);
  if (n == 0 || !port_trylock(&victim->lock)) return NULL;
  n = atomic_load_explicit(&victim->count, memory_order_relaxed);
  mr_fiber *first = victim->head, *last = first;
  if (!first) {
    port_unlock(&victim->lock);
    return NULL;
  }
  unsigned take = (n + 1) / 2;
  for (unsigned i = 1; i < take; i++) last = last->next;
  victim->head = last->next;
  if (!victim->head) victim->tail = NULL;
  atomic_store_explicit(&victim->count, n - take, memory_order_relaxed);
  port_unlock(&victim->lock);
  if (take > 1) {
    port_acquire(&w->lock);
    last->next = NULL;
    if (w->tail) w->tail->next = first->next;
    else w->head = first->next;
    w->tail = last;
    atomic_store(&w->count, atomic_load_explicit(&w->count, memory_order_relaxed) + take - 1);
    port_unlock(&w->lock);
  }
  return first;
}

static unsigned next_random(mr_worker *w) {
  w->rng ^= w->rng << 13;
  w->rng ^= w->rng >> 17;
  return w->rng ^= w->rng << 5;
}

static mr_fiber *steal(mr_worker *w) {
  unsigned n = (unsigned)atomic_load_explicit(&mr_rt.target, memory_order_relaxed);
  if (n < 2) return NULL;
  unsigned at = next_random(w) % n;
  for (unsigned i = 0; i < n; i++, at = at + 1 == n ? 0 : at + 1) {
    if (at == w->id) continue;
    mr_fiber *f = queue_steal(w, &mr_rt.worker[at]);
    if (f) return f;
  }
  return NULL;
}

int mr_anything_queued(void) {
  if (atomic_load(&mr_rt.qcount)) return 1;
  for (int i = 0, n = atomic_load(&mr_rt.target); i < n; i++)
    if (atomic_load(&mr_rt.worker[i].count)) return 1;
  return 0;
}

/* ---- waking ---- */

void mr_wake_idle(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nidle) == 0 || atomic_load(&r->nspinning) != 0) return;
  port_acquire(&r->ilock);
  mr_thread *t = atomic_load(&r->nspinning) == 0 ? r->idle : NULL;
  if (t) {
    r->idle = t->next;
    t->listed = LIST_NONE;
    atomic_fetch_sub(&r->nidle, 1);
    atomic_fetch_add(&r->nspinning, 1);       /* on its behalf: nobody need wake another for what is queued now */
  }
  port_unlock(&r->ilock);
  if (!t) return;
  port_event_set(&t->event);
  mr_monitor_resume();
}

/* Somebody queued with a worker that has retired in between: nobody would look there. */
static PORT_NOINLINE void rescue(mr_worker *w) {
  mr_fiber *f;
  while ((f = queue_pop(w)) != NULL || (f = atomic_exchange(&w->slot, NULL)) != NULL) global_push(f, 0);
}

void mr_enqueue(mr_worker *w, mr_fiber *f, int front) {
  if (w) {
    queue_push(w, f, front);
    if (PORT_UNLIKELY(atomic_load(&w->thread) == 0)) rescue(w);
  } else {
    global_push(f, front);
  }
  mr_wake_idle();
}

/*
 * A woken fiber runs next on the worker of who woke it; what sat there waits in the queue. Only the worker's holder may
 * fill the slot: the holder always looks there before it sleeps. A thread whose worker is taken away in this moment
 * sees so afterwards and empties it.
 */
static void hand_over(mr_thread *t, mr_fiber *f) {
  mr_worker *w = t->worker;
  uintptr_t mine = (uintptr_t)t | 1;
  if (!w || PORT_UNLIKELY(atomic_load_explicit(&w->thread, memory_order_relaxed) != mine)) {
    mr_enqueue(NULL, f, 0);
    return;
  }
  port_chaos();
  mr_fiber *old = atomic_exchange(&w->slot, f);
  if (PORT_UNLIKELY(atomic_load(&w->thread) != mine)) {
    rescue(w);
    mr_wake_idle();
  }
  if (old) mr_enqueue(w, old, 0);
}

/*
 * The claimer's last step. Returns what is to be queued: f, the token of its crew if that was idle, or NULL: a host's thread has been told,
 * or f's own thread still unwinds and will see it.
 */
static inline mr_fiber *make_ready(mr_fiber *f, mr_reason why, int where) {
  mr_thread *host = f->mode == WAIT_HOST ? f->thread : NULL;   /* read now: once READY, f may go its way and end */
  f->reason = (unsigned char)why;
  port_chaos();
  unsigned was = atomic_load_explicit(&f->state, memory_order_acquire);
  /* whoever claimed a fiber that is PARKED is the only one who can change that */
  if (PORT_LIKELY(was == FIBER_PARKED)) atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
  else was = atomic_exchange_explicit(&f->state, FIBER_READY, memory_order_acq_rel);
  if (host) {
    port_event_set(&host->event);
    return NULL;
  }
  if (was != FIBER_PARKED) return NULL;
  mr_crew *c = f->crew;
  if (PORT_LIKELY(!c)) return f;
  return mr_crew_push(f, where) ? &c->token : NULL;
}

void mr_ready(mr_fiber *f, mr_reason why, mr_fiber *near) {
  if ((f = make_ready(f, why, CREW_LAST)) == NULL) return;
  if (atomic_load_explicit(&mr_rt.live, memory_order_relaxed) > MR_PREFETCH_FROM && !f->crew) mr_state_prefetch(f);
  if (near) hand_over(near->thread, f);
  else mr_enqueue(NULL, f, 0);
}

mr_fiber *mr_ready_due(mr_fiber *f, mr_reason why) { return make_ready(f, why, CREW_FIRST); }

void mr_ready_polled(mr_fiber *f, mr_worker *w) {
  if ((f = make_ready(f, MR_WOKEN, CREW_LAST)) == NULL) return;
  if (!w) {
    global_push(f, 0);
    return;
  }
  queue_push(w, f, 0);
  if (PORT_UNLIKELY(atomic_load(&w->thread) == 0)) rescue(w);
}

/* A fiber that can't sit in queues itself: through its crew, if it has one. */
static void requeue(mr_fiber *f, mr_worker *w, int where) {
  if (PORT_LIKELY(!f->crew)) mr_enqueue(w, f, 0);
  else if (mr_crew_push(f, where)) mr_enqueue(w, &f->crew->token, 0);
}

/* The thread of f, which yielded in order to wait: 0: it has been woken already and goes on. */
int mr_fiber_parked(mr_fiber *f) {
  unsigned parking = FIBER_PARKING;
  port_chaos();
  return atomic_compare_exchange_strong_explicit(&f->state, &parking, FIBER_PARKED, memory_order_acq_rel, memory_order_acquire);
}

/* ---- dispatch ---- */

static mr_fiber *take_slot(mr_worker *w) {
  if (!atomic_load_explicit(&w->slot, memory_order_relaxed)) return NULL;
  return atomic_exchange_explicit(&w->slot, NULL, memory_order_acq_rel);
}

/* What is due, and now and then what is ready outside. */
static void fire_due(mr_worker *w, int poll) {
  if (poll && atomic_load_explicit(&mr_rt.polling, memory_order_relaxed)) mr_poll(w, 0);
  uint64_t due = atomic_load_explicit(&mr_rt.next_due, memory_order_relaxed);
  if (due == UINT64_MAX) return;
  uint64_t now = port_now();
  if (due <= now) mr_timers_fire(now, w);
}

static mr_fiber *find(mr_worker *w) {
  mr_fiber *f;
  unsigned tick = atomic_load_explicit(&w->tick, memory_order_relaxed);
  if (PORT_UNLIKELY(tick % TURNS == 0 || w->turn)) {
    fire_due(w, !w->turn);
    w->turn = 0;
    if ((f = global_pop()) != NULL) {
      w->served = 1;
      return f;
    }
  }
  w->served = 0;
  if (w->streak < TURNS) {
    if ((f = take_slot(w)) != NULL) {
      w->streak++;
      return f;
    }
  }
  w->streak = 0;
  if ((f = queue_pop(w)) != NULL) return f;
  if ((f = take_slot(w)) != NULL) return f;
  fire_due(w, 0);
  if ((f = queue_pop(w)) != NULL) return f;
  if ((f = global_pop()) != NULL) return f;
  return steal(w);
}

/* ---- idling ---- */

static uint64_t watch_interval(unsigned round) {
  uint64_t us = round < 20 ? 50 : round < 40 ? 200 : 2000;
  return us * 1000;
}

/* Takes a fiber out of a slot whose worker has not dispatched since the last look. */
static mr_fiber *take_stale(mr_worker *w) {
  for (int i = 0, n = atomic_load(&mr_rt.target); i < n; i++) {
    mr_worker *v = &mr_rt.worker[i];
    if (v == w) continue;
    unsigned tick = atomic_load_explicit(&v->tick, memory_order_relaxed);
    mr_fiber *f = atomic_load_explicit(&v->slot, memory_order_relaxed);
    unsigned at = (unsigned)i % MR_WATCHED;
    if (f && f == w->watched[at].slot && tick == w->watched[at].tick && atomic_compare_exchange_strong(&v->slot, &f, NULL))
      return f;
    w->watched[at].slot = f;
    w->watched[at].tick = tick;
  }
  return NULL;
}

/*
 * Waking a sleeping thread takes 50 to 100 us here, so two threads that answer each other must not fall asleep in turn: each would
 * find the other asleep for ever. Who was woken soon after it slept spins longer than that next time; who slept long, less.
 */
void mr_learn_patience(mr_thread *t, uint64_t waited) {
  const uint64_t most = 200000, least = 5000;
  uint64_t p = waited < most ? t->patience * 2 : t->patience / 2;
  t->patience = p > most ? most : p < least ? least : p;
}

/*
 * Whom we wait for may be waiting for this CPU. The system likes to wake a thread where its waker runs; a host and the worker that answers
 * it then take turns on one CPU for ever, while others idle.
 */
static void share_cpu(mr_worker *w) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nhosts) && atomic_load_explicit(&r->host_cpu, memory_order_relaxed) == port_cpu()) {
    uint64_t now = port_now();
    if (now - w->moved > 5000000u) {
      w->moved = now;
      port_thread_elsewhere();
      return;
    }
  }
  port_yield();
}

static mr_fiber *spin(mr_worker *w, uint64_t patience) {
  mr_runtime *r = &mr_rt;
  if (r->cpus < 2 || (atomic_load(&r->target) < 2 && r->nhosts == 0)) return NULL;
  /* never so many that they take the CPU of who has work to hand out */
  if (2 * (atomic_load(&r->nspinning) + 1) > (unsigned)r->cpus) return NULL;
  atomic_fetch_add(&r->nspinning, 1);
  uint64_t end = port_now() + patience;
  mr_fiber *f = NULL;
  unsigned round = 0;
  do {
    for (int i = 0; i < 16 && !f; i++) {
      port_pause();
      if ((f = global_pop()) == NULL) f = steal(w);
    }
    if (!f && ++round % 4 == 0 && atomic_load_explicit(&r->polling, memory_order_relaxed) && mr_poll(w, 1)) f = queue_pop(w);
    if (!f && round > 6) share_cpu(w);
  } while (!f && port_now() < end && !atomic_load_explicit(&r->stopping, memory_order_relaxed));
  atomic_fetch_sub(&r->nspinning, 1);
  return f;
}

static void enter_idle_list(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  t->next = r->idle;
  r->idle = t;
  t->listed = LIST_IDLE;
  atomic_fetch_add(&r->nidle, 1);
  port_unlock(&r->ilock);
}

static void leave_idle_list(mr_thread *t, int *spinning) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  if (t->listed == LIST_IDLE) {
    mr_thread **p = &r->idle;
    while (*p != t) p = &(*p)->next;
    *p = t->next;
    t->listed = LIST_NONE;
    atomic_fetch_sub(&r->nidle, 1);
  } else {
    *spinning = 1;                            /* somebody woke us and counted us */
  }
  int watched = r->watcher == t;
  if (watched) r->watcher = NULL;
  port_unlock(&r->ilock);
  if (watched) mr_watcher_left();
}

/*
 * No successor is woken: that would cost each event outside a thread's wake-up. The monitor sees to timers and descriptors until a worker
 * idles again.
 */
void mr_watcher_left(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->next_due) != UINT64_MAX || atomic_load_explicit(&r->polling, memory_order_relaxed)) mr_monitor_resume();
}

/* Until when this thread may sleep; it becomes the watcher if there is none. *watches: it is. */
static uint64_t sleep_until(mr_thread *t, unsigned round, int *watches) {
  mr_runtime *r = &mr_rt;
  uint64_t until = UINT64_MAX;
  port_acquire(&r->ilock);
  if (!r->watcher) r->watcher = t;
  *watches = r->watcher == t;
  if (*watches) {
    until = atomic_load(&r->next_due);
    if (atomic_load(&r->nidle) < r->nactive) {
      uint64_t watch = port_now() + watch_interval(round);
      if (watch < until) until = watch;
    }
    t->until = until;                         /* a timer set later than this pokes us */
  }
  port_unlock(&r->ilock);
  return until;
}

/* Sleeps in the idle list. NULL: look again. *spinning: the caller is counted in nspinning. */
static mr_fiber *sleep_idle(mr_thread *t, mr_worker *w, int *spinning) {
  mr_runtime *r = &mr_rt;
  mr_fiber *f = NULL;
  int moving = 0;
  enter_idle_list(t);
  for (unsigned round = 0;; round++) {
    if (mr_anything_queued() || atomic_load(&r->stopping) || w->id >= (unsigned)atomic_load(&r->target)) break;
    mr_quiet_check();
    unsigned polled = 0;
    int set, watches;
    uint64_t until = sleep_until(t, round, &watches);
    if (watches && atomic_load(&r->polling)) {
      set = mr_poll_wait(&t->event, until, w, &polled);
    } else {
      set = port_event_wait(&t->event, until);
      atomic_fetch_add(&r->nmoving, 1);
    }
    moving = 1;
    if (set || polled) break;
    uint64_t now = port_now();
    if (atomic_load(&r->next_due) <= now && mr_timers_fire(now, w)) break;
    if ((f = take_stale(w)) != NULL) break;
    atomic_fetch_sub(&r->nmoving, 1);
    moving = 0;
  }
  leave_idle_list(t, spinning);
  if (moving) atomic_fetch_sub(&r->nmoving, 1);
  return f;
}

/* The next fiber, sleeping until there is one or something else to see to (NULL). */
static mr_fiber *next_fiber(mr_thread *t, mr_worker *w) {
  int spinning = 0;
  mr_fiber *f = find(w);
  if (PORT_LIKELY(f != NULL)) return f;
  uint64_t begun = port_now();
  if ((f = spin(w, t->patience)) == NULL) f = sleep_idle(t, w, &spinning);
  if (!f) f = find(w);
  if (spinning) atomic_fetch_sub(&mr_rt.nspinning, 1);
  if (f) mr_learn_patience(t, port_now() - begun);
  /* pushes may have counted on us while we looked */
  if (f && mr_anything_queued()) mr_wake_idle();
  return f;
}

/* ---- running ---- */

static inline void set_current(mr_thread *t, mr_fiber *f) { atomic_store_explicit(&t->current, f, memory_order_relaxed); }

static void give_to_waiter(mr_thread *t, mr_worker *w, mr_fiber *f) {
  mr_thread *waiter = f->thread;
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  t->worker = NULL;
  atomic_store(&w->thread, (uintptr_t)waiter | 1);
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
static int leave_fiber(mr_thread *t, mr_worker *w, mr_crew *c) {
  uintptr_t mine = (uintptr_t)t | 1;
  set_current(t, NULL);
  if (PORT_LIKELY(atomic_compare_exchange_strong(&w->thread, &mine, (uintptr_t)t))) {
    if (PORT_UNLIKELY(t->ended.heap != NULL)) mr_state_recycle(w, &t->ended);
    if (PORT_UNLIKELY(t->gave_way)) w->turn = !w->served;   /* in turns, or one of the two queues would starve */
    return 1;
  }
  if (t->ended.heap) mr_state_recycle(NULL, &t->ended);
  t->worker = NULL;
  if (c) leave_crew(c, NULL);
  atomic_fetch_sub(&mr_rt.ndetached, 1);
  mr_quiet_check();
  return 0;
}

/* f begins or goes on, until it stops: mr_crew_resume does what more than one fiber in a process needs. */
static inline int run(mr_thread *t, mr_fiber *f, int nargs, int *nres) {
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  f->top_ok = 1;
  f->top = f->L;
  set_current(t, f);
  if (PORT_UNLIKELY(f->crew != NULL)) return mr_crew_resume(f, nargs, nres);
  f->sysyield = SYS_NONE;
  return lua_resume(f->L, NULL, nargs, nres);
}

/*
 * Returns the crew of its process, which the caller still runs; NULL: there is none (a parked fiber may be elsewhere by now), or no process
 * any more.
 */
static mr_crew *resume(mr_thread *t, mr_fiber *f) {
  mr_proc *p = f->proc;
  mr_crew *c;
  int nargs = 0, nres = 0, goes_on;
  f->thread = t;
  if (PORT_UNLIKELY(atomic_load_explicit(&p->status, memory_order_relaxed) == PROC_NEW)) {
    set_current(t, f);
    f->top = f->L;
    atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
    if (!mr_proc_begin(t, p, &nargs)) return NULL;
  }
  do {
    goes_on = 0;
    int status = run(t, f, nargs, &nres);
    nargs = 0;
    c = f->crew;
    if (status != LUA_YIELD) {
      if (!c) {
        mr_proc_end(t, p, status, nres);
        return NULL;
      }
      if (mr_crew_ended(t, f, status, nres)) return NULL;
      set_current(t, NULL);
    } else if (f->sysyield == SYS_PARK) {
      set_current(t, NULL);
      goes_on = !mr_fiber_parked(f);
    } else {
      int preempted = f->sysyield == SYS_PREEMPTED;
      set_current(t, NULL);
      t->gave_way = 1;                        /* or it would find itself before those in the global queue */
      atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
      /* What had a whole quantum goes to the global queue: busy workers never steal, and long queues even out there. */
      requeue(f, preempted ? NULL : t->worker, preempted ? CREW_INTERRUPTED : CREW_LAST);
    }
  } while (goes_on);
  return c;
}

#define CREW_RUN 61                           /* so many of its fibers in a row, while others wait */

/*
 * The process of f, which has stopped: the next of its fibers, or NULL when there is none or it is others' turn; then the process is
 * queued if need be. What gave way goes behind the others.
 */
static mr_fiber *next_of_crew(mr_thread *t, mr_worker *w, mr_crew *c, unsigned *row) {
  if (!t->gave_way && (*row)++ < CREW_RUN) {
    mr_fiber *f = mr_crew_next(c);
    if (f) atomic_store_explicit(&w->tick, atomic_load_explicit(&w->tick, memory_order_relaxed) + 1, memory_order_relaxed);
    return f;
  }
  leave_crew(c, t->gave_way ? NULL : w);
  return NULL;
}

/* 0: there is a place for it again. mr_workers_set decides by w->thread, under the same lock, whether it must start another. */
static int retire(mr_thread *t, mr_worker *w) {
  mr_runtime *r = &mr_rt;
  mr_state_flush(w);
  atomic_fetch_add(&r->nmoving, 1);
  port_acquire(&r->ilock);
  int stays = !atomic_load(&r->stopping) && w->id < (unsigned)atomic_load(&r->target);
  if (!stays) {
    atomic_store(&w->thread, 0);
    r->nactive--;
  }
  port_unlock(&r->ilock);
  if (stays) {
    atomic_fetch_sub(&r->nmoving, 1);
    return 0;
  }
  t->worker = NULL;
  rescue(w);
  mr_wake_idle();
  atomic_fetch_sub(&r->nmoving, 1);
  mr_quiet_check();
  return 1;
}

static void work(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  mr_worker *w = t->worker;
  int holds = 1;
  while (holds) {
    if (PORT_UNLIKELY(atomic_load_explicit(&r->stopping, memory_order_relaxed) ||
                      w->id >= (unsigned)atomic_load_explicit(&r->target, memory_order_relaxed))) {
      if (retire(t, w)) return;
    }
    mr_fiber *f = next_fiber(t, w);
    if (!f) continue;
    atomic_store_explicit(&w->tick, atomic_load_explicit(&w->tick, memory_order_relaxed) + 1, memory_order_relaxed);
    if (PORT_UNLIKELY(f->crew != NULL)) f = mr_crew_next(f->crew);
    unsigned row = 0;
    do {
      if (PORT_UNLIKELY(f->mode == WAIT_HANDOVER)) {
        give_to_waiter(t, w, f);
        return;
      }
      if (PORT_UNLIKELY(!f->L)) mr_state_get(w, f->proc);   /* fails: mr_proc_begin sees it */
      atomic_store_explicit(&t->poke, 0, memory_order_relaxed);
      atomic_store_explicit(&w->thread, (uintptr_t)t | 1, memory_order_release);
      mr_crew *c = resume(t, f);
      w = t->worker;                            /* another one, if the fiber blocked its thread meanwhile */
      holds = leave_fiber(t, w, c);
      f = PORT_UNLIKELY(c != NULL) && holds ? next_of_crew(t, w, c, &row) : NULL;
      t->gave_way = 0;
    } while (f);
  }
}

void mr_run_thread(void *arg) {
  mr_thread *t = arg;
  mr_tls = t;
  port_thread_self(&t->os);
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
