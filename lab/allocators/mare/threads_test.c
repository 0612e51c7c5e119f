/*
 * threads_test NAME [ROUNDS]: threads under the allocator. Run with the library preloaded; and, with the allocator linked in under other names, under
 * ThreadSanitizer, which sees whether two threads are ever in one list. Forks are in ../stress.c.
 */
#include "checks.h"
#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, SLOTS = 512 };
static unsigned long rounds = 20000;

typedef struct { size_t n; unsigned seed; } label;

static label *make(uint64_t *x)
{
  size_t n = sizeof(label) + any_size(x);
  unsigned how = (unsigned)(next_random(x) % 16);
  label *p = how == 0 ? calloc(1, n) : how == 1 ? memalign((size_t)32 << next_random(x) % 7, n) : malloc(n);
  WANT(p && (how || all_zero(p, n < 4096 ? n : 4096)));
  if (how == 2) WANT((p = realloc(p, n = sizeof(label) + any_size(x))) != NULL);
  *p = (label){ n, (unsigned)next_random(x) };
  fill(p + 1, n - sizeof *p, p->seed);
  return p;
}

static void unmake(label *p)
{
  if (!p) return;
  WANT(filled(p + 1, p->n - sizeof *p, p->seed));
  free(p);
}

/* ---- slots that are anybody's: what one thread makes another frees ---- */

static _Atomic(label *) slots[SLOTS];

static void *exchange(void *seed)
{
  uint64_t x = (uintptr_t)seed * 7919 + 1;
  for (unsigned long i = 0; i < rounds; i++) {
    label *p = next_random(&x) % 3 ? make(&x) : NULL;
    unmake(atomic_exchange(&slots[next_random(&x) % SLOTS], p));
  }
  return NULL;
}

static void run_threads(void *(*f)(void *), unsigned n)
{
  pthread_t id[64];
  for (unsigned i = 0; i < n; i++) WANT(pthread_create(&id[i], NULL, f, (void *)(uintptr_t)(i + 1)) == 0);
  for (unsigned i = 0; i < n; i++) WANT(pthread_join(id[i], NULL) == 0);
}

static void blocks_that_others_free_stay_whole(void)
{
  run_threads(exchange, THREADS);
  for (unsigned i = 0; i < SLOTS; i++) unmake(atomic_exchange(&slots[i], NULL));
}

/* ---- one makes, one frees ---- */

enum { RING = 1024 };
static _Atomic(label *) ring[RING];

static void *consume(void *unused)
{
  (void)unused;
  for (unsigned long i = 0; i < rounds * 4; i++) {
    label *p;
    while (!(p = atomic_exchange(&ring[i % RING], NULL))) sched_yield();
    unmake(p);
  }
  return NULL;
}

static void what_a_consumer_frees_comes_back_to_its_producer(void)
{
  uint64_t x = 5;
  pthread_t id;
  WANT(pthread_create(&id, NULL, consume, NULL) == 0);
  for (unsigned long i = 0; i < rounds * 4; i++) {
    label *p = malloc(sizeof *p + next_random(&x) % 200), *none = NULL;
    WANT(p);
    *p = (label){ sizeof *p, 0 };
    while (!atomic_compare_exchange_weak(&ring[i % RING], &none, p)) {
      none = NULL;
      sched_yield();
    }
  }
  WANT(pthread_join(id, NULL) == 0);
  WANT(resident() < 300000); /* all were of some 12 MB at once; none came back: of some 100 */
}

/* ---- threads that come and go ---- */

static void *brief(void *seed)
{
  uint64_t x = (uintptr_t)seed * 31 + 7;
  label *p[8];
  for (unsigned i = 0; i < 8; i++) p[i] = make(&x);
  for (unsigned i = 0; i < 7; i++) unmake(p[i]);
  unmake(atomic_exchange(&slots[next_random(&x) % SLOTS], p[7]));
  return NULL;
}

static void ten_thousand_threads_come_and_go_and_memory_stays(void)
{
  for (unsigned i = 0; i < 500; i++) run_threads(brief, 4);
  for (unsigned i = 0; i < SLOTS; i++) unmake(atomic_exchange(&slots[i], NULL));
  long before = resident();
  for (unsigned i = 0; i < rounds / 8; i++) run_threads(brief, 4);
  for (unsigned i = 0; i < SLOTS; i++) unmake(atomic_exchange(&slots[i], NULL));
  long after = resident();
  WANT(after - before < 3000);
}

/* ---- destructors of a thread that allocate when ours has run ---- */

static pthread_key_t late;

static void late_again(void *p)
{
  uint64_t x = (uintptr_t)p | 1;
  free(p);
  for (unsigned i = 0; i < 20; i++) unmake(make(&x));
  pthread_setspecific(late, malloc(100)); /* until the system gives up */
}

static void *sets_late(void *unused)
{
  (void)unused;
  pthread_setspecific(late, malloc(10));
  return NULL;
}

static void destructors_may_allocate_to_the_very_end(void)
{
  WANT(pthread_key_create(&late, late_again) == 0);
  for (unsigned i = 0; i < 50; i++) run_threads(sets_late, 4);
  long before = resident();
  for (unsigned i = 0; i < 500; i++) run_threads(sets_late, 4);
  WANT(resident() - before < 3000);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
#define TEST(f) { #f, f }
  TEST(blocks_that_others_free_stay_whole), TEST(what_a_consumer_frees_comes_back_to_its_producer),
  TEST(ten_thousand_threads_come_and_go_and_memory_stays), TEST(destructors_may_allocate_to_the_very_end),
};

int main(int argc, char **argv)
{
  if (argc > 2) rounds = strtoul(argv[2], NULL, 10);
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (argc < 2) puts(tests[i].name);
    else if (strcmp(argv[1], tests[i].name) == 0) return tests[i].run(), 0;
  }
  return argc < 2 ? 0 : 2;
}
