/*
 * info: what can be seen of processes that run.
 *
 * Two ways. *Infos* are read from records by anybody at any moment, from counters and states that are atomic: nobody is stopped, and nothing is
 * touched that may be gone. A *look* reads the stacks of a process: see look.c. It is answered by the thread that runs the process, before that goes
 * on, so it may take some time, and it may be in vain: in a C function nothing can be asked.
 */
#ifndef MR_INFO_H
#define MR_INFO_H

#include "process/process.h"
#include "run/run.h"
#include "run/waitable.h"

/* ---- infos (info.c) ---- */

enum { MR_INFO_NAME = 60 };
typedef struct mr_info {
  uint64_t id, parent, owner;          /* parent, owner: ids; 0: none */
  const char *status;                  /* as mr_proc_status: a constant */
  const char *waits;                   /* while it waits, in what: "receive", a constant; NULL: it doesn't, or doesn't say */
  uint64_t cpu;                        /* ns */
  size_t heap;                         /* bytes that its heap holds; 0 for hosts: not known */
  uint64_t sent, received;
  unsigned fibers, restarts;           /* fibers that have not ended */
  int worker;                          /* on which it runs, -1: on none */
  unsigned char kind, level;           /* PROC_*, LEVEL_* */
  unsigned char named;                 /* it has a name */
  char name[MR_INFO_NAME];             /* cut at the end of a character if it is longer */
  mr_proc *proc;                       /* a reference that was asked for; or NULL */
} mr_info;

/* With a reference to p. */
void     mr_proc_info(mr_proc *p, mr_info *out);
/* Of all that have not ended, or have failed and still have a handle; hosts first. No order else. keep: with references, until they are freed. */
typedef struct mr_infos { mr_info *at; size_t n; } mr_infos;
int      mr_proc_infos(mr_infos *out, int keep); /* 0 or MR_ENOMEM */
void     mr_infos_free(mr_infos *all);
mr_proc *mr_proc_by_id(uint64_t id);             /* among those; a reference for the caller, NULL: there is none */

typedef struct mr_totals {
  uint64_t up;                         /* ns since the runtime was started */
  uint64_t spawned, ended, failed;     /* failed are among the ended */
  size_t   processes;                  /* that have not ended; without hosts */
  uint64_t sent, received;             /* messages of all processes, the ended included */
  uint64_t cpu;                        /* ns that processes were charged, likewise */
  uint64_t dispatches, steals, busy;   /* of all workers: see mr_worker_loads */
  unsigned workers, hosts;
  unsigned threads, blocked;           /* threads of mare; of them, in waits of places that can't yield */
  size_t   memory;                     /* bytes that heaps hold or could hold at once: the pool's */
} mr_totals;
void     mr_totals_get(mr_totals *out);          /* counts only grow, from start to start of the runtime */

/* ---- looks (look.c) ---- */

enum { LOOK_WHERE = 1, LOOK_TRACE = 2 };         /* what is asked: where it is; the text of all its stacks */
/* How it went. BUSY: nothing came in time; it runs, or waits for a worker. NEW: it has not begun. OVER: it has ended. */
enum { LOOK_DONE = 1, LOOK_BUSY, LOOK_NEW, LOOK_OVER, LOOK_NOMEM };

enum { MR_LOOK_WHERE = 160, MR_LOOK_ON = 160 };
typedef struct mr_look {
  int state;                           /* LOOK_* */
  size_t used;                         /* bytes that its Lua state uses; 0: it doesn't say, as a finaliser waits */
  /* of LOOK_WHERE: the fiber that runs, else one that stands where most of them do. Being looked at wakes it: an info that is read now may say that it runs */
  const char *status, *waits;          /* "running", "ready", "waiting", and in what, or NULL: constants */
  char where[MR_LOOK_WHERE];           /* "file:line" of the program's code; "": there is none */
  unsigned there;                      /* of several fibers none of which runs: how many stand there */
  char on[MR_LOOK_ON];                 /* what it waits for: "channel 'results'", "process #3"; "": nothing with a name */
  char *text;                          /* of LOOK_TRACE, malloc'd. BUSY: says so. OVER: the trace of its failure, or NULL. NULL: NOMEM */
} mr_look;

/*
 * For threads that run no fiber of mare - not for workers: blocks until the deadline, in port_now() time. With a reference to p. Returns out->state;
 * the caller frees out->text.
 */
int      mr_look_at(mr_proc *p, int what, uint64_t deadline, mr_look *out);

/*
 * The same in steps, for fibers (module/look.c). `done` is set when there is an answer; mr_asked_end gives it, or what can be said without one, and
 * lets go.
 */
typedef struct mr_asked mr_asked;
mr_asked *mr_ask(mr_proc *p, int what, mr_fiber *near);  /* near: the running fiber, or NULL; NULL: no memory */
mr_event *mr_asked_event(mr_asked *a);
void      mr_asked_wait(mr_asked *a, uint64_t deadline);  /* for threads that run no fiber: until there is an answer, or the deadline */
void      mr_asked_end(mr_asked *a, mr_proc *p, mr_look *out);
/* p's own, whose running coroutine is L: at once. */
void      mr_look_own(lua_State *L, mr_proc *p, int what, mr_look *out);

/* Where nothing runs any more but the caller, in a copy of the program (port_aside). `running`: what ran when that was made, or NULL. */
void      mr_look_still(mr_proc *p, int what, const mr_fiber *running, mr_look *out);

/* ---- all of it as a text (dump.c): workers, processes, tracebacks of what runs ---- */

char     *mr_dump(void);               /* malloc'd or NULL. For threads that run no fiber; takes some seconds at most */
void      mr_dump_print(void);         /* on stderr, by a thread of its own: see body.h, report */
/*
 * In a run that can be repeated (run/replay.h) nothing may change by being looked at: there a copy of the program is made, and looks at itself. By the
 * thread that runs something, where it may be stopped; if it does not come there within a second, by another one.
 */
void      mr_dump_asked(void);         /* async-signal-safe: what SIGQUIT does */
void      mr_dump_late(void);          /* by who waits for the end of a replayed run: was it asked, and nobody has answered? */
extern void (*mr_dump_told)(const char *text);   /* there, in the copy: does something else with the text (NULL: no memory) than to write it on stderr */

#endif
