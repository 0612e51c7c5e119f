/*
 * Budgets, and heaps that take from them: many threads take and give at once. No budget ever holds more than its limit, nor than the one it lies in,
 * and in the end nothing is taken.
 */
#include "heap/arena.h"
#include "heap/budget.h"
#include "port/test.h"
#include "port/port.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 4, ROUNDS = 20000, LIMIT = 100000, FIRST = 4096 };

static unsigned next(unsigned *rng) { return *rng = *rng * 1664525u + 1013904223u; }

static void test_all_or_nothing_is_taken(void) {
  mr_budget *outer = mr_budget_new(100, NULL), *middle = mr_budget_new(1000, outer), *b = mr_budget_new(60, middle);
  CHECK(mr_budget_take(b, 61) == b && mr_budget_used(b) == 0 && mr_budget_used(outer) == 0);
  CHECK(mr_budget_take(b, 60) == NULL && mr_budget_used(outer) == 60);
  CHECK(mr_budget_take(b, 1) == b);
  CHECK(mr_budget_take(middle, 41) == outer && mr_budget_used(middle) == 60);
  CHECK(mr_budget_take(middle, 40) == NULL && mr_budget_take(outer, 1) == outer && mr_budget_take(outer, 0) == NULL);
  CHECK(mr_budget_take(b, SIZE_MAX) == b && mr_budget_take(outer, SIZE_MAX) == outer);      /* no overflow */
  mr_budget_give(b, 60);
  mr_budget_give(middle, 40);
  CHECK(mr_budget_used(b) == 0 && mr_budget_used(middle) == 0 && mr_budget_used(outer) == 0);
  mr_budget_release(outer);                    /* those inside keep it */
  mr_budget_release(middle);
  CHECK(mr_budget_take(b, 10) == NULL);
  mr_budget_give(b, 10);
  mr_budget_release(b);
}

/* ---- threads ---- */

static mr_budget *tops, *inner[2];
static atomic_int refused;

/* What it holds of a budget is known to it alone; the sums must fit. */
static void take_and_give(void *arg) {
  unsigned rng = (unsigned)(uintptr_t)arg * 7919u + 1;
  mr_budget *b = inner[(uintptr_t)arg % 2];
  size_t held[16] = { 0 };
  for (int i = 0; i < ROUNDS; i++) {
    size_t *h = &held[next(&rng) >> 28];
    if (*h) {
      mr_budget_give(b, *h);
      *h = 0;
    } else {
      size_t n = next(&rng) >> 19;             /* up to 8191: 16 of them are more than what there is */
      mr_budget *over = mr_budget_take(b, n);
      CHECK(!over || over == b || over == tops);
      if (!over) *h = n;
      else atomic_fetch_add(&refused, 1);
    }
    CHECK(mr_budget_used(b) <= b->limit && mr_budget_used(tops) <= LIMIT);
    if (i % 100) continue;
    mr_budget *own = mr_budget_new(500, b);
    CHECK(own != NULL);
    if (mr_budget_take(own, 400) == NULL) mr_budget_give(own, 400);
    mr_budget_release(own);
  }
  for (int i = 0; i < 16; i++) mr_budget_give(b, held[i]);
  mr_budget_release(b);                        /* each thread has a reference */
}

/* Blocks come and go in a heap that takes from the shared budget. */
static void use_heap(void *arg) {
  unsigned rng = (unsigned)(uintptr_t)arg * 104729u + 1;
  mr_budget *b = inner[(uintptr_t)arg % 2];
  size_t size[64] = { 0 }, all = 0;
  void *block[64];
  mr_heap *h = mr_heap_new(0);
  while (mr_budget_take(b, FIRST)) port_sleep(100000);
  CHECK(h && mr_heap_budget(h, b, FIRST, 0));
  for (int i = 0; i < ROUNDS; i++) {
    int at = (int)(next(&rng) >> 26);
    size_t n = size[at] ? 0 : (next(&rng) >> 20) + (i % 50 ? 1 : 20000);
    void *p = mr_heap_alloc(h, size[at] ? block[at] : NULL, size[at], n);
    if (n && !p) {
      atomic_fetch_add(&refused, 1);
      continue;
    }
    if (n) memset(p, 0x5a, n);
    all = all + n - size[at];
    block[at] = p;
    size[at] = n;
    CHECK(mr_heap_used(h) == all && all <= b->limit);
    if (i % 500 == 0) mr_heap_settle(h);
    CHECK(mr_budget_used(b) <= b->limit && mr_budget_used(tops) <= LIMIT);
  }
  CHECK(mr_heap_check(h) == 0);
  if ((uintptr_t)arg % 3 == 0) mr_heap_dying(h);
  mr_heap_unbudget(h);
  mr_heap_drop(h);
  mr_budget_release(b);
  mr_pool_thread_exit();
}

static void run(void (*fn)(void *)) {
  port_thread t[THREADS];
  tops = mr_budget_new(LIMIT, NULL);
  for (int i = 0; i < 2; i++) inner[i] = mr_budget_new(LIMIT * 3 / 4, tops);
  atomic_store(&refused, 0);
  for (int i = 0; i < THREADS; i++) mr_budget_retain(inner[i % 2]);
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], fn, (void *)i, "budget") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  CHECK(mr_budget_used(inner[0]) == 0 && mr_budget_used(inner[1]) == 0 && mr_budget_used(tops) == 0);
  CHECK(atomic_load(&refused) > 0);            /* else nothing was tested */
  CHECK(atomic_load(&inner[0]->refs) == 1 && atomic_load(&inner[1]->refs) == 1 && atomic_load(&tops->refs) == 3);
  for (int i = 0; i < 2; i++) mr_budget_release(inner[i]);
  mr_budget_release(tops);
}

static void test_threads_take_and_give(void) { run(take_and_give); }
static void test_heaps_share_a_budget(void) { run(use_heap); }

/* ---- one heap ---- */

static void test_a_heap_that_begins_beyond_its_budget_leaves_nothing_taken(void) {
  mr_budget *b = mr_budget_new(50000, NULL);
  mr_heap *h = mr_heap_new(0);
  void *p = mr_heap_alloc(h, NULL, 0, 60000);
  CHECK(p != NULL && mr_budget_take(b, 100) == NULL);
  CHECK(!mr_heap_budget(h, b, 100, 0));        /* what was taken for it goes back with the rest */
  CHECK(mr_budget_used(b) == 0);
  CHECK(mr_heap_alloc(h, p, 60000, 70000) != NULL);            /* it has no limit now */
  mr_heap_drop(h);
  mr_budget_release(b);
}

static void test_a_heap_keeps_its_own_limit_inside_a_budget(void) {
  mr_budget *b = mr_budget_new(1 << 20, NULL);
  mr_heap *h = mr_heap_new(0);
  CHECK(mr_budget_take(b, FIRST) == NULL && mr_heap_budget(h, b, FIRST, 30000));
  void *p = mr_heap_alloc(h, NULL, 0, 20000);
  CHECK(p && !mr_heap_alloc(h, NULL, 0, 20000));
  CHECK(mr_heap_alloc(h, NULL, 0, 1000) != NULL);
  CHECK((p = mr_heap_alloc(h, p, 20000, 100)) != NULL);
  CHECK(mr_heap_alloc(h, NULL, 0, 20000) != NULL);
  mr_heap_unbudget(h);
  CHECK(mr_budget_used(b) == 0);
  mr_heap_drop(h);
  mr_budget_release(b);
}

int main(void) {
  test_all_or_nothing_is_taken();
  test_threads_take_and_give();
  test_heaps_share_a_budget();
  test_a_heap_that_begins_beyond_its_budget_leaves_nothing_taken();
  test_a_heap_keeps_its_own_limit_inside_a_budget();
  return CHECK_RESULT();
}
