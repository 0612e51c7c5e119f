/*
 * rt: what the files of process/ share and nobody else includes.
 *
 * Locks, in the order in which they may be taken: a channel's or process's lock > timers > idle > a worker's queue, the
 * global queue. None is held across a call into Lua.
 */
#ifndef MR_RT_H
#define MR_RT_H

#include "process/process.h"

#define MR_MAX_WORKERS 256
#define MR_SHARDS 64

typedef struct mr_runtime {
  mr_worker worker[MR_MAX_WORKERS];
  _Alignas(PORT_CACHELINE) port_lock qlock;    /* global queue: from hosts, timers, retired workers */
  mr_fiber *qhead, *qtail;
  atomic_uint qcount;

  _Alignas(PORT_CACHELINE) port_lock ilock;    /* idle lock: idle, spare, watcher, nactive, running hosts */
  mr_thread *idle;
  mr_thread *spare;
  mr_thread *watcher;                          /* the idle thread that waits for timers and stale slots */
  unsigned nspare, hosts_waiting, nopen;        /* nopen: hosts that do not close yet */
  atomic_uint nactive, nused, nhosts;
  mr_proc *host;                               /* list by live_next; hosts are in no shard */
  atomic_int host_cpu;                         /* where a host waited last */
  atomic_uint nidle, nspinning;
  atomic_uint ndetached;                       /* threads that run a fiber without a worker */
  atomic_uint nmoving;                         /* threads not counted as busy that may have a fiber in hand: see deadlock.c */
  atomic_uint nblocked;                        /* fibers in WAIT_HANDOVER waits */
  atomic_uint noutside;                        /* what something outside the program may wake: see poll.h */
  atomic_int polling;                          /* there are descriptors to poll */
  atomic_uint nthreads;
  unsigned max_blocked;

  port_lock tlock;                             /* timers */
  mr_timer **timer;
  unsigned ntimers, timer_size;
  _Atomic uint64_t next_due;                   /* UINT64_MAX = none */

  atomic_int target;                           /* how many workers there should be */
  atomic_int stopping;
  atomic_int deadlocked;
  atomic_int started;
  port_lock life;                              /* one start or stop at a time; before all other locks */
  atomic_int dead;                             /* forked child */
  int cpus;
  uint64_t quantum;                            /* ns */
  atomic_size_t live;                          /* processes that have not ended */
  _Atomic uint64_t next_id;
  port_event monitor_event;
  _Atomic uint64_t monitor_until;
  port_event done;                             /* live fell to 0, deadlock, or stop: for mr_run_until_done */
  mr_proc *main;                               /* PROC_MAIN, referenced */
  atomic_int interrupted;
  struct { _Alignas(PORT_CACHELINE) port_lock lock; mr_proc head; } shard[MR_SHARDS];
} mr_runtime;

enum { LIST_NONE, LIST_IDLE, LIST_SPARE };

extern mr_runtime mr_rt;
extern PORT_TLS mr_thread *mr_tls;

/* sched.c */
void mr_run_thread(void *thread);              /* body of every worker thread */
void mr_enqueue(mr_worker *w, mr_fiber *f, int front);   /* a READY fiber; w NULL = global; wakes an idle worker if any */
void mr_wake_idle(void);
void mr_watcher_left(void);                    /* there is no watcher now, though somebody may idle */
mr_fiber *mr_ready_due(mr_fiber *f, mr_reason why);      /* as mr_ready, but the caller puts what it returns (NULL: nothing) to the front of a queue */
void mr_ready_polled(mr_fiber *f, mr_worker *w);         /* as mr_ready(f, MR_WOKEN, …), but wakes no worker */
int  mr_anything_queued(void);
void mr_learn_patience(mr_thread *t, uint64_t waited);   /* how long the last wait took, spinning and sleeping */
int  mr_fiber_parked(mr_fiber *f);                       /* its thread, after it yielded to wait: 0: woken already, it goes on */
void mr_settled(void);                         /* lowers nmoving, and checks: others may have gone to sleep seeing it raised */
void mr_quiet_check(void);                     /* after something began to wait: deadlock? */

/* worker.c */
mr_thread *mr_spare_get(void);                 /* a thread without a worker, new if need be; NULL: none to be had */
void mr_spare_put(mr_thread *t);
int  mr_spare_wait(mr_thread *t);              /* own thread: until it is given a worker; 0: it is not needed any more */
int  mr_worker_take(mr_worker *w, mr_thread *from, mr_thread *to);  /* 1: `to` holds it now and is awake */
void mr_wake_all_idle(void);
mr_thread *mr_thread_new(void);
void mr_thread_free(mr_thread *t);

/* timer.c */
int  mr_timer_set(mr_fiber *f, uint64_t due);  /* 0 or MR_ENOMEM */
void mr_timer_cancel(mr_fiber *f);
int  mr_timer_in(mr_timer *t, uint64_t due, int *first); /* (timers' lock) 0 or MR_ENOMEM; *first: then mr_monitor_poke(due) afterwards */
void mr_timer_out(mr_timer *t);                          /* (timers' lock) if it is in */

/* poll.c; w: the caller's worker, whose queue gets what is ready, NULL = the global one; idle: the caller looks there next */
unsigned mr_poll(mr_worker *w, int idle);      /* without waiting; how many fibers became ready */
int  mr_poll_wait(port_event *e, uint64_t deadline, mr_worker *w, unsigned *count);  /* 1: e was set; raises nmoving, the caller lowers it */
unsigned mr_timers_fire(uint64_t now, mr_worker *w);     /* wakes what is due; how many */

/* state.c */
void mr_state_setup(void);                     /* tries to make the image */
int  mr_state_get(mr_worker *w, mr_proc *p);   /* (holder) gives p a state: 0 or MR_ENOMEM */
void mr_state_close(mr_proc *p, mr_spare *left);               /* runs finalisers; then the state is only bytes */
void mr_state_recycle(mr_worker *w, mr_spare *s);  /* (holder, or w NULL) keeps or drops the bytes */
void mr_state_flush(mr_worker *w);             /* (holder) drops what it keeps */

#define MR_PREFETCH_FROM 300                   /* live processes from which their memory is not in a near cache any more */
void mr_state_prefetch(const mr_fiber *f);
const char *mr_state_hint(lua_State *L);

/* preempt.c */
int  mr_monitor_start(void);
void mr_monitor_poke(uint64_t due);            /* something earlier than its next round */
void mr_monitor_resume(void);                  /* a worker went from idle to busy */
void mr_hook_start(lua_State *L);              /* builds without signals set a permanent hook */

/* process.c */
int  mr_proc_begin(mr_thread *t, mr_proc *p, int *nargs);    /* 1: function and arguments are on the stack; 0: it has ended and is gone */
void mr_proc_end(mr_thread *t, mr_proc *p, int status, int nres);   /* as its only fiber ends */
int  mr_proc_outcome(mr_proc *p, int status, int nres);      /* keeps the results of its first fiber: PROC_DONE or PROC_FAILED */
void mr_proc_close(mr_thread *t, mr_proc *p, void (*fibers)(struct mr_crew *c));   /* then, when nothing of it will run: the end; p is gone */
void mr_proc_list(mr_proc *p);
void mr_proc_unlist(mr_proc *p);
char *mr_proc_failure(mr_proc *p);             /* what is to be printed, malloc'd; NULL: nothing any more */
void mr_proc_print(mr_proc *p);                /* a failure, once, on stderr */

/* trace.c */
char *mr_trace(lua_State *L);                  /* malloc'd, or NULL */

char *mr_text_copy(const char *s);             /* malloc'd */
mr_proc *mr_proc_new(int kind, const char *name);
void mr_proc_finish(mr_proc *p, int status);   /* publishes the end and wakes who waits for it */
void mr_proc_abandon(void);                    /* no thread is left: processes that have not ended count as failed */

/* host.c */
void mr_hosts_notify(void);                    /* the last process has ended, or a host has opened */

/* stop.c */
void mr_close_down(void);                      /* (life) the last host has closed */
int  mr_stopped(void);                         /* (life) 1: the stop is complete, the runtime can start again */
void mr_exit_yield(void);                      /* never returns if the program exits already */
void mr_fork_watch(void);                      /* once */


/* deadlock.c */
char *mr_deadlock_report(void);                /* malloc'd text */
void mr_report_print(const char *text);

#endif
