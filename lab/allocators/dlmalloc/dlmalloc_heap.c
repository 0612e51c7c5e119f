/*
 * Doug Lea's malloc as it comes, with the one lock that it has for threads: an allocator for one thread, beside which others are seen.
 * The lock is taken around a fork, so that the child finds everything whole.
 */
#define _GNU_SOURCE
#include "settings.h"
#include "dlmalloc.c"
#include "../forks.h"
#include "../heap.h"
#include "copied.h"

void *heap_allocate(size_t size)
{
  watch_forks();
  return dlmalloc(size);
}

void *heap_zeroed(size_t size)
{
  watch_forks();
  return dlcalloc(1, size);
}

void *heap_aligned(size_t alignment, size_t size)
{
  watch_forks();
  return dlmemalign(alignment, size);
}

void *heap_resize(void *block, size_t size) { return must_be_copied(block) ? resize_by_copying(block, size) : dlrealloc(block, size); }
size_t heap_usable(void *block) { return dlmalloc_usable_size(block); }

void heap_release(void *block)
{
  int before = errno;
  dlfree(block);
  errno = before;
}

static void before_fork(void)
{
  init_mparams();
  pthread_mutex_lock(&gm->mutex);
}

static void after_fork(void) { pthread_mutex_unlock(&gm->mutex); }
