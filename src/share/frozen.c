/*
 * frozen: see frozen.h. Reading, and the counts.
 *
 * Invariants:
 *  - a whole's count is the number of its parts whose own count is not 0, and of those just on their way there or back: who makes the first
 *    reference to a part adds one to the whole, who drops the last takes it away. Between the two no part of that whole can be the last that
 *    is held, as who makes a reference has another one;
 *  - what refers to a whole was made after it, so wholes never refer to each other in a circle.
 */
#include <stdlib.h>
#include "share/hash.h"

uint64_t mr_frozen_seed;

/* ---- counts ---- */

static void whole_free(mr_frozen *w) {
  for (size_t i = 0; i < w->nheld; i++) mr_release(w->held[i]);
  for (mr_chunk *c = w->chunks, *next; c; c = next) {
    next = c->next;
    free(c);
  }
  if (w->budget) {
    mr_budget_give(w->budget, w->size);
    mr_budget_release(w->budget);
  }
  free(w);
}

/* A whole may hold the last reference to another, and so on, however long the chain is: they are freed one after the other. */
static void whole_release(mr_frozen *w) {
  static PORT_TLS mr_frozen *dying;
  static PORT_TLS int busy;
  if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1) return;
  w->next = dying;
  dying = w;
  if (busy) return;
  busy = 1;
  while ((w = dying) != NULL) {
    dying = w->next;
    whole_free(w);
  }
  busy = 0;
}

void mr_part_destroy(mr_shared *o) { whole_release(((mr_part *)o)->whole); }

void mr_part_hold(mr_shared *o) {
  mr_part *p = (mr_part *)o;
  mr_assert(atomic_load_explicit(&p->whole->refs, memory_order_relaxed) > 0);
  if (atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed) == 0) atomic_fetch_add_explicit(&p->whole->refs, 1, memory_order_relaxed);
}

size_t mr_frozen_size(const mr_part *part) { return part->whole->size; }
uint64_t mr_frozen_serial(const mr_part *part) { return part->whole->serial; }

void mr_frozen_charge(mr_part *part, mr_budget *b) {
  mr_budget_retain(b);
  part->whole->budget = b;
}

/* ---- reading ---- */

static const mr_frozen_value nothing = { 0, RAW_NIL };

uint32_t mr_part_nkeys(const mr_part *p) { return p->keys ? p->keys->n : 0; }

static inline mr_frozen_value array_value(const mr_part *p, uint32_t i) {
  return (mr_frozen_value){ p->words[i], p->uniform ? p->uniform : mr_part_tags(p)[i] };
}

static inline mr_frozen_value key_value(const mr_part *p, uint32_t i) {
  return (mr_frozen_value){ p->words[p->narr + i], mr_part_tags(p)[(p->uniform ? 0 : p->narr) + i] };
}

static const mr_slot *find_text(const mr_part *p, const char *text, size_t length) {
  const mr_keys *k = p->keys;
  if (!k) return NULL;
  uint32_t hash = mr_hash_text(text, length), mark = mr_slot_mark(FROZEN_STRING, hash);
  for (uint32_t i = mr_slot_first(k, hash); k->slots[i].mark; i = mr_slot_next(k, i)) {
    if (k->slots[i].mark != mark) continue;
    const mr_frozen_string *s = (const mr_frozen_string *)k->slots[i].key;
    if (s->length == length && memcmp(s->bytes, text, length) == 0) return &k->slots[i];
  }
  return NULL;
}

static const mr_slot *find_other(const mr_part *p, mr_frozen_value key) {
  uint32_t empty;
  return p->keys ? mr_keys_find(p->keys, key, mr_hash_other(key), &empty) : NULL;
}

mr_frozen_value mr_part_string(const mr_part *p, const char *text, size_t length) {
  const mr_slot *s = find_text(p, text, length);
  return s ? key_value(p, s->at) : nothing;
}

mr_frozen_value mr_part_other(const mr_part *p, mr_frozen_value key) {
  const mr_slot *s = find_other(p, key);
  return s ? key_value(p, s->at) : nothing;
}

mr_frozen_value mr_part_integer(const mr_part *p, lua_Integer i) {
  if ((lua_Unsigned)i - 1 < p->narr) return array_value(p, (uint32_t)(i - 1));
  return mr_part_other(p, (mr_frozen_value){ (uint64_t)i, RAW_INT });
}

/* ---- places: 1 … narr of the array, behind them those of the slots ---- */

mr_frozen_value mr_part_key_at(const mr_part *p, uint64_t place) {
  if (place <= p->narr) return (mr_frozen_value){ place, RAW_INT };
  const mr_slot *s = &p->keys->slots[place - p->narr - 1];
  return (mr_frozen_value){ s->key, (uint8_t)s->mark };
}

int mr_part_next(const mr_part *p, uint64_t *at, mr_frozen_value *key, mr_frozen_value *value) {
  uint64_t i = *at;
  for (; i < p->narr; i++) {
    *value = array_value(p, (uint32_t)i);
    if (!raw_isnil(value->tag)) break;
  }
  if (i >= p->narr) {
    uint64_t end = p->narr + (p->keys ? (uint64_t)p->keys->nslots : 0);
    while (i < end && !p->keys->slots[i - p->narr].mark) i++;
    if (i >= end) return 0;
    *value = key_value(p, p->keys->slots[i - p->narr].at);
  }
  *at = i + 1;
  *key = mr_part_key_at(p, i + 1);
  return 1;
}

static uint64_t place_of(const mr_part *p, const mr_slot *s) { return s ? p->narr + (uint64_t)(s - p->keys->slots) + 1 : 0; }

uint64_t mr_part_place_of(const mr_part *p, const char *text, size_t length) { return place_of(p, find_text(p, text, length)); }

uint64_t mr_part_place(const mr_part *p, mr_frozen_value key) {
  if (key.tag == RAW_INT && key.word - 1 < p->narr) return raw_isnil(array_value(p, (uint32_t)(key.word - 1)).tag) ? 0 : key.word;
  return place_of(p, find_other(p, key));
}
