/*
 * class: the sizes an arena hands out.
 *
 * Steps of 8 bytes up to 128, where nearly all of Lua's requests are; above, eight steps to each doubling, so that
 * 2^n, 24*2^n and 40*2^n (arrays, nodes, stacks) are classes of their own and at most an eighth is lost. Every size is
 * a multiple of 8, so any remainder can be cut into classes without loss.
 */
#ifndef MR_CLASS_H
#define MR_CLASS_H

#include "port/port.h"

enum {
  MR_SMALL = 128,        /* largest size of the 8-byte steps: the fast path */
  MR_HEADS = 32,         /* classes whose free lists are in the heap itself: up to 512 bytes */
  MR_CLASSES = 80,
  MR_MIDS = MR_CLASSES - MR_HEADS,
  MR_ARENA_MAX = 32768   /* larger requests are blocks of their own */
};

/* The class of a request, 1 <= n <= MR_ARENA_MAX. */
static inline unsigned mr_sizeclass(size_t n) {
  n--;
  if (n < MR_SMALL) return (unsigned)(n >> 3);
  unsigned k = PORT_LOG2(n);
  return 8 + (k - 7) * 8 + (unsigned)(n >> (k - 3));
}

static inline size_t mr_sizeclass_size(unsigned c) {
  if (c < 16) return (c + 1) * (size_t)8;
  unsigned d = (c - 16) / 8, r = (c - 16) % 8 + 9;
  return (size_t)r << (d + 4);
}

/* The largest class that fits into n bytes; n >= 8. */
static inline unsigned mr_sizeclass_floor(size_t n) {
  if (n >= MR_ARENA_MAX) return MR_CLASSES - 1;
  unsigned c = mr_sizeclass(n);
  return mr_sizeclass_size(c) > n ? c - 1 : c;
}

#endif
