/*
 * idle: workers without work: stealing, spinning, sleeping, and waking them.
 *
 * Invariants.
 *  - `nidle` counts the threads in the idle list; each of them holds a worker and is in nothing's way: it looks at all counts once more after
 *    it has entered the list, and sleeps only then. See sched.c for the other half.
 *  - `nspinning` counts those that look for work: whoever queues something wakes nobody while it is not 0. So who stops looking lowers it
 *    first and then looks again (mr_idle).
 *  - The watcher is one of the idle threads: it wakes for the earliest timer, for descriptors, and to look after slots.
 */
#include "observe/trace.h"
#include "run/rt.h"
#include "run/hold.h"
#include "run/replay.h"

/* ---- others' work ---- */

static unsigned next_random(mr_worker *w) {
  w->rng ^= w->rng << 13;
  w->rng ^= w->rng >> 17;
  return w->rng ^= w->rng << 5;
}

mr_fiber *mr_steal(mr_worker *w) {
  unsigned n = (unsigned)atomic_load_explicit(&mr_rt.target, memory_order_relaxed);
  if (n < 2) return NULL;
  unsigned at = next_random(w) % n;
  for (unsigned i = 0; i < n; i++, at = at + 1 == n ? 0 : at + 1) {
    if (at == w->id) continue;
    mr_fiber *f = mr_queue_steal(&w->queue, &mr_rt.worker[at].queue);
    if (!f) continue;
    atomic_store_explicit(&w->steals, atomic_load_explicit(&w->steals, memory_order_relaxed) + 1, memory_order_relaxed);
    return f;
  }
  return NULL;
}

int mr_anything_queued(void) {
  if (atomic_load(&mr_rt.queue.count)) return 1;
  for (int i = 0; i < NLEVELS; i++)
    if (atomic_load(&mr_rt.busy[i].count)) return 1;
  for (int i = 0, n = atomic_load(&mr_rt.target); i < n; i++)
    if (atomic_load(&mr_rt.worker[i].queue.count)) return 1;
  return 0;
}

/* ---- waking ---- */

void mr_wake_idle(void) {
  mr_runtime *r = &mr_rt;
  /* Who is counted as spinning lowers the count before its last look (mr_idle, sleep_idle): it sees what is queued by now. */
  if (atomic_load(&r->nidle) == 0 || atomic_load(&r->nspinning) != 0) return;
  port_acquire(&r->ilock);
  mr_thread *t = atomic_load(&r->nspinning) == 0 ? r->idle : NULL;   /* again: another push may just have woken one */
  if (t) {
    r->idle = t->next;
    t->listed = LIST_NONE;
    atomic_fetch_sub(&r->nidle, 1);
    atomic_fetch_add(&r->nspinning, 1);       /* on its behalf: nobody need wake another for what is queued now */
  }
  mr_idle_check();
  port_unlock(&r->ilock);
  if (!t) return;
  port_event_set(&t->event);                    /* it may be awake by itself: then its next sleep ends at once, and it looks again */
  mr_monitor_resume();
}

void mr_wake_all_idle(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  for (mr_thread *t = r->idle; t; t = t->next) port_event_set(&t->event);
  for (mr_thread *t = atomic_load(&r->stopping) ? r->spare : NULL; t; t = t->next) port_event_set(&t->event);
  port_unlock(&r->ilock);
}

/* ---- slots that are left ---- */

static uint64_t watch_interval(unsigned round) {
  uint64_t us = round < 20 ? 50 : round < 40 ? 200 : 2000;
  return us * 1000;
}

/* Takes a fiber out of a slot whose worker has not dispatched since the last look. */
static mr_fiber *take_stale(mr_worker *w) {
  for (int i = 0, n = atomic_load(&mr_rt.target); i < n; i++) {
    mr_worker *v = &mr_rt.worker[i];
    if (v == w) continue;
    uint64_t tick = atomic_load_explicit(&v->tick, memory_order_relaxed);
    mr_fiber *f = atomic_load_explicit(&v->slot, memory_order_relaxed);
    unsigned at = (unsigned)i % MR_WATCHED;
    if (f && f == w->watched[at].slot && tick == w->watched[at].tick && mr_slot_take(v, f)) return f;
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

/* What others have queued, in the order of mr_find. */
static mr_fiber *look_around(mr_worker *w) {
  mr_fiber *f;
  if ((f = mr_share_pop(LEVEL_HIGH)) != NULL || (f = mr_queue_take(&mr_rt.queue)) != NULL || (f = mr_steal(w)) != NULL) return f;
  return (f = mr_share_pop(LEVEL_NORMAL)) != NULL ? f : mr_share_pop(LEVEL_LOW);
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
      f = look_around(w);
    }
    if (!f && ++round % 4 == 0 && atomic_load_explicit(&r->polling, memory_order_relaxed) && mr_poll(w, 1)) f = mr_queue_take(&w->queue);
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
  mr_assert(t->listed == LIST_NONE && t == mr_this_thread);
  t->listed = LIST_IDLE;
  atomic_fetch_add(&r->nidle, 1);
  mr_idle_check();
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
    *spinning = 1;                            /* a push took us out and counted us; its event may come later and end our next sleep */
  }
  int watched = r->watcher == t;
  if (watched) r->watcher = NULL;
  mr_idle_check();
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
  enter_idle_list(t);                           /* from now on pushes see us; those that did not are seen by the look that follows */
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

/* The caller has found nothing: see mr_find. */
mr_fiber *mr_idle(mr_thread *t, mr_worker *w) {
  int spinning = 0;
  mr_fiber *f = NULL;
  while (PORT_UNLIKELY(mr_replay_on) && mr_replay_idle())
    if ((f = mr_find(t, w)) != NULL) return f;
  uint64_t begun = port_now();
  mr_worker_rests(w);
  if (mr_trace_on()) mr_trace_idle();
  f = spin(w, t->patience);
  if (!f) f = sleep_idle(t, w, &spinning);
  if (!f) f = mr_find(t, w);
  mr_share_rested(t, w);
  /* Lowered before the last look: a push that still saw it raised woke nobody, and is visible by now. Without an f we come back here. */
  if (spinning) atomic_fetch_sub(&mr_rt.nspinning, 1);
  if (f) mr_learn_patience(t, port_now() - begun);
  mr_worker_works(w);
  if (PORT_UNLIKELY(t->exact_from)) mr_sample_rest(t);
  /* pushes may have counted on us while we looked */
  if (f && mr_anything_queued()) mr_wake_idle();
  return f;
}
