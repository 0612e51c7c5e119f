/*
 * dial: net.connect. Names are resolved, then addresses are tried as in RFC 8305 (Happy Eyeballs): families alternate, the next attempt begins
 * 250 ms after the last one or as soon as one fails, the first that succeeds wins and the others are dropped.
 *
 * Everything an attempt owns is in one userdata, which closes it whatever happens. Stack while it waits: three arguments, DIAL that
 * userdata, NAMES the resolver's request or nil, LABEL the text of where, for errors.
 */
#include "module/net.h"

#include <stdio.h>
#include <string.h>

#define ATTEMPT_DELAY 250000000u     /* ns; RFC 8305, section 5 */
enum { DIAL = 4, NAMES = 5, LABEL = 6 };

typedef struct attempt { int fd; mr_watch *watch; mr_wait node; } attempt;

typedef struct dial {
  int n, next;                       /* addresses; the next to try */
  int pending;                       /* attempts [0, next) that are under way */
  int error;                         /* why the last one failed */
  int nodelay;
  uint64_t deadline, begin_next;
  port_addr bind;                    /* family 0: any */
  port_addr list[MR_ADDRESSES];
  attempt at[MR_ADDRESSES];
} dial;

static void drop(attempt *a) {
  if (a->watch) mr_watch_close(a->watch, NULL);
  if (a->fd >= 0) port_net_close(a->fd);
  a->watch = NULL;
  a->fd = -1;
}

static void drop_all(dial *d) {
  for (int i = 0; i < d->next; i++) drop(&d->at[i]);
  d->pending = 0;
}

static int l_dial_gc(lua_State *L) {
  drop_all(lua_touserdata(L, 1));
  return 0;
}

static dial *dial_push(lua_State *L) {
  static const char key;
  dial *d = lua_newuserdatauv(L, sizeof *d, 0);
  memset(d, 0, sizeof *d);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushcfunction(L, l_dial_gc);
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
  }
  lua_setmetatable(L, -2);
  return d;
}

/* ---- attempts ---- */

/* 0: connected; EINPROGRESS; or why not. */
static int attempt_open(dial *d, int i) {
  attempt *a = &d->at[i];
  const port_addr *to = &d->list[i];
  int family = port_addr_family(to);
  a->watch = NULL;
  a->fd = -1;
  if (port_addr_family(&d->bind) && port_addr_family(&d->bind) != family) return EAFNOSUPPORT;
  int err = port_net_socket(family, PORT_STREAM, &a->fd);
  if (err) return err;
  if (port_addr_family(&d->bind)) {
    port_net_option_set(a->fd, "reuseaddr", 1);
    if ((err = port_net_bind(a->fd, &d->bind)) != 0) return err;
  }
  if (d->nodelay && family != PORT_UNIX) port_net_nodelay(a->fd);
  err = port_net_connect(a->fd, to);
  if (err == EINPROGRESS) err = port_net_connected(a->fd);         /* near peers have answered by now */
  if (err == EINPROGRESS && (a->watch = mr_watch_open(a->fd, &err)) != NULL) return EINPROGRESS;
  return err;
}

static int connected(lua_State *L, dial *d, int i) {
  attempt a = d->at[i];
  int err;
  d->at[i].fd = -1;
  d->at[i].watch = NULL;
  drop_all(d);
  mr_conn *c = a.watch ? mr_conn_adopt(a.fd, a.watch) : mr_conn_new(a.fd, &err);
  if (!c && a.watch) {
    drop(&a);
    err = ENOMEM;
  }
  return c ? mr_push_conn(L, c) : mr_net_error(L, err);
}

/* Looks at those under way: the number of the one that is connected, or -1. */
static int look(dial *d) {
  for (int i = 0; i < d->next; i++) {
    if (d->at[i].fd < 0) continue;
    int err = port_net_connected(d->at[i].fd);
    if (err == 0) return i;
    if (err == EINPROGRESS) continue;
    d->error = err;
    d->begin_next = 0;
    d->pending--;
    drop(&d->at[i]);
  }
  return -1;
}

static void unwait(dial *d) {
  for (int i = 0; i < d->next; i++)
    if (d->at[i].watch) mr_watch_unwait(d->at[i].watch, &d->at[i].node);
}

/* 1: queued at every attempt. 0: one has news. */
static int wait_all(dial *d, mr_fiber *f) {
  for (int i = 0; i < d->next; i++) {
    attempt *a = &d->at[i];
    if (!a->watch) continue;
    a->node = (mr_wait){ .fiber = f, .ticket = f->wait.ticket };
    if (mr_watch_wait(a->watch, MR_WRITE, &a->node)) return 0;
  }
  return 1;
}

static int fail_dial(lua_State *L, dial *d, int err) {
  drop_all(d);
  if (err == ETIMEDOUT && d->deadline != UINT64_MAX && port_now() >= d->deadline) return mr_net_fail(L, "timeout", "ETIMEDOUT");
  return mr_net_fail_at(L, err, lua_tostring(L, LABEL));
}

static int dial_k(lua_State *L, int status, lua_KContext ctx);

/* Begins the next attempt if it is time. 1: and it is connected. */
static int begin(dial *d) {
  while (d->next < d->n && (!d->pending || port_now() >= d->begin_next)) {
    int i = d->next++, err = attempt_open(d, i);
    if (err == 0) return 1;
    if (err == EINPROGRESS) {
      d->pending++;
      d->begin_next = port_now() + ATTEMPT_DELAY;
    } else {
      d->error = err;
      drop(&d->at[i]);
    }
  }
  return 0;
}

static int dial_on(lua_State *L, mr_fiber *f, dial *d) {
  for (;;) {
    int i = look(d);
    if (i >= 0) return connected(L, d, i);
    if (begin(d)) return connected(L, d, d->next - 1);
    if (!d->pending) return fail_dial(L, d, d->error);
    if (d->deadline != UINT64_MAX && port_now() >= d->deadline) return fail_dial(L, d, ETIMEDOUT);
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    if (!wait_all(d, f)) {                       /* those that are queued already may be claimed by now */
      int mine = mr_wait_cancel(f);
      unwait(d);
      mr_reason r = mr_wake(f);
      if (!mine && r != MR_WOKEN) mr_raise_reason(L, f, r);
      continue;
    }
    uint64_t until = d->next < d->n && d->begin_next < d->deadline ? d->begin_next : d->deadline;
    f->op = "connect";
    mr_reason r = mr_park_here(L, f, until, 0, dial_k);
    unwait(d);
    if (r != MR_WOKEN && r != MR_TIMEOUT) {
      drop_all(d);
      return mr_net_fail_wait(L, f, r);
    }
  }
}

static int dial_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = mr_self_fiber(L);
  dial *d = lua_touserdata(L, DIAL);
  mr_reason r = mr_wake(f);
  (void)status;
  (void)ctx;
  unwait(d);
  if (r == MR_WOKEN || r == MR_TIMEOUT) return dial_on(L, f, d);
  drop_all(d);
  return mr_net_fail_wait(L, f, r);
}

/* ---- where to ---- */

static void add(dial *d, const port_address *a, int port) {
  if (d->n < MR_ADDRESSES && port_addr_native(&d->list[d->n], a->u.bytes, a->len, port) == 0) d->n++;
}

static int family_of(const port_address *a) {
  port_addr b;
  return port_addr_native(&b, a->u.bytes, a->len, 0) == 0 ? port_addr_family(&b) : 0;
}

/* The resolver's order, but families in turn, beginning with that of its first. */
static void interleave(dial *d, mr_resolve *q, int port) {
  int first = family_of(&q->list[0]), i = 0, j = 0;
  while (i < q->n || j < q->n) {
    while (i < q->n && family_of(&q->list[i]) != first) i++;
    if (i < q->n) add(d, &q->list[i++], port);
    while (j < q->n && family_of(&q->list[j]) == first) j++;
    if (j < q->n) add(d, &q->list[j++], port);
  }
}

static int resolved(lua_State *L, mr_fiber *f, int port) {
  dial *d = lua_touserdata(L, DIAL);
  interleave(d, mr_names_at(L, NAMES), port);
  return dial_on(L, f, d);
}

static int names_k(lua_State *L, int status, lua_KContext port) {
  mr_fiber *f = mr_self_fiber(L);
  (void)status;
  int n = mr_names_ended(L, mr_names_at(L, NAMES), mr_wake(f));
  return n ? n : resolved(L, f, (int)port);
}

/* In a table of their own, or in that of the address, at 1. */
static void options_get(lua_State *L, int idx, dial *d) {
  if (lua_isnoneornil(L, idx)) return;
  luaL_checktype(L, idx, LUA_TTABLE);
  mr_options_check(L, idx, idx == 1 ? "host, port, path, timeout, bind, nodelay" : "timeout, bind, nodelay");
  if (lua_getfield(L, idx, "timeout") != LUA_TNIL) {
    luaL_argcheck(L, lua_type(L, -1) == LUA_TNUMBER, idx, "option 'timeout' must be a number of seconds");
    d->deadline = mr_deadline(L, -1);
  }
  if (lua_getfield(L, idx, "nodelay") != LUA_TNIL) d->nodelay = lua_toboolean(L, -1);
  if (lua_getfield(L, idx, "bind") != LUA_TNIL) {
    const char *text = luaL_checkstring(L, -1);
    if (port_addr_numeric(&d->bind, text, 0) != 0) {
      mr_where w;
      mr_where_get(L, lua_gettop(L), &w);
      if (w.is_path) d->bind = w.path;
      else luaL_argcheck(L, w.host && port_addr_numeric(&d->bind, w.host, w.port) == 0, idx, "option 'bind' must be an address, not a name");
    }
  }
}

static void label(lua_State *L, const mr_where *w) {
  char text[PORT_ADDR_TEXT];
  if (w->is_path) {
    port_addr_text(&w->path, text);
    lua_pushfstring(L, "unix:%s", text[0] ? text : "@");
  } else if (!w->host || !*w->host) {
    lua_pushfstring(L, "port %d", w->port);
  } else {
    lua_pushfstring(L, strchr(w->host, ':') ? "[%s]:%d" : "%s:%d", w->host, w->port);
  }
}

/* Without a host: this machine. Returns 0 when there is a name to resolve. */
static int known(dial *d, const mr_where *w) {
  if (w->is_path) d->list[d->n++] = w->path;
  else if (!w->host || !*w->host) {
    port_addr_numeric(&d->list[d->n++], "127.0.0.1", w->port);
    port_addr_numeric(&d->list[d->n++], "::1", w->port);
  } else if (port_addr_numeric(&d->list[0], w->host, w->port) == 0) d->n = 1;
  return d->n > 0;
}

/* net.connect(where | host, port[, options]) -> connection | nil, message, code */
int mr_dial(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  mr_where w;
  int pair = lua_type(L, 1) == LUA_TSTRING && (lua_type(L, 2) == LUA_TNUMBER || lua_type(L, 2) == LUA_TSTRING);
  lua_settop(L, 3);
  if (pair) mr_where_pair(L, 1, &w);
  else mr_where_get(L, 1, &w);
  int top = lua_gettop(L);
  dial *d = dial_push(L);
  d->deadline = UINT64_MAX;
  d->nodelay = 1;
  if (lua_istable(L, 1)) options_get(L, 1, d);
  options_get(L, pair ? 3 : 2, d);
  lua_settop(L, top + 1);
  int ready = known(d, &w);
  if (ready) lua_pushnil(L);
  else mr_names_push(L, w.host, 0);
  label(L, &w);
  for (int i = top; i > 3; i--) lua_remove(L, i);
  if (ready) return dial_on(L, f, d);
  int n = mr_names_wait(L, mr_names_at(L, NAMES), d->deadline, w.port, names_k);
  return n ? n : resolved(L, f, w.port);
}
