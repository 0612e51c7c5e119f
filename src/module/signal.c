/* mare.signal: listeners to signals (io/signal.c). A listener is shared when it is sent; each signal it hears is taken once. */
#include "module/await.h"
#include "io/signal.h"
#include "port/system.h"

#include <errno.h>

#define TNAME "signal"

static const mr_class class;

static mr_signal *check(lua_State *L) { return (mr_signal *)mr_shared_check(L, 1, mr_signal_type, TNAME); }

/* signal.on(name) -> listener | nil, message, code */
static int l_on(lua_State *L) {
  int err;
  const char *name = luaL_checkstring(L, 1);
  int number = port_signal_number(name);
  mr_check_forked(L);
  if (!number) return luaL_argerror(L, 1, lua_pushfstring(L, "no signal is called \"%s\"; there are \"INT\", \"TERM\", \"HUP\" …", name));
  mr_signal *s = mr_signal_new(number, &err);
  if (!s && err == EINVAL) return luaL_argerror(L, 1, lua_pushfstring(L, "signal \"%s\" can't be waited for", name));
  if (!s) return mr_fail_path(L, name, err);
  mr_shared_push_new(L, &s->shared);
  return 1;
}

/* name, count | nil, "closed", "EBADF"; -1: nothing has come */
static int take(lua_State *L, mr_signal *s) {
  int closed;
  unsigned n = mr_signal_take(s, &closed);
  if (n) {
    lua_pushstring(L, port_signal_name(s->number));
    lua_pushinteger(L, n);
    return 2;
  }
  if (!closed) return -1;
  lua_pushnil(L);
  lua_pushliteral(L, "closed");
  lua_pushliteral(L, "EBADF");
  return 3;
}

static int wait_k(lua_State *L, int status, lua_KContext ctx);

static int wait(lua_State *L, mr_signal *s) {
  mr_fiber *f = mr_self_fiber(L);
  for (;;) {
    int n = take(L, s);
    if (n >= 0) return n;
    if (f->deadline == 0) return mr_fail_timeout(L);
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    if (!mr_signal_wait(s, &f->wait)) break;
    mr_wait_abandon(f);
  }
  f->op = "wait for a signal";
  return mr_park(L, f, f->deadline, 0, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = mr_self_fiber(L);
  mr_signal *s = check(L);
  mr_reason why = mr_wake(f);
  (void)status; (void)ctx;
  if (why == MR_WOKEN || why == MR_CLOSED || why == MR_AGAIN) return wait(L, s);
  mr_signal_unwait(s, &f->wait);
  mr_raise_reason(L, f, why);
  return mr_fail_timeout(L);
}

/* listener:wait([seconds]) -> name, count | nil, message, code */
static int l_wait(lua_State *L) {
  mr_signal *s = check(L);
  mr_self_fiber(L)->deadline = mr_deadline(L, 2);
  return wait(L, s);
}

/* listener:close() */
static int l_close(lua_State *L) {
  mr_signal_close(check(L), mr_self_fiber(L));
  return 0;
}

static int l_leave(lua_State *L) {
  mr_signal_close(check(L), NULL);
  return 0;
}

/* tostring(listener) -> "signal INT" */
static int l_tostring(lua_State *L) {
  lua_pushfstring(L, "signal %s", port_signal_name(check(L)->number));
  return 1;
}

/* ---- for select ---- */

static int link_signal(mr_case *c) { return mr_signal_wait(c->object, &c->wait); }
static void unlink_signal(mr_case *c) { mr_signal_unwait(c->object, &c->wait); }

static int take_signal(lua_State *L, mr_case *c, mr_reason why) {
  (void)why;
  return take(L, c->object);
}

static const mr_waitclass arrival = { .op = "wait for a signal", .link = link_signal, .unlink = unlink_signal, .take = take_signal };

static const luaL_Reg meta[] = { { "__tostring", l_tostring }, { "__close", l_leave }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_wait }, { "close", l_close }, { NULL, NULL } };

static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = {
  .share = { .name = "signal", .destroy = mr_signal_destroy, .push = push },
  .tname = TNAME, .meta = meta, .methods = methods, .wait = &arrival
};

void mr_signal_setup(void) { mr_signal_type = &class.share; }

static const luaL_Reg functions[] = { { "on", l_on }, { NULL, NULL } };

MR_EXPORT int luaopen_mare_signal(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 1);
  mr_set_functions(L, functions);
  return 1;
}
