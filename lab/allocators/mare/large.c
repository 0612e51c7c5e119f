/*
 * large: a block and its mapping. The record stands at the mapping's beginning (segment.h), the block behind it in the same page; at a different place for
 * each, since copies between blocks at the same place of their pages are slow on some processors. A block aligned to less than a segment begins so many
 * bytes behind the mapping's beginning; one aligned to a segment or more has its record one unit below.
 *
 * Freed mappings are kept for the next blocks, but
 *  - no more than KEPT of them, and no more than MOST bytes;
 *  - not so much that what is kept and what lives are together more than lived at once not long ago: `peak`, which nears `live` by a thirty-second with
 *    each block that is freed. LEAST bytes may be kept in any case;
 *  - not for longer than a second. Nobody watches the clock: who next takes a span or frees a large block gives back those that are older.
 */
#define _GNU_SOURCE
#include "large.h"
#include "lock.h"
#include "pool.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { KEPT = 8, AGE = 1000 /* ms */, COLOURS = 31, LINE = 64 };
#define MOST ((size_t)32 << 20)
#define LEAST ((size_t)2 << 20)

typedef struct { char *base; size_t bytes; int64_t since; } kept_mapping;

static struct {
  ma_lock lock;
  kept_mapping kept[KEPT];  /* the oldest first */
  unsigned count;
  size_t bytes, live, peak;
} large;

static _Atomic unsigned kept_count; /* as large.count, for who holds no lock */
static _Atomic unsigned colour;

static size_t rounded(size_t n) { return (n + MA_UNIT - 1) & ~(MA_UNIT - 1); }

static int64_t now_ms(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- kept mappings (lock held) ---- */

static kept_mapping unkeep(unsigned i)
{
  kept_mapping m = large.kept[i];
  large.bytes -= m.bytes;
  large.count--;
  memmove(&large.kept[i], &large.kept[i + 1], (large.count - i) * sizeof m);
  atomic_store_explicit(&kept_count, large.count, memory_order_relaxed);
  return m;
}

static unsigned fitting(size_t bytes)
{
  unsigned best = KEPT;
  for (unsigned i = 0; i < large.count; i++) {
    size_t have = large.kept[i].bytes;
    if (have >= bytes && have - bytes <= bytes / 4 && (best == KEPT || have < large.kept[best].bytes)) best = i;
  }
  return best;
}

static size_t may_keep(void)
{
  size_t n = large.peak > large.live ? large.peak - large.live : 0;
  return n < LEAST ? LEAST : n > MOST ? MOST : n;
}

/* The oldest, while they are too many, too large or older than `before`; returns how many are in `dead`. */
static unsigned take_old(kept_mapping dead[KEPT + 1], size_t most, int64_t before)
{
  unsigned n = 0;
  while (large.count && (large.bytes > most || large.kept[0].since < before)) dead[n++] = unkeep(0);
  return n;
}

static void unmap_all(const kept_mapping *dead, unsigned n)
{
  for (unsigned i = 0; i < n; i++) ma_unmap(dead[i].base, dead[i].bytes);
}

static void lives(size_t bytes)
{
  large.live += bytes;
  if (large.live > large.peak) large.peak = large.live;
}

/* ---- blocks ---- */

/* One with a record at its beginning. `offset`: where the block begins. */
static void *set_up(char *base, size_t bytes, size_t offset)
{
  ma_large *b = (ma_large *)(void *)base;
  *b = (ma_large){ .magic = MA_MAGIC_LARGE, .base = base, .mapped = bytes, .block = base + offset };
  size_t unit = offset / MA_UNIT;
  if (unit) {
    ma_span *s = (ma_span *)(void *)base + unit;
    memset(s, 0, sizeof *s);
    s->back = (uint32_t)(unit * sizeof *s);
  }
  return base + offset;
}

/* Room before the block, for a record and the alignment. */
static size_t offset_for(size_t n, size_t align)
{
  if (align > MA_UNIT / 2) return align;
  size_t room = n / 64 < COLOURS * LINE ? n / 64 / LINE : COLOURS;
  size_t offset = LINE * (1 + (room ? atomic_fetch_add_explicit(&colour, 1, memory_order_relaxed) % room : 0));
  return (offset + align - 1) & ~(align - 1);
}

static void *aligned_to_segment(size_t n, size_t align)
{
  size_t bytes = rounded(n), whole = bytes + align + MA_UNIT;
  if (whole < align || whole < n) return NULL;
  char *from = ma_map(whole);
  if (!from) return NULL;
  char *block = (char *)(((uintptr_t)from + MA_UNIT + align - 1) & ~(align - 1));
  char *base = block - MA_UNIT, *end = block + bytes;
  if (base > from) ma_unmap(from, (size_t)(base - from));
  if (from + whole > end) ma_unmap(end, (size_t)(from + whole - end));
  *(ma_large *)(void *)base = (ma_large){ .magic = MA_MAGIC_LARGE, .base = base, .mapped = bytes + MA_UNIT, .block = block };
  ma_acquire(&large.lock);
  lives(bytes + MA_UNIT);
  ma_release(&large.lock);
  return block;
}

static char *kept_for(size_t *bytes)
{
  char *base = NULL;
  ma_acquire(&large.lock);
  unsigned i = fitting(*bytes);
  if (i < KEPT) {
    kept_mapping m = unkeep(i);
    base = m.base;
    *bytes = m.bytes;
  }
  lives(*bytes);
  ma_release(&large.lock);
  return base;
}

static void not_lives(size_t bytes)
{
  ma_acquire(&large.lock);
  large.live -= bytes;
  ma_release(&large.lock);
}

void *ma_large_get(size_t n, size_t align, int zero)
{
  if (n > PTRDIFF_MAX - MA_SEGMENT || align > PTRDIFF_MAX - MA_SEGMENT) return NULL;
  if (align >= MA_SEGMENT) return aligned_to_segment(n, align);
  size_t offset = offset_for(n, align), bytes = rounded(offset + n);
  char *base = kept_for(&bytes);
  if (base) {
    if (zero) memset(base + offset, 0, n);
    return set_up(base, bytes, offset);
  }
  base = ma_map(bytes);
  if (!base && (ma_large_trim() | ma_pool_trim())) base = ma_map(bytes);
  if (!base) {
    not_lives(bytes);
    return NULL;
  }
  return set_up(base, bytes, offset);
}

void ma_large_put(ma_large *b)
{
  kept_mapping m = { b->base, b->mapped, now_ms() }, dead[KEPT + 1];
  int keep = b->block < b->base + MA_UNIT;
  b->magic = 0;
  ma_acquire(&large.lock);
  large.live -= m.bytes;
  large.peak -= (large.peak - large.live) / 32;
  size_t most = may_keep();
  keep = keep && m.bytes <= most;
  unsigned n = take_old(dead, keep ? most - m.bytes : most, m.since - AGE);
  if (keep) {
    if (large.count == KEPT) dead[n++] = unkeep(0);
    large.kept[large.count++] = m;
    large.bytes += m.bytes;
    atomic_store_explicit(&kept_count, large.count, memory_order_relaxed);
  }
  ma_release(&large.lock);
  unmap_all(dead, n);
  if (!keep) ma_unmap(m.base, m.bytes);
}

size_t ma_large_size(const ma_large *b) { return (size_t)(b->base + b->mapped - b->block); }

ma_large *ma_large_of(void *p)
{
  ma_large *b = ma_offset(p) ? (ma_large *)(void *)ma_span_of(p) : (ma_large *)(void *)((char *)p - MA_UNIT);
  if (b->magic != MA_MAGIC_LARGE || b->block != p) ma_die("not a pointer that malloc returned, or freed twice", p);
  return b;
}

/* ---- resizing ---- */

static char *remap(char *base, size_t old, size_t bytes)
{
  char *q = mremap(base, old, bytes, 0);
  if (q != MAP_FAILED) return q;
  char *to = ma_map(bytes);
  if (!to) return NULL;
  q = mremap(base, old, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
  return q != MAP_FAILED ? q : NULL; /* `to` is left: it may be unmapped already, and be another thread's by now */
}

void *ma_large_resize(ma_large *b, size_t n)
{
  size_t offset = (size_t)(b->block - b->base), old = b->mapped;
  if (n > PTRDIFF_MAX - MA_SEGMENT) return NULL;
  size_t bytes = rounded(offset + n);
  if (bytes == old) return b->block;
  char *base = remap(b->base, old, bytes);
  if (!base) return NULL;
  b = (ma_large *)(void *)base;
  b->base = base;
  b->mapped = bytes;
  b->block = base + offset;
  ma_acquire(&large.lock);
  large.live -= old;
  lives(bytes);
  ma_release(&large.lock);
  return b->block;
}

/* ---- */

void ma_large_age(void)
{
  kept_mapping dead[KEPT + 1];
  if (atomic_load_explicit(&kept_count, memory_order_relaxed) == 0) return;
  int64_t before = now_ms() - AGE;
  ma_acquire(&large.lock);
  unsigned n = take_old(dead, SIZE_MAX, before);
  ma_release(&large.lock);
  unmap_all(dead, n);
}

int ma_large_trim(void)
{
  kept_mapping dead[KEPT + 1];
  ma_acquire(&large.lock);
  unsigned n = take_old(dead, 0, INT64_MAX);
  ma_release(&large.lock);
  unmap_all(dead, n);
  return n != 0;
}

void ma_large_fork(int stage)
{
  if (stage == 0) ma_acquire(&large.lock);
  else if (stage == 1) ma_release(&large.lock);
  else atomic_store(&large.lock.word, 0);
}
