/*
 * mare: the module, in a process and in a host (plain lua5.4, or a C program's state).
 *
 * In a host the first require makes the host's record, kept in the registry by a userdata whose finaliser, run by lua_close, waits until
 * every process has ended, as luaproc does. os.exit is replaced there: it must not wait.
 */
#include "module/module.h"
#include "module/state.h"

#include <string.h>

/* mare.clock() -> seconds of a monotonic clock */
static int l_clock(lua_State *L) {
  lua_pushnumber(L, (lua_Number)port_now() * 1e-9);
  return 1;
}

static int sleep_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = mr_self_fiber(L);
  (void)status;
  (void)ctx;
  mr_raise_reason(L, f, mr_wake(f));
  return 0;
}

static int yielded(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

/* mare.sleep(seconds) */
static int l_sleep(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  luaL_checknumber(L, 1);
  uint64_t deadline = mr_deadline(L, 1);
  if (deadline == 0) {
    lua_settop(L, 0);
    return mr_yield(L, f, 0, yielded);
  }
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  f->op = "sleep";
  return mr_park(L, f, deadline, 0, sleep_k);
}

static const luaL_Reg functions[] = { { "clock", l_clock }, { "sleep", l_sleep }, { NULL, NULL } };

/* ---- hosts ---- */

static int l_host_gc(lua_State *L) {
  mr_proc **h = lua_touserdata(L, 1);
  if (*h) {
    mr_proc *host = *h;
    *h = NULL;
    mr_host_close(host);
  }
  return 0;
}

/* os.exit([code[, close]]): never waits for processes */
static int l_host_exit(lua_State *L) {
  int code = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, 0);
  mr_exit(code);
}

static void replace_exit(lua_State *L) {
  if (lua_getglobal(L, "os") == LUA_TTABLE) {
    lua_pushcfunction(L, l_host_exit);
    lua_setfield(L, -2, "exit");
  }
  lua_pop(L, 1);
}

static void open_host(lua_State *L) {
  int err;
  if (lua_getfield(L, LUA_REGISTRYINDEX, "mare.host.record") != LUA_TNIL) {
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 1);
  mr_proc **h = lua_newuserdatauv(L, sizeof *h, 0);
  *h = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_host_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_State *main;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  main = lua_tothread(L, -1);
  lua_pop(L, 1);
  mr_proc *p = mr_host_open(main ? main : L, &err);
  if (!p) mr_raise(L, err);
  *h = p;
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.host");
  lua_pushlightuserdata(L, p);
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.host.record");
  replace_exit(L);
}

void mr_host_ensure(lua_State *L) {
  if (mr_in_process(L)) return;
  mr_setup();
  open_host(L);
}

static void open_part(lua_State *L, const char *field, lua_CFunction open) {
  char name[32] = "mare.";
  strcat(name, field);
  luaL_requiref(L, name, open, 0);
  lua_setfield(L, -2, field);
}

MR_EXPORT int luaopen_mare(lua_State *L) {
  luaL_checkversion(L);
  mr_host_ensure(L);
  lua_createtable(L, 0, 6);
  mr_set_functions(L, functions);
  lua_pushliteral(L, MARE_VERSION);
  lua_setfield(L, -2, "version");
  open_part(L, "process", luaopen_mare_process);
  open_part(L, "channel", luaopen_mare_channel);
  return 1;
}
