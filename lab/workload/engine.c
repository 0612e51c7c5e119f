/*
 * The timed part. Threads are made, pinned, and wait; memory is read; they start together. Each runs its operations and waits again, with all its
 * memory, until what is resident after the last free has been read.
 *
 * The calls below are the program's own calls through the dynamic linker: this file is compiled without builtin allocation functions, and a
 * test looks for them in the binary. A block handed to another thread goes through a shared slot: stored with release, taken with acquire.
 */
#define _GNU_SOURCE
#include "engine.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/resource.h>

#define LOOKS 256 /* of a thread, at most */
#define PAGE 4096u       /* where pages are larger, one is touched more than once */
#define CODE (1u << 20) /* bytes of code that may be touched in the timed part */

typedef struct {
  pthread_t id;
  const sc_thread *script;
  void **own;
  _Atomic(void *) *shared;
  enum en_touch touch;
  int cpu_count, measured;
  uint64_t looks; /* operations between two looks at what is resident; 0: no look */
  uint64_t allocations, frees, reallocs, shared_frees, waits, wait_ns, began, ended, failed_size;
  en_latency *latency;
  int failed;
} worker;

static pthread_barrier_t ready, done, leave;
static _Atomic int stop; /* an allocation failed: nobody goes on waiting */
static uint64_t clock_cost;
static cpu_set_t cpus_allowed;
static _Atomic uint64_t most_seen;
static uint64_t seen_before; /* anonymous memory, by those who looked; before the timed part */

static uint64_t now_ns(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- one operation ---- */

static inline void touch(enum en_touch how, char *p, size_t n)
{
  if (n == 0) return;
  if (how == EN_ALL) {
    memset(p, 0, n);
  } else if (how == EN_LINE || how == EN_PAGES) {
    for (size_t i = 0, step = how == EN_LINE ? 64 : PAGE; i < n; i += step) ((volatile char *)p)[i] = 1;
    ((volatile char *)p)[n - 1] = 1;
  } else if (how != EN_NONE) {
    *(volatile char *)p = 1;
    if (how == EN_ENDS) ((volatile char *)p)[n - 1] = 1;
  }
}

static void *wait_for(worker *w, uint32_t slot)
{
  void *p = atomic_load_explicit(&w->shared[slot], memory_order_acquire);
  if (p) return p;
  uint64_t since = now_ns();
  w->waits++;
  for (unsigned tries = 0; !(p = atomic_load_explicit(&w->shared[slot], memory_order_acquire)) && !atomic_load(&stop); tries++)
    if (tries > 100) sched_yield();
  w->wait_ns += now_ns() - since;
  return p;
}

static inline void *take(worker *w, const sc_op *op, unsigned flags)
{
  if (op->from == SC_NO_SLOT) return NULL;
  if (!(flags & SC_OLD_SHARED)) return w->own[op->from];
  w->shared_frees++;
  return wait_for(w, op->from);
}

static inline void put(worker *w, const sc_op *op, unsigned flags, void *p)
{
  if (flags & SC_NEW_SHARED) atomic_store_explicit(&w->shared[op->to], p, memory_order_release);
  else w->own[op->to] = p;
}

static void note(worker *w, enum en_routine r, uint64_t since)
{
  uint64_t ns = now_ns() - since;
  ns = ns > clock_cost ? ns - clock_cost : 0;
  en_latency *l = &w->latency[r];
  l->count++;
  l->classes[ct_class(ns)]++;
  if (ns > l->most) l->most = ns;
}

static void pace(uint64_t began, uint64_t ms)
{
  uint64_t until = began + ms * 1000000u;
  if (now_ns() >= until) return;
  struct timespec t = { (time_t)(until / 1000000000u), (long)(until % 1000000000u) };
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) { }
}

#define TIMED(routine, call) do { if (w->measured) { uint64_t t_ = now_ns(); call; note(w, routine, t_); } else call; } while (0)

static int fail(worker *w, uint64_t size)
{
  w->failed = 1;
  w->failed_size = size;
  atomic_store(&stop, 1);
  return 0;
}

__attribute__((always_inline)) static inline int do_one(worker *w, const sc_op *op) /* also in the loop that is timed */
{
  unsigned flags = (unsigned)(op->what >> 48) & 0xff;
  size_t n = (size_t)sc_size(op);
  void *p = NULL;
  switch (flags & SC_KIND) {
    case SC_MALLOC: TIMED(EN_MALLOC, p = malloc(n)); break;
    case SC_CALLOC: TIMED(EN_CALLOC, p = calloc(1, n)); break;
    case SC_ALIGNED: if (posix_memalign(&p, (size_t)1 << (op->what >> 56), n) != 0) p = NULL; break;
    case SC_REALLOC: {
      void *old = take(w, op, flags);
      if (!old && op->from != SC_NO_SLOT) return 0;
      TIMED(EN_REALLOC, p = realloc(old, n ? n : 1));
      w->reallocs++;
      break;
    }
    case SC_FREE:
      p = take(w, op, flags);
      if (!p) return 0; /* stopped while waiting */
      TIMED(EN_FREE, free(p));
      w->frees++;
      return 1;
    default: pace(w->began, n); return 1;
  }
  if (!p) return n == 0 ? (put(w, op, flags, p), 1) : fail(w, n);
  touch(w->touch, p, n);
  put(w, op, flags, p);
  w->allocations++;
  return 1;
}

/* ---- threads ---- */

/*
 * VmHWM is off by what the kernel has not yet added up, and holds code that happened to be touched before or not: both may be more than a small
 * program needs. So one run looks by itself, every so often. No thread waits for another that looks: then they would allocate one after the other,
 * and the peak would be that of another program.
 */
static void look(void)
{
  uint64_t now = mem_anonymous(), most = atomic_load(&most_seen);
  while (now > most && !atomic_compare_exchange_weak(&most_seen, &most, now)) { }
}

static void work_and_look(worker *w, const sc_op *op, const sc_op *end)
{
  for (uint64_t n = 1; op < end && do_one(w, op); op++, n++)
    if (n % w->looks == 0) look();
}

static void *work(void *data)
{
  worker *w = data;
  if (w->cpu_count) pthread_setaffinity_np(pthread_self(), sizeof cpus_allowed, &cpus_allowed);
  if (w->looks) mem_anonymous(); /* so that what a look touches is there before the timed part */
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&ready);
  w->began = now_ns();
  const sc_op *op = w->script->ops, *end = op + w->script->count;
  if (w->looks) work_and_look(w, op, end);
  else while (op < end && do_one(w, op)) op++;
  w->ended = now_ns();
  pthread_barrier_wait(&done);
  pthread_barrier_wait(&leave);
  return NULL;
}

static int choose_cpus(unsigned n)
{
  cpu_set_t all;
  unsigned taken = 0;
  CPU_ZERO(&cpus_allowed);
  if (sched_getaffinity(0, sizeof all, &all) != 0) return errno;
  for (int c = 0; c < CPU_SETSIZE && taken < n; c++)
    if (CPU_ISSET(c, &all)) { CPU_SET(c, &cpus_allowed); taken++; }
  return taken == n ? 0 : EINVAL;
}

static void measure_clock(void)
{
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 10000; i++) {
    uint64_t t = now_ns(), d = now_ns() - t;
    if (d < least) least = d;
  }
  clock_cost = least;
}

static void *filled(size_t bytes) /* touched before the timed part */
{
  void *p = sc_map(bytes);
  if (p) memset(p, 0, bytes);
  return p;
}

static void gather(en_result *r, const worker *w, uint32_t n)
{
  uint64_t first = UINT64_MAX, last = 0, waited = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (w[i].began < first) first = w[i].began;
    if (w[i].ended > last) last = w[i].ended;
    waited += w[i].wait_ns;
    r->allocations += w[i].allocations;
    r->frees += w[i].frees;
    r->reallocs += w[i].reallocs;
    r->shared_frees += w[i].shared_frees;
    r->waits += w[i].waits;
    if (w[i].failed) { r->failed = 1; r->failed_size = w[i].failed_size; }
    for (int k = 0; w[i].latency && k < EN_ROUTINES; k++) {
      en_latency *to = &r->latency[k];
      const en_latency *from = &w[i].latency[k];
      to->count += from->count;
      if (from->most > to->most) to->most = from->most;
      for (int c = 0; c < CT_CLASSES; c++) to->classes[c] += from->classes[c];
    }
  }
  r->operations = r->allocations + r->frees;
  r->seconds = (double)(last - first) / 1e9;
  r->wait_seconds = (double)waited / 1e9;
}

static double cpu_of(const struct rusage *u)
{
  return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) + (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static void run_timed(en_result *r)
{
  struct rusage before, after;
  pthread_barrier_wait(&ready); /* all are there */
  mem_forget_peak();
  r->harness_bytes = mem_resident();
  seen_before = mem_anonymous();
  getrusage(RUSAGE_SELF, &before);
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&done);
  getrusage(RUSAGE_SELF, &after);
  uint64_t peak = mem_peak(), now = mem_resident();
  r->peak_bytes = peak > r->harness_bytes ? peak - r->harness_bytes : 0;
  uint64_t seen = most_seen > seen_before ? most_seen - seen_before : 0;
  if (most_seen && r->peak_bytes <= seen + mem_grain() + CODE) r->peak_bytes = seen; /* nothing large was missed between two looks */
  r->after_bytes = now > r->harness_bytes ? now - r->harness_bytes : 0;
  r->cpu_seconds = cpu_of(&after) - cpu_of(&before);
  r->minor_faults = after.ru_minflt - before.ru_minflt;
  r->major_faults = after.ru_majflt - before.ru_majflt;
  r->voluntary = after.ru_nvcsw - before.ru_nvcsw;
  r->involuntary = after.ru_nivcsw - before.ru_nivcsw;
}

static int prepare(worker *w, const sc_script *s, enum en_touch touch, unsigned cpus, unsigned also)
{
  _Atomic(void *) *shared = filled(((size_t)s->shared + 1) * sizeof *shared);
  for (uint32_t i = 0; i < s->threads; i++) {
    w[i] = (worker){ .script = &s->thread[i], .touch = touch, .cpu_count = (int)cpus, .measured = also & EN_LATENCY, .shared = shared };
    if (also & EN_EXACT_PEAK) w[i].looks = s->thread[i].count / LOOKS + 1;
    w[i].own = filled(((size_t)s->thread[i].slots + 1) * sizeof(void *));
    if (w[i].measured) w[i].latency = filled(EN_ROUTINES * sizeof(en_latency));
    if (!w[i].own || !shared || (w[i].measured && !w[i].latency)) return ENOMEM;
  }
  return 0;
}

int en_run(const sc_script *s, enum en_touch touch, unsigned cpus, unsigned also, en_result *r, const char **what)
{
  worker *w = filled(s->threads * sizeof *w);
  int error = w ? prepare(w, s, touch, cpus, also) : ENOMEM;
  *what = "not enough memory for the preparation";
  if (error) return error;
  *what = "not so many CPUs";
  if (cpus && (error = choose_cpus(cpus)) != 0) return error;
  if (also & EN_LATENCY) measure_clock();
  r->requested_peak = s->peak;
  pthread_barrier_init(&ready, NULL, s->threads + 1);
  pthread_barrier_init(&done, NULL, s->threads + 1);
  pthread_barrier_init(&leave, NULL, s->threads + 1);
  *what = "can't start so many threads";
  for (uint32_t i = 0; i < s->threads; i++)
    if ((error = pthread_create(&w[i].id, NULL, work, &w[i])) != 0) return error;
  run_timed(r);
  pthread_barrier_wait(&leave);
  for (uint32_t i = 0; i < s->threads; i++) pthread_join(w[i].id, NULL);
  gather(r, w, s->threads);
  return 0;
}
