/* large: blocks with a mapping of their own, and a few mappings that were freed. Every function may be called by any thread. */
#ifndef MA_LARGE_H
#define MA_LARGE_H

#include "segment.h"

/* A block of n bytes at a multiple of `align`, a power of two; NULL: no memory. With `zero` it is zero. */
void *ma_large_get(size_t n, size_t align, int zero);

void ma_large_put(ma_large *b);

/* The block with room for n bytes, perhaps elsewhere; NULL: not possible, it stays as it is. Not for blocks aligned to MA_SEGMENT. */
void *ma_large_resize(ma_large *b, size_t n);

size_t ma_large_size(const ma_large *b);

/* What p is a block of; ends the program if it is none. */
ma_large *ma_large_of(void *p);

/* What was kept for more than a second goes back. Cheap when nothing is kept: heaps call it whenever they take a span. */
void ma_large_age(void);

int ma_large_trim(void);
void ma_large_fork(int stage);

#endif
