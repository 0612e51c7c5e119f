/*
 * worker: the right to run, and the threads that have it.
 *
 * A *worker* is a slot with a run queue. A *thread* is a kernel thread; it runs fibers while it holds a worker, and a worker is held by one
 * thread at a time. A thread whose worker was taken away (it did not obey) goes on until its fiber stops, then becomes a spare. Until then
 * its `worker` pointer is stale but harmless: every operation on a worker is safe from any thread.
 */
#ifndef MR_WORKER_H
#define MR_WORKER_H

#include "run/queue.h"

#define MR_MAX_WORKERS 256
#define MR_WATCHED 8

struct mr_worker {
  _Alignas(PORT_CACHELINE) mr_queue queue;
  _Atomic(mr_fiber *) slot;          /* (holder, see hold.h; others look) hand-over: runs next */
  atomic_uintptr_t thread;           /* the holding thread's address; | 1: somebody acts in its place, see hold.h; 0 = inactive */
  _Atomic uint64_t tick;             /* dispatches; written by the holder */
  unsigned id;
  unsigned streak;                   /* (holder) fibers taken from the slot, or of LEVEL_HIGH, in a row; more for long turns of the latter */
  unsigned char turn;                /* (holder) TURN_*: whose turn is next, or soon */
  unsigned char served;              /* (holder) it had the last one: now the own queue's */
  /* so far, what each dispatch touches */
  unsigned rng;                      /* (holder) */
  uint64_t moved;                    /* (holder) when it last left a CPU it shared with a host */
  uint64_t due;                      /* (holder) when the busy queue has its turn here */
  uint64_t served_busy;              /* (holder) when it had its last one */
  uint64_t window;                   /* (holder) when the last TURNS dispatches began, 0 = unknown */
  uint64_t exact;                    /* (holder) until when every turn is timed */
  int64_t low_credit;                /* (holder) 0 or more: LEVEL_LOW has its turn here, whatever is ready */
  uint64_t low_seen;                 /* (holder) until when others' time has been added to that */
  unsigned char spared;              /* (holder) while LEVEL_HIGH is always ready: LEVEL_LOW had the last turn that was left */
  _Atomic uint64_t steals;           /* (holder writes) fibers taken from others' queues */
  _Atomic uint64_t rested, rests_since;   /* (holder writes) ns without anything to run so far; since when it has nothing, 0: it has */
  struct { unsigned tries, lingers; uint64_t tick, since, cpu; } seen;   /* (monitor) */
  struct { uint64_t tick; mr_fiber *slot; } watched[MR_WATCHED];         /* (holder, as the watcher) other workers' slots */
};

struct mr_thread {
  port_thread os;
  port_event event;
  atomic_uint poke;                  /* POKE_*: what the body should do when it is next asked */
  mr_worker *worker;                 /* (own) what it holds or believes to hold */
  _Atomic(mr_fiber *) current;       /* the running fiber; written by its own thread, read by the signal handler and the monitor */
  mr_thread *next;                   /* in the spare or idle list (idle lock) */
  unsigned char gave_way;            /* (own) how its last fiber stopped: GAVE_WAY it went back to the queue, LONG_TURN, TIMED and so on */
  unsigned char timing;              /* (own) it reads the clock after this turn, or after all: see share.c */
  unsigned char seasoned;            /* (own) it has had a worker */
  unsigned char left;                /* (own) a job has ended and left something to be recycled: see body.h */
  atomic_uchar sampled;              /* when its fiber stops, that is charged: see sample.c */
  unsigned char listed;              /* (idle lock) LIST_* */
  atomic_uchar runs;                 /* (own) it runs a fiber, and others may act for it with the worker that it holds: see hold.h */
  /* so far, what each dispatch touches */
  mr_thread *reserve;                /* (own) the spare that will take over when this one blocks */
  _Atomic(mr_worker *) given;        /* worker handed to it while it waited */
  uint64_t began, last;              /* (own, timing) when this turn began; until when it has been charged */
  struct { uint64_t at, cpu; long slept; } stamp;   /* (own) the clock, its CPU clock, how often it slept; at 0 = unknown */
  uint64_t spent, lent;              /* (own) how long the LONG_TURN was, and what was LENT */
  uint64_t patience;                 /* (own) ns to spin before sleeping */
  uint64_t until;                    /* (idle lock) when the watcher wakes */
  mr_thread *every;                  /* all records there have ever been, from mr_threads on */
  atomic_uchar lives;                /* a thread of ours has it, from before it begins to run */
  _Atomic uint64_t owed;             /* see profiler.h */
  uint64_t profiled;                 /* (profiler) its CPU clock then */
  atomic_uint lingers;               /* odd: in a call that the monitor ends; written by its own thread, see mr_linger_begin */
  _Atomic uint64_t sample;           /* ns that nobody was charged for yet */
  uint64_t sampled_cpu;              /* (monitor) its CPU clock then */
  port_thread host;                  /* a host's: for its CPU clock; in `os` it would get signals */
  uint64_t exact_from, exact_cpu;    /* (own) while CPU time is exact: until when it has been charged, by both clocks; 0: not known */
};
enum { POKE_PREEMPT = 1, POKE_INTERRUPT = 2 };
/* The global queue's; that of mr_share_look; LEVEL_LOW's, if that is due; always: mr_replay_find's. */
enum { TURN_GLOBAL = 1, TURN_LOOK = 2, TURN_LOW = 4, TURN_REPLAY = 8 };
/* BUSY_TURN: of the busy queue; HIGH_TURN: of LEVEL_HIGH; LENT: one of LEVEL_LOW while others waited */
enum { GAVE_WAY = 1, LONG_TURN = 2, TIMED = 4, BUSY_TURN = 8, HIGH_TURN = 16, LENT = 32 };

/* In such builds a busy loop gets no signal: its body looks at `poke` by itself, now and then. */
#ifdef PORT_TSAN
#define MR_DEAF 1
#else
#define MR_DEAF 0
#endif

extern PORT_TLS mr_thread *mr_this_thread;               /* NULL: not one of ours */

mr_thread *mr_thread_new(void);                  /* a record for a thread that somebody else has started; NULL: no memory */
void       mr_thread_free(mr_thread *t);         /* it may be used again: records are never given back */

#endif
