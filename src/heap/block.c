/*
 * block: large blocks, each a mapping of its own, and the cache of freed ones.
 *
 * A program that makes and drops strings of a megabyte would spend its time in mmap, page faults and zeroing; so freed
 * blocks stay mapped, up to KEEP bytes, and the one freed last is handed out first, while its bytes are still in the
 * processor's cache. Beyond KEEP the ones unused for longest go back to the system.
 *
 * Invariants (lock held): a kept block is on the list of its class and on the list by age; `kept` is the sum of their
 * sizes and at most KEEP. No system call is made with the lock held.
 */
#include "pool.h"
#include "poison.h"
#include "port/port.h"

#include <string.h>

enum {
  PAGE = 4096,
  LOWEST = 15,               /* log2 of the smallest class */
  HIGHEST = 25,              /* of the largest that is kept */
  CLASSES = (HIGHEST - LOWEST) * 8 + 1,
  MOVE_FROM = 512 * 1024,    /* from here on remapping is cheaper than copying */
  HUGE_FROM = 8 * 1024 * 1024,
  HUGE = 2 * 1024 * 1024
};
#define KEEP ((size_t)32 * 1024 * 1024)

/* Written into a kept block. */
typedef struct kept_block {
  struct kept_block *next, *prev;    /* of its class, newest first */
  struct kept_block *older, *newer;
  size_t size;
} kept_block;

static port_lock lock;
static kept_block *lists[CLASSES];
static kept_block *newest, *oldest;
static size_t kept;
static atomic_size_t reserved;

/* Eight sizes to each doubling, all multiples of a page. */
size_t mr_block_size(size_t n) {
  if (n > (size_t)PTRDIFF_MAX / 2) return 0;
  if (n <= (size_t)1 << LOWEST) return (size_t)1 << LOWEST;
  size_t step = (size_t)1 << (PORT_LOG2(n - 1) - 3);
  return (n + step - 1) & ~(step - 1);
}

static unsigned class_of(size_t size) {
  unsigned k = PORT_LOG2(size);
  return (k - LOWEST) * 8 + (unsigned)(size >> (k - 3)) - 8;
}

static int keepable(size_t size) { return size <= (size_t)1 << HIGHEST; }

/* ---- the kept ones (lock held) ---- */

static void keep(kept_block *b, size_t size) {
  kept_block **list = &lists[class_of(size)];
  b->size = size;
  b->prev = NULL;
  b->next = *list;
  if (*list) (*list)->prev = b;
  *list = b;
  b->newer = NULL;
  b->older = newest;
  if (newest) newest->newer = b; else oldest = b;
  newest = b;
  kept += size;
}

static void unkeep(kept_block *b) {
  if (b->prev) b->prev->next = b->next; else lists[class_of(b->size)] = b->next;
  if (b->next) b->next->prev = b->prev;
  if (b->newer) b->newer->older = b->older; else newest = b->older;
  if (b->older) b->older->newer = b->newer; else oldest = b->newer;
  kept -= b->size;
}

/* Takes the oldest out until at most `most` bytes are kept; returns them as a list. */
static kept_block *evict(size_t most) {
  kept_block *dead = NULL;
  while (kept > most) {
    kept_block *b = oldest;
    unkeep(b);
    b->next = dead;
    dead = b;
  }
  return dead;
}

/* ---- system calls (lock not held) ---- */

static void *block_map(size_t size) {
  void *p = port_pages_reserve(size, size >= HUGE_FROM ? HUGE : PAGE);
  if (!p) return NULL;
  if (size >= HUGE_FROM) port_pages_huge(p, size);
  atomic_fetch_add_explicit(&reserved, size, memory_order_relaxed);
  return p;
}

static void block_unmap(void *p, size_t size) {
  MR_UNPOISON(p, size);
  atomic_fetch_sub_explicit(&reserved, size, memory_order_relaxed);
  port_pages_release(p, size);
}

static void release(kept_block *dead) {
  while (dead) {
    kept_block *b = dead;
    dead = b->next;
    block_unmap(b, b->size);
  }
}

/* ---- */

void *mr_block_get(size_t *size) {
  size_t n = mr_block_size(*size);
  if (!n || mr_pool_failing()) return NULL;
  *size = n;
  if (keepable(n)) {
    port_acquire(&lock);
    kept_block *b = lists[class_of(n)];
    if (b) unkeep(b);
    port_unlock(&lock);
    if (b) {
      MR_UNPOISON(b, n);
      return b;
    }
  }
  void *p = block_map(n);
  if (p) return p;
  mr_block_trim();
  return block_map(n);
}

void mr_block_put(void *p, size_t size) {
  if (!keepable(size)) {
    block_unmap(p, size);
    return;
  }
  MR_UNPOISON(p, size);
  MR_POISON((char *)p + sizeof(kept_block), size - sizeof(kept_block));
  port_acquire(&lock);
  keep(p, size);
  kept_block *dead = kept > KEEP ? evict(KEEP) : NULL;
  port_unlock(&lock);
  release(dead);
}

static void *resize_by_copy(void *p, size_t size, size_t *newsize) {
  void *q = mr_block_get(newsize);
  if (!q) return NULL;
  memcpy(q, p, size < *newsize ? size : *newsize);
  mr_block_put(p, size);
  return q;
}

void *mr_block_resize(void *p, size_t size, size_t *newsize) {
  size_t n = mr_block_size(*newsize);
  if (n == size) {
    *newsize = n;
    return p;
  }
  if (!n) return NULL;
  if (size < MOVE_FROM || n < MOVE_FROM) return resize_by_copy(p, size, newsize);
  if (mr_pool_failing()) return NULL;
  MR_UNPOISON(p, size);
  void *q = port_pages_remap(p, size, n);
  if (!q) return resize_by_copy(p, size, newsize);
  atomic_fetch_add_explicit(&reserved, n - size, memory_order_relaxed);
  *newsize = n;
  return q;
}

void mr_block_trim(void) {
  port_acquire(&lock);
  kept_block *dead = evict(0);
  port_unlock(&lock);
  release(dead);
}

size_t mr_block_reserved(void) { return atomic_load_explicit(&reserved, memory_order_relaxed); }
