/*
 * class: sizes of blocks. Steps of 16 bytes (malloc's alignment) up to 128, then eight to a doubling, up to 64 KiB: above 128 bytes a block is
 * at most an eighth larger than what was asked for.
 */
#ifndef MA_CLASS_H
#define MA_CLASS_H

#include <stddef.h>

enum {
  MA_GRAIN = 16,
  MA_DIRECT = 1024,          /* sizes up to here have a table in each heap */
  MA_SLOTS = MA_DIRECT / MA_GRAIN + 1,
  MA_CLASSES = 80,
  MA_CLASS_MOST = 64 * 1024  /* larger blocks have units or a mapping of their own */
};

/* Class of 1 to MA_CLASS_MOST bytes. */
static inline unsigned ma_class(size_t n)
{
  if (n <= 128) return (unsigned)((n - 1) / MA_GRAIN);
  unsigned log = 63u - (unsigned)__builtin_clzl(n - 1);
  return 8 * (log - 7) + (unsigned)((n - 1) >> (log - 3));
}

static inline size_t ma_class_size(unsigned c)
{
  if (c < 8) return (c + 1) * (size_t)MA_GRAIN;
  return (size_t)(9 + c % 8) << (c / 8 + 3);
}

#endif
