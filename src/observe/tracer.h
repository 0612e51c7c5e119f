/*
 * tracer: the part of a trace that each hop passes, inline: for trace.c and run/traced.c. See trace.h.
 *
 * Who is handed over to, and runs next on the same thread, costs one record and one look at the clock, though there are a wake-up and a switch: the
 * time of the switch is that of both. Only if there was a tick in between, which comes every millisecond, it may be long: then the wake-up was soon
 * after the tick before it. So a wake-up may be shown too late, but by less than a tick, and never after its waker has stopped. What runs is exact.
 */
#ifndef MR_TRACER_H
#define MR_TRACER_H

#include "observe/rings.h"
#include "observe/trace.h"
#include "port/ticks.h"

typedef struct mr_tracer {
  _Atomic uint64_t *at, *end;                    /* where its next record goes, and where there is no room any more */
  uint64_t how;                                  /* TRACER_RUNS; else it has paused its fiber, and not said so: how that stopped; 0: neither */
  const char *op;                                /* the last it has asked for */
  uint64_t op_id;
  uint64_t last;                                 /* the time of its last record */
  uint64_t passed, passed_at;                    /* whom it is going to run next has been woken, and not said so: key << 12; after which tick. 0: nobody */
  rings_chunk *chunk;                            /* NULL: none, or none was to be had */
  const char *name;
  unsigned thread, worker;                       /* as in the chunk's head */
} mr_tracer;

/* Of `how`: a way to stop, 12 bits; the number of what it waits for, 16 bits; or: it runs a fiber of which it has said so. */
#define TRACER_HOW 0xfffffffu
#define TRACER_RUNS 0x10000000u

typedef struct mr_trace_shared {
  uint64_t began;                                /* ticks of the clock */
  _Atomic uint64_t tick;                         /* when the last tick was */
  atomic_uint epoch;
} mr_trace_shared;

extern PORT_TLS mr_tracer mr_trace_self;
extern mr_trace_shared mr_trace_all;

int  mr_trace_more(mr_tracer *t, unsigned n);
void mr_trace_settle_passed(mr_tracer *t, uint64_t time);
void mr_trace_woken_slowly(uint64_t key, unsigned reason, int next);
uint64_t mr_trace_op_find(const char *op);

static inline uint64_t mr_trace_now(void) { return port_ticks() - mr_trace_all.began; }
/* 1…255: in each one a fiber's name is to be recorded again, or it would be lost with old records. */
static inline unsigned mr_trace_epoch(void) { return atomic_load_explicit(&mr_trace_all.epoch, memory_order_relaxed); }

/* There is room. A record is there when its first word is: what was in the chunk before is gone, see rings.h. */
static inline void mr_trace_write(mr_tracer *t, uint64_t first, uint64_t second) {
  _Atomic uint64_t *at = t->at;
  t->at = at + 2;
  atomic_store_explicit(&at[1], second, memory_order_relaxed);
  atomic_store_explicit(&at[0], first, memory_order_release);
}

static inline void mr_trace_put(mr_tracer *t, uint64_t first, uint64_t second) {
  if (PORT_LIKELY(t->at != t->end) || mr_trace_more(t, 1)) mr_trace_write(t, first, second);
}

static inline void mr_trace_record(mr_tracer *t, uint64_t time, unsigned kind, uint64_t second) {
  if (PORT_UNLIKELY(t->passed != 0)) mr_trace_settle_passed(t, time);
  mr_trace_put(t, time << 8 | kind, second);
  t->last = time;
}

/* The calling thread runs it, until the next call of this, or of mr_trace_pause. */
void mr_trace_run(uint64_t key);
/* The same for the first fiber of a process which it has woken just now; 0: it has not, nothing is done. */
static inline int mr_trace_run_passed(uint64_t key) {
  mr_tracer *t = &mr_trace_self;
  uint64_t who = key << 12;
  if (PORT_UNLIKELY(t->passed != who) || PORT_UNLIKELY(t->at == t->end) ||
      PORT_UNLIKELY(atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed) != t->passed_at)) return 0;
  uint64_t time = mr_trace_now();
  t->passed = 0;
  t->last = time;
  mr_trace_write(t, time << 8 | REC_PASS, who | (t->how & TRACER_HOW));
  t->how = TRACER_RUNS;
  return 1;
}

/* ... stops to run it; when that was is only known when it runs another, or calls mr_trace_idle. */
static inline void mr_trace_pause(unsigned how) { mr_trace_self.how = how; }

/* ... as it waits. op: a string that stays. number: of what it waits for, see mr_trace_number; 0: nothing that can be named */
static inline void mr_trace_pause_in(const char *op, unsigned number) {
  uint64_t id = mr_trace_op_find(op);
  mr_trace_self.how = id | (uint64_t)number << 12;
}

/* The same; 0: its last operation was another one, nothing is done. */
static inline int mr_trace_pause_again(const char *op, unsigned number) {
  mr_tracer *t = &mr_trace_self;
  if (PORT_UNLIKELY(t->op != op)) return 0;
  t->how = t->op_id | (uint64_t)number << 12;
  return 1;
}

/*
 * What is waited for has a number, and its name is recorded once in each epoch. `traced`: what was stored there last, 0 at first. Greater than
 * 0xffff: it has no number yet in this epoch.
 */
static inline unsigned mr_trace_number(unsigned traced) { return traced ^ mr_trace_epoch() << 16; }
unsigned mr_trace_numbered(const char *name);      /* a new one: what is to be stored */

/* By the calling thread, which probably runs it next. */
static inline void mr_trace_woken(uint64_t key, unsigned reason, int next) {
  mr_tracer *t = &mr_trace_self;
  if (PORT_UNLIKELY(!next) || PORT_UNLIKELY(t->how != TRACER_RUNS) || PORT_UNLIKELY(t->passed != 0)) {
    mr_trace_woken_slowly(key, reason, next);
    return;
  }
  t->passed = key << 12;
  t->passed_at = atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed);
}

#endif
