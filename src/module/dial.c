/*
 * dial: net.connect. Names are resolved, then the addresses are tried: io/dial.c.
 *
 * Everything an attempt owns is in one userdata, which closes it whatever happens. Stack while it waits: three arguments, DIAL that
 * userdata, NAMES the hold of the name or nil, LABEL the text of where, for errors.
 */
#include "module/net.h"
#include "io/dial.h"

#include <stdio.h>
#include <string.h>

enum { DIAL = 4, NAMES = 5, LABEL = 6 };

typedef struct dial { mr_dial d; uint64_t deadline; int port; } dial;

static int l_dial_gc(lua_State *L) {
  dial *d = mr_gc_own(L, sizeof *d, l_dial_gc);
  if (d) mr_dial_drop(&d->d);
  return 0;
}

static dial *dial_push(lua_State *L) {
  static const char key;
  dial *d = lua_newuserdatauv(L, sizeof *d, 0);
  mr_dial_init(&d->d);
  d->deadline = UINT64_MAX;
  d->port = 0;
  mr_meta_set(L, &key, "__gc", l_dial_gc);
  return d;
}

/* ---- connecting ---- */

static int dial_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  dial *d = o;
  int err;
  (void)why;
  switch (mr_dial_step(&d->d, &w->fiber->deadline)) {
    case DIAL_WAIT: return -1;
    case DIAL_DONE: {
      mr_conn *c = mr_dial_take(&d->d, &err);
      return c ? mr_push_conn(L, c) : mr_net_error(L, err);
    }
    default:
      mr_dial_drop(&d->d);
      if (d->d.error == ETIMEDOUT && d->deadline != UINT64_MAX && port_now() >= d->deadline) return mr_timed_out(L);
      return mr_net_fail_at(L, d->d.error, lua_tostring(L, LABEL));
  }
}

static int dial_link(void *o, mr_wait *w) { return mr_dial_link(&((dial *)o)->d, w); }

static void dial_unlink(void *o, mr_wait *w) {
  (void)w;
  mr_dial_unlink(&((dial *)o)->d);
}

static int dial_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)w;
  (void)why;
  mr_dial_drop(&((dial *)o)->d);
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass dialing = { .run = { .op = "connect", .link = dial_link, .unlink = dial_unlink, .each = 1 }, .take = dial_take,
                                      .give_up = dial_give_up };

static int dial_begin(lua_State *L, dial *d) {
  int inside = 0;
  for (int i = 0; i < d->d.n; i++) inside |= port_sim_inside(&d->d.list[i]);
  if (!inside && d->d.n) mr_outside_address(L, &d->d.list[0]);
  return mr_await(L, mr_self_fiber(L), &dialing, d, d->deadline);
}

static int dial_resolved(lua_State *L, mr_request *r) {
  dial *d = lua_touserdata(L, DIAL);
  mr_resolve *q = (mr_resolve *)r;
  if (q->n == 0) return mr_names_fail(L, q);
  mr_dial_names(&d->d, q, d->port);
  return dial_begin(L, d);
}

/* ---- where to ---- */

/* Where it comes from: the value at the top. */
static void bind_get(lua_State *L, mr_dial *d) {
  mr_where w;
  if (lua_type(L, -1) != LUA_TSTRING) luaL_error(L, "connect: 'bind' must be an address such as \"127.0.0.1\", got %s", luaL_typename(L, -1));
  if (port_addr_numeric(&d->bind, lua_tostring(L, -1), 0) == 0) return;
  if (!strchr(lua_tostring(L, -1), ':')) luaL_error(L, "connect: 'bind' must be an address, not the name \"%s\"", lua_tostring(L, -1));
  mr_where_get(L, lua_gettop(L), &w);
  if (w.is_path) d->bind = w.path;
  else if (!w.host || port_addr_numeric(&d->bind, w.host, w.port) != 0) luaL_error(L, "connect: 'bind' must be an address, not a name");
}

/* In a table of their own, or in that of the address, at 1. */
static void options_get(lua_State *L, int idx, dial *o) {
  mr_dial *d = &o->d;
  if (lua_isnoneornil(L, idx)) return;
  luaL_checktype(L, idx, LUA_TTABLE);
  mr_options_check(L, idx, idx == 1 ? "host, port, path, timeout, bind, nodelay" : "timeout, bind, nodelay");
  uint64_t deadline = mr_deadline_field(L, idx, "connect", "timeout");
  if (deadline != UINT64_MAX) o->deadline = deadline;
  d->nodelay = mr_boolean_field(L, idx, "connect", "nodelay", d->nodelay);
  if (lua_getfield(L, idx, "bind") != LUA_TNIL) bind_get(L, d);
}

static void label(lua_State *L, const mr_where *w) {
  if (w->is_path) {
    mr_path_push(L, &w->path);
  } else if (!w->host || !*w->host) {
    lua_pushfstring(L, "port %d", w->port);
  } else {
    lua_pushfstring(L, strchr(w->host, ':') ? "[%s]:%d" : "%s:%d", w->host, w->port);
  }
}

/* Without a host: this machine. Returns 0 when there is a name to resolve. */
static int known(mr_dial *d, const mr_where *w) {
  port_addr a, b;
  int here = !w->host || !*w->host;
  if (w->is_path) mr_dial_add(d, &w->path);
  else if (port_addr_numeric(&a, here ? "127.0.0.1" : w->host, w->port) == 0) mr_dial_add(d, &a);
  if (!w->is_path && here && port_addr_numeric(&b, "::1", w->port) == 0) mr_dial_add(d, &b);
  return d->n > 0;
}

/* net.connect(where | host, port[, options]) -> connection | nil, message, code | nil, "timeout" */
int mr_dial_connect(lua_State *L) {
  mr_where w;
  int pair = lua_type(L, 1) == LUA_TSTRING && (lua_type(L, 2) == LUA_TNUMBER || lua_type(L, 2) == LUA_TSTRING);
  lua_settop(L, 3);
  if (pair) mr_where_pair(L, 1, &w);
  else mr_where_get(L, 1, &w);
  int top = lua_gettop(L);
  dial *d = dial_push(L);
  d->port = w.port;
  if (lua_istable(L, 1)) options_get(L, 1, d);
  options_get(L, pair ? 3 : 2, d);
  lua_settop(L, top + 1);
  int ready = known(&d->d, &w);
  if (ready) lua_pushnil(L);
  else mr_names_push(L, w.host, 0, dial_resolved);
  label(L, &w);
  for (int i = top; i > 3; i--) lua_remove(L, i);
  return ready ? dial_begin(L, d) : mr_names_await(L, NAMES, d->deadline);
}
