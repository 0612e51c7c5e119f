/*
 * open: opens the state that all processes start with, and makes it a process's.
 *
 * The template holds the lazy metatables (lazy.c), registry._LOADED with _G, and registry["mare.require"]; nothing else but what
 * src/module furnishes it with: the metatable of channels, and where the state's objects are found (module/shared.c).
 */
#include <stdio.h>
#include "lua/probe.h"
#include "state/state.h"

atomic_int mr_noenv, mr_warnings;

static int panic(lua_State *L) {
  const char *msg = lua_tostring(L, -1);
  fprintf(stderr, "PANIC: unprotected error in call to Lua API (%s)\n", msg ? msg : "error object is not a string");
  fflush(stderr);
  return 0;
}

/* A program can reach the registry, but not the panic function. */
int mr_in_process(lua_State *L) {
  lua_CFunction now = lua_atpanic(L, panic);
  if (PORT_LIKELY(now == panic)) return 1;
  lua_atpanic(L, now);
  return 0;
}

int mr_is_own(lua_State *L, int idx, size_t size, lua_CFunction gc) {
  if (lua_type(L, idx) != LUA_TUSERDATA || lua_rawlen(L, idx) < size || !lua_getmetatable(L, idx)) return 0;
  lua_pushliteral(L, "__gc");
  lua_rawget(L, -2);
  int own = lua_tocfunction(L, -1) == gc;
  lua_pop(L, 2);
  return own;
}

static int l_install(lua_State *L) {
  luaL_checkversion(L);
  mr_lazy_install(L);
  lua_pushcfunction(L, mr_require);
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.require");
  if (mr_hooks.furnish) mr_hooks.furnish(L);
  mr_lua_generational(L);
  lua_gc(L, LUA_GCCOLLECT, 0);
  return 0;
}

lua_State *mr_state_open(lua_Alloc f, void *ud) {
  if (!mr_globals_init()) return NULL;
  mr_finaliser_find();
  lua_State *L = mr_lua_newstate(f, ud);
  if (!L) return NULL;
  *mr_lua_word(L) = 0;
  lua_atpanic(L, panic);
  lua_setwarnf(L, mr_warn_off, L);
  lua_pushcfunction(L, l_install);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

void mr_state_start(lua_State *L, mr_proc *p) {
  lua_pushglobaltable(L);
  p->lazy[0] = lua_topointer(L, -1);
  p->lazy[1] = NULL;
  p->offered = p->group != NULL;
  p->packages = 0;
  lua_pop(L, 1);
  if (PORT_UNLIKELY(atomic_load_explicit(&mr_warnings, memory_order_relaxed) && p->kind != PROC_MAIN)) lua_setwarnf(L, mr_warn_on, L);
  if (p->package) mr_package_take(L, p->package);
}

static int reset(lua_State *L) { return mr_lua_closethread(L, NULL); }

void mr_state_install(void) {
  mr_hooks.open = mr_state_open;
  mr_hooks.start = mr_state_start;
  mr_hooks.finalisers = mr_finaliser_has;
  mr_hooks.reset = reset;
  mr_coroutine_setup();
  mr_debug_setup();
}
