/* pool: segments, and their units for all heaps of the program. Every function may be called by any thread. */
#ifndef MA_POOL_H
#define MA_POOL_H

#include "segment.h"

/* A span of so many units (at most 63), for small blocks or else for a run: `units` and `flags` are set, all else is zero. NULL: no memory. */
ma_span *ma_pool_take(unsigned units, int small);

/* Gives a span back; its pages go back to the system now or when more than an eighth of what is in use is free. */
void ma_pool_give(ma_span *s);

/* The span becomes so many units, where it is. 0: what follows is not free. */
int ma_pool_resize(ma_span *s, unsigned units);

/* Has the system put all pages of a new span there at once. */
void ma_pool_populate(ma_span *s);

/* All free pages go back. 1: there were some. */
int ma_pool_trim(void);

/* A mapping of so many bytes (a multiple of MA_UNIT), its address a multiple of MA_SEGMENT; NULL: no memory. */
char *ma_map(size_t bytes);
void ma_unmap(void *p, size_t bytes);

void ma_pool_fork(int stage); /* 0 before, 1 in the parent, 2 in the child */

/* Says what was wrong with a pointer, and ends the program. */
_Noreturn void ma_die(const char *what, const void *p);

#endif
