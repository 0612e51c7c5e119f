/*
 * mare: the module, in a process and in a host (plain lua5.4, or a C program's state).
 *
 * In a host the first require makes the host's record, kept in the registry by a userdata whose finaliser, run by lua_close, waits until
 * every process has ended, as luaproc does. os.exit is replaced there: it must not wait. Finalisers that run after that one may still call
 * mare; so the record lives until the state's last block is freed, which is seen by standing in for its allocator from then on.
 */
#include "module/module.h"
#include "module/state.h"

#include <stdlib.h>
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

static const luaL_Reg functions[] = {
  { "clock", l_clock }, { "sleep", l_sleep }, { "wait_fd", mr_wait_fd }, { "descriptor", mr_host_descriptor }, { "step", mr_host_step }, { NULL, NULL }
};

/* ---- hosts ---- */

typedef struct host {
  mr_proc *proc;
  lua_State *L;                        /* main thread: lies in the state's last block */
  lua_Alloc alloc;
  void *ud;
} host;

/* lua_Alloc of a state whose host has closed. */
static void *closing_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  host *h = ud;
  int last = ptr && nsize == 0 && (char *)ptr <= (char *)h->L && (char *)h->L < (char *)ptr + osize;
  void *p = h->alloc(h->ud, ptr, osize, nsize);
  if (last) {
    mr_host_free(h->proc);
    free(h);
  }
  return p;
}

static int l_host_gc(lua_State *L) {
  host **box = lua_touserdata(L, 1), *h = *box;
  if (!h) return 0;
  *box = NULL;
  mr_host_close(h->proc);
  h->alloc = lua_getallocf(L, &h->ud);
  lua_setallocf(L, closing_alloc, h);
  return 0;
}

/* os.exit([code[, close]]): never waits for processes */
static int l_host_exit(lua_State *L) {
  int code = lua_isboolean(L, 1) ? !lua_toboolean(L, 1) : (int)luaL_optinteger(L, 1, 0);
  if (lua_toboolean(L, 2)) {
    mr_host_leave(mr_self(L));
    mr_exit_within_limit(code);
    lua_close(L);
  }
  mr_exit(code);
}

static void replace_exit(lua_State *L) {
  if (lua_getglobal(L, "os") == LUA_TTABLE) {
    lua_getfield(L, LUA_REGISTRYINDEX, "mare.host.record");
    lua_pushcclosure(L, l_host_exit, 1);
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
  host **box = lua_newuserdatauv(L, sizeof *box, 0);
  *box = NULL;
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_host_gc);
  lua_setfield(L, -2, "__gc");
  lua_setmetatable(L, -2);
  lua_State *main;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  main = lua_tothread(L, -1);
  lua_pop(L, 1);
  host *h = malloc(sizeof *h);
  if (!h) mr_raise(L, MR_ENOMEM);
  h->L = main;
  h->proc = mr_host_open(main, &err);
  if (!h->proc) {
    free(h);
    mr_raise(L, err);
  }
  *box = h;
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.host");
  lua_pushlightuserdata(L, h->proc);
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

/* mare.NOUN is require "mare.NOUN"; made when first asked for, as most processes use few. */
static int l_part(lua_State *L) {
  static const struct { const char *name; lua_CFunction open; } parts[] = {
    { "select", luaopen_mare_select }, { "selector", luaopen_mare_selector }, { "fiber", luaopen_mare_fiber }, { "timer", luaopen_mare_timer },
    { "file", luaopen_mare_file }, { "subprocess", luaopen_mare_subprocess }, { "signal", luaopen_mare_signal }
  };
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  lua_settop(L, 2);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    if (strcmp(key, parts[i].name) != 0) continue;
    lua_pushvalue(L, 1);
    open_part(L, key, parts[i].open);
    lua_getfield(L, -1, key);
    return 1;
  }
  return 0;
}

MR_EXPORT int luaopen_mare(lua_State *L) {
  luaL_checkversion(L);
  mr_host_ensure(L);
  lua_createtable(L, 0, 6);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_part);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  mr_set_functions(L, functions);
  lua_pushliteral(L, MARE_VERSION);
  lua_setfield(L, -2, "version");
  open_part(L, "process", luaopen_mare_process);
  open_part(L, "channel", luaopen_mare_channel);
  mr_embed_open(L);
  return 1;
}
