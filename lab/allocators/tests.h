/*
 * The tests of an allocator of this folder, two programs: edges (what each function must answer) and stress (threads that give back each other's
 * blocks, forks, endings). They call the C library's names, which a preloaded allocator serves; compiled with HEAP, the functions of heap.h, so that
 * a sanitizer can watch the allocator.
 */
#ifndef LAB_ALLOCATOR_TESTS_H
#define LAB_ALLOCATOR_TESTS_H

#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      _Exit(1); \
    } \
  } while (0)

#ifdef HEAP
#include "heap.h"
static inline void *take(size_t size) { return heap_allocate(size); }
static inline void *take_zeroed(size_t size) { return heap_zeroed(size); }
static inline void *take_aligned(size_t alignment, size_t size) { return heap_aligned(alignment, size); }
static inline void *resize(void *block, size_t size) { return heap_resize(block, size); }
static inline void give(void *block) { heap_release(block); }
static inline size_t usable(void *block) { return heap_usable(block); }
#else
static inline void *take(size_t size) { return malloc(size); }
static inline void *take_zeroed(size_t size) { return calloc(1, size); }
static inline void *take_aligned(size_t alignment, size_t size)
{
  void *block;
  return posix_memalign(&block, alignment, size) == 0 ? block : NULL;
}
static inline void *resize(void *block, size_t size) { return realloc(block, size); }
static inline void give(void *block) { free(block); }
static inline size_t usable(void *block) { return malloc_usable_size(block); }
#endif

/* A block's content tells its size and its seed; nothing else may have written into it. */
static inline void fill(unsigned char *block, size_t size, unsigned seed)
{
  for (size_t i = 0; i < size; i++) block[i] = (unsigned char)(seed + i * 7 + size);
}

static inline int holds(const unsigned char *block, size_t size, size_t filled, unsigned seed)
{
  for (size_t i = 0; i < size; i++)
    if (block[i] != (unsigned char)(seed + i * 7 + filled)) return 0;
  return 1;
}

static inline uint32_t step(uint32_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 17;
  return *x ^= *x << 5;
}

#endif
