/*
 * rt: what the files of src/run share and nobody else includes.
 *
 * Locks, in the order in which they may be taken: that of an object that is waited for, a job's > a crew's, the timers' > idle > a worker's
 * queue, the global queue, the busy queue. None is held across a call into a body, but the idle lock for `deadlock`.
 */
#ifndef MR_RT_H
#define MR_RT_H

#include "run/body.h"
#include "run/run.h"

/* The busy queue, and what is like it for other levels: see share.c. */
typedef struct mr_busy {
  _Alignas(PORT_CACHELINE) port_lock lock;
  mr_row row[4];                               /* (lock) by BUSY_* */
  unsigned round;                              /* (lock) the newest in which credit was given */
  unsigned char turn;                          /* (lock) */
  atomic_uint count;
  _Atomic uint64_t due;                        /* of other levels: when those who compute have a turn, though others are ready */
} mr_busy;

typedef struct mr_runtime {
  mr_worker worker[MR_MAX_WORKERS];
  _Alignas(PORT_CACHELINE) mr_queue queue;     /* global queue: from hosts, timers, retired workers */

  mr_busy busy[NLEVELS];
  atomic_int levels;                           /* some job has, or had, another level than the normal one */
  atomic_int high_waits;                       /* the monitor is to interrupt what runs: something of LEVEL_HIGH came from elsewhere */

  _Alignas(PORT_CACHELINE) port_lock ilock;    /* idle lock: idle, spare, watcher, nactive, running hosts */
  mr_thread *idle;
  mr_thread *spare;
  mr_thread *watcher;                          /* the idle thread that waits for timers and stale slots */
  unsigned nspare, hosts_waiting;
  atomic_uint nactive, nused, nhosts;
  mr_job *host;                                /* hosts, by `next` */
  atomic_int host_cpu;                         /* where a host waited last */
  atomic_uint nidle, nspinning;
  atomic_uint ndetached;                       /* threads that run a fiber without a worker */
  atomic_uint nmoving;                         /* threads not counted as busy that may have a fiber in hand: see quiet.c */
  atomic_uint nblocked;                        /* fibers in WAIT_HANDOVER waits */
  atomic_uint noutside;                        /* what something outside the program may wake: see poll.h */
  atomic_int polling;                          /* there are descriptors to poll */
  atomic_uint nthreads;
  unsigned max_blocked;

  port_lock tlock;                             /* timers */
  mr_timer **timer;
  unsigned ntimers, timer_size, timer_turn;
  _Atomic uint64_t next_due;                   /* UINT64_MAX = none */

  atomic_int target;                           /* how many workers there should be */
  atomic_int stopping;
  atomic_int started;
  atomic_int dead;                             /* forked child */
  int cpus;
  uint64_t quantum;                            /* ns */
  atomic_size_t live;                          /* jobs that are not over */
  port_event monitor_event;
  _Atomic uint64_t monitor_until;
  atomic_int interrupted;
  atomic_int knocked;                          /* somebody outside asks to be let in: see mr_run_knocked */
  atomic_int reports;                          /* mr_run_report was called */
  atomic_uint nending;                         /* jobs that were asked to end and are not over: see ending.c */
  atomic_uint nlooks;                          /* looks at jobs that have no answer yet */
  atomic_int observed;                         /* so many want CPU time to be exact: see sample.c */
  _Atomic uint64_t began;                      /* when it was started */
} mr_runtime;

#define MR_ENDING_LOOK 1000000000u   /* ns between two calls of the body's `ending`, */
#define MR_ENDING_ROUNDS 20          /* and rounds in which all were told */

enum { LIST_NONE, LIST_IDLE, LIST_SPARE };
#define TURNS 64                     /* every so many dispatches: timers, who is due, the global queue and the own queue's head first */
#define PREFETCH_FROM 300            /* jobs from which their memory is not in a near cache any more */

extern mr_runtime mr_rt;

/* So many wait in the rows of a level. */
static inline unsigned mr_waiting(int level) { return atomic_load_explicit(&mr_rt.busy[level].count, memory_order_relaxed); }

/* check.c: in builds with checks */
#ifdef MR_CHECKS
void mr_worker_check(const mr_worker *w, const mr_thread *t);      /* t, the calling thread, holds w and runs no fiber */
void mr_idle_check(void);                      /* (idle lock) */
void mr_timers_check(void);                    /* (timers' lock) */
#else
#define mr_worker_check(w, t) ((void)0)
#define mr_idle_check() ((void)0)
#define mr_timers_check() ((void)0)
#endif

/* sched.c */
void mr_run_thread(void *thread);              /* body of every worker thread */
void mr_enqueue(mr_worker *w, mr_fiber *f, int due);     /* a READY fiber; w NULL = global; wakes an idle worker if any; due: see mr_row */
mr_fiber *mr_ready_due(mr_fiber *f, mr_reason why);      /* as mr_ready, but the caller queues what it returns (NULL: nothing), as due */
void mr_ready_polled(mr_fiber *f, mr_worker *w);         /* as mr_ready(f, MR_WOKEN, …), but wakes no worker */
mr_fiber *mr_find(mr_thread *t, mr_worker *w);           /* (holder) the next to run, without waiting; NULL: there is none */
int  mr_fiber_parked(mr_fiber *f);                       /* its thread, after it yielded to wait: 0: woken already, it goes on */
void mr_fire_due(mr_worker *w, int poll);      /* what is due; poll: and what is ready outside */

/* idle.c */
mr_fiber *mr_idle(mr_thread *t, mr_worker *w); /* (holder) nothing is to be run: sleeps until there is, or something else to see to (NULL) */
mr_fiber *mr_steal(mr_worker *w);
void mr_wake_idle(void);
void mr_wake_all_idle(void);
void mr_watcher_left(void);                    /* there is no watcher now, though somebody may idle */
int  mr_anything_queued(void);
void mr_learn_patience(mr_thread *t, uint64_t waited);   /* how long the last wait took, spinning and sleeping */

/* share.c */
uint64_t mr_share_slice(void);                 /* how long a turn may be while others wait: a quantum, or half of it */
mr_fiber *mr_share_pop(int level);             /* the busy queue's first, or that of another level */
mr_fiber *mr_share_low(mr_thread *t, mr_worker *w);      /* (holder) one of LEVEL_LOW, if that is due whatever else is ready */
void mr_share_push(mr_fiber *f, int front);    /* a READY fiber with HEED_BUSY or HEED_LEVEL; the caller wakes who idles */
int  mr_share_remove(mr_fiber *f);             /* out of these rows; 0: it is in none. It is looked at only if it is */
mr_fiber *mr_share_look(mr_thread *t, mr_worker *w);     /* (holder) every TURNS dispatches; a fiber if the busy queue is due */
int  mr_share_heed(mr_thread *t, mr_worker *w, mr_fiber *f);   /* (holder) f has `heed`: 1: run it; 0: it waits in the busy queue now */
void mr_share_rested(mr_thread *t, mr_worker *w);        /* (holder) nobody waited */
void mr_share_charge(mr_thread *t, mr_fiber *f);         /* t is timing; f has stopped and is not parked yet */
void mr_share_turn_over(mr_thread *t);                   /* of a crew's token */
void mr_share_ended(mr_thread *t);                       /* t is timing; a job is over */
void mr_share_settle(mr_thread *t, mr_worker *w);        /* (holder) after a LONG_TURN, or one that was LENT */
int  mr_share_over(const struct mr_crew *c);             /* (runs it) its job has used up its turn */
void mr_share_step_back(mr_thread *t, mr_fiber *f);      /* f, READY, was preempted or ceded: queues it */
void mr_share_born(mr_job *j, const mr_fiber *near);     /* before its first fiber is queued */
void mr_share_forget(void);

/* worker.c */
/* How many threads of ours, but for the calling one and the monitor, run or could with a CPU; how many there are, and the CPU time they have had. */
mr_thread *mr_threads(void);                   /* all records there have ever been, the others follow by `every` */
unsigned   mr_threads_runnable(unsigned *living, uint64_t *cpu);
mr_thread *mr_spare_get(void);                 /* a thread without a worker, new if need be; NULL: none to be had */
void mr_spare_put(mr_thread *t);
int  mr_spare_wait(mr_thread *t);              /* own thread: until it is given a worker; 0: it is not needed any more */
int  mr_worker_take(mr_worker *w, mr_thread *from, mr_thread *to);  /* 1: `to` holds it now and is awake */

/* sample.c */
void mr_sample_all(void);                      /* (monitor) who runs now is charged for what its thread has used since the last time */
void mr_sample_charge(mr_thread *t, mr_job *j);   /* t->sampled is set; its fiber, of j, has stopped */
void mr_sample_rest(mr_thread *t);             /* t goes on after it had nothing to run, or slept: that time is nobody's */
void mr_worker_rests(mr_worker *w);            /* (holder) it has nothing to run from now on */
void mr_worker_works(mr_worker *w);            /* (holder) it has again */

/* host.c */
void mr_host_block(mr_fiber *f, uint64_t deadline);      /* WAIT_HOST: its thread waits */

/* timer.c */
int  mr_timer_set(mr_fiber *f, uint64_t due);  /* 0 or MR_ENOMEM */
void mr_timer_cancel(mr_fiber *f);
int  mr_timer_in(mr_timer *t, uint64_t due, int *first); /* (timers' lock) 0 or MR_ENOMEM; *first: then mr_monitor_poke(due) afterwards */
void mr_timer_out(mr_timer *t);                          /* (timers' lock) if it is in */
unsigned mr_timers_fire(uint64_t now, mr_worker *w);     /* wakes what is due; how many */

/* poll.c; w: the caller's worker, whose queue gets what is ready, NULL = the global one; idle: the caller looks there next */
unsigned mr_poll(mr_worker *w, int idle);      /* without waiting; how many fibers became ready */
int  mr_poll_wait(port_event *e, uint64_t deadline, mr_worker *w, unsigned *count);  /* 1: e was set; raises nmoving, the caller lowers it */

/* monitor.c */
int  mr_monitor_start(void);
void mr_monitor_poke(uint64_t due);            /* something earlier than its next round */
void mr_monitor_urge(void);                    /* something of LEVEL_HIGH is ready: it is not to wait for the end of a quantum */
void mr_monitor_resume(void);                  /* a worker went from idle to busy */

#endif
