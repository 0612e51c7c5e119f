/* budget: see budget.h. */
#include "heap/budget.h"
#include "port/port.h"

#include <stdlib.h>

mr_budget *mr_budget_new(size_t limit, mr_budget *outer) {
  mr_budget *b = malloc(sizeof *b);
  if (!b) return NULL;
  atomic_init(&b->refs, 1);
  atomic_init(&b->used, 0);
  b->limit = limit;
  b->outer = outer;
  if (outer) mr_budget_retain(outer);
  return b;
}

void mr_budget_retain(mr_budget *b) {
  mr_assert(atomic_load_explicit(&b->refs, memory_order_relaxed) > 0);
  atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
}

void mr_budget_release(mr_budget *b) {
  while (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1) {
    mr_budget *outer = b->outer;
    mr_assert(mr_budget_used(b) == 0);           /* who took from it gives back before its reference goes */
    free(b);
    b = outer;
  }
}

static int take_one(mr_budget *b, size_t n) {
  size_t used = atomic_load_explicit(&b->used, memory_order_relaxed);
  do {
    if (n > b->limit || used > b->limit - n) return 0;
  } while (!atomic_compare_exchange_weak_explicit(&b->used, &used, used + n, memory_order_relaxed, memory_order_relaxed));
  return 1;
}

static void give_until(mr_budget *b, const mr_budget *end, size_t n) {
  for (; b != end; b = b->outer) {
    mr_assert(mr_budget_used(b) >= n && mr_budget_used(b) <= b->limit);
    atomic_fetch_sub_explicit(&b->used, n, memory_order_relaxed);
  }
}

mr_budget *mr_budget_take(mr_budget *b, size_t n) {
  for (mr_budget *at = b; at; at = at->outer) {
    if (take_one(at, n)) continue;
    give_until(b, at, n);
    return at;
  }
  return NULL;
}

void mr_budget_give(mr_budget *b, size_t n) { give_until(b, NULL, n); }
