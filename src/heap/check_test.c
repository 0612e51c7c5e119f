/* What the heap, the pool, blocks and budgets promise is checked: each broken promise ends the program, and says which it was. */
#include "heap/arena.h"
#include "heap/poison.h"
#include "port/test.h"

static mr_heap *h;

static void prepare(void) {
  h = mr_heap_new(0);
  for (int i = 0; i < 200; i++) mr_heap_alloc(h, mr_heap_alloc(h, NULL, 0, 24), 24, 0);
  mr_heap_alloc(h, NULL, 0, 40000);
  CHECK(mr_heap_check(h) == 0);
}

/* Some calls look. */
static void look(void) {
  for (int i = 0; i < 16; i++) mr_heap_dying(h);
}

static void freed_twice(void) {
  void *p = mr_heap_alloc(h, NULL, 0, 24);
  mr_heap_alloc(h, p, 24, 0);
  mr_link *l = p;
  MR_UNPOISON(p, 24);
  l->next = l;                                 /* as a second free would leave it */
  look();
}

static void freed_with_another_size(void) {
  mr_heap_alloc(h, mr_heap_alloc(h, NULL, 0, 24), 128, 0);
  look();
}

static void more_is_used_than_there_is(void) {
  h->room -= 1 << 20;
  mr_heap_verify(h);                           /* a dying heap has nothing to do with what is used */
}

static void bump_region_is_lost(void) {
  h->bump = h->end + 8;
  look();
}

static void freed_what_was_never_allocated(void) {
  char *p = mr_heap_alloc(h, NULL, 0, 24);
  mr_heap_alloc(h, p + 4, 8, 0);
}

static void given_back_more_than_taken(void) {
  mr_budget *b = mr_budget_new(100, NULL);
  mr_budget_take(b, 10);
  mr_budget_give(b, 20);
}

static void dropped_with_debts(void) {
  mr_budget *b = mr_budget_new(100, NULL);
  mr_budget_take(b, 10);
  mr_budget_release(b);
}

static void chunk_of_another_kind(void) {
  mr_chunk *c[130];
  for (int i = 0; i < 130; i++) c[i] = mr_pool_get(mr_pool_kind(4096));
  c[60]->size /= 2;
  for (int i = 0; i < 130; i++) mr_pool_put(c[i]);
  mr_pool_thread_exit();
}

static void mapped_under_a_lock(void) {
  port_lock lock = PORT_LOCK(0);
  size_t n = 1 << 28;
  port_acquire(&lock);
  mr_block_get(&n);
}

int main(void) {
  prepare();
  CHECK_DIES(freed_twice, "mr_heap_check(h) <= 0");
  CHECK_DIES(freed_with_another_size, "mr_heap_check(h) <= 0");
  CHECK_DIES(more_is_used_than_there_is, "mr_heap_check(h) <= 0");
  CHECK_DIES(bump_region_is_lost, "mr_heap_check(h) <= 0");
  CHECK_DIES(freed_what_was_never_allocated, "(uintptr_t)l % 8 == 0");
  CHECK_DIES(given_back_more_than_taken, "mr_budget_used(b) >= n");
  CHECK_DIES(dropped_with_debts, "mr_budget_used(b) == 0");
  CHECK_DIES(chunk_of_another_kind, "c->size == k->size");
  CHECK_DIES(mapped_under_a_lock, "it may sleep, or run Lua, under a lock");
  mr_heap_drop(h);
  return CHECK_RESULT();
}
