/*
 * marshal: the floor for bench/orb/marshal - sequences of the 11-field struct of fig. 5.2 of the ORB's model, written and read by hand over Lua's
 * C API, for this one type: no program is interpreted, nothing is looked up but the fields. GIOP's little-endian order on a little-endian machine.
 *
 * As fast as the API allows: field names and labels are strings that lie on the stack, tables are made with their sizes, bytes go into one
 * growing buffer, values are checked as mare checks them (type and range, no zero byte in a string, every length against what is left).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <lua.h>
#include <lauxlib.h>

enum { USHORT = 1, STRING, OCTET, SHORT, LONG, DOUBLE, CHAR, FLOAT, ENUM, BOOLEAN, ULONG, FIELDS = ULONG, LABELS };
static const char *const names[] = { "ushort_value", "string_value", "octet_value", "short_value", "long_value", "double_value", "char_value",
                                     "float_value", "enum_value", "boolean_value", "ulong_value" };
static const char *const labels[] = { "first", "second", "third" };

static char *buffer;
static size_t size, at;

static void room(size_t n) {
  if (size - at >= n) return;
  while (size - at < n) size = size ? 2 * size : 1024;
  buffer = realloc(buffer, size);
  if (!buffer) abort();
}

static void align(size_t n) {
  while (at & (n - 1)) buffer[at++] = 0;
}

#define PUT(type, v) do { type x = (type)(v); align(sizeof x); memcpy(buffer + at, &x, sizeof x); at += sizeof x; } while (0)

static int keys;                               /* stack index before the first name */

static void field(lua_State *L, int which) {
  lua_pushvalue(L, keys + which);
  lua_rawget(L, -2);
}

static lua_Integer integer(lua_State *L, int which, lua_Integer low, lua_Integer high) {
  int ok;
  field(L, which);
  lua_Integer n = lua_tointegerx(L, -1, &ok);
  if (!ok || lua_type(L, -1) != LUA_TNUMBER || n < low || n > high) luaL_error(L, "%s", names[which - 1]);
  lua_pop(L, 1);
  return n;
}

static double number(lua_State *L, int which) {
  field(L, which);
  if (lua_type(L, -1) != LUA_TNUMBER) luaL_error(L, "%s", names[which - 1]);
  double n = lua_tonumberx(L, -1, NULL);
  lua_pop(L, 1);
  return n;
}

static const char *string(lua_State *L, int which, size_t *n) {   /* stays on the stack */
  field(L, which);
  if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "%s", names[which - 1]);
  return lua_tolstring(L, -1, n);
}

static void write_one(lua_State *L) {
  size_t n;
  room(80);
  PUT(uint16_t, integer(L, USHORT, 0, 65535));
  const char *s = string(L, STRING, &n);
  if (memchr(s, 0, n)) luaL_error(L, "string_value");
  room(n + 80);
  PUT(uint32_t, n + 1);
  memcpy(buffer + at, s, n + 1);
  at += n + 1;
  lua_pop(L, 1);
  PUT(uint8_t, integer(L, OCTET, 0, 255));
  PUT(int16_t, integer(L, SHORT, -32768, 32767));
  PUT(int32_t, integer(L, LONG, INT32_MIN, INT32_MAX));
  PUT(double, number(L, DOUBLE));
  s = string(L, CHAR, &n);
  if (n != 1) luaL_error(L, "char_value");
  buffer[at++] = *s;
  lua_pop(L, 1);
  PUT(float, number(L, FLOAT));
  field(L, ENUM);
  int i = 0;
  while (i < 3 && !lua_rawequal(L, -1, keys + LABELS + i)) i++;
  if (i == 3) luaL_error(L, "enum_value");
  lua_pop(L, 1);
  PUT(uint32_t, i);
  field(L, BOOLEAN);
  if (!lua_isboolean(L, -1)) luaL_error(L, "boolean_value");
  buffer[at++] = (char)lua_toboolean(L, -1);
  lua_pop(L, 1);
  PUT(uint32_t, integer(L, ULONG, 0, UINT32_MAX));
}

static void push_keys(lua_State *L) {
  luaL_checkstack(L, 40, NULL);
  keys = lua_gettop(L);
  for (int i = 0; i < FIELDS + 3; i++) lua_pushvalue(L, lua_upvalueindex(i + 1));
}

/* encode(list) -> bytes */
static int l_encode(lua_State *L) {
  lua_settop(L, 1);
  push_keys(L);
  at = 0;
  lua_Unsigned n = lua_rawlen(L, 1);
  room(16);
  PUT(uint32_t, n);
  for (lua_Unsigned i = 1; i <= n; i++) {
    if (lua_rawgeti(L, 1, (lua_Integer)i) != LUA_TTABLE) luaL_error(L, "[%d]", (int)i);
    write_one(L);
    lua_pop(L, 1);
  }
  lua_pushlstring(L, buffer, at);
  return 1;
}

typedef struct reader { lua_State *L; const char *base, *at, *end; } reader;

static const char *take(reader *r, size_t to, size_t n) {
  size_t gap = -(size_t)(r->at - r->base) & (to - 1);
  if ((size_t)(r->end - r->at) < gap + n) luaL_error(r->L, "the bytes end");
  const char *p = r->at + gap;
  r->at = p + n;
  return p;
}

#define GET(type, v) type v; memcpy(&v, take(r, sizeof v, sizeof v), sizeof v)
#define SET(which, type, push) do { GET(type, v); lua_pushvalue(L, keys + (which)); push; lua_rawset(L, -3); } while (0)

static void read_one(reader *r) {
  lua_State *L = r->L;
  lua_createtable(L, 0, FIELDS);
  SET(USHORT, uint16_t, lua_pushinteger(L, v));
  GET(uint32_t, n);
  const char *s = take(r, 1, n);
  if (n == 0 || s[n - 1]) luaL_error(L, "a string without its zero");
  lua_pushvalue(L, keys + STRING);
  lua_pushlstring(L, s, n - 1);
  lua_rawset(L, -3);
  SET(OCTET, uint8_t, lua_pushinteger(L, v));
  SET(SHORT, int16_t, lua_pushinteger(L, v));
  SET(LONG, int32_t, lua_pushinteger(L, v));
  SET(DOUBLE, double, lua_pushnumber(L, v));
  SET(CHAR, char, lua_pushlstring(L, &v, 1));
  SET(FLOAT, float, lua_pushnumber(L, (double)v));
  SET(ENUM, uint32_t, if (v > 2) luaL_error(L, "no label"); lua_pushvalue(L, keys + LABELS + (int)v));
  SET(BOOLEAN, char, lua_pushboolean(L, v));
  SET(ULONG, uint32_t, lua_pushinteger(L, v));
}

/* decode(bytes) -> list */
static int l_decode(lua_State *L) {
  size_t length;
  const char *s = luaL_checklstring(L, 1, &length);
  reader rd = { L, s, s, s + length }, *r = &rd;
  lua_settop(L, 1);
  push_keys(L);
  GET(uint32_t, n);
  if (n > (size_t)(r->end - r->at) / 40) luaL_error(L, "a list longer than the bytes");
  lua_createtable(L, (int)n, 0);
  for (uint32_t i = 1; i <= n; i++) {
    read_one(r);
    lua_rawseti(L, -2, (lua_Integer)i);
  }
  return 1;
}

static void push_function(lua_State *L, lua_CFunction f) {
  for (int i = 0; i < FIELDS; i++) lua_pushstring(L, names[i]);
  for (int i = 0; i < 3; i++) lua_pushstring(L, labels[i]);
  lua_pushcclosure(L, f, FIELDS + 3);
}

int luaopen_marshal(lua_State *L) {
  lua_createtable(L, 0, 2);
  push_function(L, l_encode);
  lua_setfield(L, -2, "encode");
  push_function(L, l_decode);
  lua_setfield(L, -2, "decode");
  return 1;
}
