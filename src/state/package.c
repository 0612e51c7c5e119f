/*
 * package: the library's table and its paths.
 *
 * registry["mare.package"] is nil, or a table with path and cpath as inherited (inherit.c); the package table is made out of it when
 * the library is opened. Unlike the stock library it has no finaliser: C libraries are never unloaded.
 */
#include <stdlib.h>
#include <string.h>
#include "state/state.h"

/* ---- default paths, program-wide ---- */

/* The variable's value with ";;" replaced by the default; NULL: no memory. Never freed. */
static const char *make_path(const char *variable, const char *versioned, const char *standard) {
  const char *env = NULL, *mark;
  if (!atomic_load(&mr_noenv)) {
    env = getenv(versioned);
    if (!env) env = getenv(variable);
  }
  if (!env) return standard;
  size_t n = strlen(env), m = strlen(standard);
  char *path = (char *)malloc(n + m + 3);
  if (!path) return NULL;
  mark = strstr(env, LUA_PATH_SEP LUA_PATH_SEP);
  if (!mark) return strcpy(path, env);
  size_t before = (size_t)(mark - env), after = n - before - 2;
  char *p = path;
  memcpy(p, env, before);
  p += before;
  if (before) *p++ = *LUA_PATH_SEP;
  memcpy(p, standard, m);
  p += m;
  if (after) *p++ = *LUA_PATH_SEP;
  memcpy(p, mark + 2, after + 1);
  return path;
}

const char *mr_package_default(int cpath) {
  static _Atomic(const char *) made[2];
  const char *path = atomic_load_explicit(&made[cpath], memory_order_acquire), *none = NULL;
  if (PORT_LIKELY(path != NULL)) return path;
  path = cpath ? make_path("LUA_CPATH", "LUA_CPATH" LUA_VERSUFFIX, LUA_CPATH_DEFAULT)
               : make_path("LUA_PATH", "LUA_PATH" LUA_VERSUFFIX, LUA_PATH_DEFAULT);
  if (!path) return cpath ? LUA_CPATH_DEFAULT : LUA_PATH_DEFAULT;
  if (!atomic_compare_exchange_strong(&made[cpath], &none, path)) path = none;   /* another thread's; ours is lost, once */
  return path;
}

/* ---- the library ---- */

static void set_default(lua_State *L, const char *field, int cpath) {
  if (lua_getfield(L, -1, field) == LUA_TNIL) {
    lua_pushstring(L, mr_package_default(cpath));
    lua_setfield(L, -3, field);
  }
  lua_pop(L, 1);
}

int mr_lib_package(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, MR_PACKAGE);
  set_default(L, "path", 0);
  set_default(L, "cpath", 1);
  lua_pushcfunction(L, mr_loadlib);
  lua_setfield(L, -2, "loadlib");
  lua_pushcfunction(L, mr_searchpath);
  lua_setfield(L, -2, "searchpath");
  lua_createtable(L, 4, 0);
  for (int i = 0; mr_searchers[i]; i++) {
    lua_pushcfunction(L, mr_searchers[i]);
    lua_rawseti(L, -2, i + 1);
  }
  lua_setfield(L, -2, "searchers");
  lua_pushliteral(L, LUA_DIRSEP "\n" LUA_PATH_SEP "\n" LUA_PATH_MARK "\n" LUA_EXEC_DIR "\n-\n");
  lua_setfield(L, -2, "config");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  mr_lazy_watch(L, -1, 1);
  lua_setfield(L, -2, "loaded");
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_setfield(L, -2, "preload");
  return 1;
}
