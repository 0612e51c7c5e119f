/*
 * package: the library's table, its paths, and what a process inherits of its parent's.
 *
 * registry["mare.package"] is nil, or a table with path and cpath as inherited; the package table is made out of it when the library is
 * opened. Unlike the stock library it has no finaliser: C libraries are never unloaded.
 */
#include <stdlib.h>
#include <string.h>
#include "module/module.h"
#include "module/state.h"

/* ---- default paths, program-wide ---- */

#define VERSION_SUFFIX "_5_4"

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
  path = cpath ? make_path("LUA_CPATH", "LUA_CPATH" VERSION_SUFFIX, LUA_CPATH_DEFAULT)
               : make_path("LUA_PATH", "LUA_PATH" VERSION_SUFFIX, LUA_PATH_DEFAULT);
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

/* ---- inheritance ---- */

/* Copies field `name` of the package table at index `from` to the table at the top when it is a string and not the default. */
static void export_path(lua_State *L, int from, const char *name, int cpath, int to) {
  lua_pushstring(L, name);
  lua_rawget(L, from);
  const char *path = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
  if (!path || strcmp(path, mr_package_default(cpath)) == 0) {
    lua_pop(L, 1);
    return;
  }
  if (lua_isnil(L, to)) {
    lua_newtable(L);
    lua_replace(L, to);
  }
  lua_setfield(L, to, name);
}

/* Does the value at the top travel? Packed for a trial, so that one odd function does not forbid every spawn. */
static int travels(lua_State *L) {
  mr_packer *p = mr_packer_for(L, mr_self_fiber(L));
  int ok = mr_pack(p, L, lua_gettop(L), 1, "package.preload") == 0;
  if (!ok) lua_pop(L, 1);
  return ok;
}

/* C functions go as their addresses: same program. */
static void export_preload(lua_State *L, int to) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE) != LUA_TTABLE) {
    lua_pop(L, 1);
    return;
  }
  int preload = lua_gettop(L), out = 0;
  lua_pushnil(L);
  while (lua_next(L, preload)) {
    lua_CFunction f = lua_tocfunction(L, -1);
    int c_with_upvalues = f && lua_getupvalue(L, -1, 1);
    if (c_with_upvalues) lua_pop(L, 1);
    if (lua_type(L, -2) == LUA_TSTRING && !c_with_upvalues && (f || travels(L))) {
      if (!out) {
        lua_newtable(L);
        lua_insert(L, preload + 1);
        out = preload + 1;
      }
      lua_pushvalue(L, -2);
      if (f) lua_pushinteger(L, (lua_Integer)(intptr_t)f);
      else lua_pushvalue(L, -2);
      lua_rawset(L, out);
    }
    lua_pop(L, 1);
  }
  if (out) {
    if (lua_isnil(L, to)) {
      lua_newtable(L);
      lua_replace(L, to);
    }
    lua_setfield(L, to, "preload");
  }
  lua_settop(L, preload - 1);
}

static int is_host(lua_State *L) { return mr_self(L)->kind == PROC_HOST; }

int mr_package_export(lua_State *L) {
  if (is_host(L)) {
    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_istable(L, -1)) lua_getfield(L, -1, LUA_LOADLIBNAME);
    else lua_pushnil(L);
    lua_remove(L, -2);
  } else {
    lua_getfield(L, LUA_REGISTRYINDEX, MR_PACKAGE);
  }
  if (!lua_istable(L, -1)) {
    if (!lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_pushnil(L);
    }
    return 1;
  }
  luaL_checkstack(L, 10, NULL);
  int from = lua_gettop(L);
  lua_pushnil(L);
  export_path(L, from, "path", 0, from + 1);
  export_path(L, from, "cpath", 1, from + 1);
  export_preload(L, from + 1);
  lua_remove(L, from);
  return 1;
}

static void import_preload(lua_State *L, int from) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushnil(L);
  while (lua_next(L, from)) {
    lua_pushvalue(L, -2);
    if (lua_isinteger(L, -2)) lua_pushcfunction(L, (lua_CFunction)(intptr_t)lua_tointeger(L, -2));
    else lua_pushvalue(L, -2);
    lua_rawset(L, -5);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

void mr_package_import(lua_State *L, int idx) {
  if (!lua_istable(L, idx)) return;
  idx = lua_absindex(L, idx);
  luaL_checkstack(L, 10, NULL);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, MR_PACKAGE);
  static const char *const fields[] = { "path", "cpath" };
  for (int i = 0; i < 2; i++) {
    if (lua_getfield(L, idx, fields[i]) != LUA_TSTRING) {
      lua_pop(L, 1);
      lua_pushstring(L, mr_package_default(i));
    }
    lua_setfield(L, -2, fields[i]);
  }
  lua_pop(L, 1);
  if (lua_getfield(L, idx, "preload") == LUA_TTABLE) import_preload(L, lua_gettop(L));
  lua_pop(L, 1);
}
