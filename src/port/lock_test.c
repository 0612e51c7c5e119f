/* Locks: one thread at a time is inside, also when they are many more than processors; trying a held lock fails at once. */
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

int main(void) {
  test_a_held_lock_is_refused_to_others_at_once();
  test_one_thread_is_inside();
  test_a_holder_that_is_away_is_waited_for();
  return CHECK_RESULT();
}
