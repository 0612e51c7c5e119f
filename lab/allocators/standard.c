/*
 * The names of the C library, on top of heap.h: everything that a program may ask glibc's allocator for, as glibc's manual wants it of one that takes
 * its place. The C++ operators need no names here: libstdc++'s call malloc and free. reallocarray needs none: glibc's calls realloc.
 *
 * What is the same for all allocators is decided here: sizes that overflow, alignments that are none, realloc to nothing.
 */
#define _GNU_SOURCE
#include "heap.h"
#include <errno.h>
#include <stdint.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static int power_of_two(size_t n) { return n && !(n & (n - 1)); }

EXPORT void *malloc(size_t size) { return heap_allocate(size); }

EXPORT void free(void *block)
{
  if (block) heap_release(block);
}

EXPORT void *calloc(size_t number, size_t size)
{
  size_t bytes;
  if (!__builtin_mul_overflow(number, size, &bytes)) return heap_zeroed(bytes);
  errno = ENOMEM;
  return NULL;
}

EXPORT void *realloc(void *block, size_t size)
{
  if (!block) return heap_allocate(size);
  if (size) return heap_resize(block, size);
  heap_release(block); /* as glibc does: programs rely on it */
  return NULL;
}

EXPORT int posix_memalign(void **into, size_t alignment, size_t size)
{
  if (!power_of_two(alignment) || alignment % sizeof(void *)) return EINVAL;
  int before = errno;
  void *block = heap_aligned(alignment, size);
  errno = before;
  if (!block) return ENOMEM;
  *into = block;
  return 0;
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
  if (power_of_two(alignment)) return heap_aligned(alignment, size);
  errno = EINVAL;
  return NULL;
}

/* memalign is older than the rule: the next power of two will do. */
EXPORT void *memalign(size_t alignment, size_t size)
{
  size_t power = 1;
  while (power < alignment && power <= SIZE_MAX / 4) power *= 2;
  return aligned_alloc(power >= alignment ? power : 0, size);
}

EXPORT void *valloc(size_t size) { return heap_aligned((size_t)sysconf(_SC_PAGESIZE), size); }

EXPORT void *pvalloc(size_t size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes;
  if (!__builtin_add_overflow(size, page - 1, &bytes)) return heap_aligned(page, bytes & ~(page - 1));
  errno = ENOMEM;
  return NULL;
}

EXPORT size_t malloc_usable_size(void *block) { return block ? heap_usable(block) : 0; }
