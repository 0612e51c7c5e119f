/* rt: what the files of process/ share and nobody else includes. */
#ifndef MR_PROCESS_RT_H
#define MR_PROCESS_RT_H

#include "process/process.h"
#include "process/info.h"
#include "run/body.h"
#include "run/crew.h"
#include "run/run.h"
#include "run/replay.h"


/* The processes: live ones, and failed ones as long as there are handles. Hosts are in host.c. */
#define MR_SHARDS 64
typedef struct mr_processes {
  struct {
    _Alignas(PORT_CACHELINE) port_lock lock;
    mr_proc head;
    uint64_t spawned, sent, received, cpu;     /* (lock) how many there have been; counts of those that are not listed any more */
  } shard[MR_SHARDS];
  _Atomic uint64_t ended, failed;              /* how many have */
  _Atomic uint64_t next_id;
  mr_proc *main;                               /* PROC_MAIN, referenced */
  port_event done;                             /* no process is left, deadlock, or stop: for mr_run_until_done */
  atomic_int deadlocked;
  port_lock life;                              /* one start or stop at a time; before all other locks */
} mr_processes;
extern mr_processes mr_all;

/* check.c: in builds with checks */
#ifdef MR_CHECKS
void mr_shard_check(unsigned at);              /* (its lock) */
#else
#define mr_shard_check(at) ((void)0)
#endif

/* state.c */
void mr_state_setup(void);                     /* tries to make the image */
int  mr_state_get(unsigned worker, mr_proc *p);/* (its holder) gives p a state: 0 or MR_ENOMEM */
void mr_state_close(mr_proc *p, int killed, mr_spare *left);   /* runs finalisers (killed: those in C); then the state is only bytes */
void mr_state_keep(unsigned worker, mr_spare *s);              /* (its holder) for the next one, if there is room; else as mr_state_drop */
void mr_state_drop(mr_spare *s);
void mr_state_flush(unsigned worker);          /* (its holder) drops what it keeps */
void mr_state_prefetch(const mr_lua *l);       /* reads nothing but what a message touches of l */

/* hook.c */
#define PERMANENT_HOOK (MR_DEAF || PORT_UNLIKELY(mr_replay_on))   /* a busy loop gets no signal there: a hook is set all the time */
void mr_hook_start(lua_State *L);              /* sets it, if so */
void mr_hook_kick(void);                       /* the signal's handler: what the current thread runs is to give way */

/* budget.c */
size_t mr_proc_keep(mr_proc *p, size_t n);     /* how many of n bytes of text its record may keep */
void mr_proc_unbudget(mr_proc *p);             /* its record goes */

/* process.c */
int  mr_proc_begin(mr_proc *p, int *nargs);    /* a status of Lua. LUA_OK: function and arguments are on the stack */
int  mr_proc_outcome(mr_proc *p, int status, int nres);      /* keeps the results of its first fiber: PROC_DONE or PROC_FAILED */
void mr_proc_close(mr_thread *t, mr_proc *p);  /* then, when nothing of it will run: the end; p may be gone */
void mr_proc_setup(void);                      /* once */
char *mr_proc_failure(mr_proc *p);             /* what is to be printed, malloc'd; NULL: nothing any more */
void mr_proc_print(mr_proc *p);                /* a failure, once, on stderr or in the log */
char *mr_text_copy(const char *s);             /* malloc'd */
const char *mr_status_with(const mr_proc *p, int state);     /* as mr_proc_status; state: of its crew */
void mr_proc_free(mr_proc *p);                 /* only its memory */
void mr_proc_finish(mr_proc *p, int status);   /* publishes the end and wakes who waits for it */
void mr_proc_abandon(void);                    /* no thread is left: processes that have not ended count as failed */

void mr_shard_each(int i, void (*fn)(mr_proc *p, void *ud), void *ud);   /* (its lock) all that are listed there */
void mr_shard_totals(int i, void (*fn)(mr_proc *p, void *ud), mr_totals *t);   /* the same, after what those had that are gone was added to t */

/* trace.c */
char *mr_trace(lua_State *L);                  /* malloc'd, or NULL */
struct mr_text;
void mr_trace_levels(struct mr_text *t, lua_State *L);   /* its lines, each begins with a line break */

/* look.c */
void mr_look_answer(mr_fiber *f);              /* its thread: f, which JOB_LOOK is set for, is about to go on */
void mr_look_blocked(mr_fiber *f);             /* the same, after a wait in which its thread kept it */
void mr_look_running(mr_fiber *f, lua_State *L);   /* the same, from L's hook: it runs */
int  mr_describe_on(const mr_fiber *f, char *buf, size_t size);   /* (owner) what f waits for; 0: nothing that has a name */
int  mr_name_on(const mr_fiber *f, char *buf, size_t size);       /* the same without a preposition */
struct mr_asked *mr_looks_take(mr_proc *p);    /* (lock) p has ended: for mr_looks_over */
void mr_look_forget(mr_proc *p);               /* in a forked child: who asked is not here, and may have held the lock */
void mr_looks_over(struct mr_asked *all, mr_proc *p);


/* host.c */
void mr_hosts_each(void (*fn)(mr_proc *p, void *ud), void *ud);   /* (idle lock) those that have not closed */
void mr_hosts_notify(void);                    /* the last process has ended, or a host has opened */

/* stop.c */
void mr_close_down(void);                      /* (life) the last host has closed */
/*
 * For who was told MR_ESTOPPED, one look: 1: threads that the stop has left behind are still ending, try again soon; 0: no more of them will.
 * Those that wait where they can't yield are ended here.
 */
int  mr_stop_goes_on(mr_leaving *l);
void mr_exit_yield(void);                      /* never returns if the program exits already */
void mr_interrupt_main(void);                  /* SIGINT has come: see body.h */
int  mr_interrupt_held(void);

/* deadlock.c */
int  mr_deadlock(mr_fiber **told, int n);      /* see body.h */
char *mr_deadlock_report(void);                /* malloc'd text */
void mr_report_print(const char *text);

#endif
