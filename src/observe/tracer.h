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
  rings_chunk *chunk;                            /* NULL: none, or none was to be had */
  unsigned count;                                /* records in there */
  unsigned how;                                  /* it has paused its fiber, and not said so: how that stopped */
  unsigned char runs;                            /* a fiber of which it has said so */
  unsigned op_id;                                /* of op, the last it has asked for */
  const char *op;
  uint64_t last;                                 /* the time of its last record */
  uint64_t passed, passed_at;                    /* whom it is going to run next has been woken, and not said so: key; after which tick. 0: nobody */
  const char *name;
  unsigned thread, worker;                       /* as in the chunk's head */
} mr_tracer;

typedef struct mr_trace_shared {
  uint64_t began;                                /* ticks of the clock */
  _Atomic uint64_t tick;                         /* when the last tick was */
  atomic_uint epoch;
} mr_trace_shared;

extern PORT_TLS mr_tracer mr_trace_self;
extern mr_trace_shared mr_trace_all;

int  mr_trace_more(mr_tracer *t, unsigned n);
void mr_trace_settle_passed(mr_tracer *t, uint64_t time);
void mr_trace_woken_elsewhere(uint64_t key, unsigned reason);
unsigned mr_trace_op_find(const char *op);

static inline uint64_t mr_trace_now(void) { return port_ticks() - mr_trace_all.began; }
/* 1…255: in each one a fiber's name is to be recorded again, or it would be lost with old records. */
static inline unsigned mr_trace_epoch(void) { return atomic_load_explicit(&mr_trace_all.epoch, memory_order_relaxed); }

static inline void mr_trace_put(mr_tracer *t, uint64_t first, uint64_t second) {
  if (PORT_UNLIKELY(t->at == t->end) && !mr_trace_more(t, 1)) return;
  atomic_store_explicit(&t->at[0], first, memory_order_relaxed);
  atomic_store_explicit(&t->at[1], second, memory_order_relaxed);
  t->at += 2;
  atomic_store_explicit(&t->chunk->count, ++t->count, memory_order_release);
}

static inline void mr_trace_record(mr_tracer *t, uint64_t time, unsigned kind, uint64_t second) {
  if (PORT_UNLIKELY(t->passed != 0)) mr_trace_settle_passed(t, time);
  mr_trace_put(t, time << 8 | kind, second);
  t->last = time;
}

/* op: a string that stays */
static inline unsigned mr_trace_op(const char *op) {
  mr_tracer *t = &mr_trace_self;
  if (PORT_UNLIKELY(t->op != op || !t->op_id)) {
    t->op_id = mr_trace_op_find(op);
    t->op = op;
  }
  return t->op_id;
}

/* The calling thread runs it, until the next call of this, or of mr_trace_pause. */
static inline void mr_trace_run(uint64_t key) {
  mr_tracer *t = &mr_trace_self;
  uint64_t time = mr_trace_now(), second = key << 12 | t->how;
  t->how = 0;
  t->runs = 1;
  if (t->passed == key && atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed) == t->passed_at) {
    t->passed = 0;
    mr_trace_put(t, time << 8 | REC_PASS, second);
    t->last = time;
  } else {
    mr_trace_record(t, time, REC_RUN, second);
  }
}

/* ... stops to run it; when that was is only known when it runs another, or calls mr_trace_idle. */
static inline void mr_trace_pause(unsigned how) {
  mr_trace_self.how = how;
  mr_trace_self.runs = 0;
}

/* By the calling thread, which probably runs it next. */
static inline void mr_trace_woken(uint64_t key, unsigned reason, int next) {
  mr_tracer *t = &mr_trace_self;
  if (PORT_UNLIKELY(!next || !t->runs)) {
    mr_trace_woken_elsewhere(key, reason);
    return;
  }
  if (PORT_UNLIKELY(t->passed != 0)) mr_trace_settle_passed(t, t->last = mr_trace_now());
  t->passed = key;
  t->passed_at = atomic_load_explicit(&mr_trace_all.tick, memory_order_relaxed);
}

#endif
