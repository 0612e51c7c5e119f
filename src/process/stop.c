/*
 * stop: how a program ends. One order, whoever asks: no new processes; running fibers are told to yield, and their
 * threads leave; after a bounded time whatever still runs is left to the end of the OS process. Nothing here waits
 * without a limit - but for the reader of our standard output -, and nothing is freed that a thread which is left behind could touch.
 *
 * After the last host closed the runtime can start again, in the same OS process: forget() puts it back to its beginning
 * once no thread is left. Processes that were parked for ever have been ended by an error then, or abandoned.
 */
#include "process/rt.h"
#include "process/crew.h"
#include "port/system.h"

#include <stdio.h>
#include <stdlib.h>

#define PATIENCE 150000000u          /* ns to wait for running fibers */
#define FLUSHING 1000000000u         /* ns to wait for files that a blocked reader may have locked */
#define CLOSING 5000000000u          /* ns for the finalisers of os.exit(code, true) */

static atomic_int exiting;

/* ---- threads ---- */

static void tell_running(void) {
  mr_runtime *r = &mr_rt;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) {
    uintptr_t held = atomic_load(&r->worker[i].thread);
    mr_thread *t = (mr_thread *)(held & ~(uintptr_t)1);
    if (!(held & 1) || t == mr_tls) continue;
    atomic_fetch_or(&t->poke, POKE_PREEMPT);
    port_thread_kick(&t->os);
  }
}

static void forget_worker(mr_worker *w) {
  w->head = w->tail = NULL;
  atomic_store(&w->count, 0);
  atomic_store(&w->slot, NULL);
  atomic_store(&w->thread, 0);
  w->streak = w->turn = 0;
  w->seen.since = 0;
}

/* No thread is left: as before the first start. Lists of threads may still name records that are free again. */
static void forget(mr_runtime *r) {
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) forget_worker(&r->worker[i]);
  port_acquire(&r->ilock);
  r->idle = r->spare = r->watcher = NULL;
  r->nspare = 0;
  r->nactive = r->nused = 0;
  port_unlock(&r->ilock);
  atomic_store(&r->nidle, 0);
  atomic_store(&r->nspinning, 0);
  atomic_store(&r->ndetached, 0);
  atomic_store(&r->nmoving, 0);
  atomic_store(&r->nblocked, 0);
  r->qhead = r->qtail = NULL;
  atomic_store(&r->qcount, 0);
  r->ntimers = 0;
  atomic_store(&r->next_due, UINT64_MAX);
  atomic_store(&r->deadlocked, 0);
  atomic_store(&r->monitor_until, 0);
  if (atomic_load(&r->live) > 0) mr_proc_abandon();
  atomic_store(&r->started, 0);
  atomic_store(&r->stopping, 0);
}

int mr_stopped(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&exiting) || atomic_load(&r->nthreads) > 0) return 0;
  forget(r);
  return 1;
}

void mr_stop(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->dead) || !atomic_load(&r->started)) return;
  if (atomic_exchange(&r->stopping, 1)) return;
  uint64_t end = port_now() + PATIENCE;
  unsigned own = mr_tls != NULL;               /* who blocks in a wait is asleep for good */
  port_event_set(&r->monitor_event);
  for (unsigned round = 0; atomic_load(&r->nthreads) > own + atomic_load(&r->nblocked) && port_now() < end; round++) {
    mr_wake_all_idle();
    port_event_set(&r->monitor_event);
    if (round % 8 == 7) tell_running();
    port_sleep(round < 50 ? 20000 : 1000000);
  }
}

/* ---- the last host has closed ---- */

enum { BATCH = 256 };
typedef struct { mr_fiber *fiber[BATCH]; int n; } batch;

static void claim_fiber(mr_fiber *f, void *ud) {
  batch *b = ud;
  unsigned ticket = atomic_load(&f->ticket);
  if (b->n == BATCH || !(ticket & 1)) return;
  if (!atomic_compare_exchange_strong(&f->ticket, &ticket, ticket + 1)) return;
  mr_proc_observe(f->proc);                     /* the report has told of it */
  b->fiber[b->n++] = f;
}

static void claim(mr_proc *p, void *ud) {
  if (atomic_load(&p->status) < PROC_DONE) mr_crew_each(p, claim_fiber, ud);
}

/* Whoever is still parked gets an error there, as long as that ends processes. */
static void end_parked(mr_runtime *r) {
  uint64_t end = port_now() + PATIENCE;
  size_t left = atomic_load(&r->live);
  while (left > 0 && port_now() < end) {
    batch b = { .n = 0 };
    mr_proc_each(claim, &b);
    for (int i = 0; i < b.n; i++) mr_ready(b.fiber[i], MR_STOPPED, NULL);
    if (b.n < BATCH) port_sleep(500000);
    size_t now = atomic_load(&r->live);
    if (now < left) end = port_now() + PATIENCE;
    left = now;
  }
}

#define FAILURES 64

typedef struct { char *line[FAILURES]; int n; } failures;

static void collect_failure(mr_proc *p, void *ud) {
  failures *all = ud;
  if (atomic_load(&p->status) != PROC_FAILED || all->n == FAILURES) return;
  if ((all->line[all->n] = mr_proc_failure(p)) != NULL) all->n++;
}

/* Collected first, as a write can block and a shard's lock is held while they are looked at. */
static void print_failures(void) {
  failures all;
  do {
    all.n = 0;
    mr_proc_each(collect_failure, &all);
    for (int i = 0; i < all.n; i++) {
      fputs(all.line[i], stderr);
      free(all.line[i]);
    }
  } while (all.n == FAILURES);
}

void mr_close_down(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&exiting)) return;
  end_parked(r);
  print_failures();
  mr_stop();
  mr_stopped();
}

/* ---- mare run ---- */

int mr_run_until_done(void) {
  mr_runtime *r = &mr_rt;
  while (atomic_load(&r->live) > 0 && !atomic_load(&r->deadlocked)) port_event_wait(&r->done, UINT64_MAX);
  if (!atomic_load(&r->deadlocked)) return 0;
  char *report = mr_deadlock_report();
  mr_report_print(report);
  free(report);
  return 1;
}

/* ---- os.exit ---- */

static port_event flushed;

static void flush_all(void *arg) {
  (void)arg;
  fflush(NULL);
  port_event_set(&flushed);
}

/*
 * What was written must come out, however slow its reader is; so standard output comes first, without a limit. Any other stream may be locked
 * by a thread that waits in a read: these are flushed on the side.
 */
static void flush(void) {
  fflush(stdout);
  port_file_unlocked(stdin);
  if (port_thread_start(flush_all, NULL, "mare-flush") == 0) port_event_wait(&flushed, port_now() + FLUSHING);
}

void mr_exit_yield(void) {
  if (!atomic_load(&exiting)) return;
  if (mr_tls) atomic_fetch_sub(&mr_rt.nthreads, 1);   /* not to be waited for */
  for (;;) port_sleep(1000000000u);
}

void mr_exit(int code) {
  if (atomic_load(&mr_rt.dead)) {               /* a forked child: nobody else is here */
    fflush(NULL);
    port_quit(code);
  }
  if (atomic_exchange(&exiting, 1)) mr_exit_yield();   /* the first to come decides */
  print_failures();
  mr_stop();
  flush();
  port_quit(code);
}

static void quit_later(void *arg) {
  port_sleep(CLOSING);
  port_quit((int)(intptr_t)arg);
}

void mr_exit_within_limit(int code) { port_thread_start(quit_later, (void *)(intptr_t)code, "mare-exit"); }

/* ---- fork ---- */

/*
 * In the child only the thread that forked exists, and any lock may be held for ever. If it ran a process, that process
 * counts as a host from now on: there is no scheduler to yield to.
 */
static void in_child(void) {
  atomic_store(&mr_rt.dead, 1);
  mr_fiber *f = mr_tls ? atomic_load_explicit(&mr_tls->current, memory_order_relaxed) : NULL;
  if (f) f->proc->kind = PROC_HOST;
  if (mr_hooks.forked) mr_hooks.forked();
}

void mr_fork_watch(void) { port_at_fork(in_child); }
