/*
 * Tests of what a process's state is: its size, its finalisers, and that no failed allocation breaks its laziness.
 * What scripts see of it is compared with plain Lua in spec/stdlib_spec.lua.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lua/probe.h"
#include "state/chunk.h"
#include "state/state.h"

static int failures;
#define CHECK(x) ((x) ? (void)0 : (void)(failures++, fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x)))

typedef struct { size_t used; long left; } meter;   /* left: allocations until one fails; negative: never */

static void *alloc(void *ud, void *p, size_t osize, size_t nsize) {
  meter *m = (meter *)ud;
  if (!p) osize = 0;
  if (nsize == 0) {
    free(p);
    m->used -= osize;
    return NULL;
  }
  if (nsize > osize && m->left >= 0 && m->left-- == 0) {
    m->left = 0;                                      /* from here on all fail */
    return NULL;
  }
  void *q = realloc(p, nsize);
  if (q) m->used += nsize - osize;
  return q;
}

static mr_proc proc;

static lua_State *open_process(meter *m) {
  lua_State *L = mr_state_open(alloc, m);
  if (!L) return NULL;
  memset(&proc, 0, sizeof proc);
  proc.main.L = proc.main.top = L;
  mr_job_init(&proc.job, &proc.main.fiber, 1, 0);
  *mr_lua_word(L) = (uintptr_t)&proc;
  mr_state_start(L, &proc);
  return L;
}

static int run(lua_State *L, const char *code) {
  int status = luaL_loadstring(L, code);
  if (status == LUA_OK) status = lua_pcall(L, 0, 0, 0);
  if (status != LUA_OK && status != LUA_ERRMEM) fprintf(stderr, "%s: %s\n", code, lua_tostring(L, -1));
  lua_settop(L, 0);
  return status;
}

static void test_size(void) {
  meter m = { 0, -1 };
  lua_State *L = mr_state_open(alloc, &m);
  printf("a template asks %zu bytes\n", m.used);
  CHECK(m.used <= 6000);
  lua_close(L);
  CHECK(m.used == 0);
}

static void test_finalisers(void) {
  static const char *const modes[] = { "collectgarbage 'generational'", "collectgarbage 'incremental'" };
  for (int i = 0; i < 2; i++) {
    meter m = { 0, -1 };
    lua_State *L = open_process(&m);
    CHECK(run(L, modes[i]) == LUA_OK);
    CHECK(!mr_finaliser_has(L));
    CHECK(run(L, "x = setmetatable({}, { __index = {} }) package.loaded.y = require 'coroutine' y = ('x'):rep(100)") == LUA_OK);
    CHECK(!mr_finaliser_has(L));
    CHECK(run(L, "x = setmetatable({}, { __gc = function() end })") == LUA_OK);
    CHECK(mr_finaliser_has(L));
    CHECK(run(L, "collectgarbage() collectgarbage()") == LUA_OK);
    CHECK(mr_finaliser_has(L));
    CHECK(run(L, "x = nil collectgarbage() collectgarbage()") == LUA_OK);
    CHECK(!mr_finaliser_has(L));
    CHECK(run(L, "io.write('')") == LUA_OK);
    CHECK(mr_finaliser_has(L));
    lua_close(L);
  }
}

/* Seen from within: while the first of two finalisers runs, the other one is still to come. */
static int l_seen(lua_State *L) {
  lua_pushboolean(L, mr_finaliser_has(proc.main.L));
  return 1;
}

static void test_waiting_finalisers(void) {
  meter m = { 0, -1 };
  lua_State *L = open_process(&m);
  lua_register(L, "seen", l_seen);
  CHECK(run(L, "local log = {} for i = 1, 2 do setmetatable({}, { __gc = function() log[#log + 1] = seen() end }) end "
               "collectgarbage() collectgarbage() assert(#log == 2 and log[1] and not log[2])") == LUA_OK);
  lua_close(L);
}

/* Each program runs with the n-th allocation, and all later ones, failing; then it must work in the same state. */
static void test_failing_allocations(void) {
  static const char *const programs[] = {
    "local n = 0 for k, v in pairs(_G) do n = n + 1 end assert(n == 35)",
    "assert(('x'):rep(3) == 'xxx' and '10' + 1 == 11 and string.len 'x' == 1 and getmetatable('').__index == string)",
    "assert(require 'string' == string and require '_G' == _G and package.loaded.os == os and rawget(_G, 'utf8') == utf8)",
    "setmetatable(_G, {}) assert(math.pi and coroutine.wrap(function() return io.stdout end)() == io.stdout)",
    "assert(package.path and #package.searchers == 4 and debug.getregistry()._LOADED == package.loaded)",
    "local m = setmetatable({}, { __tostring = function() return 'm' end }) assert(tostring(m) == 'm') g1, g2, g3 = m, nil, 5",
    "package.preload.own = function(n) return { n } end assert(require 'own'[1] == 'own') package.loaded.own = nil",
    "local c = coroutine.create(function(...) return coroutine.yield(...) end) assert(select('#', coroutine.resume(c, 1, 2)) == 3)",
    "string = nil assert(string == nil and ('x'):upper() == 'X')",
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    long n = 0;
    for (int status = LUA_ERRMEM; status == LUA_ERRMEM && n < 5000; n++) {
      meter m = { 0, -1 };
      lua_State *L = open_process(&m);
      m.left = n;
      status = run(L, programs[i]);
      m.left = -1;
      CHECK(run(L, programs[i]) == LUA_OK);
      lua_close(L);
      CHECK(m.used == 0);
    }
    CHECK(n > 5 && n < 5000);
  }
}

static void test_failing_open(void) {
  lua_State *L = NULL;
  long n = 0;
  for (; !L && n < 1000; n++) {
    meter m = { 0, n };
    L = mr_state_open(alloc, &m);
    if (L) {
      m.left = -1;
      lua_close(L);
    }
    CHECK(m.used == 0);
  }
  CHECK(n > 20 && n < 1000);
}

/* A state without a process, as the image's checks run it. */
static void test_without_process(void) {
  meter m = { 0, -1 };
  lua_State *L = mr_state_open(alloc, &m);
  CHECK(run(L, "assert(type(string) == 'table') local n = 0 for k in pairs(_G) do n = n + 1 end assert(n > 0 and not next({}))") == LUA_OK);
  lua_close(L);
}

static void write_file(const char *name, const char *text) {
  FILE *f = fopen(name, "w");
  fputs(text, f);
  fclose(f);
}

static void test_chunks(void) {
  char name[40], code[100];
  snprintf(name, sizeof name, "chunk_test_%06lx.lua", (unsigned long)(port_entropy() & 0xffffff));
  write_file(name, "return 1");
  snprintf(code, sizeof code, "package.path = './%s' answer = require 'm'", name);
  size_t before, after, bytes, filled;
  mr_chunk_counts(&before, &bytes);
  for (int i = 0; i < 100; i++) {
    meter m = { 0, -1 };
    lua_State *L = open_process(&m);
    if (i == 50) write_file(name, "return 2000");
    CHECK(run(L, code) == LUA_OK);
    lua_getglobal(L, "answer");
    CHECK(lua_tointeger(L, -1) == (i < 50 ? 1 : 2000));
    lua_close(L);
  }
  mr_chunk_counts(&after, &filled);
  CHECK(after - before == 2);
  CHECK(filled > bytes && filled - bytes < 1000);
  remove(name);
}

int main(void) {
  mr_state_install();
  test_size();
  test_finalisers();
  test_waiting_finalisers();
  test_failing_open();
  test_failing_allocations();
  test_without_process();
  test_chunks();
  return failures != 0;
}
