/* oldmodule: a library written for the extended luaproc, with the two transfer functions as in appendix B of its text. */
#include <luaproc.h>
#include <stdatomic.h>
#include <string.h>

typedef struct t_old { int value; int *self; } t_old;

static atomic_int ended;

static int old_send(lua_State *L) {
  const char *mt_name;
  luaL_checktype(L, 2, LUA_TUSERDATA);
  luaL_checktype(L, 3, LUA_TLIGHTUSERDATA);
  int transfer_type = (int)luaL_checkinteger(L, 1);
  const void *udata_pointer = lua_touserdata(L, 2);
  lua_State *Lto = (lua_State *)lua_touserdata(L, 3);
  if (((const t_old *)udata_pointer)->value == 13) {
    lua_pushnil(L);
    lua_pushstring(L, "13 does not travel");
    return 2;
  }
  lua_getmetatable(L, 2);
  lua_pushstring(L, "__name");
  lua_rawget(L, -2);
  mt_name = lua_tostring(L, -1);
  luaL_getmetatable(Lto, mt_name);
  if (lua_isnil(Lto, -1)) {
    if (transfer_type == 1) {
      lua_pushnil(L);
      lua_pushstring(L, "userdata's metatable must be registered in the receiver Lua process");
      return 2;
    }
    lua_pop(Lto, 1);
    luaL_newmetatable(Lto, mt_name);
  }
  size_t size = lua_rawlen(L, 2);
  t_old *old = (t_old *)lua_newuserdata(Lto, size);
  memcpy((void *)old, udata_pointer, size);
  old->self = &old->value;
  lua_pushvalue(Lto, -2);
  lua_setmetatable(Lto, -2);
  lua_remove(Lto, -2);
  return 0;
}

static int old_recv(lua_State *L) {
  luaL_checktype(L, 3, LUA_TLIGHTUSERDATA);
  int transfer_type = (int)luaL_checkinteger(L, 1);
  int udata_idx = (int)luaL_checkinteger(L, 2);
  lua_State *Lfrom = (lua_State *)lua_touserdata(L, 3);
  const void *udata_pointer = lua_touserdata(Lfrom, udata_idx);
  lua_getmetatable(Lfrom, udata_idx);
  lua_pushstring(Lfrom, "__name");
  lua_rawget(Lfrom, -2);
  const char *mt_name = lua_tostring(Lfrom, -1);
  luaL_getmetatable(L, mt_name);
  if (lua_isnil(L, -1)) {
    if (transfer_type == 2) {
      lua_pushnil(Lfrom);
      lua_pushstring(Lfrom, "userdata's metatable must be registered in the receiver Lua process");
    }
    lua_settop(L, 1);
    lua_pushnil(L);
    lua_pushstring(L, "userdata's metatable must be registered");
    return 2;
  }
  size_t size = lua_rawlen(Lfrom, udata_idx);
  t_old *old = (t_old *)lua_newuserdata(L, size);
  memcpy((void *)old, udata_pointer, size);
  old->self = &old->value;
  lua_pushvalue(L, -2);
  lua_setmetatable(L, -2);
  lua_remove(L, -2);
  lua_pop(Lfrom, 2);
  return 1;
}

static int old_get(lua_State *L) {
  t_old *old = (t_old *)luaL_checkudata(L, 1, "old.thing");
  lua_pushinteger(L, old->self == &old->value ? old->value : -1);
  return 1;
}

static int old_gc(lua_State *L) {
  t_old *old = (t_old *)luaL_checkudata(L, 1, "old.thing");
  if (old->self == &old->value) ended++;
  return 0;
}

static int old_new(lua_State *L) {
  t_old *old = (t_old *)lua_newuserdata(L, sizeof *old);
  old->value = (int)luaL_checkinteger(L, 1);
  old->self = &old->value;
  luaL_setmetatable(L, "old.thing");
  return 1;
}

static int old_ended(lua_State *L) {
  lua_pushinteger(L, ended);
  return 1;
}

static int old_transffuncs(lua_State *L) {
  lua_newtable(L);
  luaproc_transffuncs_add(L, "old.thing", old_send, old_recv);
  return 1;
}

int luaopen_oldmodule(lua_State *L) {
  static const luaL_Reg functions[] = { { "new", old_new }, { "get", old_get }, { "ended", old_ended }, { "transffuncs", old_transffuncs }, { NULL, NULL } };
  luaL_newmetatable(L, "old.thing");
  lua_pushcfunction(L, old_gc);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  luaL_newlib(L, functions);
  return 1;
}
