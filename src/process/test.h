/*
 * test: a minimal Lua for the tests of this folder, in place of src/state and src/module: they are linked with src/port, base, lua, heap,
 * transfer, run and process alone.
 *
 * States have Lua's own base, string, table and coroutine libraries and the functions below; so a coroutine that waits can't yield, and its
 * thread hands its worker over. Processes and fibers are light userdata: what `spawn` gives holds a reference, which `result` or `drop` gives back.
 */
#ifndef MR_PROCESS_TEST_H
#define MR_PROCESS_TEST_H

#include "port/test.h"
#include "lua/probe.h"
#include "process/control.h"
#include "process/await.h"
#include "process/group.h"
#include "process/rt.h"
#include "process/strand.h"

/* Random delays make everything slow: fewer rounds will do. */
#ifdef MR_CHAOS
enum { SLOW = 10 };
#else
enum { SLOW = 1 };
#endif

static mr_group test_group = { .failed = { "group: ", ".\n" } };
static mr_event test_event[8];       /* set and waited for by number */
static atomic_int test_finalised, test_closed;   /* `gc` objects collected; `closer` variables closed */
static mr_budget *test_budget;       /* of the last process that got one of its own; referenced */

/* ---- processes ---- */

/* A table of options at the top: { name =, memory =, tree =, system =, group = } */
static inline void test_options(lua_State *L, mr_spawn *s) {
  if (lua_getfield(L, -1, "name") == LUA_TSTRING) s->name = lua_tostring(L, -1);
  lua_getfield(L, -2, "memory");
  s->limit = (size_t)lua_tointeger(L, -1);
  lua_getfield(L, -3, "tree");
  s->tree = lua_toboolean(L, -1);
  lua_getfield(L, -4, "system");
  s->system_heap = lua_toboolean(L, -1);
  lua_getfield(L, -5, "group");
  if (lua_toboolean(L, -1)) s->group = &test_group;
  lua_pop(L, 5);
}

static inline mr_budget *test_budget_for(lua_State *L, mr_proc *parent, mr_spawn *s) {
  mr_budget *b = parent->budget, *over;
  if (s->tree) {
    if (test_budget) mr_budget_release(test_budget);
    b = test_budget = mr_budget_new(s->limit, b);
  }
  if (!b) return NULL;
  mr_budget_retain(b);
  if ((over = mr_proc_take(L, parent, b, mr_spawn_bytes(s))) == NULL) {
    if (!s->limit) s->limit = b->limit;
    s->budget = b;
    return NULL;
  }
  mr_budget_release(b);
  return over;
}

static inline int test_spawned(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 1;
}

/* spawn(options, code | function, args…) -> process */
static inline int l_spawn(lua_State *L) {
  mr_spawn s = { .kind = PROC_PLAIN };
  mr_fiber *f = mr_self_fiber(L);
  mr_packer *k = mr_kit_of(f->thread)->packer;
  mr_budget *over = NULL;
  char text[200];
  int err;
  lua_rotate(L, 1, -1);                          /* function, args…, options */
  test_options(L, &s);
  if (lua_type(L, 1) == LUA_TSTRING) {
    if (luaL_loadbuffer(L, lua_tostring(L, 1), lua_rawlen(L, 1), "=body") != LUA_OK) return lua_error(L);
    lua_replace(L, 1);
  }
  if (mr_pack(k, L, 1, lua_gettop(L) - 1, "argument") != 0) return lua_error(L);
  s.start = mr_proc_seal(L, mr_proc_of(f), k, &over);
  if (!s.start) return luaL_error(L, "%s", mr_proc_over(over, text));
  over = test_budget_for(L, mr_proc_of(f), &s);
  mr_proc *p = over ? NULL : mr_proc_spawn(&s, f, &err);
  if (!p) {
    mr_message_back(L, s.start);
    return over ? luaL_error(L, "%s", mr_proc_over(over, text)) : mr_raise(L, err);
  }
  lua_pushlightuserdata(L, p);
  return mr_cede(L, f, 0, test_spawned);
}

static inline int test_result_push(lua_State *L, mr_proc *p) {
  int failed = atomic_load(&p->status) == PROC_FAILED, top = lua_gettop(L);
  mr_proc_observe(p);
  lua_pushboolean(L, !failed);
  if (p->result.kind == MAIL_SCALARS) {
    for (int i = 0; i < p->result.n; i++) mr_scalar_push(L, &p->result.u.s[i]);
  } else if (p->result.kind == MAIL_STRING) {
    lua_pushlstring(L, p->result.u.str.p, p->result.u.str.len);
  } else if (p->result.kind == MAIL_MESSAGE) {
    mr_unpack(L, p->result.u.m);
  } else if (failed) {
    lua_pushnil(L);
  }
  if (failed) lua_pushstring(L, p->trace);
  if (failed) lua_pushstring(L, p->text);
  return lua_gettop(L) - top;
}

/* what: 1: gives the reference back */
static inline int test_end_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_proc *p = o;
  int drop = w->what;
  if (why != MR_WOKEN && atomic_load(&p->status) < PROC_DONE) return -1;
  int n = test_result_push(L, p);
  if (drop) mr_release(&p->shared);
  return n;
}
static inline int test_end_link(void *o, mr_wait *w) { return mr_proc_wait(o, w); }
static inline void test_end_unlink(void *o, mr_wait *w) { mr_proc_wait_end(o, w); }
static const mr_waitclass test_end = { .run = { .op = "wait", .link = test_end_link, .unlink = test_end_unlink, .shown = 1 }, .take = test_end_take };

static inline uint64_t test_deadline(lua_State *L, int idx) {
  return lua_isnoneornil(L, idx) ? UINT64_MAX : port_now() + (uint64_t)(luaL_checknumber(L, idx) * 1e9);
}

/* wait(process[, seconds]) -> true, results… | false, error, traceback, its text | nil, "timeout" */
static inline int l_wait(lua_State *L) {
  return mr_await_as(L, mr_self_fiber(L), &test_end, lua_touserdata(L, 1), 0, test_deadline(L, 2));
}

/* result(process): the same, and the process is not the caller's any more */
static inline int l_result(lua_State *L) { return mr_await_as(L, mr_self_fiber(L), &test_end, lua_touserdata(L, 1), 1, UINT64_MAX); }

static inline int l_drop(lua_State *L) {
  mr_release(lua_touserdata(L, 1));
  return 0;
}

static inline int l_status(lua_State *L) {
  lua_pushstring(L, mr_proc_status(lua_touserdata(L, 1)));
  return 1;
}

/* self() -> process, with a reference of its own */
static inline int l_self(lua_State *L) {
  mr_retain(&mr_self(L)->shared);
  lua_pushlightuserdata(L, mr_self(L));
  return 1;
}

static inline int test_nothing(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

static inline int l_yield(lua_State *L) { return mr_yield(L, mr_self_fiber(L), 0, test_nothing); }

/* how(): how a wait here would be done, or why it can't be */
static inline int l_how(lua_State *L) {
  static const char *const modes[] = { "yield", "hand over", "host" };
  mr_fiber *f = mr_self_fiber(L);
  int err = mr_wait_open(f, L), mode = f->mode;
  if (!err) mr_wait_abandon(f);
  lua_pushstring(L, err ? mr_err_text(err) : modes[mode]);
  return 1;
}

static inline int l_exit(lua_State *L) { mr_exit((int)lua_tointeger(L, 1)); }

/* ---- events ---- */

static inline int test_event_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)w;
  if (why != MR_WOKEN && !mr_event_is_set(o)) return -1;
  lua_pushboolean(L, 1);
  return 1;
}
static inline int test_event_link(void *o, mr_wait *w) { return mr_event_wait(o, w); }
static inline void test_event_unlink(void *o, mr_wait *w) { mr_event_unwait(o, w); }
static const mr_waitclass test_set = { .run = { .op = "await", .link = test_event_link, .unlink = test_event_unlink }, .take = test_event_take };

/* await(i[, seconds]) -> true | nil, "timeout" */
static inline int l_await(lua_State *L) { return mr_await(L, mr_self_fiber(L), &test_set, &test_event[lua_tointeger(L, 1)], test_deadline(L, 2)); }

static inline int l_set(lua_State *L) {
  mr_event_set(&test_event[lua_tointeger(L, 1)], mr_self_fiber(L));
  return 0;
}

/* ---- the group ---- */

static inline int test_group_link(void *o, mr_wait *w) { return w->linked = (unsigned short)mr_group_wait(o, w, w->what); }
static inline void test_group_unlink(void *o, mr_wait *w) { mr_group_wait_end(o, w, w->what); }
static inline int test_group_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)o;
  if (why != MR_WOKEN && !w->linked) return -1;
  lua_pushboolean(L, 1);
  return 1;
}
static const mr_waitclass test_all = { .run = { .op = "wait for the group", .link = test_group_link, .unlink = test_group_unlink }, .take = test_group_take };

/* all([seconds]) -> true | nil, "timeout" */
static inline int l_all(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  return mr_await_as(L, f, &test_all, &test_group, mr_proc_of(f)->group == &test_group, test_deadline(L, 1));
}

/* ---- fibers ---- */

static inline void test_strand_destroy(mr_shared *o) {
  mr_strand *s = mr_strand_of(o);
  lua_State *co = s->lua.L;
  lua_settop(co, 0);
  lua_pushnil(co);
  lua_rawsetp(co, LUA_REGISTRYINDEX, s);         /* it stays: `co` is Lua's to collect */
  mr_strand_free(s);
}
static const mr_sharetype test_strand_type = { .name = "fiber", .destroy = test_strand_destroy, .stays = "fiber" };

/* fiber(name | nil, f, args…) -> fiber */
static inline int l_fiber(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  const char *name = lua_tostring(L, 1);
  lua_State *co = lua_newthread(L);
  lua_insert(L, 2);
  mr_strand *s = mr_strand_new(mr_crew_of(f->job), co, name, &test_strand_type);
  lua_pushvalue(L, 2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, s);
  lua_xmove(L, co, lua_gettop(L) - 2);
  mr_strand_start(s);
  lua_pushlightuserdata(L, s);
  return 1;
}

static inline int l_daemon(lua_State *L) {
  mr_crew_daemon(lua_touserdata(L, 1));
  return 0;
}

static inline int l_cancel(lua_State *L) {
  mr_strand *s = lua_touserdata(L, 1);
  if (!s->done && !s->lua.fiber.cancelled) mr_fiber_cancel(&s->lua.fiber, mr_self_fiber(L));
  return 0;
}

static inline int test_join_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_strand *s = o;
  (void)w;
  (void)why;
  if (!s->done) return -1;
  lua_pushboolean(L, !s->failed);
  int n = s->nres;
  lua_xmove(s->lua.L, L, n);
  if (s->failed) lua_pushstring(L, s->trace);
  n += 1 + s->failed;
  mr_release(&s->shared);
  return n;
}
static inline int test_join_link(void *o, mr_wait *w) { return mr_event_wait(&((mr_strand *)o)->ended, w); }
static inline void test_join_unlink(void *o, mr_wait *w) { mr_event_unwait(&((mr_strand *)o)->ended, w); }
static const mr_waitclass test_join = { .run = { .op = "join", .link = test_join_link, .unlink = test_join_unlink }, .take = test_join_take };

/* join(fiber[, seconds]) -> true, results… | false, error, traceback: then it is not the caller's any more | nil, "timeout" */
static inline int l_join(lua_State *L) { return mr_await(L, mr_self_fiber(L), &test_join, lua_touserdata(L, 1), test_deadline(L, 2)); }

/* ---- states ---- */

static inline int l_gc(lua_State *L) {
  (void)L;
  atomic_fetch_add(&test_finalised, 1);
  return 0;
}

static inline int l_closed(lua_State *L) {
  (void)L;
  atomic_fetch_add(&test_closed, 1);
  return 0;
}

static const luaL_Reg test_functions[] = {
  { "spawn", l_spawn }, { "wait", l_wait }, { "result", l_result }, { "drop", l_drop }, { "status", l_status }, { "self", l_self }, { "yield", l_yield },
  { "how", l_how }, { "exit", l_exit }, { "await", l_await }, { "set", l_set }, { "all", l_all }, { "fiber", l_fiber }, { "daemon", l_daemon },
  { "cancel", l_cancel }, { "join", l_join }, { "finalised", l_gc }, { "closed", l_closed }, { NULL, NULL }
};

static inline int l_test_open(lua_State *L) {
  static const luaL_Reg libs[] = { { "_G", luaopen_base }, { "string", luaopen_string }, { "table", luaopen_table }, { "coroutine", luaopen_coroutine }, { NULL, NULL } };
  for (const luaL_Reg *l = libs; l->func; l++) luaL_requiref(L, l->name, l->func, 1);
  lua_settop(L, 0);
  lua_pushglobaltable(L);
  luaL_setfuncs(L, test_functions, 0);
  return 0;
}

static inline lua_State *test_open(lua_Alloc f, void *ud) {
  mr_finaliser_find();
  lua_State *L = mr_lua_newstate(f, ud);
  if (!L) return NULL;
  *mr_lua_word(L) = 0;
  lua_pushcfunction(L, l_test_open);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

static inline void test_start(lua_State *L, mr_proc *p) {
  (void)L;
  (void)p;
}
static inline int test_reset(lua_State *L) { return mr_lua_closethread(L, NULL); }
static inline int test_close_fiber(mr_fiber *f) { return mr_lua_closethread(mr_lua_of(f)->L, NULL); }

static inline void test_error(lua_State *L, const mr_cause *c) { lua_pushstring(L, c->message); }

static const mr_sharetype test_proc_type = { .name = "process", .destroy = mr_proc_destroy };

/* Before everything else; and again, to set the events back. */
static inline void test_setup(void) {
  mr_proc_type = &test_proc_type;
  mr_hooks = (mr_state_hooks){ .open = test_open, .start = test_start, .finalisers = mr_finaliser_has, .reset = test_reset, .close_fiber = test_close_fiber,
                               .error = test_error };
  for (size_t i = 0; i < sizeof test_event / sizeof *test_event; i++) mr_event_init(&test_event[i]);
  atomic_store(&test_finalised, 0);
  atomic_store(&test_closed, 0);
}

/* ---- hosts ---- */

typedef struct { lua_State *L; mr_proc *proc; int err; } test_host;

static inline test_host host_open(void) {
  test_host h = { .L = luaL_newstate() };
  luaL_openlibs(h.L);
  h.proc = mr_host_open(h.L, &h.err);
  lua_pushglobaltable(h.L);
  lua_pushlightuserdata(h.L, h.proc);
  luaL_setfuncs(h.L, test_functions, 1);
  lua_settop(h.L, 0);
  return h;
}

/* The end of a test_child: what failed there is its exit code. */
static PORT_NORETURN inline void child_over(void) { _exit(CHECK_RESULT()); }

/* 1: it ended well; else its error is on top. */
static inline int host_try(const test_host *h, const char *code) {
  lua_settop(h->L, 0);
  return luaL_dostring(h->L, code) == LUA_OK;
}

static inline void host_run(const test_host *h, const char *code, const char *file, int line) {
  if (host_try(h, code)) return;
  test_failed(code, file, line);
  fprintf(stderr, "%s\n", lua_tostring(h->L, -1));
}
#define RUN(h, code) host_run(h, code, __FILE__, __LINE__)

static inline void host_close(test_host *h) {
  mr_host_close(h->proc);
  lua_close(h->L);
  mr_host_free(h->proc);
}

#endif
