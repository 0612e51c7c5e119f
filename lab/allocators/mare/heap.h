/*
 * heap: the spans of one thread, and how blocks come from them and go back.
 *
 * A heap belongs to one thread at a time, its owner; all of it but `messages` and `orphan` is the owner's alone. A heap whose thread has ended is an
 * *orphan*: it is owned by who holds the lock of orphans (threads.c), until a new thread takes it over.
 *
 * The first span of a class's list is the one that blocks are taken from. A class without spans has `ma_nothing` there, which never has a block; so
 * the fast path asks only whether there is one. `direct` says for sizes up to MA_DIRECT what `first` says, without a class.
 *
 * A block in use belongs to one span, and that to one heap for as long as it has a block in use. Whoever frees it either owns that heap and puts it
 * back, or sends it: it goes to `messages`, and the owner puts all of them back when it next runs out of blocks of some class.
 */
#ifndef MA_HEAP_H
#define MA_HEAP_H

#include "segment.h"
#include <stdatomic.h>

#define MA_HOT __attribute__((hot))
#define MA_COLD __attribute__((noinline))
#define MA_LIKELY(x) __builtin_expect(!!(x), 1)
#define MA_UNLIKELY(x) __builtin_expect(!!(x), 0)

enum { MA_RING = 64 };

struct ma_heap {
  ma_span *direct[MA_SLOTS];
  ma_span *first[MA_CLASSES], *last[MA_CLASSES];
  ma_span *kept[MA_RING];         /* spans that became empty, the oldest at `oldest`; not given back yet */
  unsigned oldest, kept_count;
  size_t spans;                   /* of all classes */
  uint32_t spans_of[MA_CLASSES];
  unsigned colours;               /* runs begin at different places of their pages */
  ma_heap *next;                  /* orphan */
  _Alignas(64) ma_messages messages;
  _Atomic int orphan;
};

extern ma_span ma_nothing;
extern ma_heap ma_nobody;         /* the heap of threads that have none yet; it has no span and never gets one */

void ma_heap_init(ma_heap *h);

/* A block of class c where the first span has none; *zero becomes 1 if it is zero but for its first word. NULL: no memory. */
void *ma_heap_more(ma_heap *h, unsigned c, int *zero);

/* A run: a span with one block, which belongs to no heap. */
void *ma_heap_run(ma_heap *h, size_t n, size_t align, int *zero);

/* The run holds n bytes, where it is; 0: not possible. */
int ma_heap_run_resize(ma_span *s, const char *p, size_t n);

/* The span's count came to 0, or below. */
void ma_heap_settle(ma_heap *h, ma_span *s);

/* A block goes to a heap that isn't the caller's. */
void ma_heap_send(ma_heap *h, ma_block *b);

/* Puts back what others sent. */
void ma_heap_drain(ma_heap *h);

/* Gives back every empty span. 1: there was one. */
int ma_heap_tidy(ma_heap *h);

static inline void *ma_pop(ma_span *s)
{
  ma_block *b = s->free;
  s->free = b->next;
  s->count++;
  return b;
}

/* The block goes back to its span, by the owner. */
static inline void ma_put(ma_heap *h, ma_span *s, ma_block *b)
{
  b->next = s->free;
  s->free = b;
  if (MA_UNLIKELY(--s->count <= 0)) ma_heap_settle(h, s);
}

#endif
