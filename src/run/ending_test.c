/*
 * ending: a job that is asked to end learns of it wherever it is, once per asking: parked, about to park, running, in a queue, not begun, or at
 * its end; with one fiber or several. What is counted of it is right again afterwards.
 */
#include "run/rt.h"
#include "run/test.h"

enum { JOBS = 40, ROUNDS = 60 / SLOW + 2, THREADS = 3 };

static mr_event never;               /* nobody sets it */
static atomic_int stopped, agains, refused, asked;

static unsigned chance(unsigned *seed, unsigned n) {
  *seed = *seed * 1664525u + 1013904223u;
  return (*seed >> 16) % n;
}

/* As process/park.c does it. */
static void see_end(mr_fiber *f) {
  port_fence_after_lock();
  if (mr_fiber_ending(f) && (!f->masked || mr_job_ends(f->job) == JOB_KILLED) && mr_fiber_claim(f)) mr_ready(f, MR_STOPPED, NULL);
}

/* 1: it is to end, before the wait was open. */
static int waits_to_end(task *t, int masked) {
  if (mr_fiber_ending(&t->fiber) && (!masked || mr_job_ends(t->fiber.job) == JOB_KILLED)) return 1;
  t->fiber.masked = (unsigned char)masked;
  opens(t, WAIT_YIELD);
  port_chaos();
  CHECK(!mr_event_wait(&never, &t->fiber.wait));
  see_end(&t->fiber);
  return 0;
}

static mr_reason woken(task *t) {
  mr_reason r = mr_wake(&t->fiber);
  mr_event_unwait(&never, &t->fiber.wait);
  return r;
}

/* ---- whenever it comes ---- */

/* Waits for ever, now and then after a turn in the queue or with a time that is soon over. */
static int waiter(task *t) {
  unsigned seed = (unsigned)(t->count * 7919 + (int)(intptr_t)t->arg);
  if (t->at == 1) {
    mr_reason r = woken(t);
    CHECK(r == MR_STOPPED || r == MR_TIMEOUT);
    CHECK(r != MR_STOPPED || mr_fiber_ending(&t->fiber));
    if (r == MR_STOPPED) {
      atomic_fetch_add(&stopped, 1);
      return ENDS;
    }
  }
  t->count++;
  t->at = 0;
  if (chance(&seed, 4) == 0) return yields(t);
  if (waits_to_end(t, 0)) {
    atomic_fetch_add(&refused, 1);
    return ENDS;
  }
  t->at = 1;
  return parks(t, chance(&seed, 3) == 0 ? port_now() + chance(&seed, 50000) : UINT64_MAX);
}

/* The same with siblings. */
static int family(task *t) {
  for (int i = 0; i < 3; i++) spawn_beside(t, waiter, (void *)(intptr_t)(i + 100));
  t->step = waiter;
  return waiter(t);
}

static task *jobs[JOBS];

static void asker(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  for (int i = 0; i < JOBS; i++) {
    if (chance(&seed, 3) == 0) port_sleep(chance(&seed, 200000));
    if (mr_job_end(&jobs[(i * 7 + (int)seed % JOBS + JOBS) % JOBS]->job, JOB_CANCELLED + (int)chance(&seed, 2), NULL)) atomic_fetch_add(&asked, 1);
  }
  for (int i = 0; i < JOBS; i++) mr_job_end(&jobs[i]->job, JOB_CANCELLED, NULL);
}

static void test_whoever_waits_learns_of_it(void) {
  mr_event_init(&never);
  start(3);
  mr_outside(1);
  for (int r = 0; r < ROUNDS; r++) {
    port_thread th[THREADS];
    int threads_of = 0;
    for (int i = 0; i < JOBS; i++) {
      task *t = task_new(i % 4 == 0 ? family : waiter, (void *)(intptr_t)(r * JOBS + i));
      t->kept = 1;
      jobs[i] = spawn_as(t, NULL);
      if (i == JOBS / 2)                       /* some have not begun, others wait: the second half is asked as it is made, or later */
        for (int k = 0; k < JOBS / 2; k++) mr_job_end(&jobs[k]->job, JOB_CANCELLED, NULL);
    }
    for (; threads_of < THREADS; threads_of++)
      CHECK(port_thread_fork(&th[threads_of], asker, (void *)(uintptr_t)(r * THREADS + threads_of + 1), "asker") == 0);
    wait_for_all();
    for (int i = 0; i < threads_of; i++) port_thread_join(&th[i]);
    for (int i = 0; i < JOBS; i++) {
      CHECK(mr_job_end(&jobs[i]->job, JOB_KILLED, NULL) == 0);               /* it is over */
      port_lines_free(jobs[i]);
    }
    CHECK(atomic_load(&mr_rt.nending) == 0);
  }
  CHECK(atomic_load(&stopped) > 0);
  mr_outside(-1);
  stop();
}

/* ---- masked ---- */

static atomic_int in_mask;

static int masked(task *t) {
  if (t->at == 1) {
    mr_reason r = woken(t);
    if (r == MR_STOPPED) {
      CHECK(mr_job_ends(t->fiber.job) == JOB_KILLED);
      return ENDS;
    }
    CHECK(r == MR_AGAIN && mr_fiber_ending(&t->fiber));
    atomic_fetch_add(&agains, 1);
  }
  t->at = 1;
  if (waits_to_end(t, 1)) return ENDS;
  atomic_fetch_add(&in_mask, 1);
  return parks(t, UINT64_MAX);
}

static void test_a_masked_wait_is_told_to_look_again_and_ends_with_a_kill(void) {
  mr_event_init(&never);
  start(2);
  mr_outside(1);
  task *t = task_new(masked, NULL);
  t->kept = 1;
  spawn_as(t, NULL);
  while (!atomic_load(&in_mask)) port_sleep(100000);
  CHECK(mr_job_end(&t->job, JOB_CANCELLED, NULL) == 1);
  while (atomic_load(&in_mask) < 2) port_sleep(100000);
  CHECK(atomic_load(&agains) == 1);
  CHECK(mr_job_end(&t->job, JOB_CANCELLED, NULL) == 1);        /* asked before: nothing more happens */
  CHECK(mr_job_end(&t->job, JOB_KILLED, NULL) == 1);
  wait_for_all();
  CHECK(atomic_load(&agains) == 1 && mr_job_end(&t->job, JOB_KILLED, NULL) == 0);
  port_lines_free(t);
  mr_outside(-1);
  stop();
}

/* ---- what computes ---- */

static atomic_int busy_now, endings;

static int busy(task *t) {
  atomic_fetch_add(&busy_now, 1);
  while (!mr_job_ends(t->fiber.job) || (!MR_DEAF && atomic_load(&kicks) < 10) || !atomic_load(&endings)) {
    if (told_to_yield(t)) return BODY_YIELDS;
  }
  return ENDS;
}

static void count_endings(void) { atomic_fetch_add(&endings, 1); }

/* Two on one worker: one of them waits in the queue, or runs without a worker. */
static void test_what_runs_is_asked_to_come_back_until_it_is_over(void) {
  task *t[2];
  on_ending = count_endings;
  atomic_store(&kicks, 0);
  start(1);
  for (int i = 0; i < 2; i++) {
    t[i] = task_new(busy, NULL);
    t[i]->kept = 1;
    spawn_as(t[i], NULL);
  }
  while (!atomic_load(&busy_now)) port_sleep(100000);
  for (int i = 0; i < 2; i++) CHECK(mr_job_end(&t[i]->job, JOB_CANCELLED, NULL) == 1);
  wait_for_all();
  CHECK(atomic_load(&endings) > 0);
  for (int i = 0; i < 2; i++) port_lines_free(t[i]);
  CHECK(atomic_load(&mr_rt.nending) == 0);
  stop();
}

/* ---- by one that runs ---- */

static int ends_all(task *t) {
  for (int i = 0; i < JOBS; i++) mr_job_end(&jobs[i]->job, JOB_CANCELLED, &t->fiber);
  CHECK(mr_job_end(t->fiber.job, JOB_CANCELLED, NULL) == 1 && mr_fiber_ending(&t->fiber));
  return ENDS;
}

static void test_a_running_fiber_may_ask_many_and_itself(void) {
  mr_event_init(&never);
  start(2);
  mr_outside(1);
  for (int i = 0; i < JOBS; i++) {
    jobs[i] = task_new(i % 4 == 0 ? family : waiter, (void *)(intptr_t)i);
    jobs[i]->kept = 1;
    spawn_as(jobs[i], NULL);
  }
  spawn(ends_all, NULL, NULL);
  wait_for_all();
  for (int i = 0; i < JOBS; i++) port_lines_free(jobs[i]);
  CHECK(atomic_load(&mr_rt.nending) == 0);
  mr_outside(-1);
  stop();
}

int main(void) {
  test_whoever_waits_learns_of_it();
  test_a_masked_wait_is_told_to_look_again_and_ends_with_a_kill();
  test_what_runs_is_asked_to_come_back_until_it_is_over();
  test_a_running_fiber_may_ask_many_and_itself();
  return 0;
}
