/*
 * mare.process: spawning, handles, and the number of workers.
 *
 * A handle is a shared object: it can be sent, stored, compared. What a process starts with is packed at once, so later
 * changes to its arguments don't reach it, and what can't travel is an error of spawn.
 */
#include "module/control.h"
#include "module/look.h"
#include "process/control.h"
#include "process/limit.h"
#include "state/state.h"

#include <limits.h>
#include <string.h>

#define TNAME "process"

static mr_proc *process_check(lua_State *L, int idx) { return (mr_proc *)mr_shared_check(L, idx, mr_proc_type, TNAME); }

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

/* The value on top. */
static size_t bytes(lua_State *L) {
  lua_Number n = lua_tonumber(L, -1);
  if (lua_type(L, -1) != LUA_TNUMBER || !(n >= 1 && n < 1e18)) luaL_error(L, "spawn: 'memory' must be a number of bytes, or { bytes, tree = true }");
  return (size_t)n;
}

/* memory = bytes | { bytes, tree = true } */
static size_t memory_field(lua_State *L, int *tree) {
  int type = lua_getfield(L, 1, "memory");
  if (type != LUA_TTABLE) return type == LUA_TNIL ? 0 : bytes(L);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) == 1) continue;
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "tree") != 0)
      luaL_error(L, "spawn: unknown field '%s' in 'memory'; there are the bytes, and tree", luaL_tolstring(L, -2, NULL));
    if (!lua_isboolean(L, -1)) luaL_error(L, "spawn: 'tree' in 'memory' must be true or false");
    *tree = lua_toboolean(L, -1);
  }
  lua_rawgeti(L, -1, 1);
  size_t n = bytes(L);
  lua_pop(L, 1);
  return n;
}

const char *const mr_level_names[] = { [LEVEL_NORMAL] = "normal", [LEVEL_HIGH] = "high", [LEVEL_LOW] = "low" };

/* LEVEL_*; -1: the value at idx names none. */
static int level_named(lua_State *L, int idx) {
  if (lua_type(L, idx) != LUA_TSTRING) return -1;
  int i = NLEVELS - 1;
  while (i >= 0 && strcmp(lua_tostring(L, idx), mr_level_names[i]) != 0) i--;
  return i;
}

static void check_fields(lua_State *L) {
  static const char *const known[] = { "main", "args", "name", "memory", "heap", "priority", "linked", "owned", "restarts", NULL };
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    int ok = 0;
    for (int i = 0; known[i] && !ok; i++) ok = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0;
    if (!ok) luaL_error(L, "spawn: unknown field '%s'; there are main, args, name, memory, heap, priority, linked, owned", luaL_tolstring(L, -2, NULL));
  }
}

static void main_field(lua_State *L) {
  int type = lua_getfield(L, 1, "main");
  if (type == LUA_TNIL)
    luaL_error(L, "bad argument to 'spawn': a function, a string of code or {main = …} expected, but the table has no 'main'");
  if (type != LUA_TFUNCTION && type != LUA_TSTRING)
    luaL_error(L, "spawn: 'main' must be a function or a string of code, got %s", lua_typename(L, type));
}

/* Turns spawn{…} into the stack of spawn(main, args…). */
static void options(lua_State *L, mr_spawn *s) {
  check_fields(L);
  s->limit = memory_field(L, &s->tree);
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "heap") != LUA_TNIL) {
    const char *heap = lua_tostring(L, -1);
    if (!heap || (strcmp(heap, "system") != 0 && strcmp(heap, "own") != 0))
      luaL_error(L, "spawn: 'heap' must be \"own\" or \"system\"");
    s->system_heap = strcmp(heap, "system") == 0;
  }
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "priority") != LUA_TNIL && (s->level = level_named(L, -1)) < 0)
    luaL_error(L, "spawn: 'priority' must be \"high\", \"normal\" or \"low\"");
  lua_pop(L, 1);
  if (lua_getfield(L, 1, "name") != LUA_TNIL) {
    if (lua_type(L, -1) != LUA_TSTRING || strlen(lua_tostring(L, -1)) != lua_rawlen(L, -1))
      luaL_error(L, "spawn: 'name' must be a string without zero bytes");
    s->name = lua_tostring(L, -1);
  }
  s->ties = mr_ties_field(L, 1);
  s->restarts = (unsigned)mr_integer_field(L, 1, "spawn", "restarts", 0, INT_MAX, 0);   /* for supervisors */
  size_t least = mr_spawn_bytes(s);              /* so a budget of its own has enough for its beginning */
  if (s->tree && s->limit < least) luaL_error(L, "spawn: 'memory' must be at least %I bytes with tree = true", (LUAI_UACINT)least);
  main_field(L);
  mr_arguments_field(L, 1);
  lua_rotate(L, 1, -2);                          /* main, args…, options, name: these two stay alive on top */
}

/*
 * Takes the new process's beginning from its budget: its parent's, or one of its own inside that. 0, or an error; *over: which budget is too
 * small.
 */
static int budget_for(lua_State *L, mr_proc *parent, mr_spawn *s, mr_budget **over) {
  mr_budget *b = parent->budget;
  if (!b && !s->tree) return MR_OK;
  if (s->tree && (b = mr_budget_new(s->limit, b)) == NULL) return MR_ENOMEM;
  if (!s->tree) mr_budget_retain(b);
  if ((*over = mr_proc_take(L, parent, b, mr_spawn_bytes(s))) != NULL) {
    mr_budget_release(b);                        /* not what *over is: a new one has enough */
    return MR_ENOMEM;
  }
  if (!s->limit) s->limit = b->limit;            /* what one connection may keep for it, for example */
  s->budget = b;
  return MR_OK;
}

mr_proc *mr_spawn_begin(lua_State *L, mr_spawn *s, int n, mr_box *handle, int *err) {
  mr_fiber *f = mr_self_fiber(L);
  mr_packer *packer = mr_packer_for(L, f);
  mr_budget *over = NULL;
  char text[200];
  *err = MR_ECLOSING;
  if (mr_proc_of(f)->kind == PROC_HOST && mr_host_closed(mr_proc_of(f))) return NULL;
  s->package = mr_package_inherit(L, packer);
  int bad = mr_pack(packer, L, 1, n, "argument");
  s->start = bad ? NULL : mr_proc_seal(L, mr_proc_of(f), packer, &over);
  *err = s->start ? budget_for(L, mr_proc_of(f), s, &over) : MR_ENOMEM;
  if (handle && !*err && !mr_shared_show(handle)) *err = MR_ECLOSED;
  if (s->package) atomic_fetch_add_explicit(&s->package->refs, 1, memory_order_relaxed);
  mr_proc *p = *err ? NULL : mr_proc_spawn(s, f, err);
  if (p) return p;
  if (s->budget) mr_budget_give(s->budget, mr_spawn_bytes(s)), mr_budget_release(s->budget);
  if (s->package) mr_inherit_release(s->package);
  if (s->start) mr_message_back(L, s->start);
  if (over) lua_pushstring(L, mr_proc_over(over, text));
  if (bad || over) *err = MR_OK;                 /* it is on top */
  return NULL;
}

static int spawned_k(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 1;
}

static const mr_class class;

/* Before the process is started, as nothing may fail afterwards. */
static mr_box *handle_new(lua_State *L, mr_spawn *s) {
  mr_box *b = mr_shared_push_empty(L, &class);
  s->made = mr_proc_new(s->kind, s->name);
  if (!s->made) mr_raise(L, MR_ENOMEM);
  mr_shared_put(L, b, &s->made->shared);
  return b;
}

/* process.spawn(f | code, args…) -> handle;  process.spawn{ main=, args=, name=, memory=, heap=, priority= } -> handle */
static int l_spawn(lua_State *L) {
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
  mr_box *handle = handle_new(L, &s);
  int at = lua_gettop(L);
  if (!mr_spawn_begin(L, &s, n, handle, &err)) return err ? mr_raise(L, err) : lua_error(L);
  lua_settop(L, at);
  return mr_cede(L, mr_self_fiber(L), 0, spawned_k);
}

/* ---- handles ---- */

static void made_to_end_push(lua_State *L, mr_proc *p) {
  mr_cause c;
  mr_cause_of_process(p, &c);
  mr_hooks.error(L, &c);
}

/* Its results, or its error. */
static void outcome_push(lua_State *L, mr_proc *p, int failed) {
  switch (p->result.kind) {
    case MAIL_SCALARS:
      for (int i = 0; i < p->result.n; i++) mr_scalar_push(L, &p->result.u.s[i]);
      break;
    case MAIL_STRING: lua_pushlstring(L, p->result.u.str.p, p->result.u.str.len); break;
    case MAIL_MESSAGE: mr_unpack(L, p->result.u.m); break;
    case MAIL_ENDED: made_to_end_push(L, p); break;
    default: if (failed) lua_pushnil(L);
  }
}

void mr_process_error_push(lua_State *L, mr_proc *p) { outcome_push(L, p, 1); }

/* true, results… | false, error, traceback */
static int process_end_push(lua_State *L, mr_proc *p) {
  int failed = atomic_load(&p->status) == PROC_FAILED, top = lua_gettop(L);
  mr_proc_observe(p);
  lua_pushboolean(L, !failed);
  outcome_push(L, p, failed);
  if (failed) lua_pushstring(L, p->trace);
  return lua_gettop(L) - top;
}

static int process_end_link(void *o, mr_wait *w) { return mr_proc_wait(o, w); }
static void process_end_unlink(void *o, mr_wait *w) { mr_proc_wait_end(o, w); }

static int process_end_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_proc *p = o;
  (void)w;
  return why == MR_WOKEN || atomic_load(&p->status) >= PROC_DONE ? process_end_push(L, p) : -1;
}

static const mr_waitclass ending = { .run = { .op = "wait", .link = process_end_link, .unlink = process_end_unlink, .stays = 1, .shown = 1 }, .take = process_end_take };

/* handle:wait([seconds]) -> true, results… | false, error, traceback | nil, "timeout" */
static int l_handle_wait(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  mr_fiber *f = mr_self_fiber(L);
  if (p == mr_proc_of(f)) return luaL_error(L, "a process can't wait for its own end");
  return mr_await(L, f, &ending, p, mr_deadline(L, 2));
}

/* handle:status() -> "ready" | "running" | "waiting" | "done" | "failed" */
static int l_handle_status(lua_State *L) {
  lua_pushstring(L, mr_proc_status(process_check(L, 1)));
  return 1;
}

/* handle:priority([word]) -> the word before */
static int l_handle_priority(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  int level = lua_isnoneornil(L, 2) ? -1 : level_named(L, 2);
  luaL_argcheck(L, level >= 0 || lua_isnoneornil(L, 2), 2, "\"high\", \"normal\" or \"low\" expected");
  lua_pushstring(L, mr_level_names[mr_job_level(&p->job, level)]);
  return 1;
}

/* handle.id -> integer; handle.name -> string | nil; methods */
static int l_handle_index(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  return mr_handle_index(L, &class, p->job.id, p->name);
}

/* tostring(handle) -> "process #3 'name'" */
static int l_handle_tostring(lua_State *L) {
  mr_proc *p = process_check(L, 1);
  if (p->name) lua_pushfstring(L, "process #%I '%s'", (LUAI_UACINT)p->job.id, p->name);
  else lua_pushfstring(L, "process #%I", (LUAI_UACINT)p->job.id);
  return 1;
}

static const luaL_Reg meta[] = { { "__index", l_handle_index }, { "__tostring", l_handle_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "wait", l_handle_wait },       { "status", l_handle_status },   { "cancel", mr_process_cancel }, { "kill", mr_process_kill },
  { "link", mr_process_link },     { "unlink", mr_process_unlink }, { "give", mr_process_give },     { "owner", mr_process_owner },
  { "priority", l_handle_priority }, { "info", mr_process_info }, { "traceback", mr_process_traceback }, { NULL, NULL }
};

static void process_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = "process", .destroy = mr_proc_destroy, .push = process_push }, TNAME, meta, methods, NULL, &ending };

/* ---- the rest ---- */

/* process.self() -> handle */
static int l_self(lua_State *L) {
  process_push(L, &mr_self(L)->shared);
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
  if (PORT_UNLIKELY(mr_lua_due(mr_lua_of(mr_self_fiber(L))))) return mr_raise(L, MR_EENDED);
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

/*
 * process.memory() -> bytes this process uses, bytes its heap holds (the same for hosts and heap = "system"); with a budget: bytes that are taken
 * from that, and all it has
 */
static int l_memory(lua_State *L) {
  mr_proc *p = mr_self(L);
  lua_Integer asked = (lua_Integer)lua_gc(L, LUA_GCCOUNT, 0) * 1024 + lua_gc(L, LUA_GCCOUNTB, 0);
  lua_pushinteger(L, asked);
  lua_pushinteger(L, p->heap && !p->system_heap ? (lua_Integer)mr_heap_reserved(p->heap) : asked);
  if (!p->budget) return 2;
  mr_heap_settle(p->heap);
  lua_pushinteger(L, (lua_Integer)mr_budget_used(p->budget));
  lua_pushinteger(L, (lua_Integer)p->budget->limit);
  return 4;
}

static int scope_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  if (ctx) return lua_gettop(L);
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 1, scope_k);
  return lua_gettop(L);
}

/* process.scope(f, …) -> results of f: what the module mare.scope is, loaded when it is called */
static int l_scope(lua_State *L) {
  if (mr_in_process(L)) lua_pushcfunction(L, mr_require);
  else lua_getglobal(L, "require");
  lua_pushliteral(L, "mare.scope");
  lua_callk(L, 1, 1, 0, scope_k);
  return scope_k(L, LUA_OK, 0);
}

static const luaL_Reg functions[] = {
  { "scope", l_scope },
  { "spawn", l_spawn },     { "self", l_self },   { "yield", l_yield },   { "workers", l_workers },
  { "recycle", l_recycle }, { "count", l_count }, { "memory", l_memory },
  { "list", mr_process_list }, { "totals", mr_process_totals },
  { "masked", mr_process_masked }, { "deadline", mr_process_deadline }, { "remaining", mr_process_remaining },
  { "on_exit", mr_process_on_exit }, { "trap", mr_process_trap },
  { "register", mr_name_l_register }, { "unregister", mr_name_l_unregister }, { "whereis", mr_name_l_whereis }, { NULL, NULL }
};

int luaopen_mare_process(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 24);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}

void mr_process_setup(void) {
  mr_proc_type = &class.share;
  mr_control_hooks();
}
