/*
 * compat: the only place that knows Lua versions. Everything else is written for 5.4 and calls what differs through here.
 *
 * 5.4.0 … 5.4.8 are covered. Where 5.3, 5.1 and LuaJIT will differ:
 *   lua_resume            no result count before 5.4             MR_RESUME
 *   lua_closethread       5.4 only (lua_resetthread to 5.4.5)    mr_thread_reset
 *   lua_getextraspace     5.3 and later; else a registry light userdata
 *   lua_yieldk, lua_callk 5.2 and later; else tail yields
 *   LUA_GCGEN             5.4 only                               mr_gc_default
 *   lua_setwarnf          5.4 only
 *   string arithmetic     metamethods of strings in 5.4 only
 */
#ifndef MR_COMPAT_H
#define MR_COMPAT_H

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#if LUA_VERSION_NUM != 504
#error "this version of mare is for Lua 5.4"
#endif

/* Closes the pending variables of a dead or suspended coroutine; an error object, if any, is on its top. */
static inline int mr_thread_reset(lua_State *co, lua_State *from) {
#if LUA_VERSION_RELEASE_NUM >= 50406
  return lua_closethread(co, from);
#else
  (void)from;
  return lua_resetthread(co);
#endif
}

/* What the stand-alone interpreter of this version sets. */
static inline void mr_gc_default(lua_State *L) { lua_gc(L, LUA_GCGEN, 0, 0); }

#endif
