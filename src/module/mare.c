/*
 * mare: the module, in a process and in a host (plain lua5.4, or a C program's state).
 *
 * In a host the first require makes the host's record, kept in the registry by a userdata whose finaliser, run by lua_close, waits until
 * every process has ended, as luaproc does. os.exit is replaced there: it must not wait. Finalisers that run after that one may still call
 * mare; so the record lives until the state's last block is freed, which is seen by standing in for its allocator from then on.
 */
#include "module/module.h"
#include "module/net.h"
#include "run/replay.h"
#include "state/state.h"

#include <stdlib.h>
#include <string.h>

/* mare.clock() -> seconds of a monotonic clock */
static int l_clock(lua_State *L) {
  if (PORT_UNLIKELY(mr_replay_on)) mr_replay_look();
  lua_pushnumber(L, (lua_Number)port_now() * 1e-9);
  return 1;
}

/* Nothing but the time ends it. */
static int sleep_link(void *o, mr_wait *w) {
  (void)o;
  mr_wait_fence(w->fiber);
  return 0;
}

static void sleep_unlink(void *o, mr_wait *w) {
  (void)o;
  (void)w;
}

static int sleep_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)o;
  (void)w;
  (void)why;
  return -1;
}

static int sleep_over(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)o;
  (void)w;
  (void)why;
  return 0;
}

static const mr_waitclass sleeping = { .run = { .op = "sleep", .link = sleep_link, .unlink = sleep_unlink }, .take = sleep_take, .give_up = sleep_over };

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
  return mr_await(L, f, &sleeping, NULL, deadline);
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
  host **box = mr_is_own(L, 1, sizeof *box, l_host_gc) ? lua_touserdata(L, 1) : NULL, *h = box ? *box : NULL;
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
    mr_host_push(L);
    lua_pushcclosure(L, l_host_exit, 1);
    lua_setfield(L, -2, "exit");
  }
  lua_pop(L, 1);
}

static void open_host(lua_State *L) {
  int err;
  if (mr_host_of(L)) return;
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
  mr_trace_ask();
  h->L = main;
  h->proc = mr_host_open(main, &err);
  if (!h->proc) {
    free(h);
    mr_raise(L, err);
  }
  *box = h;
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.host");
  replace_exit(L);
}

/* A Lua that lacks a function (weak.h), or is newer. luaL_error means the same to all of them. */
void mr_lua_check(lua_State *L) {
  if (!mr_lua_fits(L)) luaL_error(L, "mare needs " LUA_VERSION);
}

void mr_host_ensure(lua_State *L) {
  mr_lua_check(L);
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

static int no_part(lua_State *L) {
  if (mr_may_miss(L, 2)) return 0;
  lua_newtable(L);
  mr_list_keys(L, 1);
  mr_modules_list(L);                                  /* perhaps for the second time: names count once */
  return mr_no_field(L, "mare", 2);
}

/* 1 mare, 2 the field, 3 the module */
static int k_part(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  lua_pushvalue(L, 2);
  lua_pushvalue(L, 3);
  lua_rawset(L, 1);
  return 1;
}

/* mare.NOUN is require "mare.NOUN"; made when first asked for, as most processes use few. */
static int l_part(lua_State *L) {
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  lua_CFunction open;
  lua_settop(L, 2);
  if (!mr_modules_field(key, &open) || lua_type(L, 1) != LUA_TTABLE) return no_part(L);
  if (open) {
    lua_pushvalue(L, 1);
    open_part(L, key, open);
    lua_getfield(L, -1, key);
    return 1;
  }
  if (mr_in_process(L)) lua_pushcfunction(L, mr_require);
  else lua_getglobal(L, "require");
  lua_pushfstring(L, "mare.%s", key);
  lua_callk(L, 1, 1, 0, k_part);
  return k_part(L, LUA_OK, 0);
}

int luaopen_mare(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 6);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_part);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  mr_set_functions(L, functions);
  lua_pushliteral(L, MARE_RELEASE);
  lua_setfield(L, -2, "version");
  open_part(L, "process", luaopen_mare_process);
  open_part(L, "channel", luaopen_mare_channel);
  mr_embed_open(L);
  if (!mr_in_process(L)) mr_luaproc_offer(L);
  return 1;
}
