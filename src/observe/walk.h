/*
 * walk: what the files have in common that make JSON of records: cut.c walks, walk_read.c copies what it walks over, walk_fiber.c knows the fibers,
 * walk_json.c writes. What is allocated hangs on the walk, and cut.c frees it. Who lacks memory for a fiber or a call, or cannot write,
 * sets `failed`, and the walk ends.
 */
#ifndef MR_WALK_H
#define MR_WALK_H

#include "observe/rings.h"
#include "port/map.h"

#include <stddef.h>
#include <stdint.h>

enum { DEPTH = 8, BUFFER = 1 << 16, CALLS = 1024,
       TID = 9 };                                /* numbers of tracks are greater: one that is its group's would be called the main thread */
enum { NONE, WAITS, READY, RUNS };               /* states of a fiber, as its track shows them */

typedef struct piece {
  uint64_t seq, ticks, ns;
  unsigned thread, worker, count;
  char name[17];
  const uint64_t *words;
  size_t first;                                  /* the number of its first record */
} piece;

typedef struct fiber {
  uint64_t key;
  const uint64_t *name;                          /* the record */
  unsigned runs, track;                          /* track: 0 none */
  unsigned on;                                   /* the thread that runs it, plus 1 */
  size_t wake;                                   /* the number of the wake-up, plus 1, that it has not answered */
  unsigned how;                                  /* in what it waits, and for what */
  unsigned char state, woken, shows, flows;      /* woken: while it ran; shows: a slice is open; flows: that wake-up was shown */
} fiber;

typedef struct thread {
  unsigned id, worker, workers;                  /* worker: the one it holds, plus 1; workers: the first one */
  const char *name;
  piece *next, *end;                             /* its pieces, in order */
  unsigned at;                                   /* the record of the first that is next */
  uint64_t now;
  fiber *runs;
  unsigned depth;
  unsigned char what[DEPTH];
} thread;

typedef struct call { struct call *next; uint64_t id; const char *side; const uint64_t *text; unsigned tid; unsigned char shows; } call;

typedef struct walk {
  rings_head head;
  void *memory;                                  /* of pieces */
  piece *pieces;
  size_t npieces, nrecords;
  thread *threads, **heap;
  size_t nthreads, nheap;
  fiber **table;
  size_t nfibers, size;
  unsigned char *flows;                          /* a bit for each record: a wake-up with both ends */
  call *calls[CALLS];
  const uint64_t **numbers;                      /* 65536: the records of what is waited for */
  double rate;                                   /* nanoseconds in a tick */
  uint64_t from;                                 /* ticks: what was before is not shown */
  int surveys, shows, failed;                    /* surveys: only looks; shows: the first moment has come; failed: an errno value */
  uint64_t now;                                  /* ticks */
  /* the JSON */
  int fd;                                        /* -1: only counted */
  char *buffer;
  size_t len;
  uint64_t bytes, events;
  fiber **tracks;
  size_t ntracks;
  uint64_t *checks;                              /* bytes and ticks at each checkpoint */
  size_t nchecks;
} walk;

/* ---- walk_read.c ---- */

/* Fills an empty walk with a copy of the records, in pieces and threads. 0 or an errno value; EBADMSG: they are none. */
int mr_trace_read(walk *w, const port_map *m);

/* ---- walk_fiber.c ---- */

fiber *mr_trace_fiber_of(walk *w, uint64_t key);   /* made if it is new; NULL: no memory */
const fiber *mr_trace_fiber_known(const walk *w, uint64_t key);   /* NULL: there is none; after the first mr_trace_fiber_of */
void mr_trace_choose_tracks(walk *w);              /* those that ran most have one each */

/* ---- walk_json.c: each event is whole, and of the time `now` ---- */

void mr_trace_open_json(walk *w);                  /* and who is who */
void mr_trace_close_json(walk *w);
void mr_trace_event_begin(walk *w, unsigned pid, unsigned tid, const char *name);
void mr_trace_event_wait(walk *w, unsigned tid, const char *op, const uint64_t *number);   /* begins; for what: a REC_NUMBER, or NULL */
void mr_trace_event_end(walk *w, unsigned pid, unsigned tid);
void mr_trace_event_result(walk *w, unsigned tid, int64_t result);   /* an end, too: bytes, or minus an errno value */
void mr_trace_event_fiber(walk *w, const thread *t);   /* the one that it runs begins */
void mr_trace_event_flow(walk *w, char phase, unsigned tid, size_t id);
void mr_trace_event_instant(walk *w, const thread *t, const char *before, const fiber *f, const char *after);   /* f may be NULL */
void mr_trace_event_over(walk *w, const thread *t, const fiber *f, const uint64_t *record);   /* the fiber's end, a REC_END */
void mr_trace_event_call(walk *w, char phase, const call *c);

#endif
