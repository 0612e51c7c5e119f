/*
 * trace: what happens, as records in a file that is mapped, so that they outlive the program however it ends. Knows no fibers: run/traced.h does.
 *
 * Who records is any thread. Each writes into a chunk of the file that is its own until it is full, so nobody waits for anybody; when all chunks
 * are used up the oldest that nobody holds is used again. The format stands in rings.h and docs/internals/trace.md; cut.h makes JSON of it.
 *
 * While no trace is on all this costs a load and a branch where something would be recorded.
 */
#ifndef MR_TRACE_H
#define MR_TRACE_H

#include "port/port.h"

/* Bits of one word, so that a hop asks for both at once: a trace is on; wake-ups are counted (run/talk.h). */
enum { MR_TRACING_RECORDS = 1, MR_TRACING_TALK = 2 };
extern atomic_int mr_tracing;
static inline int mr_tracing_any(void) { return PORT_UNLIKELY(atomic_load_explicit(&mr_tracing, memory_order_relaxed)); }
static inline int mr_trace_on(void) { return PORT_UNLIKELY(atomic_load_explicit(&mr_tracing, memory_order_relaxed) & MR_TRACING_RECORDS); }

/* What a thread does that takes time: between mr_trace_begin and mr_trace_finish, which nest. */
typedef enum {
  TRACE_CONNECT, TRACE_ACCEPT, TRACE_READ, TRACE_WRITE, TRACE_RECEIVE, TRACE_SEND, TRACE_REQUEST, TRACE_RESOLVE, TRACE_START_CHILD, TRACE_COLLECT,
  TRACE_FILE_READ, TRACE_FILE_WRITE, TRACE_FILE_SYNC, TRACE_FILE_CLOSE, TRACE_FILE_OPEN, TRACE_FILE_TEMP, TRACE_FILE_SLURP, TRACE_FILE_SPILL,
  TRACE_FILE_STAT, TRACE_FILE_LIST, TRACE_FILE_MKDIR, TRACE_FILE_REMOVE, TRACE_FILE_RENAME,
  TRACE_COLLECT_ALL,
  TRACE_WHATS
} mr_trace_what;

void mr_trace_began(mr_trace_what what);
void mr_trace_finished(int64_t result);            /* bytes, or minus an errno value */
static inline void mr_trace_begin(mr_trace_what what) { if (mr_trace_on()) mr_trace_began(what); }
static inline void mr_trace_finish(int64_t result) { if (mr_trace_on()) mr_trace_finished(result); }

int mr_trace_in_fiber(void);                       /* a trace is on, and the calling thread runs a fiber */

/* ---- fibers, by key: of those that live at one time no two have the same ---- */
#define MR_TRACE_KEY 52                            /* bits */
/* How a fiber stopped; greater values are operations in which it waits: mr_trace_pause_in. */
enum { TRACE_GAVE_WAY = 1, TRACE_PREEMPTED, TRACE_ENDED, TRACE_WAITS = 8 };

/* What each hop passes is in tracer.h. */
void mr_trace_idle(void);                          /* the calling thread runs nothing for some time */
void mr_trace_born(uint64_t key);                  /* by the calling thread */
void mr_trace_named(uint64_t key, const char *name);
void mr_trace_ended(uint64_t key, int failed, const char *text);   /* text: why, or NULL */

/* ---- CORBA calls: id tells those that are open at one time apart ---- */
enum { TRACE_CALL, TRACE_SERVE };
void mr_trace_call(int side, uint64_t id, const char *operation);
void mr_trace_reply(int side, uint64_t id);

void mr_trace_worker(unsigned id);                 /* the calling thread holds this one from now on */
void mr_trace_thread(const char *name);            /* what the calling thread is called, unless it holds workers; a string that stays */
void mr_trace_leave(void);                         /* the calling thread ends */

/* ---- the recording as a whole ---- */
/*
 * Once in a program. The trace will be FILE, of `size` bytes at most; records go to FILE.rings. 0 or an errno value, and *what is the path that it is
 * about. `program`: its name, for the title.
 */
int  mr_trace_start(const char *file, uint64_t size, const char *program, const char **what);
/*
 * Makes FILE and removes FILE.rings; idempotent, and who comes second waits for the first. What is to be said of it is written to stderr.
 * Not under a lock.
 */
void mr_trace_end(void);
/*
 * What has been recorded so far as JSON in a file, by any thread that runs no fiber, also while others record: 0 or an errno value; ENOENT: no trace
 * is on.
 */
int  mr_trace_cut(const char *path);
const char *mr_trace_file(void);                   /* FILE.rings; NULL: no trace was ever on */

#endif
