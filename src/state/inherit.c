/*
 * inherit: what a process takes over of its parent's package library: path and cpath where they are not the defaults, and preload.
 *
 * It is packed once into a counted message (mr_inherit) that all children share, and their children as long as they do not open `package`
 * themselves. The parent's state keeps it in registry["mare.inherit"] = { handle, path, cpath, preload = copy }, by which a later spawn
 * sees whether anything has changed. Loaders with upvalues of their own are packed anew each time: the values may have changed.
 *
 * In preload, C functions go as their addresses (same program); a loader that can't travel is left out.
 */
#include <stdlib.h>
#include <string.h>
#include "state/state.h"

#define CACHE "mare.inherit"

/* ---- the handle: a userdata that holds one reference ---- */

static int l_inherit_gc(lua_State *L) {
  mr_inherit **h = mr_is_own(L, 1, sizeof *h, l_inherit_gc) ? (mr_inherit **)lua_touserdata(L, 1) : NULL;
  if (!h) return 0;
  if (*h) mr_inherit_release(*h);
  *h = NULL;
  return 0;
}

/* Pushes an empty one. */
static mr_inherit **push_handle(lua_State *L) {
  mr_inherit **h = (mr_inherit **)lua_newuserdatauv(L, sizeof *h, 0);
  *h = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_inherit_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  return h;
}

/* ---- describing ---- */

/* Pushes one value; is it the package table? */
static int push_package(lua_State *L, int host) {
  if (!host) return lua_getfield(L, LUA_REGISTRYINDEX, MR_PACKAGE) == LUA_TTABLE;
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) != LUA_TTABLE) return 0;
  lua_getfield(L, -1, LUA_LOADLIBNAME);
  lua_remove(L, -2);
  return lua_istable(L, -1);
}

/* Pushes package[name] if it is a string, else nil. Is it the default (or no string)? */
static int push_path(lua_State *L, int package, const char *name, int cpath) {
  lua_pushstring(L, name);
  lua_rawget(L, package);
  if (lua_type(L, -1) == LUA_TSTRING) return strcmp(lua_tostring(L, -1), mr_package_default(cpath)) == 0;
  lua_pop(L, 1);
  lua_pushnil(L);
  return 1;
}

/* Pushes registry._PRELOAD, or nil when it is empty. */
static int push_preload(lua_State *L) {
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE) == LUA_TTABLE) {
    lua_pushnil(L);
    if (lua_next(L, -2)) {
      lua_pop(L, 2);
      return 1;
    }
  }
  lua_pop(L, 1);
  lua_pushnil(L);
  return 0;
}

/* Same entries in the tables at a and b? */
static int same_entries(lua_State *L, int a, int b) {
  int n = 0;
  for (lua_pushnil(L); lua_next(L, a); lua_pop(L, 1), n++) {
    lua_pushvalue(L, -2);
    lua_rawget(L, b);
    int same = lua_rawequal(L, -1, -2);
    lua_pop(L, 1);
    if (!same) {
      lua_pop(L, 2);
      return 0;
    }
  }
  for (lua_pushnil(L); lua_next(L, b); lua_pop(L, 1)) n--;
  return n == 0;
}

/* Stack: package at p, path p+1, cpath p+2, preload p+3. Pushes the kept handle if it says the same. */
static mr_inherit *kept(lua_State *L, int p) {
  static const char *const names[] = { "path", "cpath", "preload" };
  if (lua_getfield(L, LUA_REGISTRYINDEX, CACHE) != LUA_TTABLE) {
    lua_pop(L, 1);
    return NULL;
  }
  int same = 1;
  for (int i = 0; i < 3 && same; i++) {
    lua_getfield(L, p + 4, names[i]);
    same = lua_rawequal(L, -1, p + 1 + i) || (i == 2 && lua_istable(L, -1) && lua_istable(L, p + 3) && same_entries(L, p + 5, p + 3));
    lua_pop(L, 1);
  }
  lua_getfield(L, -1, "handle");
  lua_remove(L, -2);
  mr_inherit **h = (mr_inherit **)lua_touserdata(L, -1);
  if (same && h) return *h;
  lua_pop(L, 1);
  return NULL;
}

/* ---- packing ---- */

/* Has the function at the top upvalues besides the globals? */
static int has_values(lua_State *L) {
  for (int i = 1; lua_getupvalue(L, -1, i); i++) {
    lua_pushglobaltable(L);
    int globals = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    if (!globals) return 1;
  }
  return 0;
}

/* Does the value at the top travel? Packed for a trial. */
static int travels(lua_State *L, mr_packer *packer) {
  int ok = mr_pack(packer, L, lua_gettop(L), 1, "package.preload") == 0;
  if (!ok) lua_pop(L, 1);
  return ok;
}

/* Pushes the preload table as it is sent; *fixed becomes 0 when a loader may differ next time. */
static void push_loaders(lua_State *L, mr_packer *packer, int preload, int *fixed) {
  lua_newtable(L);
  int out = lua_gettop(L);
  for (lua_pushnil(L); lua_next(L, preload); lua_pop(L, 1)) {
    lua_CFunction f = lua_tocfunction(L, -1);
    int values = lua_isfunction(L, -1) && has_values(L);
    if (lua_type(L, -2) != LUA_TSTRING || (f && values) || !(f || travels(L, packer))) continue;
    if (values || !lua_isfunction(L, -1)) *fixed = 0;
    lua_pushvalue(L, -2);
    if (f) lua_pushinteger(L, (lua_Integer)(intptr_t)f);
    else lua_pushvalue(L, -2);
    lua_rawset(L, out);
  }
}

/* Keeps handle and description in the registry. Stack as in `kept`, the handle at the top. */
static void keep(lua_State *L, int p) {
  lua_createtable(L, 0, 4);
  lua_pushvalue(L, -2);
  lua_setfield(L, -2, "handle");
  lua_pushvalue(L, p + 1);
  lua_setfield(L, -2, "path");
  lua_pushvalue(L, p + 2);
  lua_setfield(L, -2, "cpath");
  if (lua_istable(L, p + 3)) {
    lua_newtable(L);
    for (lua_pushnil(L); lua_next(L, p + 3);) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    }
    lua_setfield(L, -2, "preload");
  }
  lua_setfield(L, LUA_REGISTRYINDEX, CACHE);
}

/* Stack as in `kept`. Pushes a handle with a new message. */
static mr_inherit *pack(lua_State *L, mr_packer *packer, int p) {
  int fixed = 1;
  mr_budget *over;
  char text[200];
  mr_inherit **h = push_handle(L);
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, p + 1);
  lua_setfield(L, -2, "path");
  lua_pushvalue(L, p + 2);
  lua_setfield(L, -2, "cpath");
  if (lua_istable(L, p + 3)) {
    push_loaders(L, packer, p + 3, &fixed);
    lua_setfield(L, -2, "preload");
  }
  if (mr_pack(packer, L, lua_gettop(L), 1, "package") != 0) lua_error(L);
  lua_pop(L, 1);
  mr_message *m = mr_proc_seal(L, mr_self(L), packer, &over);
  if (over) luaL_error(L, "%s", mr_proc_over(over, text));
  *h = m ? (mr_inherit *)malloc(sizeof **h) : NULL;
  if (!*h) {
    if (m) mr_message_free(m);
    luaL_error(L, "%s", mr_err_text(MR_ENOMEM));
  }
  atomic_init(&(*h)->refs, 1);
  (*h)->message = m;
  if (fixed) keep(L, p);
  return *h;
}

mr_inherit *mr_package_inherit(lua_State *L, mr_packer *packer) {
  mr_proc *self = mr_self(L);
  int host = self->kind == PROC_HOST, p = lua_gettop(L) + 1;
  if (!host && !mr_package_opened(L)) {
    lua_pushnil(L);
    return self->package;
  }
  luaL_checkstack(L, 20, NULL);
  if (!push_package(L, host)) {
    lua_settop(L, p - 1);
    lua_pushnil(L);
    return NULL;
  }
  int defaults = push_path(L, p, "path", 0);
  defaults = push_path(L, p, "cpath", 1) && defaults;
  if (!push_preload(L) && defaults) {
    lua_settop(L, p - 1);
    lua_pushnil(L);
    return NULL;
  }
  mr_inherit *i = kept(L, p);
  if (!i) i = pack(L, packer, p);
  lua_replace(L, p);
  lua_settop(L, p);
  return i;
}

/* ---- in the child ---- */

static void import_preload(lua_State *L, int from) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  for (lua_pushnil(L); lua_next(L, from); lua_pop(L, 1)) {
    lua_pushvalue(L, -2);
    if (lua_isinteger(L, -2)) lua_pushcfunction(L, (lua_CFunction)(intptr_t)lua_tointeger(L, -2));
    else lua_pushvalue(L, -2);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
}

void mr_package_take(lua_State *L, const mr_inherit *i) {
  static const char *const fields[] = { "path", "cpath" };
  luaL_checkstack(L, 10, NULL);
  int top = lua_gettop(L);
  if (mr_unpack(L, i->message) == 1 && lua_istable(L, -1)) {
    luaL_getsubtable(L, LUA_REGISTRYINDEX, MR_PACKAGE);
    for (int k = 0; k < 2; k++) {
      if (lua_getfield(L, top + 1, fields[k]) != LUA_TSTRING) {
        lua_pop(L, 1);
        lua_pushstring(L, mr_package_default(k));
      }
      lua_setfield(L, -2, fields[k]);
    }
    if (lua_getfield(L, top + 1, "preload") == LUA_TTABLE) import_preload(L, lua_gettop(L));
  }
  lua_settop(L, top);
}
