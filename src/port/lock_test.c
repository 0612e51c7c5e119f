/*
 * Locks: one thread at a time is inside, also when they are many more than processors; trying a held lock fails at once. Of two threads that store and
 * then look, one sees the other.
 */
#include "port/test.h"

enum { THREADS = 8, ROUNDS = 5000 };

static port_lock lock;
static unsigned inside, sum, refused;          /* (lock) */
static atomic_uint tried;

static void enter_and_leave(void *arg) {
  uint64_t seed = (uintptr_t)arg;
  for (int i = 0; i < ROUNDS; i++) {
    if (test_random(&seed) % 4 == 0) {
      if (!port_trylock(&lock)) {
        atomic_fetch_add(&tried, 1);
        continue;
      }
    } else {
      port_acquire(&lock);
    }
    CHECK(inside++ == 0);
    sum++;
    if (i % 1000 == 0) port_yield();           /* the others find it held, and sleep */
    inside--;
    port_unlock(&lock);
  }
}

static void test_one_thread_is_inside(void) {
  port_thread t[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], enter_and_leave, (void *)(i + 1), "lock") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  CHECK(sum + atomic_load(&tried) == THREADS * ROUNDS && inside == 0);
}

static void try_it(void *arg) {
  (void)arg;
  refused = !port_trylock(&lock);
  if (!refused) port_unlock(&lock);
}

static void test_a_held_lock_is_refused_to_others_at_once(void) {
  port_thread t;
  port_lock_grab(&lock);                       /* unchecked, as in hold_for_long */
  CHECK(port_thread_fork(&t, try_it, NULL, "lock") == 0);
  port_thread_join(&t);
  CHECK(refused);
  port_lock_leave(&lock);
  CHECK(port_thread_fork(&t, try_it, NULL, "lock") == 0);
  port_thread_join(&t);
  CHECK(!refused);
}

static void hold_for_long(void *arg) {
  port_event *taken = arg;
  port_lock_grab(&lock);                       /* to hold a lock and to sleep is just what the checks forbid */
  port_event_set(taken);
  port_sleep(20000000);
  port_lock_leave(&lock);
}

/* Its holder has lost the processor: who waits gives its own away, and in the end sleeps. */
static void test_a_holder_that_is_away_is_waited_for(void) {
  port_thread t;
  port_event taken = { 0 };
  uint64_t begun = port_now();
  CHECK(port_thread_fork(&t, hold_for_long, &taken, "lock") == 0);
  CHECK(port_event_wait(&taken, UINT64_MAX));
  port_acquire(&lock);
  CHECK(port_now() - begun >= 20000000);
  port_unlock(&lock);
  port_thread_join(&t);
}

enum { MEETINGS = 400 };
static atomic_uchar often, seldom;
static atomic_uint round_of[2], saw[2];

static void meet(int me, unsigned round) {
  atomic_store(&round_of[me], round);
  for (unsigned i = 0; atomic_load(&round_of[1 - me]) < round; i++) {
    if (i < 1000) port_pause();
    else port_yield();
  }
}

static void store_seldom(void *arg) {
  (void)arg;
  for (unsigned i = 0; i < MEETINGS; i++) {
    meet(1, 2 * i + 1);
    atomic_store(&seldom, 1);
    port_seldom_stored();
    atomic_store(&saw[1], atomic_load(&often));
    meet(1, 2 * i + 2);
  }
}

static void test_of_two_that_store_and_then_look_one_sees_the_other(void) {
  port_thread t;
  unsigned both_missed = 0;
  for (unsigned i = 0; i < 2; i++) atomic_store(&round_of[i], 0);
  CHECK(port_thread_fork(&t, store_seldom, NULL, "seldom") == 0);
  for (unsigned i = 0; i < MEETINGS; i++) {
    meet(0, 2 * i + 1);
    port_store_often(&often, 1);
    unsigned seen = atomic_load(&seldom);
    meet(0, 2 * i + 2);
    both_missed += !seen && !atomic_load(&saw[1]);
    atomic_store(&often, 0);
    atomic_store(&seldom, 0);
  }
  port_thread_join(&t);
  CHECK(both_missed == 0);
}

int main(void) {
  test_of_two_that_store_and_then_look_one_sees_the_other();      /* by mere instructions, */
  port_fences_init();
  test_of_two_that_store_and_then_look_one_sees_the_other();      /* and as the system helps, if it can */
  test_a_held_lock_is_refused_to_others_at_once();
  test_one_thread_is_inside();
  test_a_holder_that_is_away_is_waited_for();
  return CHECK_RESULT();
}
