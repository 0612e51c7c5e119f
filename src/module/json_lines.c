/*
 * json_lines: json.lines, values that come one a line.
 *
 * The iterator's upvalues: where lines come from, the options, how many lines there were, and of a text where the next one begins. It may wait in what it
 * calls; nothing of it is on the C stack then.
 */
#include "module/json.h"
#include "module/buflib.h"

#include <string.h>

enum { FROM = 1, OPTIONS, COUNT, AT };         /* upvalues */
enum { AGAIN = 0, GIVEN = 2, ENDED = -1 };     /* of a line: it was blank; value and number are on top; there is none */

static int is_blank(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!strchr(" \t\r\n", s[i]) || !s[i]) return 0;
  return 1;
}

/* The line at idx, or the text `s` in it. */
static int give(lua_State *L, const char *s, size_t n) {
  mr_json_reading o = { .depth = MR_JSON_DEPTH };
  lua_Integer line = lua_tointeger(L, lua_upvalueindex(COUNT)) + 1;
  lua_pushinteger(L, line);
  lua_replace(L, lua_upvalueindex(COUNT));
  if (is_blank(s, n)) return AGAIN;
  if (!lua_isnil(L, lua_upvalueindex(OPTIONS))) {
    lua_pushvalue(L, lua_upvalueindex(OPTIONS));
    mr_json_read_options(L, lua_gettop(L), &o);
  }
  int results = mr_json_read(L, s, n, (size_t)line, &o);
  if (results == 2) {                          /* nil and a message */
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return lua_error(L);
  }
  if (lua_isnil(L, -1)) {                      /* a nil would end the loop */
    lua_pop(L, 1);
    lua_pushlightuserdata(L, NULL);
  }
  lua_pushinteger(L, line);
  return GIVEN;
}

static int of_text(lua_State *L) {
  size_t n, at = (size_t)lua_tointeger(L, lua_upvalueindex(AT));
  const char *s = mr_piece_get(L, lua_upvalueindex(FROM), &n);
  if (!s || at >= n) return ENDED;
  const char *end = memchr(s + at, '\n', n - at);
  size_t length = end ? (size_t)(end - s) - at : n - at;
  lua_pushinteger(L, (lua_Integer)(at + length + 1));
  lua_replace(L, lua_upvalueindex(AT));
  return give(L, s + at, length);
}

/* What the reader has returned, from index 1 on: a line; nothing; or nothing and why. */
static int of_reader(lua_State *L) {
  size_t n;
  if (lua_isnil(L, 1)) {
    const char *code = lua_type(L, 3) == LUA_TSTRING ? lua_tostring(L, 3) : "";
    if (lua_isnil(L, 2) || strcmp(code, "EOF") == 0) return ENDED;
    lua_settop(L, 2);
    return lua_error(L);
  }
  if (!lua_isstring(L, 1) && !mr_buffer_here(L, 1))
    return luaL_error(L, "json.lines: a line must be a string or buffer, got %s", luaL_typename(L, 1));
  mr_piece_fix(L, 1);
  const char *s = mr_piece_get(L, 1, &n);
  return give(L, s, n);
}

static int l_next(lua_State *L);

static int k_next(lua_State *L, int status, lua_KContext c) {
  (void)status, (void)c;
  lua_settop(L, 3);
  int r = of_reader(L);
  return r == GIVEN ? GIVEN : r == ENDED ? (lua_pushnil(L), 1) : l_next(L);
}

static int l_next(lua_State *L) {
  for (;;) {
    lua_settop(L, 0);
    int r;
    if (lua_isinteger(L, lua_upvalueindex(AT))) {
      r = of_text(L);
    } else {
      lua_pushvalue(L, lua_upvalueindex(FROM));
      int n = 0;
      if (!lua_isfunction(L, 1)) {
        lua_getfield(L, 1, "read");
        lua_insert(L, 1);
        lua_pushliteral(L, "L");
        n = 2;
      }
      lua_callk(L, n, 3, 0, k_next);
      r = of_reader(L);
    }
    if (r == GIVEN) return GIVEN;
    if (r == ENDED) return lua_pushnil(L), 1;
  }
}

/* json.lines(function | text | what has read[, options]) -> iterator of values and the numbers of their lines */
int mr_json_l_lines(lua_State *L) {
  mr_json_reading o;
  lua_settop(L, 2);
  int text = lua_type(L, 1) == LUA_TSTRING || mr_buffer_here(L, 1);
  if (text) mr_piece_fix(L, 1);
  else if (!lua_isfunction(L, 1) && !lua_istable(L, 1) && !lua_isuserdata(L, 1)) luaL_typeerror(L, 1, "function, string, buffer, file or connection");
  mr_json_read_options(L, 2, &o);              /* what is wrong with them is told here */
  lua_settop(L, 2);
  lua_pushinteger(L, 0);
  if (text) lua_pushinteger(L, 0);
  else lua_pushnil(L);
  lua_pushcclosure(L, l_next, 4);
  return 1;
}
