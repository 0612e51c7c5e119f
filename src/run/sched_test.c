/*
 * sched: everybody has his turns, whatever others do; workers come and go; a body that does not give way loses its worker.
 */
#include "run/test.h"

/* ---- births and ends ---- */

enum { DEPTH = 12 };

/* A tree of jobs: each makes two, gives way sometimes, and ends. */
static int branch(task *t) {
  int depth = (int)(intptr_t)t->arg;
  if (t->at++ == 0 && depth > 0) {
    for (int i = 0; i < 2; i++) spawn(branch, (void *)(intptr_t)(depth - 1), &t->fiber);
    if (mr_job_crowded(t->fiber.job)) {
      t->fiber.sysyield = SYS_CEDED;
      return BODY_YIELDS;
    }
  }
  return t->at < depth % 4 ? yields(t) : ENDS;
}

static void test_all_that_is_born_ends(void) {
  for (int workers = 1; workers <= 4; workers++) {
    start(workers);
    spawn(branch, (void *)(intptr_t)DEPTH, NULL);
    wait_for_all();
    CHECK(atomic_load(&begun) == (2 << DEPTH) - 1 && atomic_load(&ended) == atomic_load(&begun));
    stop();
  }
}

/* ---- hand-overs ---- */

enum { HOPS = 20000 / SLOW, RING = 10 };
static mr_event hop[RING];
static atomic_int turns;
static task *ring[RING];

/* A baton goes round: each waits for it, and wakes the next one. */
static int runner(task *t) {
  int me = (int)(intptr_t)t->arg;
  if (t->at == 1) mr_wake(&t->fiber);
  for (;;) {
    if (t->at == 1) {
      again(&hop[me]);
      t->at = 0;
      int over = atomic_fetch_add(&turns, 1) >= HOPS;
      mr_event_set(&hop[(me + 1) % RING], &t->fiber);
      if (over) return ENDS;
    }
    t->at = 1;
    if (waits_for(t, &hop[me])) return parks(t, UINT64_MAX);
  }
}

static void test_a_baton_goes_round(void) {
  for (int workers = 1; workers <= 3; workers += 2) {
    atomic_store(&turns, 0);
    for (int i = 0; i < RING; i++) mr_event_init(&hop[i]);
    start(workers);
    mr_outside(1);
    for (int i = 0; i < RING; i++) ring[i] = spawn(runner, (void *)(intptr_t)i, NULL);
    mr_event_set(&hop[0], NULL);
    wait_for_all();
    mr_outside(-1);
    CHECK(atomic_load(&turns) == HOPS + RING);
    stop();
  }
}

enum { CALLS = 200 / SLOW };
static mr_event call;
static atomic_int answered;
static task *callee;

static int answers(task *t) {
  if (t->at == 1) mr_wake(&t->fiber);
  for (;;) {
    if (t->at == 1) {
      again(&call);
      t->at = 0;
      if (atomic_fetch_add(&answered, 1) + 1 == CALLS) return ENDS;
    }
    t->at = 1;
    if (waits_for(t, &call)) return parks(t, UINT64_MAX);
  }
}

/* It computes until the one that it has woken has run: on another worker, as its own is busy. */
static int calls(task *t) {
  for (; t->count < CALLS; t->count++) {
    if (told_to_yield(t)) return BODY_YIELDS;
    while (atomic_load(&callee->fiber.state) != FIBER_PARKED) port_pause();
    mr_event_set(&call, &t->fiber);
    while (atomic_load(&answered) <= t->count) port_pause();
  }
  return ENDS;
}

static void test_what_is_next_behind_one_who_computes_is_run_by_another(void) {
  mr_event_init(&call);
  atomic_store(&answered, 0);
  start(2);
  callee = spawn(answers, NULL, NULL);
  spawn(calls, NULL, NULL);
  wait_for_all();
  CHECK(atomic_load(&answered) == CALLS);
  stop();
}

/* ---- turns ---- */

static atomic_int computes, seen;

static int computer(task *t) {
  while (!atomic_load(&seen))
    if (told_to_yield(t)) return BODY_YIELDS;
  return ENDS;
}

static int looker(task *t) {
  (void)t;
  atomic_store(&seen, 1);
  return ENDS;
}

/* One worker: it goes on only because the monitor tells the one that computes. */
static void test_who_computes_is_interrupted(void) {
  start(1);
  atomic_store(&seen, 0);
  spawn(computer, NULL, NULL);
  while (atomic_load(&begun) == 0) port_sleep(100000);
  spawn(looker, NULL, NULL);
  wait_for_all();
  stop();
}

/* It does not look at what it is told, so it loses its worker; without it, it goes on to its end. */
static int deaf(task *t) {
  (void)t;
  atomic_store(&computes, 1);
  while (!atomic_load(&seen)) port_pause();
  return ENDS;
}

static int blocked(task *t) {
  (void)t;
  atomic_store(&computes, 1);
  while (!atomic_load(&seen)) port_sleep(2000000);
  return ENDS;
}

static void test_who_does_not_give_way_loses_its_worker(void) {
  static int (*const steps[])(task *t) = { deaf, blocked };
  for (int i = 0; i < 2; i++) {
    start(1);
    atomic_store(&seen, 0);
    atomic_store(&computes, 0);
    spawn(steps[i], NULL, NULL);
    while (!atomic_load(&computes)) port_sleep(100000);
    spawn(looker, NULL, NULL);
    wait_for_all();
    stop();
  }
}

/* ---- where a body can't yield ---- */

enum { BLOCKED = 20, TIMES = 50 / SLOW };
static mr_event gate[BLOCKED];
static mr_event opened;

/* Keeps its thread, as a comparator does: a spare takes the worker over meanwhile. */
static int sorter(task *t) {
  int me = (int)(intptr_t)t->arg;
  for (int i = 0; i < TIMES; i++) {
    CHECK(mr_wait_reserve(&t->fiber) == MR_OK);
    opens(t, WAIT_HANDOVER);
    if (mr_event_wait(&gate[me], &t->fiber.wait)) {
      mr_wait_abandon(&t->fiber);
    } else {
      mr_wait_block(&t->fiber, UINT64_MAX);
      CHECK(mr_wake(&t->fiber) == MR_WOKEN);
      CHECK(atomic_load(&t->fiber.thread->current) == &t->fiber);
    }
    again(&gate[me]);
    t->count++;
    atomic_fetch_add(&turns, 1);
  }
  return ENDS;
}

/* Opens the gates, until all have been through TIMES times. */
static int opener(task *t) {
  for (int i = 0; i < BLOCKED; i++)
    if (!mr_event_is_set(&gate[i])) mr_event_set(&gate[i], &t->fiber);
  return atomic_load(&turns) < BLOCKED * TIMES ? yields(t) : ENDS;
}

static void test_a_thread_that_keeps_its_fiber_gives_its_worker_away(void) {
  start(1);                                    /* so gates are opened only by who has the worker, one thing after the other */
  atomic_store(&turns, 0);
  for (int i = 0; i < BLOCKED; i++) mr_event_init(&gate[i]);
  for (int i = 0; i < BLOCKED; i++) spawn(sorter, (void *)(intptr_t)i, NULL);
  spawn(opener, NULL, NULL);
  wait_for_all();
  CHECK(atomic_load(&turns) == BLOCKED * TIMES);
  stop();
}

/* ---- workers come and go ---- */

static int yielder(task *t) { return t->count++ < 3000 / SLOW ? yields(t) : ENDS; }

static void test_the_number_of_workers_changes_under_load(void) {
  start(2);
  for (int i = 0; i < 64; i++) spawn(yielder, NULL, NULL);
  for (unsigned n = 1; mr_job_count() > 0; n = n * 7 % 31) {
    CHECK(mr_workers_set((int)(n % 5) + 1) == MR_OK);
    port_sleep(500000);
  }
  wait_for_all();
  CHECK(atomic_load(&ended) == 64);
  stop();
}

/* ---- nothing can run any more ---- */

static int forever(task *t) {
  if (t->at++) return mr_wake(&t->fiber) == MR_WOKEN ? ENDS : -1;
  opens(t, WAIT_YIELD);
  mr_event_wait(&opened, &t->fiber.wait);
  return parks(t, UINT64_MAX);
}

static int waiting_for(mr_event *e) {
  int n = 0;
  port_acquire(&e->lock);
  for (mr_wait *w = e->waiters.next; w != &e->waiters; w = w->next) n++;
  port_unlock(&e->lock);
  return n;
}

static void test_a_deadlock_is_noticed_and_only_then(void) {
  start(2);
  int before = atomic_load(&deadlocks);
  mr_event_init(&opened);
  spawn(forever, NULL, NULL);
  spawn(forever, NULL, NULL);
  while (waiting_for(&opened) < 2) port_sleep(100000);      /* the first may be alone for a while, which is a deadlock, too */
  while (atomic_load(&deadlocks) == before) port_sleep(100000);
  CHECK(mr_job_count() == 2);
  for (int i = 0; i < 2; i++) {                /* both still wait, and can go on */
    port_acquire(&opened.lock);
    mr_fiber *f = opened.waiters.next->fiber;
    mr_waitq_del(&f->wait);
    port_unlock(&opened.lock);
    CHECK(mr_fiber_claim(f));
    mr_moving();
    mr_ready(f, MR_WOKEN, NULL);
    mr_settled();
  }
  wait_for_all();
  stop();
}

int main(void) {
  test_all_that_is_born_ends();
  test_a_baton_goes_round();
  test_what_is_next_behind_one_who_computes_is_run_by_another();
  test_who_computes_is_interrupted();
  test_who_does_not_give_way_loses_its_worker();
  test_a_thread_that_keeps_its_fiber_gives_its_worker_away();
  test_the_number_of_workers_changes_under_load();
  test_a_deadlock_is_noticed_and_only_then();
  return 0;
}
