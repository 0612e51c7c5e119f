/*
 * Checks: each rule about locks ends the program that breaks it, and says where. In builds without checks nothing of them is left: no code, no
 * field of a lock, no evaluated expression.
 */
#include "port/test.h"

static port_lock life = PORT_LOCK(2), first = PORT_LOCK(PORT_RANK_SHORT), second = PORT_LOCK(PORT_RANK_SHORT + 1), same = PORT_LOCK(PORT_RANK_SHORT);
static port_lock inner, other;

/* ---- what is allowed ---- */

static void test_locks_are_taken_in_their_order(void) {
  port_acquire(&life);
  port_acquire(&first);
  port_acquire(&second);
  port_acquire(&inner);
  port_unlock(&first);               /* they may be released in any order */
  port_unlock(&inner);
  port_unlock(&second);
  port_sleep(1);                     /* under `life`, which is held for long */
  port_unlock(&life);
  port_acquire(&inner);
  port_unlock(&inner);
}

static void test_trying_a_lock_is_allowed_in_any_order(void) {
  port_acquire(&second);
  CHECK(port_trylock(&first));
  port_unlock(&first);
  port_unlock(&second);
}

static void test_a_lock_tried_in_vain_is_not_held(void) {
  port_acquire(&first);
  CHECK(!port_trylock(&first));
  port_unlock(&first);
  port_sleep(1);
}

/* ---- what is not ---- */

static void twice(void) {
  port_acquire(&inner);
  port_acquire(&inner);
}

static void backwards(void) {
  port_acquire(&second);
  port_acquire(&first);
}

static void side_by_side(void) {
  port_acquire(&first);
  port_acquire(&same);
}

static void beyond_the_innermost(void) {
  port_acquire(&inner);
  port_acquire(&other);
}

static void not_mine(void) { port_unlock(&inner); }

static void sleeping(void) {
  port_acquire(&second);
  port_sleep(1);
}

static void waiting(void) {
  port_event e = { 0 };
  port_acquire(&inner);
  port_event_wait(&e, port_now());
}

static void nothing(void *arg) { (void)arg; }
static void starting(void) {
  port_acquire(&first);
  port_thread_start(nothing, NULL, "test");
}

static void broken(void) {
  int n = 3;
  mr_assert(n == 3);
  mr_assert(n + 1 == 3);
}

static void unheld(void) {
#ifdef MR_CHECKS
  mr_assert_locked(&inner);
#endif
}

static void waits_twice(void) {
  port_event e = { 2 };              /* as if somebody waited there */
  port_event_wait(&e, port_now());
}

static void test_a_broken_rule_ends_the_program(void) {
  CHECK_DIES(twice, "it waits for a lock, which this thread took at");
  CHECK_DIES(backwards, "a lock is taken out of order, under one, which this thread took at");
  CHECK_DIES(side_by_side, "a lock is taken out of order");
  CHECK_DIES(beyond_the_innermost, "a lock is taken out of order");
  CHECK_DIES(not_mine, "a lock is released that this thread does not hold");
  CHECK_DIES(sleeping, "it may sleep, or run Lua, under a lock");
  CHECK_DIES(waiting, "it may sleep, or run Lua, under a lock");
  CHECK_DIES(starting, "it may sleep, or run Lua, under a lock");
  CHECK_DIES(broken, ": check failed: n + 1 == 3");
  CHECK_DIES(unheld, "port_check_holds(&inner)");
  CHECK_DIES(waits_twice, "clear == 0 || again");
}

#ifdef MR_CHECKS
static void test_one_call_of_several_is_made(void) {
  int n = 0;
  for (int i = 0; i < 40; i++) MR_CHECK_SOME(8, n++);
  CHECK(n == 5);
}
#else
static void test_nothing_is_left_of_checks(void) {
  int n = 0;
  CHECK(sizeof(port_lock) == sizeof(unsigned));
  mr_assert(++n > 0);
  MR_CHECK_SOME(1, n++);
  CHECK(n == 0);
}
#endif

int main(void) {
  test_locks_are_taken_in_their_order();
  test_trying_a_lock_is_allowed_in_any_order();
  test_a_lock_tried_in_vain_is_not_held();
  test_a_broken_rule_ends_the_program();
#ifdef MR_CHECKS
  test_one_call_of_several_is_made();
#else
  test_nothing_is_left_of_checks();
#endif
  return CHECK_RESULT();
}
