/*
 * arena: the inside of a heap, for heap.c, image.c and heap_check.c alone.
 *
 * Memory of an arena is at every moment exactly one of: a live block, a free block (on the list of its class), the bump
 * region [bump, end), or a header (of a chunk, of a large block, the heap itself, the mids table).
 *
 * limit - room is what is in use. With a budget `limit` is no limit but what has been taken from the budget: when `room` ends, the slow
 * path takes more (mr_heap_more).
 */
#ifndef MR_ARENA_H
#define MR_ARENA_H

#include "heap/class.h"
#include "heap/heap.h"
#include "heap/pool.h"

typedef struct mr_link { struct mr_link *next; } mr_link;

/*
 * Heads a large block, somewhere in its first page (see large_colour). One that was shrunk below MR_ARENA_MAX for want
 * of memory stays here, and its space is the arena's.
 */
typedef struct mr_large {
  struct mr_large *next, *prev;
  size_t size;                    /* of the block: what mr_block_get said */
  size_t adopted;
} mr_large;

enum { MR_PAGE = 4096 };

static inline char *mr_large_block(const mr_large *b) { return (char *)((uintptr_t)b & ~(uintptr_t)(MR_PAGE - 1)); }
static inline size_t mr_large_offset(const mr_large *b) { return (uintptr_t)b % MR_PAGE; }

struct mr_heap {
  mr_chunk chunk;                 /* the first chunk, at whose start the heap lives; `next` lists the others */
  ptrdiff_t room;                 /* limit - used */
  size_t fast;                    /* frees up to this size take the fast path: MR_SMALL, or 0 when dying */
  char *bump, *end;               /* never used yet, inside the newest chunk */
  mr_link *heads[MR_HEADS];
  mr_link **mids;                 /* MR_MIDS more lists, inside the first free block of such a class; NULL before */
  uint64_t midmap;                /* which of them are not empty */
  mr_large *large;
  size_t colours;                 /* how many large blocks were made */
  size_t arena, widest;           /* bytes of chunks and adopted blocks, now and at most */
  size_t mapped, mapped_used;     /* bytes of the other large blocks, and what was asked of them */
  ptrdiff_t limit;                /* PTRDIFF_MAX = none; with a budget: what was taken from it */
  mr_budget *budget;              /* NULL: none */
  ptrdiff_t most;                 /* with a budget: the heap's own limit */
  size_t scattered;               /* free bytes that the last joining found in pieces too small */
  atomic_size_t *shown;           /* where others read what it holds, or NULL */
};

/* In builds with checks: what cannot be walked for want of memory is taken for sound. */
#define mr_heap_verify(h) mr_assert(mr_heap_check(h) <= 0)

/* Makes a heap of a chunk's bytes. */
void mr_heap_init(mr_heap *h, mr_chunk c, size_t limit);
/* Puts free space on the lists. n is a multiple of 8. */
void mr_arena_give(mr_heap *h, char *p, size_t n);
/* Joins free neighbours, if much is free; 0: nothing came of it. Lists and bump region are new afterwards. */
int  mr_heap_coalesce(mr_heap *h);
/* room < n: 1: the budget has more, and room is enough now. */
int  mr_heap_more(mr_heap *h, size_t n);
/* It has a budget and is dying: finalisers of a process that met its end find a little room. */
void mr_heap_grace(mr_heap *h);
/* What it holds has changed. */
static inline void mr_heap_tell(const mr_heap *h) {
  if (h->shown) atomic_store_explicit(h->shown, h->arena + h->mapped, memory_order_relaxed);
}
/* Gives back all but the first chunk. */
void mr_heap_strip(mr_heap *h);

#endif
