/*
 * Threads that take blocks and give back each other's, while more threads start and end and the process forks. Every block's content is checked
 * before it goes back.
 *
 *   stress exchange THREADS STEPS | forks | endings | crowd THREADS | giving | classes
 */
#include "tests.h"
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct { size_t size; unsigned seed; } label; /* at the start of a block */

static void *make(uint32_t *x)
{
  uint32_t r = step(x);
  size_t size = sizeof(label) + (r % 16 ? step(x) % 250 : r % 4096 ? step(x) % 3000 : step(x) % 600000);
  int how = (int)(step(x) % 8);
  label *block = how == 0 ? take_zeroed(size) : how == 1 ? take_aligned((size_t)16 << step(x) % 8, size) : take(size);
  WANT(block);
  *block = (label){ size, step(x) };
  fill((unsigned char *)(block + 1), size - sizeof *block, block->seed);
  return block;
}

static void check(label *block) { WANT(holds((unsigned char *)(block + 1), block->size - sizeof *block, block->size - sizeof *block, block->seed)); }

static void unmake(label *block)
{
  if (!block) return;
  check(block);
  give(block);
}

/* ---- exchange: every slot is anybody's ---- */

enum { SLOTS = 4096 };
static _Atomic(void *) slots[SLOTS];
static atomic_int stop;

static void work(uint32_t seed, long steps)
{
  uint32_t x = seed * 2654435761u + 1;
  for (long i = 0; i < steps && !atomic_load_explicit(&stop, memory_order_relaxed); i++) {
    label *block = make(&x);
    if (i % 5 == 0 && block->size > 100) { /* grown or shrunk, its label first */
      label was = *block;
      size_t to = sizeof(label) + step(&x) % 500, both = (to < was.size ? to : was.size) - sizeof(label);
      WANT((block = resize(block, to)));
      WANT(block->size == was.size && holds((unsigned char *)(block + 1), both, was.size - sizeof(label), was.seed));
      block->size = to;
      fill((unsigned char *)(block + 1), to - sizeof(label), was.seed);
    }
    unmake(atomic_exchange_explicit(&slots[step(&x) % SLOTS], block, memory_order_acq_rel));
  }
}

typedef struct { uint32_t seed; long steps; } task;

static void *worker(void *arg)
{
  task t = *(task *)arg;
  give(arg);
  work(t.seed, t.steps);
  return NULL;
}

static pthread_t start(uint32_t seed, long steps)
{
  pthread_t id;
  task *t = take(sizeof *t);
  *t = (task){ seed, steps };
  WANT(pthread_create(&id, NULL, worker, t) == 0);
  return id;
}

static void clear(void)
{
  for (int i = 0; i < SLOTS; i++) unmake(atomic_exchange(&slots[i], NULL));
}

/* In generations, so that a thread's memory outlives it and is taken over. */
static void exchange(int threads, long steps)
{
  pthread_t ids[64];
  for (int generation = 0; generation < 4; generation++) {
    for (int t = 0; t < threads; t++) ids[t] = start((uint32_t)(generation * 64 + t), steps / 4);
    for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
  }
  clear();
}

/* ---- forks, while threads are in the allocator ---- */

static void forks(void)
{
  pthread_t ids[3];
  for (int t = 0; t < 3; t++) ids[t] = start((uint32_t)t, 1L << 40);
  for (int i = 0; i < 60; i++) {
    pid_t child = fork();
    WANT(child >= 0);
    if (!child) {
      alarm(60); /* one that waits for a lock for ever ends */
      atomic_store(&stop, 0);
      work((uint32_t)i, 3000);
      pthread_join(start(99, 1000), NULL);
      _exit(0);
    }
    int status;
    WANT(waitpid(child, &status, 0) == child && status == 0);
  }
  atomic_store(&stop, 1);
  for (int t = 0; t < 3; t++) pthread_join(ids[t], NULL);
  clear();
}

/* ---- endings: destructors that allocate and give back after the allocator's own has run ---- */

static pthread_key_t late;

static void ending(void *block)
{
  uint32_t x = 7;
  label *l = block;
  unsigned rounds = l->seed;
  l->size = sizeof *l;
  give(l);
  unmake(make(&x));
  if (!rounds) return;
  label *again = take(sizeof *again);
  *again = (label){ sizeof *again, rounds - 1 };
  pthread_setspecific(late, again);
}

static void *end_late(void *arg)
{
  label *block = take(sizeof *block);
  *block = (label){ sizeof *block, 3 };
  pthread_setspecific(late, block);
  work((uint32_t)(uintptr_t)arg + 1, 200);
  return NULL;
}

static void endings(void)
{
  pthread_t ids[4];
  pthread_key_create(&late, ending);
  for (uintptr_t i = 0; i < 200; i++) {
    for (int t = 0; t < 4; t++) WANT(pthread_create(&ids[t], NULL, end_late, (void *)(i * 4 + (uintptr_t)t)) == 0);
    for (int t = 0; t < 4; t++) pthread_join(ids[t], NULL);
  }
  clear();
}

/* ---- crowd: more threads alive at a time than an allocator may have heaps ---- */

static pthread_barrier_t all;

static void *one_of_many(void *arg)
{
  work((uint32_t)(uintptr_t)arg, 20);
  pthread_barrier_wait(&all);
  work((uint32_t)(uintptr_t)arg + 1, 20);
  return NULL;
}

static void crowd(int threads)
{
  pthread_t *ids = take((size_t)threads * sizeof *ids);
  pthread_attr_t thin;
  pthread_attr_init(&thin);
  pthread_attr_setstacksize(&thin, 1 << 16);
  pthread_barrier_init(&all, NULL, (unsigned)threads);
  for (int t = 0; t < threads; t++) WANT(pthread_create(&ids[t], &thin, one_of_many, (void *)(uintptr_t)t) == 0);
  for (int t = 0; t < threads; t++) pthread_join(ids[t], NULL);
  give(ids);
  clear();
}

/* ---- memory ---- */

static long resident(void)
{
  long total, pages;
  FILE *f = fopen("/proc/self/statm", "r");
  WANT(f && fscanf(f, "%ld %ld", &total, &pages) == 2);
  fclose(f);
  return pages * sysconf(_SC_PAGESIZE);
}

enum { BATCH = 20000, ROUNDS = 50 };
static void *batch[BATCH];

static void *give_all(void *arg)
{
  for (int i = 0; i < BATCH; i++) give(batch[i]);
  return arg;
}

/* One thread only takes, others only give back: what came back is used again. */
static void giving(void)
{
  long early = 0;
  for (int round = 0; round < ROUNDS; round++) {
    pthread_t id;
    for (int i = 0; i < BATCH; i++) WANT((batch[i] = memset(take(100), round, 100)));
    WANT(pthread_create(&id, NULL, give_all, NULL) == 0);
    pthread_join(id, NULL);
    if (round == 4) early = resident();
  }
  WANT(resident() - early < 4 << 20); /* all rounds together took 100 MB and more */
}

/* Memory that had blocks of one size serves another. */
static void classes(void)
{
  enum { BYTES = 16 << 20 };
  static void *blocks[BYTES / 8];
  long most = 0;
  for (size_t size = 8; size <= 256; size *= 2) {
    size_t n = BYTES / size;
    for (size_t i = 0; i < n; i++) WANT((blocks[i] = memset(take(size), 1, size)));
    if (size == 8) most = resident();
    for (size_t i = 0; i < n; i++) give(blocks[i]);
  }
  WANT(resident() < most + (8 << 20));
}

int main(int argc, char **argv)
{
  const char *what = argc > 1 ? argv[1] : "";
  if (!strcmp(what, "exchange") && argc == 4) exchange(atoi(argv[2]), atol(argv[3]));
  else if (!strcmp(what, "forks")) forks();
  else if (!strcmp(what, "endings")) endings();
  else if (!strcmp(what, "crowd") && argc == 3) crowd(atoi(argv[2]));
  else if (!strcmp(what, "giving")) giving();
  else if (!strcmp(what, "classes")) classes();
  else return 2;
  puts("ok");
  return 0;
}
