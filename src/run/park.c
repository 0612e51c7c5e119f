/*
 * park: waiting out and ending a wait; see park.h for the protocol.
 *
 * A fiber waits by yielding where it can. Where its body can't, its thread keeps it, gives its worker to a spare and
 * sleeps; woken, it queues for a worker as a ready fiber does. A host's own thread just sleeps (host.c).
 */
#include "run/rt.h"
#include "run/crew.h"
#include "run/poll.h"
#include "run/traced.h"
#include "run/replay.h"

/* What it waited for outside the program is over. */
void mr_wait_inside(mr_fiber *f) {
  if (!f->outside) return;
  f->outside = 0;
  atomic_fetch_sub(&mr_rt.noutside, 1);
}

/* The monitor ends a call that lingers after two of its rounds: a timer that is due long after that is in no danger. */
static int is_soon(uint64_t due) { return due != UINT64_MAX && due < port_now() + 8 * mr_rt.quantum; }

int mr_run_alone(void) {
  mr_runtime *r = &mr_rt;
  return atomic_load_explicit(&r->live, memory_order_relaxed) == 1 && atomic_load_explicit(&r->noutside, memory_order_relaxed) == 0 &&
         r->nhosts == 0 && !is_soon(atomic_load_explicit(&r->next_due, memory_order_relaxed)) &&
         !atomic_load_explicit(&r->stopping, memory_order_relaxed) && !mr_anything_queued();
}

int mr_run_single(void) { return atomic_load_explicit(&mr_rt.nactive, memory_order_relaxed) == 1; }

static void linger_step(const mr_fiber *f) { atomic_fetch_add(&f->thread->lingers, 1); }

/* The monitor may sleep although we run, as long as nobody else is there. */
int mr_linger_begin(const mr_fiber *f) {
  if (MR_DEAF) return 0;
  linger_step(f);
  mr_monitor_resume();
  return 1;
}

void mr_linger_end(const mr_fiber *f) { linger_step(f); }

/* Before the ticket is open, as it can fail; what is open can be claimed, and the claimer may already have given something away. */
int mr_wait_reserve(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nblocked) >= r->max_blocked) return MR_ESPARE;
  f->thread->reserve = mr_spare_get();
  return f->thread->reserve ? MR_OK : MR_ETHREAD;
}

static void drop_reserve(mr_fiber *f) {
  mr_thread *s = f->thread->reserve;
  f->thread->reserve = NULL;
  if (s) mr_spare_put(s);
  f->mode = WAIT_YIELD;
}

int mr_wait_cancel(mr_fiber *f) {
  unsigned t = f->wait.ticket;
  int mine = atomic_compare_exchange_strong(&f->ticket, &t, t + 1);
  if (PORT_LIKELY(mine)) {
    f->reason = MR_AGAIN;
  } else {
    /* whoever claimed it is about to call mr_ready, and may write what it gives until then */
    while (atomic_load(&f->state) != FIBER_READY) port_pause();
    if (f->mode == WAIT_HOST) port_event_wait(&f->thread->event, UINT64_MAX);
  }
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  if (f->mode == WAIT_HANDOVER) drop_reserve(f);
  return mine;
}

/* An interrupt may have claimed the ticket although nothing else can have: then it is kept for the next wait. */
void mr_wait_abandon(mr_fiber *f) {
  if (PORT_UNLIKELY(!mr_wait_cancel(f)) && f->reason == MR_INTERRUPTED) mr_run_interrupt();
  if (PORT_UNLIKELY(f->outside)) mr_wait_inside(f);
}

void mr_wait_until(mr_fiber *f, uint64_t deadline) {
  if (mr_timer_set(f, deadline) == MR_OK || !mr_wait_claim(&f->wait)) return;
  mr_ready(f, MR_TIMEOUT, NULL);                /* no memory for the timer: as if it were over */
}

static void give_worker(mr_thread *t, mr_thread *spare) {
  mr_worker *w = t->worker;
  t->worker = NULL;
  if (mr_worker_take(w, t, spare)) return;
  mr_spare_put(spare);                          /* the monitor had taken it */
  atomic_fetch_sub(&mr_rt.ndetached, 1);
}

static void block_handed_over(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  mr_thread *t = f->thread, *spare = t->reserve;
  if (atomic_load(&f->state) == FIBER_READY) {  /* woken already; as we were not PARKED, nobody has queued us */
    atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
    drop_reserve(f);
    return;
  }
  t->reserve = NULL;
  atomic_fetch_add(&r->nblocked, 1);
  atomic_fetch_add(&r->nmoving, 1);             /* until our fiber is parked or queued nobody else sees that it may run */
  if (PORT_LIKELY(!mr_replay_on)) give_worker(t, spare);
  /*
   * The worker is gone first: from PARKED on who claims us queues us, and the thread that finds us there gives us its own. Who claimed us
   * while we were PARKING has left the queueing to us.
   */
  unsigned parking = FIBER_PARKING;
  port_chaos();
  if (!atomic_compare_exchange_strong(&f->state, &parking, FIBER_PARKED)) {
    if (!f->crew) mr_enqueue(NULL, f, 0);
    else mr_crew_push(f, CREW_LAST);            /* we run the crew: nothing to be queued yet */
  }
  /* Last: until now pushes relied on us to look at the list, ours among them. */
  if (f->crew && mr_crew_leave(f->crew)) mr_enqueue(NULL, &f->crew->token, 0);
  if (PORT_UNLIKELY(mr_replay_on)) give_worker(t, spare);    /* nobody else runs: first, or it would depend on chance what they find */
  atomic_fetch_sub(&r->nmoving, 1);
  mr_quiet_check();
  mr_worker *given;
  while ((given = atomic_exchange(&t->given, NULL)) == NULL) port_event_wait(&t->event, UINT64_MAX);
  t->worker = given;
  if (PORT_UNLIKELY(t->exact_from)) mr_sample_rest(t);
  f->job->fiber = f;
  atomic_fetch_sub(&r->nblocked, 1);
  f->mode = WAIT_YIELD;
}

void mr_wait_block(mr_fiber *f, uint64_t deadline) {
  if (mr_trace_on()) mr_traced_pause(f);
  if (f->mode == WAIT_HOST) mr_host_block(f, deadline);
  else block_handed_over(f);
  if (mr_trace_on() && f->thread->worker) mr_trace_worker(f->thread->worker->id);
  if (mr_trace_on()) mr_traced_run(f);
}

mr_reason mr_wake(mr_fiber *f) {
  /* The timer may be firing now. It has the old ticket, so it claims nothing; once cancelled, under its lock, it is not in the heap. */
  mr_assert(!(atomic_load(&f->ticket) & 1));
  if (PORT_UNLIKELY(f->timed)) mr_timer_cancel(f);
  if (PORT_UNLIKELY(f->outside)) mr_wait_inside(f);
  mr_fiber_in(f, NULL);
  f->on = NULL;
  return (mr_reason)f->reason;
}
