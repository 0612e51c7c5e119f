/* queue: rows and queues give their fibers in order, also when one is put in front, cut in two, joined, or robbed of its first half. */
#include "port/test.h"
#include "run/queue.h"
#include "run/rt.h"

/* Nothing runs in this test. */
static int no(mr_thread *t) { return t != NULL; }
const mr_body mr_run_body = { .thread_size = sizeof(mr_thread), .equip = no };

enum { MANY = 9 };

static mr_fiber fiber[MANY];
static mr_job job;

static void begin(void) {
  memset(fiber, 0, sizeof fiber);
  memset(&job, 0, sizeof job);
  for (int i = 0; i < MANY; i++) {
    fiber[i].job = &job;
    atomic_init(&fiber[i].state, FIBER_READY);
  }
}

static int number(const mr_fiber *f) { return f ? (int)(f - fiber) : -1; }

static void takes_all(mr_row *l, int first, int end) {
  for (int i = first; i < end; i++) CHECK(number(mr_row_take(l)) == i);
  CHECK(!mr_row_take(l) && !mr_row_first(l) && !mr_row_last(l));
}

static void test_an_insertion_goes_behind_the_one_it_names(void) {
  mr_row row = { 0 };
  begin();
  mr_row_insert(&row, NULL, &fiber[2]);          /* empty: first and last */
  CHECK(mr_row_first(&row) == &fiber[2] && mr_row_last(&row) == &fiber[2]);
  mr_row_insert(&row, NULL, &fiber[0]);
  mr_row_insert(&row, &fiber[0], &fiber[1]);
  mr_row_insert(&row, &fiber[2], &fiber[3]);     /* behind the last: the last from now on */
  mr_row_add(&row, &fiber[4]);
  takes_all(&row, 0, 5);
}

static void test_what_is_cut_and_joined_keeps_its_order(void) {
  for (unsigned n = 1; n <= MANY; n++) {
    mr_row row = { 0 };
    begin();
    for (int i = 0; i < MANY; i++) mr_row_add(&row, &fiber[i]);
    mr_row part = mr_row_cut(&row, n);
    CHECK(number(mr_row_last(&part)) == (int)n - 1 && number(mr_row_first(&row)) == (n < MANY ? (int)n : -1));
    mr_row_join(&part, &row);
    takes_all(&part, 0, MANY);
  }
}

static void test_an_empty_row_joins_nothing(void) {
  mr_row row = { 0 }, none = { 0 };
  begin();
  mr_row_join(&row, &none);
  CHECK(!mr_row_first(&row));
  mr_row_add(&row, &fiber[0]);
  mr_row_join(&row, &none);
  mr_row_add(&row, &fiber[1]);
  takes_all(&row, 0, 2);
}

static unsigned count(mr_queue *q) { return atomic_load(&q->count); }

/* The first half, rounded up, goes: its first to the thief, the others behind what the thief has. */
static void test_a_thief_takes_the_first_half_in_order(void) {
  for (int n = 0; n < MANY; n++) {
    static mr_queue mine, theirs;
    int taken = (n + 1) / 2;
    begin();
    mr_queue_add(&mine, &fiber[MANY - 1], 0);
    for (int i = 0; i < n; i++) mr_queue_add(&theirs, &fiber[i], 0);
    CHECK(number(mr_queue_steal(&mine, &theirs)) == (n ? 0 : -1));
    CHECK(count(&mine) == (unsigned)(n ? taken : 1) && count(&theirs) == (unsigned)(n - taken));
    CHECK(number(mr_queue_take(&mine)) == MANY - 1);
    for (int i = 1; i < taken; i++) CHECK(number(mr_queue_take(&mine)) == i);
    for (int i = taken; i < n; i++) CHECK(number(mr_queue_take(&theirs)) == i);
    CHECK(!mr_queue_take(&mine) && !mr_queue_take(&theirs));
  }
}

static void test_nothing_is_stolen_while_the_queue_is_locked(void) {
  static mr_queue mine, theirs;
  begin();
  mr_queue_add(&theirs, &fiber[0], 1);
  port_acquire(&theirs.lock);
  CHECK(!mr_queue_steal(&mine, &theirs));
  port_unlock(&theirs.lock);
  CHECK(mr_queue_steal(&mine, &theirs) == &fiber[0] && !mr_queue_take(&theirs));
}

int main(void) {
  test_an_insertion_goes_behind_the_one_it_names();
  test_what_is_cut_and_joined_keeps_its_order();
  test_an_empty_row_joins_nothing();
  test_a_thief_takes_the_first_half_in_order();
  test_nothing_is_stolen_while_the_queue_is_locked();
  return CHECK_RESULT();
}
