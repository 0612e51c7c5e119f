/* fields: values of options, in tables that programs give. What is wrong raises and names the field: a limit that is not understood must not be none. */
#include "module/module.h"

#include <math.h>

/* "who: 'field' must be wanted, got value"; the value is at the top */
static int bad(lua_State *L, const char *who, const char *field, const char *wanted) {
  const char *got = luaL_typename(L, -1);
  if (lua_type(L, -1) == LUA_TNUMBER) got = luaL_tolstring(L, -1, NULL);
  else if (lua_type(L, -1) == LUA_TSTRING) got = lua_pushfstring(L, "\"%s\"", lua_tostring(L, -1));
  return luaL_error(L, "%s: '%s' must be %s, got %s", who, field, wanted, got);
}

int mr_boolean_field(lua_State *L, int idx, const char *who, const char *field, int usual) {
  int type = lua_getfield(L, idx, field), value = type == LUA_TNIL ? usual : lua_toboolean(L, -1);
  if (type != LUA_TNIL && type != LUA_TBOOLEAN) bad(L, who, field, "true or false");
  lua_pop(L, 1);
  return value;
}

int mr_integer_field(lua_State *L, int idx, const char *who, const char *field, int least, int most, int usual) {
  int is, type = lua_getfield(L, idx, field);
  lua_Integer n = lua_tointegerx(L, -1, &is);
  if (type == LUA_TNIL) n = usual;
  else if (type != LUA_TNUMBER || !is || n < least || n > most) {
    const char *wanted = lua_pushfstring(L, "a whole number from %d to %d", least, most);
    lua_insert(L, -2);
    bad(L, who, field, wanted);
  }
  lua_pop(L, 1);
  return (int)n;
}

uint64_t mr_deadline_field(lua_State *L, int idx, const char *who, const char *field) {
  int type = lua_getfield(L, idx, field);
  if (type != LUA_TNIL && (type != LUA_TNUMBER || isnan(lua_tonumber(L, -1)))) bad(L, who, field, "a number of seconds");
  uint64_t deadline = mr_deadline(L, -1);
  lua_pop(L, 1);
  return deadline;
}

int mr_arguments_field(lua_State *L, int idx) {
  enum { MOST = 250 };
  int type = lua_getfield(L, idx, "args"), table = lua_gettop(L);
  if (type == LUA_TNIL) return lua_pop(L, 1), 0;
  if (type != LUA_TTABLE) bad(L, "spawn", "args", "a table of arguments");
  size_t length = lua_rawlen(L, table);
  int counted = lua_getfield(L, table, "n") != LUA_TNIL;
  lua_pop(L, 1);
  if (!counted && length > MOST) luaL_error(L, "spawn: 'args' holds %d values; there may be %d", (int)length, MOST);
  int n = mr_integer_field(L, table, "spawn: 'args'", "n", 0, MOST, (int)length);
  luaL_checkstack(L, n + 8, NULL);
  for (int i = 1; i <= n; i++) lua_rawgeti(L, table, i);
  lua_remove(L, table);
  return n;
}
