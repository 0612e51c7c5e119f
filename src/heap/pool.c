/*
 * pool: slabs cut into chunks, and each thread's few chunks at hand.
 *
 * Invariants (the kind's lock held):
 *  - a slab is on its kind's list exactly if it has a chunk to give (free or never used);
 *  - slab->used counts the chunks that heaps and thread caches hold; 0 = empty, counted in kind->empty;
 *  - chunks from `fresh` on were never touched, so their pages cost nothing yet.
 * A thread's cache is that thread's alone. Locks are held for a handful of chunks, and never while mapping: a slab
 * being made is nobody's until it is linked.
 */
#include "heap/pool.h"
#include "heap/heap.h"
#include "heap/poison.h"
#include "port/port.h"

enum {
  SLAB = 2 * 1024 * 1024,
  SLAB_HEAD = 256,       /* so that chunks of a size that is a multiple of 256 begin at one: images need it */
  FIXED = 5,             /* kinds of 1, 4, 16, 64, 256 KiB: few, so that what one heap gave back serves the next */
  KINDS = 12,            /* and those made for images */
  CACHE_BYTES = 128 * 1024,
  CACHE_CHUNKS = 64,
  HUGE_FROM = 16,        /* slabs of a kind before huge pages are asked for: half of the last one is wasted on average */
  HUGE_FROM_IMAGE = 4    /* thousands of states, each touched here and there, gain most */
};

typedef struct slab {
  struct slab *next, *prev;
  mr_chunk *free;
  uint32_t used, fresh, count, kind;
} slab;

typedef struct kind {
  port_lock lock;
  uint32_t size;         /* of a chunk; 0 = not in use */
  uint32_t hold;         /* chunks a thread keeps at most */
  slab *slabs;           /* those with something to give; empty ones last */
  slab *last;
  size_t total, empty;   /* slabs */
} kind;

static kind kinds[KINDS];
static port_lock kinds_lock;
static atomic_uint kinds_ready;
static atomic_size_t reserved;
static atomic_long failing = -1;

static PORT_TLS struct { mr_chunk *list; uint32_t n; } cache[KINDS];

/* ---- kinds ---- */

static void kind_set(kind *k, size_t size) {
  size_t hold = CACHE_BYTES / size;
  k->hold = hold > CACHE_CHUNKS ? CACHE_CHUNKS : hold < 2 ? 2 : (uint32_t)hold;
  k->size = (uint32_t)size;
}

static PORT_NOINLINE void kinds_init(void) {
  port_acquire(&kinds_lock);
  if (!atomic_load_explicit(&kinds_ready, memory_order_relaxed)) {
    for (unsigned i = 0; i < FIXED; i++) {
      size_t size = (size_t)MR_CHUNK_MIN << 2 * i;
      /* Large ones give up a little so that the slab's head doesn't cost a whole chunk. */
      if (size > 8192) size = (SLAB - SLAB_HEAD) / (SLAB / size) / 64 * 64;
      kind_set(&kinds[i], size);
    }
    atomic_store_explicit(&kinds_ready, FIXED, memory_order_release);
  }
  port_unlock(&kinds_lock);
}

static unsigned kinds_count(void) {
  unsigned n = atomic_load_explicit(&kinds_ready, memory_order_acquire);
  if (PORT_LIKELY(n)) return n;
  kinds_init();
  return FIXED;
}

unsigned mr_pool_kind(size_t size) {
  kinds_count();
  unsigned i = 0;
  if (size > MR_CHUNK_MIN) i = PORT_LOG2((size - 1) / MR_CHUNK_MIN) / 2 + 1;
  if (i < FIXED && kinds[i].size < size) i++;
  return i < FIXED ? i : FIXED - 1;
}

int mr_pool_kind_new(size_t size) {
  kinds_count();
  int found = -1;
  port_acquire(&kinds_lock);
  unsigned n = atomic_load_explicit(&kinds_ready, memory_order_relaxed);
  for (unsigned i = 0; i < n; i++) if (kinds[i].size == size) found = (int)i;
  if (found < 0 && n < KINDS && size >= 512 && size <= MR_CHUNK_MAX) {
    kind_set(&kinds[n], size);
    atomic_store_explicit(&kinds_ready, n + 1, memory_order_release);
    found = (int)n;
  }
  port_unlock(&kinds_lock);
  return found;
}

/* ---- slabs (lock held, except slab_new and slab_release) ---- */

static void slab_link(kind *k, slab *s, int front) {
  s->next = front ? k->slabs : NULL;
  s->prev = front ? NULL : k->last;
  if (s->next) s->next->prev = s; else k->last = s;
  if (s->prev) s->prev->next = s; else k->slabs = s;
}

static void slab_unlink(kind *k, slab *s) {
  if (s->next) s->next->prev = s->prev; else k->last = s->prev;
  if (s->prev) s->prev->next = s->next; else k->slabs = s->next;
}

static slab *slab_new(kind *k, int huge) {
  mr_assert_unlocked();
  slab *s = port_pages_reserve(SLAB, SLAB);
  if (!s) return NULL;
  if (huge) port_pages_huge(s, SLAB);
  s->kind = (uint32_t)(k - kinds);
  s->count = (SLAB - SLAB_HEAD) / k->size;
  atomic_fetch_add_explicit(&reserved, SLAB, memory_order_relaxed);
  return s;
}

static void slab_release(slab *s) {
  mr_assert_unlocked();
  MR_UNPOISON(s, SLAB);
  atomic_fetch_sub_explicit(&reserved, SLAB, memory_order_relaxed);
  port_pages_release(s, SLAB);
}

static int slab_full(const slab *s) { return !s->free && s->fresh == s->count; }

#ifdef MR_CHECKS
static void slab_check(const kind *k, const slab *s) {
  size_t free = 0;
  mr_assert((uintptr_t)s % SLAB == 0 && &kinds[s->kind] == k && s->used <= s->fresh && s->fresh <= s->count);
  for (const mr_chunk *c = s->free; c && free <= s->count; c = c->next, free++)
    mr_assert(((uintptr_t)c & ~(uintptr_t)(SLAB - 1)) == (uintptr_t)s && c->size == k->size && c->kind == s->kind);
  mr_assert(s->used + free == s->fresh);
}

/* (lock held) */
static void kind_check(const kind *k) {
  size_t empty = 0, listed = 0;
  mr_assert_locked(&k->lock);
  for (const slab *s = k->slabs, *prev = NULL; s; prev = s, s = s->next) {
    mr_assert(s->prev == prev && (s->next || k->last == s) && !slab_full(s));
    slab_check(k, s);
    empty += s->used == 0;
    listed++;
  }
  mr_assert(empty == k->empty && listed <= k->total && (k->slabs || !k->last));
}
#endif

static mr_chunk *slab_take(kind *k, slab *s) {
  mr_chunk *c = s->free;
  mr_assert(!slab_full(s));
  if (s->used++ == 0) {
    k->empty--;
    slab_unlink(k, s);
    slab_link(k, s, 1);
  }
  if (c) s->free = c->next;
  else {
    c = (mr_chunk *)((char *)s + SLAB_HEAD + (size_t)s->fresh++ * k->size);
    MR_UNPOISON(c, sizeof *c);
    c->size = k->size;
    c->kind = s->kind;
  }
  if (slab_full(s)) slab_unlink(k, s);
  return c;
}

/* Returns the slab if it is to be released, already unlinked. */
static slab *slab_give(kind *k, mr_chunk *c) {
  slab *s = (slab *)((uintptr_t)c & ~(uintptr_t)(SLAB - 1));
  mr_assert(&kinds[s->kind] == k && c->size == k->size && s->used > 0);
  if (slab_full(s)) slab_link(k, s, 1);
  c->next = s->free;
  s->free = c;
  if (--s->used) return NULL;
  slab_unlink(k, s);
  if (k->empty > 1 + k->total / 4) {
    k->total--;
    return s;
  }
  k->empty++;
  slab_link(k, s, 0);
  return NULL;
}

/* ---- chunks ---- */

/* Takes up to n chunks from the slabs into the cache. */
static unsigned kind_take(kind *k, unsigned i, unsigned n) {
  unsigned got = 0;
  port_acquire(&k->lock);
  while (got < n && k->slabs) {
    mr_chunk *c = slab_take(k, k->slabs);
    c->next = cache[i].list;
    cache[i].list = c;
    got++;
  }
  MR_CHECK_SOME(64, kind_check(k));
  port_unlock(&k->lock);
  cache[i].n += got;
  return got;
}

static int kind_grow(kind *k) {
  port_acquire(&k->lock);
  int huge = k->total >= (k - kinds < FIXED ? HUGE_FROM : HUGE_FROM_IMAGE);
  port_unlock(&k->lock);
  slab *s = slab_new(k, huge);
  if (!s) return 0;
  port_acquire(&k->lock);
  k->total++;
  k->empty++;
  slab_link(k, s, 0);
  MR_CHECK_SOME(16, kind_check(k));
  port_unlock(&k->lock);
  return 1;
}

static PORT_NOINLINE int cache_fill(unsigned i) {
  kind *k = &kinds[i];
  while (!kind_take(k, i, k->hold / 2))
    if (!kind_grow(k)) return 0;
  return 1;
}

/* Gives chunks back until n are left. */
static PORT_NOINLINE void cache_drain(unsigned i, unsigned n) {
  kind *k = &kinds[i];
  slab *dead = NULL;
  port_acquire(&k->lock);
  while (cache[i].n > n) {
    mr_chunk *c = cache[i].list;
    cache[i].list = c->next;
    cache[i].n--;
    slab *s = slab_give(k, c);
    if (s) { s->next = dead; dead = s; }
  }
  MR_CHECK_SOME(16, kind_check(k));
  port_unlock(&k->lock);
  while (dead) {
    slab *s = dead;
    dead = s->next;
    slab_release(s);
  }
}

mr_chunk *mr_pool_get(unsigned i) {
  if (PORT_UNLIKELY(mr_pool_failing())) return NULL;
  if (PORT_UNLIKELY(!cache[i].list) && !cache_fill(i)) return NULL;
  mr_chunk *c = cache[i].list;
  cache[i].list = c->next;
  cache[i].n--;
  MR_UNPOISON(c, c->size);
  return c;
}

void mr_pool_put(mr_chunk *c) {
  unsigned i = c->kind;
  MR_UNPOISON(c, c->size);
  MR_POISON(c + 1, c->size - sizeof *c);
  c->next = cache[i].list;
  cache[i].list = c;
  if (PORT_UNLIKELY(++cache[i].n > kinds[i].hold)) cache_drain(i, kinds[i].hold / 2);
}

void mr_pool_thread_exit(void) {
  for (unsigned i = 0; i < KINDS; i++) if (cache[i].n) cache_drain(i, 0);
}

/* ---- upkeep ---- */

static void kind_trim(kind *k) {
  for (;;) {
    port_acquire(&k->lock);
    slab *s = k->last;
    if (s && s->used) s = NULL;
    if (s) {
      slab_unlink(k, s);
      k->total--;
      k->empty--;
    }
    MR_CHECK_SOME(16, kind_check(k));
    port_unlock(&k->lock);
    if (!s) return;
    slab_release(s);
  }
}

void mr_pool_trim(void) {
  mr_pool_thread_exit();
  unsigned n = kinds_count();
  for (unsigned i = 0; i < n; i++) kind_trim(&kinds[i]);
  mr_block_trim();
}

size_t mr_pool_reserved(void) {
  return atomic_load_explicit(&reserved, memory_order_relaxed) + mr_block_reserved();
}

/* ---- tests ---- */

void mr_pool_fail(long n) { atomic_store(&failing, n); }

int mr_pool_failing(void) {
  if (PORT_LIKELY(atomic_load_explicit(&failing, memory_order_relaxed) < 0)) return 0;
  long n = atomic_load(&failing);
  while (n > 0 && !atomic_compare_exchange_weak(&failing, &n, n - 1)) {}
  return n == 0;
}
