/*
 * The pool: heaps of many threads share it, heaps wander between threads, memory goes back to the system.
 */
#include "heap/heap.h"
#include "heap/pool.h"
#include "port/test.h"
#include "port/port.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Resident bytes of this OS process. */
static size_t resident(void) {
  FILE *f = fopen("/proc/self/statm", "r");
  size_t all = 0, pages = 0;
  if (f) {
    if (fscanf(f, "%zu %zu", &all, &pages) != 2) pages = 0;
    fclose(f);
  }
  return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void test_a_kind_holds_what_was_asked(void) {
  for (size_t size = 16; size <= 33000; size += 13) {
    mr_chunk *c = mr_pool_get(mr_pool_kind(size));
    CHECK(c && c->size >= size && (c->size <= MR_CHUNK_MIN || c->size < size * 4 + 400));
    memset(c + 1, 0x5a, c->size - sizeof *c);
    mr_pool_put(c);
  }
}

static void test_a_kind_of_its_own_size(void) {
  int k = mr_pool_kind_new(8960);
  CHECK(k > 0 && mr_pool_kind_new(8960) == k);
  mr_chunk *a = mr_pool_get((unsigned)k), *b = mr_pool_get((unsigned)k);
  CHECK(a && b && a != b && a->size == 8960);
  memset(a + 1, 1, a->size - sizeof *a);
  memset(b + 1, 2, b->size - sizeof *b);
  CHECK(((char *)(a + 1))[8000] == 1);
  mr_pool_put(a);
  mr_pool_put(b);
  CHECK(mr_pool_kind_new(100) == -1 && mr_pool_kind_new(MR_CHUNK_MAX * 2) == -1);
}

enum { MANY = 10000 };
static mr_heap *heaps[MANY];

static void test_dropped_heaps_go_back_to_the_system(void) {
  mr_pool_trim();
  size_t before = resident(), pool = mr_pool_reserved();
  for (int i = 0; i < MANY; i++) {
    heaps[i] = mr_heap_new(0);
    for (int j = 0; j < 150; j++) memset(mr_heap_alloc(heaps[i], NULL, 0, 56), 1, 56);
    if (i % 100 == 0) memset(mr_heap_alloc(heaps[i], NULL, 0, 50000), 1, 50000);
  }
  size_t full = resident();
  CHECK(full > before + MANY * 8000u);
  for (int i = 0; i < MANY; i++) mr_heap_drop(heaps[i]);
  CHECK(mr_pool_reserved() < (full - before) / 2);      /* by itself: most */
  mr_pool_trim();
  CHECK(mr_pool_reserved() <= pool);                    /* asked: all */
#if !defined(PORT_ASAN) && !defined(PORT_TSAN)
  CHECK(resident() < before + (1 << 20));
#endif
}

/* ---- blocks ---- */

static void test_a_freed_block_is_handed_out_again(void) {
  size_t n = 100000;
  char *p = mr_block_get(&n);
  CHECK(p && n >= 100000 && n <= 100000 * 9 / 8 + 4096);
  memset(p, 3, n);
  mr_block_put(p, n);
  size_t m = 100000;
  CHECK(mr_block_get(&m) == p && m == n);
  mr_block_put(p, n);
}

static void test_a_ring_of_blocks_asks_the_system_for_none(void) {
  static const size_t sizes[] = {100000, 1048626, 5000000};
  for (int k = 0; k < 3; k++) {
    void *p[8];
    size_t n = 0, all = 0;
    for (int i = 0; i < 8; i++) { n = sizes[k]; p[i] = mr_block_get(&n); all += n; }
    for (int i = 0; i < 500; i++) {
      mr_block_put(p[i % 8], n);
      size_t m = sizes[k];
      void *q = mr_block_get(&m);
      CHECK(q == p[i % 8] && m == n);
      p[i % 8] = q;
    }
    for (int round = 0; round < 20; round++) {      /* all freed at once, as a collector does */
      for (int i = 0; i < 8; i++) mr_block_put(p[i], n);
      CHECK(mr_block_reserved() >= all);
      for (int i = 0; i < 8; i++) p[i] = mr_block_get(&n);
    }
    for (int i = 0; i < 8; i++) mr_block_put(p[i], n);
    mr_pool_trim();
  }
}

static void test_what_is_kept_stays_below_the_peak_and_the_oldest_go(void) {
  static void *p[200];
  size_t n = 0;
  mr_pool_trim();
  for (int i = 0; i < 100; i++) { n = 1 << 20; p[i] = mr_block_get(&n); }
  for (int i = 0; i < 100; i++) mr_block_put(p[i], n);
  CHECK(mr_block_reserved() <= 100 * n);
  for (int i = 0; i < 10000; i++) { n = 1 << 20; mr_block_put(mr_block_get(&n), n); }
  CHECK(mr_block_reserved() <= 3u << 20);               /* the peak is forgotten */
  size_t m = 40000;                                     /* a new phase with another size is kept too */
  for (int i = 0; i < 200; i++) { m = 40000; p[i] = mr_block_get(&m); }
  void *last = p[199];
  for (int i = 0; i < 200; i++) mr_block_put(p[i], m);
  CHECK(mr_block_get(&m) == last);
  mr_block_put(last, m);
  mr_pool_trim();
  CHECK(mr_block_reserved() == 0);
}

static void test_a_resized_block_keeps_its_content(void) {
  static const size_t sizes[] = {40000, 100000, 600000, 5000000, 40000000, 700000, 50000};
  size_t n = 32768;
  char *p = mr_block_get(&n);
  p[0] = 1;
  p[32767] = 2;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t m = sizes[i];
    p = mr_block_resize(p, n, &m);
    CHECK(p && m >= sizes[i] && p[0] == 1 && p[32767] == 2);
    p[m - 1] = 9;
    n = m;
  }
  size_t m = SIZE_MAX - 100;
  CHECK(mr_block_resize(p, n, &m) == NULL && p[0] == 1);
  mr_block_put(p, n);
  mr_pool_trim();
  CHECK(mr_block_reserved() == 0);
}

/* ---- threads: each takes a heap from a slot, uses it, puts it into another slot ---- */

enum { SLOTS = 64, TURNS = 4000, THREADS = 4 };
static _Atomic(mr_heap *) slots[SLOTS];

typedef struct list { struct list *next; size_t size; } list;

/* A heap's content: a list whose head is remembered in its first block, of a size only used for that. */
static void grow(mr_heap *h, uint64_t *seed) {
  for (int i = 0; i < 50; i++) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    size_t n = sizeof(list) + (*seed >> 33) % (*seed >> 60 ? 200 : 60000);
    list *l = mr_heap_alloc(h, NULL, 0, n);
    if (!l) continue;
    memset(l, (int)n, n);
    if (*seed >> 40 & 1) mr_heap_alloc(h, l, n, 0);
  }
}

static void wander(void *arg) {
  uint64_t seed = (uint64_t)(uintptr_t)arg * 7919 + 1;
  for (int i = 0; i < TURNS; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    mr_heap *h = atomic_exchange(&slots[(seed >> 33) % SLOTS], NULL);
    if (!h) h = mr_heap_new(0);
    if (!h) continue;
    grow(h, &seed);
    if (i % 500 == 0) CHECK(mr_heap_check(h) == 0);
    if (mr_heap_reserved(h) > 500000) mr_heap_drop(h);
    else {
      h = atomic_exchange(&slots[(seed >> 43) % SLOTS], h);
      if (h) mr_heap_drop(h);
    }
    if (i % 1000 == 0) mr_pool_trim();
  }
  mr_pool_thread_exit();
}

static void test_heaps_wander_between_threads(void) {
  port_thread t[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], wander, (void *)i, "wander") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  for (int i = 0; i < SLOTS; i++) {
    mr_heap *h = atomic_exchange(&slots[i], NULL);
    if (h) {
      CHECK(mr_heap_check(h) == 0);
      mr_heap_drop(h);
    }
  }
  mr_pool_trim();
  CHECK(mr_pool_reserved() == 0);                       /* threads that ended kept nothing */
}

int main(void) {
  test_a_kind_holds_what_was_asked();
  test_a_kind_of_its_own_size();
  test_a_freed_block_is_handed_out_again();
  test_a_ring_of_blocks_asks_the_system_for_none();
  test_what_is_kept_stays_below_the_peak_and_the_oldest_go();
  test_a_resized_block_keeps_its_content();
  test_dropped_heaps_go_back_to_the_system();
  test_heaps_wander_between_threads();
  return CHECK_RESULT();
}
