/*
 * plain: builds what is made of strings and tables without metatables alone, as most messages are, raw (lua/build.h).
 *
 * Nothing is collected while it is built, so nothing needs to be held: slots lie outside the state, and what has been made so far is garbage if there
 * is no memory for the rest. Then 0 is the answer, and all of it is built the general way (unpack.c), which lets the collector find some.
 * First strings and empty tables are made, then the tables get their parts, of their final size, each filled at once. Keys that are no shape are put in
 * by the API; it finds room for each, so it allocates nothing.
 *
 * The collector may work before: the message before this one is garbage then, as a rule, and this one is not there yet.
 */
#include <stdlib.h>
#include "lua/build.h"
#include "transfer/packet.h"

#define SLOTS 48                               /* more than these are allocated */

/* The first table of a shape; the others copy its hash part and put their own values in. */
enum { NEW, FILLED, LEARNT };
typedef struct like { const raw_table *first; uint8_t known; uint16_t place[MAX_SHAPE]; } like;   /* place: in bytes behind the first node */

typedef struct builder {
  lua_State *L;
  raw_global *g;
  const mr_parts *m;
  raw_value *slots[2];                         /* of strings and of objects, by the last bit of the tag; the latter lie behind the former */
  const char *body;
  like likes[MR_LIKES];
} builder;

/* ---- making ---- */

static int make_strings(builder *b) {
  const uint64_t *record = (const uint64_t *)(const void *)b->m->at[STR];
  for (raw_value *slot = b->slots[0], *end = b->slots[1]; slot < end; slot++) {
    size_t n = (size_t)(record[0] >> 1);
    int far = record[0] & 1;
    raw_string *s = raw_new_string(b->g, far ? (const char *)record[1] : (const char *)(record + 1), n);
    if (PORT_UNLIKELY(!s)) return 0;
    slot->bits = (uintptr_t)s;
    slot->tt = raw_string_tag(n);
    record += far ? 2 : 1 + PAD8(n) / 8;
  }
  return 1;
}

static int make_tables(builder *b) {
  for (raw_value *slot = b->slots[1], *end = slot + b->m->nobjects; slot < end; slot++) {
    raw_table *t = raw_new_table(b->g);
    if (PORT_UNLIKELY(!t)) return 0;
    slot->bits = (uintptr_t)t;
    slot->tt = RAW_TABLE;
  }
  return 1;
}

/* ---- filling ---- */

static inline mr_block next_block(builder *b, size_t n) {
  mr_block block = { (uint8_t *)b->body, (uint64_t *)(void *)(b->body + PAD8(n)) };
  b->body += PAD8(n) + 8 * n;
  return block;
}

static inline const raw_value *slot_of(const builder *b, uint8_t tag, uint64_t word) {
  mr_assert(tag == TAG_STRING ? PAIR_LOW(word) < b->m->nstrings : tag == TAG_OBJECT && word < b->m->nobjects);
  return &b->slots[tag & 1][PAIR_LOW(word)];
}

static inline void put(const builder *b, uint64_t *bits, uint8_t *tt, uint8_t tag, uint64_t word) {
  if (TAG_ISREF(tag)) {
    const raw_value *from = slot_of(b, tag, word);
    *bits = from->bits;
    *tt = from->tt;
  } else {
    *bits = word;
    *tt = tag;
  }
}

static inline void push(builder *b, uint8_t tag, uint64_t word) {
  raw_value v;
  put(b, &v.bits, &v.tt, tag, word);
  raw_push(b->L, v.tt, v.bits);
}

static int fill_array(builder *b, const mr_def *d, raw_table *t) {
  uint32_t n = d->narr;
  if (PORT_UNLIKELY(!raw_new_array(b->g, t, n))) return 0;
  if (d->uniform) {
    raw_put_numbers(t->array, d->uniform, (const uint64_t *)(const void *)b->body, n);
    b->body += (size_t)n * 8;
    return 1;
  }
  mr_block from = next_block(b, n);
  raw_value *to = t->array;
  for (uint32_t i = 0; i < n; i++) put(b, &to[i].bits, &to[i].tt, from.tags[i], from.words[i]);
  return 1;
}

/* Stack: [..., table]. */
static void set(builder *b, uint8_t key_tag, uint64_t key, uint8_t tag, uint64_t word) {
  push(b, key_tag, key);
  push(b, tag, word);
  lua_rawset(b->L, -3);
}

/* keys: of a shape, or NULL. */
static int fill_new(builder *b, raw_table *t, const uint64_t *keys, uint32_t n) {
  if (PORT_UNLIKELY(!raw_new_room(b->g, t, n))) return 0;
  const raw_node *nodes = t->node;
  mr_block from = next_block(b, keys ? n : (size_t)n * 2);
  raw_push(b->L, RAW_TABLE, (uintptr_t)t);
  if (keys) for (uint32_t i = 0; i < n; i++) set(b, TAG_STRING, keys[i], from.tags[i], from.words[i]);
  else for (size_t i = 0; i < (size_t)n * 2; i += 2) set(b, from.tags[i], from.words[i], from.tags[i + 1], from.words[i + 1]);
  raw_pop(b->L);
  (void)nodes;
  mr_assert(t->node == nodes);
  return 1;
}

static void learn(builder *b, like *l, const uint64_t *keys, uint32_t n) {
  const raw_node *nodes = l->first->node, *end = nodes + raw_nodes(l->first);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t key = b->slots[0][PAIR_LOW(keys[i])].bits;
    const raw_node *node = nodes;
    while (node < end && (node->key != key || node->key_tt != RAW_SHORT)) node++;
    mr_assert(node < end);
    l->place[i] = (uint16_t)((const char *)node - (const char *)nodes);
  }
  l->known = LEARNT;
}

static int fill_like(builder *b, like *l, raw_table *t, const uint64_t *keys, uint32_t n) {
  if (PORT_UNLIKELY(l->known == FILLED)) learn(b, l, keys, n);
  if (PORT_UNLIKELY(!raw_new_nodes(b->g, t, l->first->node, l->first->lsizenode, raw_free(l->first)))) return 0;
  mr_block from = next_block(b, n);
  char *nodes = (char *)t->node;
  for (uint32_t i = 0; i < n; i++) {
    raw_node *node = (raw_node *)(void *)(nodes + l->place[i]);
    put(b, &node->bits, &node->tt, from.tags[i], from.words[i]);
  }
  return 1;
}

static int fill_hash(builder *b, const mr_def *d, raw_table *t) {
  if (!d->u.hash.shape) return fill_new(b, t, NULL, d->u.hash.npairs);
  const uint64_t *shape = (const uint64_t *)(const void *)b->m->at[SHAPE] + (d->u.hash.shape - 1);
  uint32_t n = PAIR_LOW(shape[0]), number = PAIR_HIGH(shape[0]);
  like *l = number < MR_LIKES ? &b->likes[number] : NULL;
  if (l && l->known != NEW) return fill_like(b, l, t, shape + 1, n);
  if (l) {
    l->first = t;
    l->known = FILLED;
  }
  return fill_new(b, t, shape + 1, n);
}

static int fill_tables(builder *b) {
  const mr_def *d = (const mr_def *)(const void *)b->m->at[DEF];
  for (const raw_value *slot = b->slots[1], *end = slot + b->m->nobjects; slot < end; slot++, d++) {
    raw_table *t = (raw_table *)(uintptr_t)slot->bits;
    if (d->narr && PORT_UNLIKELY(!fill_array(b, d, t))) return 0;
    if (d->u.hash.npairs && PORT_UNLIKELY(!fill_hash(b, d, t))) return 0;
  }
  return 1;
}

static int build(builder *b) {
  uint32_t n = b->m->nvalues;
  b->body = b->m->at[BODY];
  for (uint32_t i = 0; i < MR_LIKES && i < b->m->nshapes; i++) b->likes[i].known = NEW;
  if (PORT_UNLIKELY(!make_strings(b) || !make_tables(b))) return 0;
  mr_block values = next_block(b, n);
  if (PORT_UNLIKELY(!fill_tables(b))) return 0;
  for (uint32_t i = 0; i < n; i++) push(b, values.tags[i], values.words[i]);
  return 1;
}

int mr_unpack_plain(lua_State *L, const mr_parts *m) {
  builder b;
  raw_value few[SLOTS];
  size_t nslots = (size_t)m->nstrings + m->nobjects;
  raw_collect_due(L);
  b.L = L;
  b.g = raw_global_of(L);
  b.m = m;
  b.slots[0] = nslots <= SLOTS ? few : malloc(nslots * sizeof *few);
  if (PORT_UNLIKELY(!b.slots[0])) return 0;
  b.slots[1] = b.slots[0] + m->nstrings;
  int done = build(&b);
  if (b.slots[0] != few) free(b.slots[0]);
  return done;
}
