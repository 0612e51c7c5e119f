/* cmodule: a C module that uses include/mare.h inside processes and hosts, with and without continuations. */
#include "mare.h"

#include <lauxlib.h>

static const mare_api *api(lua_State *L) { return mare_api_require(L); }

static int replied(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return lua_gettop(L) - (int)ctx;
}

static int sent(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  lua_settop(L, 2);
  api(L)->channel_receive(L, 2, MARE_FOREVER, 2, replied);
  return replied(L, LUA_OK, 2 + 0 * ctx);
}

/* call(request, reply, v…) -> results: sends v… and receives the answer, suspending the process meanwhile */
static int l_call(lua_State *L) {
  int n = lua_gettop(L) - 2;
  api(L)->channel_send(L, 1, n, MARE_FOREVER, 0, sent);
  return sent(L, LUA_OK, 0);
}

/* block(channel [, seconds]) -> v…: receives without a continuation */
static int l_block(lua_State *L) {
  double seconds = luaL_optnumber(L, 2, MARE_FOREVER);
  lua_settop(L, 1);
  return api(L)->channel_receive(L, 1, seconds, 0, NULL);
}

int luaopen_cmodule(lua_State *L) {
  static const luaL_Reg functions[] = { { "call", l_call }, { "block", l_block }, { NULL, NULL } };
  mare_api_require(L);
  luaL_newlib(L, functions);
  return 1;
}
