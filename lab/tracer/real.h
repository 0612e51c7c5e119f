/* The allocator under the tracer: what the next library in the search order offers, looked up before the first call. */
#ifndef MARE_LAB_REAL_H
#define MARE_LAB_REAL_H

#include <stddef.h>

typedef struct tr_real_t {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
} tr_real_t;

extern tr_real_t tr_real __attribute__((visibility("hidden")));

/* Looks everything up and attaches, unless that was done. */
void tr_start(void);

#define TR_EXPORT __attribute__((visibility("default")))

#endif
