/*
 * mare.timer: moments to wait for. A timer is a shared object: it can be sent, and several processes can wait for it.
 *
 * With a function, a fiber is spawned that waits and calls it.
 */
#include "module/module.h"
#include "process/clock.h"
#include "process/crew.h"

#define TNAME "timer"

static const mr_class class;

static mr_clock *check(lua_State *L, int idx) { return (mr_clock *)(void *)mr_shared_check(L, idx, &class.share, TNAME); }

static int fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* ---- waiting ---- */

/* Pushes what is due: how many moments have passed since it was last asked; nil, "cancelled"; -1: nothing yet. */
static int take(lua_State *L, mr_clock *c) {
  int closed;
  uint64_t n = mr_clock_take(c, &closed);
  if (n == 0) return closed ? fail(L, "cancelled") : -1;
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int wait_k(lua_State *L, int status, lua_KContext deadline);

static int wait(lua_State *L, mr_clock *c, uint64_t deadline) {
  mr_fiber *f = mr_self_fiber(L);
  for (;;) {
    int n = take(L, c);
    if (n >= 0) return n;
    if (deadline == 0) return fail(L, "timeout");
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    int now = mr_clock_wait(c, &f->wait);
    if (now == 0) break;
    mr_wait_abandon(f);
    if (now < 0) return mr_raise(L, MR_ENOMEM);
  }
  f->op = "wait for a timer";
  return mr_park(L, f, deadline, (lua_KContext)deadline, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext deadline) {
  mr_fiber *f = mr_self_fiber(L);
  mr_clock *c = check(L, 1);
  mr_reason r = mr_wake(f);
  (void)status;
  mr_clock_unwait(c, &f->wait);
  if (r == MR_TIMEOUT) return fail(L, "timeout");
  mr_raise_reason(L, f, r);
  return wait(L, c, (uint64_t)deadline);
}

/* timer:wait([seconds]) -> moments passed (1, or more of a repeated one) | nil, "timeout" | nil, "cancelled" */
static int l_timer_wait(lua_State *L) {
  mr_clock *c = check(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 1);
  return wait(L, c, deadline);
}

/* timer:cancel(): who waits for it gets nil, "cancelled" */
static int l_timer_cancel(lua_State *L) {
  mr_clock_cancel(check(L, 1), mr_self_fiber(L));
  return 0;
}

/* timer:left() -> seconds until it is due (0: it is), nil: it was cancelled */
static int l_timer_left(lua_State *L) {
  uint64_t due = mr_clock_due(check(L, 1)), now = port_now();
  if (due == UINT64_MAX) lua_pushnil(L);
  else lua_pushnumber(L, due > now ? (lua_Number)(due - now) * 1e-9 : 0);
  return 1;
}

/* ---- for select ---- */

static int link_clock(mr_case *c) { return mr_clock_wait(c->object, &c->wait) != 0; }
static void unlink_clock(mr_case *c) { mr_clock_unwait(c->object, &c->wait); }

static int take_clock(lua_State *L, mr_case *c, mr_reason why) {
  (void)why;
  return take(L, c->object);
}

static const mr_waitclass due = { "wait for a timer", link_clock, unlink_clock, take_clock, NULL, 1 };

static const luaL_Reg meta[] = { { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "wait", l_timer_wait }, { "cancel", l_timer_cancel }, { "left", l_timer_left }, { NULL, NULL }
};
static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = mr_clock_destroy, .push = push }, TNAME, meta, methods, NULL, &due };

/* ---- with a function: the body of its fiber. Stack: 1 timer, 2 function, arguments… ---- */

static int call_k(lua_State *L, int status, lua_KContext n);

static int wait_and_call(lua_State *L, int n) {
  lua_pushcfunction(L, l_timer_wait);
  if (!mr_in_process(L)) {
    lua_pop(L, 1);
    mr_function_push(L, l_timer_wait);
  }
  lua_pushvalue(L, 1);
  lua_callk(L, 1, 1, n, call_k);
  return call_k(L, LUA_OK, n);
}

static int again_k(lua_State *L, int status, lua_KContext n) {
  (void)status;
  if (n == 0) return 0;                          /* it was due once */
  lua_settop(L, (int)n);
  return wait_and_call(L, (int)n);
}

static int call_k(lua_State *L, int status, lua_KContext n) {
  mr_clock *c = check(L, 1);
  (void)status;
  if (lua_isnil(L, -1)) return 0;                /* cancelled */
  lua_settop(L, (int)n);
  luaL_checkstack(L, (int)n, NULL);
  for (int i = 2; i <= (int)n; i++) lua_pushvalue(L, i);
  lua_callk(L, (int)n - 2, 0, c->period ? n : 0, again_k);
  return again_k(L, LUA_OK, c->period ? n : 0);
}

static int l_body(lua_State *L) { return wait_and_call(L, lua_gettop(L)); }

/* ---- making ---- */

static uint64_t nanoseconds(lua_State *L, int idx, lua_Number least) {
  lua_Number s = luaL_checknumber(L, idx);
  luaL_argcheck(L, s == s && s >= least && s < 9e9, idx,
                least > 0 ? "a number of seconds from 1e-6 to 9e9 expected" : "a number of seconds from 0 to 9e9 expected");
  return (uint64_t)(s * 1e9);
}

static int new_timer(lua_State *L, uint64_t ns, uint64_t period) {
  int n = lua_gettop(L);
  if (n > 1) luaL_checktype(L, 2, LUA_TFUNCTION);
  mr_clock *c = mr_clock_new(&class.share, port_now() + ns, period);
  if (!c) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &c->shared);
  if (n < 2) return 1;
  lua_replace(L, 1);                             /* timer, function, arguments… */
  lua_pushvalue(L, 1);
  lua_insert(L, 1);
  mr_function_push(L, l_body);
  lua_insert(L, 2);
  mr_fiber_spawn(L, n + 1, NULL);
  lua_pop(L, 1);
  return 1;
}

/* timer.after(seconds[, f, args…]) -> timer, due once */
static int l_after(lua_State *L) { return new_timer(L, nanoseconds(L, 1, 0), 0); }

/* timer.every(seconds[, f, args…]) -> timer, due again and again at equal distances */
static int l_every(lua_State *L) {
  uint64_t ns = nanoseconds(L, 1, 1e-6);
  return new_timer(L, ns, ns);
}

static const luaL_Reg functions[] = { { "after", l_after }, { "every", l_every }, { NULL, NULL } };

MR_EXPORT int luaopen_mare_timer(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 2);
  mr_set_functions(L, functions);
  return 1;
}
