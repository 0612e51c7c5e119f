/* Buffers without Lua: who owns a store, when it is copied, what budgets get back; and many threads that share one and drop it. */
#include <stdlib.h>
#include <string.h>
#include "port/test.h"
#include "share/buffer.h"

static int dropped;

static void drop_counted(mr_store *s) {
  __atomic_fetch_add(&dropped, 1, __ATOMIC_RELAXED);
  free(s->block);
}

static void no_push(lua_State *L, mr_shared *o) { (void)L; (void)o; }
static const mr_sharetype sealed_type = { .name = "buffer", .destroy = mr_buffer_destroy, .push = no_push };
static const mr_sharetype open_type = { .name = "buffer", .destroy = mr_buffer_destroy, .push = no_push, .moves = 1, .dropped = mr_buffer_dropped };

static void drop(mr_buffer *b) { mr_release(&b->base.shared); }

static mr_buffer *opened(const char *text) {
  mr_buffer *b = mr_buffer_new();
  CHECK(b && mr_buffer_grow(b, mr_buffer_growth(b, strlen(text) + 1)));
  memcpy(mr_buffer_at(b, 0), text, strlen(text));
  b->length = strlen(text);
  return b;
}

static void test_an_open_buffer_that_shares_its_store_gets_another(void) {
  mr_buffer *b = opened("hello");
  CHECK(mr_buffer_alone(b, 5) && mr_buffer_is_open(b));
  mr_buffer *s = mr_buffer_part(b->store, b->bytes + 1, 3);
  CHECK(!mr_buffer_alone(b, 0) && s->bytes == b->bytes + 1);
  CHECK(mr_buffer_grow(b, mr_buffer_growth(b, b->length)));
  CHECK(mr_buffer_alone(b, 5) && b->length == 5 && s->bytes != b->bytes + 1);
  memset(mr_buffer_at(b, 0), 'x', 5);
  CHECK(memcmp(s->bytes, "ell", 3) == 0);
  drop(s);
  drop(b);
}

static void test_bytes_of_others_are_copied_before_they_are_changed(void) {
  char *block = malloc(10);
  memcpy(block, "0123456789", 10);
  mr_store *st = mr_store_adopt(block, block + 2, 8, drop_counted, NULL);
  mr_buffer *b = mr_buffer_new();
  b->store = st;
  b->bytes = st->bytes;
  b->length = 8;
  CHECK(!mr_buffer_alone(b, 0) && dropped == 0);
  CHECK(mr_buffer_grow(b, 20) && dropped == 1 && memcmp(b->bytes, "23456789", 8) == 0 && mr_buffer_alone(b, 20));
  drop(b);
}

static void test_sealing_hands_over_and_gives_back(void) {
  mr_budget *budget = mr_budget_new(100000, NULL);
  mr_buffer *b = opened("abc");
  CHECK(mr_buffer_grow(b, 1000) && !mr_budget_take(budget, mr_store_cost(1000)));
  mr_store_charge(b->store, budget, mr_store_cost(1000));
  mr_buffer *s = mr_buffer_part(NULL, NULL, 0);
  mr_buffer_hand_over(b, s);
  CHECK(b->length == 0 && !b->store && s->length == 3 && s->store->size == 3 && memcmp(s->bytes, "abc", 3) == 0);
  CHECK(mr_budget_used(budget) == mr_store_cost(3));
  drop(b);
  drop(s);
  CHECK(mr_budget_used(budget) == 0);
  mr_budget_release(budget);
}

static void test_growing_is_cheap_and_bounded(void) {
  mr_buffer *b = opened("x");
  int steps = 0;
  for (size_t n = 1; n < 1 << 20; n++) {
    if (mr_buffer_alone(b, n + 1)) continue;
    CHECK(mr_buffer_grow(b, mr_buffer_growth(b, n + 1)));
    steps++;
  }
  CHECK(steps < 30);
  CHECK(!mr_buffer_grow(b, MR_BUFFER_MOST + 1) && b->length == 1 && b->bytes[0] == 'x');
  CHECK(!mr_store_new((size_t)-1, 0) && !mr_store_new(MR_BUFFER_MOST + 1, 1));
  drop(b);
}

static void test_ranges_are_those_of_strings(void) {
  static const struct { lua_Integer i, j; size_t n, from, len; } t[] = {
    { 1, -1, 5, 0, 5 }, { 2, 3, 5, 1, 2 }, { 0, 0, 5, 0, 0 }, { -2, -1, 5, 3, 2 }, { -9, 2, 5, 0, 2 }, { 6, 9, 5, 5, 0 }, { 9, 3, 5, 5, 0 },
    { LUA_MININTEGER, LUA_MAXINTEGER, 5, 0, 5 }, { LUA_MAXINTEGER, LUA_MININTEGER, 5, 5, 0 }, { 1, -1, 0, 0, 0 }, { 3, 2, 5, 2, 0 },
    { LUA_MININTEGER, LUA_MININTEGER, 5, 0, 0 }, { LUA_MAXINTEGER, LUA_MAXINTEGER, 5, 5, 0 },
  };
  for (size_t k = 0; k < sizeof t / sizeof *t; k++) {
    size_t from = 99, len = mr_buffer_range(t[k].i, t[k].j, t[k].n, &from);
    CHECK(len == t[k].len && from == t[k].from);
  }
}

/* ---- many threads ---- */

enum { THREADS = 4, SIZE = 5000 };
static mr_buffer *shared;

static void read_and_drop(void *arg) {
  unsigned sum = 0;
  mr_buffer *part = mr_buffer_part(shared->store, shared->bytes + (uintptr_t)arg, SIZE / 2);
  drop(shared);
  for (size_t i = 0; i < part->length; i++) sum += part->bytes[i];
  CHECK(sum == SIZE / 2 * 7);
  drop(part);
}

static void test_the_last_thread_frees_it(void) {
  for (int round = 0; round < 200; round++) {
    void *block = malloc(SIZE);
    memset(block, 7, SIZE);
    dropped = 0;
    mr_store *st = mr_store_adopt(block, block, SIZE, drop_counted, NULL);
    shared = mr_buffer_part(st, st->bytes, SIZE);
    mr_store_release(st);
    port_thread t[THREADS];
    for (int i = 1; i < THREADS; i++) mr_retain(&shared->base.shared);
    for (int i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], read_and_drop, (void *)(uintptr_t)i, "reader") == 0);
    for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
    CHECK(dropped == 1);
  }
}

int main(void) {
  mr_buffer_sealed = &sealed_type;
  mr_buffer_open = &open_type;
  test_an_open_buffer_that_shares_its_store_gets_another();
  test_bytes_of_others_are_copied_before_they_are_changed();
  test_sealing_hands_over_and_gives_back();
  test_growing_is_cheap_and_bounded();
  test_ranges_are_those_of_strings();
  test_the_last_thread_frees_it();
  return CHECK_RESULT();
}
