/*
 * mare.fiber: several threads of control in one process.
 *
 * Fibers share the process's data and never run at the same time; a fiber runs until it waits or yields. The record of a fiber is a
 * strand (process/strand.h), whose coroutine the registry's table of strands holds; its handle is a userdata like a channel's, but
 * can't leave its process.
 */
#include "base/show.h"
#include "module/log.h"
#include "module/module.h"
#include "process/control.h"
#include "process/failures.h"
#include "process/limit.h"
#include "state/state.h"
#include "process/strand.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TNAME "fiber"

/* Keys of the registry. Not strings: an ended fiber looks there outside protected mode, and must not need memory. */
static const char strands_key, storage_key, reasons_key;

static const mr_class class;

static mr_strand *fiber_check(lua_State *L, int idx) { return mr_strand_of(mr_shared_check(L, idx, &class.share, TNAME)); }

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
  *daemon = mr_boolean_field(L, 1, "spawn", "daemon", 0);
  int named = lua_getfield(L, 1, "name");
  if (named != LUA_TNIL && (named != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1)))
    luaL_error(L, "spawn: 'name' must be a string without zero bytes");
  int type = lua_getfield(L, 1, "main");
  if (type != LUA_TNIL && type != LUA_TFUNCTION) luaL_error(L, "spawn: 'main' must be a function, got %s", lua_typename(L, type));
  mr_arguments_field(L, 1);
  lua_rotate(L, 1, -2);                          /* main, args…, options, name */
  return lua_gettop(L);
}

/*
 * Makes a fiber of the function and n - 1 arguments on top, which it takes, and leaves its handle. The table of strands keeps the
 * coroutine, by itself as key: set before anything else refers to it, as any step may run out of memory.
 */
static void inherit_log_fields(lua_State *L, const mr_fiber *from, const mr_fiber *to);

mr_strand *mr_fiber_spawn(lua_State *L, int n, const char *name) {
  mr_fiber *f = mr_self_fiber(L);
  mr_check_forked(L);
  if (f->crew && f->crew->ending) mr_raise(L, MR_EENDED);
  if (mr_proc_of(f)->exits == 2) luaL_error(L, "cannot spawn a fiber in a function given to on_exit: the process has no turn for it any more");
  if (mr_lua_in_finaliser(L))           /* it may run on the thread of a sender, or while the state closes */
    luaL_error(L, "cannot spawn a fiber in a finaliser (__gc); spawn it before, and send to it there with try_send");
  luaL_checkstack(L, 8, NULL);
  push_kept(L, &strands_key);
  lua_State *co = lua_newthread(L);
  if (PORT_UNLIKELY(mr_proc_of(f)->traced)) mr_hook_inherit(L, co);
  if (!lua_checkstack(co, n + 8)) mr_raise(L, MR_ENOMEM);
  lua_pushvalue(L, -1);
  lua_pushboolean(L, 1);
  lua_rawset(L, -4);
  lua_insert(L, -n - 2);                         /* co, table, function, arguments… -> co below */
  lua_insert(L, -n - 1);
  lua_xmove(L, co, n);
  mr_crew *c = mr_crew_of(f->job);
  mr_strand *s = c ? mr_strand_new(c, co, name, &class.share) : NULL;
  if (!s) mr_raise(L, MR_ENOMEM);                /* the table's entry goes with the process: only after running out of memory */
  mr_shared_push_new(L, &s->shared);
  mr_strand_start(s);
  if (PORT_UNLIKELY(mr_proc_of(f)->log_fields)) inherit_log_fields(L, f, &s->lua.fiber);
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
  if (daemon) mr_crew_daemon(&s->lua.fiber);
  return 1;
}

/* ---- handles ---- */

/* true, results… | false, error, traceback; the values stay where they are for the next who asks */
static int fiber_end_push(lua_State *L, mr_strand *s) {
  lua_State *co = s->lua.L;
  int n = s->nres;
  s->observed = 1;
  if (lua_gettop(co) < n) return luaL_error(L, "the results are gone: somebody closed the fiber's coroutine");
  luaL_checkstack(L, n + 4, "too many results");
  lua_pushboolean(L, !s->failed);
  if (!lua_checkstack(co, n)) return mr_raise(L, MR_ENOMEM);
  int base = lua_gettop(co) - n;
  for (int i = 1; i <= n; i++) lua_pushvalue(co, base + i);
  lua_xmove(co, L, n);
  if (s->lua.fiber.told == TOLD_CLOSED) {              /* and has no error of its own */
    mr_cause c;
    mr_cause_of_fiber(&s->lua.fiber, &c);
    c.raised = 0;
    mr_hooks.error(L, &c);
    lua_replace(L, -2);
  }
  if (s->failed) lua_pushstring(L, s->trace);
  return 1 + n + s->failed;
}

static int fiber_end_link(void *o, mr_wait *w) { return mr_event_wait(&mr_strand_of(o)->ended, w); }
static void fiber_end_unlink(void *o, mr_wait *w) { mr_event_unwait(&mr_strand_of(o)->ended, w); }

static int fiber_end_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_strand *s = mr_strand_of(o);
  (void)w;
  (void)why;
  return s->done ? fiber_end_push(L, s) : -1;
}

static const mr_waitclass ending = { .run = { .op = "wait for a fiber", .link = fiber_end_link, .unlink = fiber_end_unlink, .stays = 1 }, .take = fiber_end_take };

/* handle:wait([seconds]) -> true, results… | false, error, traceback | nil, "timeout" */
static int l_handle_wait(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
  mr_fiber *f = mr_self_fiber(L);
  if (f == &s->lua.fiber) return luaL_error(L, "a fiber can't wait for its own end");
  return mr_await(L, f, &ending, &s->shared, mr_deadline(L, 2));
}

void mr_fiber_reason_push(lua_State *L, mr_fiber *f) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &reasons_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_pushnil(L);
    return;
  }
  lua_rawgetp(L, -1, f);
  lua_remove(L, -2);
}

/* handle:cancel([reason]) -> boolean (it had not ended) */
static int l_handle_cancel(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
  lua_settop(L, 2);
  mr_fiber *self = mr_self_fiber(L);
  if (self == &s->lua.fiber) return luaL_error(L, "a fiber can't cancel itself; let it raise an error");
  if (mr_lua_in_finaliser(L)) return luaL_error(L, "cannot cancel a fiber in a finaliser (__gc)");
  if (!s->done && !s->lua.fiber.cancelled) {
    if (!lua_isnil(L, 2)) {
      push_kept(L, &reasons_key);
      lua_pushvalue(L, 2);
      lua_rawsetp(L, -2, s);
    }
    mr_fiber_cancel(&s->lua.fiber, self);
  }
  lua_pushboolean(L, !s->done);
  return 1;
}

/* handle:wake() -> boolean: did it rest? */
static int l_handle_wake(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
  lua_pushboolean(L, mr_fiber_wake(&s->lua.fiber, mr_self_fiber(L)));
  return 1;
}

/* handle:status() -> "ready" | "running" | "waiting" | "done" | "failed" */
static int l_handle_status(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
  int state = (int)atomic_load(&s->lua.fiber.state);
  lua_pushstring(L, s->done ? (s->failed ? "failed" : "done") : &s->lua.fiber == mr_self_fiber(L) ? "running"
                                                              : state == FIBER_READY ? "ready" : "waiting");
  return 1;
}

/* handle.id -> integer; handle.name -> string | nil; methods */
static int l_handle_index(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
  return mr_handle_index(L, &class, s->id, s->name);
}

/* tostring(handle) -> "fiber #3 'name'" */
static int l_handle_tostring(lua_State *L) {
  mr_strand *s = fiber_check(L, 1);
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
  lua_State *co = s->lua.L;
  if (lua_type(co, -1) == LUA_TSTRING) return lua_tostring(co, -1);
  snprintf(other, size, "(error object is a %s value)", luaL_typename(co, -1));
  if (!lua_checkstack(co, LUA_MINSTACK)) return other;
  s->lua.fiber.cancelled = s->lua.fiber.told = 1;        /* it has ended: nothing waits in its name */
  s->lua.top_ok = 0;
  uintptr_t *space = mr_lua_word(co), marked = *space;
  if (mr_proc_of(&s->lua.fiber)->kind != PROC_HOST) *space = marked & ~(uintptr_t)3;     /* while it runs, see mr_strand_resume */
  lua_pushcfunction(co, l_text);
  lua_pushvalue(co, -2);
  int ok = lua_pcall(co, 1, 1, 0) == LUA_OK && lua_type(co, -1) == LUA_TSTRING;
  *space = marked;
  return ok ? lua_tostring(co, -1) : other;
}

/* A failure nobody learnt of, on one line of its own with what it says. */
static void print_failure(mr_strand *s) {
  mr_proc *p = mr_proc_of(&s->lua.fiber);
  char of[96], other[64], name[128] = "", shown[64];
  if (s->name) mr_show(name, sizeof name, s->name);
  const char *text = text_of(s, other, sizeof other);
  if (p->kind == PROC_HOST || p->kind == PROC_MAIN) snprintf(of, sizeof of, "the main process");
  else if (p->name) snprintf(of, sizeof of, "process '%s' (#%llu)", mr_show(shown, sizeof shown, p->name), (unsigned long long)p->job.id);
  else snprintf(of, sizeof of, "process #%llu", (unsigned long long)p->job.id);
  const char *a = s->name ? " '" : "", *b = s->name ? "'" : "", *trace = s->trace ? s->trace : "";
  size_t len = 160 + strlen(name) + strlen(of) + strlen(text) + strlen(trace);
  char *line = malloc(len);
  if (line) snprintf(line, len, "mare: fiber #%llu%s%s%s of %s failed: %s\n%s%s", (unsigned long long)s->id, a, name, b, of, text, trace,
                     *trace ? "\n" : "");
  mr_failure_note(line ? line : text);
  mr_proc_says(p, line ? line : text);
  free(line);
}

static void destroy(mr_shared *o) {
  mr_strand *s = mr_strand_of(o);
  lua_State *co = s->lua.L;
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
  if (lua_rawgetp(co, LUA_REGISTRYINDEX, &reasons_key) == LUA_TTABLE) {
    lua_pushnil(co);
    lua_rawsetp(co, -2, s);
  }
  lua_settop(co, 0);
  mr_strand_free(s);
}

static const luaL_Reg meta[] = { { "__index", l_handle_index }, { "__tostring", l_handle_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_handle_wait }, { "status", l_handle_status }, { "cancel", l_handle_cancel }, { "wake", l_handle_wake }, { NULL, NULL } };

static void fiber_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = destroy, .push = fiber_push,
                                  .stays = "fiber cannot be sent; it shares its process's data. Send a channel on which it answers" },
                                TNAME, meta, methods, NULL, &ending };

/* ---- the rest ---- */

/* fiber.self() -> handle | nil (in the process's first fiber) */
static int l_self(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  if (f == f->job->first) lua_pushnil(L);
  else fiber_push(L, &mr_strand_at(f)->shared);
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
  if (PORT_UNLIKELY(mr_lua_due(mr_lua_of(f)))) return mr_raise(L, MR_EENDED);
  return mr_yield(L, f, 0, yield_k);
}

/* Who wakes it claims its node (mr_fiber_wake); there is no queue. */
static int rest_link(void *o, mr_wait *w) {
  (void)o;
  w->fiber->resting = FIBER_RESTS;
  mr_wait_fence(w->fiber);
  return 0;
}

static void rest_unlink(void *o, mr_wait *w) {
  (void)o;
  if (w->fiber->resting == FIBER_RESTS) w->fiber->resting = 0;
}

static int rest_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)o;
  int rested = w->fiber->resting == FIBER_RESTED;
  w->fiber->resting = 0;
  return why == MR_WOKEN || rested ? 0 : -1;
}

static const mr_waitclass rest = { .run = { .op = "rest", .link = rest_link, .unlink = rest_unlink, .each = 1 }, .take = rest_take };

/* fiber.rest(): until handle:wake(), or the fiber it relieves waits */
static int l_rest(lua_State *L) {
  lua_settop(L, 0);
  return mr_await(L, mr_self_fiber(L), &rest, NULL, UINT64_MAX);
}

int mr_fiber_relief(lua_State *L, mr_fiber *f, int idx) {
  mr_strand *s = fiber_check(L, idx);
  int rests = s->lua.fiber.resting == FIBER_RESTS && &s->lua.fiber != f;
  if (rests) {
    mr_fiber_unrelief(f);
    mr_retain(&s->shared);
    mr_lua_of(f)->relief = &s->lua.fiber;
    mr_lua_of(f)->odd |= ODD_RELIEF;
  }
  return rests;
}

/* fiber.relief(handle) -> boolean (it rests);  fiber.relief() -> boolean (it still does) */
static int l_relief(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  lua_pushboolean(L, lua_isnoneornil(L, 1) ? mr_fiber_unrelief(f) : mr_fiber_relief(L, f, 1));
  return 1;
}

/* The fields for the log (module/log.c) are in the storage of a fiber; one that is made has those of its maker. */
int mr_fiber_log_fields(lua_State *L, const mr_fiber *f) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &storage_key) == LUA_TTABLE) {
    if (lua_rawgetp(L, -1, f) == LUA_TTABLE) {
      lua_pushliteral(L, MR_LOG_FIELDS);
      lua_rawget(L, -2);
      lua_replace(L, -3);
      lua_pop(L, 1);
      return lua_type(L, -1);
    }
    lua_pop(L, 1);
    lua_pushnil(L);
    lua_replace(L, -2);
  }
  return lua_type(L, -1);
}

static void inherit_log_fields(lua_State *L, const mr_fiber *from, const mr_fiber *to) {
  if (mr_fiber_log_fields(L, from) != LUA_TNIL) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &storage_key);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, MR_LOG_FIELDS);
    lua_pushvalue(L, -4);
    lua_rawset(L, -3);
    lua_rawsetp(L, -2, to);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
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

int luaopen_mare_fiber(lua_State *L) {
  mr_host_ensure(L);
  if (!mr_in_process(L) && lua_rawgetp(L, LUA_REGISTRYINDEX, &strands_key) == LUA_TNIL) {
    push_kept(L, &strands_key);
    guard_coroutines(L);
  }
  lua_settop(L, 0);
  lua_createtable(L, 0, 5);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
