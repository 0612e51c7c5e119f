/*
 * timer: nothing is early, what is due first comes first (of one time: who waited first), what is cancelled does not come; clocks give each moment once.
 */
#include "run/rt.h"
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

/* Made in another order than they are due. The monitor may fire one into the global queue while the worker fires the next into its own. Again if the
 * system let one wait until the first was due. */
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

/* ---- many at once ---- */

enum { CROWD = 300, TIMES = 5 };                 /* fibers, and different times at which they are due */

static mr_fiber crowd[CROWD];

static uint64_t due_of(int i) { return 1000 + (uint64_t)(i * 3 % TIMES); }

static int comes_before(int a, int b) { return due_of(a) != due_of(b) ? due_of(a) < due_of(b) : a < b; }

/* No thread runs: what is due at once, and what a bit later, is fired here, and queued in one row. Some fibers wait in vain for their time. */
static void test_a_crowd_is_queued_in_the_order_of_its_times_and_of_its_waits(void) {
  mr_job job = { .fiber = NULL };
  mr_job_init(&job, &crowd[0], 1, 0);
  for (int i = 0; i < CROWD; i++) {
    mr_fiber *f = &crowd[i];
    mr_fiber_init(f, &job);
    f->mode = WAIT_YIELD;
    mr_wait_begin(f);
    mr_wait_until(f, due_of(i));
    CHECK(mr_fiber_parked(f));
  }
  for (int i = 0; i < CROWD; i += 7) {
    CHECK(mr_fiber_claim(&crowd[i]));
    CHECK(mr_wake(&crowd[i]) == MR_WOKEN);
  }
  mr_timers_fire(1000 + TIMES / 2, NULL);
  mr_timers_fire(1000 + TIMES, NULL);
  int last = -1, n = 0;
  for (mr_fiber *f; (f = mr_queue_take(&mr_rt.queue)) != NULL; n++) {
    int i = (int)(f - crowd);
    CHECK(i % 7 != 0 && (last < 0 || comes_before(last, i)));
    last = i;
  }
  CHECK(n == CROWD - (CROWD + 6) / 7);
  mr_run_forget();
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
  test_a_crowd_is_queued_in_the_order_of_its_times_and_of_its_waits();
  test_the_first_that_is_due_comes_first();
  test_a_deadline_ends_with_its_wait();
  test_each_moment_is_taken_once();
  return 0;
}
