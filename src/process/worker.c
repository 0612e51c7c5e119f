/*
 * worker: threads, spares, how many workers there are, and start-up.
 *
 * Invariants.
 *  - Every thread is in one of these: holds a worker; sleeps as a spare; blocks in a WAIT_HANDOVER wait; runs a fiber
 *    although its worker was taken (counted in ndetached).
 *  - A thread gets a worker only through `given`, written by whoever made w->thread point to it.
 *  - mr_thread records are never freed while the runtime lives: the monitor may look at one at any time.
 */
#include "process/rt.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_SPARES 4

static mr_thread *retired;                     /* records for reuse (idle lock) */

mr_thread *mr_thread_new(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  mr_thread *t = retired;
  if (t) retired = t->next;
  port_unlock(&r->ilock);
  if (!t) t = calloc(1, sizeof *t);
  if (!t) return NULL;
  mr_packer *a = t->packer ? t->packer : mr_packer_new();
  mr_packer *b = t->gc_packer ? t->gc_packer : mr_packer_new();
  t->packer = a;
  t->gc_packer = b;
  t->next = NULL;
  t->listed = LIST_NONE;
  t->seasoned = 0;                             /* of the record's last owner: it would list itself though it is reserved */
  if (!a || !b) {
    mr_thread_free(t);
    return NULL;
  }
  return t;
}

void mr_thread_free(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  if (t == mr_tls) {
    mr_pool_thread_exit();
    mr_tls = NULL;
    atomic_fetch_sub(&r->nthreads, 1);
  }
  port_acquire(&r->ilock);
  atomic_store_explicit(&t->current, NULL, memory_order_relaxed);
  t->next = retired;
  retired = t;
  port_unlock(&r->ilock);
}

static mr_thread *thread_start(mr_worker *w) {
  mr_thread *t = mr_thread_new();
  if (!t) return NULL;
  atomic_store(&t->given, w);
  if (w) atomic_store(&w->thread, (uintptr_t)t);
  atomic_fetch_add(&mr_rt.nthreads, 1);
  if (port_thread_start(mr_run_thread, t, "mare-worker") != 0) {
    atomic_fetch_sub(&mr_rt.nthreads, 1);
    if (w) atomic_store(&w->thread, 0);
    mr_thread_free(t);
    return NULL;
  }
  return t;
}

/* ---- spares ---- */

mr_thread *mr_spare_get(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  mr_thread *t = r->spare;
  if (t) {
    r->spare = t->next;
    t->listed = LIST_NONE;
    r->nspare--;
  }
  port_unlock(&r->ilock);
  return t ? t : thread_start(NULL);
}

void mr_spare_put(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  if (t->listed == LIST_NONE) {
    t->listed = LIST_SPARE;
    t->next = r->spare;
    r->spare = t;
    r->nspare++;
  }
  port_unlock(&r->ilock);
}

/* Fresh threads come here too: whoever started one without a worker took it with mr_spare_get and gives it one soon. */
int mr_spare_wait(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  if (t->seasoned) {
    port_acquire(&r->ilock);
    int enough = r->nspare >= KEEP_SPARES;
    port_unlock(&r->ilock);
    if (enough && !atomic_load(&t->given)) return 0;
    mr_spare_put(t);
  }
  t->seasoned = 1;
  while (!atomic_load(&t->given) && !atomic_load(&r->stopping)) port_event_wait(&t->event, UINT64_MAX);
  return 1;
}

int mr_worker_take(mr_worker *w, mr_thread *from, mr_thread *to) {
  uintptr_t running = (uintptr_t)from | 1;
  port_chaos();
  if (!atomic_compare_exchange_strong(&w->thread, &running, (uintptr_t)to)) return 0;
  atomic_store(&to->given, w);
  port_event_set(&to->event);
  return 1;
}

/* ---- how many ---- */

int mr_workers_get(void) {
  int n = atomic_load(&mr_rt.target);
  return n ? n : port_cpus();
}

static port_lock setting;                      /* one mr_workers_set at a time */

static int activate(mr_worker *w) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
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

void mr_wake_all_idle(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  for (mr_thread *t = r->idle; t; t = t->next) port_event_set(&t->event);
  for (mr_thread *t = atomic_load(&r->stopping) ? r->spare : NULL; t; t = t->next) port_event_set(&t->event);
  port_unlock(&r->ilock);
}

/* A worker that was told to retire and has not yet simply stays. Retiring workers do so when their
   fiber next stops; the monitor sees to it that that is soon. */
int mr_workers_set(int n) {
  mr_runtime *r = &mr_rt;
  int err = MR_OK;
  if (n < 1) n = 1;
  if (n > MR_MAX_WORKERS) n = MR_MAX_WORKERS;
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

/* ---- start-up ---- */

/* Once, not at every start: failed processes stay listed as long as there are handles. */
static void init(mr_runtime *r) {
  static int done;
  if (done) return;
  done = 1;
  mr_fork_watch();
  for (unsigned i = 0; i < MR_MAX_WORKERS; i++) r->worker[i].id = i;
  for (int i = 0; i < MR_SHARDS; i++) r->shard[i].head.live_next = r->shard[i].head.live_prev = &r->shard[i].head;
  atomic_store(&r->next_due, UINT64_MAX);
  const char *spares = getenv("MARE_SPARES"), *quantum = getenv("MARE_QUANTUM");
  long ms = quantum ? strtol(quantum, NULL, 10) : 0;
  long most = spares ? strtol(spares, NULL, 10) : 0;
  r->max_blocked = most > 0 ? (unsigned)most : 1000;
  r->quantum = (uint64_t)(ms > 0 ? ms : 10) * 1000000u;
  r->cpus = port_cpus();
}

int mr_start(void) {
  static port_lock lock;
  mr_runtime *r = &mr_rt;
  int err = MR_OK;
  if (atomic_load(&r->dead)) return MR_EFORK;
  if (atomic_load(&r->started) && !atomic_load(&r->stopping)) return MR_OK;
  port_acquire(&lock);
  if (atomic_load(&r->stopping) && !mr_stopped()) err = MR_ESTOPPED;
  if (!err && !atomic_load(&r->started)) {
    init(r);
    int n = atomic_load(&r->target);
    if (n == 0) n = r->cpus > MR_MAX_WORKERS ? MR_MAX_WORKERS : r->cpus;
    atomic_store(&r->target, 0);
    mr_state_setup();
    err = mr_monitor_start();
    if (!err) {
      atomic_store(&r->started, 1);
      err = mr_workers_set(n);
      if (err && atomic_load(&r->target) > 0) err = MR_OK;   /* fewer than asked for will do */
    }
  }
  port_unlock(&lock);
  return err;
}
