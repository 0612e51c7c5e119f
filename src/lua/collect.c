/*
 * collect: what the collector does, for traces: its steps, each with the bytes by which the state became smaller.
 *
 * Lua tells nobody when it collects. Its two functions that do are called through here where mare and Lua are linked into one program (--wrap); in a
 * module for other Luas nobody calls these, and there is nothing to call. A step costs microseconds, so the question whether a trace is on is not seen.
 * Of states that nobody's process has yet nothing is said.
 */
#include "lua/compat.h"
#include "observe/trace.h"

#pragma weak __real_luaC_step
#pragma weak __real_luaC_fullgc
void __real_luaC_step(lua_State *L);
void __real_luaC_fullgc(lua_State *L, int emergency);
void __wrap_luaC_step(lua_State *L);
void __wrap_luaC_fullgc(lua_State *L, int emergency);

/* While the state is closed it says -1. */
static int64_t bytes(lua_State *L) { return (int64_t)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + lua_gc(L, LUA_GCCOUNTB, 0); }

static void finish(lua_State *L, int64_t before) {
  int64_t after = bytes(L);
  mr_trace_finish(before > after && after > 0 ? before - after : 0);   /* finalisers may have made more than went */
}

void __wrap_luaC_step(lua_State *L) {
  if (!mr_trace_in_fiber()) {
    __real_luaC_step(L);
    return;
  }
  int64_t before = bytes(L);
  mr_trace_begin(TRACE_COLLECT);
  __real_luaC_step(L);
  finish(L, before);
}

void __wrap_luaC_fullgc(lua_State *L, int emergency) {
  if (!mr_trace_in_fiber()) {
    __real_luaC_fullgc(L, emergency);
    return;
  }
  int64_t before = bytes(L);
  mr_trace_begin(TRACE_COLLECT_ALL);
  __real_luaC_fullgc(L, emergency);
  finish(L, before);
}
