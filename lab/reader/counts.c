/* Counting tables (open addressing, at most 5/8 full), logarithmic classes, curves: see counts.h. */
#include "counts.h"
#include <stdlib.h>
#include <string.h>

static size_t slot_of(const ct_table *t, uint64_t key)
{
  uint64_t h = (key ^ key >> 32) * UINT64_C(0x9E3779B97F4A7C15); /* keys may differ in their upper bits alone */
  size_t i = (size_t)(h ^ h >> 32) & (t->room - 1);
  while (t->items[i].number && t->items[i].key != key) i = (i + 1) & (t->room - 1);
  return i;
}

static int grow(ct_table *t)
{
  ct_table bigger = *t;
  bigger.room = t->room ? t->room * 2 : 64;
  bigger.items = calloc(bigger.room, sizeof *bigger.items);
  if (!bigger.items) return 0;
  for (size_t i = 0; i < t->room; i++)
    if (t->items[i].number) bigger.items[slot_of(&bigger, t->items[i].key)] = t->items[i];
  free(t->items);
  *t = bigger;
  return 1;
}

int ct_add(ct_table *t, uint64_t key, uint64_t number, uint64_t sum)
{
  if (number == 0) return 1;
  if ((t->count + 1) * 8 > t->room * 5 && !grow(t)) return 0;
  size_t i = slot_of(t, key);
  if (t->items[i].number == 0) {
    if (t->most && t->count >= t->most) {
      t->refused += number;
      return 1;
    }
    t->items[i].key = key;
    t->count++;
  }
  t->items[i].number += number;
  t->items[i].sum += sum;
  return 1;
}

static int by_key(const void *a, const void *b)
{
  uint64_t x = ((const ct_item *)a)->key, y = ((const ct_item *)b)->key;
  return (x > y) - (x < y);
}

static int by_falling_number(const void *a, const void *b)
{
  uint64_t x = ((const ct_item *)a)->number, y = ((const ct_item *)b)->number;
  return x != y ? (x < y) - (x > y) : by_key(a, b);
}

ct_item *ct_sorted(ct_table *t, int by_number)
{
  size_t n = 0;
  for (size_t i = 0; i < t->room; i++)
    if (t->items[i].number) t->items[n++] = t->items[i];
  if (n) qsort(t->items, n, sizeof *t->items, by_number ? by_falling_number : by_key);
  t->room = t->count = n;
  return t->items;
}

void ct_free(ct_table *t)
{
  free(t->items);
  *t = (ct_table){ NULL, 0, 0, t->most, 0 };
}

unsigned ct_class(uint64_t value)
{
  if (value < 8) return (unsigned)value;
  unsigned octave = 63u - (unsigned)__builtin_clzll(value); /* 3 or more */
  return 8 + (octave - 3) * 4 + (unsigned)((value >> (octave - 2)) & 3);
}

uint64_t ct_class_last(unsigned c)
{
  if (c < 8) return c;
  unsigned octave = 3 + (c - 8) / 4, quarter = (c - 8) % 4;
  return ((uint64_t)(4 + quarter) << (octave - 2)) + ((UINT64_C(1) << (octave - 2)) - 1);
}

unsigned ct_size_code(uint64_t size)
{
  if (size <= CT_EXACT_SIZES) return (unsigned)size;
  unsigned octave = 63u - (unsigned)__builtin_clzll(size); /* 12 or more */
  return CT_EXACT_SIZES + 1 + (octave - 12) * 16 + (unsigned)((size >> (octave - 4)) & 15);
}

void ct_curve_start(ct_curve *c, uint64_t step)
{
  memset(c, 0, sizeof *c);
  c->step = step;
}

static void halve(ct_curve *c)
{
  for (size_t i = 0; i < CT_BINS / 2; i++) {
    c->a[i] = c->a[2 * i + 1];
    c->b[i] = c->b[2 * i + 1];
  }
  c->step *= 2;
  c->last /= 2;
}

void ct_curve_set(ct_curve *c, uint64_t at, uint64_t a, uint64_t b)
{
  while (at / c->step >= CT_BINS) {
    for (uint64_t i = c->last + 1; i < CT_BINS; i++) { c->a[i] = c->now_a; c->b[i] = c->now_b; }
    c->last = CT_BINS - 1;
    halve(c);
  }
  uint64_t bin = at / c->step;
  for (; c->last < bin; c->last++) { c->a[c->last + 1] = c->now_a; c->b[c->last + 1] = c->now_b; }
  c->a[bin] = c->now_a = a;
  c->b[bin] = c->now_b = b;
}
