/* profiler: see profiler.h. */
#include "run/profiler.h"
#include "run/rt.h"

#define LEAST 4                      /* who has had this part of a period is asked; else it owes on */
#define SLOWER 4                     /* so many periods pass at most when nobody has had any time: idle, or on a busy machine */

/* `until`: the thread sleeps from then on, until the event; 0: it does. fresh: what threads have had so far is not owed. */
static struct { port_event event; uint64_t period; _Atomic uint64_t until; atomic_int fresh, runs; } profiler = { .period = 1000000000u / 200 };

/* 1: it has had time. */
static int look_at(mr_thread *t) {
  uint64_t now = atomic_load(&t->lives) ? port_thread_cpu(&t->os) : 0, was = t->profiled;
  t->profiled = now;
  if (now < was) was = 0;                      /* the record has a new owner */
  if (now == was || !atomic_load_explicit(&t->current, memory_order_relaxed)) return 0;
  uint64_t owed = atomic_fetch_add_explicit(&t->owed, now - was, memory_order_relaxed) + now - was;
  if (owed >= profiler.period / LEAST && !MR_DEAF) port_thread_kick(&t->os);
  return 1;
}

/* Nobody owes anything yet. */
static void forget(void) {
  for (mr_thread *t = mr_threads(); t; t = t->every) t->profiled = atomic_load(&t->lives) ? port_thread_cpu(&t->os) : 0;
}

/* Not in step with what the program does periodically. */
static uint64_t next(uint64_t now, unsigned slower) {
  static uint64_t seed = 88172645463325252u;
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return now + slower * (profiler.period * 3 / 4 + seed % (profiler.period / 2));
}

static void sample(void *arg) {
  unsigned slower = 1;
  (void)arg;
  for (;;) {
    int some = 0;
    uint64_t now = port_now();
    port_event_wait(&profiler.event, now < atomic_load(&profiler.until) ? next(now, slower) : UINT64_MAX);
    if (mr_run_stopping() || port_now() >= atomic_load(&profiler.until)) continue;
    if (atomic_exchange(&profiler.fresh, 0)) {
      forget();
      continue;
    }
    for (mr_thread *t = mr_threads(); t; t = t->every) some += look_at(t);
    slower = some ? 1 : slower < SLOWER ? slower * 2 : SLOWER;
  }
}

static int run_until(uint64_t until) {
  atomic_store(&profiler.until, until);
  if (atomic_exchange(&profiler.runs, 1)) port_event_set(&profiler.event);
  else if (port_thread_start(sample, NULL, "mare-profile") != 0) {
    atomic_store(&profiler.runs, 0);
    return MR_ETHREAD;
  }
  return MR_OK;
}

int mr_profiler_start(unsigned hz) {
  profiler.period = 1000000000u / hz;
  return run_until(UINT64_MAX);
}

int mr_profiler_begin(uint64_t until) {
  for (mr_thread *t = mr_threads(); t; t = t->every) atomic_store(&t->owed, 0);
  atomic_store(&profiler.fresh, 1);
  return run_until(until);
}

void mr_profiler_end(void) { atomic_store(&profiler.until, 0); }

uint64_t mr_profiler_left(void) {
  uint64_t ns = 0;
  for (mr_thread *t = mr_threads(); t; t = t->every)
    if (atomic_load_explicit(&t->owed, memory_order_relaxed) > 2 * profiler.period) ns += mr_profiler_take(t);
  return ns;
}
