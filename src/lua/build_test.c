/* Tests of what is made without the API: the collector treats it as its own, in every state it can be in. */
#include <stdio.h>
#include <stdlib.h>
#include "lua/build.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x)))

static raw_string *known(raw_global *g, const char *text) {
  int32_t before = g->nstrings;
  raw_string *s = raw_new_string(g, text, strlen(text));
  CHECK(g->nstrings == before);
  return s;
}

/* A string that nothing refers to, after the collector has marked and before it has freed it. */
static void test_dead_strings_come_back(lua_State *L) {
  raw_global *g = raw_global_of(L);
  mr_lua_incremental(L);
  lua_gc(L, LUA_GCCOLLECT);
  lua_pushliteral(L, "of the dead");
  raw_string *s = (raw_string *)(uintptr_t)(raw_top(L) - 1)->bits;
  lua_pop(L, 1);
  lua_gc(L, LUA_GCSTOP);
  for (int i = 0; i < 100000; i++) {             /* so that sweeping takes several steps */
    lua_createtable(L, 0, 0);
    lua_pop(L, 1);
  }
  lua_createtable(L, 0, 0);                      /* alive: Lua sweeps to the first such at once */
  for (uint8_t white = g->white; g->white == white; ) mr_lua_step(L, 0);
  CHECK(s->marked & ~g->white & RAW_WHITES);
  CHECK(known(g, "of the dead") == s && !(s->marked & ~g->white & RAW_WHITES));
  raw_push(L, RAW_SHORT, (uintptr_t)s);
  lua_gc(L, LUA_GCRESTART);
  lua_gc(L, LUA_GCCOLLECT);
  CHECK(strcmp(lua_tostring(L, -1), "of the dead") == 0 && known(g, "of the dead") == s);
  lua_settop(L, 0);
}

/* { [1..n] = 1..n, key = "value" } */
static int make(lua_State *L, uint32_t n) {
  uint64_t words[64];
  raw_global *g = raw_global_of(L);
  for (uint32_t i = 0; i < n; i++) words[i] = i + 1;
  raw_table *t = raw_new_table(g);
  if (!t || !raw_new_array(g, t, n)) return 0;
  raw_put_numbers(t->array, RAW_INT, words, n);
  raw_string *key = raw_new_string(g, "key", 3), *value = raw_new_string(g, "value", 5);
  if (!key || !value || !raw_new_room(g, t, 1)) return 0;
  raw_push(L, RAW_TABLE, (uintptr_t)t);
  raw_push(L, RAW_SHORT, (uintptr_t)key);
  raw_push(L, RAW_SHORT, (uintptr_t)value);
  lua_rawset(L, -3);
  return 1;
}

static void check_made(lua_State *L, lua_Integer n) {
  CHECK(lua_rawlen(L, -1) == (size_t)n && lua_rawgeti(L, -1, n) == LUA_TNUMBER && lua_tointeger(L, -1) == n);
  lua_pop(L, 1);
  CHECK(lua_getfield(L, -1, "key") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "value") == 0);
  lua_pop(L, 1);
}

static void change_mode(lua_State *L, int i) {
  if (i % 50 == 0) mr_lua_generational(L);
  if (i % 50 == 25) mr_lua_incremental(L);
  if (i % 3 == 0) mr_lua_step(L, (size_t)(i % 7) << 10);
}

/* A table of them is what is left after the collector has worked between any two, a bit, in both of its modes; then nothing is. */
static void test_all_states_of_the_collector(lua_State *L) {
  enum { TIMES = 400 };
  mr_lua_incremental(L);
  for (int i = 0; i < 8; i++) lua_gc(L, LUA_GCCOLLECT);
  int before = lua_gc(L, LUA_GCCOUNT);
  lua_createtable(L, 0, 0);
  for (int i = 1; i <= TIMES; i++) {
    change_mode(L, i);
    CHECK(make(L, (uint32_t)(i % 60) + 1));
    change_mode(L, i + 1);
    lua_rawseti(L, 1, i);
    if (make(L, 60)) lua_pop(L, 1);            /* garbage */
  }
  for (int i = 1; i <= TIMES; i++) {
    lua_rawgeti(L, 1, i);
    check_made(L, i % 60 + 1);
    lua_pop(L, 1);
  }
  lua_settop(L, 0);
  mr_lua_incremental(L);
  for (int i = 0; i < 8; i++) lua_gc(L, LUA_GCCOLLECT);
  CHECK(lua_gc(L, LUA_GCCOUNT) <= before + 1);
}

/* Numbers of one type are taken as they lie; one of another kind among them is seen wherever it is. */
static void test_numbers(lua_State *L) {
  (void)L;
  raw_value from[40], to[40];
  uint64_t words[40];
  for (uint32_t n = 1; n <= 40; n++) {
    for (uint32_t i = 0; i < n; i++) from[i] = (raw_value){ i * 77, RAW_FLT };
    CHECK(raw_take_numbers(words, from, RAW_FLT, n));
    raw_put_numbers(to, RAW_INT, words, n);
    for (uint32_t i = 0; i < n; i++) CHECK(to[i].bits == i * 77 && to[i].tt == RAW_INT);
    for (uint32_t i = 0; i < n; i++) {
      from[i].tt = i % 2 ? RAW_INT : RAW_NIL;
      CHECK(!raw_take_numbers(words, from, RAW_FLT, n));
      from[i].tt = RAW_FLT;
    }
  }
}

/* More short strings than there are chains are refused, until Lua itself has made room. */
static void test_the_table_of_strings_is_full(lua_State *L) {
  raw_global *g = raw_global_of(L);
  char text[20];
  int32_t chains = g->chains;
  lua_gc(L, LUA_GCSTOP);
  for (int i = 0; g->nstrings < chains; i++) {
    int n = snprintf(text, sizeof text, "number %d", i);
    CHECK(raw_new_string(g, text, (size_t)n));
  }
  CHECK(!raw_new_string(g, "one more", 8) && raw_new_string(g, "number 0", 8));
  lua_pushliteral(L, "one more");
  CHECK(g->chains == 2 * chains && raw_new_string(g, "yet one", 7));
  lua_settop(L, 0);
  lua_gc(L, LUA_GCRESTART);
}

int main(void) {
  const char *wish = getenv("MARE_LAYOUT");
  mr_layout_check();
  if (!mr_layout) {
    fprintf(stderr, "the layouts of this Lua are not known\n");
    return !(wish && strcmp(wish, "0") == 0);
  }
  void (*const tests[])(lua_State *) = { test_dead_strings_come_back, test_all_states_of_the_collector, test_numbers, test_the_table_of_strings_is_full };
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    lua_State *L = luaL_newstate();
    tests[i](L);
    lua_close(L);
  }
  return failures != 0;
}
