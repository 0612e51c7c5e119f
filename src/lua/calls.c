/* calls: see calls.h. The self-check: a function calls another one on two lines, and what is read raw must be what lua_getstack gives. */
#include "lua/calls.h"

atomic_int mr_calls;

static const void *first;            /* where the caller goes on after the first of its calls */
static int fine;                     /* how many calls were as expected */

static int l_look(lua_State *L) {
  lua_Debug own, caller, main, at;
  const void *call = NULL, *saved = NULL;
  if (!lua_getstack(L, 0, &own) || !lua_getstack(L, 1, &caller) || !lua_getstack(L, 2, &main) || lua_getstack(L, 3, &at)) return 0;
  raw_call *c = (raw_call *)(void *)own.i_ci, *below = (raw_call *)(void *)caller.i_ci, *last = (raw_call *)(void *)main.i_ci;
  if ((const void *)((const raw_state *)L)->call != c || c->previous != below || below->previous != last || !last->previous || last->previous->previous) return 0;
  if (!(c->status & RAW_CALL_C) || (below->status & RAW_CALL_C) || (last->status & RAW_CALL_C)) return 0;
  mr_calls = 1;
  int in_c = mr_call_in_c(L, &call, &saved), moves = mr_call_moves(L, &own) || mr_call_moves(L, &main);
  mr_calls = 0;
  if (!in_c || moves || call != (const void *)caller.i_ci) return 0;
  lua_getinfo(L, "l", &caller);
  if (!first) {
    first = saved;
    fine += caller.currentline == 3;
    return 0;
  }
  fine += caller.currentline == 5 && mr_call_line(L, &caller, first) == 3 && mr_call_line(L, &caller, saved) == 5;
  return 0;
}

static int l_run(lua_State *L) {
  lua_pushcfunction(L, l_look);
  lua_setglobal(L, "look");
  lua_State *co = lua_newthread(L);            /* on its own, so that the chain is known from its beginning */
  int n;
  if (luaL_loadstring(co, "local look = look local function f()\n\nlook()\n\nlook() return 1 end\nlocal x = f() return x") != LUA_OK) return 0;
  if (mr_lua_resume(co, L, 0, &n) != LUA_OK) fine = 0;
  return 0;
}

void mr_calls_check(void) {
  static int done;
  if (done) return;
  done = 1;
  mr_layout_check();
  lua_State *L = mr_layout ? luaL_newstate() : NULL;
  if (!L) return;
  first = NULL;
  fine = 0;
  lua_pushcfunction(L, l_run);
  mr_calls = lua_pcall(L, 0, 0, 0) == LUA_OK && fine == 2;
  lua_close(L);
}
