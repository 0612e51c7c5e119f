/*
 * crew: the fibers of a process that has, or had, more than one.
 *
 * A process with one fiber has no crew, and its fiber itself is what sits in run queues. Otherwise the crew's `token` does, and whoever
 * takes it runs the process's ready fibers one after the other: so two never run at the same time, and between two waits a fiber has
 * the process's data to itself. A preempted fiber goes on before its siblings; only waiting (or yielding) lets them in.
 *
 * Invariants (lock held):
 *  - CREW_IDLE: no fiber is ready, none runs. CREW_QUEUED: some are, and the token is in a run queue or slot (a host's: nowhere, its thread
 *    has been told). CREW_RUNNING: a thread runs one of them, or has just taken the token.
 *  - a fiber in the list, or `interrupted`, is READY and in no other queue. The interrupted one goes on before all others, also before
 *    those whose time is due.
 * `all` changes only under the lock, by the thread that runs the process. So does p->main.crew under the process's lock, which others hold
 * while they look; the process's own thread, and who has claimed one of its fibers, needs no lock to read it.
 *
 * A strand is a fiber other than the process's first one. Its record lives until it has ended and its handle is collected; so long the
 * registry's table of strands (key: its address) holds the coroutine, on whose stack the results stay.
 */
#ifndef MR_CREW_H
#define MR_CREW_H

#include "process/process.h"
#include "process/waitable.h"

enum { CREW_IDLE, CREW_QUEUED, CREW_RUNNING };
enum { CREW_FAILED = 1, CREW_OVER };

typedef struct mr_strand mr_strand;

typedef struct mr_crew {
  mr_fiber token;                    /* first */
  mr_proc *proc;
  port_lock lock;
  mr_fiber *head, *tail;             /* ready, in order */
  mr_fiber *interrupted;             /* was preempted: goes on first */
  mr_fiber *due;                     /* the last in the list of those at its front whose time was due; NULL: none */
  unsigned char state;
  unsigned char ending;              /* CREW_FAILED: the first fiber has, CREW_OVER: only daemons are left. Nothing waits any more */
  size_t alive;                      /* (owner) fibers that have not ended, the first included */
  size_t daemons;                    /* (owner) of them, those that keep no process alive */
  uint64_t next_id;                  /* (owner) */
  mr_strand *all;                    /* circular, through an empty head */
  int bell;                          /* a host's: descriptor that is readable while fibers are ready, -1: none */
} mr_crew;

struct mr_strand {
  mr_fiber fiber;                    /* first */
  mr_shared shared;                  /* one reference while it lives, one for its handle */
  mr_strand *next, *prev;
  mr_event ended;
  unsigned char done, failed, observed;
  unsigned char daemon;              /* ends when only such are left */
  int nres;                          /* results, on top of the coroutine's stack */
  uint64_t id;
  char *name;                        /* owned, or NULL */
  char *trace;                       /* of a failure; owned */
};

mr_crew   *mr_crew_of(mr_proc *p);                    /* made if need be, on the thread that runs p; NULL: no memory */
/* A strand that will run co, whose stack holds a function and its arguments. One reference; NULL: no memory. */
mr_strand *mr_strand_new(mr_crew *c, lua_State *co, const char *name, const mr_sharetype *type);
void       mr_strand_start(mr_strand *s);             /* on the thread that runs its process */
void       mr_strand_daemon(mr_strand *s);            /* it has been started just now */
void       mr_strand_free(mr_strand *s);              /* ended, and nobody holds its handle: by the type's destroy */
static inline mr_strand *mr_strand_of(void *shared) { return (mr_strand *)(void *)((char *)shared - offsetof(mr_strand, shared)); }
/* Calls fn for every fiber of p that has not ended, the lock of its crew held. */
void       mr_crew_each(mr_proc *p, void (*fn)(mr_fiber *f, void *ud), void *ud);
void       mr_fiber_describe(const mr_fiber *f, char *buf, size_t size);    /* ", fiber #3 'name'", or nothing for the first */
unsigned   mr_crew_step(mr_proc *host);               /* a host's thread: runs what is ready, without waiting; how many */
void       mr_crew_abandon(mr_proc *host);
int        mr_crew_state(mr_proc *p);                    /* CREW_*, -1: it has none */
int        mr_crew_bell(mr_crew *c);                  /* the descriptor, or -1 */

/* Its waits raise: all are to end, or a sibling has cancelled it. */
static inline int mr_fiber_ending(const mr_fiber *f) { return f->crew && (f->crew->ending || f->cancelled); }
int        mr_fiber_wake(mr_fiber *f, mr_fiber *near);     /* a resting sibling; 0: it doesn't rest */
void       mr_fiber_relieve(mr_fiber *f);              /* wakes who is to go on while f waits */
int        mr_fiber_unrelief(mr_fiber *f);             /* 0: there was nobody, or not any more */
void       mr_fiber_cancel(mr_fiber *f, mr_fiber *near);   /* a sibling of `near`, which runs; it has not ended */

/* ---- for the scheduler ---- */
enum { CREW_LAST, CREW_FIRST, CREW_INTERRUPTED };
int        mr_crew_push(mr_fiber *f, int where);      /* a READY fiber; 1: the token is to be queued (a host's: nothing) */
mr_fiber  *mr_crew_next(mr_crew *c);                  /* the token, or the run, is the caller's: the next fiber; NULL: idle now */
int        mr_crew_leave(mr_crew *c);                 /* the caller stops: 1: the token is to be queued */
int        mr_crew_resume(mr_fiber *f, int nargs, int *nres);               /* lua_resume of one of several fibers */
int        mr_crew_ended(mr_thread *t, mr_fiber *f, int status, int nres);   /* 1: the process is gone */

#endif
