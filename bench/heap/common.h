/* What the heap's two measurements share: the other allocator, and the clock. */
#ifndef MARE_BENCH_HEAP_COMMON_H
#define MARE_BENCH_HEAP_COMMON_H
#include "../median.h"
#include <stdlib.h>
#include <time.h>

/* lua_Alloc over malloc, as the auxiliary library's own. */
static void *with_malloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  (void)ud; (void)osize;
  if (nsize) return realloc(ptr, nsize);
  free(ptr);
  return NULL;
}

/* CPU time of this process, in seconds: neighbours disturb it less than the clock on the wall. */
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}
#endif
