/*
 * Recording one event: the fast path, and what it needs of the rest.
 *
 * A writer is a stream's writing end. It is held by one thread at a time: `tr_self.writer` for ordinary calls, `tr_self.nested` for what a
 * signal handler does while `busy` says that its thread is in mid-record (or in a realloc). Words are filled in beyond the published position and
 * then published by a store each, to the chunk (for the launcher) and to the writer (for threads that take a region from it).
 *
 * Nothing is written before the region's owner was checked: after a fork the table is empty (MADV_WIPEONFORK), so the first event of the child goes
 * the slow way, which notices, and never touches the parent's chunk. Events without an address look at `tr_regions->alive` themselves.
 */
#ifndef MARE_LAB_RECORD_H
#define MARE_LAB_RECORD_H

#include "shared.h"

#define TR_GROUP_WORDS 8 /* what a group without a stack needs at most: thread, time, size, region and two, alignment, event */

typedef struct tr_writer {
  uint64_t *cur, *limit, *end; /* next word; where the fast path stops; no group begins at or beyond end */
  tr_chunk *chunk;
  uint64_t base;              /* position of the chunk's first word */
  uint64_t clock;             /* of the last time word */
  uint32_t id, slot, thread;  /* slot: of the chunk; thread: id last written into the stream */
  uint32_t countdown, draw;   /* allocations until the next stack; the last random number */
  uint32_t next;              /* among the idle ones */
  uint32_t session;           /* of the last event */
  _Alignas(64) _Atomic uint64_t position;
} tr_writer;

typedef struct tr_table {
  _Atomic uint64_t alive;               /* 0: this process was forked and hasn't noticed yet */
  _Alignas(64) _Atomic uint64_t region[MTR_REGIONS]; /* bits 44-57 the stream, 0-43 the sequence */
} tr_table;

typedef struct tr_self_t {
  tr_writer *writer, *nested;
  uint32_t thread;            /* its id; 0: not asked yet */
  unsigned char busy, nested_busy, dying;
  unsigned char label;        /* the C++ operator under way, for the malloc or free inside it */
  void *passed_over;          /* a block whose free a C++ operator has recorded already */
} tr_self_t;

extern __thread tr_self_t tr_self __attribute__((tls_model("initial-exec"), visibility("hidden")));
/* Set once, before the first event; a process that isn't traced never gets a writer. */
extern tr_shared *tr_map __attribute__((visibility("hidden")));
extern tr_table *tr_regions __attribute__((visibility("hidden")));

/* The mapping's clock, or one that stands. While it stands no hook does more than ask it. */
extern _Atomic(_Atomic uint64_t *) tr_clock __attribute__((visibility("hidden")));
static inline int tr_idle(void)
{
  return atomic_load_explicit(atomic_load_explicit(&tr_clock, memory_order_relaxed), memory_order_relaxed) == TR_STOPPED;
}

/* Every event that the fast path leaves: no writer yet, in a handler, a chunk's end, a foreign region, a fork, large sizes, stacks. */
void tr_slow(unsigned kind, uint64_t address, unsigned label, uint64_t size, unsigned alignment);

/* Maps what the launcher made, if the environment names it. To be called once, before the first event. */
void tr_attach(void);

#define tr_fence() atomic_signal_fence(memory_order_seq_cst)

static inline void tr_publish(tr_writer *w, uint64_t *end)
{
  uint32_t count = (uint32_t)(end - w->chunk->words);
  w->cur = end;
  atomic_store_explicit(&w->chunk->count, count, memory_order_release);
  atomic_store_explicit(&w->position, w->base + count, memory_order_release);
}

static inline void tr_record_labelled(unsigned kind, uint64_t address, unsigned label, uint64_t size)
{
  tr_self_t *self = &tr_self;
  if (__builtin_expect(!self->busy && address && size < MTR_SIZE_ESCAPE, 1)) {
    self->busy = 1;
    tr_fence();
    tr_writer *w = self->writer;
    if (__builtin_expect(w != NULL, 1)) {
      uint64_t owner = atomic_load_explicit(&tr_regions->region[mtr_region(address)], memory_order_acquire);
      uint64_t now = atomic_load_explicit(&tr_map->clock, memory_order_relaxed);
      if (__builtin_expect((owner >> 44) == w->id && now == w->clock && w->cur < w->limit, 1)) {
        *w->cur = mtr_event(kind, address, label, size);
        tr_publish(w, w->cur + 1);
        tr_fence();
        self->busy = 0;
        return;
      }
    }
    tr_fence();
    self->busy = 0;
  }
  tr_slow(kind, address, label, size, 0);
}

static inline void tr_record(unsigned kind, uint64_t address, uint64_t size)
{
  unsigned label = tr_self.label;
  tr_self.label = 0;
  tr_record_labelled(kind, address, label, size);
}

#endif
