/*
 * mare.subprocess: programs.
 *
 * `run` waits in steps (io/run.c): the hold at index 2 has the run, and whatever ends the call early - an error, an interrupt - drops
 * it, which kills the program's group.
 */
#include "module/subprocess.h"
#include "module/net.h"
#include "port/system.h"

#include <errno.h>
#include <string.h>

#define TNAME "subprocess"
#define HOLD 2                         /* index of the hold in run and spawn */
#define LAST 5000000000u               /* ns for a killed program to go */

static const mr_class class;

static mr_child *child_check(lua_State *L, int idx) { return (mr_child *)mr_shared_check(L, idx, mr_child_type, TNAME); }

static mr_run *prepare(lua_State *L, const char *name, int is_run) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mr_hold *h = mr_hold_push(L);
  mr_run *r = mr_run_new(is_run);
  if (!r) mr_raise(L, MR_ENOMEM);
  h->request = &r->request;
  mr_command(L, r, name, is_run);
  return r;
}

static int fail_start(lua_State *L, const mr_run *r) {
  if (r->error == ENOTDIR && r->program.cwd) return mr_fail_path(L, r->program.cwd, r->error);
  return mr_fail_path(L, r->program.argv[0], r->error);
}

/* code = integer, or signal = "KILL"; into the table on top */
static void set_end(lua_State *L, mr_child *c) {
  if (c->signal >= 0) {
    const char *name = port_signal_name(c->signal);
    if (name) lua_pushstring(L, name);
    else lua_pushinteger(L, c->signal);
    lua_setfield(L, -2, "signal");
  } else if (c->code >= 0) {
    lua_pushinteger(L, c->code);
    lua_setfield(L, -2, "code");
  }
}

/* ---- run ---- */

static void set_flow(lua_State *L, mr_run *r, int which, const char *name) {
  if (!r->piped[which]) return;
  lua_pushlstring(L, r->flow[which].data ? r->flow[which].data : "", r->flow[which].len);
  lua_setfield(L, -2, name);
}

/* Where it was killed as the time was over, nil, "timeout", nil and what there is. */
static int run_results(lua_State *L, mr_run *r) {
  if (r->killed) {
    mr_timed_out(L);
    lua_pushnil(L);
  }
  mr_child_let_go(r->child);
  lua_createtable(L, 0, 3);
  set_end(L, r->child);
  set_flow(L, r, RUN_OUT, "out");
  set_flow(L, r, RUN_ERR, "err");
  int n = r->killed ? 4 : 1;
  mr_hold_drop(lua_touserdata(L, HOLD));
  return n;
}

static const mr_waitclass running;

static int running_k(lua_State *L, int status, lua_KContext ctx) {
  mr_run *r = (mr_run *)((mr_hold *)lua_touserdata(L, HOLD))->request;
  (void)status; (void)ctx;
  return mr_await(L, mr_self_fiber(L), &running, r, r->deadline);
}

static int running_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_run *r = o;
  (void)why;
  for (;;) {
    int s = mr_run_step(r);
    if (s == 1) return run_results(L, r);
    if (s == 0) return -1;
    if (s < 0) {
      mr_hold_drop(lua_touserdata(L, HOLD));
      return mr_raise(L, MR_ENOMEM);
    }
    if (mr_proc_of(w->fiber)->kind != PROC_HOST && mr_can_yield(w->fiber, L)) return mr_yield(L, w->fiber, 0, running_k);
  }
}

static int running_link(void *o, mr_wait *w) { return mr_run_link(o, w->fiber); }

static void running_unlink(void *o, mr_wait *w) {
  (void)w;
  mr_run_unlink(o);
}

/* The time is over: it is killed, and then there is time for it to go. */
static int running_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_run *r = o;
  if (why != MR_TIMEOUT) return mr_hold_drop(lua_touserdata(L, HOLD)), MR_AWAIT_TIMEOUT;
  if (r->killed) return run_results(L, r);
  mr_run_kill(r);
  w->fiber->deadline = r->deadline = port_now() + LAST;
  return MR_AWAIT_ON;
}

static const mr_waitclass running = { .run = { .op = "subprocess.run", .link = running_link, .unlink = running_unlink, .each = 1 },
                                      .take = running_take, .give_up = running_give_up };

/* The time was over before it had started; nobody but its own request touches it then. */
static int not_started(lua_State *L, mr_request *q) {
  mr_run *r = (mr_run *)q;
  lua_createtable(L, 0, 2);
  for (int i = RUN_OUT; i <= RUN_ERR; i++) {
    if (!r->piped[i]) continue;
    lua_pushliteral(L, "");
    lua_setfield(L, -2, i == RUN_OUT ? "out" : "err");
  }
  return 1;
}

static int started(lua_State *L, mr_request *q) {
  mr_run *r = (mr_run *)q;
  return r->error ? fail_start(L, r) : mr_await(L, mr_self_fiber(L), &running, r, r->deadline);
}

/* subprocess.run{ "program", "argument"…, input =, timeout =, cwd =, env =, … } -> { code | signal, out, err } | nil, message, code */
static int l_run(lua_State *L) {
  mr_outside_check(L, "subprocess.run");
  mr_run *r = prepare(L, "run", 1);
  ((mr_hold *)lua_touserdata(L, HOLD))->finish = started;
  ((mr_hold *)lua_touserdata(L, HOLD))->late = not_started;
  r->deadline = mr_deadline_field(L, 1, "run", "timeout");
  return mr_hold_await(L, HOLD, MR_FILES, r->deadline, "subprocess.run");
}

/* ---- handles ---- */

static int child_end_push(lua_State *L, mr_child *c) {
  lua_createtable(L, 0, 1);
  set_end(L, c);
  return 1;
}

static int child_end_link(void *o, mr_wait *w) {
  mr_wait_outside(w->fiber);
  return mr_event_wait(&((mr_child *)o)->ended, w);
}

static void child_end_unlink(void *o, mr_wait *w) { mr_event_unwait(&((mr_child *)o)->ended, w); }

static int child_end_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)w;
  (void)why;
  return mr_event_is_set(&((mr_child *)o)->ended) ? child_end_push(L, o) : -1;
}

static const mr_waitclass ending = { .run = { .op = "wait for a subprocess", .link = child_end_link, .unlink = child_end_unlink }, .take = child_end_take };

/* handle:wait([seconds]) -> { code | signal } | nil, "timeout" */
static int l_wait(lua_State *L) {
  mr_child *c = child_check(L, 1);
  return mr_await(L, mr_self_fiber(L), &ending, c, mr_deadline(L, 2));
}

static int signal_at(lua_State *L, int idx, const char *usual) {
  if (lua_type(L, idx) == LUA_TNUMBER) {
    int is;
    lua_Integer number = lua_tointegerx(L, idx, &is);
    luaL_argcheck(L, is && number >= 0 && number <= 64, idx, "a signal's number is from 0 to 64");
    return (int)number;
  }
  const char *name = luaL_optstring(L, idx, usual);
  int n = port_signal_number(name);
  if (!n) luaL_argerror(L, idx, lua_pushfstring(L, "no signal is called \"%s\"; there are \"TERM\", \"INT\", \"KILL\" …", name));
  return n;
}

/* handle:kill([signal]) -> true | nil, message, code */
static int l_kill(lua_State *L) {
  mr_child *c = child_check(L, 1);
  int err = mr_child_kill(c, signal_at(L, 2, "TERM"));
  if (err) return mr_fail_path(L, "kill", err);
  lua_pushboolean(L, 1);
  return 1;
}

/* handle.pid, .stdin, .stdout, .stderr; methods. The pipes are found in the process that has spawned: pipes_key. */
static char pipes_key;

static int l_index(lua_State *L) {
  static const char *const fields[] = { "pid", "stdin", "stdout", "stderr", NULL };
  mr_child *c = child_check(L, 1);
  lua_settop(L, 2);
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  if (strcmp(key, "pid") == 0) {
    lua_pushinteger(L, c->pid);
    return 1;
  }
  if (!lua_getmetatable(L, 1)) return 0;
  lua_pushvalue(L, 2);
  if (lua_rawget(L, 3) != LUA_TNIL) return 1;
  mr_class_method(L, 3, &class, key);
  if (!lua_isnil(L, -1)) return 1;
  if (strcmp(key, "stdin") != 0 && strcmp(key, "stdout") != 0 && strcmp(key, "stderr") != 0) return mr_class_missing(L, &class, fields);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pipes_key) != LUA_TTABLE) return 1;
  lua_pushvalue(L, 1);
  if (lua_rawget(L, -2) == LUA_TTABLE) lua_getfield(L, -1, key);
  return 1;
}

/* tostring(handle) -> "subprocess 1234" */
static int l_tostring(lua_State *L) {
  lua_pushfstring(L, "subprocess %d", child_check(L, 1)->pid);
  return 1;
}

/* A to-be-closed handle: nothing of it goes on. */
static int l_leave(lua_State *L) {
  mr_child_kill(child_check(L, 1), PORT_KILL);
  return 0;
}

static const luaL_Reg meta[] = { { "__index", l_index }, { "__tostring", l_tostring }, { "__close", l_leave }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_wait }, { "kill", l_kill }, { NULL, NULL } };

static void child_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = {
  .share = { .name = "subprocess", .destroy = mr_child_destroy, .push = child_push },
  .tname = TNAME, .meta = meta, .methods = methods, .wait = &ending
};

void mr_subprocess_setup(void) { mr_child_type = &class.share; }

/* ---- spawn ---- */

static void push_all_pipes(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pipes_key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &pipes_key);
}

/* Our ends of the pipes become connections, in a table on top. 0, or an errno value. */
static int push_pipes(lua_State *L, mr_run *r) {
  static const char *const names[] = { "stdin", "stdout", "stderr" };
  lua_createtable(L, 0, 3);
  for (int i = 0; i < RUN_PIPES; i++) {
    int err, fd = mr_run_take(r, i);
    mr_conn *c = fd >= 0 ? mr_conn_new(fd, &err) : NULL;
    if (fd >= 0 && !c) return err;
    if (!c) continue;
    mr_push_conn(L, c);
    lua_setfield(L, -2, names[i]);
  }
  return 0;
}

/* Until it stays, dropping the hold kills it. */
static int spawned(lua_State *L, mr_request *q) {
  mr_run *r = (mr_run *)q;
  if (r->error) return fail_start(L, r);
  luaL_checkstack(L, 10, NULL);
  push_all_pipes(L);
  mr_shared_push(L, &r->child->shared, &class);
  int err = push_pipes(L, r);
  if (err) return mr_fail_path(L, r->program.argv[0], err);
  lua_pushvalue(L, -2);
  lua_insert(L, -2);
  lua_rawset(L, -4);
  r->stays = 1;
  return 1;
}

/* subprocess.spawn{ "program", "argument"…, cwd =, env =, stdin =, … } -> handle | nil, message, code */
static int l_spawn(lua_State *L) {
  mr_outside_check(L, "subprocess.spawn");
  prepare(L, "spawn", 0);
  ((mr_hold *)lua_touserdata(L, HOLD))->finish = spawned;
  return mr_hold_await(L, HOLD, MR_FILES, UINT64_MAX, "subprocess.spawn");
}

static const luaL_Reg functions[] = { { "run", l_run }, { "spawn", l_spawn }, { NULL, NULL } };

int luaopen_mare_subprocess(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 2);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
