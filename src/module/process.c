/*
 * mare.process: spawning, handles, and the number of workers.
 *
 * A handle is a shared object: it can be sent, stored, compared. What a process starts with is packed at once, so later
 * changes to its arguments don't reach it, and what can't travel is an error of spawn.
 */
#include "module/module.h"
#include "module/state.h"

#include <string.h>

#define TNAME "process"

static mr_proc *check(lua_State *L, int idx) { return (mr_proc *)mr_shared_check(L, idx, mr_proc_type, TNAME); }

/* ---- spawn ---- */

/* Leaves a function for the code or function at idx, in its place. */
static void to_main(lua_State *L, int idx) {
  if (lua_type(L, idx) == LUA_TSTRING) {
    size_t len;
    const char *code = lua_tolstring(L, idx, &len);
    if (luaL_loadbufferx(L, code, len, code, "t") != LUA_OK) lua_error(L);
    lua_replace(L, idx);
  } else if (lua_type(L, idx) != LUA_TFUNCTION) {
    luaL_error(L, "bad argument to 'spawn': a function, a string of code or {main = …} expected, got %s", luaL_typename(L, idx));
  }
}

static size_t memory_field(lua_State *L) {
  if (lua_getfield(L, 1, "memory") == LUA_TNIL) return 0;
  lua_Number n = lua_tonumber(L, -1);
  if (!lua_isnumber(L, -1) || !(n >= 1 && n < 1e18)) luaL_error(L, "spawn: 'memory' must be a number of bytes");
  return (size_t)n;
}

static void check_fields(lua_State *L) {
  static const char *const known[] = { "main", "args", "name", "memory", "heap", NULL };
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    int ok = 0;
    for (int i = 0; known[i] && !ok; i++) ok = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0;
    if (!ok) luaL_error(L, "spawn: unknown field '%s'; there are main, args, name, memory, heap", luaL_tolstring(L, -2, NULL));
  }
}

/* Turns spawn{…} into the stack of spawn(main, args…). */
static void options(lua_State *L, mr_spawn *s) {
  check_fields(L);
  s->limit = memory_field(L);
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "heap") != LUA_TNIL) {
    const char *heap = lua_tostring(L, -1);
    if (!heap || (strcmp(heap, "system") != 0 && strcmp(heap, "own") != 0))
      luaL_error(L, "spawn: 'heap' must be \"own\" or \"system\"");
    s->system_heap = strcmp(heap, "system") == 0;
  }
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "name") != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1))
      luaL_error(L, "spawn: 'name' must be a string without zero bytes");
    s->name = lua_tostring(L, -1);
  }
  if (lua_getfield(L, 1, "main") == LUA_TNIL)
    luaL_error(L, "bad argument to 'spawn': a function, a string of code or {main = …} expected, but the table has no 'main'");
  int type = lua_getfield(L, 1, "args");
  int n = 0;
  if (type == LUA_TTABLE) {
    lua_getfield(L, -1, "n");
    n = lua_isinteger(L, -1) ? (int)lua_tointeger(L, -1) : (int)lua_rawlen(L, -2);
    lua_pop(L, 1);
    if (n < 0 || n > 250) luaL_error(L, "spawn: 'args' holds too many values");
    luaL_checkstack(L, n + 8, NULL);
    for (int i = 1; i <= n; i++) lua_rawgeti(L, 4, i);
  } else if (type != LUA_TNIL) {
    luaL_error(L, "spawn: 'args' must be a table of arguments");
  }
  lua_remove(L, 4);                              /* args */
  lua_rotate(L, 1, -2);                          /* main, args…, options, name: these two stay alive on top */
}

/* process.spawn(f | code, args…) -> handle;  process.spawn{ main=, args=, name=, memory=, heap= } -> handle */
static int l_spawn(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  mr_packer *packer = mr_packer_for(L, f);
  mr_spawn s = { .kind = PROC_PLAIN };
  int n = lua_gettop(L), err;
  mr_check_forked(L);
  if (lua_type(L, 1) == LUA_TTABLE) {
    lua_settop(L, 1);
    options(L, &s);
    n = lua_gettop(L) - 2;
  }
  luaL_argcheck(L, n >= 1, 1, "a function or a string of code expected");
  to_main(L, 1);
  if (f->proc->kind == PROC_HOST && mr_host_closed(f->proc)) return mr_raise(L, MR_ECLOSING);
  s.package = mr_package_inherit(L, packer);
  int bad = mr_pack(packer, L, 1, n, "argument");
  s.start = bad ? NULL : mr_packer_seal(packer);
  if (s.package) atomic_fetch_add_explicit(&s.package->refs, 1, memory_order_relaxed);
  mr_proc *p = s.start ? mr_proc_spawn(&s, f, &err) : NULL;
  if (!p) {
    if (s.package) mr_inherit_release(s.package);
    if (s.start) mr_message_back(s.start);
    return bad ? lua_error(L) : mr_raise(L, s.start ? err : MR_ENOMEM);
  }
  mr_shared_push_new(L, &p->shared);
  return 1;
}

/* ---- handles ---- */

/* true, results… | false, error, traceback */
static int push_end(lua_State *L, mr_proc *p) {
  int failed = atomic_load(&p->status) == PROC_FAILED, top = lua_gettop(L);
  mr_proc_observe(p);
  lua_pushboolean(L, !failed);
  switch (p->result.kind) {
    case MAIL_SCALARS:
      for (int i = 0; i < p->result.n; i++) mr_scalar_push(L, &p->result.u.s[i]);
      break;
    case MAIL_STRING: lua_pushlstring(L, p->result.u.str.p, p->result.u.str.len); break;
    case MAIL_MESSAGE: mr_unpack(L, p->result.u.m); break;
    default: if (failed) lua_pushnil(L);
  }
  if (failed) lua_pushstring(L, p->trace);
  return lua_gettop(L) - top;
}

static int wait_k(lua_State *L, int status, lua_KContext deadline);

static int wait(lua_State *L, mr_proc *p, uint64_t deadline) {
  mr_fiber *f = mr_self_fiber(L);
  if (atomic_load(&p->status) >= PROC_DONE) return push_end(L, p);
  if (p == f->proc) return luaL_error(L, "a process can't wait for its own end");
  if (deadline == 0) {
    lua_pushnil(L);
    lua_pushliteral(L, "timeout");
    return 2;
  }
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  if (mr_proc_wait(p, &f->wait)) {
    mr_wait_abandon(f);
    return push_end(L, p);
  }
  f->op = "wait";
  f->on = &p->shared;
  return mr_park(L, f, deadline, (lua_KContext)deadline, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext deadline) {
  mr_fiber *f = mr_self_fiber(L);
  mr_proc *p = check(L, 1);
  mr_reason r = mr_wake(f);
  (void)status;
  if (r == MR_WOKEN) return push_end(L, p);
  mr_proc_wait_end(p, &f->wait);
  if (r == MR_AGAIN) return wait(L, p, (uint64_t)deadline);
  mr_raise_reason(L, f, r);
  lua_pushnil(L);
  lua_pushliteral(L, "timeout");
  return 2;
}

/* handle:wait([seconds]) -> true, results… | false, error, traceback | nil, "timeout" */
static int l_handle_wait(lua_State *L) {
  mr_proc *p = check(L, 1);
  return wait(L, p, mr_deadline(L, 2));
}

/* handle:status() -> "ready" | "running" | "waiting" | "done" | "failed" */
static int l_handle_status(lua_State *L) {
  lua_pushstring(L, mr_proc_status(check(L, 1)));
  return 1;
}

static const mr_class class;

/* handle.id -> integer; handle.name -> string | nil; methods */
static int l_handle_index(lua_State *L) {
  mr_proc *p = check(L, 1);
  return mr_handle_index(L, &class, p->id, p->name);
}

/* tostring(handle) -> "process #3 'name'" */
static int l_handle_tostring(lua_State *L) {
  mr_proc *p = check(L, 1);
  if (p->name) lua_pushfstring(L, "process #%I '%s'", (LUAI_UACINT)p->id, p->name);
  else lua_pushfstring(L, "process #%I", (LUAI_UACINT)p->id);
  return 1;
}

static const luaL_Reg meta[] = { { "__index", l_handle_index }, { "__tostring", l_handle_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_handle_wait }, { "status", l_handle_status }, { NULL, NULL } };

static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
/* ---- for select ---- */

static int link_end(mr_case *c) { return mr_proc_wait(c->object, &c->wait); }
static void unlink_end(mr_case *c) { mr_proc_wait_end(c->object, &c->wait); }

static int take_end(lua_State *L, mr_case *c, mr_reason why) {
  mr_proc *p = c->object;
  (void)why;
  return atomic_load(&p->status) >= PROC_DONE ? push_end(L, p) : -1;
}

static const mr_waitclass ending = { "wait", link_end, unlink_end, take_end, NULL, 1 };

static const mr_class class = { { .name = "process", .destroy = mr_proc_destroy, .push = push }, TNAME, meta, methods, NULL, &ending };

/* ---- the rest ---- */

/* process.self() -> handle */
static int l_self(lua_State *L) {
  push(L, &mr_self(L)->shared);
  return 1;
}

static int yield_k(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

/* process.yield() */
static int l_yield(lua_State *L) {
  lua_settop(L, 0);
  return mr_yield(L, mr_self_fiber(L), 0, yield_k);
}

/* process.workers([n]) -> number of workers (before the change) */
static int l_workers(lua_State *L) {
  int before = mr_workers_get();
  mr_check_forked(L);
  if (!lua_isnoneornil(L, 1)) {
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 1 && n <= 256, 1, "between 1 and 256 workers");
    int err = mr_workers_set((int)n);
    if (err) return mr_raise(L, err);
  }
  lua_pushinteger(L, before);
  return 1;
}

/* process.recycle([n]) -> finished states each worker keeps for reuse (before the change) */
static int l_recycle(lua_State *L) {
  int before = atomic_load(&mr_recycle);
  if (!lua_isnoneornil(L, 1)) {
    lua_Integer n = luaL_checkinteger(L, 1);
    luaL_argcheck(L, n >= 0, 1, "0 or more states");
    atomic_store(&mr_recycle, n > MR_KEEP ? MR_KEEP : (int)n);
  }
  lua_pushinteger(L, before);
  return 1;
}

/* process.count() -> processes that have not ended */
static int l_count(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_proc_count());
  return 1;
}

/* process.memory() -> bytes this process uses, bytes its heap holds (the same for hosts and heap = "system") */
static int l_memory(lua_State *L) {
  mr_proc *p = mr_self(L);
  lua_Integer asked = (lua_Integer)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + lua_gc(L, LUA_GCCOUNTB, 0);
  lua_pushinteger(L, asked);
  lua_pushinteger(L, p->heap && !p->system_heap ? (lua_Integer)mr_heap_reserved(p->heap) : asked);
  return 2;
}

static const luaL_Reg functions[] = {
  { "spawn", l_spawn },     { "self", l_self },   { "yield", l_yield },   { "workers", l_workers },
  { "recycle", l_recycle }, { "count", l_count }, { "memory", l_memory }, { NULL, NULL }
};

MR_EXPORT int luaopen_mare_process(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 8);
  mr_set_functions(L, functions);
  return 1;
}

void mr_process_setup(void) { mr_proc_type = &class.share; }
