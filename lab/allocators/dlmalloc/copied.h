/*
 * Included after dlmalloc.c and heap.h. dlmalloc's realloc of a block with pages of its own counts on its lying at their beginning: one that an
 * alignment has moved further in gets less room than it asked for. Such blocks are copied instead.
 */
#include <string.h>

/* May be asked without a lock: no other thread changes these bits while the block is in use. */
__attribute__((no_sanitize_thread, noinline)) static int must_be_copied(void *block)
{
  mchunkptr chunk = mem2chunk(block);
  return is_mmapped(chunk) && (chunk->prev_foot & ~IS_MMAPPED_BIT) > CHUNK_ALIGN_MASK;
}

static void *resize_by_copying(void *block, size_t size)
{
  size_t had = heap_usable(block);
  void *other = heap_allocate(size);
  if (!other) return NULL;
  memcpy(other, block, had < size ? had : size);
  heap_release(block);
  return other;
}
