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

struct mr_fiber {
  mr_fiber *next;                    /* in one run queue (its lock) */
  mr_proc *proc;
  atomic_uint state;
  atomic_uint ticket;
  unsigned char mode;                /* (owner) WAIT_* of the open wait */
  unsigned char top_ok;              /* (owner) every link below `top` can yield */
  unsigned char sysyield;            /* (owner) the yield on its way down is mare's, not the program's */
  unsigned char reason;              /* (owner) mr_reason of the last wake-up */
  unsigned char want_aux;            /* (owner) it got a packed message: an auxiliary thread would pay */
  unsigned char has_timer;           /* (owner) */
  unsigned char urgent;              /* (owner) woken by a timer: runs before others */
  atomic_uchar poke;                 /* POKE_*: what the hook should do */
  lua_State *L;                      /* the state's main thread, on which the body runs */
  lua_State *volatile top;           /* (owner) the coroutine that runs: top of the chain */
  lua_State *aux;                    /* idle coroutine into which others unpack; anchored in the registry */
  mr_thread *thread;                 /* (owner) who runs it; in WAIT_HANDOVER and WAIT_HOST who waits */
  mr_wait wait;
  mr_mail mail;
  mr_where where;
  struct { uint64_t due; unsigned index; } timer;   /* (timers' lock) index 0 = not in the heap */
};
enum { POKE_PREEMPT = 1, POKE_INTERRUPT = 2 };

enum { PROC_NEW, PROC_ALIVE, PROC_DONE, PROC_FAILED };
struct mr_proc {
  mr_shared shared;                  /* first: handles are shared objects */
  mr_fiber main;
  mr_heap *heap;                     /* NULL: "system" */
  mr_message *start;                 /* function and arguments, until it starts */
  const char *name;                  /* owned, or NULL */
  char *trace;                       /* traceback of a failure, owned */
  uint64_t id;
  size_t limit;
  port_lock lock;                    /* guards: waiters, status changes, result */
  atomic_uchar status;
  unsigned char kind;                /* PROC_PLAIN … */
  unsigned char finalisers;          /* (owner) something in the state may have a finaliser */
  unsigned char system_heap;
  atomic_uchar observed;             /* somebody learnt of its end */
  unsigned char silent;              /* not worth printing if unobserved */
  mr_mail result;                    /* after the end: results, or the error value */
  mr_wait waiters;                   /* head of a circular queue */
  mr_proc *live_next, *live_prev;    /* list of live processes (registry's lock) */
  unsigned shard;
};
enum { PROC_PLAIN, PROC_MAIN, PROC_HOST };

struct mr_worker {
  _Alignas(PORT_CACHELINE) port_lock lock;
  mr_fiber *head, *tail;             /* run queue (lock) */
  atomic_uint count;
  _Atomic(mr_fiber *) slot;          /* hand-over: runs next */
  _Atomic(mr_thread *) thread;       /* who holds it; NULL = inactive */
  atomic_uint tick;                  /* dispatches */
  atomic_uchar idle;                 /* its thread is in the idle list */
  unsigned id;
  unsigned slots_in_a_row;           /* (holder) */
  unsigned rng;                      /* (holder) */
  struct { unsigned tick; uint64_t since; unsigned char tries; uint64_t cpu; } seen;   /* (monitor) */
  struct { unsigned tick; uint64_t since; } watch;                                     /* (idle lock) */
  lua_State *pool[16];               /* (holder) rewound states, hottest last */
  mr_heap *pool_heap[16];
  int npool;
  mr_packer *packer;                 /* of threads, see mr_thread */
};

struct mr_thread {
  port_thread os;
  port_event event;
  mr_worker *worker;                 /* (own) what it holds or believes to hold */
  mr_fiber *volatile current;        /* (own) the running fiber */
  mr_packer *packer;                 /* (own) */
  mr_thread *next;                   /* in the spare or idle list (idle lock) */
  _Atomic(mr_worker *) given;        /* worker handed to it while it waited */
  atomic_uchar quit;
  lua_Hook user_hook;                /* (own) the program's debug hook while ours is armed */
  int user_mask, user_count;
};

/* ---- who am I ---- */
/* Functions of a host state carry their host process as upvalue 1; in a process's state the extra space holds it. */
static inline mr_proc *mr_self(lua_State *L) {
  mr_proc *p = (mr_proc *)lua_touserdata(L, lua_upvalueindex(1));
  return p ? p : *(mr_proc **)lua_getextraspace(L);
}
static inline mr_fiber *mr_self_fiber(lua_State *L) { return &mr_self(L)->main; }
static inline mr_packer *mr_self_packer(mr_fiber *f) { return f->thread->packer; }

static inline int mr_wait_claim(const mr_wait *w) {
  unsigned t = w->ticket;
  port_chaos();
  return atomic_compare_exchange_strong(&w->fiber->ticket, &t, t + 1);
}

/* ---- processes (process.c) ---- */
typedef struct mr_spawn {
  mr_message *start;                 /* owned by the process after success */
  const char *name;                  /* copied */
  size_t limit;
  int system_heap;
  int kind;                          /* PROC_PLAIN or PROC_MAIN */
} mr_spawn;
extern const mr_sharetype *mr_proc_type;         /* set by module/: how a handle is pushed */
mr_proc *mr_proc_spawn(const mr_spawn *s, mr_fiber *near, int *err);  /* holds one reference for the caller */
void     mr_proc_destroy(mr_shared *o);          /* the destroy of handles' type */
const char *mr_proc_status(mr_proc *p);          /* "new" "running" "ready" "waiting" "done" "failed" */
/* 1: it has ended, `result` is fixed; 0: f->wait is queued, park with mr_proc_wait_end as clean-up. */
int      mr_proc_wait(mr_proc *p, mr_fiber *f);
void     mr_proc_wait_end(mr_proc *p, mr_fiber *f);
void     mr_proc_observe(mr_proc *p);

/* ---- states (state.c), opened by hooks that module/ sets at start-up ---- */
typedef struct mr_state_hooks {
  lua_State *(*open)(lua_Alloc f, void *ud);     /* a fresh process state, for images too; NULL: no memory */
  void (*start)(lua_State *L, mr_proc *p);       /* per process, after clone: may allocate; runs protected */
} mr_state_hooks;
extern mr_state_hooks mr_hooks;
int  mr_state_get(mr_worker *w, mr_proc *p);     /* gives p a state: 0 or MR_ENOMEM */
void mr_state_put(mr_worker *w, mr_proc *p);     /* runs finalisers, then recycles or drops */
void mr_state_flush(mr_worker *w);               /* drops the worker's recycled states */
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
void     mr_host_close(mr_proc *h);              /* waits as luaproc did: until every process has ended */
void     mr_host_drop(mr_proc *h);               /* does not wait */
int      mr_host_join(mr_proc *h);               /* waits for all processes: 0, or MR_EDEADLOCK with a report pending */

/* ---- ends (stop.c) ---- */
/* Waits until every process has ended. 0, or 1 after a deadlock (reported on stderr). For `mare run`. */
int  mr_run_until_done(void);
void mr_stop(void);                              /* bounded: tells workers to stop, waits a little, never hangs */
void mr_interrupt(void);                         /* async-signal-safe: raises "interrupted!" in the main process */
size_t mr_proc_count(void);
/* Calls fn for every live process with its registry shard locked. */
void mr_proc_each(void (*fn)(mr_proc *p, void *ud), void *ud);

#endif
