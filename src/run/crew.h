/*
 * crew: the fibers of a job that has, or had, more than one.
 *
 * A job with one fiber has no crew, and its fiber itself is what sits in run queues. Otherwise the crew's `token` does, and whoever
 * takes it runs the job's ready fibers one after the other: so two never run at the same time, and between two waits a fiber has
 * the job's data to itself. A preempted fiber goes on before its siblings; only waiting (or yielding) lets them in.
 *
 * Invariants (lock held):
 *  - CREW_IDLE: no fiber is ready, none runs. CREW_QUEUED: some are, and the token is in a run queue or slot (a host's: nowhere, its thread
 *    has been told). CREW_RUNNING: a thread runs one of them, or has just taken the token.
 *  - a fiber in the list, or `interrupted`, is READY and in no other queue. The interrupted one goes on before all others, also before
 *    those whose time is due.
 * The circle `all` begins at the token and changes only under the lock, by the thread that runs the job. So does first->crew under the
 * job's lock, which others hold while they look; the job's own thread, and who has claimed one of its fibers, needs no lock to read it.
 */
#ifndef MR_CREW_H
#define MR_CREW_H

#include "run/queue.h"

enum { CREW_IDLE, CREW_QUEUED, CREW_RUNNING };
enum { CREW_FAILED = 1, CREW_OVER };

typedef struct mr_crew {
  mr_fiber token;                    /* first */
  mr_job *job;
  port_lock lock;
  mr_row ready;                     /* in order */
  mr_fiber *interrupted;             /* was preempted: goes on first */
  unsigned char state;
  unsigned char ending;              /* CREW_FAILED: the first fiber has, CREW_OVER: only daemons are left. Nothing waits any more */
  size_t alive;                      /* (owner) fibers that have not ended, the first included */
  size_t daemons;                    /* (owner) of them, those that keep no job alive */
  int bell;                          /* a host's: descriptor that is readable while fibers are ready, -1: none */
} mr_crew;

mr_crew   *mr_crew_of(mr_job *j);                        /* made if need be, on the thread that runs j; NULL: no memory */
/* f, which mr_fiber_init has set up, begins: it is READY now. On the thread that runs its job. */
void       mr_crew_add(mr_crew *c, mr_fiber *f);
void       mr_crew_daemon(mr_fiber *f);                  /* it has been added just now */
void       mr_crew_remove(mr_fiber *f);                  /* it has ended, or never was added: its record goes */
/* f has ended, all that is to be known of it is published: how many have not. Daemons that are left alone are told to end. */
size_t     mr_crew_ended(mr_crew *c, int daemon);
void       mr_crew_end_all(mr_crew *c, int why, mr_fiber *near);   /* CREW_*: they get MR_STOPPED where they wait */
mr_fiber  *mr_crew_other(mr_crew *c);                    /* one of the circle, not the first fiber; NULL: there is none */
void       mr_crew_destroy(mr_crew *c);                  /* nothing of the job will run, and the circle is empty */
/* A host's: its fibers never go on, but who would wake them may have pointers there. `forget` is called for each but the first. */
void       mr_crew_abandon(mr_job *host, void (*forget)(mr_fiber *f));
/* Calls fn for every fiber of j that has not ended, the lock of its crew held. CREW_*, -1: it has none. */
int        mr_crew_each(mr_job *j, void (*fn)(mr_fiber *f, void *ud), void *ud);
unsigned   mr_crew_step(mr_job *host);                   /* a host's thread: runs what is ready, without waiting; how many */
int        mr_crew_state(mr_job *j);                     /* CREW_*, -1: it has none */
int        mr_crew_bell(mr_crew *c);                     /* the descriptor, or -1 */

/* Its waits fail: its job or all its siblings are to end, or one of them has cancelled it. */
static inline int mr_fiber_ending(const mr_fiber *f) {
  if (PORT_LIKELY(!f->crew)) return atomic_load_explicit(&f->ends, memory_order_relaxed) & JOB_OVER;   /* it is its job's first */
  return mr_job_ends(f->job) || f->crew->ending || f->cancelled;
}
/* The same, or somebody wants to look at its job. */
static inline int mr_fiber_asked(const mr_fiber *f) {
  if (PORT_LIKELY(!f->crew)) return atomic_load_explicit(&f->ends, memory_order_relaxed);
  return mr_fiber_ending(f) || mr_job_watched(f->job);
}
int        mr_crew_waits(mr_crew *c);                      /* but for the fiber that runs, and calls: nobody is ready */
int        mr_fiber_wake(mr_fiber *f, mr_fiber *near);     /* a resting sibling; 0: it doesn't rest */
void       mr_fiber_cancel(mr_fiber *f, mr_fiber *near);   /* a sibling of `near`, which runs; it has not ended */

#ifdef MR_CHECKS
void       mr_crew_check(const mr_crew *c);           /* (lock held) */
#else
#define mr_crew_check(c) ((void)0)
#endif

/* ---- for the scheduler ---- */
enum { CREW_LAST, CREW_DUE, CREW_INTERRUPTED };
int        mr_crew_push(mr_fiber *f, int where);      /* a READY fiber; 1: the token is to be queued (a host's: nothing) */
mr_fiber  *mr_crew_next(mr_crew *c);                  /* the token, or the run, is the caller's: the next fiber; NULL: idle now */
int        mr_crew_leave(mr_crew *c);                 /* the caller stops: 1: the token is to be queued */

#endif
