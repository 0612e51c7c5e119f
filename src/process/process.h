/*
 * process: isolated states, the bodies that the scheduler runs (run/body.h), and how they start and end.
 *
 * A *process* (mr_proc) is a state with a heap and an exit status; to the scheduler it is a job. A *fiber* is what waits and is scheduled;
 * its Lua side is a mr_lua, which begins with it. A process has one, its `main`, and more if it makes them (strand.h).
 *
 * Ownership.
 *  - Fields marked (owner) belong to the thread that runs the fiber, or the process's fiber, or, while it is parked, to whoever claimed its
 *    ticket; see run/park.h.
 *  - A process is counted: one reference while it is alive, one per handle.
 */
#ifndef MR_PROCESS_H
#define MR_PROCESS_H

#include <string.h>
#include "port/port.h"
#include "base/error.h"
#include "lua/compat.h"
#include "heap/heap.h"
#include "transfer/transfer.h"
#include "process/park.h"
#include "run/worker.h"

typedef struct mr_proc mr_proc;
struct mr_cause;
struct mr_asked;

/* Mail: a message on its way, small ones without any block. */
#define MR_INLINE 2
enum { MAIL_NONE, MAIL_SCALARS, MAIL_MESSAGE, MAIL_AUX, MAIL_STRING, MAIL_ENDED };   /* ENDED, of a result: see control.h */
typedef struct mr_mail {
  unsigned char kind;
  unsigned char n;                  /* values, of MAIL_SCALARS and MAIL_AUX */
  union {
    mr_scalar s[MR_INLINE];
    mr_message *m;                  /* MAIL_MESSAGE: owned */
    struct { const char *p; size_t len; } str;   /* MAIL_STRING: one string, alive on the parked sender's stack */
    struct { int64_t expected; unsigned round; } meeting;   /* MAIL_NONE, of who waits at a barrier */
  } u;
} mr_mail;

/* Deadlines and masks of a fiber (limit.h), the innermost first; and when, being masked, it learnt that it is to end, 0: it has not. */
typedef struct mr_bounds { struct mr_limit *limits; uint64_t noticed; } mr_bounds;

/* A fiber with its Lua side. Of that a message touches one cache line: from `L` to the first value in `mail`. */
typedef struct mr_lua {
  mr_fiber fiber;                    /* first */
  void *set;                         /* (owner) a host's in select: what has to be unlinked if it never goes on; others: pick.c's, malloc'd */
  lua_State *L;                      /* the coroutine on which the body runs; of the first fiber: the state's main thread */
  lua_State *volatile top;           /* (owner) the coroutine that runs: top of the chain */
  lua_State *parked_L;               /* (owner) the coroutine that called the blocking function, for reports */
  const char *hint;                  /* (owner) about where its stack is, for prefetching */
  unsigned char top_ok;              /* (owner) every link below `top` can yield */
  unsigned char odd;                 /* (owner) ODD_*: what send and receive have to see to first */
  unsigned char keeps;               /* (owner) it is not interrupted: below `top` is a debug hook that would notice */
  unsigned char early;               /* (owner) its open wait ends before the deadline, to ask again: see await.h */
  mr_mail mail;                      /* coming in while it receives, going out while it sends */
  int nres;                          /* (owner) results of the last resume, when its body has ended */
  mr_fiber *relief;                  /* (owner) a resting sibling, its strand counted: woken when this one waits; ODD_RELIEF tells */
  const struct mr_waitclass *awaits; /* (owner) in mr_await: what it waits for, see await.h */
  void *object;                      /* (owner) and of what */
  mr_shared *held_from;              /* (owner) `held`'s channel, counted; NULL: there is no such message; ODD_HELD tells */
  mr_message *held;                  /* (owner) the message being unpacked, or the one that could not be for want of memory; owned */
  lua_State *aux;                    /* (owner) idle coroutine into which others unpack; anchored in the registry */
} mr_lua;
enum { ODD_HELD = 1, ODD_RELIEF = 2, ODD_AUX = 4 };   /* AUX: it got a packed message, so an auxiliary thread would pay */
#ifndef MR_CHECKS
_Static_assert(sizeof(void *) != 8 || (offsetof(mr_lua, L) == 3 * PORT_CACHELINE && offsetof(mr_lua, mail.u.s[1]) == 4 * PORT_CACHELINE),
               "a hand-over touches no more lines than it must");
#endif
enum { TOLD = 1, TOLD_LAST, TOLD_CLOSED };   /* of a fiber's `told`. LAST: it is closed at its next turn; CLOSED: it was, without an error of its own */
static inline mr_lua *mr_lua_of(mr_fiber *f) { return (mr_lua *)(void *)f; }
static inline const mr_lua *mr_lua_seen(const mr_fiber *f) { return (const mr_lua *)(const void *)f; }
static inline void mr_lua_hold(mr_lua *l, mr_message *m, mr_shared *from) {   /* m NULL, and from: nothing any more */
  l->held = m;
  l->held_from = from;
  l->odd = (unsigned char)(from ? l->odd | ODD_HELD : l->odd & ~ODD_HELD);
}

/* A thread of ours, and what it has at hand for Lua. */
typedef struct mr_spare { lua_State *L; mr_heap *heap; } mr_spare;
typedef struct mr_kit {
  mr_thread thread;                  /* first */
  mr_packer *packer;                 /* (own) */
  mr_packer *gc_packer;              /* (own) for sends out of finalisers, which can interrupt a pack */
  char *scratch;                     /* (own) what sockets read into, made at the first read; stays with the record */
  mr_spare ended;                    /* (own) state of the process that just ended, to be recycled or dropped */
  struct mr_own *own;                /* for profiles; stays with the record. NULL: there are none */
} mr_kit;
static inline mr_kit *mr_kit_of(mr_thread *t) { return (mr_kit *)(void *)t; }

/* What processes inherit besides their arguments: one message for many of them. */
typedef struct mr_inherit { atomic_size_t refs; mr_message *message; } mr_inherit;
void mr_inherit_release(mr_inherit *i);

enum { PROC_NEW, PROC_ALIVE, PROC_DONE, PROC_FAILED };
/* What a message touches of it is `main`'s three cache lines, and the first. */
struct mr_proc {
  mr_shared shared;                  /* first: handles are shared objects */
  _Atomic uint64_t sent, received;   /* messages so far; (owner) writes */
  mr_budget *budget;                 /* referenced; NULL: none. See budget.h */
  mr_job job;
  atomic_size_t held;                /* bytes that its heap holds; (owner) writes */
  _Alignas(PORT_CACHELINE) mr_lua main;
  atomic_uint restarts;              /* how often its supervisor had started it again before it was made */
  atomic_uchar status;
  unsigned char kind;                /* PROC_PLAIN … */
  unsigned char finalisers;          /* (owner) 1: something in the state may have a finaliser, 2: they run for the last time */
  unsigned char system_heap;
  unsigned char end;                 /* (owner) how its first fiber ended: PROC_DONE or PROC_FAILED */
  unsigned char traced;              /* (owner) a coroutine of its state has, or had, a debug hook */
  atomic_uchar joining;              /* a host: waits for the end of all processes */
  atomic_uchar leaving;              /* a host: its program exits, so its end waits for nothing */
  atomic_uchar observed;             /* somebody learnt of its end */
  atomic_uchar deaf;                 /* DEAF_*: it is to end, and does it hear of that? See mr_ending_report */
  unsigned char offered;             /* (owner) its group's library is still to be made */
  unsigned char packages;            /* (owner) its state has a package library of its own */
  unsigned char exits;               /* (owner) 1: it has functions to be called at its end, 2: they are called */
  atomic_uchar named;                /* it has, or had, names: see names.c */
  unsigned char log_level;           /* (owner) the least level of the log that it writes, and its children unless they say another; 0: the program's */
  unsigned char log_fields;          /* (owner) fibers of it have, or had, fields for the log: module/log.c */
  port_lock lock;                    /* guards: waiters, and the change of status to an end */
  mr_heap *heap;                     /* NULL: no state, or a host */
  mr_message *start;                 /* function and arguments, until it starts; NULL for hosts */
  mr_inherit *package;               /* referenced; or NULL */
  char *name;                        /* owned, or NULL */
  char *text, *trace;                /* of a failure: the error as text, its traceback; owned */
  size_t limit;                      /* bytes, 0 = none; with a budget never 0 */
  size_t outside;                    /* bytes outside of heaps that its state came to hold since these made it collect garbage: module/shared.c */
  size_t charged;                    /* what is taken from it for the record and its texts, and until there is a heap for that */
  const void *lazy[2];               /* (owner) tables of the state that fill themselves: globals, loaded modules. A host's: its registry */
  struct mr_late *late;              /* (owner) references that no finaliser will drop: taken while the state closes */
  struct mr_known *known;            /* (owner) named objects it has found, or NULL */
  struct mr_group *group;            /* the one it belongs to, or NULL; see group.h */
  _Atomic(struct mr_control *) control;  /* who it is tied to, and why it is to end; NULL: nothing of that. See control.h */
  mr_bounds bounds;                  /* (owner) its first fiber's */
  struct mr_asked *looks;            /* (lock) who wants to look at it: see look.c */
  uint64_t parent;                   /* the id of the process that has made it; 0: none */
  unsigned group_waits;              /* (group's lock) fibers of it that wait for the others */
  uint64_t strands;                  /* (owner) fibers made besides the first: their numbers */
  mr_mail result;                    /* fixed at the end: results, or the error value */
  mr_wait waiters;                   /* head of a circular queue */
  mr_proc *live_next, *live_prev;    /* (shard's lock) live and failed processes; of hosts: see host.c */
};
_Static_assert(sizeof(void *) != 8 || offsetof(mr_proc, job.fiber) < PORT_CACHELINE, "the first line has all that a message touches here");
enum { PROC_PLAIN, PROC_MAIN, PROC_HOST };
static inline mr_proc *mr_proc_of_job(const mr_job *j) { return (mr_proc *)(void *)((char *)(uintptr_t)j - offsetof(mr_proc, job)); }
static inline mr_proc *mr_proc_of(const mr_fiber *f) { return mr_proc_of_job(f->job); }

/* ---- who am I ---- */
/* In a process's state only: Lua's word for us holds the process (and bits of state/coroutine.c while a coroutine does not run). */
static inline mr_proc *mr_proc_here(lua_State *L) { return (mr_proc *)*mr_lua_word(L); }
static inline mr_fiber *mr_fiber_here(lua_State *L) { return mr_proc_here(L)->job.fiber; }
/* Everywhere. Functions of a host state carry their host process as upvalue 1. */
static inline mr_proc *mr_self(lua_State *L) {
  mr_proc *p = (mr_proc *)lua_touserdata(L, lua_upvalueindex(1));
  return p ? p : mr_proc_here(L);
}
static inline mr_fiber *mr_self_fiber(lua_State *L) { return mr_self(L)->job.fiber; }

/* ---- processes (process.c) ---- */
typedef struct mr_spawn {
  mr_message *start;                 /* function and arguments; owned by the process after success */
  mr_inherit *package;               /* what the parent's package library differs in, or NULL; one reference, likewise */
  const char *name;                  /* copied */
  size_t limit;
  mr_budget *budget;                 /* or NULL; one reference, likewise, and mr_spawn_bytes that were taken from it */
  int tree;                          /* `limit` is of a budget of its own */
  int system_heap;
  int level;                         /* LEVEL_* */
  int kind;                          /* PROC_PLAIN or PROC_MAIN */
  struct mr_group *group;            /* or NULL */
  unsigned ties;                     /* TIE_*: how it is tied to its parent from the beginning */
  unsigned restarts;                 /* of a supervisor's child: how often it was started again before */
  mr_proc *made;                     /* its record, from mr_proc_new, so that it has a handle already; NULL: spawn makes one */
} mr_spawn;
/* What a process takes from a budget at its birth: its record, and a beginning for its heap. */
#define MR_HEAP_BYTES 8192
#define MR_PROC_BYTES (sizeof(mr_proc) + MR_HEAP_BYTES)
static inline size_t mr_spawn_bytes(const mr_spawn *s) { return MR_PROC_BYTES + (s->name ? strlen(s->name) + 1 : 0); }
/*
 * Seals what p, whose running state is L, has packed; for its budget, if it has one. If that has not so much left, garbage is collected first.
 * NULL: no memory, or *over is the budget that can't take it.
 */
mr_message *mr_proc_seal(lua_State *L, mr_proc *p, mr_packer *k, mr_budget **over);
/* n bytes from b - its own, or a new one inside - for p, whose running state is L. NULL: done; else the one that has not so much left. */
mr_budget *mr_proc_take(lua_State *L, mr_proc *p, mr_budget *b, size_t n);
const char *mr_proc_over(mr_budget *over, char buf[200]);   /* what to say then; over NULL: the system has no memory */
void     mr_mail_drop(mr_mail *m);
void     mr_mail_back(lua_State *L, mr_mail *m);              /* its sender's: see mr_message_back */
extern const mr_sharetype *mr_proc_type;         /* set by module/: how a handle is pushed */
mr_proc *mr_proc_new(int kind, const char *name);  /* a record with one reference, which is nobody's process yet. NULL: no memory */
mr_proc *mr_proc_spawn(const mr_spawn *s, mr_fiber *near, int *err);  /* holds one reference for the caller: that of s->made, if that is not NULL */
void     mr_proc_destroy(mr_shared *o);          /* the destroy of handles' type */
void     mr_proc_says(const mr_proc *p, const char *text);   /* what is to be told of p, or of all (NULL): in the log where that is in use, else on stderr */
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
void     mr_late_exchange(mr_proc *p, mr_shared *a, mr_shared *b);   /* each of two objects is what the other was, to their userdata */
void     mr_late_drop(mr_proc *p);
/*
 * The last named objects that a process has found, each with a reference, so that it finds them again without a lock (module/station.c).
 * `seen`: where the name was that each was asked for with; that string may be gone, so it only says where to look first.
 */
enum { MR_KNOWN = 7 };
typedef struct mr_known { const char *seen[MR_KNOWN]; mr_shared *object[MR_KNOWN]; unsigned next; } mr_known;
void     mr_known_drop(mr_proc *p);

/* ---- states (state.c), opened by hooks that src/state sets at start-up ---- */
typedef struct mr_state_hooks {
  lua_State *(*open)(lua_Alloc f, void *ud);     /* a fresh process state, for images too; NULL: no memory */
  void (*furnish)(lua_State *L);                 /* NULL, or adds to a fresh state what nearly all processes use */
  void (*start)(lua_State *L, mr_proc *p);       /* per process, after clone: may allocate; runs protected */
  int (*finalisers)(lua_State *L);               /* something in the state still has a finaliser */
  int (*let_go)(lua_State *L);                   /* 1: all that finalisers would do in L, a main thread, has been done without them; 0: nothing has */
  int (*reset)(lua_State *L);                    /* lua_resetthread: closes pending variables, leaves the error on top */
  int (*close_fiber)(mr_fiber *f);               /* the same for a suspended fiber: first for the coroutines in which it was */
  lua_State *(*resumed)(lua_State *L, int running);   /* the coroutine that L of a suspended (or running) fiber has resumed; NULL: none */
  void (*describe)(mr_shared *o, char *buf, size_t size);   /* "channel 'results'" for reports; no Lua */
  void (*forked)(void);                          /* in a forked child: mare's values become unusable */
  void (*unlink)(mr_fiber *f);                   /* a fiber with a `set` never goes on */
  void (*mail_back)(mr_fiber *f);                /* gives the message that its fiber holds back to its channel */
  lua_Hook traced;                               /* runs a debug hook of the program's, see hook.c */
  void (*error)(lua_State *L, const struct mr_cause *c);   /* pushes the error object; may raise, for want of memory */
  void (*exits)(mr_proc *p);                     /* calls what is to be called at its end; L is p->main.L, nothing of it runs */
  void (*knocked)(void);                         /* a tool of this user's wants to look at the program; on the monitor's thread */
  void (*unobserve)(void);                       /* the runtime has stopped: nobody looks at it any more */
  int (*post)(mr_shared *channel, mr_message *m, mr_fiber *near);    /* sends it without waiting, and owns it; 0 or MR_ENOMEM */
} mr_state_hooks;
extern mr_state_hooks mr_hooks;
#define MR_KEEP 64                               /* at most so many recycled states a worker */
extern atomic_int mr_recycle;                    /* how many states a worker keeps; 0 = none */

/* ---- chain of coroutines ---- */
/* Nonzero when a wait in L can be done by yielding through the whole chain. */
static inline int mr_can_yield(const mr_fiber *f, lua_State *L) {
  const mr_lua *l = mr_lua_seen(f);
  return L == l->top && l->top_ok && lua_isyieldable(L);
}

/* ---- debug hooks (hook.c) ---- */
/* A coroutine's hook as the program has set it. */
typedef struct mr_traced {
  const void *tag;                   /* so that it is known for a record */
  int mask, count;                   /* mask 0: none */
  int last, before, earlier;         /* the event that runs, and the two before it, also if the program did not ask for them; -1: none */
  unsigned char silent;              /* inherited by a new coroutine, so there is no function: debug.gethook tells of it, nothing is set */
} mr_traced;
void mr_hook_set(lua_State *L, int mask, int count);     /* mr_hooks.traced, so that L can give way all the same; mask is not 0 */
void mr_hook_kill(lua_State *L);                         /* nothing in Lua runs in this coroutine any more */
void mr_hook_none(lua_State *L);                         /* nothing of the program's */
int  mr_hook_is_ours(lua_State *L);                      /* no hook, for the program */
int  mr_hook_keeps(lua_State *L, const mr_traced *h);    /* L's hook would notice if what L calls now were interrupted */
void mr_hook_after(lua_State *L, const mr_traced *h);    /* the last thing that mr_hooks.traced does: may raise, or yield */

/* ---- starting (stop.c; how many workers: run/run.h) ---- */
int  mr_start(void);                             /* idempotent; 0 or an mr_err */
int  mr_workers_get(void);
int  mr_workers_set(int n);                      /* 0 or an mr_err */

/* ---- hosts (host.c): a Lua state of somebody else's, on somebody else's thread ---- */
mr_proc *mr_host_open(lua_State *L, int *err);
mr_proc *mr_host_of(lua_State *L);               /* NULL: it is none */
int      mr_host_join(mr_proc *h);               /* waits until every process has ended: 0, or MR_EDEADLOCK (text in h->text) */
void     mr_host_leave(mr_proc *h);              /* the program exits: closing will wait for nothing */
void     mr_host_close(mr_proc *h);              /* the last host waits for all processes and stops the runtime */
void     mr_host_free(mr_proc *h);               /* nothing of the state will run again */
static inline int mr_host_closed(const mr_proc *h) { return atomic_load(&h->status) >= PROC_DONE; }

/* ---- ends (stop.c) ---- */
void mr_prepare(void);                           /* what mr_start does first, if it can be done before there are threads: for who forks */
/* Waits until every process has ended. 0, or 1 after a deadlock (reported on stderr). For `mare run`. */
int  mr_run_until_done(void);
PORT_NORETURN void mr_exit(int code);            /* ends the program like os.exit: stops, flushes, exits; never hangs */
/* `mare run --strict`: then a failure that nobody learnt of - they are counted where they are printed - makes an exit code of 0 a 1. */
extern atomic_int mr_strict;
/* An interactive session: a deadlock is an error in the main process where that waits, as it is in a host. */
extern atomic_int mr_prompts;
void mr_exit_within_limit(int code);             /* in some seconds at the latest, whatever runs until then */
int  mr_forked(void);                            /* in a child of fork(), where nothing works */
void mr_interrupt(void);                         /* async-signal-safe: raises "interrupted!" in the main process */
/* By the main process: while held, an interrupt is not raised but waits; mr_interrupt_take() is 1 if there was one, which is gone then. */
void mr_interrupt_hold(int held);
int  mr_interrupt_take(void);
size_t mr_proc_count(void);
/* Calls fn for every live process with its registry shard locked. */
void mr_proc_each(void (*fn)(mr_proc *p, void *ud), void *ud);

#endif
