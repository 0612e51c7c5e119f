/*
 * segment: where memory lies, and how what is known of it is found from an address alone.
 *
 *   segment    4 MiB, aligned to its size; 64 units of 64 KiB. The first unit has the records of all: 64 bytes each, so the first page
 *   span       1 to 8 units in a row, with blocks of one class; or 2 to 17 with one block (a run)
 *   large      a mapping of its own; the block begins in its first unit, or, aligned to 64 KiB and more, a little further
 *
 * A record belongs to the unit of its index. The first unit of a span has the span; those behind it say how far back that is. The record of a
 * segment's first unit, and of a large mapping, has no heap: no pointer into it is mistaken for one into a span. A block that is aligned to 4 MiB has
 * its record one unit below; no other block begins at a multiple of 4 MiB.
 */
#ifndef MA_SEGMENT_H
#define MA_SEGMENT_H

#include "class.h"
#include "messages.h"
#include <stdint.h>

#define MA_SEGMENT ((size_t)4 << 20)
#define MA_UNIT ((size_t)64 << 10)
enum { MA_UNITS = 64 };

typedef struct ma_heap ma_heap;
typedef struct ma_span ma_span;
typedef struct ma_segment ma_segment;

/* Who owns the span's heap reads and writes all of it. Others, who have a block in it, read `heap`, `back` and `size`; of a run `units`, too. */
struct ma_span {
  ma_block *free;
  ma_heap *heap;             /* NULL: a run, or no span begins here */
  int32_t count;             /* blocks in use, but 1 where the span is full: so that 0 always is what needs thought */
  uint32_t back;             /* bytes from the record of the span's first unit */
  uint32_t size;             /* of a block */
  uint16_t carved, capacity; /* blocks that were made, of so many */
  uint8_t class, units, state, flags;
  uint32_t spare[3];
  ma_span *next, *prev;      /* in the list of its class */
};

enum { MA_OPEN, MA_FULL };                     /* state: on the list of its class, on none */
enum { MA_ZERO = 1, MA_KEPT = 2, MA_BIG = 4, MA_RUN = 8 };
                             /* flags: what was not carved is zero; in ma_heap.kept; in a segment of huge pages; a run */

/* The record of a segment's first unit: guarded by the pool's lock, but for what is written once. */
struct ma_segment {
  uint64_t magic;
  ma_heap *heap;             /* NULL */
  uint32_t list;             /* of the pool's */
  uint32_t back;             /* 0 */
  uint64_t free;             /* units that belong to no span */
  uint64_t dirty;            /* of these, those whose pages may be there */
  ma_segment *next, *prev;
  uint64_t huge;
};

typedef struct {
  uint64_t magic;
  ma_heap *heap;             /* NULL */
  uint32_t spare;
  uint32_t back;             /* 0 */
  char *base;                /* of the mapping, */
  size_t mapped;             /* and its length */
  char *block;
} ma_large;

#define MA_MAGIC_SEGMENT UINT64_C(0x6d6172655f736567)
#define MA_MAGIC_LARGE UINT64_C(0x6d6172655f6c7267)

_Static_assert(sizeof(ma_span) == 64 && sizeof(ma_segment) == 64 && sizeof(ma_large) <= 64, "a record is 64 bytes");
_Static_assert(offsetof(ma_span, heap) == offsetof(ma_segment, heap) && offsetof(ma_span, heap) == offsetof(ma_large, heap), "one layout");
_Static_assert(offsetof(ma_span, back) == offsetof(ma_segment, back) && offsetof(ma_span, back) == offsetof(ma_large, back), "one layout");

static inline ma_segment *ma_segment_of(const void *p) { return (ma_segment *)((uintptr_t)p & ~(MA_SEGMENT - 1)); }
static inline size_t ma_offset(const void *p) { return (uintptr_t)p & (MA_SEGMENT - 1); }

/* The record of the span, or of what else p lies in; p at no multiple of 4 MiB. */
static inline ma_span *ma_span_of(const void *p)
{
  ma_span *s = (ma_span *)ma_segment_of(p) + ma_offset(p) / MA_UNIT;
  return (ma_span *)((char *)s - s->back);
}

static inline char *ma_span_start(const ma_span *s)
{
  return (char *)ma_segment_of(s) + (ma_offset(s) / sizeof *s) * MA_UNIT;
}

#endif
