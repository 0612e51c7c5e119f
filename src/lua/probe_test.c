/* Tests of what is found by trying: on the Lua that runs here it is found, and it is right. */
#include <stdio.h>
#include <string.h>
#include "lua/layout.h"
#include "lua/probe.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x)))

static void run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) != LUA_OK) {
    failures++;
    fprintf(stderr, "%s: %s\n", code, lua_tostring(L, -1));
  }
  lua_settop(L, 0);
}

/* Before anything was tried, a state must count as having finalisers: dropping it without running them would be wrong. */
static void test_unknown_means_yes(lua_State *L) {
  CHECK(!mr_finaliser_found());
  CHECK(mr_finaliser_has(L));
  CHECK(mr_count_at(L) == NULL);
}

static void test_finalisers(lua_State *L) {
  mr_finaliser_find();
  CHECK(mr_finaliser_found());
  CHECK(!mr_finaliser_has(L));
  run(L, "x = setmetatable({}, { __index = {} })");
  CHECK(!mr_finaliser_has(L));
  run(L, "x = setmetatable({}, { __gc = function() end })");
  CHECK(mr_finaliser_has(L));
  run(L, "x = nil collectgarbage() collectgarbage()");
  CHECK(!mr_finaliser_has(L));
}

static const void *seen[4];
static int nseen, enough;
static int see(const void *object) {
  if (nseen < 4) seen[nseen] = object;
  return ++nseen != enough;
}

static int sees(lua_State *L, int at_most) {
  nseen = 0;
  enough = at_most;
  return mr_finaliser_each(L, see);
}

/* Where the layout is not known nobody is called. */
static void test_each_finaliser_in_the_order_of_the_end(lua_State *L) {
  CHECK(sees(L, 0) == mr_layout && nseen == 0);
  run(L, "local mt = { __gc = function() end } a, b = setmetatable({}, mt), setmetatable({}, mt)");
  CHECK(sees(L, 0) == mr_layout && nseen == (mr_layout ? 2 : 0));
  lua_getglobal(L, "b");
  lua_getglobal(L, "a");
  CHECK(!mr_layout || (seen[0] == lua_topointer(L, -2) && seen[1] == lua_topointer(L, -1)));
  lua_pop(L, 2);
  CHECK(!sees(L, 1) && nseen == mr_layout);
  run(L, "a, b = nil collectgarbage() collectgarbage()");
}

static int inside, left_inside;
static void hook(lua_State *L, lua_Debug *ar) {
  (void)ar;
  inside++;
  left_inside = *mr_count_at(L);
}

/* The instructions left are read and written where Lua has them: written to 10, they come to their end at once. */
static void test_count(lua_State *L) {
  enum { FAR = 1000000, NEAR = 10 };
  mr_count_find();
  CHECK(mr_count_at(L) != NULL);
  if (!mr_count_at(L)) return;
  lua_sethook(L, hook, LUA_MASKCOUNT, FAR);
  CHECK(*mr_count_at(L) == FAR);
  run(L, "for i = 1, 100 do end");
  CHECK(*mr_count_at(L) < FAR && *mr_count_at(L) > FAR - 1000 && inside == 0);
  *mr_count_at(L) = NEAR;
  run(L, "for i = 1, 100 do end");
  CHECK(inside == 1 && left_inside > FAR - 1000);
  lua_sethook(L, NULL, 0, 0);
}

static void test_words(lua_State *L) {
  *mr_lua_word(L) = 40;
  lua_State *co = lua_newthread(L);
  CHECK(*mr_lua_word(co) == 40);
  *mr_lua_word(co) |= 1;
  CHECK(*mr_lua_word(L) == 40 && *mr_lua_word(co) == 41);
  *mr_lua_word(L) = 0;
  lua_settop(L, 0);
}

static int l_in_finaliser(lua_State *L) {
  lua_pushboolean(L, mr_lua_in_finaliser(L));
  lua_setglobal(L, "within");
  return 0;
}

static void test_in_finaliser(lua_State *L) {
  lua_register(L, "note", l_in_finaliser);
  CHECK(!mr_lua_in_finaliser(L));
  run(L, "note() assert(within == false) setmetatable({}, { __gc = note }) collectgarbage() assert(within == true)");
}

static int count_pieces(lua_State *L, const void *p, size_t n, void *ud) {
  (void)L;
  CHECK(p && n > 0);
  *(size_t *)ud += n;
  return 0;
}

static void test_dump_and_numbers(lua_State *L) {
  size_t n = 0;
  char text[MR_LUA_FLOAT_SIZE];
  CHECK(luaL_loadstring(L, "return 1") == LUA_OK);
  CHECK(mr_lua_dump(L, count_pieces, &n) == 0 && n > 20);
  lua_pushnumber(L, 0.5);
  n = mr_lua_float_text(L, -1, text);
  CHECK(n == 3 && memcmp(text, "0.5", 3) == 0);
  lua_settop(L, 0);
}

int main(void) {
  mr_layout_check();
  printf("layouts %s\n", mr_layout ? "as they are known" : "not known, or not wished");
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  lua_gc(L, LUA_GCCOLLECT, 0);
  test_unknown_means_yes(L);
  lua_close(L);
  L = mr_lua_newstate(mr_probe_alloc, &(mr_probe){ NULL, 0 });
  CHECK(mr_lua_fits(L));
  luaL_requiref(L, "_G", luaopen_base, 1);
  lua_settop(L, 0);
  test_finalisers(L);
  test_each_finaliser_in_the_order_of_the_end(L);
  test_count(L);
  test_words(L);
  test_in_finaliser(L);
  test_dump_and_numbers(L);
  lua_close(L);
  return failures != 0;
}
