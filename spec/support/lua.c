/*
 * lua: the least interpreter that runs a script file, for the sanitizer builds where Lua's sources come without lua.c.
 *   lua SCRIPT [ARGUMENT...]
 */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

static int l_traceback(lua_State *L) {
  luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
  return 1;
}

int main(int argc, char **argv) {
  lua_State *L = argc > 1 ? luaL_newstate() : NULL;
  if (!L) return EXIT_FAILURE;
  luaL_openlibs(L);
  lua_gc(L, LUA_GCGEN, 0, 0);
  lua_createtable(L, argc, 1);
  for (int i = 0; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i - 1);
  }
  lua_setglobal(L, "arg");
  lua_pushcfunction(L, l_traceback);
  int bad = luaL_loadfile(L, argv[1]);
  if (!bad) {
    luaL_checkstack(L, argc, "too many arguments");
    for (int i = 2; i < argc; i++) lua_pushstring(L, argv[i]);
    bad = lua_pcall(L, argc - 2, 0, 1);
  }
  if (bad) fprintf(stderr, "lua: %s\n", luaL_tolstring(L, -1, NULL));
  lua_close(L);
  return bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
