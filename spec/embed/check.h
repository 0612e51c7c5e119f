/* check: what the test programs here share. */
#ifndef EMBED_CHECK_H
#define EMBED_CHECK_H

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
  do { \
    if (!(what)) { \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what); \
      exit(1); \
    } \
  } while (0)

/* Runs code, which must not fail. */
static inline void run(lua_State *L, const char *code) {
  if (luaL_dostring(L, code) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
}

static inline lua_State *open_state(void) {
  lua_State *L = luaL_newstate();
  CHECK(L);
  luaL_openlibs(L);
  return L;
}

#endif
