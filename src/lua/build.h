/*
 * build: tables and strings made in a state without the API, many of them at once.
 *
 * Who unpacks a message or decodes bytes knows each table's size and keys beforehand. The API clears each part before it is filled, hashes and seeks
 * every key, and may collect garbage at every table, when nothing of what is being made is garbage. Here a table is its parts, copied or filled by one
 * loop each.
 *
 * Invariants:
 *  - nothing here is called unless mr_layout is 1: what these functions take for granted of Lua's global state (the list of all objects, the current
 *    white, the debt, the table of short strings) is tried out by the self-check of the layouts (build.c);
 *  - nothing here collects or runs code. What was made is white, and dies at the next collection unless it is on the stack then, or in what is alive.
 *    Until then it may be written to without a barrier (layout.h);
 *  - an object is whole when it has been made, and Lua's to free: who gives up leaves garbage. But an array part holds nothing, and must be written
 *    to its end before anything may collect;
 *  - every byte is asked for as Lua asks for it, and is debt of the collector's at once: it works at the next step of the API that allows it.
 *    Who makes much lets it work before, when the last of such is garbage perhaps (raw_collect_due);
 *  - NULL or 0 means that there is no memory without a collection, or no room for one more short string: what is left is to be made by the API, which
 *    sees to either.
 */
#ifndef MR_BUILD_H
#define MR_BUILD_H

#include "lua/layout.h"

enum { RAW_SHORTEST_LONG = 41 };               /* bytes: strings from there on are not unique */

extern raw_node *mr_no_nodes;                  /* what tables without a hash part have instead */

int mr_build_check(lua_State *L);              /* part of the self-check: 1, if all this holds */

static inline raw_global *raw_global_of(lua_State *L) { return ((raw_state *)L)->global; }

/*
 * What is late is collected now; may run finalisers. The generational collector, which would step whenever the heap has grown by a fifth, is not asked
 * before it has grown by a third more: what arrives is mostly in use for as long as the next does not, and each step would visit it once more. Whatever
 * the state allocates itself lets the collector step as ever.
 */
static inline void raw_collect_due(lua_State *L) {
  const raw_global *g = raw_global_of(L);
  if (PORT_LIKELY(g->debt <= 0)) return;
  if (raw_isgenerational(L) && g->debt <= (g->total + g->debt) / 4) return;
  lua_pushliteral(L, "");
  raw_pop(L);
}

static inline void *raw_new_block(raw_global *g, size_t kind, size_t size) {
  void *p = g->alloc(g->ud, NULL, kind, size);
  if (PORT_LIKELY(p != NULL)) g->debt += (ptrdiff_t)size;
  return p;
}

static inline raw_object *raw_new_object(raw_global *g, uint8_t tt, size_t size) {
  raw_object *o = raw_new_block(g, tt & 15, size);
  if (PORT_UNLIKELY(!o)) return NULL;
  o->tt = tt & (RAW_COLLECTABLE - 1);
  o->marked = g->white & RAW_WHITES;
  o->next = g->all;
  g->all = o;
  return o;
}

/* An empty one. */
static inline raw_table *raw_new_table(raw_global *g) {
  raw_table *t = (raw_table *)raw_new_object(g, RAW_TABLE, sizeof *t);
  if (PORT_UNLIKELY(!t)) return NULL;
  t->flags = 0;                                /* which metamethods it lacks is not known */
  t->lsizenode = 0;
  t->alimit = 0;
  t->array = NULL;
  t->node = mr_no_nodes;
  t->lastfree = NULL;
  t->metatable = NULL;
  return t;
}

/* Gives t, which has none, an array part of n values, which the caller writes at once. */
static inline int raw_new_array(raw_global *g, raw_table *t, uint32_t n) {
  raw_value *a = raw_new_block(g, 0, (size_t)n * sizeof *a);
  if (PORT_UNLIKELY(!a)) return 0;
  t->array = a;
  t->alimit = n;
  return 1;
}

/* Gives t, which has none, a hash part with other nodes' keys and values; `free` is where the free ones end (raw_free). */
static inline int raw_new_nodes(raw_global *g, raw_table *t, const raw_node *nodes, uint8_t lsizenode, int32_t free) {
  uint32_t n = (uint32_t)1 << lsizenode;
  raw_node *p = raw_new_block(g, 0, sizeof *nodes << lsizenode);
  if (PORT_UNLIKELY(!p)) return 0;
  if (PORT_LIKELY(n <= 8)) for (uint32_t i = 0; i < n; i++) p[i] = nodes[i];   /* a call costs more than these */
  else memcpy(p, nodes, n * sizeof *nodes);
  t->node = p;
  t->lsizenode = lsizenode;
  t->lastfree = p + free;
  return 1;
}
/* The same with room for n keys, at least 1, that the API can put in without asking for more. */
int raw_new_room(raw_global *g, raw_table *t, uint32_t n);

/* The string with these bytes, new or known. */
raw_string *raw_new_string(raw_global *g, const char *text, size_t n);
static inline uint8_t raw_string_tag(size_t n) { return n < RAW_SHORTEST_LONG ? RAW_SHORT : RAW_LONG; }

/* n numbers of one type into an array part: numbers never owe a barrier, whatever the table's colour. Four at a time, as in the other direction. */
static inline void raw_put_numbers(raw_value *to, uint8_t tt, const uint64_t *words, uint32_t n) {
  const raw_value *end = to + (n & ~3u);
  for (; to < end; to += 4, words += 4) {
    to[0] = (raw_value){ words[0], tt };
    to[1] = (raw_value){ words[1], tt };
    to[2] = (raw_value){ words[2], tt };
    to[3] = (raw_value){ words[3], tt };
  }
  for (n &= 3; n; n--) *to++ = (raw_value){ *words++, tt };
}

/* And out of it; 0: not all of them have this type, and `words` holds nothing of use. */
static inline int raw_take_numbers(uint64_t *words, const raw_value *from, uint8_t tt, uint32_t n) {
  uint8_t some = tt, all = tt;                 /* bits that some of the tags have, and that all have */
  const raw_value *end = from + (n & ~3u);
  for (; from < end && some == all; from += 4, words += 4) {
    words[0] = from[0].bits;
    words[1] = from[1].bits;
    words[2] = from[2].bits;
    words[3] = from[3].bits;
    some |= from[0].tt, all &= from[0].tt;
    some |= from[1].tt, all &= from[1].tt;
    some |= from[2].tt, all &= from[2].tt;
    some |= from[3].tt, all &= from[3].tt;
  }
  for (n &= 3; n; n--, from++) {
    *words++ = from->bits;
    some |= from->tt;
    all &= from->tt;
  }
  return some == all;
}

#endif
