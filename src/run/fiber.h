/*
 * fiber: what waits and is scheduled, and the job whose fibers never run at the same time.
 *
 * What a fiber runs - in the library Lua, in the tests of this folder a few lines of C - is its *body*: see body.h. Who defines a body has
 * records of its own, which begin with the fiber's. Nothing here reads them.
 *
 * Ownership. Fields marked (owner) belong to the thread that runs the fiber or, while it is parked, to whoever claimed its ticket. The state
 * is one atomic; see park.h. Where a record begins with a cache line, what a hand-over touches of a fiber is its first two (in 64 bits, and
 * in builds without checks).
 */
#ifndef MR_FIBER_H
#define MR_FIBER_H

#include "run/park.h"

enum { FIBER_RESTS = 1, FIBER_RESTED };   /* of `resting`; RESTED: was woken, but by somebody else it had been told MR_AGAIN just before */
enum { FIBER_RUNNING, FIBER_PARKING, FIBER_PARKED, FIBER_READY, FIBER_DONE };
/* How a fiber waits: by yielding; by blocking its thread while a spare takes over its worker; a host's own thread. */
enum { WAIT_YIELD, WAIT_HANDOVER, WAIT_HOST };

/* Why the body came back without having ended, set just before it does; 0 = not for the scheduler. */
enum { SYS_NONE, SYS_PARK, SYS_AGAIN, SYS_PREEMPTED, SYS_CEDED };

/* A place in the heap of what will be due. */
typedef struct mr_timer {
  uint64_t due;                      /* (timers' lock) */
  unsigned at;                       /* (timers' lock) place in the heap, 0 = none */
  unsigned kind : 8;                 /* TIMER_*: what it is part of */
  unsigned turn : 24;                /* (timers' lock) of two that are due at one time the one that was set first goes first */
} mr_timer;
enum { TIMER_FIBER, TIMER_CLOCK };

struct mr_fiber {
  atomic_uint state;
  atomic_uint ticket;
  unsigned char mode;                /* (owner) WAIT_* of the open wait */
  unsigned char sysyield;            /* (owner) SYS_* */
  unsigned char reason;              /* (owner) mr_reason of the last wake-up */
  unsigned char fresh;               /* (owner) its body has not begun; the body clears it */
  unsigned char timed;               /* (owner) it is in the timers' heap, or was */
  unsigned char outside;             /* (owner) it is counted as waiting for something outside the program */
  atomic_uchar heed;                 /* (owner, dispatcher; HEED_LEVEL: anybody) HEED_*: what a dispatcher sees to before it runs it */
  atomic_uchar level;                /* of a job's first fiber: LEVEL_*, its job's; anybody sets it: see level.c */
  /* of one with siblings: see crew.h */
  unsigned char cancelled;           /* (owner) by a sibling, for good */
  unsigned char resting;             /* (owner) its open wait ends when a sibling wakes it: mr_fiber_wake */
  unsigned char masked;              /* (owner) its open wait goes on though it is to end: who claims it for that tells it MR_AGAIN */
  atomic_uchar ends;                 /* of a job's first: JOB_*, what was asked of the whole job, and JOB_LOOK */
  unsigned char daemon;              /* (owner) it keeps nothing alive: it is to end when only such are left */
  unsigned char told;                /* (owner) its body has got the error that it is to end: see mr_fiber_ending */
  unsigned char bounded;             /* (owner) its body has limits for its waits: see process/limit.h */
  unsigned char limited;             /* (owner) its open wait ends before the operation's deadline, as a limit is over then */
  struct mr_crew *crew;              /* (owner; set for good) NULL: it is its job's only one */
  mr_job *job;
  mr_thread *thread;                 /* (owner) who runs it; in WAIT_HANDOVER and WAIT_HOST who waits */
  /* the open wait */
  struct mr_shared *on;              /* what it waits for */
  _Atomic(const char *) op;          /* and in what, for reports: "receive"; others may look: mr_fiber_op */
  mr_wait wait;
  mr_wait *fired;                    /* the node through which the last wait was claimed; NULL: none has */
  uint64_t deadline;                 /* (owner) of the operation: whoever waits in several steps keeps it here */
  mr_fiber *next;                    /* in one queue of READY fibers (its lock) */
  struct { mr_fiber *next, *prev; } all;   /* (crew's lock) the fibers of its crew but the first; circular */
  mr_timer timer;
  int64_t credit;                    /* (owner, dispatcher) ns it may use before it goes behind other busy ones: see share.c */
  unsigned round;                    /* (owner, dispatcher) in which its credit was given */
  unsigned timer_ticket;             /* (timers' lock) */
#ifdef MR_CHECKS
  atomic_uint placed;                /* in how many rows and slots it is: at most one */
#endif
};

/* It had a long turn; has had no turn yet; comes from the busy queue; got credit there; so many more turns of it are timed. */
enum { HEED_BUSY = 128, HEED_NEW = 64, HEED_TURN = 32, HEED_KNOWN = 16, HEED_WATCH = 7 };
enum { HEED_LEVEL = 8 };             /* its job's level is not the normal one */

/* Priorities. What is ready waits in rows of its level: see share.c. */
enum { LEVEL_NORMAL, LEVEL_HIGH, LEVEL_LOW, NLEVELS };

/* What a process is to the scheduler. */
struct mr_job {
  mr_fiber *fiber;                   /* (owner) the one that runs, or ran last */
  mr_fiber *first;                   /* for good */
  uint64_t id;
  _Atomic uint64_t asked;            /* when it was first asked to end, in port_now() time; 0: never */
  mr_job *next;                      /* (idle lock) a host's: in the list of hosts */
  mr_seat *seats;                    /* (owner) where it shares work with other jobs: see seat.h */
  port_lock lock;                    /* guards first->crew against others than the owner */
  unsigned short brood;              /* whose child it is: see share.c */
  unsigned char barred;              /* (owner) a host's: its other fibers must not run, see mr_host_bar */
  unsigned char traced;              /* (owner) when its name was last recorded: see traced.c */
  unsigned char host;                /* its first fiber is a thread of somebody else's, and its other fibers run there, too */
  _Atomic uint64_t cpu;              /* ns that were charged to it; written by the thread that runs it: see sample.c */
};

void mr_job_init(mr_job *j, mr_fiber *first, uint64_t id, int host);
void mr_fiber_init(mr_fiber *f, mr_job *j);
/* The first fiber becomes READY and is queued. `near`: the running fiber that has made it, or NULL. Then mr_job_over must follow, once. */
void mr_job_start(mr_job *j, mr_fiber *near);
void mr_job_begun(mr_job *j);                    /* its body begins */
int  mr_job_over(void);                          /* one is over: 1: it was the last */
size_t mr_job_count(void);                       /* those that are not over */
/* ending.c. Values of `ends`: they only grow. Beside them a bit: somebody wants to look at the job, see mr_job_look. */
enum { JOB_CANCELLED = 1, JOB_KILLED, JOB_OVER, JOB_LOOK };
/*
 * By who has a reference to j, on any thread: j is to end. What waits is woken with MR_STOPPED (or MR_AGAIN if it is masked, and not killed); what
 * runs is asked to come back until j is over. What becomes of that is the body's matter. `near`: the running fiber or NULL. 0: j is over.
 */
int  mr_job_end(mr_job *j, int how, mr_fiber *near);
void mr_job_settle(mr_job *j);                   /* j is about to be over: nothing can be asked of it any more */
/*
 * By who has a reference to j, on any thread: before a fiber of j goes on, or waits, its body finds JOB_LOOK set. One that waits is woken with
 * MR_AGAIN, if none is on its way there; what runs is asked to come back, until as many looks as began have been settled. 0: j is over.
 */
int  mr_job_look(mr_job *j, mr_fiber *near);
void mr_job_looked(mr_job *j);                   /* by the thread that runs j: the bit goes, before what asked for it is taken */
void mr_looks_begin(void);                       /* before mr_job_look: the monitor asks what runs, until mr_looks_end */
void mr_looks_end(void);
static inline unsigned mr_job_ends(const mr_job *j) { return atomic_load_explicit(&j->first->ends, memory_order_relaxed) & JOB_OVER; }
static inline unsigned mr_job_watched(const mr_job *j) { return atomic_load_explicit(&j->first->ends, memory_order_relaxed) & JOB_LOOK; }
enum { JOB_IDLE, JOB_READY, JOB_RUNS };
int  mr_job_busy(mr_job *j);                     /* JOB_IDLE: all of it waits; JOB_READY: something waits for a worker only */
int  mr_job_level(mr_job *j, int level);         /* from now on; before its start, too. The one before; -1: only asks */
int  mr_job_crowded(const mr_job *j);            /* so many of its children wait for their first turn that it should give way to them */

/* Into a row or a slot, and out of it: a fiber is in at most one place, and READY there; so is a crew's token, which has no state. */
#ifdef MR_CHECKS
void mr_fiber_placed(mr_fiber *f);
void mr_fiber_taken(mr_fiber *f);
void mr_fiber_check_owner(const mr_fiber *f);    /* the calling thread runs it */
#else
#define mr_fiber_placed(f) ((void)0)
#define mr_fiber_taken(f) ((void)0)
#define mr_fiber_check_owner(f) ((void)0)
#endif

/* The name of the operation in whose wait it is; NULL: in none. A constant text. */
static inline const char *mr_fiber_op(const mr_fiber *f) { return atomic_load_explicit(&f->op, memory_order_relaxed); }
static inline void mr_fiber_in(mr_fiber *f, const char *op) { atomic_store_explicit(&f->op, op, memory_order_relaxed); }
static inline unsigned mr_fiber_heed(const mr_fiber *f) { return atomic_load_explicit(&f->heed, memory_order_relaxed); }
static inline int mr_fiber_level(const mr_fiber *f) { return atomic_load_explicit(&f->job->first->level, memory_order_relaxed); }

/* Opens the ticket; see park.h. */
static inline void mr_wait_begin(mr_fiber *f) {
  mr_fiber_check_owner(f);
  mr_assert(!f->wait.next && !(atomic_load_explicit(&f->ticket, memory_order_relaxed) & 1));
  mr_assert(atomic_load_explicit(&f->state, memory_order_relaxed) == FIBER_RUNNING);
  unsigned t = atomic_load_explicit(&f->ticket, memory_order_relaxed) + 1;
  f->wait.fiber = f;
  f->wait.ticket = t;
  f->wait.next = f->wait.prev = NULL;
  f->fired = NULL;
  /* In this order: who claims the open ticket must not set READY before our PARKING, which would overwrite it. */
  atomic_store_explicit(&f->state, FIBER_PARKING, memory_order_relaxed);
  atomic_store_explicit(&f->ticket, t, memory_order_release);
}

/* Between mr_wait_begin and parking, where no lock is taken: who parks looks once more whether it is to end (process/park.c, ending.c). */
static inline void mr_wait_fence(mr_fiber *f) { atomic_fetch_add(&f->ticket, 0); }

int mr_set_claim(mr_wait *w);
/* The node has just been taken out of its object's queue, whose lock is held. 1: its fiber is the caller's to wake. */
static inline int mr_wait_claim(mr_wait *w) {
  unsigned t = w->ticket;
  if (PORT_UNLIKELY(w->set != NULL)) return mr_set_claim(w);
  mr_fiber *f = w->fiber;
  port_chaos();
  if (PORT_UNLIKELY(!atomic_compare_exchange_strong(&f->ticket, &t, t + 1))) return 0;
  f->fired = w;
  return 1;
}
/* The same for who knows only the fiber: whatever it waits for, if it does. */
static inline int mr_fiber_claim(mr_fiber *f) {
  unsigned t = atomic_load(&f->ticket);
  port_chaos();
  return (t & 1) && atomic_compare_exchange_strong(&f->ticket, &t, t + 1);
}

#endif
