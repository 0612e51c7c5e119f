/*
 * replay: what Lua functions do otherwise in a run that can be repeated (run/replay.h).
 *
 * The end of each operation is a point, where others may go on. So in such a run each function of mare's is called through another one, which has it as
 * its upvalue; in any other run it is there itself, and costs nothing more. That is the function that mr_self finds no host in: an upvalue that is a
 * function is no userdata.
 */
#include "module/module.h"
#include "run/replay.h"

#include <stdio.h>

static int k_operation(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  return (int)n;
}

/* "name at file:line" */
static void say_place(lua_State *L, char *text) {
  lua_Debug ar;
  const char *name = lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name ? ar.name : "?";
  char called[32];
  snprintf(called, sizeof called, "%s", name);
  if (lua_getstack(L, 1, &ar) && lua_getinfo(L, "Sl", &ar) && ar.currentline > 0)
    snprintf(text, REPLAY_PLACE, "%s at %s:%d", called, ar.short_src, ar.currentline);
  else snprintf(text, REPLAY_PLACE, "%s", called);
}

void mr_place_again(lua_State *L) {
  char *place = mr_replay_place();
  if (place) say_place(L, place);
}

/* One that waits does not come back here: its wait was a point. */
static int l_operation(lua_State *L) {
  char *place = mr_replay_place();
  if (PORT_UNLIKELY(place != NULL)) say_place(L, place);
  int n = lua_tocfunction(L, lua_upvalueindex(1))(L);
  mr_fiber *f = mr_fiber_here(L);
  if (!mr_replay_point(f, mr_can_yield(f, L))) return n;
  f->sysyield = SYS_PREEMPTED;
  return lua_yieldk(L, 0, n, k_operation);
}

void mr_operation_function(lua_State *L, lua_CFunction f) {
  lua_pushcfunction(L, f);
  if (PORT_UNLIKELY(mr_replay_on)) lua_pushcclosure(L, l_operation, 1);
}

void mr_outside_check(lua_State *L, const char *what) {
  if (PORT_UNLIKELY(mr_replay_on))
    luaL_error(L, "--seed: %s: what is outside the program can't be repeated, so it is not to be had in such a run", what);
}
