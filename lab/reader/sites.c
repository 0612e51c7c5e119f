/*
 * Counting by stack, see sites.h. Nothing is copied when a new peak is reached: the peak gets a number, and a site whose note is older than the last peak
 * writes down its live bytes before it changes them. So a site that has not changed since had at the peak what it has now.
 */
#include "sites.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int more_slots(st_sites *s)
{
  size_t room = s->slot_count ? s->slot_count * 2 : 1024;
  uint32_t *slots = calloc(room, sizeof *slots);
  if (!slots) return 0;
  for (size_t i = 0; i < s->count; i++) {
    size_t at = (size_t)s->site[i].hash & (room - 1);
    while (slots[at]) at = (at + 1) & (room - 1);
    slots[at] = (uint32_t)i + 1;
  }
  free(s->slots);
  s->slots = slots;
  s->slot_count = room;
  return 1;
}

static int keep_frames(st_sites *s, const uint64_t *stack, unsigned n)
{
  while (s->address_count + n + 1 > s->address_room) {
    size_t room = s->address_room ? s->address_room * 2 : 4096;
    uint64_t *more = realloc(s->addresses, room * sizeof *more);
    if (!more) return 0;
    s->addresses = more;
    s->address_room = room;
  }
  s->addresses[s->address_count++] = n;
  if (n) memcpy(s->addresses + s->address_count, stack, n * sizeof *stack);
  s->address_count += n;
  return 1;
}

static st_site *add_site(st_sites *s, uint64_t hash, const uint64_t *stack, unsigned n)
{
  if (s->count == s->room) {
    size_t room = s->room ? s->room * 2 : 256;
    st_site *more = realloc(s->site, room * sizeof *more);
    if (!more) return NULL;
    s->site = more;
    s->room = room;
  }
  size_t frames = s->address_count;
  if (!keep_frames(s, stack, n)) return NULL;
  s->site[s->count] = (st_site){ .hash = hash, .frames = frames };
  return &s->site[s->count++];
}

static st_site *site_of(st_sites *s, const uint64_t *stack, unsigned n)
{
  uint64_t hash = UINT64_C(14695981039346656037);
  for (unsigned i = 0; i < n; i++) hash = (hash ^ stack[i]) * UINT64_C(1099511628211);
  hash ^= hash >> 32;
  if (s->count * 2 >= s->slot_count && !more_slots(s)) return NULL;
  size_t at = (size_t)hash & (s->slot_count - 1);
  for (; s->slots[at]; at = (at + 1) & (s->slot_count - 1))
    if (s->site[s->slots[at] - 1].hash == hash) return &s->site[s->slots[at] - 1];
  if (s->count >= ST_MOST) return n ? site_of(s, NULL, 0) : &s->site[0]; /* without frames: one for all of them */
  st_site *made = add_site(s, hash, stack, n);
  if (made) s->slots[at] = (uint32_t)s->count;
  return made;
}

/* ---- the interface ---- */

st_sites *st_new(void)
{
  st_sites *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->every = 1;
  s->live = lv_new();
  if (s->live && site_of(s, NULL, 0)) return s; /* the one without frames is there before there are too many */
  st_free(s);
  return NULL;
}

void st_free(st_sites *s)
{
  if (!s) return;
  lv_free(s->live);
  free(s->site);
  free(s->slots);
  free(s->addresses);
  free(s);
}

static uint64_t weight(const st_sites *s, uint64_t size) { return size >= MTR_STACK_ALWAYS ? 1 : s->every; }

static void note_peak(const st_sites *s, st_site *site)
{
  if (site->noted == s->peak) return;
  site->at_peak = site->live;
  site->noted = s->peak;
}

int st_born(st_sites *s, const rd_event *e, uint64_t operations)
{
  st_site *site = site_of(s, e->stack, e->frames);
  if (!site) return 0;
  lv_block old, b = { .address = e->address, .size = e->size, .operation = (uint64_t)(site - s->site), .bytes = operations / ST_OPERATIONS };
  uint64_t many = weight(s, e->size);
  int fresh = lv_add(s->live, &b, &old);
  if (fresh < 0) return 0;
  if (fresh == 0) st_end(s, &old);
  note_peak(s, site);
  site->samples++;
  site->number += many;
  site->bytes += e->size * many;
  site->live += e->size * many;
  return 1;
}

int st_take(st_sites *s, uint64_t address, lv_block *block) { return lv_count(s->live) && lv_take(s->live, address, block); }

int st_put_back(st_sites *s, const lv_block *block)
{
  lv_block old;
  int fresh = lv_add(s->live, block, &old);
  if (fresh == 0) st_end(s, &old);
  return fresh >= 0;
}

void st_end(st_sites *s, const lv_block *block)
{
  st_site *site = &s->site[block->operation];
  note_peak(s, site);
  site->live -= block->size * weight(s, block->size);
}

void st_peak(st_sites *s) { s->peak++; }

static int by_falling_number(const void *a, const void *b)
{
  const st_site *x = a, *y = b;
  return x->number != y->number ? (x->number < y->number) - (x->number > y->number) : (x->hash > y->hash) - (x->hash < y->hash);
}

typedef struct st_leaving { st_sites *sites; uint64_t half; } st_leaving;

static void leave(void *data, const lv_block *b)
{
  const st_leaving *l = data;
  st_site *site = &l->sites->site[b->operation];
  uint64_t many = weight(l->sites, b->size);
  site->left += many;
  site->left_bytes += b->size * many;
  if (b->bytes * ST_OPERATIONS >= l->half) site->late += many;
}

void st_finish(st_sites *s, uint64_t operations)
{
  st_leaving leaving = { s, operations / 2 };
  for (size_t i = 0; i < s->count; i++) note_peak(s, &s->site[i]);
  lv_drain(s->live, leave, &leaving); /* before sites are sorted: blocks know them by number */
  qsort(s->site, s->count, sizeof *s->site, by_falling_number);
}

void st_write(FILE *f, const st_sites *s)
{
  for (size_t i = 0; i < s->count && s->site[i].number; i++) {
    const st_site *t = &s->site[i];
    const uint64_t *frames = s->addresses + t->frames;
    const uint64_t of[] = { t->number, t->bytes, t->at_peak, t->left, t->left_bytes, t->late, t->samples };
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) fprintf(f, k ? " %" PRIu64 : "%" PRIu64, of[k]);
    for (uint64_t k = 1; k <= frames[0]; k++) fprintf(f, " %" PRIx64, frames[k]);
    fputc('\n', f);
  }
}
