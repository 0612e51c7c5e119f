/*
 * heap: the slow half (see heap.h for who owns what).
 *
 * A span with blocks of a class is OPEN, on the list of its class, with `count` blocks in use; or FULL, on no list, all in use: then `count` is 1, so
 * that the next block that comes back leads here. A run belongs to no heap: it is the pool's business, whoever frees it.
 *
 * An empty span is kept for a while, as programs free the last block of a size and ask for the next: the last few that became empty are in `kept`,
 * at most SPARE and an eighth of all that the heap has. Only what falls out of there, and is empty still, goes back to the pool.
 */
#include "heap.h"
#include "large.h"
#include "pool.h"
#include <string.h>

enum {
  SPARE = 1,
  BATCH = 4096,       /* bytes of blocks carved at a time; in classes that grow: */
  BATCH_GROWN = 16384,
  GROWN = 8           /* a class of so many spans: the next will be filled, too */
};

ma_span ma_nothing;
ma_heap ma_nobody = {
  .direct = { [0 ... MA_SLOTS - 1] = &ma_nothing },
  .first = { [0 ... MA_CLASSES - 1] = &ma_nothing },
  .last = { [0 ... MA_CLASSES - 1] = &ma_nothing },
};

/* ---- lists of a class ---- */

static void set_first(ma_heap *h, unsigned c, ma_span *s)
{
  h->first[c] = s;
  size_t top = ma_class_size(c) / MA_GRAIN;
  if (top >= MA_SLOTS) return;
  size_t from = c == 0 ? 0 : ma_class_size(c - 1) / MA_GRAIN + 1;
  for (size_t i = from; i <= top; i++) h->direct[i] = s;
}

static void append(ma_heap *h, ma_span *s)
{
  unsigned c = s->class;
  s->state = MA_OPEN;
  s->next = NULL;
  s->prev = h->first[c] == &ma_nothing ? NULL : h->last[c];
  if (s->prev) s->prev->next = s; else set_first(h, c, s);
  h->last[c] = s;
}

static void take_off(ma_heap *h, ma_span *s)
{
  unsigned c = s->class;
  if (s->next) s->next->prev = s->prev; else h->last[c] = s->prev ? s->prev : &ma_nothing;
  if (s->prev) s->prev->next = s->next; else set_first(h, c, s->next ? s->next : &ma_nothing);
}

void ma_heap_init(ma_heap *h)
{
  memcpy(h, &ma_nobody, offsetof(ma_heap, kept));
}

/* ---- spans ---- */

static unsigned units_for(size_t size)
{
  return size <= 8192 ? 1 : (unsigned)((size * 8 + MA_UNIT - 1) / MA_UNIT);
}

static ma_span *span_new(ma_heap *h, unsigned c)
{
  size_t size = ma_class_size(c);
  ma_large_age();
  ma_span *s = ma_pool_take(units_for(size), 1);
  if (!s) return NULL;
  s->heap = h;
  s->class = (uint8_t)c;
  s->size = (uint32_t)size;
  s->capacity = (uint16_t)(s->units * MA_UNIT / size);
  h->spans++;
  h->spans_of[c]++;
  if (h->spans_of[c] > GROWN) ma_pool_populate(s);
  append(h, s);
  return s;
}

static void span_give(ma_heap *h, ma_span *s)
{
  take_off(h, s);
  h->spans--;
  h->spans_of[s->class]--;
  ma_pool_give(s);
}

/* Makes blocks of what the span has never handed out. */
static int carve(ma_span *s, size_t batch)
{
  size_t n = batch / s->size ? batch / s->size : 1, left = (size_t)(s->capacity - s->carved);
  if (n > left) n = left;
  if (n == 0) return 0;
  char *p = ma_span_start(s) + (size_t)s->carved * s->size;
  s->carved = (uint16_t)(s->carved + n);
  s->free = (ma_block *)(void *)p;
  for (; n > 1; n--, p += s->size) ((ma_block *)(void *)p)->next = (ma_block *)(void *)(p + s->size);
  ((ma_block *)(void *)p)->next = NULL;
  return 1;
}

void *ma_heap_more(ma_heap *h, unsigned c, int *zero)
{
  *zero = 0;
  if (ma_messages_any(&h->messages)) ma_heap_drain(h);
  for (ma_span *s = h->first[c]; s != &ma_nothing; s = h->first[c]) {
    if (s->free) return ma_pop(s);
    if (carve(s, h->spans_of[c] > GROWN ? BATCH_GROWN : BATCH)) {
      *zero = s->flags & MA_ZERO;
      return ma_pop(s);
    }
    take_off(h, s);
    s->state = MA_FULL;
    s->count = 1;
  }
  ma_span *s = span_new(h, c);
  if (!s) return NULL;
  *zero = s->flags & MA_ZERO;
  carve(s, BATCH);
  return ma_pop(s);
}

/* ---- runs ---- */

static unsigned units_of_run(size_t n) { return (unsigned)((n + MA_UNIT - 1) / MA_UNIT); }

void *ma_heap_run(ma_heap *h, size_t n, size_t align, int *zero)
{
  ma_large_age();
  ma_span *s = ma_pool_take(units_of_run(n), 0);
  if (!s) return NULL;
  s->flags |= MA_RUN;
  *zero = s->flags & MA_ZERO;
  size_t rest = s->units * MA_UNIT - n, colour = align > MA_GRAIN ? 0 : h->colours++ % 32 * 64; /* why: see large.c */
  return ma_span_start(s) + (colour <= rest ? colour : 0);
}

int ma_heap_run_resize(ma_span *s, const char *p, size_t n)
{
  size_t before = (size_t)(p - ma_span_start(s));
  return ma_pool_resize(s, units_of_run(before + n));
}

/* ---- what comes back ---- */

static void unkeep_oldest(ma_heap *h)
{
  ma_span *s = h->kept[h->oldest];
  h->oldest = (h->oldest + 1) % MA_RING;
  h->kept_count--;
  s->flags &= (uint8_t)~MA_KEPT;
  if (s->count == 0) span_give(h, s);
}

static void keep(ma_heap *h, ma_span *s)
{
  size_t most = SPARE + h->spans / 8;
  if (atomic_load_explicit(&h->orphan, memory_order_relaxed)) most = 0;
  if (most > MA_RING - 1) most = MA_RING - 1;
  s->flags |= MA_KEPT;
  h->kept[(h->oldest + h->kept_count++) % MA_RING] = s;
  while (h->kept_count > most) unkeep_oldest(h);
}

void ma_heap_settle(ma_heap *h, ma_span *s)
{
  if (s->count < 0) ma_die("freed twice: a block of", ma_span_start(s));
  if (s->state == MA_FULL) {
    s->count = s->capacity - 1;
    append(h, s);
  } else if (!(s->flags & MA_KEPT)) keep(h, s);
}

void ma_heap_drain(ma_heap *h)
{
  ma_block *b = ma_messages_take(&h->messages);
  while (b) {
    ma_block *next = b->next;
    ma_put(h, ma_span_of(b), b);
    b = next;
  }
}

int ma_heap_tidy(ma_heap *h)
{
  size_t before = h->spans;
  ma_heap_drain(h);
  while (h->kept_count) unkeep_oldest(h);
  return h->spans != before;
}
