/*
 * host: threads that are not ours, each with the first fiber of a job. Such a fiber never runs on a worker: its thread sleeps where others
 * park, and meanwhile it runs its job's other fibers, and polls if no worker has anything to do.
 *
 * Invariants (idle lock): `nhosts` is the length of the list; `hosts_waiting` counts those that wait without a deadline and run nothing.
 */
#include "run/rt.h"
#include "run/crew.h"
#include "run/traced.h"

void mr_host_enter(mr_job *j) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  j->next = r->host;
  r->host = j;
  r->nhosts++;
  port_unlock(&r->ilock);
  if (!mr_trace_on()) return;
  mr_trace_thread("host");
  mr_traced_run(j->first);
}

int mr_host_exit(mr_job *j) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  for (mr_job **p = &r->host; *p; p = &(*p)->next)
    if (*p == j) {
      *p = j->next;
      break;
    }
  int left = (int)--r->nhosts;
  port_unlock(&r->ilock);
  if (mr_trace_on()) mr_traced_left();
  mr_trace_leave();                              /* the thread may end now */
  return left;
}

void mr_host_each(void (*fn)(mr_job *j, void *ud), void *ud) {
  port_acquire(&mr_rt.ilock);
  for (mr_job *j = mr_rt.host; j; j = j->next) fn(j, ud);
  port_unlock(&mr_rt.ilock);
}

mr_job *mr_host_first(void) { return mr_rt.host; }

/* ---- waiting ---- */

/*
 * The host's thread polls itself while it waits, if no worker has anything to do: so what comes in for it wakes nobody else. A worker that
 * polls gives the role up. 1: it has the role now.
 */
static int host_polls(mr_thread *t, uint64_t *until) {
  mr_runtime *r = &mr_rt;
  if (!atomic_load_explicit(&r->polling, memory_order_relaxed)) return 0;
  port_acquire(&r->ilock);
  mr_thread *w = r->watcher;
  int polls = atomic_load(&r->nidle) == atomic_load(&r->nactive) && (!w || w == t || w->listed == LIST_IDLE);
  if (polls && w != t) {
    if (w) port_event_set(&w->event);
    r->watcher = t;
  }
  if (polls) {
    uint64_t due = atomic_load(&r->next_due);
    if (due < *until) *until = due;
    t->until = *until;
  }
  port_unlock(&r->ilock);
  return polls;
}

static void host_polled(mr_thread *t) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  int mine = r->watcher == t;
  if (mine) r->watcher = NULL;
  port_unlock(&r->ilock);
  if (mine) mr_watcher_left();
}

/* One sleep. 1: the event was set. */
static int host_nap(mr_thread *t, uint64_t deadline) {
  uint64_t until = deadline;
  unsigned n;
  if (!host_polls(t, &until)) {
    host_polled(t);                              /* it may have been the watcher until now, and nobody else would poll */
    return port_event_wait(&t->event, deadline);
  }
  int set = mr_poll_wait(&t->event, until, NULL, &n);
  uint64_t now = port_now();
  if (atomic_load(&mr_rt.next_due) <= now) mr_timers_fire(now, NULL);
  mr_settled();
  return set;
}

/*
 * 1: somebody has woken f; 0: the deadline has passed; -1: a fiber of the host is ready, perhaps. A set event alone does not mean the first:
 * the record of the thread may have had another owner, whom somebody meant to wake.
 */
static int host_woken(mr_fiber *f, uint64_t deadline) {
  int woken = 0;
  for (;;) {
    int set = host_nap(f->thread, deadline);
    if (atomic_load(&f->state) == FIBER_READY) woken = 1;
    else if (set && PORT_UNLIKELY(f->crew != NULL)) woken = -1;
    else if (set || deadline == UINT64_MAX || port_now() < deadline) continue;
    break;
  }
  host_polled(f->thread);
  return woken;
}

/* Sleeps until woken, running the host's other fibers meanwhile. 0: the deadline has passed. */
static int host_sleep(mr_fiber *f, uint64_t deadline) {
  mr_runtime *r = &mr_rt;
  int forever = deadline == UINT64_MAX, set;
  do {
    if (f->crew && mr_crew_step(f->job) && atomic_load(&f->state) == FIBER_READY) return 1;
    if (f->crew && !forever && port_now() >= deadline) return 0;   /* fibers that always yield don't keep it */
    if (forever) {
      port_acquire(&r->ilock);
      r->hosts_waiting++;
      port_unlock(&r->ilock);
      mr_quiet_check();
    }
    set = host_woken(f, deadline);
    if (forever) {
      port_acquire(&r->ilock);
      r->hosts_waiting--;
      port_unlock(&r->ilock);
    }
  } while (set < 0);
  return set;
}

void mr_host_block(mr_fiber *f, uint64_t deadline) {
  mr_runtime *r = &mr_rt;
  uint64_t begun = port_now();
  if (r->cpus > 1) atomic_store_explicit(&r->host_cpu, port_cpu(), memory_order_relaxed);
  int set = r->cpus > 1 && !f->outside && port_event_spin(&f->thread->event, f->thread->patience) && atomic_load(&f->state) == FIBER_READY;
  if (!set && !host_sleep(f, deadline)) {
    /* At its deadline a host is one claimer more: if another was faster, that one's reason counts. */
    if (mr_wait_claim(&f->wait)) f->reason = MR_TIMEOUT;
    else while (atomic_load(&f->state) != FIBER_READY) port_pause();   /* somebody claimed it and is about to say so */
  }
  mr_learn_patience(f->thread, port_now() - begun);
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
}
