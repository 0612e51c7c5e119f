/*
 * Events: a set is never lost and wakes exactly one wait, whether it came before, during or after the decision to sleep; a deadline ends a wait, not
 * before its time; a set and a deadline at the same moment leave the event either set or consumed.
 */
#include "port/test.h"

enum { ROUNDS = 1000 };
#define MS UINT64_C(1000000)

static void test_a_set_is_remembered_once(void) {
  port_event e = { 0 };
  port_event_set(&e);
  port_event_set(&e);
  CHECK(port_event_wait(&e, UINT64_MAX) == 1);
  CHECK(port_event_wait(&e, port_now()) == 0);
  CHECK(port_event_spin(&e, 1000) == 0);
  port_event_set(&e);
  CHECK(port_event_spin(&e, MS) == 1);
  CHECK(port_event_spin(&e, 1000) == 0);
}

static void test_a_deadline_ends_a_wait_not_before_its_time(void) {
  port_event e = { 0 };
  for (int i = 0; i < 5; i++) {
    uint64_t begun = port_now(), until = begun + (uint64_t)i * 3 * MS;
    CHECK(port_event_wait(&e, until) == 0);
    CHECK(port_now() >= until);
    CHECK(atomic_load(&e.word) == 0);            /* and nobody counts as waiting any more */
  }
  CHECK(port_event_wait(&e, 1) == 0);            /* long ago */
}

/* ---- two threads ---- */

static port_event there, back;
static atomic_uint sets, got;

static void answer(void *arg) {
  uint64_t seed = 5;
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    CHECK(port_event_wait(&there, UINT64_MAX) == 1);
    for (unsigned n = test_random(&seed) % 200; n > 0; n--) port_pause();
    port_event_set(&back);
  }
}

static void test_two_threads_wake_each_other_in_turn(void) {
  port_thread t;
  uint64_t seed = 9;
  CHECK(port_thread_fork(&t, answer, NULL, "answer") == 0);
  for (int i = 0; i < ROUNDS; i++) {
    port_event_set(&there);
    unsigned spin = test_random(&seed) % 3;
    if (spin == 0 && port_event_spin(&back, 20000)) continue;
    CHECK(port_event_wait(&back, UINT64_MAX) == 1);
  }
  port_thread_join(&t);
  CHECK(atomic_load(&there.word) == 0 && atomic_load(&back.word) == 0);
}

/* Sets that come while the last is not consumed are one with it, so as many waits succeed as the receiver acknowledged. */
static void set_often(void *arg) {
  uint64_t seed = 77;
  (void)arg;
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t until = port_now() + test_random(&seed) % 300000;   /* often after the other's deadline */
    while (port_now() < until) port_pause();
    atomic_fetch_add(&sets, 1);
    port_event_set(&there);
    while (atomic_load(&got) != atomic_load(&sets)) port_yield();
  }
}

static void test_no_set_is_lost_at_a_deadline(void) {
  port_thread t;
  unsigned late = 0;
  uint64_t seed = 3;
  atomic_store(&sets, 0);
  atomic_store(&got, 0);
  CHECK(port_thread_fork(&t, set_often, NULL, "set") == 0);
  while (atomic_load(&got) < ROUNDS) {
    if (port_event_wait(&there, port_now() + test_random(&seed) % 60000)) atomic_fetch_add(&got, 1);
    else late++;
  }
  port_thread_join(&t);
  CHECK(late > 0 && port_event_wait(&there, port_now()) == 0);
}

static void wake_in_a_while(void *arg) {
  port_sleep(5 * MS);
  port_event_set(arg);
}

static void test_a_sleeper_is_woken_long_before_its_deadline(void) {
  port_thread t;
  port_event e = { 0 };
  uint64_t begun = port_now();
  CHECK(port_thread_fork(&t, wake_in_a_while, &e, "wake") == 0);
  CHECK(port_event_wait(&e, begun + 30000 * MS) == 1);
  CHECK(port_now() - begun >= 5 * MS);
  port_thread_join(&t);
}

int main(void) {
  test_a_set_is_remembered_once();
  test_a_deadline_ends_a_wait_not_before_its_time();
  test_a_sleeper_is_woken_long_before_its_deadline();
  test_two_threads_wake_each_other_in_turn();
  test_no_set_is_lost_at_a_deadline();
  return CHECK_RESULT();
}
