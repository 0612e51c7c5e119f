/*
 * timer: nothing is early, what is due first comes first, what is cancelled does not come; clocks give each moment once.
 */
#include "run/test.h"

enum { SLEEPERS = 24, MANY = 300, TICKS = 40, TAKERS = 4 };

static _Atomic uint64_t latest;
static atomic_int order[SLEEPERS], at, early, late;

static int sleeper(task *t) {
  int me = (int)(intptr_t)t->arg;
  mr_fiber *f = &t->fiber;
  if (t->at++ == 0) {
    f->deadline = atomic_load(&latest) + (uint64_t)me * 500000;
    if (port_now() >= atomic_load(&latest)) atomic_store(&late, 1);
    opens(t, WAIT_YIELD);
    return parks(t, f->deadline);
  }
  CHECK(mr_wake(f) == MR_TIMEOUT);
  if (port_now() < f->deadline) atomic_fetch_add(&early, 1);
  order[atomic_fetch_add(&at, 1)] = me;
  return ENDS;
}

/*
 * Made in another order than they are due. With one worker they also run in that order, but for one that becomes due while earlier ones of
 * its batch are still in the queue: that goes before them. It is tried again when the system let one wait until the first was due.
 */
static void test_the_first_that_is_due_comes_first(void) {
  start(1);
  do {
    atomic_store(&late, 0);
    atomic_store(&at, 0);
    atomic_store(&latest, port_now() + 20000000);
    for (int i = 0; i < SLEEPERS; i++) spawn(sleeper, (void *)(intptr_t)(i * 7 % SLEEPERS), NULL);
    wait_for_all();
  } while (atomic_load(&late));
  CHECK(atomic_load(&early) == 0 && atomic_load(&at) == SLEEPERS);
  int inversions = 0;
  for (int i = 1; i < SLEEPERS; i++) inversions += atomic_load(&order[i]) < atomic_load(&order[i - 1]);
  CHECK(inversions <= 2);
  stop();
}

/* ---- cancelled ---- */

static mr_event soon;

static int impatient(task *t) {
  if (t->at++ == 0) {
    if (!waits_for(t, &soon)) return ENDS;
    return parks(t, port_now() + UINT64_C(1000000000000));
  }
  CHECK(mr_wake(&t->fiber) == MR_WOKEN);
  return ENDS;
}

static int hurry(task *t) {
  mr_event_set(&soon, &t->fiber);
  return ENDS;
}

static void test_a_deadline_ends_with_its_wait(void) {
  start(3);
  mr_event_init(&soon);
  uint64_t begin = port_now();
  for (int i = 0; i < MANY; i++) spawn(impatient, NULL, NULL);
  spawn(hurry, NULL, NULL);
  wait_for_all();
  CHECK(port_now() - begin < UINT64_C(60000000000));
  stop();
}

/* ---- clocks ---- */

static mr_clock clock_;
static atomic_int taken, closed;

static int taker(task *t) {
  mr_fiber *f = &t->fiber;
  int over = 0;
  if (t->at++ > 0) {
    mr_reason r = mr_wake(f);
    CHECK(r == MR_WOKEN || r == MR_CLOSED);
    mr_clock_unwait(&clock_, &f->wait);
  }
  for (;;) {
    atomic_fetch_add(&taken, (int)mr_clock_take(&clock_, &over));
    if (over) {
      atomic_fetch_add(&closed, 1);
      return ENDS;
    }
    opens(t, WAIT_YIELD);
    int now = mr_clock_wait(&clock_, &f->wait);
    CHECK(now >= 0);
    if (now == 0) return parks(t, UINT64_MAX);
    mr_wait_abandon(f);
  }
}

static int stopper(task *t) {
  if (t->at++ > 0) CHECK(mr_wake(&t->fiber) == MR_TIMEOUT);
  if (atomic_load(&taken) < TICKS) {
    opens(t, WAIT_YIELD);
    return parks(t, port_now() + 500000);
  }
  mr_clock_cancel(&clock_, &t->fiber);
  return ENDS;
}

static void test_each_moment_is_taken_once(void) {
  start(3);
  uint64_t begin = port_now();
  mr_clock_init(&clock_, begin + 1000000, 1000000);
  for (int i = 0; i < TAKERS; i++) spawn(taker, NULL, NULL);
  spawn(stopper, NULL, NULL);
  wait_for_all();
  uint64_t passed = (port_now() - begin) / 1000000;
  CHECK(atomic_load(&closed) == TAKERS);
  CHECK(atomic_load(&taken) >= TICKS && (uint64_t)atomic_load(&taken) <= passed);
  mr_clock_end(&clock_);
  stop();
}

int main(void) {
  test_the_first_that_is_due_comes_first();
  test_a_deadline_ends_with_its_wait();
  test_each_moment_is_taken_once();
  return 0;
}
