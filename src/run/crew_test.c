/*
 * crew: the fibers of one job never run at the same time, whoever wakes them; who was interrupted goes on first; ends reach all of them.
 */
#include "run/test.h"

enum { FIBERS = 20, ROUNDS = 200 / SLOW };

static mr_event go[FIBERS];
static atomic_int inside, rounds, told;

/* The job's data: no other fiber of it may be between these two. */
static void enters(void) { CHECK(atomic_fetch_add(&inside, 1) == 0); }
static void leaves(void) { CHECK(atomic_fetch_sub(&inside, 1) == 1); }

/* ---- waits ---- */

static int sibling(task *t) {
  int me = (int)(intptr_t)t->arg;
  enters();
  if (t->at == 1) {
    CHECK(mr_wake(&t->fiber) == MR_WOKEN);
    again(&go[me]);
    atomic_fetch_add(&rounds, 1);
    t->count++;
  }
  t->at = 1;
  if (t->count == ROUNDS) {
    leaves();
    return ENDS;
  }
  int set = !waits_for(t, &go[me]);
  leaves();
  if (!set) return parks(t, UINT64_MAX);
  /* set already: as if it had been woken */
  again(&go[me]);
  atomic_fetch_add(&rounds, 1);
  t->count++;
  t->at = 0;
  return yields(t);
}

static int first(task *t) {
  enters();
  if (t->at++ == 0)
    for (int i = 0; i < FIBERS; i++) spawn_beside(t, sibling, (void *)(intptr_t)i);
  leaves();
  return ENDS;
}

/* Threads of nobody's wake them all the time. */
static void waker(void *arg) {
  unsigned n = (unsigned)(uintptr_t)arg;
  while (mr_job_count() > 0) {
    n = n * 1664525u + 1013904223u;
    mr_event *e = &go[(n >> 16) % FIBERS];
    if (!mr_event_is_set(e)) mr_event_set(e, NULL);
    if (n % 8 == 0) port_yield();
  }
}

static void test_two_never_run_at_once(void) {
  port_thread a, b;
  for (int i = 0; i < FIBERS; i++) mr_event_init(&go[i]);
  start(3);
  mr_outside(1);
  spawn(first, NULL, NULL);
  CHECK(port_thread_fork(&a, waker, (void *)1, "waker") == 0 && port_thread_fork(&b, waker, (void *)2, "waker") == 0);
  wait_for_all();
  port_thread_join(&a);
  port_thread_join(&b);
  mr_outside(-1);
  CHECK(atomic_load(&rounds) == FIBERS * ROUNDS && atomic_load(&ended) == FIBERS + 1);
  stop();
}

/* ---- an interrupted one ---- */

static atomic_int computing, others;
static task *half;                   /* whose work is half done */

static int computer(task *t) {
  if (t->at++ == 0) {
    half = t;
    atomic_store(&computing, 1);
    while (!told_to_yield(t)) {}
    return BODY_YIELDS;
  }
  CHECK(half == t);                  /* no sibling ran in between */
  half = NULL;
  return ENDS;
}

static int quick(task *t) {
  (void)t;
  CHECK(half == NULL);
  atomic_fetch_add(&others, 1);
  return ENDS;
}

static int stranger(task *t) {
  (void)t;
  atomic_fetch_add(&others, 1);
  return ENDS;
}

static int parent(task *t) {
  spawn_beside(t, computer, NULL);
  for (int i = 0; i < 5; i++) spawn_beside(t, quick, NULL);
  return ENDS;
}

static void test_the_interrupted_one_goes_on_before_its_siblings(void) {
  start(1);
  spawn(parent, NULL, NULL);
  while (!atomic_load(&computing)) port_sleep(100000);
  spawn(stranger, NULL, NULL);       /* of another job: the reason for the interrupt */
  wait_for_all();
  CHECK(atomic_load(&others) == 6);
  stop();
}

/* ---- ends ---- */

static mr_event never;

static int daemon_step(task *t) {
  if (t->at++ == 0) {
    CHECK(waits_for(t, &never));
    return parks(t, UINT64_MAX);
  }
  CHECK(mr_wake(&t->fiber) == MR_STOPPED && mr_fiber_ending(&t->fiber));
  mr_event_unwait(&never, &t->fiber.wait);
  atomic_fetch_add(&told, 1);
  return ENDS;
}

static int keeper(task *t) {
  if (t->at++ == 0) {
    for (int i = 0; i < FIBERS; i++) mr_crew_daemon(&spawn_beside(t, daemon_step, NULL)->fiber);
    return yields(t);                /* so that they wait */
  }
  return ENDS;
}

static void test_daemons_are_told_when_only_they_are_left(void) {
  start(2);
  mr_event_init(&never);
  spawn(keeper, NULL, NULL);
  wait_for_all();
  CHECK(atomic_load(&told) == FIBERS && mr_waitq_empty(&never.waiters));
  stop();
}

static int canceller(task *t) {
  if (t->at == 0) {
    for (int i = 0; i < FIBERS; i++) t->arg = spawn_beside(t, daemon_step, NULL);
    t->at = 1;
    return yields(t);
  }
  while (!mr_waitq_empty(&never.waiters) && t->at++ <= FIBERS) {
    mr_fiber *f = never.waiters.next->fiber;
    mr_fiber_cancel(f, &t->fiber);
    return yields(t);
  }
  return ENDS;
}

static void test_a_sibling_is_cancelled_where_it_waits(void) {
  start(2);
  atomic_store(&told, 0);
  mr_event_init(&never);
  spawn(canceller, NULL, NULL);
  wait_for_all();
  CHECK(atomic_load(&told) == FIBERS);
  stop();
}

/* ---- a host's ---- */

static mr_event done;

static int hosted(task *t) {
  if (t->count++ < 10) return yields(t);
  if (atomic_fetch_add(&others, 1) == FIBERS - 1) mr_event_set(&done, &t->fiber);
  return ENDS;
}

/* This thread is the first fiber; it runs the others while it waits, and gets its own wake-up. */
static void test_a_host_runs_its_fibers_while_it_waits(void) {
  start(2);
  atomic_store(&others, 0);
  mr_event_init(&done);
  task *host = task_new(NULL, NULL);
  mr_job_init(&host->job, &host->fiber, 1000, 1);
  host->fiber.thread = mr_thread_new();
  CHECK(host->fiber.thread != NULL);
  mr_host_enter(&host->job);
  for (int i = 0; i < FIBERS; i++) spawn_beside(host, hosted, NULL);
  opens(host, WAIT_HOST);
  CHECK(!mr_event_wait(&done, &host->fiber.wait));
  mr_wait_block(&host->fiber, UINT64_MAX);
  CHECK(mr_wake(&host->fiber) == MR_WOKEN && atomic_load(&others) == FIBERS);
  /* nobody would ever wake it: it is told so */
  mr_event_init(&never);
  opens(host, WAIT_HOST);
  CHECK(!mr_event_wait(&never, &host->fiber.wait));
  mr_wait_block(&host->fiber, UINT64_MAX);
  CHECK(mr_wake(&host->fiber) == MR_DEADLOCK);
  mr_event_unwait(&never, &host->fiber.wait);
  opens(host, WAIT_HOST);
  mr_wait_block(&host->fiber, port_now() + 5000000);
  CHECK(mr_wake(&host->fiber) == MR_TIMEOUT);
  CHECK(mr_host_exit(&host->job) == 0);
  mr_thread_free(host->fiber.thread);
  mr_crew_destroy(host->fiber.crew);
  port_lines_free(host);
  stop();
}

int main(void) {
  test_two_never_run_at_once();
  test_the_interrupted_one_goes_on_before_its_siblings();
  test_daemons_are_told_when_only_they_are_left();
  test_a_sibling_is_cancelled_where_it_waits();
  test_a_host_runs_its_fibers_while_it_waits();
  return 0;
}
