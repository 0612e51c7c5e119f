/*
 * park: opening, waiting out and ending a wait; see park.h for the protocol.
 *
 * A fiber waits by yielding where it can. Where the VM can't yield, its thread keeps it, gives its worker to a spare and
 * sleeps; woken, it queues for a worker as a ready fiber does. A host's own thread just sleeps.
 */
#include "process/rt.h"
#include "process/crew.h"

/* What it waited for outside the program is over. */
static void inside(mr_fiber *f) {
  f->outside = 0;
  atomic_fetch_sub(&mr_rt.noutside, 1);
}

static int in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT, 0) == -1; }

static int reserve_spare(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nblocked) >= r->max_blocked) return MR_ESPARE;
  f->thread->reserve = mr_spare_get();
  return f->thread->reserve ? MR_OK : MR_ETHREAD;
}

int mr_wait_open(mr_fiber *f, lua_State *L) {
  if (PORT_UNLIKELY(f->relief != NULL)) mr_fiber_relieve(f);
  if (PORT_UNLIKELY(mr_fiber_ending(f))) return MR_EENDED;
  if (f->proc->kind == PROC_HOST && !(f->crew && f != &f->proc->main && mr_can_yield(f, L))) {
    if (atomic_load(&mr_rt.dead)) return MR_EFORK;
    if (mr_host_closed(f->proc)) return MR_ECLOSING;
    f->mode = WAIT_HOST;
  } else if (PORT_LIKELY(mr_can_yield(f, L))) {
    f->mode = WAIT_YIELD;
  } else {
    if (in_finaliser(L)) return MR_EFINAL;
    int err = reserve_spare(f);
    if (err) return err;
    f->mode = WAIT_HANDOVER;
  }
  unsigned t = atomic_load_explicit(&f->ticket, memory_order_relaxed) + 1;
  f->wait.fiber = f;
  f->wait.ticket = t;
  f->wait.next = f->wait.prev = NULL;
  f->wait.mail = &f->mail;
  atomic_store_explicit(&f->state, FIBER_PARKING, memory_order_relaxed);
  atomic_store_explicit(&f->ticket, t, memory_order_release);
  return MR_OK;
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
    while (atomic_load(&f->state) != FIBER_READY) port_pause();
    if (f->mode == WAIT_HOST) port_event_wait(&f->thread->event, UINT64_MAX);
  }
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
  if (f->mode == WAIT_HANDOVER) drop_reserve(f);
  return mine;
}

/* An interrupt may have claimed the ticket although nothing else can have: then it is kept for the next wait. */
void mr_wait_abandon(mr_fiber *f) {
  if (PORT_UNLIKELY(!mr_wait_cancel(f)) && f->reason == MR_INTERRUPTED) mr_interrupt();
  if (PORT_UNLIKELY(f->outside)) inside(f);
}

static void block_handed_over(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  mr_thread *t = f->thread, *spare = t->reserve;
  if (atomic_load(&f->state) == FIBER_READY) {  /* woken already */
    drop_reserve(f);
    return;
  }
  t->reserve = NULL;
  atomic_fetch_add(&r->nblocked, 1);
  atomic_fetch_add(&r->nmoving, 1);             /* until our fiber is parked or queued nobody else sees that it may run */
  mr_worker *w = t->worker;
  t->worker = NULL;
  if (!mr_worker_take(w, t, spare)) {           /* the monitor had taken it */
    mr_spare_put(spare);
    atomic_fetch_sub(&r->ndetached, 1);
  }
  unsigned parking = FIBER_PARKING;
  port_chaos();
  if (!atomic_compare_exchange_strong(&f->state, &parking, FIBER_PARKED)) {
    if (!f->crew) mr_enqueue(NULL, f, 0);
    else mr_crew_push(f, CREW_LAST);            /* we run the crew: nothing to be queued yet */
  }
  if (f->crew && mr_crew_leave(f->crew)) mr_enqueue(NULL, &f->crew->token, 0);
  atomic_fetch_sub(&r->nmoving, 1);
  mr_quiet_check();
  mr_worker *given;
  while ((given = atomic_exchange(&t->given, NULL)) == NULL) port_event_wait(&t->event, UINT64_MAX);
  t->worker = given;
  f->proc->fiber = f;
  atomic_fetch_sub(&r->nblocked, 1);
  f->mode = WAIT_YIELD;
}

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
    if (f->crew && mr_crew_step(f->proc) && atomic_load(&f->state) == FIBER_READY) return 1;
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

static void block_host(mr_fiber *f, uint64_t deadline) {
  mr_runtime *r = &mr_rt;
  uint64_t begun = port_now();
  if (r->cpus > 1) atomic_store_explicit(&r->host_cpu, port_cpu(), memory_order_relaxed);
  int set = r->cpus > 1 && !f->outside && port_event_spin(&f->thread->event, f->thread->patience) && atomic_load(&f->state) == FIBER_READY;
  if (!set && !host_sleep(f, deadline)) {
    if (mr_wait_claim(&f->wait)) f->reason = MR_TIMEOUT;
    else while (atomic_load(&f->state) != FIBER_READY) port_pause();   /* somebody claimed it and is about to say so */
  }
  mr_learn_patience(f->thread, port_now() - begun);
  atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
}

int mr_park(lua_State *L, mr_fiber *f, uint64_t deadline, lua_KContext ctx, lua_KFunction k) {
  f->parked_L = L;
  if (f->mode == WAIT_HOST) {
    block_host(f, deadline);
    return k(L, LUA_OK, ctx);
  }
  if (deadline != UINT64_MAX && mr_timer_set(f, deadline) != MR_OK && mr_wait_claim(&f->wait)) {
    f->reason = MR_TIMEOUT;                     /* no memory for the timer: as if it were over */
    mr_ready(f, MR_TIMEOUT, NULL);
  }
  if (PORT_LIKELY(f->mode == WAIT_YIELD)) {
    if (PORT_UNLIKELY(!f->hint)) f->hint = mr_state_hint(L);
    f->sysyield = SYS_PARK;
    return lua_yieldk(L, 0, ctx, k);
  }
  block_handed_over(f);
  return k(L, LUA_OK, ctx);
}

mr_reason mr_wake(mr_fiber *f) {
  if (PORT_UNLIKELY(f->timed)) mr_timer_cancel(f);
  if (PORT_UNLIKELY(f->outside)) inside(f);
  f->op = NULL;
  f->on = NULL;
  return (mr_reason)f->reason;
}

/* To the end of the queue. In places that can't yield there is nothing to do: others have workers of their own. */
int mr_yield(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k) {
  if ((f->proc->kind == PROC_HOST && f == &f->proc->main) || !mr_can_yield(f, L)) {
    if (!mr_crew_step(f->proc)) port_yield();
    return k(L, LUA_OK, ctx);
  }
  f->sysyield = SYS_AGAIN;
  return lua_yieldk(L, 0, ctx, k);
}
