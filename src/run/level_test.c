/*
 * level: who has a higher priority runs first, from wherever it becomes ready, and nobody starves; a level can change at any time.
 */
#include "run/test.h"

#include <string.h>

static task *spawn_at(int level, int (*step)(task *t), void *arg, mr_fiber *near) {
  static _Atomic uint64_t ids = 1000000;
  task *t = task_new(step, arg);
  mr_job_init(&t->job, &t->fiber, atomic_fetch_add(&ids, 1) + 1, 0);
  CHECK(mr_job_level(&t->job, level) == LEVEL_NORMAL);
  mr_job_start(&t->job, near);
  return t;
}

/* ---- order ---- */

enum { MOST = 1000 };
static char order[MOST + 1];
static atomic_int placed;

static int notes(task *t) {
  int at = atomic_fetch_add(&placed, 1);
  CHECK(at < MOST);
  order[at] = (char)(intptr_t)t->arg;
  return ENDS;
}

static void *letter(char c) { return (void *)(intptr_t)c; }
static void expect(const char *text) {
  order[atomic_load(&placed)] = 0;
  if (strcmp(order, text) != 0) fprintf(stderr, "order: %s, not %s\n", order, text);
  CHECK(strcmp(order, text) == 0);
}

static void program(int (*step)(task *t)) {
  atomic_store(&placed, 0);
  start(1);
  spawn(step, NULL, NULL);
  wait_for_all();
  stop();
}

static int makes_all(task *t) {
  for (int i = 0; i < 3; i++) {
    spawn_at(LEVEL_LOW, notes, letter('l'), &t->fiber);
    spawn_at(LEVEL_NORMAL, notes, letter('n'), &t->fiber);
    spawn_at(LEVEL_HIGH, notes, letter('h'), &t->fiber);
  }
  return ENDS;
}

static void test_who_is_ready_runs_in_the_order_of_levels(void) {
  program(makes_all);
  expect("hhhnnnlll");
}

static task *made[6];

static int changes_all(task *t) {
  for (int i = 0; i < 6; i++) made[i] = spawn_at(i % 3, notes, letter((char)('a' + i)), &t->fiber);
  CHECK(mr_job_level(&made[0]->job, -1) == LEVEL_NORMAL && mr_job_level(&made[2]->job, -1) == LEVEL_LOW);
  CHECK(mr_job_level(&made[2]->job, LEVEL_HIGH) == LEVEL_LOW);           /* behind the others of its new level */
  CHECK(mr_job_level(&made[1]->job, LEVEL_LOW) == LEVEL_HIGH);
  CHECK(mr_job_level(&made[0]->job, LEVEL_LOW) == LEVEL_NORMAL);
  CHECK(mr_job_level(&made[4]->job, LEVEL_NORMAL) == LEVEL_HIGH);
  return ENDS;
}

static void test_who_waits_for_its_turn_is_put_where_it_belongs(void) {
  program(changes_all);
  expect("cdefba");
}

/* ---- hand-overs ---- */

static mr_event woken[3], idle_ring[2];

static int waiter(task *t) {
  int me = (int)(intptr_t)t->arg;
  if (t->at++ == 0 && waits_for(t, &woken[me])) return parks(t, UINT64_MAX);
  mr_wake(&t->fiber);
  order[atomic_fetch_add(&placed, 1)] = "nhl"[me];
  return ENDS;
}

static int wakes_all(task *t) {
  static const int sequence[][3] = { { 1, 0, 2 }, { 2, 1, 0 }, { 0, 2, 1 } };
  const int *s = sequence[(intptr_t)t->arg];
  if (t->at++ == 0) {
    for (int i = 0; i < 3; i++) spawn_at(i, waiter, (void *)(intptr_t)i, &t->fiber);
    opens(t, WAIT_YIELD);
    return parks(t, port_now() + 2000000);       /* they wait by then */
  }
  if (mr_wake(&t->fiber) != MR_TIMEOUT) abort();
  for (int i = 0; i < 3; i++) mr_event_set(&woken[s[i]], &t->fiber);
  return ENDS;
}

static void test_who_is_woken_runs_in_the_order_of_levels(void) {
  for (intptr_t i = 0; i < 3; i++) {
    atomic_store(&placed, 0);
    for (int k = 0; k < 3; k++) mr_event_init(&woken[k]);
    start(1);
    spawn(wakes_all, (void *)i, NULL);
    wait_for_all();
    stop();
    expect("hnl");
  }
}

/* A baton that never leaves the slot, and somebody of another level that is woken while it goes round. */
enum { HOPS = 2000 };
static atomic_int hops, woken_at, ran_at;
static task *third;

static int baton(task *t) {
  int me = (int)(intptr_t)t->arg;
  if (t->at++ > 0) mr_wake(&t->fiber);
  for (;;) {
    if (t->at > 1 || me == 0) {
      int n = atomic_fetch_add(&hops, 1);
      again(&idle_ring[me]);
      if (n == HOPS / 2) {
        atomic_store(&woken_at, n);
        mr_event_set(&woken[0], &t->fiber);
      }
      mr_event_set(&idle_ring[1 - me], &t->fiber);
      if (n >= HOPS) return ENDS;
    }
    if (t->at == 0) t->at = 1;
    if (waits_for(t, &idle_ring[me])) return parks(t, UINT64_MAX);
    t->at = 2;
  }
}

static int one_more(task *t) {
  if (t->at++ == 0 && waits_for(t, &woken[0])) return parks(t, UINT64_MAX);
  mr_wake(&t->fiber);
  atomic_store(&ran_at, atomic_load(&hops));
  return ENDS;
}

static int hands_over(int level) {
  atomic_store(&hops, 0);
  atomic_store(&ran_at, 0);
  mr_event_init(&woken[0]);
  for (int i = 0; i < 2; i++) mr_event_init(&idle_ring[i]);
  start(1);
  third = spawn_at(level, one_more, NULL, NULL);
  while (atomic_load(&third->fiber.state) != FIBER_PARKED) port_sleep(100000);
  mr_outside(1);
  spawn(baton, (void *)1, NULL);
  spawn(baton, (void *)0, NULL);
  wait_for_all();
  mr_outside(-1);
  stop();
  return atomic_load(&ran_at) - atomic_load(&woken_at);
}

static void test_a_high_one_does_not_wait_behind_hand_overs(void) { CHECK(hands_over(LEVEL_HIGH) <= 4); }
static void test_a_low_one_does_not_run_before_hand_overs(void) { CHECK(hands_over(LEVEL_LOW) > 4); }

/* ---- nobody starves ---- */

static atomic_int over, advances;

static int advancing(task *t) {
  if (t->count++ < 5) return yields(t);
  if (atomic_fetch_add(&advances, 1) == 1) atomic_store(&over, 1);
  return ENDS;
}

static int computing(task *t) {
  while (!atomic_load(&over))
    if (told_to_yield(t)) return BODY_YIELDS;
  return ENDS;
}

static int yielding(task *t) { return atomic_load(&over) ? ENDS : yields(t); }

static int five_ms(task *t) {
  for (uint64_t end = port_now() + 5000000; port_now() < end;) port_pause();
  return atomic_load(&over) ? ENDS : yields(t);
}

/* Two that only yield get 5 turns each beside two of `level`. */
static void advance(int level, int (*others)(task *t), int workers) {
  atomic_store(&over, 0);
  atomic_store(&advances, 0);
  start(workers);
  for (int i = 0; i < workers + 1; i++) spawn_at(level == LEVEL_LOW ? i % 2 : LEVEL_HIGH, others, NULL, NULL);
  for (int i = 0; i < 2; i++) spawn_at(level, advancing, NULL, NULL);
  wait_for_all();
  stop();
}

static void test_low_ones_advance_beside_those_that_are_always_ready(void) {
  static int (*const kinds[])(task *t) = { computing, yielding, five_ms };
  for (int i = 0; i < 3; i++)
    for (int workers = 1; workers <= 2; workers++) advance(LEVEL_LOW, kinds[i], workers);
}

static void test_normal_ones_advance_beside_high_ones_that_are_always_ready(void) {
  static int (*const kinds[])(task *t) = { computing, yielding, five_ms };
  for (int i = 0; i < 3; i++)
    for (int workers = 1; workers <= 2; workers++) advance(LEVEL_NORMAL, kinds[i], workers);
}

/*
 * Turns of one normal and of one low one. Both only yield: the worker of one that computes may be taken away on a loaded machine, and then
 * the other has it.
 */
enum { LOW_TURNS = 2000 / SLOW };
static atomic_int turns_of[NLEVELS];

static int counts_turns(task *t) {
  int level = mr_job_level(&t->job, -1);
  if (atomic_fetch_add(&turns_of[level], 1) == LOW_TURNS && level == LEVEL_LOW) atomic_store(&over, 1);
  return atomic_load(&over) ? ENDS : yields(t);
}

static void test_a_low_one_has_a_small_part_of_the_turns(void) {
  atomic_store(&over, 0);
  for (int i = 0; i < NLEVELS; i++) atomic_store(&turns_of[i], 0);
  start(1);
  spawn_at(LEVEL_NORMAL, counts_turns, NULL, NULL);
  while (atomic_load(&turns_of[LEVEL_NORMAL]) == 0) port_sleep(100000);
  spawn_at(LEVEL_LOW, counts_turns, NULL, NULL);
  wait_for_all();
  stop();
  CHECK(atomic_load(&turns_of[LEVEL_NORMAL]) >= 2 * atomic_load(&turns_of[LEVEL_LOW]));
}

/* ---- at any time ---- */

enum { PLAYERS = 24, ROUNDS = 100 / SLOW };
static mr_event ball[PLAYERS];
static task *player[PLAYERS];
static atomic_int changing;

/* Changes everybody's level while they play, which end only afterwards: their records are to stay. */
static int changes(task *t) {
  unsigned n = (unsigned)t->count * 2654435761u >> 8;
  mr_job_level(&player[n % PLAYERS]->job, (int)(n / PLAYERS % NLEVELS));
  if (t->count++ < 4 * ROUNDS) return yields(t);
  atomic_fetch_sub(&changing, 1);
  return ENDS;
}

/* Wakes somebody, then waits for a short time, yields, or computes; with siblings in some jobs. */
static int plays(task *t) {
  unsigned me = (unsigned)(intptr_t)t->arg;
  if (t->at && mr_wake(&t->fiber) == MR_TIMEOUT) mr_event_unwait(&ball[me % PLAYERS], &t->fiber.wait);
  t->at = 0;
  if (t->count++ >= ROUNDS && !atomic_load(&changing)) return ENDS;
  unsigned what = (me * 7 + (unsigned)t->count * 13) % 11;
  mr_event_set(&ball[what * 5 % PLAYERS], &t->fiber);
  if (what < 3) return yields(t);
  if (what == 3) for (uint64_t end = port_now() + 300000; port_now() < end;) port_pause();
  if (what == 4 && me % 4 == 0 && t->count < 8 && &t->job == t->fiber.job) spawn_beside(t, plays, (void *)(intptr_t)(me + 1));
  again(&ball[me % PLAYERS]);
  if (!waits_for(t, &ball[me % PLAYERS])) return yields(t);
  t->at = 1;
  return parks(t, port_now() + 200000);
}

static void test_levels_change_at_any_time(void) {
  for (int workers = 1; workers <= 3; workers++) {
    start(workers);
    for (int i = 0; i < PLAYERS; i++) mr_event_init(&ball[i]);
    atomic_store(&changing, 2);
    for (int i = 0; i < PLAYERS; i++) player[i] = spawn_at(i % 3, plays, (void *)(intptr_t)i, NULL);
    for (int i = 0; i < 2; i++) spawn(changes, NULL, NULL);
    wait_for_all();
    stop();
  }
}

int main(void) {
  test_who_is_ready_runs_in_the_order_of_levels();
  test_who_waits_for_its_turn_is_put_where_it_belongs();
  test_who_is_woken_runs_in_the_order_of_levels();
  test_a_high_one_does_not_wait_behind_hand_overs();
  test_a_low_one_does_not_run_before_hand_overs();
  test_low_ones_advance_beside_those_that_are_always_ready();
  test_normal_ones_advance_beside_high_ones_that_are_always_ready();
  test_a_low_one_has_a_small_part_of_the_turns();
  test_levels_change_at_any_time();
  return 0;
}
