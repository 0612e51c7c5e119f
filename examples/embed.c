/*
 * A C program with Lua and mare in it: it spawns a process, gives it numbers through a channel, and gets their squares.
 *   cc examples/embed.c -Iinclude $(pkg-config --cflags --libs lua5.4) -o embed && LUA_CPATH="$PWD/build/plain/lib/?.so" ./embed
 * docs/recipes.md builds and runs it in the tests.
 */
#include "mare.h"
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>

static const char squares[] =
  "local numbers, answers = ...\n"
  "for n in numbers:each() do answers:send(n * n) end\n"
  "answers:close()\n";

/* Everything that may raise a Lua error stands here, below lua_pcall. */
static int program(lua_State *L) {
  const mare_api *mare = mare_api_require(L);
  mare->channel_new(L, 10);                                      /* 1: numbers, with room for ten */
  mare->channel_new(L, 0);                                       /* 2: answers */
  lua_pushstring(L, squares);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  mare->process_spawn(L, 2);                                     /* 3: the handle */
  for (int n = 1; n <= 5; n++) {
    lua_pushinteger(L, n);
    mare->channel_send(L, 1, 1, MARE_FOREVER, 0, NULL);          /* this thread waits where a process would be suspended */
    lua_settop(L, 3);
  }
  mare->channel_close(L, 1);
  while (mare->channel_receive(L, 2, MARE_FOREVER, 0, NULL) == 1) {
    printf("%d\n", (int)lua_tointeger(L, -1));
    lua_settop(L, 3);
  }
  return 0;
}

int main(void) {
  lua_State *L = luaL_newstate();
  if (L == NULL) return 1;
  luaL_openlibs(L);
  lua_pushcfunction(L, program);
  int failed = lua_pcall(L, 0, 0, 0) != LUA_OK;
  if (failed) fprintf(stderr, "%s\n", lua_tostring(L, -1));
  lua_close(L);                                                  /* waits for every process */
  return failed;
}
