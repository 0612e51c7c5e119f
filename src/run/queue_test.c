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

static void test_what_is_due_goes_before_all_but_what_was_due_earlier(void) {
  mr_row row = { 0 };
  begin();
  mr_row_add_due(&row, &fiber[0]);               /* empty: first and last */
  CHECK(mr_row_first(&row) == &fiber[0] && mr_row_last(&row) == &fiber[0]);
  mr_row_add(&row, &fiber[4]);
  mr_row_add_due(&row, &fiber[1]);
  mr_row_add_due(&row, &fiber[2]);
  CHECK(number(mr_row_take(&row)) == 0 && number(mr_row_take(&row)) == 1);
  mr_row_add_due(&row, &fiber[3]);
  CHECK(number(mr_row_take(&row)) == 2 && number(mr_row_take(&row)) == 3);
  mr_row_add_due(&row, &fiber[3]);               /* none is left that was: the first again */
  mr_row_add(&row, &fiber[5]);
  takes_all(&row, 3, 6);
}

/* Wherever the row is cut, what is due later goes behind those that were, in the part where they are, or first in the part where none is. */
static void test_each_part_knows_what_was_due(void) {
  for (int due = 0; due <= 4; due++)
    for (int n = 1; n <= 6; n++) {
      mr_row row = { 0 };
      begin();
      for (int i = 0; i < due; i++) mr_row_add_due(&row, &fiber[i]);
      for (int i = due; i < 6; i++) mr_row_add(&row, &fiber[i]);
      mr_row part = mr_row_cut(&row, (unsigned)n);
      mr_row_add_due(&part, &fiber[7]);
      mr_row_add_due(&row, &fiber[8]);
      int first = due < n ? due : n, rest = due > n ? due : n;
      for (int i = 0; i < first; i++) CHECK(number(mr_row_take(&part)) == i);
      CHECK(number(mr_row_take(&part)) == 7);
      takes_all(&part, first, n);
      for (int i = n; i < rest; i++) CHECK(number(mr_row_take(&row)) == i);
      CHECK(number(mr_row_take(&row)) == 8);
      takes_all(&row, rest, 6);
    }
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
  test_what_is_due_goes_before_all_but_what_was_due_earlier();
  test_each_part_knows_what_was_due();
  test_what_is_cut_and_joined_keeps_its_order();
  test_an_empty_row_joins_nothing();
  test_a_thief_takes_the_first_half_in_order();
  test_nothing_is_stolen_while_the_queue_is_locked();
  return CHECK_RESULT();
}
