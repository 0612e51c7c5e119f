/*
 * mare.fiber: several threads of control in one process.
 *
 * Fibers share the process's data and never run at the same time; a fiber runs until it waits or yields. The record of a fiber is a
 * strand (process/crew.h), whose coroutine the registry's table of strands holds; its handle is a userdata like a channel's, but
 * can't leave its process.
 */
#include "module/module.h"
#include "module/state.h"
#include "process/crew.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TNAME "fiber"

/* Keys of the registry. Not strings: an ended fiber looks there outside protected mode, and must not need memory. */
static const char strands_key, storage_key;

static const mr_class class;

static mr_strand *check(lua_State *L, int idx) { return mr_strand_of(mr_shared_check(L, idx, &class.share, TNAME)); }

/* ---- spawn ---- */

static void push_kept(lua_State *L, const char *key) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

static void check_fields(lua_State *L) {
  static const char *const known[] = { "main", "args", "name", "daemon", NULL };
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    int ok = 0;
    for (int i = 0; known[i] && !ok; i++) ok = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0;
    if (!ok) luaL_error(L, "spawn: unknown field '%s'; there are main, args, name, daemon", luaL_tolstring(L, -2, NULL));
  }
}

/* spawn{…} at 1 becomes main, args…; the name stays on the stack above them: returns its index, or 0. */
static int options(lua_State *L, int *daemon) {
  lua_settop(L, 1);
  check_fields(L);
  int given = lua_getfield(L, 1, "daemon");
  if (given != LUA_TNIL && given != LUA_TBOOLEAN) luaL_error(L, "spawn: 'daemon' must be a boolean");
  *daemon = lua_toboolean(L, -1);
  lua_pop(L, 1);
  int named = lua_getfield(L, 1, "name");
  if (named != LUA_TNIL && (named != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1)))
    luaL_error(L, "spawn: 'name' must be a string without zero bytes");
  lua_getfield(L, 1, "main");
  int type = lua_getfield(L, 1, "args"), n = 0;
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
  lua_remove(L, 4);
  lua_rotate(L, 1, -2);                          /* main, args…, options, name */
  return lua_gettop(L);
}

/*
 * Makes a fiber of the function and n - 1 arguments on top, which it takes, and leaves its handle. The table of strands keeps the
 * coroutine, by itself as key: set before anything else refers to it, as any step may run out of memory.
 */
mr_strand *mr_fiber_spawn(lua_State *L, int n, const char *name) {
  mr_fiber *f = mr_self_fiber(L);
  mr_check_forked(L);
  if (f->crew && f->crew->ending) mr_raise(L, MR_EENDED);
  if (lua_gc(L, LUA_GCCOUNT, 0) == -1)           /* it may run on the thread of a sender, or while the state closes */
    luaL_error(L, "cannot spawn a fiber in a finaliser (__gc); spawn it before, and send to it there with try_send");
  luaL_checkstack(L, 8, NULL);
  push_kept(L, &strands_key);
  lua_State *co = lua_newthread(L);
  if (!lua_checkstack(co, n + 8)) mr_raise(L, MR_ENOMEM);
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, -4);
  lua_insert(L, -n - 2);                         /* co, table, function, arguments… -> co below */
  lua_insert(L, -n - 1);
  lua_xmove(L, co, n);
  mr_crew *c = mr_crew_of(f->proc);
  mr_strand *s = c ? mr_strand_new(c, co, name, &class.share) : NULL;
  if (!s) mr_raise(L, MR_ENOMEM);                /* the table's entry goes with the process: only after running out of memory */
  mr_shared_push_new(L, &s->shared);
  mr_strand_start(s);
  lua_replace(L, -3);
  lua_pop(L, 1);
  return s;
}

/* fiber.spawn(f, args…) -> handle;  fiber.spawn{ main=, args=, name=, daemon= } -> handle */
static int l_spawn(lua_State *L) {
  int daemon = 0, named = lua_type(L, 1) == LUA_TTABLE ? options(L, &daemon) : 0;
  if (lua_type(L, 1) != LUA_TFUNCTION)
    return luaL_error(L, "bad argument to 'spawn': a function or {main = …} expected, got %s", luaL_typename(L, 1));
  const char *name = NULL;
  if (named) {                                   /* main, args…, options, name */
    name = lua_tostring(L, named);
    lua_rotate(L, 1, 2);
  }
  mr_strand *s = mr_fiber_spawn(L, lua_gettop(L) - (named ? 2 : 0), name);
  if (daemon) mr_strand_daemon(s);
  return 1;
}

/* ---- handles ---- */

/* true, results… | false, error, traceback; the values stay where they are for the next who asks */
static int push_end(lua_State *L, mr_strand *s) {
  lua_State *co = s->fiber.L;
  int n = s->nres;
  s->observed = 1;
  if (lua_gettop(co) < n) return luaL_error(L, "the results are gone: somebody closed the fiber's coroutine");
  luaL_checkstack(L, n + 4, "too many results");
  lua_pushboolean(L, !s->failed);
  if (!lua_checkstack(co, n)) return mr_raise(L, MR_ENOMEM);
  int base = lua_gettop(co) - n;
  for (int i = 1; i <= n; i++) lua_pushvalue(co, base + i);
  lua_xmove(co, L, n);
  if (s->failed && s->fiber.cancelled && lua_isnil(L, -1)) {         /* closed without having been told */
    lua_pushstring(L, mr_err_text(MR_ECANCELLED));
    lua_replace(L, -2);
  }
  if (s->failed) lua_pushstring(L, s->trace);
  return 1 + n + s->failed;
}

static int wait_k(lua_State *L, int status, lua_KContext deadline);

static int wait(lua_State *L, mr_strand *s, uint64_t deadline) {
  mr_fiber *f = mr_self_fiber(L);
  if (s->done) return push_end(L, s);
  if (f == &s->fiber) return luaL_error(L, "a fiber can't wait for its own end");
  if (deadline == 0) {
    lua_pushnil(L);
    lua_pushliteral(L, "timeout");
    return 2;
  }
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  mr_event_wait(&s->ended, &f->wait);            /* it can't end now: we run */
  f->op = "wait for a fiber";
  return mr_park(L, f, deadline, (lua_KContext)deadline, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext deadline) {
  mr_fiber *f = mr_self_fiber(L);
  mr_strand *s = check(L, 1);
  mr_reason r = mr_wake(f);
  (void)status;
  if (r == MR_WOKEN) return push_end(L, s);
  mr_event_unwait(&s->ended, &f->wait);
  if (r == MR_AGAIN) return wait(L, s, (uint64_t)deadline);
  mr_raise_reason(L, f, r);
  lua_pushnil(L);
  lua_pushliteral(L, "timeout");
  return 2;
}

/* handle:wait([seconds]) -> true, results… | false, error, traceback | nil, "timeout" */
static int l_handle_wait(lua_State *L) {
  mr_strand *s = check(L, 1);
  return wait(L, s, mr_deadline(L, 2));
}

/* handle:cancel() -> boolean (it had not ended) */
static int l_handle_cancel(lua_State *L) {
  mr_strand *s = check(L, 1);
  mr_fiber *self = mr_self_fiber(L);
  if (self == &s->fiber) return luaL_error(L, "a fiber can't cancel itself; let it raise an error");
  if (lua_gc(L, LUA_GCCOUNT, 0) == -1) return luaL_error(L, "cannot cancel a fiber in a finaliser (__gc)");
  if (!s->done && !s->fiber.cancelled) mr_fiber_cancel(&s->fiber, self);
  lua_pushboolean(L, !s->done);
  return 1;
}

/* handle:wake() -> boolean: did it rest? */
static int l_handle_wake(lua_State *L) {
  mr_strand *s = check(L, 1);
  lua_pushboolean(L, mr_fiber_wake(&s->fiber, mr_self_fiber(L)));
  return 1;
}

/* handle:status() -> "ready" | "running" | "waiting" | "done" | "failed" */
static int l_handle_status(lua_State *L) {
  mr_strand *s = check(L, 1);
  int state = (int)atomic_load(&s->fiber.state);
  lua_pushstring(L, s->done ? (s->failed ? "failed" : "done") : &s->fiber == mr_self_fiber(L) ? "running"
                                                              : state == FIBER_READY ? "ready" : "waiting");
  return 1;
}

/* handle.id -> integer; handle.name -> string | nil; methods */
static int l_handle_index(lua_State *L) {
  mr_strand *s = check(L, 1);
  return mr_handle_index(L, &class, s->id, s->name);
}

/* tostring(handle) -> "fiber #3 'name'" */
static int l_handle_tostring(lua_State *L) {
  mr_strand *s = check(L, 1);
  if (s->name) lua_pushfstring(L, "fiber #%I '%s'", (LUAI_UACINT)s->id, s->name);
  else lua_pushfstring(L, "fiber #%I", (LUAI_UACINT)s->id);
  return 1;
}

/* ---- the last reference is gone: its handle was collected, and it has ended ---- */

/* error value -> its text, as a process's failure is told */
static int l_text(lua_State *L) {
  if (lua_type(L, 1) == LUA_TTABLE && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL) return 0;
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Leaves its text above the error value, or what can be said of one that has none. Where its __tostring would have to wait it fails. */
static const char *text_of(mr_strand *s, char *other, size_t size) {
  lua_State *co = s->fiber.L;
  if (lua_type(co, -1) == LUA_TSTRING) return lua_tostring(co, -1);
  snprintf(other, size, "(error object is a %s value)", luaL_typename(co, -1));
  if (!lua_checkstack(co, LUA_MINSTACK)) return other;
  s->fiber.cancelled = s->fiber.told = 1;        /* it has ended: nothing waits in its name */
  s->fiber.top_ok = 0;
  uintptr_t *space = lua_getextraspace(co), marked = *space;
  if (s->fiber.proc->kind != PROC_HOST) *space = marked & ~(uintptr_t)3;     /* while it runs, see mr_crew_resume */
  lua_pushcfunction(co, l_text);
  lua_pushvalue(co, -2);
  int ok = lua_pcall(co, 1, 1, 0) == LUA_OK && lua_type(co, -1) == LUA_TSTRING;
  *space = marked;
  return ok ? lua_tostring(co, -1) : other;
}

/* A failure nobody learnt of, on one line of its own with what it says. */
static void print_failure(mr_strand *s) {
  mr_proc *p = s->fiber.proc;
  char of[96], other[64];
  const char *text = text_of(s, other, sizeof other);
  if (p->kind == PROC_HOST || p->kind == PROC_MAIN) snprintf(of, sizeof of, "the main process");
  else if (p->name) snprintf(of, sizeof of, "process '%.60s' (#%llu)", p->name, (unsigned long long)p->id);
  else snprintf(of, sizeof of, "process #%llu", (unsigned long long)p->id);
  const char *a = s->name ? " '" : "", *b = s->name ? "'" : "", *trace = s->trace ? s->trace : "";
  fprintf(stderr, "mare: fiber #%llu%s%s%s of %s failed: %s\n%s%s", (unsigned long long)s->id, a, s->name ? s->name : "", b, of, text, trace,
          *trace ? "\n" : "");
}

static void destroy(mr_shared *o) {
  mr_strand *s = mr_strand_of(o);
  lua_State *co = s->fiber.L;
  if (s->failed && !s->observed) print_failure(s);
  lua_settop(co, 0);
  lua_checkstack(co, 4);
  if (lua_rawgetp(co, LUA_REGISTRYINDEX, &strands_key) == LUA_TTABLE) {
    lua_pushthread(co);
    lua_pushnil(co);
    lua_rawset(co, -3);
  }
  if (lua_rawgetp(co, LUA_REGISTRYINDEX, &storage_key) == LUA_TTABLE) {
    lua_pushnil(co);
    lua_rawsetp(co, -2, s);
  }
  lua_settop(co, 0);
  mr_strand_free(s);
}

/* ---- for select ---- */

static int link_end(mr_case *c) { return mr_event_wait(&mr_strand_of(c->object)->ended, &c->wait); }
static void unlink_end(mr_case *c) { mr_event_unwait(&mr_strand_of(c->object)->ended, &c->wait); }

static int take_end(lua_State *L, mr_case *c, mr_reason why) {
  mr_strand *s = mr_strand_of(c->object);
  (void)why;
  return s->done ? push_end(L, s) : -1;
}

static const mr_waitclass ending = { "wait", link_end, unlink_end, take_end, NULL, 1 };

static const luaL_Reg meta[] = { { "__index", l_handle_index }, { "__tostring", l_handle_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_handle_wait }, { "status", l_handle_status }, { "cancel", l_handle_cancel }, { "wake", l_handle_wake }, { NULL, NULL } };

static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = destroy, .push = push,
                                  .stays = "fiber cannot be sent; it shares its process's data. Send a channel on which it answers" },
                                TNAME, meta, methods, NULL, &ending };

/* ---- the rest ---- */

/* fiber.self() -> handle | nil (in the process's first fiber) */
static int l_self(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  if (f == &f->proc->main) lua_pushnil(L);
  else push(L, &((mr_strand *)f)->shared);
  return 1;
}

static int yield_k(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

/* fiber.yield(): the others that are ready run before this one goes on */
static int l_yield(lua_State *L) {
  lua_settop(L, 0);
  mr_fiber *f = mr_self_fiber(L);
  if (PORT_UNLIKELY(f->relief != NULL)) mr_fiber_relieve(f);
  if (PORT_UNLIKELY(f->cancelled)) return mr_raise(L, MR_EENDED);
  return mr_yield(L, f, 0, yield_k);
}

static int rest_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = mr_self_fiber(L);
  mr_reason r = mr_wake(f);
  (void)status;
  (void)ctx;
  f->resting = 0;
  mr_raise_reason(L, f, r);
  return 0;
}

/* fiber.rest(): until handle:wake(), or the fiber it relieves waits */
static int l_rest(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  lua_settop(L, 0);
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  f->resting = 1;
  f->op = "rest";
  return mr_park(L, f, UINT64_MAX, 0, rest_k);
}

/* fiber.relief(handle) -> boolean (it rests);  fiber.relief() -> boolean (it still does) */
static int l_relief(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  if (lua_isnoneornil(L, 1)) {
    lua_pushboolean(L, mr_fiber_unrelief(f));
    return 1;
  }
  mr_strand *s = check(L, 1);
  int rests = s->fiber.resting && &s->fiber != f;
  if (rests) {
    mr_fiber_unrelief(f);
    mr_retain(&s->shared);
    f->relief = &s->fiber;
  }
  lua_pushboolean(L, rests);
  return 1;
}

/* fiber.storage() -> the table that belongs to this fiber alone */
static int l_storage(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  lua_settop(L, 0);
  push_kept(L, &storage_key);
  if (lua_rawgetp(L, 1, f) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, 1, f);
  }
  return 1;
}

/* fiber.count() -> fibers of this process that have not ended, the first included */
static int l_count(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  lua_pushinteger(L, f->crew ? (lua_Integer)f->crew->alive : 1);
  return 1;
}

static const luaL_Reg functions[] = {
  { "spawn", l_spawn }, { "self", l_self }, { "rest", l_rest }, { "relief", l_relief }, { "yield", l_yield }, { "storage", l_storage }, { "count", l_count }, { NULL, NULL }
};

/*
 * A host's coroutine library is not ours (module/coroutine.c): what would resume or close a fiber's own coroutine behind our back is
 * replaced by functions that refuse.
 */
static int of_fiber(lua_State *L) {
  if (!lua_isthread(L, 1)) return 0;
  push_kept(L, &strands_key);
  lua_pushvalue(L, 1);
  int yes = lua_rawget(L, -2) != LUA_TNIL;
  lua_pop(L, 2);
  return yes;
}

static int call_original(lua_State *L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  return lua_gettop(L);
}

static int l_host_resume(lua_State *L) {
  if (!of_fiber(L)) return call_original(L);
  lua_pushboolean(L, 0);
  lua_pushliteral(L, "cannot resume non-suspended coroutine");
  return 2;
}

static int l_host_close(lua_State *L) {
  if (!of_fiber(L)) return call_original(L);
  return luaL_error(L, "cannot close a fiber's coroutine");
}

static void guard(lua_State *L, const char *name, lua_CFunction f) {
  if (lua_getfield(L, -1, name) == LUA_TFUNCTION) {
    lua_pushcclosure(L, f, 1);
    lua_setfield(L, -2, name);
  } else {
    lua_pop(L, 1);
  }
}

static void guard_coroutines(lua_State *L) {
  if (lua_getglobal(L, "coroutine") == LUA_TTABLE) {
    guard(L, "resume", l_host_resume);
    guard(L, "close", l_host_close);
  }
  lua_pop(L, 1);
}

MR_EXPORT int luaopen_mare_fiber(lua_State *L) {
  mr_host_ensure(L);
  if (!mr_in_process(L) && lua_rawgetp(L, LUA_REGISTRYINDEX, &strands_key) == LUA_TNIL) {
    push_kept(L, &strands_key);
    guard_coroutines(L);
  }
  lua_settop(L, 0);
  lua_createtable(L, 0, 5);
  mr_set_functions(L, functions);
  return 1;
}
