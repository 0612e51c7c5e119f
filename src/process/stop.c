/*
 * stop: how a program ends. One order, whoever asks: no new processes; running fibers are told to yield, and their
 * threads leave; after a bounded time whatever still runs is left to the end of the OS process. Nothing here waits
 * without a limit, and nothing is freed that a thread which is left behind could touch.
 */
#include "process/rt.h"

#include <stdio.h>
#include <stdlib.h>

#define PATIENCE 150000000u          /* ns to wait for running fibers */

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

static void forget(mr_runtime *r) {
  atomic_store(&r->nused, 0);
  atomic_store(&r->deadlocked, 0);
  r->watcher = NULL;
  r->qhead = r->qtail = NULL;
  atomic_store(&r->qcount, 0);
  atomic_store(&r->started, 0);
  atomic_store(&r->stopping, 0);
}

void mr_stop(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->dead) || !atomic_load(&r->started)) return;
  if (atomic_exchange(&r->stopping, 1)) return;
  uint64_t end = port_now() + PATIENCE;
  unsigned own = mr_tls != NULL;
  port_event_set(&r->monitor_event);
  for (unsigned round = 0; atomic_load(&r->nthreads) > own && port_now() < end; round++) {
    mr_wake_all_idle();
    port_event_set(&r->monitor_event);
    if (round % 8 == 7) tell_running();
    port_sleep(round < 50 ? 20000 : 1000000);
  }
  if (atomic_load(&r->nthreads) == 0 && atomic_load(&r->live) == 0) forget(r);
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

static void flush(void *arg) {
  (void)arg;
  fflush(NULL);
  port_event_set(&flushed);
}

static void print_failed(mr_proc *p, void *ud) {
  (void)ud;
  if (atomic_load(&p->status) == PROC_FAILED) mr_proc_print(p);
}

void mr_exit(int code) {
  static atomic_int exiting;
  if (atomic_exchange(&exiting, 1)) {            /* another thread is at it: let it */
    if (mr_tls) for (;;) port_sleep(1000000000u);
    port_quit(code);
  }
  mr_proc_each(print_failed, NULL);
  mr_stop();
  /* A stream may be locked by a thread that blocks in a read: flush on the side, for a bounded time. */
  if (port_thread_start(flush, NULL, "mare-flush") == 0) port_event_wait(&flushed, port_now() + PATIENCE);
  port_quit(code);
}
