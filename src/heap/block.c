/*
 * block: large blocks, each a mapping of its own, and the cache of freed ones.
 *
 * A program that makes and drops strings of a megabyte would spend its time in mmap, page faults and zeroing; so freed
 * blocks stay mapped, and the one freed last is handed out first, while its bytes are still in the processor's cache.
 * A block a quarter larger than asked will do. What is kept and what lives together hardly exceed what lived at the
 * recent peak (or FLOOR): keeping blocks does not make the program larger. The ones unused for longest go first.
 *
 * Invariants (lock held): a kept block is on the list of its class and on the list by age; `filled` has a bit for each
 * list that isn't empty; `kept` is the sum of their sizes. No system call is made with the lock held.
 */
#include "heap/pool.h"
#include "heap/poison.h"
#include "port/port.h"

#include <string.h>

enum {
  PAGE = 4096,
  LOWEST = 15,               /* log2 of the smallest class */
  HIGHEST = 26,              /* of the largest that is kept */
  CLASSES = (HIGHEST - LOWEST) * 8 + 1,
  MOVE_FROM = 512 * 1024,    /* from here on remapping is cheaper than copying */
  HUGE_FROM = 4 * 1024 * 1024,
  HUGE = 2 * 1024 * 1024,
  MEMORY = 16                /* peaks' worth of freed bytes after which a third of a peak is left */
};
#define FLOOR ((size_t)2 * 1024 * 1024)

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
static size_t live, peak;         /* bytes of blocks handed out that could be kept */
static uint64_t filled[2];
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
  unsigned c = class_of(size);
  kept_block **list = &lists[c];
  filled[c / 64] |= (uint64_t)1 << c % 64;
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
  unsigned c = class_of(b->size);
  if (b->prev) b->prev->next = b->next; else lists[c] = b->next;
  if (!lists[c]) filled[c / 64] &= ~((uint64_t)1 << c % 64);
  if (b->next) b->next->prev = b->prev;
  if (b->newer) b->newer->older = b->older; else newest = b->older;
  if (b->older) b->older->newer = b->newer; else oldest = b->newer;
  kept -= b->size;
}

/* The best fitting one, at most a quarter too large; NULL: there is none. */
static kept_block *unkeep_fitting(size_t size) {
  unsigned from = class_of(size), w = from / 64;
  uint64_t bits = filled[w] & ~(uint64_t)0 << from % 64;
  if (!bits && w == 0) bits = filled[w = 1];
  if (!bits) return NULL;
  kept_block *b = lists[w * 64 + PORT_LOWBIT(bits)];
  if (b->size > size + size / 4) return NULL;
  unkeep(b);
  return b;
}

static void enters(size_t size) {
  live += size;
  if (live > peak) peak = live;
}

/* The peak is forgotten as the program frees many times as much. */
static void leaves(size_t size) {
  mr_assert(live >= size);
  live -= size;
  peak -= (peak - live) / (MEMORY * (peak / size + 1));
}

static size_t may_keep(void) {
  size_t most = peak + peak / 16;    /* the peak fades with each block; what was just freed must not go for that */
  if (most < FLOOR) most = FLOOR;
  return most > live ? most - live : 0;
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

#ifdef MR_CHECKS
static void kept_check(void) {
  size_t bytes = 0, by_age = 0, by_class = 0;
  mr_assert_locked(&lock);
  for (const kept_block *b = newest; b; b = b->older, by_age++) {
    mr_assert(b->older ? b->older->newer == b : oldest == b);
    bytes += b->size;
  }
  for (unsigned c = 0; c < CLASSES; c++) {
    mr_assert((filled[c / 64] >> c % 64 & 1) == (lists[c] != NULL));
    for (const kept_block *b = lists[c]; b; b = b->next, by_class++)
      mr_assert(class_of(b->size) == c && (!b->next || b->next->prev == b));
  }
  mr_assert(bytes == kept && by_age == by_class && live <= peak);
}
#endif

/* ---- system calls (lock not held) ---- */

static size_t alignment(size_t size) { return size >= HUGE_FROM ? HUGE : PAGE; }

static void *block_map(size_t size) {
  mr_assert_unlocked();
  void *p = port_pages_reserve(size, alignment(size));
  if (!p) return NULL;
  if (size >= HUGE_FROM) port_pages_huge(p, size);
  atomic_fetch_add_explicit(&reserved, size, memory_order_relaxed);
  return p;
}

static void block_unmap(void *p, size_t size) {
  mr_assert_unlocked();
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

static void *block_fresh(size_t n) {
  void *p = block_map(n);
  if (p) return p;
  mr_block_trim();
  return block_map(n);
}

void *mr_block_get(size_t *size) {
  size_t n = mr_block_size(*size);
  if (!n || mr_pool_failing()) return NULL;
  *size = n;
  if (!keepable(n)) return block_fresh(n);
  port_acquire(&lock);
  kept_block *b = unkeep_fitting(n);
  enters(b ? b->size : n);
  kept_block *dead = evict(may_keep());
  MR_CHECK_SOME(8, kept_check());
  port_unlock(&lock);
  release(dead);
  if (b) {
    *size = b->size;
    MR_UNPOISON(b, b->size);
    return b;
  }
  void *p = block_fresh(n);
  if (p) return p;
  port_acquire(&lock);
  leaves(n);
  port_unlock(&lock);
  return NULL;
}

void mr_block_put(void *p, size_t size) {
  if (!keepable(size)) {
    block_unmap(p, size);
    return;
  }
  MR_UNPOISON(p, size);
  MR_POISON((char *)p + sizeof(kept_block), size - sizeof(kept_block));
  port_acquire(&lock);
  leaves(size);
  keep(p, size);
  kept_block *dead = evict(may_keep());
  MR_CHECK_SOME(8, kept_check());
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

static void *resize_by_remap(void *p, size_t size, size_t n) {
  if (mr_pool_failing()) return NULL;
  MR_UNPOISON(p, size);
  void *q = port_pages_remap(p, size, n, alignment(n));
  if (!q) return NULL;
  if (n >= HUGE_FROM && size < HUGE_FROM) port_pages_huge(q, n);
  atomic_fetch_add_explicit(&reserved, n - size, memory_order_relaxed);
  port_acquire(&lock);
  if (keepable(size)) leaves(size);
  if (keepable(n)) enters(n);
  kept_block *dead = evict(may_keep());
  MR_CHECK_SOME(8, kept_check());
  port_unlock(&lock);
  release(dead);
  return q;
}

void *mr_block_resize(void *p, size_t size, size_t *newsize) {
  size_t n = mr_block_size(*newsize);
  if (n <= size && n >= size - size / 4) {
    *newsize = size;
    return p;
  }
  if (!n) return NULL;
  if (size < MOVE_FROM || n < MOVE_FROM) return resize_by_copy(p, size, newsize);
  void *q = resize_by_remap(p, size, n);
  if (!q) return resize_by_copy(p, size, newsize);
  *newsize = n;
  return q;
}

void mr_block_trim(void) {
  port_acquire(&lock);
  kept_block *dead = evict(0);
  peak = live;
  port_unlock(&lock);
  release(dead);
}

size_t mr_block_reserved(void) { return atomic_load_explicit(&reserved, memory_order_relaxed); }
