/*
 * Messages of tables and strings, built raw in a state that lives on: whatever its collector is doing, what arrives is what was sent, and stays so; and it
 * is what the API builds of the same message. A receiver `forced` collects at each point where the API allows it.
 *
 * usage: plain_test [seed] [rounds]
 */
#include <time.h>
#include "lua/build.h"
#include "transfer/graphs.h"

#ifdef PORT_TSAN
enum { ROUNDS = 5 };
#else
enum { ROUNDS = 50 };
#endif

enum { KEPT = 8, FIRST_KEPT = 100 };           /* messages that the receiver holds on to, in its registry */

static int forced, always_late;

/* always_late: the collector. */
static void *allocate(void *ud, void *p, size_t was, size_t n) {
  lua_State **L = ud;
  (void)was;
  if (n == 0) {
    free(p);
    return NULL;
  }
  if (always_late && *L && mr_layout) {
    raw_global *g = raw_global_of(*L);
    g->total += g->debt - 1;
    g->debt = 1;
  }
  return realloc(p, n);
}

static lua_State *owner;
static void open_receiver(void) {
  receiver = mr_lua_newstate(allocate, &owner);
  owner = receiver;
  luaL_openlibs(receiver);
  load_library(receiver);
}

/* A step or a whole collection, another mode, or garbage. */
static void disturb(lua_State *L, int choice) {
  switch (choice % 8) {
    case 0: mr_lua_generational(L); break;
    case 1: mr_lua_incremental(L); break;
    case 2: lua_gc(L, LUA_GCCOLLECT); break;
    case 3: mr_lua_step(L, 0); break;
    case 4: mr_lua_step(L, 4096); break;
    case 5: if (luaL_dostring(L, "for i = 1, 50 do local _ = {id = i, name = 'gone' .. i} end")) abort(); break;
    default: break;
  }
}

/* [] -> [values] */
static int unpack(mr_message *m) {
  lua_settop(receiver, 0);
  if (!lua_checkstack(receiver, 100)) abort();
  lua_pushcfunction(receiver, m ? l_unpack : l_unpack_view);
  lua_pushlightuserdata(receiver, m);
  always_late = forced;
  int status = lua_pcall(receiver, 1, LUA_MULTRET, 0);
  always_late = 0;
  return status;
}

/* The values on the stack read as `want`; they stay there. */
static void compare(const char *want, long seed, const char *how) {
  int n = lua_gettop(receiver);
  const char *got = describe(receiver);
  checks++;
  if (!got || strcmp(got, want) != 0) {
    failures++;
    fprintf(stderr, "seed %ld, forced %d, %s: %s\n", seed, forced, how, got ? "differs" : lua_tostring(receiver, -1));
  }
  lua_settop(receiver, n);
}

static struct { char *want; long seed; } kept[KEPT];

/* The values on the stack go to where the receiver keeps some, and what was there is looked at for the last time. */
static void keep(const char *want, long seed) {
  int i = (int)(seed % KEPT), n = lua_gettop(receiver);
  lua_createtable(receiver, n, 0);
  lua_insert(receiver, 1);
  for (; n > 0; n--) lua_rawseti(receiver, 1, n);
  lua_setglobal(receiver, "new");
  if (kept[i].want) {
    lua_rawgeti(receiver, LUA_REGISTRYINDEX, FIRST_KEPT + i);
    n = (int)lua_rawlen(receiver, 1);
    for (int k = 1; k <= n; k++) lua_rawgeti(receiver, 1, k);
    lua_remove(receiver, 1);
    compare(kept[i].want, kept[i].seed, "kept");
  }
  lua_getglobal(receiver, "new");
  lua_rawseti(receiver, LUA_REGISTRYINDEX, FIRST_KEPT + i);
  free(kept[i].want);
  kept[i].want = strdup(want);
  kept[i].seed = seed;
}

static void once(long seed) {
  generate(sender, seed, 1);
  int n = lua_gettop(sender);
  const char *want = describe(sender);
  if (!want || mr_pack(packer, sender, 1, n, "message")) { fprintf(stderr, "%s\n", lua_tostring(sender, -1)); abort(); }
  CHECK(mr_is_plain(packer));
  mr_message *m = mr_packer_seal(packer);
  int layout = mr_layout;
  for (int way = 0; way < 3; way++) {
    disturb(receiver, (int)(seed * 7 + way * 3));
    mr_layout = way == 2 ? 0 : layout;
    int status = unpack(way ? m : NULL);
    mr_layout = layout;
    CHECK(status == LUA_OK);
    disturb(receiver, (int)(seed * 5 + way));
    compare(want, seed, way == 2 ? "by the API" : way ? "message" : "view");
    if (way == 1) keep(want, seed);
  }
  mr_message_free(m);
}

/* What is built does not shrink the room for what the program puts in later. */
static void test_tables_grow_as_any(void) {
  one("local t = {} for i = 1, 20 do t[i] = {id = i, name = 'n' .. i, list = {1, 2, 3}} end return t",
      "local t = ... for i = 1, 20 do local r = t[i] for k = 1, 50 do r['k' .. k] = k r.list[#r.list + 1] = k r[k] = -k end"
      " assert(r.id == i and r.name == 'n' .. i and r.k50 == 50 and #r.list == 53 and r[50] == -50) end"
      " for i = 1, 20 do t[i].id = nil t[i].name = nil local n = 0 for _ in pairs(t[i]) do n = n + 1 end assert(n == 101) end return true");
}

/* Tables that were made alike share a shape; those that have lost a key, or have it in another place, don't. */
static void test_shapes_are_told_apart(void) {
  both("local t = {} for i = 1, 40 do t[i] = {a = i, b = -i, c = 'x'} end t[7].b = nil t[8].a = nil t[9].d = 1 t[10] = {c = 1, b = 2, a = 3} t[11].c = nil t[11].c = 5"
       " t[12] = {[1.5] = 1, a = 2, b = 3} t[13].b = {} return t",
       "local t = ... for i = 1, 40 do if i < 7 or i > 13 then assert(t[i].a == i and t[i].b == -i and t[i].c == 'x') end end"
       " assert(t[7].b == nil and t[7].a == 7 and t[8].a == nil and t[8].c == 'x' and t[9].d == 1 and t[9].a == 9 and t[10].a == 3 and t[11].c == 5)"
       " return t[12][1.5] == 1 and t[12].b == 3 and type(t[13].b) == 'table' and next(t[13].b) == nil");
}

/* A table with an oversized hash part, and keys that died, arrives as small as its contents. */
static void test_parts_are_compact(void) {
  one("local t = {} for i = 1, 1000 do t['k' .. i] = i end for i = 1, 1000 do if i ~= 5 then t['k' .. i] = nil end end return {t, t.k5}",
      "local t = ...; collectgarbage() local before = collectgarbage 'count' local n = t[1].k5 t[1] = nil collectgarbage() return n == 5 and before - collectgarbage 'count' < 0.5");
}

/* A state that does nothing but receive holds no more than a few messages beside its own, whichever its collector. */
static void test_the_collector_keeps_up(void) {
  for (int generational = 0; generational < 2; generational++) {
    open_states();
    if (pack_results("local t = {} for i = 1, 200 do t[i] = {id = i, name = 'n' .. i, list = {1, 2, 3}} end return t")) abort();
    mr_message *m = mr_packer_seal(packer);
    if (generational) mr_lua_generational(receiver);
    lua_gc(receiver, LUA_GCCOLLECT);
    int own = lua_gc(receiver, LUA_GCCOUNT), most = 0;
    for (int i = 0; i < 300; i++) {
      CHECK(unpack(m) == LUA_OK);
      if (lua_gc(receiver, LUA_GCCOUNT) > most) most = lua_gc(receiver, LUA_GCCOUNT);
    }
    lua_gc(receiver, LUA_GCCOLLECT);
    int one = lua_gc(receiver, LUA_GCCOUNT) - own;
    CHECK(one > 20 && most < 2 * (own + one) + 3 * one);
    mr_message_free(m);
    close_states();
  }
}

static void test_random(long seed, long rounds) {
  for (forced = 0; forced < 2; forced++) {
    open_receiver();
    for (long i = 0; i < rounds; i++) once(seed + i);
    owner = NULL;
    lua_close(receiver);
    receiver = NULL;
    for (int i = 0; i < KEPT; i++) {
      free(kept[i].want);
      kept[i].want = NULL;
    }
  }
  forced = 0;
}

int main(int argc, char **argv) {
  long seed = argc > 1 ? atol(argv[1]) : (long)time(NULL), rounds = argc > 2 ? atol(argv[2]) : ROUNDS;
  printf("seed %ld\n", seed);
  open_states();
  lua_close(receiver);
  receiver = NULL;
  load_library(sender);
  test_random(seed, rounds);
  RUN(test_tables_grow_as_any);
  RUN(test_shapes_are_told_apart);
  RUN(test_parts_are_compact);
  RUN(test_the_collector_keeps_up);
  return finish();
}
