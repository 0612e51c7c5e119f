/*
 * A superblock: 64 KiB, aligned to its size, that holds a header and blocks of one size, a power of two from 8 to 256 bytes. Blocks lie at multiples
 * of their size, so each is aligned to it.
 *
 * Invariants:
 *  - `owner` changes only while no block is in use, so whoever holds a block may read the owner of its superblock without a lock;
 *  - everything else in it is touched by the thread of its owner alone. A block that another thread gives back is in use until the owner has
 *    taken it in;
 *  - `group` says how full it is: 4 when full, else used / capacity in quarters, and group g holds while fall <= used < rise;
 *  - blocks from `fresh` on were never handed out since the superblock got its size; `free` links those that came back, the last one first.
 */
#ifndef MISER_SUPERBLOCK_H
#define MISER_SUPERBLOCK_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { SUPERBLOCK = 1 << 16, HEADER = 64, SMALLEST = 8, LARGEST = 256, CLASSES = 6, GROUPS = 5, FULL = GROUPS - 1 };

struct heap;

typedef struct superblock {
  struct superblock *next, *previous; /* in the one list that it is on */
  _Atomic(struct heap *) owner;
  void *free;
  char *fresh;
  uint16_t size, used, capacity, rise, fall;
  uint8_t class, group;
} superblock;

_Static_assert(sizeof(superblock) <= HEADER, "a header takes no more room than it is given");

/* A doubly linked list, without an end of its own: its first superblock, or NULL. */
static inline void list_push(superblock **list, superblock *s)
{
  s->previous = NULL;
  s->next = *list;
  if (s->next) s->next->previous = s;
  *list = s;
}

static inline void list_remove(superblock **list, superblock *s)
{
  if (s->next) s->next->previous = s->previous;
  if (s->previous) s->previous->next = s->next;
  else *list = s->next;
}

static inline superblock *home(void *block) { return (superblock *)((uintptr_t)block & ~(uintptr_t)(SUPERBLOCK - 1)); }

/* 0 for 8 bytes and less, 5 for 256. */
static inline unsigned class_of(size_t size) { return size <= SMALLEST ? 0 : (unsigned)(8 * sizeof(long) - 3) - (unsigned)__builtin_clzl(size - 1); }

static inline void group_set(superblock *s)
{
  unsigned quarters = s->used * 4u / s->capacity, capacity = s->capacity;
  s->group = (uint8_t)quarters; /* exactly 4 when it is full */
  s->fall = (uint16_t)((quarters * capacity + 3) / 4);
  s->rise = (uint16_t)(quarters == FULL ? capacity + 1 : ((quarters + 1) * capacity + 3) / 4);
}

/* Makes blocks of a class of an empty superblock. */
static inline void superblock_format(superblock *s, unsigned class)
{
  s->class = (uint8_t)class;
  s->size = (uint16_t)(SMALLEST << class);
  unsigned start = s->size > HEADER ? s->size : HEADER;
  s->capacity = (uint16_t)((SUPERBLOCK - start) / s->size);
  s->fresh = (char *)s + start;
  s->free = NULL;
  s->used = 0;
  group_set(s);
}

/* One that isn't full gives a block. */
static inline void *superblock_take(superblock *s)
{
  void *block = s->free;
  s->used++;
  if (block) s->free = *(void **)block;
  else {
    block = s->fresh;
    s->fresh += s->size;
  }
  return block;
}

static inline void superblock_give(superblock *s, void *block)
{
  *(void **)block = s->free;
  s->free = block;
  s->used--;
}

#endif
