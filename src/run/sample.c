/*
 * sample: how much CPU time each job has had, at next to no cost; and how busy workers are.
 *
 * The monitor looks round every half quantum. What the CPU clock of a thread has gone on since the last look is put down on the thread
 * (`sample`), and the thread charges it to the job whose fiber runs on it in that moment, when the fiber stops. So nobody but its own thread
 * touches a fiber, and a turn costs the look at one byte. Short turns are seen rarely, and then have all that was used meanwhile: over some
 * time each job gets its share.
 *
 * While something observes (`observed`), the time of each turn is read from the clock when its fiber stops: from where the one before
 * ended. Of a turn of more than STAY the thread's CPU clock is asked, too, which costs twenty times as much: what the thread slept in a call, or other
 * programs had, is charged to nobody. The system takes a CPU away for longer than that, so short turns have all of their time. What they were
 * charged too much all the same, the next long one pays less.
 *
 * A thread that does not come back, in an endless loop, has its sample still to be charged: who reads (mr_running) adds it.
 */
#include "run/rt.h"
#include "run/hold.h"
#include "run/crew.h"

#define STAY 300000u                             /* ns */
#define READ(a) atomic_load_explicit(&(a), memory_order_relaxed)
#define WRITE(a, v) atomic_store_explicit(&(a), v, memory_order_relaxed)

void mr_observe(int by) { atomic_fetch_add(&mr_rt.observed, by); }

void mr_sample_all(void) {
  int exact = atomic_load(&mr_rt.observed) > 0;
  for (mr_thread *t = mr_threads(); t; t = t->every) {
    if (!READ(t->lives) || !READ(t->current)) continue;
    uint64_t cpu = port_thread_cpu(&t->os), was = t->sampled_cpu;
    t->sampled_cpu = cpu;
    if (cpu > was) atomic_fetch_add(&t->sample, cpu - was);   /* else the record has another thread now */
    if (cpu > was || exact) WRITE(t->sampled, 1);
  }
}

static uint64_t exactly(mr_thread *t, uint64_t turn, uint64_t sampled) {
  uint64_t used = turn;
  if (turn >= STAY) {
    uint64_t cpu = port_thread_cpu(&t->os);
    if (!cpu) return turn < mr_rt.quantum ? turn : sampled;
    used = cpu > t->exact_cpu ? cpu - t->exact_cpu : 0;
  }
  t->exact_cpu += used;
  return used;
}

PORT_NOINLINE void mr_sample_charge(mr_thread *t, mr_job *j) {
  uint64_t used = atomic_exchange(&t->sample, 0);
  int exact = READ(mr_rt.observed) > 0;
  WRITE(t->sampled, (unsigned char)exact);
  if (exact) {
    if (t->exact_from) {
      uint64_t now = port_now();
      used = exactly(t, now - t->exact_from, used);
      t->exact_from = now;
    } else {
      mr_sample_rest(t);
    }
  } else {
    t->exact_from = 0;
  }
  WRITE(j->cpu, READ(j->cpu) + used);
}

void mr_sample_rest(mr_thread *t) {
  t->exact_from = port_now();
  t->exact_cpu = port_thread_cpu(&t->os);
}

unsigned mr_running(mr_running_fiber *out, unsigned most) {
  unsigned n = 0;
  for (mr_thread *t = mr_threads(); t && n < most; t = t->every) {
    mr_fiber *f = READ(t->lives) ? READ(t->current) : NULL;
    if (f) out[n++] = (mr_running_fiber){ f, READ(t->sample), -1, t };
  }
  for (unsigned i = 0, used = atomic_load(&mr_rt.nused); i < used; i++) {
    const mr_thread *t = mr_worker_runner(&mr_rt.worker[i]);
    for (unsigned k = 0; t && k < n; k++)
      if (out[k].thread == t) out[k].worker = (int)i;
  }
  return n;
}

uint64_t mr_run_up(void) {
  uint64_t began = atomic_load(&mr_rt.began);
  return began ? port_now() - began : 0;
}

void mr_run_count(unsigned *threads, unsigned *blocked, unsigned *hosts) {
  *threads = atomic_load(&mr_rt.nthreads);
  *blocked = atomic_load(&mr_rt.nblocked);
  *hosts = atomic_load(&mr_rt.nhosts);
}

/* ---- workers ---- */

/* Both by its holder, so nothing is lost. */
void mr_worker_rests(mr_worker *w) {
  if (!READ(w->rests_since)) WRITE(w->rests_since, port_now());
}

void mr_worker_works(mr_worker *w) {
  uint64_t since = READ(w->rests_since), now;
  if (!since) return;
  now = port_now();
  WRITE(w->rested, READ(w->rested) + (now > since ? now - since : 0));
  WRITE(w->rests_since, 0);
}

unsigned mr_worker_loads(mr_worker_load *out, unsigned most) {
  mr_runtime *r = &mr_rt;
  unsigned n = atomic_load(&r->nused);
  uint64_t now = port_now(), began = atomic_load(&r->began);
  if (n > most) n = most;
  for (unsigned i = 0; i < n; i++) {
    mr_worker *w = &r->worker[i];
    uint64_t since = READ(w->rests_since), rested = READ(w->rested) + (since && now > since ? now - since : 0), up = now - began;
    out[i] = (mr_worker_load){ .id = i, .active = atomic_load(&w->thread) != 0, .dispatches = READ(w->tick), .steals = READ(w->steals),
                               .busy = up > rested ? up - rested : 0, .queued = READ(w->queue.count) };
  }
  return n;
}
