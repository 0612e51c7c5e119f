/* sampler: see sampler.h. */
#include "run/sampler.h"
#include "run/rt.h"

#define LEAST 4                      /* who has had this part of a period is asked; else it owes on */

static struct { port_event event; atomic_int how; void (*ending)(int how); uint64_t period; } sampler;

static void look_at(mr_thread *t) {
  uint64_t now = atomic_load(&t->lives) ? port_thread_cpu(&t->os) : 0, was = t->sampled;
  t->sampled = now;
  if (now < was) was = 0;                      /* the record has a new owner */
  if (now == was || !atomic_load_explicit(&t->current, memory_order_relaxed)) return;
  uint64_t owed = atomic_fetch_add_explicit(&t->owed, now - was, memory_order_relaxed) + now - was;
  if (owed >= sampler.period / LEAST && !MR_DEAF) port_thread_kick(&t->os);
}

/* Not in step with what the program does periodically. */
static uint64_t next(uint64_t now) {
  static uint64_t seed = 88172645463325252u;
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return now + sampler.period * 3 / 4 + seed % (sampler.period / 2);
}

static void sample(void *arg) {
  (void)arg;
  while (!atomic_load(&sampler.how)) {
    port_event_wait(&sampler.event, sampler.period ? next(port_now()) : UINT64_MAX);
    if (!sampler.period || mr_run_stopping()) continue;
    for (mr_thread *t = mr_threads(); t; t = t->every) look_at(t);
  }
  sampler.ending(atomic_load(&sampler.how));
}

int mr_sampler_start(unsigned hz, void (*ending)(int how)) {
  sampler.ending = ending;
  sampler.period = hz ? 1000000000u / hz : 0;
  return port_thread_start(sample, NULL, "mare-profile") == 0 ? MR_OK : MR_ETHREAD;
}

void mr_sampler_end(int how) {
  atomic_store(&sampler.how, how);
  port_event_set(&sampler.event);
}
