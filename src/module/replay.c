/*
 * replay: what Lua functions do otherwise in a run that can be repeated (run/replay.h).
 *
 * The end of each operation is a point, where others may go on. So in such a run each function of mare's is called through another one, which has it as
 * its upvalue; in any other run it is there itself, and costs nothing more. That is the function that mr_self finds no host in: an upvalue that is a
 * function is no userdata.
 */
#include "module/module.h"
#include "run/replay.h"

static int k_operation(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  return (int)n;
}

/* One that waits does not come back here: its wait was a point. */
static int l_operation(lua_State *L) {
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
