/*
 * stop: the end of the scheduler, and its new beginning.
 *
 * Nothing here waits without a limit, and nothing is freed that a thread which is left behind could touch. After mr_run_forget, which is
 * only called when no thread is left, all is as before the first start; records of threads stay.
 */
#include "run/hold.h"
#include "run/rt.h"

#define PATIENCE 150000000u          /* ns to wait for running fibers; if the machine is loaded, until they have had about that much of it */
#define LOADED 3000000000u           /* but no longer than this, as a rule */
#define LEAVING 5000000000u          /* ns that threads which are left behind may sleep in a call, or compute, until they end */

int mr_run_stopping(void) { return atomic_load_explicit(&mr_rt.stopping, memory_order_relaxed); }
int mr_run_dead(void) { return atomic_load_explicit(&mr_rt.dead, memory_order_relaxed); }
int mr_run_threads(void) { return (int)atomic_load(&mr_rt.nthreads); }
void mr_run_detach(void) { atomic_fetch_sub(&mr_rt.nthreads, 1); }

/* ---- patience ---- */

mr_patience mr_patience_begin(void) { return (mr_patience){ port_now(), port_own_cpu(), LOADED }; }

/*
 * Is there a thread, not the calling one, that could go on if it had a CPU? Also one that was woken and has not come to look for work yet, and the
 * monitor, which is not among those that are counted, and never stays.
 */
static int anybody_runs(uint64_t *cpu) {
  unsigned living, runnable = mr_threads_runnable(&living, cpu);
  return runnable > 0 || (mr_run_stopping() && atomic_load(&mr_rt.nthreads) > living);
}

int mr_patience_over(const mr_patience *p) {
  uint64_t wall = port_now() - p->wall, cpu;
  return wall >= PATIENCE && (wall >= p->most || port_own_cpu() - p->cpu >= PATIENCE || !anybody_runs(&cpu));
}

/* ---- stopping ---- */

static void tell_running(void) {
  mr_runtime *r = &mr_rt;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) {
    mr_thread *t = mr_worker_runner(&r->worker[i]);
    if (!t || t == mr_this_thread) continue;
    atomic_fetch_or(&t->poke, POKE_PREEMPT);
    port_thread_kick(&t->os);
  }
}

static void hasten(unsigned round) {
  mr_wake_all_idle();
  port_event_set(&mr_rt.monitor_event);
  if (round % 8 == 7) tell_running();
}

void mr_run_stop(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->dead) || !atomic_load(&r->started)) return;
  if (atomic_exchange(&r->stopping, 1)) return;
  mr_patience p = mr_patience_begin();
  unsigned own = mr_this_thread != NULL;               /* who blocks in a wait is asleep for good */
  port_event_set(&r->monitor_event);
  for (unsigned round = 0; atomic_load(&r->nthreads) > own + atomic_load(&r->nblocked) && !mr_patience_over(&p); round++) {
    hasten(round);
    port_sleep(round < 50 ? 20000 : 1000000);
  }
}

/* ---- what was left behind ---- */

/* No thread is there that could be in one. */
static void empty_lists(void) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  r->idle = r->spare = r->watcher = NULL;
  r->nspare = 0;
  r->nactive = r->nused = 0;
  port_unlock(&r->ilock);
  atomic_store(&r->nidle, 0);
  atomic_store(&r->nspinning, 0);
  atomic_store(&r->ndetached, 0);
  atomic_store(&r->monitor_until, 0);
}

/*
 * Threads that block in a wait are asleep for good: is there no other, and does none of them come back to a worker just now? Who began to block in
 * the stop may have given its worker to a thread that had already ended.
 */
static int all_asleep(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nmoving) != 0) return 0;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) {
    const mr_thread *t = mr_worker_thread(&r->worker[i]);
    if (t && atomic_load(&t->lives)) return 0;
  }
  return atomic_load(&r->nthreads) == atomic_load(&r->nblocked);
}

/* Nobody else is there: lists and counts may name threads that are gone. What is queued stays, the fibers of those that sleep may be in there. */
int mr_run_resume(mr_leaving *l) {
  mr_runtime *r = &mr_rt;
  unsigned blocked = atomic_load(&r->nblocked);
  if (blocked == 0 || !all_asleep() || (l->blocked && blocked >= l->blocked)) return 0;
  l->blocked = blocked;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) atomic_store(&r->worker[i].thread, 0);
  empty_lists();
  atomic_store(&r->stopping, 0);
  if (mr_run_start() == MR_OK) return 1;
  atomic_store(&r->stopping, 1);
  return 0;
}

int mr_run_leaving(mr_leaving *l) {
  unsigned threads = atomic_load(&mr_rt.nthreads);
  uint64_t now = port_now(), cpu;
  if (all_asleep()) return threads == 0;
  hasten(l->round);
  int runs = anybody_runs(&cpu);
  if (l->round++ == 0 || threads < l->threads) {
    l->threads = threads;
    l->since = now;
    l->cpu = cpu;
  }
  return now - l->since < LEAVING || (runs && cpu < l->cpu + LEAVING);
}

static void forget_worker(mr_worker *w) {
  mr_queue_forget(&w->queue);
  atomic_store(&w->slot, NULL);
  atomic_store(&w->thread, 0);
  w->streak = w->turn = 0;
  w->seen.since = 0;
  w->due = w->served_busy = w->window = w->exact = w->low_seen = 0;
  w->low_credit = 0;
}

void mr_run_forget(void) {
  mr_runtime *r = &mr_rt;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) forget_worker(&r->worker[i]);
  empty_lists();
  atomic_store(&r->nending, 0);                 /* what was asked of jobs that never ended */
  atomic_store(&r->nblocked, 0);                /* not nmoving: a thread that is none of ours, and looked at a job, may be about to take one off */
  mr_queue_forget(&r->queue);
  mr_share_forget();
  r->ntimers = 0;
  atomic_store(&r->next_due, UINT64_MAX);
  atomic_store(&r->live, 0);
  atomic_store(&r->started, 0);
  atomic_store(&r->stopping, 0);
}

mr_fiber *mr_run_forked(void) {
  atomic_store(&mr_rt.dead, 1);
  return mr_this_thread ? atomic_load_explicit(&mr_this_thread->current, memory_order_relaxed) : NULL;
}
