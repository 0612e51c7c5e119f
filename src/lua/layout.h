/*
 * layout: how Lua 5.4 lays out the few structures that transfer reads and writes without the API.
 *
 * Invariants:
 *  - nothing here is used unless `mr_layout` is 1, which a self-check on the running Lua library decides (layout.c);
 *    the same code paths exist through the public API and give the same results;
 *  - a raw write never collects, nor allocates (build.h does); it writes a collectable value only into an object that is not black: no barrier is
 *    owed then (a barrier keeps black objects from pointing to white ones, nothing else);
 *  - pointers into a state are used only between two calls that may collect or move what they point to.
 */
#ifndef MR_LAYOUT_H
#define MR_LAYOUT_H

#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include "lua/compat.h"
#include "port/port.h"

/* Lua's own tags; a value outside the collector keeps its tag in messages, too. */
enum {
  RAW_NIL = 0, RAW_FALSE = 1, RAW_TRUE = 17, RAW_LIGHT = 2, RAW_INT = 3, RAW_FLT = 19, RAW_LIGHTC = 22,
  RAW_COLLECTABLE = 64,
  RAW_SHORT = 4 | 64, RAW_LONG = 20 | 64, RAW_TABLE = 5 | 64, RAW_FUNCTION = 6 | 64, RAW_CCLOSURE = 38 | 64,
  RAW_USERDATA = 7 | 64, RAW_THREAD = 8 | 64,
  RAW_BLACK = 32, RAW_WHITES = 24, RAW_AGE = 7,
  RAW_NOGC = 4                                 /* bit of a table's flags: it has no __gc */
};

typedef struct PORT_ALIAS raw_value { uint64_t bits; uint8_t tt; } raw_value;
typedef struct PORT_ALIAS raw_node { uint64_t bits; uint8_t tt, key_tt; int32_t next; uint64_t key; } raw_node;
typedef struct PORT_ALIAS raw_object { struct raw_object *next; uint8_t tt, marked; } raw_object;
typedef struct PORT_ALIAS raw_table {
  raw_object *next;
  uint8_t tt, marked, flags, lsizenode;
  uint32_t alimit;
  raw_value *array;
  raw_node *node, *lastfree;
  struct raw_table *metatable;
  raw_object *gclist;
} raw_table;
typedef struct PORT_ALIAS raw_string {
  raw_object *next;
  uint8_t tt, marked, extra, shrlen;
  uint32_t hash;
  union {
    size_t length;                             /* of a long one */
    struct raw_string *chained;                /* of a short one, which Lua finds by its hash */
  };
  char text[8];
} raw_string;
typedef struct PORT_ALIAS raw_upval {
  raw_object *next;
  uint8_t tt, marked, tbc;
  raw_value *v;                                /* on a stack while its variable is in scope, else its own */
} raw_upval;
typedef struct PORT_ALIAS raw_closure {
  raw_object *next;
  uint8_t tt, marked, nupvalues;
  raw_object *gclist;
  void *proto;
  raw_upval *upvals[1];                        /* of a Lua function */
} raw_closure;
typedef struct PORT_ALIAS raw_userdata {         /* without user values */
  raw_object *next;
  uint8_t tt, marked;
  uint16_t nuvalue;
  size_t size;
  raw_table *metatable;
  uint64_t block[1];
} raw_userdata;
typedef struct PORT_ALIAS raw_frame { raw_value *function; } raw_frame;   /* of a call, as far as it matters here; see calls.h */
typedef struct PORT_ALIAS raw_state {
  raw_object *next;
  uint8_t tt, marked, status, allowhook;
  uint16_t nci;
  raw_value *top;
  struct raw_global *global;
  raw_frame *call;
} raw_state;
typedef struct PORT_ALIAS raw_global {           /* of a whole state */
  lua_Alloc alloc;
  void *ud;
  ptrdiff_t total, debt;                       /* debt: by how much memory the collector is late; all there is: total + debt */
  size_t estimate, lastatomic;
  raw_string **strings;                        /* the short ones, in chains by their hashes */
  int32_t nstrings, chains;
  raw_value registry, nil;
  uint32_t seed;                               /* of the hashes */
  uint8_t white;                               /* what objects are made with */
  uint8_t collector[9];                        /* its state and parameters */
  raw_object *all;                             /* the list of them, but for those with finalisers */
} raw_global;

/* About where the stack of L's running function is; to prefetch only, which can't fault. */
const char *mr_lua_stack_hint(lua_State *L);

extern int mr_layout;                          /* 1: the self-check passed and MARE_LAYOUT is not 0 */
void mr_layout_check(void);                    /* runs the self-check, once per program */

static inline const raw_table *raw_registry(lua_State *L) { return (const raw_table *)lua_topointer(L, LUA_REGISTRYINDEX); }
static inline int raw_isnil(uint8_t tt) { return (tt & 15) == 0; }
static inline int raw_isblack(const void *o) { return ((const raw_object *)o)->marked & RAW_BLACK; }
static inline int raw_iswhite(const void *o) { return ((const raw_object *)o)->marked & RAW_WHITES; }
static inline uint32_t raw_nodes(const raw_table *t) { return (uint32_t)1 << t->lsizenode; }

/* alimit may be a hint for '#' (flag bit 7); the real size is then the next power of two. */
static inline uint32_t raw_arraysize(const raw_table *t) {
  uint32_t n = t->alimit;
  if (!(t->flags & 128) || (n & (n - 1)) == 0) return n;
  n |= n >> 1; n |= n >> 2; n |= n >> 4; n |= n >> 8; n |= n >> 16;
  return n + 1;
}

/* Element i of the array part, counted from 0. Loops over numbers in transfer/ and cdr/ read and write t->array themselves. */
static inline raw_value raw_element(const raw_table *t, uint32_t i) { return t->array[i]; }
static inline void raw_set_element(raw_table *t, uint32_t i, const raw_value *v) {
  t->array[i].bits = v->bits;
  t->array[i].tt = v->tt;
}

/* Where a table has a short string as a key, or NULL; its place follows from its hash. */
static inline const raw_node *mr_find_node(const raw_table *t, uint64_t key, uint32_t *hint) {
  const raw_node *node = &t->node[*hint & (raw_nodes(t) - 1)];
  if (PORT_LIKELY(node->key == key && node->key_tt == RAW_SHORT)) return node;
  node = &t->node[((const raw_string *)(uintptr_t)key)->hash & (raw_nodes(t) - 1)];
  for (;;) {
    if (node->key == key && node->key_tt == RAW_SHORT) { *hint = (uint32_t)(node - t->node); return node; }
    if (!node->next) return NULL;
    node += node->next;
  }
}

/* Where Lua looks for the next free node, as a place in the hash part. */
static inline int32_t raw_free(const raw_table *t) { return (int32_t)(t->lastfree - t->node); }
/* `to`, with as many nodes and nothing in them, gets another table's nodes, and with them its keys. The caller writes the values. */
static inline void raw_copy_nodes(raw_table *to, const raw_node *nodes, int32_t free) {
  memcpy(to->node, nodes, raw_nodes(to) * sizeof(raw_node));
  to->flags &= 128;                            /* which metamethods it lacks is not known now */
  to->lastfree = to->node + free;
}

/* Every object of a state has an age in generational mode, and none in the other. */
static inline int raw_isgenerational(lua_State *L) { return (raw_registry(L)->marked & RAW_AGE) >= 3; }

/* The caller has made room (lua_checkstack). */
static inline raw_value *raw_top(lua_State *L) { return ((raw_state *)L)->top; }
/* The first argument of the C function that runs; behind the last one is raw_top. */
static inline raw_value *raw_arguments(lua_State *L) { return ((raw_state *)L)->call->function + 1; }
static inline void raw_push(lua_State *L, uint8_t tt, uint64_t bits) {
  raw_state *s = (raw_state *)L;
  raw_value *top = s->top;
  s->top = top + 1;
  top->bits = bits;
  top->tt = tt;
}
/* A coroutine that died of an error in a hook has hooks switched off for good, though its pending variables are still to be closed. */
static inline void mr_lua_allow_hooks(lua_State *L) {
  if (mr_layout) ((raw_state *)L)->allowhook = 1;
}
static inline void raw_pop(lua_State *L) { ((raw_state *)L)->top--; }

#endif
