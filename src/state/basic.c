/*
 * basic: the functions of the basic library that could see that globals are made lazily (see lazy.c), and tostring, in which
 * a __tostring may wait. They behave, and fail, as the originals do.
 */
#include "state/state.h"

/* next (table [, key]) -> key, value | nil */
int mr_base_next(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 2);
  if (PORT_UNLIKELY(mr_lazy_is(L, 1))) mr_lazy_fill(L);
  if (lua_next(L, 1)) return 2;
  lua_pushnil(L);
  return 1;
}

static int k_pairs(lua_State *L, int status, lua_KContext ctx) {
  (void)L; (void)status; (void)ctx;
  return 3;
}

/* pairs (value) -> next, value, nil */
int mr_base_pairs(lua_State *L) {
  luaL_checkany(L, 1);
  if (luaL_getmetafield(L, 1, "__pairs") == LUA_TNIL) {
    lua_pushcfunction(L, mr_base_next);
    lua_pushvalue(L, 1);
    lua_pushnil(L);
  } else {
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 3, 0, k_pairs);
  }
  return 3;
}

/* rawget (table, key) -> value */
int mr_base_rawget(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  if (PORT_UNLIKELY(mr_lazy_is(L, 1))) lua_gettable(L, 1);
  else lua_rawget(L, 1);
  return 1;
}

/* rawset (table, key, value) -> table */
int mr_base_rawset(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checkany(L, 2);
  luaL_checkany(L, 3);
  lua_settop(L, 3);
  if (PORT_UNLIKELY(mr_lazy_is(L, 1))) mr_lazy_note(L);
  lua_rawset(L, 1);
  return 1;
}

/* getmetatable (value) -> metatable or its __metatable */
int mr_base_getmetatable(lua_State *L) {
  luaL_checkany(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) mr_lazy_open(L, LIB_STRING);
  if (!lua_getmetatable(L, 1) || PORT_UNLIKELY(mr_lazy_is(L, 1))) {
    lua_pushnil(L);
    return 1;
  }
  luaL_getmetafield(L, 1, "__metatable");
  return 1;
}

/* setmetatable (table, metatable | nil) -> table */
int mr_base_setmetatable(lua_State *L) {
  int t = lua_type(L, 2);
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_argexpected(L, t == LUA_TNIL || t == LUA_TTABLE, 2, "nil or table");
  if (PORT_UNLIKELY(lua_getmetatable(L, 1))) {
    if (luaL_getmetafield(L, 1, "__metatable") != LUA_TNIL) return luaL_error(L, "cannot change a protected metatable");
    if (mr_lazy_is(L, 1)) mr_lazy_fill(L);
  }
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

static int k_tostring(lua_State *L, int status, lua_KContext ctx) {
  (void)status; (void)ctx;
  if (!lua_isstring(L, -1)) return luaL_error(L, "'__tostring' must return a string");
  return 1;
}

/* tostring (value) -> string */
int mr_base_tostring(lua_State *L) {
  luaL_checkany(L, 1);
  if (luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL) {
    if (lua_type(L, 1) == LUA_TSTRING) lua_settop(L, 1);
    else luaL_tolstring(L, 1, NULL);
    return 1;
  }
  lua_pushvalue(L, 1);
  lua_callk(L, 1, 1, 0, k_tostring);
  return k_tostring(L, LUA_OK, 0);
}
