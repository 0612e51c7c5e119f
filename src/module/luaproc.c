/*
 * luaproc: the module for programs written for luaproc and for its extended version (docs/luaproc.md). Its channels are in station.c.
 *
 * Its processes are mare's, members of one group: by that they find the global `luaproc`, which is made when they first use it (lazy.c), by
 * that a failure is printed as luaproc did, and by that `wait` knows when all have ended. They have no handles.
 */
#include "module/rules.h"
#include "module/station.h"
#include "state/state.h"
#include "process/group.h"

#include <string.h>

static mr_group group = {
  .library = { "luaproc", luaopen_luaproc },
  .failed = { "close lua_State (error: ", ")\n" },
};

/* ---- newproc ---- */

static char code_key;

/* Replaces the code at 1 by its function. The last code is remembered, as programs start many processes from one string. */
static void compile(lua_State *L) {
  size_t len;
  const char *code = lua_tolstring(L, 1, &len);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &code_key) == LUA_TTABLE) {
    lua_rawgeti(L, 2, 1);
    int same = lua_rawequal(L, 1, 3);
    if (same && lua_rawgeti(L, 2, 2) == LUA_TFUNCTION) {
      lua_replace(L, 1);
      lua_settop(L, 1);
      return;
    }
  }
  lua_settop(L, 1);
  if (luaL_loadbuffer(L, code, len, code) != LUA_OK) luaL_error(L, "%s", lua_tostring(L, -1));
  lua_createtable(L, 2, 0);
  lua_pushvalue(L, 1);
  lua_rawseti(L, 3, 1);
  lua_pushvalue(L, 2);
  lua_rawseti(L, 3, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &code_key);
  lua_replace(L, 1);
}

/* The function at 1 can't be sent, the reason is on the top: nil, and that, for coroutines in the original's words. */
static int unfit(lua_State *L) {
  for (int i = 1; lua_getupvalue(L, 1, i); i++) {
    if (lua_isthread(L, -1)) {
      lua_pushfstring(L, "failed to copy upvalue of unsupported type '%s'", luaL_typename(L, -1));
      lua_replace(L, -2);
      break;
    }
    lua_pop(L, 1);
  }
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

static int begun_k(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 1;
}

/* luaproc.newproc(code | function) -> true | nil, message. Code that doesn't compile is an error. */
static int l_newproc(lua_State *L) {
  mr_spawn s = { .kind = PROC_PLAIN, .group = &group };
  int type = lua_type(L, 1), err;
  mr_check_forked(L);
  if (type != LUA_TSTRING && type != LUA_TFUNCTION) {
    lua_pushnil(L);
    lua_pushfstring(L, "cannot use '%s' to create a new process", lua_typename(L, type));
    return 2;
  }
  lua_settop(L, 1);
  if (type == LUA_TSTRING) compile(L);
  if (lua_iscfunction(L, 1)) {
    lua_pushnil(L);
    lua_pushliteral(L, "error 1 dumping function to binary string");
    return 2;
  }
  mr_proc *p = mr_spawn_begin(L, &s, 1, NULL, &err);
  if (!p && !err) return unfit(L);
  if (!p) {
    lua_pushnil(L);
    lua_pushstring(L, mr_err_text(err));
    return 2;
  }
  mr_release(&p->shared);
  lua_pushboolean(L, 1);
  return mr_cede(L, mr_self_fiber(L), 0, begun_k);
}

/* ---- wait ---- */

/* `what`: the one who waits is a member. In `linked`: there was nobody to wait for. */
static int group_link(void *o, mr_wait *w) { return w->linked = (unsigned short)mr_group_wait(o, w, w->what); }
static void group_unlink(void *o, mr_wait *w) { mr_group_wait_end(o, w, w->what); }

static int group_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)o;
  return why == MR_WOKEN || w->linked ? 0 : -1;
}

static const mr_waitclass all_ended = { .run = { .op = "wait for all processes", .link = group_link, .unlink = group_unlink }, .take = group_take };

/* luaproc.wait(): until all of its processes have ended; in one of them, all others */
static int l_wait(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  mr_check_forked(L);
  lua_settop(L, 0);
  return mr_await_as(L, f, &all_ended, &group, mr_proc_of(f)->group == &group, UINT64_MAX);
}

/* ---- workers ---- */

/* luaproc.setnumworkers(n) */
static int l_setnumworkers(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 1);
  mr_check_forked(L);
  luaL_argcheck(L, n > 0, 1, "number of workers must be positive");
  luaL_argcheck(L, n <= 256, 1, "at most 256 workers");
  int err = mr_workers_set((int)n);
  return err ? mr_raise(L, err) : 0;
}

/* luaproc.getnumworkers() -> n */
static int l_getnumworkers(lua_State *L) {
  lua_pushinteger(L, mr_workers_get());
  return 1;
}

/* luaproc.recycle(n): how many finished states each worker keeps. They are rewound, so none remembers its last program. */
static int l_recycle(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n >= 0, 1, "recycle limit must be positive");
  atomic_store(&mr_recycle, n > MR_KEEP ? MR_KEEP : (int)n);
  return 0;
}

/* ---- the module ---- */

static const luaL_Reg functions[] = {
  { "newproc", l_newproc }, { "wait", l_wait }, { "send", mr_station_send }, { "receive", mr_station_receive },
  { "newchannel", mr_station_new }, { "delchannel", mr_station_delete }, { "setnumworkers", l_setnumworkers },
  { "getnumworkers", l_getnumworkers }, { "recycle", l_recycle }, { "barrier", mr_station_barrier },
  { "regudata", mr_rules_regudata }, { "transffuncs", mr_rules_transffuncs }, { NULL, NULL }
};

static int known(lua_State *L) {                /* the field at 2 of the module at 1 is made */
  lua_pushvalue(L, 2);
  lua_rawget(L, 1);
  return !lua_isnil(L, -1);
}

/* __index (luaproc, name) -> the function, which from now on is a field */
static int l_index(lua_State *L) {
  lua_settop(L, 2);
  for (const luaL_Reg *r = functions; lua_type(L, 2) == LUA_TSTRING && lua_istable(L, 1) && r->name; r++) {
    if (strcmp(r->name, lua_tostring(L, 2)) != 0) continue;
    lua_pushvalue(L, 2);
    mr_operation_function(L, r->func);
    lua_rawset(L, 1);
    known(L);
    return 1;
  }
  return 0;
}

/* __pairs (luaproc) -> next, luaproc, nil: everything is made, and the module is a plain table from now on */
static int l_pairs(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  for (const luaL_Reg *r = functions; r->name; r++) {
    lua_pushstring(L, r->name);
    if (!known(L)) {
      lua_pushvalue(L, 2);
      mr_operation_function(L, r->func);
      lua_rawset(L, 1);
    }
    lua_settop(L, 1);
  }
  lua_pushnil(L);
  lua_setmetatable(L, 1);
  lua_pushcfunction(L, mr_base_next);
  lua_pushvalue(L, 1);
  return 2;
}

/* In a process its functions are made as they are first used: most use two, and there may be hundreds of thousands of processes. */
static void push_module(lua_State *L) {
  static const luaL_Reg meta[] = { { "__index", l_index }, { "__pairs", l_pairs }, { NULL, NULL } };
  if (!mr_in_process(L)) {
    lua_createtable(L, 0, sizeof functions / sizeof *functions - 1);
    mr_set_functions(L, functions);
    return;
  }
  lua_createtable(L, 0, 2);
  luaL_newlib(L, meta);
  lua_setmetatable(L, -2);
}

/* The table at the top becomes table[name] of the one below it, unless the program has set something there. */
static void offer(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  if (lua_rawget(L, -3) == LUA_TNIL) {
    lua_pushstring(L, name);
    lua_pushvalue(L, -3);
    lua_rawset(L, -5);
  }
  lua_pop(L, 1);
}

/*
 * One table for a state, whatever name it was asked for by. Programs of luaproc's first years say `require "luaproc"` and use the global.
 */
int luaopen_luaproc(lua_State *L) {
  mr_host_ensure(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushliteral(L, "luaproc");
  if (lua_rawget(L, -2) != LUA_TTABLE) {
    lua_pop(L, 1);
    push_module(L);
    offer(L, "luaproc");
  }
  lua_pushglobaltable(L);
  lua_insert(L, -2);
  offer(L, "luaproc");
  if (mr_in_process(L)) mr_proc_here(L)->offered = 0;
  return 1;
}

/* mare.so alone is enough: `require "mare.luaproc"` finds this function there. */
int luaopen_mare_luaproc(lua_State *L) { return luaopen_luaproc(L); }

static int l_searcher(lua_State *L) {
  if (strcmp(luaL_checkstring(L, 1), "luaproc") != 0) return 0;
  lua_pushcfunction(L, luaopen_luaproc);
  lua_pushliteral(L, ":mare:");
  return 2;
}

/* The last of the host's searchers, so that files of that name come first: children would inherit what is in package.preload. */
void mr_luaproc_offer(lua_State *L) {
  int top = lua_gettop(L);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getfield(L, -1, LUA_LOADLIBNAME) == LUA_TTABLE && lua_getfield(L, -1, "searchers") == LUA_TTABLE) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    lua_rawgeti(L, -1, n);
    if (lua_tocfunction(L, -1) != l_searcher) {
      lua_pushcfunction(L, l_searcher);
      lua_rawseti(L, -3, n + 1);
    }
  }
  lua_settop(L, top);
}
