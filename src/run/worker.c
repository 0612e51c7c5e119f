/*
 * worker: threads, spares, how many workers there are, and start-up.
 *
 * Invariants.
 *  - Every thread is in one of these: holds a worker; sleeps as a spare; blocks in a WAIT_HANDOVER wait; runs a fiber
 *    although its worker was taken (counted in ndetached).
 *  - A thread gets a worker only through `given`, written by whoever made w->thread point to it.
 *  - mr_thread records are never freed while the runtime lives: the monitor may look at one at any time. `every` leads to all of them; it only grows.
 */
#include "base/rank.h"
#include "run/rt.h"
#include "run/hold.h"
#include "run/replay.h"

#include "heap/pool.h"
#include "observe/trace.h"

#include <stdlib.h>

#define KEEP_SPARES 4

static mr_thread *retired;                     /* records for reuse (idle lock) */
static _Atomic(mr_thread *) every;             /* by `every`; added to under the idle lock */

static mr_thread *record_new(void) {
  mr_thread *t = port_lines_new(mr_run_body.thread_size);
  if (!t) return NULL;
  port_acquire(&mr_rt.ilock);
  t->every = atomic_load(&every);
  atomic_store(&every, t);
  port_unlock(&mr_rt.ilock);
  return t;
}

mr_thread *mr_thread_new(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  mr_thread *t = retired;
  if (t) retired = t->next;
  port_unlock(&r->ilock);
  if (!t) t = record_new();
  if (!t) return NULL;
  t->next = NULL;
  t->listed = LIST_NONE;
  atomic_store(&t->runs, 0);
  t->seasoned = 0;                             /* of the record's last owner: it would list itself though it is reserved */
  if (!mr_run_body.equip(t)) {
    mr_thread_free(t);
    return NULL;
  }
  return t;
}

/*
 * (idle lock) The list of spares goes by `next`, as that of free records does: who leaves while all stops must not stay in it. The end of the scheduler
 * may have emptied it already (stop.c).
 */
static void unlist_spare(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  mr_thread **p = &r->spare;
  if (t->listed != LIST_SPARE) return;
  t->listed = LIST_NONE;
  while (*p && *p != t) p = &(*p)->next;
  if (!*p) return;
  *p = t->next;
  r->nspare--;
}

void mr_thread_free(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  if (t == mr_this_thread) {
    mr_trace_leave();
    mr_pool_thread_exit();
    mr_this_thread = NULL;
    atomic_store(&t->lives, 0);
    atomic_fetch_sub(&r->nthreads, 1);
  }
  port_acquire(&r->ilock);
  atomic_store_explicit(&t->current, NULL, memory_order_relaxed);
  unlist_spare(t);
  t->next = retired;
  retired = t;
  port_unlock(&r->ilock);
}

static mr_thread *thread_start(mr_worker *w) {
  mr_thread *t = mr_thread_new();
  if (!t) return NULL;
  atomic_store(&t->given, w);                    /* both before it runs: it looks at once */
  if (w) atomic_store(&w->thread, (uintptr_t)t);
  atomic_store(&t->os.id, 0);                    /* of the record's last owner */
  atomic_store(&t->os.clock, 0);
  atomic_store(&t->lives, 1);
  atomic_fetch_add(&mr_rt.nthreads, 1);
  if (port_thread_start(mr_run_thread, t, "mare-worker") != 0) {
    atomic_store(&t->lives, 0);
    atomic_fetch_sub(&mr_rt.nthreads, 1);
    if (w) mr_worker_leave(w, t, NULL);
    mr_thread_free(t);
    return NULL;
  }
  return t;
}

mr_thread *mr_threads(void) { return atomic_load(&every); }

unsigned mr_threads_runnable(unsigned *living, uint64_t *cpu) {
  unsigned runnable = 0;
  *living = 0;
  *cpu = 0;
  for (mr_thread *t = atomic_load(&every); t; t = t->every) {
    if (!atomic_load(&t->lives)) continue;
    ++*living;
    *cpu += port_thread_cpu(&t->os);
    runnable += t != mr_this_thread && port_thread_runnable(&t->os);
  }
  return runnable;
}

/* ---- spares ---- */

/* Nobody but the caller runs: all others block, or will be listed soon. Which thread is taken must not depend on how soon. */
static PORT_NOINLINE void wait_for_spares(void) {
  mr_runtime *r = &mr_rt;
  for (;;) {
    port_acquire(&r->ilock);
    int all = atomic_load(&r->nthreads) <= atomic_load(&r->nblocked) + 1 + r->nspare;
    port_unlock(&r->ilock);
    if (all) return;
    port_yield();
  }
}

mr_thread *mr_spare_get(void) {
  mr_runtime *r = &mr_rt;
  if (PORT_UNLIKELY(mr_replay_on)) wait_for_spares();
  port_acquire(&r->ilock);
  mr_thread *t = r->spare;
  if (t) {
    r->spare = t->next;
    t->listed = LIST_NONE;
    r->nspare--;
  }
  mr_idle_check();
  port_unlock(&r->ilock);
  return t ? t : thread_start(NULL);
}

/* A thread that was kept in reserve may have ended meanwhile, when all stops: its record is free, and in another list. */
void mr_spare_put(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  if (t->listed == LIST_NONE && atomic_load(&t->lives)) {
    t->listed = LIST_SPARE;
    t->next = r->spare;
    r->spare = t;
    r->nspare++;
  }
  mr_idle_check();
  port_unlock(&r->ilock);
}

/* Fresh threads come here too: whoever started one without a worker took it with mr_spare_get and gives it one soon. */
int mr_spare_wait(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  if (t->seasoned) {
    port_acquire(&r->ilock);
    int enough = r->nspare >= KEEP_SPARES && !mr_replay_on;
    port_unlock(&r->ilock);
    if (enough && !atomic_load(&t->given)) return 0;
    mr_spare_put(t);
  }
  t->seasoned = 1;
  while (!atomic_load(&t->given) && !atomic_load(&r->stopping)) port_event_wait(&t->event, UINT64_MAX);
  return 1;
}

/* ---- holding: see hold.h ---- */

int mr_hold_on(mr_thread *t, mr_worker *w) {
  uintptr_t held;
  for (unsigned turn = 0; (held = atomic_load(&w->thread)) == ((uintptr_t)t | 1); turn++) {
    if (turn < 64) port_pause();
    else port_yield();
  }
  return held == (uintptr_t)t;
}

int mr_worker_seize(mr_worker *w, mr_thread *t) {
  uintptr_t held = (uintptr_t)t;
  port_chaos();
  if (!atomic_compare_exchange_strong(&w->thread, &held, (uintptr_t)t | 1)) return 0;
  port_seldom_stored();
  port_chaos();
  if (atomic_load(&t->runs)) return 1;
  mr_worker_pass(w, t);
  return 0;
}

void mr_worker_leave(mr_worker *w, mr_thread *t, mr_thread *next) {
  uintptr_t held = (uintptr_t)t;
  while (!atomic_compare_exchange_strong(&w->thread, &held, (uintptr_t)next)) {   /* somebody is about to find that t runs none */
    held = (uintptr_t)t;
    port_pause();
  }
}

int mr_slot_take(mr_worker *w, mr_fiber *f) {
  mr_thread *t = mr_worker_thread(w);
  if (!t || !mr_worker_seize(w, t)) return 0;
  int there = atomic_load(&w->slot) == f;
  if (there) {
    mr_fiber_taken(f);
    atomic_store_explicit(&w->slot, NULL, memory_order_relaxed);
  }
  mr_worker_pass(w, t);
  return there;
}

/*
 * Only from a thread that runs a fiber: otherwise it is between two fibers, and holds what it has found. Several may try at once - the
 * monitor, `from` itself as it blocks or comes back (leave_fiber) - and one succeeds; `to` believes it only when it finds it in `given`.
 */
int mr_worker_take(mr_worker *w, mr_thread *from, mr_thread *to) {
  if (from == mr_this_thread) {
    int holds = mr_hold(from, w);
    if (holds) mr_worker_leave(w, from, to);
    mr_hold_end(from);                           /* it goes on with its fiber, without a worker */
    if (!holds) return 0;
  } else {
    if (!mr_worker_seize(w, from)) return 0;
    mr_worker_pass(w, to);
  }
  atomic_store(&to->given, w);
  port_event_set(&to->event);
  return 1;
}

/* ---- how many ---- */

int mr_workers_get(void) {
  if (mr_replay_on) return mr_replay_workers(0);
  int n = atomic_load(&mr_rt.target);
  return n ? n : port_cpus();
}

static port_lock setting = PORT_LOCK(MR_RANK_WORKERS);   /* one mr_workers_set at a time */

static int activate(mr_worker *w) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);                      /* under which retire() decides, by the target that has been set already */
  if (atomic_load(&w->thread) != 0) {          /* it was told to retire and has not yet */
    port_unlock(&r->ilock);
    return MR_OK;
  }
  r->nactive++;
  if (w->id >= r->nused) r->nused = w->id + 1;
  port_unlock(&r->ilock);
  if (!w->rng) w->rng = (unsigned)port_entropy() | 1;
  if (thread_start(w)) return MR_OK;
  port_acquire(&r->ilock);
  r->nactive--;
  port_unlock(&r->ilock);
  return MR_ETHREAD;
}

/* A worker that was told to retire and has not yet simply stays. Retiring workers do so when their
   fiber next stops; the monitor sees to it that that is soon. */
static int set(int n) {
  mr_runtime *r = &mr_rt;
  int err = MR_OK;
  port_acquire(&setting);
  int old = atomic_load(&r->target);
  if (!atomic_load(&r->started)) {             /* before start-up it is only noted */
    atomic_store(&r->target, n);
  } else if (n < old) {
    atomic_store(&r->target, n);
    mr_wake_all_idle();
  } else {
    for (int i = old; i < n && !err; i++) {
      mr_worker *w = &r->worker[i];
      atomic_store(&r->target, i + 1);
      if ((err = activate(w)) != MR_OK) atomic_store(&r->target, i);
    }
  }
  port_unlock(&setting);
  return err;
}

int mr_workers_set(int n) {
  if (n < 1) n = 1;
  if (n > MR_MAX_WORKERS) n = MR_MAX_WORKERS;
  if (mr_replay_on) return mr_replay_workers(n), MR_OK;
  return set(n);
}

/* ---- start-up ---- */

static void init(mr_runtime *r) {
  static int done;
  if (done) return;
  done = 1;
  for (unsigned i = 0; i < MR_MAX_WORKERS; i++) r->worker[i].id = i;
  atomic_store(&r->next_due, UINT64_MAX);
  const char *spares = getenv("MARE_SPARES"), *quantum = getenv("MARE_QUANTUM");
  long ms = quantum ? strtol(quantum, NULL, 10) : 0;
  long most = spares ? strtol(spares, NULL, 10) : 0;
  r->max_blocked = most > 0 ? (unsigned)most : 1000;
  r->quantum = (uint64_t)(ms > 0 ? ms : 10) * 1000000u;
  r->cpus = port_cpus();
}

int mr_run_start(void) {
  mr_runtime *r = &mr_rt;
  init(r);
  port_fences_init();
  int n = atomic_load(&r->target);
  if (n == 0) n = r->cpus > MR_MAX_WORKERS ? MR_MAX_WORKERS : r->cpus;
  atomic_store(&r->target, 0);
  int err = mr_replay_on ? MR_OK : mr_monitor_start();   /* nothing is interrupted there */
  if (err) return err;
  uint64_t now = port_now();
  atomic_store(&r->began, now);
  for (int i = 0; i < MR_MAX_WORKERS; i++) {
    atomic_store(&r->worker[i].rested, 0);
    atomic_store(&r->worker[i].rests_since, now);
  }
  if (mr_replay_on) {
    n = 1;
    r->worker[0].turn |= TURN_REPLAY;
  }
  atomic_store(&r->started, 1);
  err = set(n);
  return err && atomic_load(&r->target) > 0 ? MR_OK : err;   /* fewer than asked for will do */
}

int mr_run_started(void) { return atomic_load(&mr_rt.started); }
