/*
 * run: the scheduler as a whole: its start and its end, how many workers there are, and what who starts and ends programs must know of it.
 */
#ifndef MR_RUN_H
#define MR_RUN_H

#include "run/fiber.h"
#include "run/worker.h"

/* ---- start and stop (worker.c, stop.c); the caller sees to it that they don't come at the same time ---- */
int  mr_run_start(void);                         /* 0 or an mr_err. Not while it runs */
int  mr_run_started(void);
/*
 * No new turns: threads leave as soon as their fibers stop. Waits for them, but not for long; those that block where they can't yield are not
 * waited for. What still runs then goes on.
 */
void mr_run_stop(void);
int  mr_run_stopping(void);
/* How long to wait for what runs: 150 ms; on a loaded machine until the program has had about that much of it, but `most` (3 s) at most. */
typedef struct mr_patience { uint64_t wall, cpu, most; } mr_patience;
mr_patience mr_patience_begin(void);
int  mr_patience_over(const mr_patience *p);
int  mr_run_threads(void);                       /* how many of our threads there still are */
/*
 * After a stop that has left threads behind. mr_run_leaving: one more push; 0: no more of them are going to end, as far as one can tell: they sleep in
 * a call, or compute, for 5 s already without that one of them has ended. A thread to which the machine gives no CPU is waited for.
 * mr_run_resume: if those that are left all wait where they can't yield, the stop is taken back, so that they can be ended: 1. Once more only if it
 * helped. *l is zero before the first call.
 */
typedef struct mr_leaving { unsigned round, threads, blocked; uint64_t since, cpu; } mr_leaving;
int  mr_run_leaving(mr_leaving *l);
int  mr_run_resume(mr_leaving *l);
void mr_run_forget(void);                        /* stopped, and no thread is left: as before the first start */
/* In a child of fork(): nothing works. Returns the fiber that runs, or NULL. */
mr_fiber *mr_run_forked(void);
int  mr_run_dead(void);
void mr_run_detach(void);                        /* the calling thread, one of ours, is not to be waited for at the end */

/* ---- workers (worker.c) ---- */
int  mr_workers_get(void);
int  mr_workers_set(int n);                      /* 0 or an mr_err */

/* ---- hosts (host.c): threads of somebody else's, each with the first fiber of a job ---- */
void mr_host_enter(mr_job *j);
int  mr_host_exit(mr_job *j);                    /* how many are left */
void mr_host_each(void (*fn)(mr_job *j, void *ud), void *ud);   /* the idle lock held */
mr_job *mr_host_first(void);                     /* (idle lock: for `deadlock` in body.h) the others follow by `next` */

/* ---- interrupts (monitor.c) ---- */
void mr_run_interrupt(void);                     /* async-signal-safe: the body's `interrupt` is called on the monitor's thread */
void mr_run_report(void);                        /* async-signal-safe: the body's `report` is called likewise; when replayed, where mr_replay_seen is */
int  mr_run_reports(int take);                   /* was it asked for, and not begun? */
int  mr_run_interrupted(int take);               /* ... and has not been taken yet; take: it is, by the caller */
void mr_monitor_wake(void);                      /* it looks round now */
void mr_run_poke(mr_fiber *f, unsigned what);    /* POKE_*: to the thread that runs f, if one does */

void mr_run_knocked(void);                       /* async-signal-safe: the body's `knocked` is called on the monitor's thread */

/* ---- what is seen of it (sample.c) ---- */
void mr_observe(int by);                         /* +1: from now on CPU time is exact, for a price; -1: not for me any more */
/* What runs now: fibers that may be gone when they are read, so only their addresses tell anything; and what their jobs are still to be charged. */
typedef struct mr_running_fiber { const mr_fiber *fiber; uint64_t ns; int worker; const mr_thread *thread; } mr_running_fiber;   /* worker -1: none */
unsigned mr_running(mr_running_fiber *out, unsigned most);   /* how many */
uint64_t mr_run_up(void);                        /* ns since it was started */
void mr_run_count(unsigned *threads, unsigned *blocked, unsigned *hosts);
typedef struct mr_worker_load {
  unsigned id;
  int active;                                    /* 0: it has retired */
  uint64_t dispatches, steals, busy;             /* busy: ns in which it had something to run */
  unsigned queued;                               /* in its own queue */
} mr_worker_load;
unsigned mr_worker_loads(mr_worker_load *out, unsigned most);   /* of all that have been in use; how many */

/* ---- quiet (quiet.c) ---- */
void mr_quiet_check(void);                       /* after something began to wait: can anything ever run again? */
/*
 * The caller, which no fiber is and whom nobody counts as busy, has a fiber in hand that is in no queue. After it has been queued it calls
 * mr_settled, which also checks: others may have gone to sleep seeing it.
 */
void mr_moving(void);
void mr_settled(void);

#endif
