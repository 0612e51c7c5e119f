/*
 * mare.timer: moments to wait for. A timer is a shared object: it can be sent, and several processes can wait for it.
 *
 * With a function, a fiber is spawned that waits and calls it.
 */
#include "module/module.h"
#include "run/clock.h"
#include "process/strand.h"

#include <stdlib.h>

#define TNAME "timer"

static const mr_class class;

typedef struct timer { mr_shared shared; mr_clock clock; } timer;

static timer *timer_check(lua_State *L, int idx) { return (timer *)(void *)mr_shared_check(L, idx, &class.share, TNAME); }
static mr_clock *clock_of(void *o) { return &((timer *)o)->clock; }

/* ---- waiting ---- */

static int clock_link(void *o, mr_wait *w) { return mr_clock_wait(clock_of(o), w); }
static void clock_unlink(void *o, mr_wait *w) { mr_clock_unwait(clock_of(o), w); }

/* How many moments have passed since it was last asked; nil, "cancelled". */
static int clock_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  int closed;
  uint64_t n = mr_clock_take(clock_of(o), &closed);
  (void)w;
  (void)why;
  if (n == 0 && !closed) return -1;
  if (n > 0) return lua_pushinteger(L, (lua_Integer)n), 1;
  lua_pushnil(L);
  lua_pushliteral(L, "cancelled");
  return 2;
}

static const mr_waitclass due = { .run = { .op = "wait for a timer", .link = clock_link, .unlink = clock_unlink, .stays = 1 }, .take = clock_take };

/* timer:wait([seconds]) -> moments passed (1, or more of a repeated one) | nil, "timeout" | nil, "cancelled" */
static int l_timer_wait(lua_State *L) {
  timer *t = timer_check(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 1);
  return mr_await(L, mr_self_fiber(L), &due, t, deadline);
}

/* timer:cancel(): who waits for it gets nil, "cancelled" */
static int l_timer_cancel(lua_State *L) {
  mr_clock_cancel(&timer_check(L, 1)->clock, mr_self_fiber(L));
  return 0;
}

/* timer:left() -> seconds until it is due (0: it is), nil: it was cancelled */
static int l_timer_left(lua_State *L) {
  uint64_t due = mr_clock_due(&timer_check(L, 1)->clock), now = port_now();
  if (due == UINT64_MAX) lua_pushnil(L);
  else lua_pushnumber(L, due > now ? (lua_Number)(due - now) * 1e-9 : 0);
  return 1;
}

/* ---- handles ---- */

static const luaL_Reg meta[] = { { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "wait", l_timer_wait }, { "cancel", l_timer_cancel }, { "left", l_timer_left }, { NULL, NULL }
};
static void timer_destroy(mr_shared *o) {
  mr_clock_end(clock_of(o));
  free(o);
}

static void timer_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = timer_destroy, .push = timer_push }, TNAME, meta, methods, NULL, &due };

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
  mr_clock *c = &timer_check(L, 1)->clock;
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
  timer *t = calloc(1, sizeof *t);
  if (!t) return mr_raise(L, MR_ENOMEM);
  t->shared.type = &class.share;
  atomic_init(&t->shared.refs, 1);
  mr_clock_init(&t->clock, port_now() + ns, period);
  mr_shared_push_new(L, &t->shared);
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

int luaopen_mare_timer(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 2);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
