/*
 * luaproc.h: for libraries written for the extended luaproc (Millán Fernández, 2016), whose userdata move by two C functions. They compile
 * unchanged, with this header instead of the original's or with none, and link nothing; mare's module luaproc calls them.
 *
 *   int sender(lua_State *L)      transfer type, userdata, the other state as light userdata -> nothing; or nil and a message
 *   int receiver(lua_State *L)    transfer type, index, the other state as light userdata -> the new userdata; or nil and a message
 *
 * The sender's function makes in the other state an equal userdata, whose metatable is the one of that name there; it changes nothing else. The
 * receiver's function makes another in L, like the one at that index of the other state.
 *
 * A library registers them by luaproc.regudata(library): library.transffuncs() returns { [name of a metatable] = { send = …, recv = … } }; luaproc_transffuncs_add helps.
 *
 * In mare every userdata goes through a state of its own, between the two processes, as messages of asynchronous channels did in the original: so
 * functions are called with LUAPROC_TO_CONTAINER and LUAPROC_FROM_CONTAINER only. A container holds no library; its metatables are empty.
 */
#ifndef LUAPROC_H
#define LUAPROC_H

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __has_include
#if !__has_include(<lua.h>) && __has_include(<lua5.4/lua.h>)
#include <lua5.4/lua.h>
#include <lua5.4/lauxlib.h>
#elif !__has_include(<lua.h>) && __has_include(<lua54/lua.h>)
#include <lua54/lua.h>
#include <lua54/lauxlib.h>
#else
#include <lua.h>
#include <lauxlib.h>
#endif
#else
#include <lua.h>
#include <lauxlib.h>
#endif

enum {
  LUAPROC_TO_PROCESS = 1,
  LUAPROC_FROM_PROCESS = 2,
  LUAPROC_TO_CONTAINER = 3,
  LUAPROC_FROM_CONTAINER = 4
};

/* Adds the two functions for the metatable of that name to the table on the top, which transffuncs returns. */
static inline void luaproc_transffuncs_add(lua_State *L, const char *name, lua_CFunction send, lua_CFunction recv) {
  lua_createtable(L, 0, 2);
  lua_pushcfunction(L, send);
  lua_setfield(L, -2, "send");
  lua_pushcfunction(L, recv);
  lua_setfield(L, -2, "recv");
  lua_setfield(L, -2, name);
}

#ifdef __cplusplus
}
#endif

#endif
