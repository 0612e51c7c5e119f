/*
 * pool: segments and their units (see pool.h; segment.h has the layout).
 *
 * A unit is in a span, or free; a free one is dirty if its pages may be there, else the system has them and it reads as zero. A segment with a free
 * unit is DIRTY (has dirty units), CLEAN or EMPTY (all units free). Units are taken in this order: dirty ones first, as they cost no page fault; then
 * those of empty segments, which are dirty, too; clean ones; a new segment.
 *
 * There is a list of segments for each of these, for each length of the longest row of free units (1, 2 to 3, 4 to 7, ... 32 and more), and apart for huge
 * ones, which runs don't use. So a segment with a long row is found however many with short rows there are, and short rows are used up first.
 *
 * What is dirty is never more than an eighth of what is in use, or `floor`. Beyond, pages go back: of empty segments first, which are unmapped whole.
 * That limit is one of bytes, so it needs no clock and no thread, and also holds while the program sleeps. The floor is one unit; each time the program
 * takes clean units after others went back it is one more, up to 2 MiB, since then giving them back was for nothing. By as many units as it takes then, the
 * limit grows where much is in use: up to half of that, for programs whose blocks of some ten KiB come and go.
 *
 * From HUGE_FROM on segments for small blocks ask for huge pages: half a segment of waste is little then, and page faults are what a growing heap's
 * time goes into. Large blocks have none: a program may touch a small part of them.
 */
#define _GNU_SOURCE
#include "pool.h"
#include "lock.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { DIRTY, EMPTY, CLEAN, STATES, ROWS = 6, NONE = 0 };
enum { FLOOR_MOST = 32, TRIES = 32 };
#define HUGE_FROM ((size_t)(32 << 20) / MA_UNIT)
#define ALL (~UINT64_C(1)) /* the first unit has the records */

typedef struct { ma_segment *first, *last; } segments; /* the one that came last is the last */

static struct {
  ma_lock lock;
  segments list[1 + 2 * STATES * ROWS]; /* see list_of; none is on the first */
  size_t used, dirty; /* units */
  size_t floor;       /* the limit of dirty ones at least */
  size_t wished;      /* the same, but for half of what is in use at the most */
  int gone;           /* some went back, and none were taken from the system since */
} pool = { .floor = 1 };

static _Atomic(char *) hint;          /* where the next mapping would touch the last one */
static _Atomic int cannot_populate;

_Noreturn void ma_die(const char *what, const void *p)
{
  static const char digits[] = "0123456789abcdef";
  char text[128] = "mare malloc: ";
  size_t n = strlen(text), length = strlen(what);
  memcpy(text + n, what, length);
  n += length;
  memcpy(text + n, ": 0x", 4);
  n += 4;
  for (int shift = 60; shift >= 0; shift -= 4) text[n++] = digits[(uintptr_t)p >> shift & 15];
  text[n++] = '\n';
  if (write(2, text, n) < 0) {}
  abort();
}

/* ---- the system ---- */

static char *map_somewhere(char *where, size_t bytes)
{
  void *p = mmap(where, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

/* Below the last mapping, so that the kernel joins them to one; if that is taken, out of a larger one. */
char *ma_map(size_t bytes)
{
  char *want = atomic_load_explicit(&hint, memory_order_relaxed);
  char *p = want ? map_somewhere((char *)((uintptr_t)(want - bytes) & ~(MA_SEGMENT - 1)), bytes) : NULL;
  if (p && ma_offset(p) != 0) {
    munmap(p, bytes);
    p = NULL;
  }
  if (!p) {
    char *whole = map_somewhere(NULL, bytes + MA_SEGMENT);
    if (!whole) return NULL;
    size_t before = (MA_SEGMENT - ma_offset(whole)) % MA_SEGMENT;
    p = whole + before;
    if (before) munmap(whole, before);
    if (before < MA_SEGMENT) munmap(p + bytes, MA_SEGMENT - before);
  }
  atomic_store_explicit(&hint, p, memory_order_relaxed);
  return p;
}

void ma_unmap(void *p, size_t bytes) { munmap(p, bytes); }

void ma_pool_populate(ma_span *s)
{
  if (s->flags & MA_BIG || !(s->flags & MA_ZERO) || atomic_load_explicit(&cannot_populate, memory_order_relaxed)) return;
  int error = errno;
  if (madvise(ma_span_start(s), s->units * MA_UNIT, MADV_POPULATE_WRITE) != 0 && errno == EINVAL)
    atomic_store_explicit(&cannot_populate, 1, memory_order_relaxed);
  errno = error;
}

/* Gives back the pages of units, those in a row by one call. */
static void pages_away(ma_segment *g, uint64_t units)
{
  while (units) {
    unsigned from = (unsigned)__builtin_ctzl(units);
    uint64_t rest = ~(units >> from);
    unsigned n = rest ? (unsigned)__builtin_ctzl(rest) : 64 - from;
    madvise((char *)g + from * MA_UNIT, n * MA_UNIT, MADV_DONTNEED);
    units &= from + n == 64 ? 0 : ~UINT64_C(0) << (from + n);
  }
}

/* ---- lists of segments (lock held) ---- */

static void unlink_segment(ma_segment *g)
{
  if (g->list == NONE) return;
  if (g->prev) g->prev->next = g->next; else pool.list[g->list].first = g->next;
  if (g->next) g->next->prev = g->prev; else pool.list[g->list].last = g->prev;
  g->list = NONE;
}

static segments *list_of(unsigned huge, unsigned state, unsigned row) { return &pool.list[1 + (huge * STATES + state) * ROWS + row]; }

static unsigned log2_of(unsigned n) { return 31u - (unsigned)__builtin_clz(n); }

/* The longest row of ones is 2 to the power of this or more, but less than twice that. */
static unsigned longest_row(uint64_t bits)
{
  unsigned row = 0;
  while (row < ROWS - 1 && (bits &= bits >> (1u << row)) != 0) row++;
  return row;
}

static unsigned list_for(const ma_segment *g)
{
  if (g->free == 0) return NONE;
  unsigned state = g->free == ALL ? EMPTY : g->dirty ? DIRTY : CLEAN;
  return (unsigned)(list_of((unsigned)g->huge, state, longest_row(g->free)) - pool.list);
}

/* One with free units in this state, the longest rows first; NULL: there is none. */
static ma_segment *any(unsigned state)
{
  for (unsigned row = ROWS; row-- > 0;)
    for (unsigned huge = 0; huge < 2; huge++)
      if (list_of(huge, state, row)->first) return list_of(huge, state, row)->first;
  return NULL;
}

static void file(ma_segment *g)
{
  unsigned list = list_for(g);
  if (list == g->list) return;
  unlink_segment(g);
  g->list = list;
  if (list == NONE) return;
  g->next = NULL;
  g->prev = pool.list[list].last;
  if (g->prev) g->prev->next = g; else pool.list[list].first = g;
  pool.list[list].last = g;
}

static size_t most_dirty(void)
{
  size_t wished = pool.wished < pool.used / 2 ? pool.wished : pool.used / 2, least = wished > pool.floor ? wished : pool.floor;
  return pool.used / 8 > least ? pool.used / 8 : least;
}

static void forget_dirty(ma_segment *g, uint64_t units)
{
  pool.dirty -= (size_t)__builtin_popcountl(g->dirty & units);
  g->dirty &= ~units;
}

/* Empty segments beyond the limit: taken off, for the caller to unmap when the lock is free. */
static ma_segment *take_empty(size_t most)
{
  ma_segment *dead = NULL;
  for (ma_segment *g; pool.dirty > most && (g = any(EMPTY)) != NULL;) {
    pool.gone = 1;
    forget_dirty(g, ALL);
    unlink_segment(g);
    g->next = dead;
    dead = g;
  }
  return dead;
}

static void unmap_all(ma_segment *dead)
{
  while (dead) {
    ma_segment *g = dead;
    dead = g->next;
    ma_unmap(g, MA_SEGMENT);
  }
}

/* The dirty units of a segment go back. The lock is free meanwhile: they belong to nobody else. */
static void clean(ma_segment *g)
{
  uint64_t units = g->dirty;
  pool.gone = 1;
  forget_dirty(g, units);
  g->free &= ~units;
  file(g);
  ma_release(&pool.lock);
  pages_away(g, units);
  ma_acquire(&pool.lock);
  g->free |= units;
  file(g);
  if (g->free != ALL || g->dirty) return;
  unlink_segment(g); /* the last of its spans was given back meanwhile, too */
  ma_release(&pool.lock);
  ma_unmap(g, MA_SEGMENT);
  ma_acquire(&pool.lock);
}

/* What is dirty beyond the limit goes back. */
static void settle(size_t most)
{
  while (pool.dirty > most) {
    ma_segment *dead = take_empty(most);
    if (dead) {
      ma_release(&pool.lock);
      unmap_all(dead);
      ma_acquire(&pool.lock);
    } else {
      ma_segment *g = any(DIRTY);
      if (!g) return;
      clean(g);
    }
  }
}

/* ---- units (lock held) ---- */

/* Bit i: so many ones in a row begin there. */
static uint64_t rows(uint64_t bits, unsigned n)
{
  for (unsigned have = 1; have < n;) {
    unsigned step = have < n - have ? have : n - have;
    bits &= bits >> step;
    have += step;
  }
  return bits;
}

static uint64_t mask(unsigned from, unsigned n) { return (n == 64 ? ~UINT64_C(0) : (UINT64_C(1) << n) - 1) << from; }

static int fits(const ma_segment *g, unsigned n, unsigned *from)
{
  uint64_t good = g->dirty ? rows(g->dirty, n) : 0;
  if (!good) good = rows(g->free, n);
  if (good) *from = (unsigned)__builtin_ctzl(good);
  return good != 0;
}

/* Of the first list some may be a little too short: few are looked at. On those behind it all are long enough. */
static ma_segment *find_in(const segments *list, unsigned n, unsigned *from)
{
  for (unsigned row = log2_of(n); row < ROWS; row++) {
    int tries = TRIES;
    for (ma_segment *g = list[row].first; g && tries > 0; g = g->next, tries--)
      if (fits(g, n, from)) return g;
  }
  return NULL;
}

/* A segment with so many free units in a row, the first of which becomes *from. */
static ma_segment *find(unsigned n, int small, unsigned *from)
{
  for (unsigned state = 0; state < STATES; state++)
    for (unsigned huge = small ? 2 : 1; huge-- > 0;) {
      ma_segment *g = find_in(list_of(huge, state, 0), n, from);
      if (g) return g;
    }
  return NULL;
}

/* Units are taken that the system has: some of those that went back too early? */
static void regret(size_t n)
{
  if (!pool.gone) return;
  pool.gone = 0;
  pool.wished += n;
  if (pool.floor < FLOOR_MOST) pool.floor++;
}

/* A huge page comes as a whole, whatever part of it is taken. */
static void whole_pages(ma_segment *g, uint64_t units)
{
  uint64_t low = UINT32_MAX, pages = (units & low ? low : 0) | (units & ~low ? ~low : 0), more = pages & g->free & ~g->dirty;
  g->dirty |= more;
  pool.dirty += (size_t)__builtin_popcountl(more);
}

static void mark_used(ma_segment *g, unsigned from, unsigned n)
{
  uint64_t units = mask(from, n);
  if (!(g->dirty & units)) regret(n);
  forget_dirty(g, units);
  g->free &= ~units;
  if (g->huge) whole_pages(g, units);
  pool.used += n;
  file(g);
}

static void mark_free(ma_segment *g, unsigned from, unsigned n)
{
  for (unsigned i = from; i < from + n; i++) memset((ma_span *)g + i, 0, sizeof(ma_span));
  uint64_t units = mask(from, n);
  g->free |= units;
  g->dirty |= units;
  pool.used -= n;
  pool.dirty += n;
  file(g);
}

static ma_segment *segment_new(int huge)
{
  ma_segment *g = (ma_segment *)(void *)ma_map(MA_SEGMENT);
  if (!g) return NULL;
  if (huge) madvise(g, MA_SEGMENT, MADV_HUGEPAGE);
  g->magic = MA_MAGIC_SEGMENT;
  g->huge = (uint64_t)huge;
  g->free = ALL;
  return g;
}

/* ---- what heaps ask for ---- */

ma_span *ma_pool_take(unsigned units, int small)
{
  unsigned from = 1;
  ma_acquire(&pool.lock);
  ma_segment *g = find(units, small, &from);
  if (!g) {
    int huge = small && pool.used >= HUGE_FROM, error = errno;
    ma_release(&pool.lock);
    g = segment_new(huge);
    errno = error;
    if (!g) return NULL;
    ma_acquire(&pool.lock);
  }
  int zero = (g->dirty & mask(from, units)) == 0;
  mark_used(g, from, units);
  ma_release(&pool.lock);
  ma_span *s = (ma_span *)g + from;
  for (unsigned i = 1; i < units; i++) s[i].back = i * (uint32_t)sizeof *s;
  s->units = (uint8_t)units;
  s->flags = (uint8_t)((zero ? MA_ZERO : 0) | (g->huge ? MA_BIG : 0));
  return s;
}

static unsigned index_of(const ma_span *s) { return (unsigned)(ma_offset(s) / sizeof *s); }

void ma_pool_give(ma_span *s)
{
  int error = errno;
  ma_acquire(&pool.lock);
  mark_free(ma_segment_of(s), index_of(s), s->units);
  if (pool.dirty > most_dirty()) settle(most_dirty());
  ma_release(&pool.lock);
  errno = error;
}

static int grow(ma_segment *g, ma_span *s, unsigned units)
{
  unsigned from = index_of(s) + s->units, more = units - s->units;
  if (from + more > MA_UNITS || (g->free & mask(from, more)) != mask(from, more)) return 0;
  if (g->dirty & mask(from, more)) s->flags &= (uint8_t)~MA_ZERO;
  mark_used(g, from, more);
  for (unsigned i = s->units; i < units; i++) s[i].back = i * (uint32_t)sizeof *s;
  return 1;
}

int ma_pool_resize(ma_span *s, unsigned units)
{
  ma_segment *g = ma_segment_of(s);
  int error = errno, good = 1;
  ma_acquire(&pool.lock);
  if (units > s->units) good = grow(g, s, units);
  else if (units < s->units) mark_free(g, index_of(s) + units, s->units - units);
  if (good) s->units = (uint8_t)units;
  if (pool.dirty > most_dirty()) settle(most_dirty());
  ma_release(&pool.lock);
  errno = error;
  return good;
}

int ma_pool_trim(void)
{
  ma_acquire(&pool.lock);
  int some = pool.dirty != 0;
  settle(0);
  ma_release(&pool.lock);
  return some;
}

void ma_pool_fork(int stage)
{
  if (stage == 0) ma_acquire(&pool.lock);
  else if (stage == 1) ma_release(&pool.lock);
  else atomic_store(&pool.lock.word, 0);
}
