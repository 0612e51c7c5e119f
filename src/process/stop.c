/*
 * stop: how a program ends. One order, whoever asks: no new processes; running fibers are told to yield, and their
 * threads leave; after a bounded time whatever still runs is left to the end of the OS process. Nothing here waits
 * without a limit - but for the reader of our standard output -, and nothing is freed that a thread which is left behind could touch.
 *
 * After the last host closed the runtime can start again, in the same OS process, once no thread is left. Processes that were parked for
 * ever have been ended by an error then, or abandoned. How threads end: run/stop.c. A host that opens waits for those that are left behind, as long as
 * they go on ending (mr_stop_goes_on).
 */
#include "base/rank.h"
#include "observe/log.h"
#include "process/rt.h"
#include "port/copies.h"
#include "port/door.h"
#include "process/info.h"
#include "process/failures.h"
#include "process/leave.h"
#include "port/system.h"

#include <stdio.h>
#include <stdlib.h>

#define FLUSHING 1000000000u         /* ns to wait for files that a blocked reader may have locked */
#define CLOSING 5000000000u          /* ns for the finalisers of os.exit(code, true) */

static atomic_int exiting;

atomic_int mr_strict;

/* ---- start, and start again ---- */

/* (life) 1: the stop is complete, the runtime can start again. */
static int stopped(void) {
  if (atomic_load(&exiting) || mr_run_threads() > 0) return 0;
  if (mr_job_count() > 0) mr_proc_abandon();
  atomic_store(&mr_all.deadlocked, 0);
  mr_run_forget();
  return 1;
}

static void fork_watch(void);

static void setup(void) {
  static int done;
  if (done) return;
  done = 1;
  fork_watch();
  mr_proc_setup();
}

void mr_prepare(void) { mr_state_setup(); }

int mr_start(void) {
  static port_lock lock = PORT_LOCK(MR_RANK_START);
  int err = MR_OK;
  if (mr_run_dead()) return MR_EFORK;
  if (mr_run_started() && !mr_run_stopping()) return MR_OK;
  port_acquire(&lock);
  if (mr_run_stopping() && !stopped()) err = MR_ESTOPPED;
  if (!err && !mr_run_started()) {
    setup();
    mr_state_setup();
    err = mr_run_start();
  }
  port_unlock(&lock);
  return err;
}

/* ---- the last host has closed ---- */

enum { BATCH = 256 };
typedef struct { mr_fiber *fiber[BATCH]; int n; } batch;

static void claim_fiber(mr_fiber *f, void *ud) {
  batch *b = ud;
  if (b->n == BATCH || !mr_fiber_claim(f)) return;
  mr_proc_observe(mr_proc_of(f));               /* the report has told of it */
  b->fiber[b->n++] = f;
}

static void claim(mr_proc *p, void *ud) {
  if (atomic_load(&p->status) < PROC_DONE) mr_crew_each(&p->job, claim_fiber, ud);
}

/* As long as a thread of ours could run and the machine gives it no CPU: the one wait without a limit by the clock, for a host that opens. */
static mr_patience endless(void) {
  mr_patience p = mr_patience_begin();
  p.most = UINT64_MAX;
  return p;
}

/* Whoever is still parked gets an error there, as long as that ends processes. */
static void end_parked(mr_patience (*begin)(void)) {
  mr_patience p = begin();
  size_t left = mr_job_count();
  while (left > 0 && !mr_patience_over(&p)) {
    batch b = { .n = 0 };
    mr_proc_each(claim, &b);
    for (int i = 0; i < b.n; i++) mr_ready(b.fiber[i], MR_STOPPED, NULL);
    if (b.n < BATCH) port_sleep(500000);
    size_t now = mr_job_count();
    if (now < left) p = begin();
    left = now;
  }
}

#define FAILURES 64

typedef struct { char *line, name[64]; uint64_t id; } failure;
typedef struct { failure one[FAILURES]; int n; } failures;

static void collect_failure(mr_proc *p, void *ud) {
  failures *all = ud;
  if (atomic_load(&p->status) != PROC_FAILED || all->n == FAILURES) return;
  failure *f = &all->one[all->n];
  if ((f->line = mr_proc_failure(p)) == NULL) return;
  f->id = p->job.id;
  snprintf(f->name, sizeof f->name, "%s", p->name ? p->name : "");
  all->n++;
}

/* Collected first, as a write can block and a shard's lock is held while they are looked at. */
static void print_failures(void) {
  failures all;
  do {
    all.n = 0;
    mr_proc_each(collect_failure, &all);
    for (int i = 0; i < all.n; i++) {
      failure *f = &all.one[i];
      if (!mr_log_says(MR_LOG_ERROR, f->id, f->name[0] ? f->name : NULL, f->line)) fputs(f->line, stderr);
      free(f->line);
    }
  } while (all.n == FAILURES);
}

void mr_close_down(void) {
  if (atomic_load(&exiting)) return;
  end_parked(mr_patience_begin);
  print_failures();
  mr_run_stop();
  if (mr_hooks.unobserve) mr_hooks.unobserve();
  mr_leave_words();
  stopped();
}

int mr_stop_goes_on(mr_leaving *l) {
  int more = 1;
  mr_exit_yield();                             /* another host has called os.exit: no more is to be said */
  port_acquire(&mr_all.life);
  if (mr_run_stopping()) {
    if (mr_run_resume(l)) {
      end_parked(endless);
      mr_run_stop();
    }
    more = mr_run_leaving(l);
  }
  port_unlock(&mr_all.life);
  return more;
}

/* ---- mare run ---- */

int mr_run_until_done(void) {
  mr_replay_go();
  while (mr_job_count() > 0 && !atomic_load(&mr_all.deadlocked)) {
    port_event_wait(&mr_all.done, UINT64_MAX);
    if (PORT_UNLIKELY(mr_replay_on)) mr_dump_late();
  }
  mr_replay_over();
  if (!atomic_load(&mr_all.deadlocked)) return 0;
  char *report = mr_deadlock_report();
  mr_report_print(report);
  free(report);
  return 1;
}

/* ---- Ctrl-C: the main process gets an error where it waits, or at its next instruction ---- */

static atomic_int held;              /* an interrupt waits until it is asked for, or no longer held */

void mr_interrupt(void) { mr_run_interrupt(); }

/* The monitor's look at the flag may be just over when it is set: so the hook, which alone raises in what runs, looks at it again. */
void mr_interrupt_hold(int hold) {
  atomic_store(&held, hold);
  if (!hold && mr_run_interrupted(0)) mr_monitor_wake();
}

int mr_interrupt_held(void) { return atomic_load(&held); }
int mr_interrupt_take(void) { return mr_run_interrupted(1); }

void mr_interrupt_main(void) {
  mr_proc *p = mr_all.main;
  mr_fiber *f = p ? &p->main.fiber : NULL;
  if (!f || atomic_load(&p->status) >= PROC_DONE || atomic_load(&f->state) == FIBER_DONE) {
    mr_run_detach();                            /* the monitor's thread ends here */
    mr_exit(130);
  }
  if (mr_interrupt_held()) return;
  if (mr_fiber_claim(f)) {
    mr_run_interrupted(1);
    mr_ready(f, MR_INTERRUPTED, NULL);
  } else {
    mr_run_poke(f, POKE_INTERRUPT);
  }
}

/* ---- os.exit ---- */

static port_event flushed;

static void flush_all(void *arg) {
  (void)arg;
  port_signals_allow_pipe();
  fflush(NULL);
  port_event_set(&flushed);
}

/*
 * What was written must come out, however slow its reader is; so standard output comes first, without a limit. Any other stream may be locked
 * by a thread that waits in a read: these are flushed on the side.
 */
static void flush(void) {
  fflush(stdout);
  port_file_unlocked(stdin);
  if (port_thread_start(flush_all, NULL, "mare-flush") == 0) port_event_wait(&flushed, port_now() + FLUSHING);
}

void mr_exit_yield(void) {
  if (!atomic_load(&exiting)) return;
  if (mr_this_thread) mr_run_detach();   /* not to be waited for */
  for (;;) port_sleep(1000000000u);
}

void mr_exit(int code) {
  if (mr_run_dead()) {               /* a forked child: nobody else is here */
    fflush(NULL);
    port_quit(code);
  }
  if (atomic_exchange(&exiting, 1)) mr_exit_yield();   /* the first to come decides */
  mr_replay_over();
  print_failures();
  mr_run_stop();
  flush();
  mr_leave_words();
  port_quit(code == 0 && atomic_load(&mr_strict) && atomic_load(&mr_failures) > 0 ? 1 : code);
}

static void quit_later(void *arg) {
  port_sleep(CLOSING);
  mr_leave_words();
  port_quit((int)(intptr_t)arg);
}

void mr_exit_within_limit(int code) { port_thread_start(quit_later, (void *)(intptr_t)code, "mare-exit"); }

/* ---- fork ---- */

/*
 * In the child only the thread that forked exists, and any lock may be held for ever. If it ran a process, that process
 * counts as a host from now on: there is no scheduler to yield to.
 */
static void in_child(void) {
  if (port_is_aside()) return;
  mr_fiber *f = mr_run_forked();
  port_door_forked();
  if (f) {
    mr_look_forget(mr_proc_of(f));
    mr_proc_of(f)->kind = PROC_HOST;
    f->job->host = 1;
  }
  if (mr_hooks.forked) mr_hooks.forked();
}

static void fork_watch(void) { port_at_fork(in_child); }
