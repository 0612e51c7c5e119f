/*
 * test: bodies in C in place of Lua, for the tests of this folder. They are linked with src/port, base, heap and run alone.
 *
 * A task is a fiber and a function, `step`, which runs it until it waits, yields or has ended, and remembers in `at` where it was. A task
 * with a job of its own is that job's first fiber; others belong to a crew. Every check is an abort, so that a debugger sees the place.
 */
#ifndef MR_RUN_TEST_H
#define MR_RUN_TEST_H

#include "run/body.h"
#include "run/clock.h"
#include "run/crew.h"
#include "run/poll.h"
#include "run/run.h"
#include "run/waitable.h"

#include <stdio.h>
#include <stdlib.h>

#define CHECK(x) ((x) ? (void)0 : (fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x), abort()))

/* Random delays make everything slow: fewer rounds will do. */
#ifdef MR_CHAOS
enum { SLOW = 10 };
#else
enum { SLOW = 1 };
#endif

enum { ENDS = 0 };                   /* a result of step beside BODY_YIELDS */

typedef struct task {
  mr_fiber fiber;                    /* first */
  mr_job job;                        /* of the first fiber */
  int (*step)(struct task *t);
  int at;                            /* where it goes on */
  int count;
  void *arg;
  int kept;                          /* of a job's first: its record stays when the job is over, for those who may still ask it to end */
} task;

static atomic_int ended, begun, deadlocks;
static port_event all_over;
static void (*on_interrupt)(void);
static atomic_int kicks;

static int equip(mr_thread *t) {
  (void)t;
  return 1;
}

static void get(mr_worker *w, mr_fiber *f) { CHECK(w != NULL && f->fresh); }

static int resume(mr_fiber *f) {
  task *t = (task *)(void *)f;
  CHECK(atomic_load(&f->state) == FIBER_RUNNING && f->job->fiber == f);
  if (f->fresh) {
    f->fresh = 0;
    mr_job_begun(f->job);
    atomic_fetch_add(&begun, 1);
  }
  f->sysyield = SYS_NONE;
  return t->step(t);
}

static int end(mr_thread *t, mr_fiber *f, int how) {
  mr_job *j = f->job;
  mr_crew *c = f->crew;
  CHECK(how == ENDS);
  atomic_store(&f->state, FIBER_DONE);
  atomic_store(&t->current, NULL);
  atomic_fetch_add(&ended, 1);
  if (c && f != j->first) {
    int daemon = f->daemon;
    mr_crew_remove(f);
    port_lines_free(f);
    if (mr_crew_ended(c, daemon) > 0) return 0;
  } else if (c && mr_crew_ended(c, 0) > 0) {
    return 0;
  }
  if (c) mr_crew_destroy(c);
  mr_job_settle(j);
  if (!((task *)(void *)j->first)->kept) port_lines_free(j->first);
  t->left = 1;
  if (mr_job_over()) port_event_set(&all_over);
  return 1;
}

static void recycle(mr_worker *w, mr_thread *t) {
  (void)w;
  t->left = 0;
}

static void flush(mr_worker *w) { (void)w; }
static void prefetch(const mr_fiber *f) { (void)f; }
static unsigned describe(const mr_fiber *f, const char **name) {
  *name = f == f->job->first ? "task" : NULL;
  return f != f->job->first;
}

static void kick(void) { atomic_fetch_add(&kicks, 1); }
static void knocked(void) {}

static void (*on_ending)(void);
static void ending(void) {
  if (on_ending) on_ending();
}
static void interrupt(void) {
  mr_run_interrupted(1);
  if (on_interrupt) on_interrupt();
}

/* Whoever waits in a host's place is told; others wait for ever. */
static int deadlock(mr_fiber **told, int most) {
  int n = 0;
  atomic_fetch_add(&deadlocks, 1);
  for (mr_job *h = mr_host_first(); h && n < most; h = h->next)
    if (mr_wait_claim(&h->fiber->wait)) told[n++] = h->fiber;
  return n;
}

const mr_body mr_run_body = {
  .thread_size = sizeof(mr_thread), .equip = equip, .get = get, .resume = resume, .end = end, .recycle = recycle, .flush = flush,
  .prefetch = prefetch, .describe = describe, .kick = kick, .interrupt = interrupt, .knocked = knocked, .ending = ending, .deadlock = deadlock,
};

/* ---- making them ---- */

static inline task *task_new(int (*step)(task *t), void *arg) {
  task *t = port_lines_new(sizeof *t);
  CHECK(t != NULL);
  *t = (task){ .step = step, .arg = arg };
  return t;
}

static inline task *spawn_as(task *t, mr_fiber *near) {
  static _Atomic uint64_t ids;
  mr_job_init(&t->job, &t->fiber, atomic_fetch_add(&ids, 1) + 1, 0);
  mr_job_start(&t->job, near);
  return t;
}
static inline task *spawn(int (*step)(task *t), void *arg, mr_fiber *near) { return spawn_as(task_new(step, arg), near); }

/* A fiber beside those of the job that runs. */
static inline task *spawn_beside(task *first, int (*step)(task *t), void *arg) {
  mr_crew *c = mr_crew_of(first->fiber.job);
  task *t = task_new(step, arg);
  CHECK(c != NULL);
  mr_fiber_init(&t->fiber, first->fiber.job);
  mr_crew_add(c, &t->fiber);
  return t;
}

/* ---- what a step does ---- */

static inline int yields(task *t) {
  t->fiber.sysyield = SYS_AGAIN;
  return BODY_YIELDS;
}

static inline int parks(task *t, uint64_t deadline) {
  if (deadline != UINT64_MAX) mr_wait_until(&t->fiber, deadline);
  t->fiber.sysyield = SYS_PARK;
  return BODY_YIELDS;
}

static inline void opens(task *t, int mode) {
  t->fiber.mode = (unsigned char)mode;
  mr_wait_begin(&t->fiber);
}

/* 1: it waits for e, and the step returns parks(); 0: e is set. */
static inline int waits_for(task *t, mr_event *e) {
  opens(t, WAIT_YIELD);
  if (!mr_event_wait(e, &t->fiber.wait)) return 1;
  mr_wait_abandon(&t->fiber);
  return 0;
}

/* It can be waited for once more. Others may be looking at it. */
static inline void again(mr_event *e) {
  port_acquire(&e->lock);
  e->set = 0;
  port_unlock(&e->lock);
}

/* The computing half of a body: gives way when it is told to. */
static inline int told_to_yield(task *t) {
  if (!(atomic_load(&t->fiber.thread->poke) & POKE_PREEMPT)) return 0;
  atomic_fetch_and(&t->fiber.thread->poke, ~(unsigned)POKE_PREEMPT);
  t->fiber.sysyield = SYS_PREEMPTED;
  return 1;
}

/* ---- a program ---- */

static inline void start(int workers) {
  atomic_store(&ended, 0);
  atomic_store(&begun, 0);
  CHECK(mr_workers_set(workers) == MR_OK);
  CHECK(mr_run_start() == MR_OK);
}

static inline void wait_for_all(void) {
  while (mr_job_count() > 0) port_event_wait(&all_over, UINT64_MAX);
}

/* All is as at the beginning: every test shows a restart, too. */
static inline void stop(void) {
  mr_run_stop();
  for (int i = 0; mr_run_threads() > 0; i++) {
    CHECK(i < 20000);
    port_sleep(1000000);
  }
  mr_run_forget();
}

#endif
