/*
 * 1024 open tables with linear probing, each between 0.77 and 0.875 full once it has grown. A slot is empty when its first word is 0. Deleting shifts
 * back. Sizes of 4 GiB and more stand in a list beside: there are few.
 */
#include "live.h"
#include <stdlib.h>
#include <string.h>

#define PARTS 1024u
#define HUGE_SIZE UINT32_MAX

typedef struct { uint64_t a, b, c; } slot; /* a: address >> 3, thread << 44, routine << 58; b: operation << 28 | time; c: bytes << 32 | size */
typedef struct { slot *slots; uint32_t count, room; } part;
typedef struct { uint64_t address, size; } huge;

struct lv_table {
  part parts[PARTS];
  size_t count, room;
  huge *huges;
  size_t huge_count, huge_room;
};

#define KEY(a) ((a) & ((UINT64_C(1) << 44) - 1))

static uint64_t mix(uint64_t key)
{
  key *= UINT64_C(0x9E3779B97F4A7C15);
  return key ^ key >> 29;
}

static part *part_of(lv_table *t, uint64_t h) { return &t->parts[h & (PARTS - 1)]; }
static uint32_t home(const part *p, uint64_t h) { return (uint32_t)(((h >> 32) * p->room) >> 32); }
static uint32_t after(const part *p, uint32_t i) { return i + 1 == p->room ? 0 : i + 1; }

static uint32_t find(const part *p, uint64_t key, uint64_t h)
{
  uint32_t i = home(p, h);
  while (p->slots[i].a && KEY(p->slots[i].a) != key) i = after(p, i);
  return i;
}

static int grow(lv_table *t, part *p)
{
  part bigger = { NULL, p->count, p->room ? p->room + p->room / 8 + 2 : 8 };
  bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
  if (!bigger.slots) return 0;
  for (uint32_t i = 0; i < p->room; i++) {
    if (!p->slots[i].a) continue;
    uint64_t key = KEY(p->slots[i].a);
    bigger.slots[find(&bigger, key, mix(key))] = p->slots[i];
  }
  t->room += bigger.room - p->room;
  free(p->slots);
  *p = bigger;
  return 1;
}

static int add_huge(lv_table *t, uint64_t address, uint64_t size)
{
  if (t->huge_count == t->huge_room) {
    size_t room = t->huge_room ? t->huge_room * 2 : 16;
    huge *more = realloc(t->huges, room * sizeof *more);
    if (!more) return 0;
    t->huges = more;
    t->huge_room = room;
  }
  t->huges[t->huge_count++] = (huge){ address, size };
  return 1;
}

static uint64_t take_huge(lv_table *t, uint64_t address)
{
  for (size_t i = 0; i < t->huge_count; i++) {
    if (t->huges[i].address != address) continue;
    uint64_t size = t->huges[i].size;
    t->huges[i] = t->huges[--t->huge_count];
    return size;
  }
  return HUGE_SIZE;
}

static slot pack(const lv_block *b)
{
  uint64_t size = b->size < HUGE_SIZE ? b->size : HUGE_SIZE;
  return (slot){ b->address >> 3 | (uint64_t)(b->thread & 0x3fff) << 44 | (uint64_t)(b->routine & 7) << 58,
                 b->operation << 28 | (b->time_ms & 0xfffffff), b->bytes << 32 | size };
}

static void unpack(lv_table *t, const slot *s, lv_block *b)
{
  b->address = KEY(s->a) << 3;
  b->thread = (uint32_t)(s->a >> 44) & 0x3fff;
  b->routine = (uint32_t)(s->a >> 58) & 7;
  b->operation = s->b >> 28;
  b->time_ms = (uint32_t)(s->b & 0xfffffff);
  b->bytes = s->c >> 32;
  b->size = s->c & HUGE_SIZE;
  if (b->size == HUGE_SIZE) b->size = take_huge(t, b->address);
}

lv_table *lv_new(void) { return calloc(1, sizeof(lv_table)); }

void lv_free(lv_table *t)
{
  if (!t) return;
  for (uint32_t i = 0; i < PARTS; i++) free(t->parts[i].slots);
  free(t->huges);
  free(t);
}

int lv_add(lv_table *t, const lv_block *block, lv_block *old)
{
  uint64_t key = block->address >> 3, h = mix(key);
  part *p = part_of(t, h);
  if ((uint64_t)(p->count + 1) * 8 > (uint64_t)p->room * 7 && !grow(t, p)) return -1;
  uint32_t i = find(p, key, h);
  int fresh = p->slots[i].a == 0;
  if (!fresh) unpack(t, &p->slots[i], old);
  if (block->size >= HUGE_SIZE && !add_huge(t, block->address & ~UINT64_C(7), block->size)) return -1;
  p->slots[i] = pack(block);
  p->count += (uint32_t)fresh;
  t->count += (size_t)fresh;
  return fresh;
}

static void close_gap(part *p, uint32_t gap)
{
  for (uint32_t i = after(p, gap); p->slots[i].a; i = after(p, i)) {
    uint32_t at = home(p, mix(KEY(p->slots[i].a)));
    int between = gap < i ? at > gap && at <= i : at > gap || at <= i; /* its home lies after the gap: it stays */
    if (between) continue;
    p->slots[gap] = p->slots[i];
    gap = i;
  }
  p->slots[gap] = (slot){ 0, 0, 0 };
}

int lv_take(lv_table *t, uint64_t address, lv_block *block)
{
  uint64_t key = address >> 3, h = mix(key);
  part *p = part_of(t, h);
  if (!p->room) return 0;
  uint32_t i = find(p, key, h);
  if (!p->slots[i].a) return 0;
  unpack(t, &p->slots[i], block);
  close_gap(p, i);
  p->count--;
  t->count--;
  return 1;
}

size_t lv_count(const lv_table *t) { return t->count; }
size_t lv_bytes(const lv_table *t) { return sizeof *t + t->room * sizeof(slot) + t->huge_room * sizeof(huge); }

void lv_drain(lv_table *t, void (*f)(void *data, const lv_block *block), void *data)
{
  for (uint32_t i = 0; i < PARTS; i++) {
    part *p = &t->parts[i];
    for (uint32_t k = 0; k < p->room; k++) {
      if (!p->slots[k].a) continue;
      lv_block b;
      unpack(t, &p->slots[k], &b);
      f(data, &b);
    }
    t->count -= p->count;
    if (p->room) memset(p->slots, 0, p->room * sizeof *p->slots);
    p->count = 0;
  }
}
