/*
 * monitor: the thread, which sees to it that a running fiber gives way.
 *
 * Preemption costs nothing until it is needed: no hook is set. The monitor looks round every half quantum while anything runs. It
 * sends a thread that has held its worker for a quantum while others wait a signal, whose handler asks the body to
 * come back (`kick` in body.h). Where it can't, it goes on, and after two more rounds the worker is given to a spare thread; so it is at once when the thread's
 * CPU clock stands still, because it blocks in the kernel (a signal would only disturb it there).
 */
#include "run/rt.h"
#include "run/hold.h"
#include "heap/pool.h"
#include "observe/trace.h"

/* ---- one worker ---- */

static void take_away(mr_worker *w, mr_thread *t) {
  mr_thread *s = mr_spare_get();
  if (!s) return;                              /* no thread to be had: it goes on as it is */
  atomic_fetch_add(&mr_rt.ndetached, 1);
  if (!mr_worker_take(w, t, s)) {
    atomic_fetch_sub(&mr_rt.ndetached, 1);
    mr_spare_put(s);
    mr_quiet_check();
  }
}

static void interrupt(mr_worker *w, mr_thread *t, uint64_t cpu) {
  int runs = cpu == 0 || cpu - w->seen.cpu > 100000 || port_thread_runnable(&t->os);
  w->seen.cpu = cpu;
  if ((runs || MR_DEAF) && w->seen.tries++ < 2) {
    atomic_fetch_or(&t->poke, POKE_PREEMPT);
    if (!MR_DEAF && runs) port_thread_kick(&t->os);
  } else {
    take_away(w, t);
  }
}

/* A fiber that sits in the slot of a worker that computes, while others are idle. */
static void rescue_slot(mr_worker *w) {
  mr_fiber *f = atomic_load(&w->slot);
  if (!f || !atomic_load(&mr_rt.nidle)) return;
  mr_moving();
  if (mr_slot_take(w, f)) mr_enqueue(NULL, f, 0);
  mr_settled();
}

/*
 * 1: t is in a call that has to be ended, and is told so if it was there in the last round, too. Its worker is not taken away, as nobody would
 * tell it any more then.
 */
static int lingers(mr_worker *w, mr_thread *t) {
  unsigned now = atomic_load(&t->lingers), was = w->seen.lingers;
  w->seen.lingers = now;
  if ((now & 1) && now == was) port_thread_kick(&t->os);
  return now & 1;
}

static int look_at(mr_worker *w, uint64_t now, int urgent) {
  mr_runtime *r = &mr_rt;
  mr_thread *t = mr_worker_runner(w);
  if (!t) return 0;
  if (lingers(w, t)) return 1;
  port_chaos();                                /* t may hand its worker on and end now, and its record get another owner */
  uint64_t tick = atomic_load_explicit(&w->tick, memory_order_relaxed);
  if (tick != w->seen.tick || w->seen.since == 0) {
    w->seen.tick = tick;
    w->seen.since = now;
    w->seen.tries = 0;
    w->seen.cpu = port_thread_cpu(&t->os);
    if (!urgent) return 1;
  }
  rescue_slot(w);
  int others = atomic_load(&w->queue.count) || atomic_load(&w->slot) || atomic_load(&r->queue.count) ||
               mr_waiting(LEVEL_NORMAL) || mr_waiting(LEVEL_HIGH) || mr_waiting(LEVEL_LOW) || w->id >= (unsigned)atomic_load(&r->target);
  uint64_t limit = urgent ? 0 : mr_share_slice() - r->quantum / 10;
  if (others && now - w->seen.since >= limit) interrupt(w, t, port_thread_cpu(&t->os));
  return 1;
}

/* ---- interrupts ---- */

void mr_monitor_wake(void) { port_event_set(&mr_rt.monitor_event); }

void mr_run_interrupt(void) {
  atomic_store(&mr_rt.interrupted, 1);
  mr_monitor_wake();
}

void mr_run_knocked(void) {
  atomic_store(&mr_rt.knocked, 1);
  mr_monitor_wake();
}

void mr_run_report(void) {
  atomic_store(&mr_rt.reports, 1);
  mr_monitor_wake();
}

int mr_run_reports(int take) { return take ? atomic_exchange(&mr_rt.reports, 0) : atomic_load(&mr_rt.reports); }

int mr_run_interrupted(int take) { return take ? atomic_exchange(&mr_rt.interrupted, 0) : atomic_load(&mr_rt.interrupted); }

void mr_run_poke(mr_fiber *f, unsigned what) {
  mr_runtime *r = &mr_rt;
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) {
    mr_thread *t = mr_worker_runner(&r->worker[i]);
    if (t && atomic_load_explicit(&t->current, memory_order_relaxed) == f) {
      atomic_fetch_or(&t->poke, what);
      if (!MR_DEAF) port_thread_kick(&t->os);
    }
  }
}

/* ---- jobs that are to end ---- */

/* All that run, those without a worker too, are asked to come back: see ending.c. */
static int kick_all(void) {
  int n = 0;
  for (mr_thread *t = mr_threads(); t; t = t->every) {
    if (!atomic_load_explicit(&t->current, memory_order_relaxed)) continue;
    if (!MR_DEAF) port_thread_kick(&t->os);
    n++;
  }
  return n;
}

/*
 * They are told each round; who does not hear it is looked for less often. Not by the clock alone: when the whole machine stands still for a
 * second nobody has had the time to hear.
 */
static int see_ending(uint64_t now) {
  static uint64_t last;
  static unsigned told;
  if (now - last >= MR_ENDING_LOOK && told >= MR_ENDING_ROUNDS) {
    last = now;
    told = 0;
    mr_run_body.ending();
  }
  told++;
  return kick_all();
}

/* ---- rounds ---- */

static int look_round(uint64_t now) {
  mr_runtime *r = &mr_rt;
  int busy = 0, urgent = 0;
  port_acquire(&r->ilock);
  int watched = r->watcher != NULL;
  port_unlock(&r->ilock);
  if (!watched && atomic_load(&r->next_due) <= now) {
    mr_moving();
    urgent = mr_timers_fire(now, NULL) > 0;
    mr_settled();
  }
  if (!watched && atomic_load(&r->polling)) {
    mr_moving();
    urgent += mr_poll(NULL, 0) > 0;
    mr_settled();
  }
  if (atomic_load_explicit(&r->high_waits, memory_order_relaxed)) urgent += atomic_exchange(&r->high_waits, 0);
  for (unsigned i = 0, n = atomic_load(&r->nused); i < n; i++) busy += look_at(&r->worker[i], now, urgent);
  if (busy) mr_sample_all();
  if (PORT_UNLIKELY(atomic_load(&r->nending)) && see_ending(now)) busy++;
  else if (PORT_UNLIKELY(atomic_load(&r->nlooks)) && kick_all()) busy++;
  if (PORT_UNLIKELY(atomic_load_explicit(&r->knocked, memory_order_relaxed)) && atomic_exchange(&r->knocked, 0)) mr_run_body.knocked();
  if (mr_run_reports(0) && mr_run_reports(1)) mr_run_body.report();
  if (atomic_load(&r->interrupted)) {
    mr_run_body.interrupt();
    busy++;
  }
  return busy;
}

static void monitor(void *arg) {
  mr_runtime *r = &mr_rt;
  unsigned quiet = 0;
  (void)arg;
  while (!atomic_load(&r->stopping)) {
    uint64_t now = port_now();
    quiet = look_round(now) ? 0 : quiet + 1;
    if (quiet == 5) mr_pool_trim();             /* idle for some time: unused memory goes back */
    uint64_t until = quiet > 4 ? UINT64_MAX : now + r->quantum / 2;
    atomic_store(&r->monitor_until, until);
    port_acquire(&r->ilock);
    int watched = r->watcher != NULL;
    port_unlock(&r->ilock);
    if (quiet > 4 && !watched && atomic_load(&r->polling)) mr_wake_idle();   /* who finds nothing to run polls from now on */
    uint64_t due = atomic_load(&r->next_due);
    if (!watched && due < until) until = due;
    /* a worker that became busy meanwhile did not see us asleep */
    if (quiet > 4 && atomic_load(&r->nidle) < r->nactive) until = now + r->quantum / 2;
    port_event_wait(&r->monitor_event, until);
  }
  mr_trace_leave();
  mr_pool_thread_exit();
  mr_run_detach();
}

void mr_monitor_urge(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_load(&r->nidle) == 0 && !atomic_exchange(&r->high_waits, 1)) port_event_set(&r->monitor_event);
}

void mr_monitor_poke(uint64_t due) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->ilock);
  mr_thread *t = r->watcher;
  int wake = t && t->until > due;
  if (wake) port_event_set(&t->event);
  port_unlock(&r->ilock);
  if (!t && atomic_load(&r->monitor_until) > due) port_event_set(&r->monitor_event);
}

/* The first worker that wakes from an idle program wakes the monitor. */
void mr_monitor_resume(void) {
  if (atomic_load_explicit(&mr_rt.monitor_until, memory_order_relaxed) == UINT64_MAX) port_event_set(&mr_rt.monitor_event);
}

int mr_monitor_start(void) {
  mr_runtime *r = &mr_rt;
  int err = port_kick_handler(mr_run_body.kick);
  if (err) return MR_ETHREAD;
  atomic_fetch_add(&r->nthreads, 1);
  if (port_thread_start(monitor, NULL, "mare-monitor") == 0) return MR_OK;
  atomic_fetch_sub(&r->nthreads, 1);
  return MR_ETHREAD;
}
