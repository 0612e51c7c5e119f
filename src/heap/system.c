/*
 * system: malloc as a process's heap, with the same counting and the same limit.
 *
 * The mr_heap serves as the account only. For programs whose C libraries, or whose developers' tools, want every block
 * to come from malloc.
 */
#include "heap/arena.h"

#include <stdlib.h>

static void tell(const mr_heap *h) {
  if (h->shown) atomic_store_explicit(h->shown, mr_heap_used(h), memory_order_relaxed);
}

void *mr_heap_alloc_system(void *ud, void *ptr, size_t osize, size_t nsize) {
  mr_heap *h = ud;
  mr_assert_unlocked();
  if (!ptr) osize = 0;                     /* Lua tells the kind of object there */
  if (nsize == 0) {
    free(ptr);
    h->room += (ptrdiff_t)osize;
    if (h->budget) mr_heap_settle(h);
    tell(h);
    return NULL;
  }
  if (nsize > osize && (nsize > (size_t)PTRDIFF_MAX / 2 || (h->room < (ptrdiff_t)(nsize - osize) && !mr_heap_more(h, nsize - osize)))) return NULL;
  void *p = mr_pool_failing() && nsize > osize ? NULL : realloc(ptr, nsize);
  if (!p) {
    if (nsize > osize) return NULL;
    p = ptr;                               /* shrinking never fails */
  }
  h->room += (ptrdiff_t)osize - (ptrdiff_t)nsize;
  tell(h);
  return p;
}
