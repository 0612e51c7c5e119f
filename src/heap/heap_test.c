/*
 * Arenas: every block keeps its bytes whatever happens around it, limits hold, shrinking and freeing never fail.
 * A shadow model remembers each block's size and pattern; mr_heap_check walks the arena between steps.
 */
#include "heap/arena.h"
#include "port/test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t seed = 0x9e3779b97f4a7c15u;

static uint64_t rnd(uint64_t n) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed % n;
}

/* ---- the model ---- */

enum { BLOCKS = 600 };
typedef struct block { unsigned char *p; size_t size; unsigned char fill; } block;

/* Every byte of what is small, and of the first page; some of the rest. */
static size_t next(size_t i) { return i < 4096 ? i + 1 : i / 61 * 61 + 61; }

static unsigned char pattern(const block *b, size_t i) { return (unsigned char)(b->fill + i * 7); }

static void fill(block *b, size_t from) {
  for (size_t i = from <= 4096 ? from : (from + 60) / 61 * 61; i < b->size; i = next(i)) b->p[i] = pattern(b, i);
}

static int intact(const block *b, size_t n) {
  for (size_t i = 0; i < n; i = next(i)) if (b->p[i] != pattern(b, i)) return 0;
  return 1;
}

/* Sizes as Lua asks: mostly tiny, at times large. */
static size_t some_size(void) {
  switch (rnd(40)) {
    case 0: return 1 + rnd(200000);
    case 1: return 1 + rnd(40000);
    case 2: case 3: case 4: return 1 + rnd(3000);
    default: return 1 + rnd(160);
  }
}

static size_t model_used(const block *b) {
  size_t n = 0;
  for (int i = 0; i < BLOCKS; i++) n += b[i].size;
  return n;
}

/* One random step; returns 0 if memory was refused. */
static int step(mr_heap *h, block *b) {
  size_t n = some_size();
  if (!b->p) {
    unsigned char *p = mr_heap_alloc(h, NULL, rnd(9), n);
    if (!p) return 0;
    *b = (block){p, n, (unsigned char)rnd(256)};
    fill(b, 0);
    return 1;
  }
  CHECK(intact(b, b->size));
  if (rnd(3)) {
    CHECK(mr_heap_alloc(h, b->p, b->size, 0) == NULL);
    *b = (block){0};
    return 1;
  }
  unsigned char *p = mr_heap_alloc(h, b->p, b->size, n);
  if (!p) {
    CHECK(n > b->size);
    CHECK(intact(b, b->size));
    return 0;
  }
  size_t old = b->size;
  b->p = p;
  b->size = n;
  CHECK(intact(b, old < n ? old : n));
  fill(b, old < n ? old : n);
  return 1;
}

static void test_blocks_keep_their_bytes(void) {
  static block b[BLOCKS];
  mr_heap *h = mr_heap_new(0);
  CHECK(h != NULL);
  for (int i = 0; i < 30000; i++) {
    CHECK(step(h, &b[rnd(BLOCKS)]));
    if (i % 1000 == 0) {
      CHECK(mr_heap_check(h) == 0);
      CHECK(mr_heap_used(h) == model_used(b));
    }
  }
  for (int i = 0; i < BLOCKS; i++) if (b[i].p) {
    CHECK(intact(&b[i], b[i].size));
    mr_heap_alloc(h, b[i].p, b[i].size, 0);
    b[i] = (block){0};
  }
  CHECK(mr_heap_used(h) == 0);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

static void test_every_size_has_a_class_that_holds_it(void) {
  size_t last = 0;
  for (unsigned c = 0; c < MR_CLASSES; c++) {
    size_t size = mr_sizeclass_size(c);
    CHECK(size % 8 == 0 && size > last);
    CHECK(mr_sizeclass(size) == c && mr_sizeclass(last + 1) == c);
    CHECK(mr_sizeclass_floor(size) == c && (c == 0 || mr_sizeclass_floor(size - 8) == c - 1));
    if (last >= 64) CHECK(size - last <= last / 8);
    last = size;
  }
  CHECK(last == MR_ARENA_MAX);
}

static void test_a_limit_refuses_exactly_what_exceeds_it(void) {
  mr_heap *h = mr_heap_new(1000);
  char *p = mr_heap_alloc(h, NULL, 0, 600);
  CHECK(p != NULL);
  CHECK(mr_heap_alloc(h, NULL, 0, 401) == NULL);
  char *q = mr_heap_alloc(h, NULL, 0, 400);
  CHECK(q != NULL && mr_heap_used(h) == 1000);
  CHECK(mr_heap_alloc(h, NULL, 0, 1) == NULL);
  CHECK(mr_heap_alloc(h, q, 400, 401) == NULL);
  CHECK(mr_heap_alloc(h, q, 400, 100000) == NULL);
  CHECK(mr_heap_alloc(h, NULL, 0, SIZE_MAX) == NULL);
  CHECK(mr_heap_alloc(h, NULL, 0, SIZE_MAX / 2 - 8) == NULL);
  mr_heap_limit(h, 500);                      /* lowered below what is used */
  CHECK(mr_heap_alloc(h, NULL, 0, 1) == NULL);
  q = mr_heap_alloc(h, q, 400, 300);
  CHECK(q != NULL && mr_heap_used(h) == 900);
  mr_heap_alloc(h, p, 600, 0);
  CHECK(mr_heap_alloc(h, NULL, 0, 201) == NULL);
  CHECK(mr_heap_alloc(h, NULL, 0, 200) != NULL);
  mr_heap_limit(h, 0);
  CHECK(mr_heap_alloc(h, NULL, 0, 1 << 20) != NULL);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

static void test_a_limited_heap_survives_refusals(void) {
  static block b[BLOCKS];
  mr_heap *h = mr_heap_new(300000);
  int refused = 0;
  for (int i = 0; i < 20000; i++) {
    refused += !step(h, &b[rnd(BLOCKS)]);
    CHECK(mr_heap_used(h) <= 300000);
    if (i % 1000 == 0) CHECK(mr_heap_check(h) == 0 && mr_heap_used(h) == model_used(b));
  }
  CHECK(refused > 100);
  mr_heap_drop(h);
}

/* Without system memory, every pair of sizes: shrinking gives the bytes, and the rest is usable again. */
static void test_shrinking_succeeds_without_memory(void) {
  static const size_t sizes[] = {1, 8, 9, 24, 100, 128, 129, 200, 511, 513, 1000, 1024, 4000, 5000, 32768, 32769, 70000, 200000,
                                 1500000, 3000000};
  enum { N = sizeof sizes / sizeof *sizes };
  for (int i = 1; i < N; i++) for (int j = 0; j < i; j++) {
    mr_heap *h = mr_heap_new(0);
    block b = {mr_heap_alloc(h, NULL, 0, sizes[i]), sizes[i], 17};
    CHECK(b.p != NULL);
    fill(&b, 0);
    mr_pool_fail(0);
    void *eaten = NULL, *e;                   /* nothing of that size may be left at hand */
    while ((e = mr_heap_alloc(h, NULL, 0, sizes[j])) != NULL) { *(void **)(sizes[j] < 8 ? (void *)&e : e) = eaten; eaten = e; }
    b.p = mr_heap_alloc(h, b.p, sizes[i], sizes[j]);
    CHECK(b.p != NULL && intact(&b, sizes[j]));
    CHECK(mr_heap_check(h) == 0);
    size_t used = mr_heap_used(h);
    mr_heap_alloc(h, b.p, sizes[j], 0);
    CHECK(mr_heap_used(h) == used - sizes[j]);
    CHECK(mr_heap_check(h) == 0);
    size_t again = sizes[j] > 512 ? sizes[j] / 2 : sizes[j];   /* the first larger one freed holds the table of lists */
    CHECK(sizes[j] > MR_ARENA_MAX || mr_heap_alloc(h, NULL, 0, again) != NULL);
    mr_pool_fail(-1);
    mr_heap_drop(h);
  }
}

/* The system refuses ever later requests: no byte is lost, and the arena stays sound. */
static void test_any_refusal_of_the_system_is_survived(void) {
  for (long n = 0; n < 60; n++) {
    static block b[BLOCKS];
    memset(b, 0, sizeof b);
    mr_pool_fail(n);
    mr_heap *h = mr_heap_new(0);
    if (!h) { CHECK(n == 0); mr_pool_fail(-1); continue; }
    int refused = 0;
    for (int i = 0; i < 3000; i++) refused += !step(h, &b[rnd(BLOCKS)]);
    CHECK(refused > 0 || n > 20);
    CHECK(mr_heap_check(h) == 0 && mr_heap_used(h) == model_used(b));
    mr_pool_fail(-1);
    for (int i = 0; i < BLOCKS; i++) if (b[i].p) CHECK(intact(&b[i], b[i].size));
    mr_heap_drop(h);
  }
}

static void test_a_dying_heap_ignores_frees(void) {
  mr_heap *h = mr_heap_new(0);
  char *p = mr_heap_alloc(h, NULL, 0, 40), *big = mr_heap_alloc(h, NULL, 0, 100000);
  memset(p, 5, 40);
  memset(big, 6, 100000);
  mr_heap_dying(h);
  mr_heap_alloc(h, p, 40, 0);
  mr_heap_alloc(h, big, 100000, 0);
  CHECK(p[39] == 5 && big[99999] == 6);
  CHECK(mr_heap_used(h) == 0);
  char *q = mr_heap_alloc(h, NULL, 0, 40);    /* finalisers still allocate */
  CHECK(q && q != p);
  memset(q, 7, 40);
  q = mr_heap_alloc(h, q, 40, 200);
  CHECK(q && q[39] == 7);
  q = mr_heap_alloc(h, q, 200, 20);
  q = mr_heap_alloc(h, q, 20, 30);
  CHECK(q && q[19] == 7);
  q = mr_heap_alloc(h, q, 30, 90000);
  CHECK(q && q[19] == 7);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

static void test_a_growing_buffer_at_the_edge_grows_in_place(void) {
  mr_heap *h = mr_heap_new(0);
  char *p = mr_heap_alloc(h, NULL, 0, 100), *q = p;
  for (size_t n = 100; n < 2000; n += 100) q = mr_heap_alloc(h, q, n, n + 100);
  CHECK(q == p);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

static void test_a_small_heap_stays_small(void) {
  mr_heap *h = mr_heap_new(0);
  CHECK(mr_heap_reserved(h) <= 4096);
  for (int i = 0; i < 100; i++) mr_heap_alloc(h, NULL, 0, 56);
  CHECK(mr_heap_reserved(h) <= 8192);
  for (int i = 0; i < 20000; i++) mr_heap_alloc(h, NULL, 0, 56);
  CHECK(mr_heap_reserved(h) <= mr_heap_used(h) * 5 / 4);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

static void test_the_system_heap_counts_and_limits(void) {
  mr_heap *h = mr_heap_new(1000);
  char *p = mr_heap_alloc_system(h, NULL, 5, 600);
  CHECK(p && mr_heap_used(h) == 600);
  CHECK(mr_heap_alloc_system(h, NULL, 0, 401) == NULL);
  CHECK(mr_heap_alloc_system(h, p, 600, 1001) == NULL);
  p[399] = 7;
  mr_pool_fail(0);
  CHECK(mr_heap_alloc_system(h, p, 600, 700) == NULL && mr_heap_used(h) == 600);
  p = mr_heap_alloc_system(h, p, 600, 400);
  mr_pool_fail(-1);
  CHECK(p && p[399] == 7 && mr_heap_used(h) == 400);
  CHECK(mr_heap_alloc_system(h, p, 400, 0) == NULL && mr_heap_used(h) == 0);
  mr_heap_drop(h);
}

/* The freed space of one phase serves the next, whatever its sizes. */
static void test_large_free_blocks_serve_small_requests(void) {
  mr_heap *h = mr_heap_new(0);
  static void *p[200];
  for (int i = 0; i < 200; i++) p[i] = mr_heap_alloc(h, NULL, 0, 6000);
  size_t reserved = mr_heap_reserved(h);
  for (int i = 0; i < 200; i++) mr_heap_alloc(h, p[i], 6000, 0);
  for (int i = 0; i < 20000; i++) CHECK(mr_heap_alloc(h, NULL, 0, 56) != NULL);
  CHECK(mr_heap_reserved(h) == reserved);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

/* Free neighbours are joined before the heap grows, and chunks that are no longer needed go back. */
static void test_small_free_blocks_serve_large_requests(void) {
  enum { N = 20000 };
  static void *p[N];
  mr_heap *h = mr_heap_new(0);
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < N; i++) CHECK((p[i] = mr_heap_alloc(h, NULL, 0, 56)) != NULL);
    size_t full = mr_heap_reserved(h);
    for (int i = 0; i < N; i++) if (i % 1000) mr_heap_alloc(h, p[i], 56, 0);
    for (int i = 0; i < 700; i++) {
      char *q = mr_heap_alloc(h, NULL, 0, 1000);
      CHECK(q != NULL);
      memset(q, 0xa5, 1000);
      mr_heap_alloc(h, q, 1000, 0);
      CHECK((q = mr_heap_alloc(h, NULL, 0, 20000)) != NULL);
      memset(q, 0xa5, 20000);
      if (i % 100) mr_heap_alloc(h, q, 20000, 0);
      else p[i + 1] = q;
    }
    CHECK(mr_heap_reserved(h) <= full);
    CHECK(mr_heap_check(h) == 0);
    for (int i = 0; i < N; i += 1000) mr_heap_alloc(h, p[i], 56, 0);
    for (int i = 0; i < 700; i += 100) mr_heap_alloc(h, p[i + 1], 20000, 0);
    CHECK(mr_heap_used(h) == 0);
  }
  for (int i = 0; i < 100; i++) CHECK(mr_heap_alloc(h, NULL, 0, 24000) != NULL);
  CHECK(mr_heap_check(h) == 0);
  mr_heap_drop(h);
}

int main(void) {
  test_every_size_has_a_class_that_holds_it();
  test_blocks_keep_their_bytes();
  test_a_limit_refuses_exactly_what_exceeds_it();
  test_a_limited_heap_survives_refusals();
  test_shrinking_succeeds_without_memory();
  test_any_refusal_of_the_system_is_survived();
  test_a_dying_heap_ignores_frees();
  test_a_growing_buffer_at_the_edge_grows_in_place();
  test_a_small_heap_stays_small();
  test_large_free_blocks_serve_small_requests();
  test_the_system_heap_counts_and_limits();
  test_small_free_blocks_serve_large_requests();
  return CHECK_RESULT();
}
