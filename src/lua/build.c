/* build: see build.h. The functions that are not inline, and the part of the self-check that tries all of them. */
#include "lua/build.h"

enum { NIL_OF_NODE = 16, MOST_ROOM = 1 << 26 };  /* the nil of a place in a table that holds nothing */

raw_node *mr_no_nodes;

/* As Lua's own: strings are found by it. */
static uint32_t hash_of(const char *text, size_t n, uint32_t seed) {
  uint32_t h = seed ^ (uint32_t)n;
  while (n > 0) h ^= (h << 5) + (h >> 2) + (unsigned char)text[--n];
  return h;
}

static raw_string *make_string(raw_global *g, uint8_t tt, const char *text, size_t n, uint32_t hash) {
  raw_string *s = (raw_string *)raw_new_object(g, tt, offsetof(raw_string, text) + n + 1);
  if (PORT_UNLIKELY(!s)) return NULL;
  s->extra = 0;
  s->shrlen = tt == RAW_SHORT ? (uint8_t)n : UINT8_MAX;
  s->hash = hash;
  char *bytes = s->text;                         /* more than the eight that are declared */
  memcpy(bytes, text, n);
  bytes[n] = 0;
  return s;
}

/* One that is dead, but not freed yet, comes back to life. */
static raw_string *short_string(raw_global *g, const char *text, size_t n) {
  uint32_t hash = hash_of(text, n, g->seed);
  raw_string **chain = &g->strings[hash & (uint32_t)(g->chains - 1)];
  for (raw_string *s = *chain; s; s = s->chained) {
    if (s->hash != hash || s->shrlen != n || memcmp(s->text, text, n) != 0) continue;
    if (PORT_UNLIKELY(s->marked & ~g->white & RAW_WHITES)) s->marked ^= RAW_WHITES;
    return s;
  }
  if (PORT_UNLIKELY(g->nstrings >= g->chains)) return NULL;    /* there should be more chains first */
  raw_string *s = make_string(g, RAW_SHORT, text, n, hash);
  if (PORT_UNLIKELY(!s)) return NULL;
  s->chained = *chain;
  *chain = s;
  g->nstrings++;
  return s;
}

raw_string *raw_new_string(raw_global *g, const char *text, size_t n) {
  if (PORT_LIKELY(n < RAW_SHORTEST_LONG)) return short_string(g, text, n);
  raw_string *s = make_string(g, RAW_LONG, text, n, g->seed);
  if (s) s->length = n;
  return s;
}

int raw_new_room(raw_global *g, raw_table *t, uint32_t n) {
  if (PORT_UNLIKELY(n > MOST_ROOM)) return 0;
  uint32_t lsizenode = n > 1 ? PORT_LOG2(n - 1) + 1 : 0, nodes = (uint32_t)1 << lsizenode;
  raw_node *p = raw_new_block(g, 0, sizeof *p << lsizenode);
  if (PORT_UNLIKELY(!p)) return 0;
  for (uint32_t i = 0; i < nodes; i++) p[i] = (raw_node){ .tt = NIL_OF_NODE, .key_tt = RAW_NIL };
  t->node = p;
  t->lsizenode = (uint8_t)lsizenode;
  t->lastfree = p + nodes;
  return 1;
}

/* ---- the self-check ---- */

#define NEED(c) do { if (!(c)) return 0; } while (0)

static void *on_top(lua_State *L) { return (void *)(uintptr_t)(raw_top(L) - 1)->bits; }
static ptrdiff_t all_memory(lua_State *L) { return ((ptrdiff_t)lua_gc(L, LUA_GCCOUNT) << 10) + lua_gc(L, LUA_GCCOUNTB); }

/* Several times: the table of strings shrinks by half each time. */
static ptrdiff_t settled_memory(lua_State *L) {
  for (int i = 0; i < 8; i++) lua_gc(L, LUA_GCCOLLECT);
  return all_memory(L);
}

static int is_newest(const raw_global *g, const raw_object *o, uint8_t tt, const raw_object *before) {
  return g->all == o && o->next == before && o->tt == tt && o->marked == (g->white & RAW_WHITES);
}

/* What the API makes is as we would make it. */
static int check_objects(lua_State *L) {
  raw_global *g = raw_global_of(L);
  NEED((g->white & RAW_WHITES) == 8 || (g->white & RAW_WHITES) == 16);
  const raw_object *before = g->all;
  lua_createtable(L, 0, 0);
  const raw_table *t = on_top(L);
  NEED(is_newest(g, (const raw_object *)t, RAW_TABLE & 63, before) && t->lsizenode == 0 && !t->lastfree && !t->array && !t->alimit);
  mr_no_nodes = t->node;
  before = g->all;
  lua_createtable(L, 0, 5);
  t = on_top(L);
  NEED(is_newest(g, (const raw_object *)t, RAW_TABLE & 63, before) && t->lsizenode == 3 && t->lastfree == t->node + 8);
  for (int i = 0; i < 8; i++) NEED(t->node[i].tt == NIL_OF_NODE && t->node[i].key_tt == RAW_NIL && t->node[i].next == 0);
  lua_createtable(L, 0, 0);
  NEED(((const raw_table *)on_top(L))->node == mr_no_nodes);
  lua_settop(L, 0);
  return 1;
}

/* Each length once by the API and once raw: the same string, or one like it, of the same memory. */
static int check_string(lua_State *L, const char *text, size_t n) {
  raw_global *g = raw_global_of(L);
  const raw_object *before = g->all;
  int32_t count = g->nstrings;
  ptrdiff_t memory = all_memory(L);
  lua_pushlstring(L, text, n);
  raw_string *s = on_top(L);
  uint8_t tag = raw_string_tag(n);
  NEED(is_newest(g, (const raw_object *)s, tag & 63, before) && g->nstrings == count + (tag == RAW_SHORT));
  memory = all_memory(L) - memory;
  if (tag == RAW_SHORT) {
    NEED(raw_new_string(g, text, n) == s && s->hash == hash_of(text, n, g->seed));
    return 1;
  }
  ptrdiff_t then = all_memory(L);
  raw_string *like = raw_new_string(g, text, n);
  NEED(like && like->hash == s->hash && like->extra == s->extra && all_memory(L) - then == memory);
  raw_push(L, tag, (uint64_t)(uintptr_t)like);
  NEED(lua_rawequal(L, -1, -2) && lua_rawlen(L, -1) == n);
  return 1;
}

static int check_strings(lua_State *L) {
  raw_global *g = raw_global_of(L);
  NEED(g->chains > 0 && (g->chains & (g->chains - 1)) == 0 && g->nstrings > 0 && g->nstrings + 8 < g->chains);
  NEED(check_string(L, "a string that nobody has", 24) && check_string(L, "\0\xff", 2) && check_string(L, "a string of exactly forty bytes, no more", 40) &&
       check_string(L, "a string of exactly forty-one bytes, long", 41));
  ptrdiff_t memory = all_memory(L);
  raw_string *s = raw_new_string(g, "made raw", 8);
  NEED(s && all_memory(L) - memory == (ptrdiff_t)offsetof(raw_string, text) + 9);
  lua_pushliteral(L, "made raw");
  NEED(on_top(L) == s);
  lua_settop(L, 0);
  return 1;
}

/* [table] -> [], if the API finds { 1, 2, 3, a = "made raw", bb = 5 } in it, and can change it. */
static int check_contents(lua_State *L) {
  NEED(lua_rawlen(L, 1) == 3 && lua_rawgeti(L, 1, 3) == LUA_TNUMBER && lua_tointeger(L, -1) == 3);
  lua_pushliteral(L, "a");
  NEED(lua_rawget(L, 1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "made raw") == 0);
  for (int i = 4; i <= 40; i++) {
    lua_pushinteger(L, i);
    lua_rawseti(L, 1, i);
  }
  lua_pushboolean(L, 1);
  lua_pushboolean(L, 1);
  lua_rawset(L, 1);
  lua_pushliteral(L, "bb");
  NEED(lua_rawget(L, 1) == LUA_TNUMBER && lua_tointeger(L, -1) == 5 && lua_rawlen(L, 1) == 40);
  lua_settop(L, 0);
  return 1;
}

static const uint64_t three[] = { 1, 2, 3 };

/* Once with room for the API's keys, once with those nodes copied: of the same memory as the API's own. */
static int check_table(lua_State *L) {
  raw_global *g = raw_global_of(L);
  ptrdiff_t settled = settled_memory(L), memory = all_memory(L);
  lua_createtable(L, 3, 2);
  ptrdiff_t whole = all_memory(L) - memory;
  lua_pushliteral(L, "a");
  lua_pushliteral(L, "bb");
  memory = all_memory(L);
  raw_table *t = raw_new_table(g), *copy = raw_new_table(g);
  NEED(t && raw_new_array(g, t, 3) && raw_new_room(g, t, 2) && all_memory(L) - memory == whole + (ptrdiff_t)sizeof *t);
  raw_put_numbers(t->array, RAW_INT, three, 3);
  raw_push(L, RAW_TABLE, (uint64_t)(uintptr_t)t);
  raw_push(L, RAW_SHORT, (uint64_t)(uintptr_t)raw_new_string(g, "a", 1));
  raw_push(L, RAW_SHORT, (uint64_t)(uintptr_t)raw_new_string(g, "made raw", 8));
  lua_rawset(L, -3);
  lua_pushliteral(L, "bb");
  lua_pushinteger(L, 5);
  lua_rawset(L, -3);
  NEED(copy && raw_new_array(g, copy, 3) && raw_new_nodes(g, copy, t->node, t->lsizenode, raw_free(t)));
  raw_put_numbers(copy->array, RAW_INT, three, 3);
  raw_push(L, RAW_TABLE, (uint64_t)(uintptr_t)copy);
  lua_replace(L, 1);
  lua_settop(L, 1);
  lua_gc(L, LUA_GCCOLLECT);
  NEED(check_contents(L));
  return settled_memory(L) == settled;
}

int mr_build_check(lua_State *L) {
  for (int generational = 0; generational < 2; generational++) {
    if (generational) mr_lua_generational(L);
    lua_gc(L, LUA_GCSTOP);
    NEED(check_objects(L) && check_strings(L));
    lua_gc(L, LUA_GCRESTART);
    NEED(check_table(L));
  }
  mr_lua_incremental(L);
  return 1;
}
