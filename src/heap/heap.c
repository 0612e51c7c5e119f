/*
 * heap: the arena of one process (see heap.h for the contract, arena.h for what its memory is made of).
 *
 * The fast path takes a block off a list or puts one on it. When a list is empty the block is cut from the bump region;
 * when that is used up, from a larger free block; last from a new chunk. Chunks grow with the heap, so that a small one
 * stays small and a large one asks rarely.
 *
 * Shrinking can't fail: a block that can't be exchanged for a smaller one is cut where it is, since every size class is
 * a multiple of 8 and so the rest is a sum of classes.
 */
#include "heap/arena.h"
#include "heap/poison.h"
#include "port/port.h"

#include <string.h>

enum {
  SPREAD = 32 * 1024,      /* a heap of this size no longer counts as small */
  RUN_MAX = 16384          /* blocks of one class made at a time, in bytes */
};

/* ---- free lists ---- */

/* The first free block of a middle class holds the table of their lists. */
static PORT_NOINLINE void mids_make(mr_heap *h, char *p, size_t size) {
  size_t need = MR_MIDS * sizeof(mr_link *);
  h->mids = (mr_link **)(void *)p;
  MR_UNPOISON(p, need);
  memset(p, 0, need);
  mr_arena_give(h, p + need, size - need);
}

/* Puts a block of class c on its list. */
static void give(mr_heap *h, void *p, unsigned c) {
  mr_link *l = p, **head;
  mr_assert((uintptr_t)p % 8 == 0);
  if (c < MR_HEADS) head = &h->heads[c];
  else {
    if (!h->mids) {
      mids_make(h, p, mr_sizeclass_size(c));
      return;
    }
    head = &h->mids[c - MR_HEADS];
    h->midmap |= (uint64_t)1 << (c - MR_HEADS);
  }
  MR_UNPOISON(l, sizeof *l);
  l->next = *head;
  *head = l;
  MR_POISON(l, mr_sizeclass_size(c));
}

void mr_arena_give(mr_heap *h, char *p, size_t n) {
  mr_assert(n % 8 == 0);
  while (n) {
    unsigned c = mr_sizeclass_floor(n);
    give(h, p, c);
    p += mr_sizeclass_size(c);
    n -= mr_sizeclass_size(c);
  }
}

static void *pop(mr_link **head) {
  mr_link *l = *head;
  MR_UNPOISON(l, sizeof *l);
  *head = l->next;
  return l;
}

static void *pop_mid(mr_heap *h, unsigned m) {
  void *p = pop(&h->mids[m]);
  if (!h->mids[m]) h->midmap &= ~((uint64_t)1 << m);
  return p;
}

/* ---- where new blocks come from ---- */

/* Space for the bump region, unless the present one is the larger; the loser is cut into blocks. */
static void bump_offer(mr_heap *h, char *p, size_t n) {
  size_t have = (size_t)(h->end - h->bump);
  MR_POISON(p, n);
  if (n <= have) {
    mr_arena_give(h, p, n);
    return;
  }
  char *old = h->bump;
  h->bump = p;
  h->end = p + n;
  mr_arena_give(h, old, have);
}

/*
 * The largest kind that adds an eighth at most, if it is large enough; else the next that is. An eighth of the most it
 * ever had: a heap that shrinks and grows asks for the kinds again that it gave back.
 */
static mr_chunk *chunk_get(mr_heap *h, size_t size) {
  size_t want = h->widest / 8 / MR_KIND_STEP + 1;
  size_t need = size + sizeof(mr_chunk);
  mr_chunk *c = mr_pool_get(mr_pool_kind(want > need ? want : need));
  return c || want <= need ? c : mr_pool_get(mr_pool_kind(need));
}

/* A new chunk for at least `size` bytes; *n becomes the length of what is returned. */
static char *take_chunk(mr_heap *h, size_t size, size_t *n) {
  mr_chunk *c = chunk_get(h, size);
  if (!c) return NULL;
  c->next = h->chunk.next;
  h->chunk.next = c;
  h->arena += c->size;
  if (h->arena > h->widest) h->widest = h->arena;
  mr_heap_tell(h);
  *n = c->size - sizeof *c;
  return (char *)(c + 1);
}

/* A free block of a middle class: the smallest that holds `want`, else the largest. */
static char *take_mid(mr_heap *h, size_t want, size_t *n) {
  if (!h->midmap) return NULL;
  unsigned c = mr_sizeclass(want);
  uint64_t fit = h->midmap & ~(uint64_t)0 << (c < MR_HEADS ? 0 : c - MR_HEADS);
  unsigned m = fit ? PORT_LOWBIT(fit) : PORT_LOG2(h->midmap);
  *n = mr_sizeclass_size(m + MR_HEADS);
  return pop_mid(h, m);
}

/* Makes the bump region large enough for a small class. */
static int bump_refill(mr_heap *h, size_t size, size_t want) {
  size_t n;
  char *p = take_mid(h, want, &n);
  if (!p && mr_heap_coalesce(h)) p = take_mid(h, want, &n);
  if (!p) p = take_chunk(h, size, &n);
  if (!p) return 0;
  bump_offer(h, p, n);
  return 1;
}

/*
 * Several blocks of one class at a time, the first of which is returned: what is alike lies side by side, and the
 * collector's sweep runs through few cache lines. A small heap takes one at a time instead, to waste nothing.
 */
static PORT_NOINLINE void *take_small(mr_heap *h, unsigned c) {
  size_t size = mr_sizeclass_size(c), want = h->arena / 64;
  want = h->arena < SPREAD ? size : want < RUN_MAX ? want : RUN_MAX;
  if (want < size) want = size;
  if ((size_t)(h->end - h->bump) < size && !bump_refill(h, size, want)) return NULL;
  size_t room = (size_t)(h->end - h->bump), n = (room < want ? room : want) / size;
  char *p = h->bump;
  h->bump += n * size;
  for (mr_link **at = &h->heads[c]; --n; at = &(*at)->next) {
    *at = (mr_link *)(void *)(h->bump - n * size);
    MR_UNPOISON(*at, sizeof **at);
    (*at)->next = NULL;
  }
  return p;
}

/* A block of `size` bytes out of a larger free one. */
static void *take_split(mr_heap *h, unsigned c, size_t size) {
  uint64_t fit = h->midmap & ~(uint64_t)0 << (c - MR_HEADS);
  if (!fit) return NULL;
  unsigned m = PORT_LOWBIT(fit);
  char *p = pop_mid(h, m);
  mr_arena_give(h, p + size, mr_sizeclass_size(m + MR_HEADS) - size);
  return p;
}

static PORT_NOINLINE void *take_middle(mr_heap *h, unsigned c) {
  size_t size = mr_sizeclass_size(c), n;
  char *p = take_split(h, c, size);
  if (p) return p;
  if (size <= (size_t)(h->end - h->bump)) {
    p = h->bump;
    h->bump = p + size;
    return p;
  }
  if (mr_heap_coalesce(h) && (p = take_split(h, c, size)) != NULL) return p;
  p = take_chunk(h, size, &n);
  if (p) bump_offer(h, p + size, n - size);
  return p;
}

/* A block of class c, not accounted for; NULL: no memory. */
static void *take(mr_heap *h, unsigned c) {
  if (c < MR_HEADS) return h->heads[c] ? pop(&h->heads[c]) : take_small(h, c);
  return take_middle(h, c);
}

/* ---- large blocks ---- */

static mr_large *large_of(void *p) { return (mr_large *)p - 1; }

static void large_link(mr_heap *h, mr_large *b) {
  b->prev = NULL;
  b->next = h->large;
  if (b->next) b->next->prev = b;
  h->large = b;
  h->mapped += b->size;
  mr_heap_tell(h);
}

static void large_unlink(mr_heap *h, mr_large *b) {
  if (b->prev) b->prev->next = b->next; else h->large = b->next;
  if (b->next) b->next->prev = b->prev;
  h->mapped -= b->size;
  mr_heap_tell(h);
}

/*
 * Where in its first page a block begins. If all began at its start, copies between them would run with source and
 * target at nearly the same place of a page, which can make memcpy ten times slower.
 */
static size_t large_colour(mr_heap *h, size_t n) {
  size_t range = n / 64 < MR_PAGE ? n / 64 : MR_PAGE;
  return h->colours++ * 64 % (range & ~(size_t)63);
}

static void *large_new(mr_heap *h, size_t n) {
  size_t colour = large_colour(h, n), size = colour + sizeof(mr_large) + n;
  char *p = mr_block_get(&size);
  if (!p) return NULL;
  mr_large *b = (mr_large *)(void *)(p + colour);
  b->size = size;
  b->adopted = 0;
  large_link(h, b);
  h->mapped_used += n;
  return b + 1;
}

static void large_free(mr_heap *h, void *p, size_t n) {
  mr_large *b = large_of(p);
  large_unlink(h, b);
  h->mapped_used -= n;
  mr_block_put(mr_large_block(b), b->size);
}

static void *large_resize(mr_heap *h, void *p, size_t o, size_t n) {
  mr_large *b = large_of(p);
  size_t offset = mr_large_offset(b), size = offset + sizeof *b + n;
  large_unlink(h, b);
  char *q = mr_block_resize(mr_large_block(b), b->size, &size);
  if (q) {
    b = (mr_large *)(void *)(q + offset);
    b->size = size;
  }
  large_link(h, b);
  if (!q && n > o) return NULL;
  h->mapped_used += n - o;
  return b + 1;           /* a block that couldn't be exchanged for a smaller one stays: it knows its own size */
}

/* The block becomes one of class c where it is, and its rest the arena's. */
static void large_adopt(mr_heap *h, void *p, size_t o, unsigned c) {
  mr_large *b = large_of(p);
  h->mapped -= b->size;
  h->mapped_used -= o;
  h->arena += b->size;
  char *rest = (char *)p + mr_sizeclass_size(c);
  b->adopted = 1;
  bump_offer(h, rest, (size_t)(mr_large_block(b) + b->size - rest));
}

/* ---- requests ---- */

static void *take_any(mr_heap *h, size_t n) {
  return n <= MR_ARENA_MAX ? take(h, mr_sizeclass(n)) : large_new(h, n);
}

static void give_any(mr_heap *h, void *p, size_t n) {
  if (n <= MR_ARENA_MAX) give(h, p, mr_sizeclass(n));
  else large_free(h, p, n);
}

static PORT_NOINLINE void *alloc_slow(mr_heap *h, size_t n) {
  if (n == 0 || n > (size_t)PTRDIFF_MAX / 2 || (h->room < (ptrdiff_t)n && !mr_heap_more(h, n))) return NULL;
  void *p = take_any(h, n);
  if (!p) return NULL;
  h->room -= (ptrdiff_t)n;
  mr_assert(h->room >= 0 && h->room <= h->limit);
  MR_UNPOISON(p, n);
  return p;
}

static PORT_NOINLINE void free_slow(mr_heap *h, void *p, size_t n) {
  if (h->fast || !h->budget) h->room += (ptrdiff_t)n;      /* dying, nothing is freed: a finaliser's loop must meet the budget's end */
  if (h->fast && n) give_any(h, p, n);
  if (PORT_UNLIKELY(h->budget != NULL)) mr_heap_settle(h);
}

/* The same place serves: it is large enough, or ends where the bump region begins. */
static int resize_in_place(mr_heap *h, char *p, size_t o, size_t n) {
  if (o > MR_ARENA_MAX || n > MR_ARENA_MAX) return 0;
  unsigned co = mr_sizeclass(o), cn = mr_sizeclass(n);
  if (co == cn) return 1;
  size_t so = mr_sizeclass_size(co), sn = mr_sizeclass_size(cn);
  if (p + so != h->bump || (size_t)(h->end - p) < sn) return 0;
  h->bump = p + sn;
  MR_POISON(h->bump, (size_t)(h->end - h->bump));
  return 1;
}

/* No memory for the smaller block: cut this one. */
static void *shrink_in_place(mr_heap *h, char *p, size_t o, size_t n) {
  unsigned c = mr_sizeclass(n);
  if (o > MR_ARENA_MAX) large_adopt(h, p, o, c);
  else mr_arena_give(h, p + mr_sizeclass_size(c), mr_sizeclass_size(mr_sizeclass(o)) - mr_sizeclass_size(c));
  return p;
}

static void *resize_moving(mr_heap *h, char *p, size_t o, size_t n) {
  if (o > MR_ARENA_MAX && n > MR_ARENA_MAX) return large_resize(h, p, o, n);
  char *q = take_any(h, n);
  if (!q) return n > o ? NULL : shrink_in_place(h, p, o, n);
  MR_UNPOISON(q, n);
  memcpy(q, p, o < n ? o : n);
  give_any(h, p, o);
  return q;
}

static PORT_NOINLINE void *resize(mr_heap *h, void *p, size_t o, size_t n) {
  if (n > o && (n > (size_t)PTRDIFF_MAX / 2 || (h->room < (ptrdiff_t)(n - o) && !mr_heap_more(h, n - o)))) return NULL;
  void *q = p;
  if (!h->fast && n <= o) {}           /* dying: it may keep what it has */
  else if (!h->fast) {
    q = take_any(h, n);
    if (!q) return NULL;
    MR_UNPOISON(q, n);
    memcpy(q, p, o);
  } else if (!resize_in_place(h, p, o, n)) q = resize_moving(h, p, o, n);
  if (!q) return NULL;
  h->room += (ptrdiff_t)o - (ptrdiff_t)n;
  mr_assert((n <= o || h->room >= 0) && h->room <= h->limit);
  MR_UNPOISON(q, n);
  return q;
}

void *mr_heap_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  mr_heap *h = ud;
  mr_assert_unlocked();                /* whoever calls Lua with a lock held comes by here sooner or later */
  if (!ptr) {
    size_t i = (nsize - 1) >> 3;
    if (PORT_UNLIKELY(i >= MR_SMALL / 8)) return alloc_slow(h, nsize);
    mr_link *l = h->heads[i];
    if (PORT_UNLIKELY(!l || h->room < (ptrdiff_t)nsize)) return alloc_slow(h, nsize);
    MR_UNPOISON(l, nsize < sizeof *l ? sizeof *l : nsize);
    h->room -= (ptrdiff_t)nsize;
    PORT_PREFETCH(l->next);
    h->heads[i] = l->next;
    return l;
  }
  if (nsize) return resize(h, ptr, osize, nsize);
  if (PORT_UNLIKELY(osize - 1 >= h->fast)) {
    free_slow(h, ptr, osize);
    return NULL;
  }
  mr_link *l = ptr;
  h->room += (ptrdiff_t)osize;
  mr_assert((uintptr_t)l % 8 == 0 && h->room <= h->limit);
  MR_UNPOISON(l, sizeof *l);
  l->next = h->heads[(osize - 1) >> 3];
  h->heads[(osize - 1) >> 3] = l;
  MR_POISON(l, mr_sizeclass_size((unsigned)((osize - 1) >> 3)));
  return NULL;
}

/* ---- the heap itself ---- */

void mr_heap_init(mr_heap *h, mr_chunk c, size_t limit) {
  memset(h, 0, sizeof *h);
  h->chunk = c;
  h->chunk.next = NULL;
  h->fast = MR_SMALL;
  h->bump = (char *)(h + 1);
  h->end = (char *)h + c.size;
  h->arena = h->widest = c.size;
  h->limit = h->room = PTRDIFF_MAX;
  mr_heap_limit(h, limit);
  MR_POISON(h->bump, (size_t)(h->end - h->bump));
}

mr_heap *mr_heap_new(size_t limit) {
  mr_chunk *c = mr_pool_get(mr_pool_kind(4096));
  if (!c) return NULL;
  mr_heap *h = (mr_heap *)(void *)c;
  MR_UNPOISON(h, sizeof *h);
  mr_heap_init(h, *c, limit);
  return h;
}

void mr_heap_strip(mr_heap *h) {
  for (mr_large *b = h->large; b;) {
    mr_large *next = b->next;
    mr_block_put(mr_large_block(b), b->size);
    b = next;
  }
  for (mr_chunk *c = h->chunk.next; c;) {
    mr_chunk *next = c->next;
    mr_pool_put(c);
    c = next;
  }
}

void mr_heap_drop(mr_heap *h) {
  MR_CHECK_SOME(16, mr_heap_verify(h));
  mr_heap_strip(h);
  mr_pool_put(&h->chunk);
}

void mr_heap_limit(mr_heap *h, size_t bytes) {
  ptrdiff_t used = h->limit - h->room;
  h->limit = bytes == 0 || bytes > (size_t)PTRDIFF_MAX ? PTRDIFF_MAX : (ptrdiff_t)bytes;
  h->room = h->limit - used;           /* negative while it uses more than a lowered limit */
}

size_t mr_heap_used(const mr_heap *h) { return (size_t)(h->limit - h->room); }
size_t mr_heap_reserved(const mr_heap *h) { return h->arena + h->mapped; }

void mr_heap_show(mr_heap *h, atomic_size_t *shown) {
  h->shown = shown;
  mr_heap_tell(h);
}

void mr_heap_dying(mr_heap *h) {
  h->fast = 0;
  MR_CHECK_SOME(16, mr_heap_verify(h));
  if (h->budget) mr_heap_grace(h);
}
