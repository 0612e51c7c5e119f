/*
 * require: loading modules in a process's state, by the standard protocol of searchers.
 *
 * It differs from the stock one in three ways: searchers and module bodies may wait (each call has a continuation); compiled files
 * are shared program-wide (chunk.h); and mare's own modules are found right after package.preload, without the file system.
 * It works before the package library is opened: registry["mare.package"] is then nil, or what was inherited.
 */
#include <stdio.h>
#include <string.h>
#include "base/embedded.h"
#include "state/chunk.h"
#include "state/state.h"

/* ---- files ---- */

/*
 * Looks for `name` in the templates of `path`. Found: pushes the file name and fills *s; else pushes the message.
 * The name put into each template has its dots (`sep`) replaced by `dirsep`.
 */
static const char *search_path(lua_State *L, const char *name, const char *path, const char *sep, const char *dirsep, port_stat *s) {
  if (*sep && strstr(name, sep)) name = luaL_gsub(L, name, sep, dirsep);
  else lua_pushstring(L, name);
  luaL_Buffer missing;
  luaL_buffinit(L, &missing);
  for (const char *p = path, *end; *path; p = end + 1) {
    end = strchr(p, *LUA_PATH_SEP);
    if (!end) end = p + strlen(p);
    lua_pushlstring(L, p, (size_t)(end - p));
    const char *file = luaL_gsub(L, lua_tostring(L, -1), LUA_PATH_MARK, name);
    lua_remove(L, -2);
    if (port_file_stat(file, s) == 0) return file;
    lua_pushfstring(L, "%sno file '%s'", p == path ? "" : "\n\t", file);
    lua_remove(L, -2);
    luaL_addvalue(&missing);
    if (!*end) break;
  }
  if (!*path) luaL_addstring(&missing, "no file ''");
  luaL_pushresult(&missing);
  return NULL;
}

/* package.searchpath (name, path [, sep [, rep]]) -> file name | nil, message */
int mr_searchpath(lua_State *L) {
  port_stat s;
  const char *file = search_path(L, luaL_checkstring(L, 1), luaL_checkstring(L, 2), luaL_optstring(L, 3, "."),
                                 luaL_optstring(L, 4, LUA_DIRSEP), &s);
  if (file) return 1;
  luaL_pushfail(L);
  lua_insert(L, -2);
  return 2;
}

/* package[field], which must be a string; stays on the stack. */
static const char *package_path(lua_State *L, const char *field) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, MR_PACKAGE) == LUA_TNIL) return mr_package_default(field[0] == 'c');
  lua_getfield(L, -1, field);
  const char *path = lua_tostring(L, -1);
  if (!path) luaL_error(L, "'package.%s' must be a string", field);
  return path;
}

static const char *find_file(lua_State *L, const char *name, const char *field, port_stat *s) {
  return search_path(L, name, package_path(L, field), ".", LUA_DIRSEP, s);
}

/* The loader, or the error why there is none, is at the top; `file` is anchored below it. */
static int loaded(lua_State *L, int ok, const char *file) {
  if (!ok)
    return luaL_error(L, "error loading module '%s' from file '%s':\n\t%s", lua_tostring(L, 1), file, lua_tostring(L, -1));
  lua_pushstring(L, file);
  return 2;
}

/* ---- C libraries ---- */

enum { LOADED = 0, NO_LIBRARY, NO_FUNCTION };

/* Pushes the function `symbol` of library `path`, or true for "*", or a message. Libraries stay for ever. */
static int find_function(lua_State *L, const char *path, const char *symbol) {
  const char *err = "unknown error";
  void *lib = port_library(path, *symbol == '*', &err);
  if (!lib) {
    lua_pushstring(L, err);
    return NO_LIBRARY;
  }
  if (*symbol == '*') {
    lua_pushboolean(L, 1);
    return LOADED;
  }
  lua_CFunction f = (lua_CFunction)port_symbol(lib, symbol, &err);
  if (!f) {
    lua_pushstring(L, err);
    return NO_FUNCTION;
  }
  lua_pushcfunction(L, f);
  return LOADED;
}

/* package.loadlib (path, function name) -> function | true | nil, message, where */
int mr_loadlib(lua_State *L) {
  const char *path = luaL_checkstring(L, 1);
  const char *symbol = luaL_checkstring(L, 2);
  int status = find_function(L, path, symbol);
  if (status == LOADED) return 1;
  luaL_pushfail(L);
  lua_insert(L, -2);
  lua_pushstring(L, status == NO_LIBRARY ? "open" : "init");
  return 3;
}

/* luaopen_a_b for "a.b"; of "x-y" first x, then y. */
static int find_opener(lua_State *L, const char *file, const char *name) {
  name = luaL_gsub(L, name, ".", "_");
  const char *mark = strchr(name, '-');
  if (mark) {
    lua_pushlstring(L, name, (size_t)(mark - name));
    int status = find_function(L, file, lua_pushfstring(L, "luaopen_%s", lua_tostring(L, -1)));
    if (status != NO_FUNCTION) return status;
    name = mark + 1;
  }
  return find_function(L, file, lua_pushfstring(L, "luaopen_%s", name));
}

/* ---- searchers: (name) -> loader, extra | message | nothing ---- */

static const luaL_Reg none[] = { { NULL, NULL } };
const luaL_Reg *mr_builtins = none;

static int own_module(lua_State *L, const char *name) {
  for (const luaL_Reg *r = mr_builtins; r->name; r++)
    if (strcmp(r->name, name) == 0) {
      lua_pushcfunction(L, r->func);
      return 1;
    }
  const struct mr_embedded *e = mr_embedded_find(name);
  if (!e) return 0;
  if (mr_chunk_text(L, e->file, (const char *)e->code, e->size) != LUA_OK) lua_error(L);
  return 1;
}

static int l_searcher_preload(lua_State *L) {
  const char *name = luaL_checkstring(L, 1);
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE) == LUA_TTABLE && lua_getfield(L, -1, name) != LUA_TNIL) {
    lua_pushliteral(L, ":preload:");
    return 2;
  }
  if (own_module(L, name)) {
    lua_pushliteral(L, ":mare:");
    return 2;
  }
  lua_pushfstring(L, "no field package.preload['%s']", name);
  return 1;
}

static int l_searcher_lua(lua_State *L) {
  port_stat s;
  const char *name = luaL_checkstring(L, 1);
  const char *file = find_file(L, name, "path", &s);
  if (!file) return 1;
  return loaded(L, mr_chunk_load(L, file, &s) == LUA_OK, file);
}

static int l_searcher_c(lua_State *L) {
  port_stat s;
  const char *name = luaL_checkstring(L, 1);
  const char *file = find_file(L, name, "cpath", &s);
  if (!file) return 1;
  return loaded(L, find_opener(L, file, name) == LOADED, file);
}

static int in_root(lua_State *L) {
  port_stat s;
  const char *name = luaL_checkstring(L, 1);
  const char *dot = strchr(name, '.');
  if (!dot) return 0;
  lua_pushlstring(L, name, (size_t)(dot - name));
  const char *file = find_file(L, lua_tostring(L, -1), "cpath", &s);
  if (!file) return 1;
  int status = find_opener(L, file, name);
  if (status == NO_FUNCTION) {
    lua_pushfstring(L, "no module '%s' in file '%s'", name, file);
    return 1;
  }
  return loaded(L, status == LOADED, file);
}

/* (name, home) -> the module of that other name */
static int k_at_home(lua_State *L, int status, lua_KContext ctx) {
  (void)L; (void)status; (void)ctx;
  return 1;
}

static int l_at_home(lua_State *L) {
  lua_pushcfunction(L, mr_require);
  lua_pushvalue(L, 2);
  lua_callk(L, 1, 1, 0, k_at_home);
  return 1;
}

static int is_below(const char *name, const char *root) {
  size_t n = strlen(root);
  return strncmp(name, root, n) == 0 && (name[n] == '.' || !name[n]);
}

/* What programs for OiL ask for: `oil.x` is mare.oil.x, `loop.x` mare.oil.loop.x. See lua/mare/oil/names.lua. */
static int at_oil(lua_State *L) {
  const char *name = lua_tostring(L, 1), *home;
  if (strncmp(name, "oil.", 4) == 0) home = lua_pushfstring(L, "mare.%s", name);
  else if (is_below(name, "loop") || is_below(name, "cothread")) home = lua_pushfstring(L, "mare.oil.%s", name);
  else return 0;
  if (!mr_embedded_find(home)) return 0;
  lua_pushcfunction(L, l_at_home);
  lua_insert(L, -2);
  return 2;
}

/* The last of the searchers: what nobody else has may be OiL's. */
static int l_searcher_root(lua_State *L) {
  int n = in_root(L), top = lua_gettop(L);
  if (n && lua_isfunction(L, -n)) return n;
  int found = at_oil(L);
  if (found) return found;
  lua_settop(L, top);
  return n;
}

const lua_CFunction mr_searchers[5] = { l_searcher_preload, l_searcher_lua, l_searcher_c, l_searcher_root, NULL };

/* ---- require ---- */

/* Stack: 1 name, 2 registry._LOADED, 3 package.searchers or nil (not opened yet), 4 why not found so far, 5… */

static int finish(lua_State *L) {               /* 5 extra, 6 result of the loader */
  if (!lua_isnil(L, 6)) {
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 6);
    lua_settable(L, 2);
  }
  lua_pushvalue(L, 1);
  if (lua_gettable(L, 2) == LUA_TNIL) {
    lua_pushvalue(L, 1);
    lua_pushboolean(L, 1);
    lua_settable(L, 2);
    lua_pushboolean(L, 1);
  }
  lua_pushvalue(L, 5);
  return 2;
}

static int k_loaded(lua_State *L, int status, lua_KContext ctx) {
  (void)status; (void)ctx;
  return finish(L);
}

static int call_loader(lua_State *L) {          /* 5 loader, 6 extra */
  lua_insert(L, 5);                             /* extra loader */
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 5);
  lua_callk(L, 2, 1, 0, k_loaded);
  return finish(L);
}

/* Pushes searcher number i, or nil. */
static void push_searcher(lua_State *L, lua_KContext i) {
  if (!lua_isnil(L, 3)) lua_rawgeti(L, 3, (lua_Integer)i);
  else if (mr_searchers[i - 1]) lua_pushcfunction(L, mr_searchers[i - 1]);
  else lua_pushnil(L);
}

static int k_searched(lua_State *L, int status, lua_KContext i) {
  (void)status;
  for (;;) {
    if (i > 0) {                                /* 5, 6: results of searcher i */
      if (lua_isfunction(L, 5)) return call_loader(L);
      if (lua_isstring(L, 5)) {
        lua_pushvalue(L, 4);
        lua_pushliteral(L, "\n\t");
        lua_pushvalue(L, 5);
        lua_concat(L, 3);
        lua_replace(L, 4);
      }
      lua_settop(L, 4);
    }
    push_searcher(L, ++i);
    if (lua_isnil(L, 5)) return luaL_error(L, "module '%s' not found:%s", lua_tostring(L, 1), lua_tostring(L, 4));
    lua_pushvalue(L, 1);
    lua_callk(L, 1, 2, i, k_searched);
  }
}

/* require (name) -> module, loader data */
int mr_require(lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, 1);
  lua_gettable(L, 2);
  if (lua_toboolean(L, 3)) return 1;
  lua_settop(L, 2);
  if (!mr_package_opened(L)) {
    lua_pushnil(L);
  } else {
    lua_getfield(L, LUA_REGISTRYINDEX, MR_PACKAGE);
    if (lua_getfield(L, -1, "searchers") != LUA_TTABLE) return luaL_error(L, "'package.searchers' must be a table");
    lua_replace(L, 3);
  }
  lua_pushliteral(L, "");
  return k_searched(L, LUA_OK, 0);
}
