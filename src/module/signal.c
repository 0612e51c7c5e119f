/* mare.signal: listeners to signals (io/signal.c). A listener is shared when it is sent; each signal it hears is taken once. */
#include "module/hold.h"
#include "io/signal.h"
#include "port/system.h"

#include <errno.h>

#define TNAME "signal"

static const mr_class class;

static mr_signal *signal_check(lua_State *L) { return (mr_signal *)mr_shared_check(L, 1, mr_signal_type, TNAME); }

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

/* ---- waiting ---- */

static int arrival_link(void *o, mr_wait *w) { return mr_signal_wait(o, w); }
static void arrival_unlink(void *o, mr_wait *w) { mr_signal_unwait(o, w); }

/* name, count | nil, "closed", "EBADF" */
static int arrival_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_signal *s = o;
  int closed;
  unsigned n = mr_signal_take(s, &closed);
  (void)w;
  (void)why;
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

static const mr_waitclass arrival = { .run = { .op = "wait for a signal", .link = arrival_link, .unlink = arrival_unlink }, .take = arrival_take };

/* listener:wait([seconds]) -> name, count | nil, "timeout" | nil, "closed", "EBADF" */
static int l_wait(lua_State *L) {
  mr_signal *s = signal_check(L);
  return mr_await(L, mr_self_fiber(L), &arrival, s, mr_deadline(L, 2));
}

/* listener:close() */
static int l_close(lua_State *L) {
  mr_signal_close(signal_check(L), mr_self_fiber(L));
  return 0;
}

static int l_leave(lua_State *L) {
  mr_signal_close(signal_check(L), NULL);
  return 0;
}

/* tostring(listener) -> "signal INT" */
static int l_tostring(lua_State *L) {
  lua_pushfstring(L, "signal %s", port_signal_name(signal_check(L)->number));
  return 1;
}

static const luaL_Reg meta[] = { { "__tostring", l_tostring }, { "__close", l_leave }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "wait", l_wait }, { "close", l_close }, { NULL, NULL } };

static void signal_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = {
  .share = { .name = "signal", .destroy = mr_signal_destroy, .push = signal_push },
  .tname = TNAME, .meta = meta, .methods = methods, .wait = &arrival
};

void mr_signal_setup(void) { mr_signal_type = &class.share; }

static const luaL_Reg functions[] = { { "on", l_on }, { NULL, NULL } };

int luaopen_mare_signal(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 1);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
