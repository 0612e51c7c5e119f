/*
 * check: walks an arena and tells whether it is sound: for tests, and now and then in builds with checks.
 *
 * Each chunk and adopted block is a span with one bit per 8 bytes. Headers, free blocks and the bump region mark their
 * bits; a bit marked twice, or outside all spans, is damage. What stays unmarked must be able to hold the live bytes.
 */
#include "heap/arena.h"
#include "heap/poison.h"

#include <stdlib.h>
#include <string.h>

typedef struct span { char *base; size_t size; size_t bit; } span;

typedef struct walk {
  span *spans;
  size_t count, bits, marked, larges;
  int refused;               /* no memory for the walk */
  unsigned char *map;
} walk;

static int span_order(const void *a, const void *b) {
  const span *x = a, *y = b;
  return x->base < y->base ? -1 : x->base > y->base;
}

static int span_add(walk *w, char *base, size_t size) {
  if (w->count % 64 == 0) {
    span *s = realloc(w->spans, (w->count + 64) * sizeof *s);
    if (!s) {
      w->refused = 1;
      return 0;
    }
    w->spans = s;
  }
  w->spans[w->count++] = (span){base, size, 0};
  return 1;
}

static int spans_gather(walk *w, const mr_heap *h) {
  size_t total = 0, mapped = 0;
  for (const mr_chunk *c = &h->chunk; c; c = c->next) {
    if (!span_add(w, (char *)(uintptr_t)c, c->size)) return 0;
    total += c->size;
  }
  for (mr_large *b = h->large; b; b = b->next) {
    *(b->adopted ? &total : &mapped) += b->size;
    if (b->next && b->next->prev != b) return 0;
    size_t usable = b->size - mr_large_offset(b);
    if (b->adopted) { if (!span_add(w, (char *)b, usable)) return 0; }
    else w->larges += usable - sizeof *b;
  }
  if (total != h->arena || mapped != h->mapped || h->mapped_used > mapped) return 0;
  qsort(w->spans, w->count, sizeof *w->spans, span_order);
  for (size_t i = 0; i < w->count; i++) {
    w->spans[i].bit = w->bits;
    w->bits += w->spans[i].size / 8;
  }
  w->map = calloc(w->bits / 8 + 1, 1);
  w->refused = !w->map;
  return !w->refused;
}

static span *span_of(walk *w, const char *p) {
  size_t lo = 0, hi = w->count;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    span *s = &w->spans[mid];
    if (p < s->base) hi = mid;
    else if (p >= s->base + s->size) lo = mid + 1;
    else return s;
  }
  return NULL;
}

static int mark(walk *w, const void *at, size_t n) {
  const char *p = at;
  if (!n) return 1;
  span *s = span_of(w, p);
  if (!s || (uintptr_t)p % 8 || n % 8 || p + n > s->base + s->size) return 0;
  size_t bit = s->bit + (size_t)(p - s->base) / 8;
  for (size_t i = 0; i < n / 8; i++, bit++) {
    if (w->map[bit / 8] >> bit % 8 & 1) return 0;
    w->map[bit / 8] |= (unsigned char)(1 << bit % 8);
  }
  w->marked += n;
  return 1;
}

static int mark_list(walk *w, mr_link *l, unsigned c) {
  for (mr_link *next; l; l = next) {
    if (!mark(w, l, mr_sizeclass_size(c))) return 0;
    MR_UNPOISON(l, sizeof *l);
    next = l->next;
    MR_POISON(l, mr_sizeclass_size(c));
  }
  return 1;
}

static int mark_all(walk *w, const mr_heap *h) {
  if (!mark(w, h, sizeof *h)) return 0;
  for (const mr_chunk *c = h->chunk.next; c; c = c->next) if (!mark(w, c, sizeof *c)) return 0;
  for (const mr_large *b = h->large; b; b = b->next) if (b->adopted && !mark(w, b, sizeof *b)) return 0;
  if (h->end < h->bump || !mark(w, h->bump, (size_t)(h->end - h->bump))) return 0;
  for (unsigned c = 0; c < MR_HEADS; c++) if (!mark_list(w, h->heads[c], c)) return 0;
  if (!h->mids) return h->midmap == 0;
  if (!mark(w, h->mids, MR_MIDS * sizeof *h->mids)) return 0;
  for (unsigned m = 0; m < MR_MIDS; m++) {
    if ((h->midmap >> m & 1) != (h->mids[m] != NULL)) return 0;
    if (!mark_list(w, h->mids[m], m + MR_HEADS)) return 0;
  }
  return 1;
}

int mr_heap_check(const mr_heap *h) {
  walk w = {0};
  int ok = h->limit >= h->room && spans_gather(&w, h) && mark_all(&w, h);
  if (ok && h->fast) ok = mr_heap_used(h) <= w.bits * 8 - w.marked + w.larges;
  free(w.spans);
  free(w.map);
  return w.refused ? -1 : !ok;
}
