/*
 * compat: the door to Lua. The rest of src/ is written for Lua 5.4 and includes no other header of Lua's; what differs from one version to the
 * next has a name here, and the functions that stand behind these names are called nowhere else (tools/check-layers.lua).
 *
 * 5.4.0 … 5.4.8 are covered. The differences, and where each belongs:
 *
 *   name here               5.4                        5.5                      5.3                     5.1, LuaJIT
 *   mr_lua_newstate         lua_newstate(f, ud)        one seed for all states  as 5.4                  not for LuaJIT with 32-bit addresses
 *   mr_lua_resume           counts the results         as 5.4                   the whole stack         the same, and no `from`
 *   mr_lua_closethread      lua_resetthread to 5.4.5   as 5.4.6                 does not exist          does not exist
 *   MR_LUA_MAXSTACK         in luaconf.h               not told: 1,000,000      as 5.4                  LUAI_MAXCSTACK
 *   mr_lua_word             lua_getextraspace          as 5.4                   as 5.4                  a table with weak keys
 *   mr_lua_in_finaliser     lua_gc gives -1            as 5.4                   a flag of ours          a flag of ours
 *   mr_lua_generational …   numbers after the mode     none                     no such mode            no such mode
 *   mr_lua_step             KiB, as an int             bytes, as a size_t       as 5.4                  as 5.4
 *   mr_lua_owe              KiB may be less than 0  a size_t may not         as 5.4                  as 5.4
 *   mr_lua_dump             pieces                     and one that is empty    as 5.4                  never stripped
 *   mr_lua_float_text       luaconf.h's format         lua_numbertocstring      as 5.4                  as 5.4
 *   mr_lua_fits             weak.h                     another number           another number          another number
 *   layout.h                structures                 arrays, free nodes       not used: fits() in layout.c says so
 *                                                      (and the loops over t->array, see raw_element)
 *   probe.h                 found by trying, in any version
 *
 * New functions of 5.4 that 5.3 and 5.1 lack without a difference in meaning are to be made here under their own names: lua_newuserdatauv with the
 * user values (a table in the one value there is), lua_setwarnf (nothing), luaL_pushfail. Globals that another version
 * has more or less of stand in state/globals.c. Continuations (lua_yieldk, lua_callk, lua_pcallk) exist from 5.2 on, string arithmetic by metamethods
 * from 5.4 on; for LuaJIT a wait would have to end in a tail yield, which is in every file that waits.
 */
#ifndef MR_COMPAT_H
#define MR_COMPAT_H

#include <limits.h>
#include <stdint.h>
#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

#if LUA_VERSION_NUM != 504
#error "mare needs Lua 5.4"
#endif

/* ---- states and threads ---- */

/*
 * NULL: no memory. Of one size and content wherever it lies, but for the seed of its strings, which 5.4 draws from addresses and the clock:
 * heap/template.c opens at one address until two are alike.
 */
static inline lua_State *mr_lua_newstate(lua_Alloc f, void *ud) { return lua_newstate(f, ud); }

/* Is the Lua that runs the one whose headers these are? (A library that any Lua may load: see weak.h.) */
static inline int mr_lua_fits(lua_State *L) {
#ifdef MR_ANY_LUA
  return lua_newuserdatauv && lua_setwarnf && lua_version(L) == LUA_VERSION_NUM;
#else
  luaL_checkversion(L);
  return 1;
#endif
}

/* Runs co with the nargs values on its top until it yields or ends; *nres values are on its top then, or an error. */
static inline int mr_lua_resume(lua_State *co, lua_State *from, int nargs, int *nres) { return lua_resume(co, from, nargs, nres); }

/* Closes the pending variables of a dead or suspended coroutine; an error object, if any, is on its top. `from` may be NULL. */
static inline int mr_lua_closethread(lua_State *co, lua_State *from) {
#if LUA_VERSION_RELEASE_NUM >= 50406
  return lua_closethread(co, from);
#else
  (void)from;
  return lua_resetthread(co);
#endif
}

/* A word of ours in every thread of a state. A new thread's begins as the main thread's is. */
static inline uintptr_t *mr_lua_word(lua_State *L) { return (uintptr_t *)lua_getextraspace(L); }

/* How many values a stack can hold. */
#define MR_LUA_MAXSTACK LUAI_MAXSTACK

/* ---- the collector ---- */

/* A finaliser runs, or the state closes: nothing can yield, and finalisers may interrupt whatever it is that runs below. */
static inline int mr_lua_in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT, 0) == -1; }
static inline void mr_lua_generational(lua_State *L) { lua_gc(L, LUA_GCGEN, 0, 0); }   /* what the stand-alone interpreter sets */
static inline void mr_lua_incremental(lua_State *L) { lua_gc(L, LUA_GCINC, 0, 0, 0); }
/* Works as if so much memory had been asked for; 0: one step. */
static inline void mr_lua_step(lua_State *L, size_t bytes) {
  size_t kib = bytes >> 10;
  lua_gc(L, LUA_GCSTEP, (int)(kib < INT_MAX ? kib : INT_MAX));
}

/* As if so many KiB more, or less, had been asked for. 0: a finaliser runs, and nothing was done. */
static inline int mr_lua_owe(lua_State *L, int kib) { return lua_gc(L, LUA_GCSTEP, kib) != -1; }

/* ---- functions and numbers ---- */

/* The code of the function on top, with names, in pieces that are not empty. 0, or what `write` has returned. */
static inline int mr_lua_dump(lua_State *L, lua_Writer write, void *ud) { return lua_dump(L, write, ud, 0); }

/* The float at idx as Lua writes it; how many bytes. */
enum { MR_LUA_FLOAT_SIZE = 64 };
static inline size_t mr_lua_float_text(lua_State *L, int idx, char text[MR_LUA_FLOAT_SIZE]) {
  return (size_t)lua_number2str(text, MR_LUA_FLOAT_SIZE, lua_tonumber(L, idx));
}

#endif
