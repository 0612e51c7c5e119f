/*
 * image_check: puts an image to the proof before it is used.
 *
 * Clones and a normally opened state run the same exercise, and must give the same results, pass the arena's check at
 * each step and be empty after lua_close: then every list inside the state led where it should. Tables keyed by
 * addresses would break at the first look-up after a move, so the template must not have any: its tables are walked.
 */
#include "heap/image.h"
#include "port/port.h"

#include <string.h>

/* Uses only the language, and what it finds of the basic functions. Returns a string that tells all it saw. */
static const char exercise[] =
  "local yield, collect, log, methods = ...\n"
  "local t, seen = {}, {}\n"
  "for i = 1, 50 do t[i] = i * i; t['k' .. i] = i; t[i + 0.5] = -i; t[-i] = {i, tostring and tostring(i)} end\n"
  "for i = 1, 50, 2 do t['k' .. i] = nil; t[-i] = nil end\n"
  "collect()\n"
  "local s, n = 'x', 0\n"
  "for i = 1, 9 do s = s .. s .. i; t[s] = i end\n"
  "for i = 1, 50 do n = n + t[i] + (t['k' .. i] or 0) + t[i + 0.5] + (t[-i] and t[-i][1] or 0) end\n"
  "log(n, #s, t[s], #t)\n"
  "local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end\n"
  "local fs = {}\n"
  "for i = 1, 20 do local up = i; fs[i] = function(d) up = up + d; return up end end\n"
  "for i = 1, 20 do fs[i](i) end\n"
  "log(fib(12), fs[20](1), (function(...) local a, b = ...; return b end)(1, 'two', 3))\n"
  "local mt = {__index = function(_, k) return k .. '!' end, __add = function(a, b) return 'sum' end,\n"
  "  __close = function() log('closed') end, __gc = function() log('finalised') end, __mode = 'k'}\n"
  "local function set(o) if setmetatable then return setmetatable(o, mt) end; return {abc = 'abc!'} end\n"
  "do local c <close> = setmetatable and set({}) or nil; log(set({}).abc) end\n"
  "collect()\n"
  "local weak = set({}); weak[{}] = 1; weak[mt] = 2; collect()\n"
  "for k, v in (next or function() end), weak do log(v) end\n"
  "local globals = {}\n"
  "for name, v in (next or function() end), _G or _ENV do globals[name] = true end\n"
  "for i = 1, 100 do _ENV['name' .. i] = i end\n"
  "for name in (next or function() end), globals do if not _ENV[name] then log(name) end end\n"
  "for i = 1, 100 do n = n + _ENV['name' .. i]; _ENV['name' .. i] = nil end\n"
  "if pcall then log(pcall(error, 'e')); log(pcall(function() local x = nil; x.y = 1 end)) end\n"
  "if load then log(load('return 1 + ...')(41), load('return +')) end\n"
  "if methods then log(('ab'):rep(3), #('z'):rep(5000), ('%d %s'):format(3, 'q'), (('a b'):gsub('%w', {a = 'x'}))) end\n"
  "if require then log(pcall(require, 'no.such.module')) end\n"
  "for i = 1, 3 do log(yield(i, #s .. 'y' .. i)) end\n"
  "collect(); log(n)\n";

/* log(values...): appends them to the text on the log thread, whose stack holds pieces. */
static int l_log(lua_State *L) {
  lua_State *out = lua_tothread(L, lua_upvalueindex(1));
  for (int i = 1; i <= lua_gettop(L); i++) {
    luaL_checkstack(out, 2, NULL);
    switch (lua_type(L, i)) {
      case LUA_TNUMBER: case LUA_TSTRING:
        lua_pushvalue(L, i);
        lua_tostring(L, -1);
        lua_xmove(L, out, 1);
        break;
      default: lua_pushstring(out, lua_typename(out, lua_type(L, i)));
    }
  }
  return 0;
}

/* yield(values...) */
static int l_yield(lua_State *L) { return lua_yield(L, lua_gettop(L)); }

/* collect() */
static int l_collect(lua_State *L) {
  lua_gc(L, LUA_GCCOLLECT, 0);
  return 0;
}

static int strings_have_methods(lua_State *L) {
  lua_pushliteral(L, "");
  int have = luaL_getmetafield(L, -1, "__index") == LUA_TTABLE;
  if (have) have = lua_getfield(L, -1, "rep") == LUA_TFUNCTION;
  lua_settop(L, 2);      /* the log and the coroutine stay */
  return have;
}

/* Runs the exercise in a coroutine; its log is left on the stack of the thread at index 1. */
static void run_script(lua_State *L) {
  lua_State *co = lua_newthread(L);
  if (luaL_loadbufferx(co, exercise, sizeof exercise - 1, "=exercise", "t") != LUA_OK) lua_error(co);
  lua_pushcfunction(co, l_yield);
  lua_pushcfunction(co, l_collect);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(co, l_log, 1);
  lua_pushboolean(co, strings_have_methods(L));
  int n = 4, status, out = 0;
  while ((status = mr_lua_resume(co, L, n, &out)) == LUA_YIELD) n = out;
  if (status != LUA_OK) {
    lua_xmove(co, L, 1);
    lua_error(L);
  }
  lua_pop(L, 1);
}

/* (image) -> text: all that the exercise logged, in both modes of the collector */
static int l_exercise(lua_State *L) {
  lua_settop(L, 0);
  lua_State *out = lua_newthread(L);
  run_script(L);
  mr_lua_incremental(L);
  run_script(L);
  mr_lua_generational(L);
  mr_lua_step(L, 0);
  int n = lua_gettop(out);
  luaL_checkstack(L, 2 * n + 2, NULL);
  for (int i = 1; i <= n; i++) {
    lua_pushvalue(out, i);
    lua_xmove(out, L, 1);
    lua_pushliteral(L, "\n");
  }
  lua_concat(L, 2 * n);
  return 1;
}

/* ---- tables keyed by addresses ---- */

typedef struct range { const char *from; size_t size; } range;

static int inside(const range *r, const void *p) { return (size_t)((const char *)p - r->from) < r->size; }

/* Puts the value at the top on the list of those to visit, unless it has been there. Table 2: visited, table 3: list. */
static void visit_later(lua_State *L) {
  int t = lua_type(L, -1);
  if (t == LUA_TTABLE || t == LUA_TFUNCTION || t == LUA_TUSERDATA) {
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 2) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_pushboolean(L, 1);
      lua_rawset(L, 2);
      lua_pushvalue(L, -2);
      lua_rawseti(L, 3, (lua_Integer)lua_rawlen(L, 3) + 1);
    }
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Visits what the value at the top holds; 1 if a key is an address of the image. */
static int visit(lua_State *L, const range *r) {
  int at = lua_gettop(L), moving = 0;
  if (lua_getmetatable(L, at)) visit_later(L);
  switch (lua_type(L, at)) {
    case LUA_TTABLE:
      for (lua_pushnil(L); lua_next(L, at);) {
        visit_later(L);
        int t = lua_type(L, -1);
        if (t != LUA_TSTRING && t != LUA_TNUMBER && t != LUA_TBOOLEAN) moving |= inside(r, lua_topointer(L, -1));
        lua_pushvalue(L, -1);
        visit_later(L);
      }
      break;
    case LUA_TFUNCTION: for (int i = 1; lua_getupvalue(L, at, i); i++) visit_later(L); break;
    case LUA_TUSERDATA: for (int i = 1; lua_getiuservalue(L, at, i) != LUA_TNONE; i++) visit_later(L); lua_pop(L, 1);
  }
  lua_settop(L, at - 1);
  return moving;
}

/* (range) -> boolean: is there a table keyed by an address of the image? */
static int l_keyed_by_address(lua_State *L) {
  const range *r = lua_touserdata(L, 1);
  int moving = 0;
  lua_settop(L, 1);
  lua_newtable(L);
  lua_newtable(L);
  lua_pushvalue(L, LUA_REGISTRYINDEX);
  visit_later(L);
  lua_pushliteral(L, "");
  if (lua_getmetatable(L, -1)) visit_later(L);
  lua_pop(L, 1);
  for (lua_Integer i = 1; lua_rawgeti(L, 3, i) != LUA_TNIL; i++) moving |= visit(L, r);
  lua_pushboolean(L, moving);
  return 1;
}

static int keyed_by_address(const mr_image *im) {
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  if (!L) return 1;
  range r = {(const char *)h, im->size};
  lua_pushcfunction(L, l_keyed_by_address);
  lua_pushlightuserdata(L, &r);
  int bad = lua_pcall(L, 1, 1, 0) != LUA_OK || lua_toboolean(L, -1);
  mr_heap_drop(h);
  return bad;
}

/* ---- */

/* Runs the exercise and closes the state; the text goes to *text (its length is returned, 0 = failed). */
static size_t run(lua_State *L, mr_heap *h, char *text, size_t most) {
  lua_pushcfunction(L, l_exercise);
  int sound = lua_pcall(L, 0, 1, 0) == LUA_OK && mr_heap_check(h) == 0;
  size_t n = 0;
  const char *s = sound ? lua_tolstring(L, -1, &n) : NULL;
  if (!s || n > most) n = 0;
  if (n) memcpy(text, s, n);
  lua_close(L);
  return mr_heap_used(h) == 0 && mr_heap_check(h) == 0 ? n : 0;
}

enum { MOST = 64 * 1024 };
typedef struct texts { char reference[MOST], clone[MOST]; } texts;

static int same(const texts *t, size_t n, size_t m) { return n && n == m && memcmp(t->reference, t->clone, n) == 0; }

static int proves(const mr_image *im, mr_opener open, texts *t) {
  mr_heap *h = mr_heap_new(0);
  lua_State *L = h ? open(mr_heap_alloc, h) : NULL;
  if (L) lua_gc(L, LUA_GCCOLLECT, 0);
  size_t n = L ? run(L, h, t->reference, MOST) : 0;
  if (h) mr_heap_drop(h);
  if (!n) return 0;
  L = mr_image_clone(im, &h);
  if (!L) return 0;
  int ok = same(t, n, run(L, h, t->clone, MOST));
  mr_image_leave(h);
  mr_image_rewind(im, h);
  ok = ok && mr_heap_check(h) == 0 && same(t, n, run(L, h, t->clone, MOST));
  mr_heap_drop(h);
  return ok;
}

int mr_image_proves(const mr_image *im, mr_opener open) {
  texts *t = port_pages_reserve(sizeof *t, 4096);
  if (!t) return 0;
  int ok = !keyed_by_address(im) && proves(im, open, t);
  port_pages_release(t, sizeof *t);
  return ok;
}
