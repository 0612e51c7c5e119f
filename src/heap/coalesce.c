/*
 * coalesce: joins free blocks that lie side by side.
 *
 * Blocks carry no headers, so free neighbours can't be seen when a block is freed. Instead, when a heap is about to take
 * another chunk while much of what it has is free, all free blocks are drawn on a map, one bit for 8 bytes. Runs of
 * at least RUN bytes become space for any size; shorter ones stay the blocks they were; lists end up in the order of
 * addresses, so that what is allocated next lies close together. Chunks that are wholly free go back when the heap has
 * far more than it uses.
 *
 * The cost is a walk over the free blocks; it is paid only after a sixth of the heap has become free since the last time.
 */
#include "heap/arena.h"
#include "heap/poison.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

enum { RUN = 512, LEAST = 64 * 1024, WORD = 64 };

typedef struct span {
  char *base;
  size_t size, bit;          /* bit: of its first 8 bytes in the map; a multiple of WORD */
  mr_chunk *chunk;           /* NULL: the first chunk, or an adopted block */
} span;

typedef struct map {
  span *spans, *last;        /* by address; the one looked at last */
  size_t count, words;
  uint64_t *free, *start;    /* bytes that are free; of which these begin a block */
  size_t found, runs;        /* bytes: all free ones, those in runs */
} map;

/* ---- the map ---- */

static int span_order(const void *a, const void *b) {
  const span *x = a, *y = b;
  return x->base < y->base ? -1 : x->base > y->base;
}

static void span_add(map *m, char *base, size_t size, mr_chunk *c) {
  m->spans[m->count++] = (span){base, size, 0, c};
  m->words += (size / 8 + WORD - 1) / WORD;
}

static void spans_gather(map *m, mr_heap *h) {
  span_add(m, (char *)h, h->chunk.size, NULL);
  for (mr_chunk *c = h->chunk.next; c; c = c->next) span_add(m, (char *)c, c->size, c);
  for (mr_large *b = h->large; b; b = b->next) if (b->adopted) span_add(m, (char *)b, b->size - mr_large_offset(b), NULL);
  qsort(m->spans, m->count, sizeof *m->spans, span_order);
  size_t bit = 0;
  for (size_t i = 0; i < m->count; i++) {
    m->spans[i].bit = bit;
    bit += (m->spans[i].size / 8 + WORD - 1) / WORD * WORD;
  }
  m->last = m->spans;
}

static size_t spans_count(const mr_heap *h, size_t *bytes) {
  size_t n = 1;
  *bytes = h->chunk.size;
  for (const mr_chunk *c = h->chunk.next; c; c = c->next, n++) *bytes += c->size;
  for (const mr_large *b = h->large; b; b = b->next) if (b->adopted) {
    n++;
    *bytes += b->size;
  }
  return n;
}

/* One block of memory for everything; 0: there is none. */
static int map_make(map *m, mr_heap *h, size_t *size) {
  size_t bytes, n = spans_count(h, &bytes);
  size_t words = bytes / 8 / WORD + 2 * n;
  *size = n * sizeof(span) + 2 * words * sizeof(uint64_t);
  char *p = mr_block_get(size);
  if (!p) return 0;
  *m = (map){.spans = (span *)(void *)p};
  m->free = (uint64_t *)(void *)(p + n * sizeof(span));
  spans_gather(m, h);
  m->start = m->free + m->words;
  memset(m->free, 0, 2 * m->words * sizeof(uint64_t));
  return 1;
}

static span *span_search(map *m, const char *p) {
  size_t lo = 0, hi = m->count;
  while (hi - lo > 1) {
    size_t mid = (lo + hi) / 2;
    if (p < m->spans[mid].base) hi = mid; else lo = mid;
  }
  return m->last = &m->spans[lo];
}

static void mark(map *m, const void *at, size_t size) {
  const char *p = at;
  span *s = m->last;
  if (PORT_UNLIKELY((size_t)(p - s->base) >= s->size)) s = span_search(m, p);
  size_t bit = s->bit + (size_t)(p - s->base) / 8, n = size / 8, w = bit / WORD, off = bit % WORD;
  m->start[w] |= (uint64_t)1 << off;
  m->found += size;
  while (n) {
    size_t k = WORD - off < n ? WORD - off : n;
    m->free[w++] |= (~(uint64_t)0 >> (WORD - k)) << off;
    n -= k;
    off = 0;
  }
}

static void mark_list(map *m, mr_link **head, unsigned c) {
  size_t size = mr_sizeclass_size(c);
  for (mr_link *l = *head; l; l = l->next) {
    MR_UNPOISON(l, sizeof *l);
    PORT_PREFETCH(l->next);
    mark(m, l, size);
  }
  *head = NULL;
}

static void mark_all(map *m, mr_heap *h) {
  mr_arena_give(h, h->bump, (size_t)(h->end - h->bump));
  h->bump = h->end = NULL;
  for (unsigned c = 0; c < MR_HEADS; c++) mark_list(m, &h->heads[c], c);
  for (unsigned c = MR_HEADS; h->mids && c < MR_CLASSES; c++) mark_list(m, &h->mids[c - MR_HEADS], c);
  h->midmap = 0;
}

/* ---- back to lists, from the highest address down: each list is then in rising order ---- */

/* The highest bit of `bits` in [low, high) that is set, after they were xor-ed with flip; low if there is none. */
static size_t below(const uint64_t *bits, size_t low, size_t high, uint64_t flip, int *none) {
  *none = 0;
  while (high > low) {
    size_t w = (high - 1) / WORD, from = w * WORD;
    uint64_t x = (bits[w] ^ flip) & ~(uint64_t)0 >> (WORD - (high - from));
    if (x) {
      size_t at = from + PORT_LOG2(x);
      if (at >= low) return at;
      break;
    }
    high = from;
  }
  *none = 1;
  return low;
}

static void give_blocks(map *m, mr_heap *h, const span *s, size_t low, size_t high) {
  while (high > low) {
    int none;
    size_t at = below(m->start, low, high, 0, &none);
    mr_arena_give(h, s->base + (at - s->bit) * 8, (high - at) * 8);
    high = at;
  }
}

static int whole(const span *s, size_t low, size_t high) {
  return s->chunk && low == s->bit + sizeof(mr_chunk) / 8 && high == s->bit + s->size / 8;
}

/* Gives all free space of a span back to the lists; 0: it was wholly free, and is not wanted. */
static int span_give(map *m, mr_heap *h, span *s, size_t spare) {
  size_t high = s->bit + s->size / 8;
  for (;;) {
    int none;
    size_t top = below(m->free, s->bit, high, 0, &none);
    if (none) return 1;
    high = top + 1;
    size_t low = below(m->free, s->bit, high, ~(uint64_t)0, &none);
    if (!none) low++;
    if (whole(s, low, high) && spare >= s->size) return 0;
    if ((high - low) * 8 >= RUN) {
      m->runs += (high - low) * 8;
      mr_arena_give(h, s->base + (low - s->bit) * 8, (high - low) * 8);
    } else give_blocks(m, h, s, low, high);
    high = low;
  }
}

static void give_all(map *m, mr_heap *h) {
  size_t most = h->arena / 4 * 3, spare = m->found > most ? m->found - most : 0;
  h->chunk.next = NULL;
  for (size_t i = m->count; i-- > 0;) {
    span *s = &m->spans[i];
    if (!span_give(m, h, s, spare)) {
      spare -= s->size;
      h->arena -= s->size;
      mr_heap_tell(h);
      mr_pool_put(s->chunk);
    } else if (s->chunk) {
      s->chunk->next = h->chunk.next;
      h->chunk.next = s->chunk;
    }
  }
}

/* ---- */

/*
 * Has so much become free since the last time that joining may be worth the walk? An estimate: rounding and heads count
 * as free here.
 */
static int promising(const mr_heap *h) {
  size_t free = h->arena + h->mapped_used - mr_heap_used(h);
  return h->arena >= LEAST && free >= h->scattered + h->arena / 6;
}

int mr_heap_coalesce(mr_heap *h) {
  map m;
  size_t size;
  if (!promising(h) || !map_make(&m, h, &size)) return 0;
  mark_all(&m, h);
  give_all(&m, h);
  mr_block_put(m.spans, size);
  h->scattered = m.found - m.runs;
  MR_CHECK_SOME(16, mr_heap_verify(h));
  return m.runs > 0;
}
