/*
 * process: isolated states, the workers that run them, and how they start and end.
 *
 * The cast. A *process* is a state with a heap and an exit status. A *fiber* is what waits and is scheduled; a process has
 * one (its `main`) until fibers exist. A *worker* is the right to run: a slot with a run queue. A *thread* is a kernel
 * thread; it runs fibers while it holds a worker, and a worker is held by one thread at a time.
 *
 * Ownership.
 *  - The fields of a fiber marked (owner) belong to the thread that runs it or, while it is parked, to whoever claimed its
 *    ticket. Its state is one atomic; see park.h.
 *  - A process is counted: one reference while it is alive, one per handle.
 *  - A thread whose worker was taken away (it did not obey) goes on until its fiber stops, then becomes a spare. Until
 *    then its `worker` pointer is stale but harmless: every operation on a worker is safe from any thread.
 */
#ifndef MR_PROCESS_H
#define MR_PROCESS_H

#include <lua.h>
#include "port/port.h"
#include "base/error.h"
#include "heap/heap.h"
#include "transfer/transfer.h"
#include "process/park.h"

enum { FIBER_RUNNING, FIBER_PARKING, FIBER_PARKED, FIBER_READY, FIBER_DONE };
/* How a fiber waits: by yielding; by blocking its thread while a spare takes over its worker; a host's own thread. */
enum { WAIT_YIELD, WAIT_HANDOVER, WAIT_HOST };

/* Why the fiber yielded, set just before it does; 0 = the program's own coroutine.yield. */
enum { SYS_NONE, SYS_PARK, SYS_AGAIN, SYS_PREEMPTED };

/* A place in the heap of what will be due. */
typedef struct mr_timer {
  uint64_t due;                      /* (timers' lock) */
  unsigned at;                       /* (timers' lock) place in the heap, 0 = none */
  unsigned char kind;                /* TIMER_*: what it is part of */
} mr_timer;
enum { TIMER_FIBER, TIMER_CLOCK };

/* The fields a hand-over touches come first, so that it touches few cache lines. */
struct mr_fiber {
  atomic_uint state;
  atomic_uint ticket;
  unsigned char mode;                /* (owner) WAIT_* of the open wait */
  unsigned char top_ok;              /* (owner) every link below `top` can yield */
  unsigned char sysyield;            /* (owner) SYS_*: the yield on its way down is mare's, not the program's */
  unsigned char reason;              /* (owner) mr_reason of the last wake-up */
  unsigned char want_aux;            /* (owner) it got a packed message: an auxiliary thread would pay */
  unsigned char timed;               /* (owner) it is in the timers' heap, or was */
  unsigned char outside;             /* (owner) it is counted as waiting for something outside the program */
  unsigned char told;                /* (owner) it has got the error that it is to end: see mr_fiber_ending */
  unsigned char cancelled;           /* (owner) by a sibling, for good */
  unsigned char resting;             /* (owner) its open wait ends when a sibling wakes it: fiber.rest */
  mr_fiber *relief;                  /* (owner) a resting sibling, its strand counted: woken when this one waits */
  lua_State *L;                      /* the state's main thread, on which the body runs */
  lua_State *volatile top;           /* (owner) the coroutine that runs: top of the chain */
  struct mr_crew *crew;              /* (owner; set for good) its process has more fibers than one: see crew.h */
  mr_wait wait;
  mr_wait *fired;                    /* the node through which the last wait was claimed; undefined if it was none */
  mr_thread *thread;                 /* (owner) who runs it; in WAIT_HANDOVER and WAIT_HOST who waits */
  mr_proc *proc;
  mr_mail mail;                      /* coming in while it receives, going out while it sends */
  mr_shared *on;                     /* what it waits for */
  const char *op;                    /* and in what, for reports: "receive" */
  uint64_t deadline;                 /* (owner) of the open wait */
  mr_message *held;                  /* (owner) the message being unpacked, or the one that could not be for want of memory; owned */
  mr_shared *held_from;              /* (owner) its channel, counted; NULL: there is no such message */
  lua_State *parked_L;               /* (owner) the coroutine that called the blocking function, for reports */
  mr_fiber *next;                    /* in one run queue (its lock) */
  void *set;                         /* (owner) a host's fiber in select: what module/ has to unlink if it never goes on */
  const char *hint;                  /* (owner) about where its stack is, for prefetching */
  lua_State *aux;                    /* (owner) idle coroutine into which others unpack; anchored in the registry */
  lua_State *user_L;                 /* (owner) whose debug hook is saved while ours is armed */
  lua_Hook user_hook;
  int user_mask, user_count;
  mr_timer timer;
  unsigned timer_ticket;             /* (timers' lock) */
};

/* What processes inherit besides their arguments: one message for many of them. */
typedef struct mr_inherit { atomic_size_t refs; mr_message *message; } mr_inherit;
void mr_inherit_release(mr_inherit *i);

enum { PROC_NEW, PROC_ALIVE, PROC_DONE, PROC_FAILED };
struct mr_proc {
  mr_shared shared;                  /* first: handles are shared objects */
  mr_fiber *fiber;                   /* (owner) the one that runs, or ran last */
  atomic_uchar status;
  unsigned char kind;                /* PROC_PLAIN … */
  unsigned char finalisers;          /* (owner) 1: something in the state may have a finaliser, 2: they run for the last time */
  unsigned char system_heap;
  unsigned char end;                 /* (owner) how its first fiber ended: PROC_DONE or PROC_FAILED */
  atomic_uchar joining;              /* a host: waits for the end of all processes */
  atomic_uchar leaving;              /* a host: its program exits, so its end waits for nothing */
  atomic_uchar observed;             /* somebody learnt of its end */
  port_lock lock;                    /* guards: waiters, and the change of status to an end */
  mr_fiber main;
  mr_heap *heap;                     /* NULL: no state, or a host */
  mr_message *start;                 /* function and arguments, until it starts; NULL for hosts */
  mr_inherit *package;               /* referenced; or NULL */
  char *name;                        /* owned, or NULL */
  char *text, *trace;                /* of a failure: the error as text, its traceback; owned */
  uint64_t id;
  size_t limit;                      /* bytes, 0 = none */
  const void *lazy[2];               /* (owner) tables of the state that fill themselves: globals, loaded modules */
  struct mr_late *late;              /* (owner) references that no finaliser will drop: taken while the state closes */
  mr_mail result;                    /* fixed at the end: results, or the error value */
  mr_wait waiters;                   /* head of a circular queue */
  mr_proc *live_next, *live_prev;    /* (shard's lock) live and failed processes */
};
enum { PROC_PLAIN, PROC_MAIN, PROC_HOST };

typedef struct mr_spare { lua_State *L; mr_heap *heap; } mr_spare;
#define MR_WATCHED 8
#define MR_KEEP 64                   /* at most so many recycled states a worker */

struct mr_worker {
  _Alignas(PORT_CACHELINE) port_lock lock;
  mr_fiber *head, *tail;             /* run queue (lock) */
  atomic_uint count;
  _Atomic(mr_fiber *) slot;          /* hand-over: runs next */
  /* The holding thread's address; | 1 while it runs a fiber, when the monitor may take the worker away; 0 = inactive. */
  atomic_uintptr_t thread;
  atomic_uint tick;                  /* dispatches; written by the holder */
  unsigned id;
  unsigned streak;                   /* (holder) fibers taken from the slot in a row */
  unsigned rng;                      /* (holder) */
  uint64_t moved;                    /* (holder) when it last left a CPU it shared with a host */
  unsigned char turn;                /* (holder) the global queue's turn */
  unsigned char served;              /* (holder) it had the last one: now the own queue's */
  int nkept;                         /* (holder) */
  mr_spare kept[MR_KEEP];            /* (holder) rewound states, hottest last */
  struct { unsigned tick; unsigned tries; uint64_t since, cpu; } seen;   /* (monitor) */
  struct { unsigned tick; mr_fiber *slot; } watched[MR_WATCHED];         /* (holder, as the watcher) other workers' slots */
};

struct mr_thread {
  port_thread os;
  port_event event;
  mr_worker *worker;                 /* (own) what it holds or believes to hold */
  _Atomic(mr_fiber *) current;       /* the running fiber; written by its own thread, read by the signal handler and the monitor */
  mr_packer *packer;                 /* (own) */
  mr_packer *gc_packer;              /* (own) for sends out of finalisers, which can interrupt a pack */
  char *scratch;                     /* (own) what sockets read into, made at the first read; stays with the record */
  mr_thread *next;                   /* in the spare or idle list (idle lock) */
  unsigned char gave_way;            /* (own) its last fiber went back to the queue */
  unsigned char seasoned;            /* (own) it has had a worker */
  unsigned char listed;              /* (idle lock) LIST_* */
  mr_spare ended;                    /* (own) state of the process that just ended, to be recycled or dropped */
  mr_thread *reserve;                /* (own) the spare that will take over when this one blocks */
  _Atomic(mr_worker *) given;        /* worker handed to it while it waited */
  uint64_t patience;                 /* (own) ns to spin before sleeping */
  atomic_uint poke;                  /* POKE_*: what the hook should do */
  uint64_t until;                    /* (idle lock) when the watcher wakes */
};
enum { POKE_PREEMPT = 1, POKE_INTERRUPT = 2 };

/* ---- who am I ---- */
/* Functions of a host state carry their host process as upvalue 1; in a process's state the extra space holds it. */
static inline mr_proc *mr_self(lua_State *L) {
  mr_proc *p = (mr_proc *)lua_touserdata(L, lua_upvalueindex(1));
  return p ? p : *(mr_proc **)lua_getextraspace(L);
}
static inline mr_fiber *mr_self_fiber(lua_State *L) { return mr_self(L)->fiber; }

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

/* ---- processes (process.c) ---- */
typedef struct mr_spawn {
  mr_message *start;                 /* function and arguments; owned by the process after success */
  mr_inherit *package;               /* what the parent's package library differs in, or NULL; one reference, likewise */
  const char *name;                  /* copied */
  size_t limit;
  int system_heap;
  int kind;                          /* PROC_PLAIN or PROC_MAIN */
} mr_spawn;
void     mr_mail_drop(mr_mail *m);
void     mr_mail_back(mr_mail *m);                /* its sender's: see mr_message_back */
extern const mr_sharetype *mr_proc_type;         /* set by module/: how a handle is pushed */
mr_proc *mr_proc_spawn(const mr_spawn *s, mr_fiber *near, int *err);  /* holds one reference for the caller */
void     mr_proc_destroy(mr_shared *o);          /* the destroy of handles' type */
const char *mr_proc_status(mr_proc *p);          /* "new" "running" "ready" "waiting" "done" "failed" */
/* 1: it has ended, `result` is fixed; 0: w is queued, park with mr_proc_wait_end as clean-up. */
int      mr_proc_wait(mr_proc *p, mr_wait *w);
void     mr_proc_wait_end(mr_proc *p, mr_wait *w);
void     mr_proc_observe(mr_proc *p);
/*
 * Lua gives no finaliser to what is made while a state closes. 1: p's state does and the reference to o that the caller has taken
 * will be dropped at its end; 0: it does not; -1: no memory.
 */
int      mr_late_keep(mr_proc *p, mr_shared *o);
void     mr_late_drop(mr_proc *p);

/* ---- states (state.c), opened by hooks that module/ sets at start-up ---- */
typedef struct mr_state_hooks {
  lua_State *(*open)(lua_Alloc f, void *ud);     /* a fresh process state, for images too; NULL: no memory */
  void (*start)(lua_State *L, mr_proc *p);       /* per process, after clone: may allocate; runs protected */
  int (*finalisers)(lua_State *L);               /* something in the state still has a finaliser */
  int (*reset)(lua_State *L);                    /* lua_resetthread: closes pending variables, leaves the error on top */
  void (*describe)(mr_shared *o, char *buf, size_t size);   /* "channel 'results'" for reports; no Lua */
  void (*forked)(void);                          /* in a forked child: mare's values become unusable */
  void (*unlink)(mr_fiber *f);                   /* a fiber with a `set` never goes on */
  void (*mail_back)(mr_fiber *f);                /* gives the message that its fiber holds back to its channel */
} mr_state_hooks;
extern mr_state_hooks mr_hooks;
extern atomic_int mr_recycle;                    /* how many states a worker keeps; 0 = none */

/* ---- chain of coroutines ---- */
/* Nonzero when a wait in L can be done by yielding through the whole chain. */
static inline int mr_can_yield(const mr_fiber *f, lua_State *L) { return L == f->top && f->top_ok && lua_isyieldable(L); }

/* ---- scheduler (sched.c, worker.c) ---- */
int  mr_start(void);                             /* idempotent; 0 or an mr_err */
void mr_push(mr_fiber *f, mr_worker *w);         /* queues a READY fiber; w NULL = global */
int  mr_yield(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k);  /* to the end of the queue; tail call */
int  mr_workers_get(void);
int  mr_workers_set(int n);                      /* 0 or an mr_err */
void mr_worker_release(mr_thread *t);            /* a spare takes t's worker over */
void mr_worker_regain(mr_thread *t, mr_fiber *f);/* waits, as a ready fiber does, for a worker */
mr_thread *mr_thread_current(void);              /* NULL: not one of ours */
void mr_chaos_report(void);

/* ---- hosts (host.c): a Lua state of somebody else's, on somebody else's thread ---- */
mr_proc *mr_host_open(lua_State *L, int *err);
int      mr_host_join(mr_proc *h);               /* waits until every process has ended: 0, or MR_EDEADLOCK (text in h->text) */
void     mr_host_leave(mr_proc *h);              /* the program exits: closing will wait for nothing */
void     mr_host_close(mr_proc *h);              /* the last host waits for all processes and stops the runtime */
void     mr_host_free(mr_proc *h);               /* nothing of the state will run again */
static inline int mr_host_closed(const mr_proc *h) { return atomic_load(&h->status) >= PROC_DONE; }

/* ---- ends (stop.c) ---- */
/* Waits until every process has ended. 0, or 1 after a deadlock (reported on stderr). For `mare run`. */
int  mr_run_until_done(void);
PORT_NORETURN void mr_exit(int code);            /* ends the program like os.exit: stops, flushes, exits; never hangs */
void mr_exit_within_limit(int code);             /* in some seconds at the latest, whatever runs until then */
int  mr_forked(void);                            /* in a child of fork(), where nothing works */
void mr_stop(void);                              /* bounded: tells workers to stop, waits a little, never hangs */
void mr_interrupt(void);                         /* async-signal-safe: raises "interrupted!" in the main process */
size_t mr_proc_count(void);
/* Calls fn for every live process with its registry shard locked. */
void mr_proc_each(void (*fn)(mr_proc *p, void *ud), void *ud);

#endif
