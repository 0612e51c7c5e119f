/*
 * layout: see layout.h. The self-check, and why there is anything to check.
 *
 * The API reads or writes one table entry in some 10 ns: index arithmetic, a type switch, a push and a pop. For a table
 * of 1000 integers that is ten times what the copy of its 16 KB costs, and it is the same for every message. Lua 5.4
 * has kept the structures below from 5.4.0 on, but promises nothing, and a distribution may build it otherwise. So a
 * state is opened at start-up and every assumption is tried on it: what the API wrote must be found by raw reading,
 * what was written raw must be found by the API, and the collector's colours must be where they are expected.
 * One mismatch and everything goes through the API. MARE_LAYOUT=0 does the same.
 */
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include "lua/build.h"

int mr_layout;

#define NEED(c) do { if (!(c)) return 0; } while (0)

static const raw_value *top_value(lua_State *L) { return raw_top(L) - 1; }

/* The word taken for `top` must move by one value with every push, before anything is read through it. */
static int check_stack(lua_State *L) {
  uintptr_t before = (uintptr_t)raw_top(L);
  lua_pushinteger(L, 0x1234567890ABCDEF);
  uintptr_t after = (uintptr_t)raw_top(L);
  NEED(after - before == sizeof(raw_value));
  NEED(top_value(L)->tt == RAW_INT && top_value(L)->bits == 0x1234567890ABCDEF);
  raw_push(L, RAW_INT, 77);
  NEED(lua_isinteger(L, -1) && lua_tointeger(L, -1) == 77);
  raw_pop(L);
  NEED(lua_tointeger(L, -1) == 0x1234567890ABCDEF);
  lua_pop(L, 1);
  return (uintptr_t)raw_top(L) == before;
}

static int l_nothing(lua_State *L) { (void)L; return 0; }

static int check_tags(lua_State *L) {
  lua_Number half = 0.5;
  uint64_t bits;
  memcpy(&bits, &half, sizeof bits);
  lua_pushnil(L);                NEED(top_value(L)->tt == RAW_NIL);
  lua_pushboolean(L, 0);         NEED(top_value(L)->tt == RAW_FALSE);
  lua_pushboolean(L, 1);         NEED(top_value(L)->tt == RAW_TRUE);
  lua_pushlightuserdata(L, L);   NEED(top_value(L)->tt == RAW_LIGHT && top_value(L)->bits == (uint64_t)L);
  lua_pushnumber(L, half);       NEED(top_value(L)->tt == RAW_FLT && top_value(L)->bits == bits);
  lua_pushcfunction(L, l_nothing); NEED(top_value(L)->tt == RAW_LIGHTC && top_value(L)->bits == (uint64_t)l_nothing);
  lua_pushinteger(L, 1);
  lua_pushcclosure(L, l_nothing, 1); NEED(top_value(L)->tt == RAW_CCLOSURE);
  lua_newuserdatauv(L, 8, 0);    NEED(top_value(L)->tt == RAW_USERDATA);
  lua_newthread(L);              NEED(top_value(L)->tt == RAW_THREAD);
  lua_createtable(L, 0, 0);      NEED(top_value(L)->tt == RAW_TABLE && top_value(L)->bits == (uint64_t)lua_topointer(L, -1));
  lua_settop(L, 0);
  return 1;
}

static int check_userdata(lua_State *L) {
  void *block = lua_newuserdatauv(L, 24, 0);
  const raw_userdata *u = (const raw_userdata *)top_value(L)->bits;
  NEED((const void *)u->block == block && u->size == 24 && u->nuvalue == 0 && u->metatable == NULL);
  lua_createtable(L, 0, 0);
  const void *metatable = lua_topointer(L, -1);
  lua_setmetatable(L, -2);
  NEED((const void *)u->metatable == metatable);
  lua_newuserdatauv(L, 16, 3);
  u = (const raw_userdata *)top_value(L)->bits;
  NEED(u->size == 16 && u->nuvalue == 3);
  lua_settop(L, 0);
  return 1;
}

/* check(41, 42) */
static int l_arguments(lua_State *L) {
  lua_Debug ar;
  int found = lua_getstack(L, 0, &ar) && (const void *)((raw_state *)L)->call == (const void *)ar.i_ci;
  const raw_value *a = found ? raw_arguments(L) : NULL;
  lua_pushboolean(L, a && raw_top(L) - a == 2 && a[0].tt == RAW_INT && a[0].bits == 41 && a[1].tt == RAW_INT && a[1].bits == 42);
  return 1;
}

/* From Lua, also as a tail call, from C, and at the bottom of another stack. */
static int check_arguments(lua_State *L) {
  int n;
  NEED(luaL_loadstring(L, "local check = ... return (check(41, 42)) and check(41, 42)") == LUA_OK);
  lua_pushcfunction(L, l_arguments);
  lua_call(L, 1, 1);
  NEED(lua_toboolean(L, -1));
  lua_State *other = lua_newthread(L);
  for (int i = 0; i < 2; i++) {
    lua_State *on = i ? other : L;
    lua_pushcfunction(on, l_arguments);
    lua_pushinteger(on, 41);
    lua_pushinteger(on, 42);
    if (i) NEED(mr_lua_resume(other, L, 2, &n) == LUA_OK && n == 1);
    else lua_call(L, 2, 1);
    NEED(lua_toboolean(on, -1));
  }
  lua_settop(L, 0);
  return 1;
}

static int check_string(lua_State *L, size_t n, uint8_t tt) {
  char text[100];
  memset(text, 'x', sizeof text);
  const char *s = lua_pushlstring(L, text, n);
  const raw_value *v = top_value(L);
  const raw_string *r = (const raw_string *)v->bits;
  NEED(v->tt == tt && r->text == s && (const void *)r == lua_topointer(L, -1));
  NEED((tt == RAW_SHORT ? (size_t)r->shrlen : r->length) == n);
  lua_pop(L, 1);
  return 1;
}

static int check_array(lua_State *L) {
  lua_createtable(L, 5, 0);
  raw_table *t = (raw_table *)lua_topointer(L, -1);
  NEED(t->metatable == NULL && raw_nodes(t) == 1 && raw_isnil(t->node->tt) && t->lastfree == NULL);
  NEED(raw_arraysize(t) == 5 && t->array != NULL);
  for (int i = 0; i < 5; i++) NEED(raw_isnil(t->array[i].tt));
  lua_pushinteger(L, 42);
  lua_rawseti(L, -2, 3);
  NEED(t->array[2].tt == RAW_INT && t->array[2].bits == 42);
  t->array[4].bits = 99;
  t->array[4].tt = RAW_INT;
  NEED(lua_rawgeti(L, -1, 5) == LUA_TNUMBER && lua_tointeger(L, -1) == 99);
  lua_pop(L, 1);
  lua_createtable(L, 0, 0);
  lua_setmetatable(L, -2);
  NEED(t->metatable != NULL && lua_getmetatable(L, -1) && lua_topointer(L, -1) == (const void *)t->metatable);
  lua_settop(L, 0);
  return 1;
}

/* '#' moves alimit away from the real size; both readings of the flag are met here. */
static int check_limit(lua_State *L) {
  lua_createtable(L, 64, 0);
  raw_table *t = (raw_table *)lua_topointer(L, -1);
  for (int i = 1; i <= 20; i++) {
    lua_pushinteger(L, i);
    lua_rawseti(L, -2, i);
  }
  NEED(raw_arraysize(t) == 64 && lua_rawlen(L, -1) == 20 && raw_arraysize(t) == 64);
  lua_settop(L, 0);
  return 1;
}

static const raw_node *find_node(const raw_table *t, const void *key) {
  for (uint32_t i = 0; i < raw_nodes(t); i++)
    if (t->node[i].key_tt == RAW_SHORT && t->node[i].key == (uint64_t)key) return &t->node[i];
  return NULL;
}

/* Two tables with the same keys in the same order; the second by copying the first one's nodes, as unpack.c does. */
static int check_hash(lua_State *L) {
  static const char *const keys[] = { "a", "bb", "ccc", "dddd", "eeeee" };
  lua_createtable(L, 0, 5);
  lua_createtable(L, 0, 5);
  raw_table *one = (raw_table *)lua_topointer(L, 1), *two = (raw_table *)lua_topointer(L, 2);
  NEED(raw_nodes(one) == 8 && one->lastfree == one->node + 8);
  for (int i = 0; i < 5; i++) {
    lua_pushstring(L, keys[i]);
    const void *key = lua_topointer(L, -1);
    lua_pushinteger(L, i);
    lua_rawset(L, 1);
    const raw_node *node = find_node(one, key);
    NEED(node && node->tt == RAW_INT && node->bits == (uint64_t)i);
  }
  NEED(one->lastfree >= one->node && one->lastfree <= one->node + 8);
  memcpy(two->node, one->node, 8 * sizeof(raw_node));
  two->lastfree = two->node + (one->lastfree - one->node);
  for (int i = 0; i < 5; i++) {
    lua_pushstring(L, keys[i]);
    NEED(lua_rawget(L, 2) == LUA_TNUMBER && lua_tointeger(L, -1) == i);
    lua_pop(L, 1);
  }
  for (int i = 1; i <= 20; i++) {              /* and it still grows */
    lua_pushinteger(L, i);
    lua_pushinteger(L, i * 3);
    lua_rawset(L, 2);
  }
  lua_pushstring(L, keys[4]);
  NEED(lua_rawget(L, 2) == LUA_TNUMBER && lua_tointeger(L, -1) == 4);
  lua_settop(L, 0);
  return 1;
}

static ptrdiff_t all_memory(lua_State *L) { return ((ptrdiff_t)lua_gc(L, LUA_GCCOUNT) << 10) + lua_gc(L, LUA_GCCOUNTB); }

static int check_memory(lua_State *L) {
  void *ud;
  const raw_global *g = ((const raw_state *)L)->global;
  lua_gc(L, LUA_GCSTOP);
  NEED(g->alloc == lua_getallocf(L, &ud) && g->ud == ud && all_memory(L) == g->total + g->debt);
  ptrdiff_t debt = g->debt, total = g->total;
  lua_newuserdatauv(L, 1000, 0);
  NEED(g->debt >= debt + 1000 && g->debt < debt + 1100 && g->total == total);
  lua_gc(L, LUA_GCRESTART);
  lua_settop(L, 0);
  return 1;
}

/* A table's cache of missing metamethods: bits 0 to 6, set when it is made, all cleared by writing. */
static int check_flags(lua_State *L) {
  lua_createtable(L, 0, 1);
  raw_table *t = (raw_table *)lua_topointer(L, -1);
  NEED((t->flags & 128) == 0);
  lua_pushliteral(L, "__index");
  lua_pushinteger(L, 1);
  lua_rawset(L, -3);
  NEED((t->flags & 63) == 0);
  lua_settop(L, 0);
  return 1;
}

/* setmetatable looks for __gc and leaves its answer in the flags. */
static int check_gc_flag(lua_State *L) {
  lua_createtable(L, 0, 0);
  for (int i = 0; i < 2; i++) {
    lua_createtable(L, 0, 2);
    raw_table *t = (raw_table *)lua_topointer(L, -1);
    lua_pushliteral(L, "__gc");
    if (i) lua_pushcfunction(L, l_nothing);
    else lua_pushnil(L);
    lua_rawset(L, -3);
    lua_setmetatable(L, -2);
    NEED(((t->flags & RAW_NOGC) == 0) == i);
  }
  lua_settop(L, 0);
  return 1;
}

/* Black after a full generational collection, not black when new, nor once the barrier has seen it written to. */
static int check_colours(lua_State *L) {
  lua_createtable(L, 1, 0);
  const raw_object *o = lua_topointer(L, -1);
  NEED(!raw_isblack(o) && (o->marked & RAW_WHITES));
  NEED(!raw_isgenerational(L));
  mr_lua_generational(L);
  NEED(raw_isgenerational(L));
  NEED(raw_isblack(o) && !(o->marked & RAW_WHITES));
  lua_createtable(L, 0, 0);
  NEED(!raw_isblack(lua_topointer(L, -1)));
  lua_rawseti(L, -2, 1);
  NEED(!raw_isblack(o));
  mr_lua_step(L, 0);
  NEED(raw_isgenerational(L));
  mr_lua_incremental(L);
  NEED(!raw_isgenerational(L));
  lua_settop(L, 0);
  return 1;
}

/* check(function): its one upvalue, still on the stack of its function, is 5 */
static int l_open_upvalue(lua_State *L) {
  const raw_closure *f = (const raw_closure *)lua_topointer(L, 1);
  lua_pushboolean(L, (const void *)f->upvals[0] == lua_upvalueid(L, 1, 1) && f->upvals[0]->v->tt == RAW_INT && f->upvals[0]->v->bits == 5);
  return 1;
}

static int check_upvalues(lua_State *L) {
  NEED(luaL_loadstring(L, "local check, x = ..., 5; local function f() return x end; return check(f), f") == LUA_OK);
  lua_pushcfunction(L, l_open_upvalue);
  lua_call(L, 1, 2);
  const raw_closure *f = (const raw_closure *)lua_topointer(L, 2);
  NEED(lua_toboolean(L, 1) && (const void *)f->upvals[0] == lua_upvalueid(L, 2, 1));
  NEED(f->upvals[0]->v->tt == RAW_INT && f->upvals[0]->v->bits == 5);
  lua_settop(L, 0);
  return 1;
}

static int check_registry(lua_State *L) {
  const raw_table *t = raw_registry(L);
  lua_pushglobaltable(L);
  NEED(raw_arraysize(t) >= LUA_RIDX_GLOBALS && t->array[LUA_RIDX_GLOBALS - 1].tt == RAW_TABLE);
  NEED(t->array[LUA_RIDX_GLOBALS - 1].bits == (uint64_t)lua_topointer(L, -1));
  lua_pushliteral(L, "key");
  const void *key = lua_topointer(L, -1);
  lua_pushinteger(L, 5);
  lua_rawset(L, LUA_REGISTRYINDEX);
  NEED(find_node(t, key) && find_node(t, key)->bits == 5);
  lua_settop(L, 0);
  return 1;
}

static int check_function(lua_State *L) {
  NEED(luaL_loadstring(L, "local a, b = 1, 2; local r = {} for i = 1, 2 do r[i] = function() return a, b end end return r[1], r[2]") == LUA_OK);
  lua_call(L, 0, 2);
  const raw_closure *f = lua_topointer(L, 1), *g = lua_topointer(L, 2);
  NEED(top_value(L)->tt == RAW_FUNCTION && f != g);
  NEED(f->nupvalues == 2 && g->nupvalues == 2 && f->proto && f->proto == g->proto);
  NEED(luaL_loadstring(L, "return 1") == LUA_OK);
  NEED(((const raw_closure *)lua_topointer(L, -1))->proto != f->proto);
  lua_settop(L, 0);
  return 1;
}

static int l_check(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  int ok = check_stack(L) && check_tags(L) && check_userdata(L) && check_arguments(L) && check_string(L, 3, RAW_SHORT) &&
           check_string(L, 40, RAW_SHORT) && check_string(L, 41, RAW_LONG) && check_array(L) && check_limit(L) && check_hash(L) &&
           check_memory(L) && check_flags(L) && check_gc_flag(L) && check_colours(L) && check_function(L) && check_upvalues(L) &&
           check_registry(L) && mr_build_check(L);
  lua_settop(L, 0);
  lua_pushboolean(L, ok);
  return 1;
}

static int fits(void) {
  return LUA_VERSION_NUM == 504 && sizeof(void *) == 8 && sizeof(lua_Integer) == 8 && sizeof(lua_Number) == 8 &&
         sizeof(raw_value) == 16 && sizeof(raw_node) == 24 && sizeof(raw_table) == 56 && offsetof(raw_string, text) == 24 &&
         offsetof(raw_userdata, block) == 32 && offsetof(raw_state, call) == 32 && offsetof(raw_global, all) == 112;
}

static int run_check(void) {
  const char *wish = getenv("MARE_LAYOUT");
  if ((wish && strcmp(wish, "0") == 0) || !fits()) return 0;
  lua_State *L = luaL_newstate();
  if (!L) return 0;
  lua_pushcfunction(L, l_check);
  int ok = lua_pcall(L, 0, 1, 0) == LUA_OK && lua_toboolean(L, -1);
  lua_close(L);
  return ok;
}

/* One thread tries; those that come meanwhile wait for what it finds. */
void mr_layout_check(void) {
  static atomic_int state;                     /* 0 = not run, 1 = running, 2 = done */
  int expected = 0;
  if (atomic_load_explicit(&state, memory_order_acquire) == 2) return;
  if (atomic_compare_exchange_strong(&state, &expected, 1)) {
    mr_layout = run_check();
    atomic_store_explicit(&state, 2, memory_order_release);
  } else while (atomic_load_explicit(&state, memory_order_acquire) != 2) { }
}

/* The first word of what Lua knows of a call is where its function is on the stack. */
const char *mr_lua_stack_hint(lua_State *L) {
  lua_Debug ar;
  if (!lua_getstack(L, 0, &ar) || !ar.i_ci) return (const char *)L;
  const char *func = *(const char *const *)(const void *)ar.i_ci;
  return func - 2 * PORT_CACHELINE;
}
