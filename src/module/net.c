/* net: mare.net - listening, and names. Connecting is in dial.c, connections in conn.c, datagrams in udp.c. */
#include "module/net.h"
#include "io/context.h"

#include <string.h>

#define TNAME "server"

static mr_listener *check(lua_State *L) { return (mr_listener *)mr_shared_check(L, 1, mr_listener_type, TNAME); }

/* ---- options of sockets ---- */

static int is_flag(const char *name) { return strstr("nodelay keepalive reuseaddr reuseport broadcast v6only", name) != NULL; }

int mr_option(lua_State *L, int fd) {
  const char *name = luaL_checkstring(L, 2);
  int value = 0, err;
  luaL_argcheck(L, port_net_option_known(name), 2,
                "no such option; there are nodelay, keepalive, reuseaddr, reuseport, rcvbuf, sndbuf, broadcast, v6only, ttl, linger");
  if (lua_isnoneornil(L, 3)) {
    if ((err = port_net_option_get(fd, name, &value)) != 0) return mr_net_error(L, err);
    if (is_flag(name)) lua_pushboolean(L, value);
    else if (value < 0) lua_pushboolean(L, 0);
    else lua_pushinteger(L, value);
    return 1;
  }
  if (lua_isboolean(L, 3)) value = strcmp(name, "linger") == 0 ? -1 + lua_toboolean(L, 3) : lua_toboolean(L, 3);
  else value = (int)luaL_checkinteger(L, 3);
  if ((err = port_net_option_set(fd, name, value)) != 0) return mr_net_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- accepting ---- */

static int accepted(lua_State *L, mr_listener *l, int fd) {
  int err;
  mr_conn *c = mr_conn_new(fd, &err);
  if (!c) return mr_net_error(L, err);
  if (l->context && (err = mr_tls_serve(c, l->context)) != 0) {
    mr_release(&c->base.shared);
    return mr_net_error(L, err);
  }
  return mr_push_conn(L, c);
}

static int accept_k(lua_State *L, int status, lua_KContext each);

#define SHORTAGE 100000000u          /* ns until a server without descriptors tries again */

static int is_shortage(int err) { return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM; }

/*
 * `each`: for the loop over connections, which ends when the server is closed, and outlives a shortage of descriptors: it waits until there may
 * be some again.
 */
static int accept_on(lua_State *L, mr_fiber *f, mr_listener *l, int each) {
  for (;;) {
    int fd, err;
    if (!mr_listener_enter(l)) return each ? 0 : mr_net_fail(L, "closed", "EBADF");
    uint64_t deadline = f->deadline;
    err = mr_listener_accept(l, &fd, f);
    if (err != EAGAIN && !(each && is_shortage(err))) {
      mr_listener_leave(l, f);
      if (err == 0) return accepted(L, l, fd);
      if (!each) return mr_net_error(L, err);
      mr_net_error(L, err);
      return luaL_error(L, "accept: %s", lua_tostring(L, -2));
    }
    if (deadline == 0) return mr_listener_leave(l, f), mr_net_fail(L, "timeout", "ETIMEDOUT");
    uint64_t until = err == EAGAIN ? deadline : port_now() + SHORTAGE;
    if ((err = mr_wait_open(f, L)) != 0) return mr_listener_leave(l, f), mr_raise(L, err);
    if (mr_watch_wait(l->watch, MR_READ, &f->wait)) {
      mr_wait_abandon(f);
      mr_listener_leave(l, f);
      continue;
    }
    mr_listener_leave(l, f);
    f->op = "accept";
    f->deadline = deadline;
    mr_reason r = mr_park_here(L, f, until, each, accept_k);
    if (r == MR_WOKEN || (each && r == MR_TIMEOUT)) {
      if (r == MR_TIMEOUT) mr_listener_unwait(l, &f->wait);
      continue;
    }
    mr_listener_unwait(l, &f->wait);
    if (each && r == MR_CLOSED) return 0;
    return mr_net_fail_wait(L, f, r);
  }
}

static int accept_k(lua_State *L, int status, lua_KContext each) {
  mr_fiber *f = mr_self_fiber(L);
  mr_listener *l = check(L);
  mr_reason r = mr_wake(f);
  (void)status;
  if (r != MR_WOKEN) mr_listener_unwait(l, &f->wait);
  if (r == MR_WOKEN || (each && r == MR_TIMEOUT)) return accept_on(L, f, l, (int)each);
  if (each && r == MR_CLOSED) return 0;
  return mr_net_fail_wait(L, f, r);
}

/* server:accept([seconds]) -> connection | nil, message, code */
static int l_server_accept(lua_State *L) {
  mr_listener *l = check(L);
  mr_fiber *f = mr_self_fiber(L);
  f->deadline = mr_deadline_or(L, 2, l->patience);
  lua_settop(L, 1);
  return accept_on(L, f, l, 0);
}

static int l_next(lua_State *L) {
  mr_listener *l = check(L);
  mr_fiber *f = mr_self_fiber(L);
  lua_settop(L, 1);
  f->deadline = UINT64_MAX;
  return accept_on(L, f, l, 1);
}

/* for connection in server:connections() do … end: until the server is closed */
static int l_server_connections(lua_State *L) {
  check(L);
  mr_function_push(L, l_next);
  lua_pushvalue(L, 1);
  return 2;
}

/* ---- the rest of servers ---- */

/* server:close() -> true: for every process that has it */
static int l_server_close(lua_State *L) {
  mr_listener_close(check(L), mr_self_fiber(L));
  lua_pushboolean(L, 1);
  return 1;
}

/* server:closed() -> boolean */
static int l_server_closed(lua_State *L) {
  mr_listener *l = check(L);
  int open = mr_listener_enter(l);
  if (open) mr_listener_leave(l, mr_self_fiber(L));
  lua_pushboolean(L, !open);
  return 1;
}

/* server:timeout([seconds]) -> server */
static int l_server_timeout(lua_State *L) {
  mr_listener *l = check(L);
  uint64_t at = mr_deadline(L, 2);
  l->patience = at == UINT64_MAX || at == 0 ? at : (uint64_t)(lua_tonumber(L, 2) * 1e9);
  lua_settop(L, 1);
  return 1;
}

/* server:address() -> host, port | path */
static int l_server_address(lua_State *L) {
  mr_listener *l = check(L);
  port_addr a;
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  int err = port_net_local(l->fd, &a);
  mr_listener_leave(l, mr_self_fiber(L));
  return err ? mr_net_error(L, err) : mr_push_addr(L, &a);
}

/* server:option(name[, value]) -> value | true | nil, message, code */
static int l_server_option(lua_State *L) {
  mr_listener *l = check(L);
  luaL_checkstring(L, 2);
  if (!lua_isnoneornil(L, 3) && !lua_isboolean(L, 3)) luaL_checkinteger(L, 3);
  luaL_argcheck(L, port_net_option_known(lua_tostring(L, 2)), 2, "no such option");
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  int n = mr_option(L, l->fd);
  mr_listener_leave(l, mr_self_fiber(L));
  return n;
}

/* server:fd() -> number */
static int l_server_fd(lua_State *L) {
  mr_listener *l = check(L);
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  lua_pushinteger(L, l->fd);
  mr_listener_leave(l, mr_self_fiber(L));
  return 1;
}

/* ---- select: gives a connection, or the failure ---- */

static int wait_link(mr_case *k) {
  mr_listener *l = k->object;
  if (!mr_listener_enter(l)) return 1;
  k->what = !mr_watch_wait(l->watch, MR_READ, &k->wait);
  mr_listener_leave(l, k->wait.fiber);
  return !k->what;
}

static void wait_unlink(mr_case *k) {
  if (k->what) mr_listener_unwait(k->object, &k->wait);
  k->what = 0;
}

static int wait_take(lua_State *L, mr_case *k, mr_reason why) {
  mr_listener *l = k->object;
  int fd;
  (void)why;
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  int err = mr_listener_accept(l, &fd, mr_self_fiber(L));
  mr_listener_leave(l, mr_self_fiber(L));
  if (err == EAGAIN) return -1;
  return err ? mr_net_error(L, err) : accepted(L, l, fd);
}

static const mr_waitclass waits = { "accept", wait_link, wait_unlink, wait_take, NULL, 0 };

static const luaL_Reg meta[] = { { "__close", mr_close_meta }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "accept", l_server_accept },
  { "connections", l_server_connections },
  { "close", l_server_close },
  { "closed", l_server_closed },
  { "timeout", l_server_timeout },
  { "address", l_server_address },
  { "option", l_server_option },
  { "fd", l_server_fd },
  { NULL, NULL }
};

static void push(lua_State *L, mr_shared *o);
static const mr_class class = { .share = { .name = "server", .destroy = mr_listener_destroy, .push = push }, .tname = TNAME, .meta = meta,
                                .methods = methods, .wait = &waits };
static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

/* ---- listening ---- */

typedef struct setup { int backlog, reuseport, v6only; } setup;

static void setup_get(lua_State *L, int idx, setup *s) {
  if (!lua_istable(L, idx)) return;
  mr_options_check(L, idx, idx == 1 ? "host, port, path, backlog, reuseport, v6only" : "backlog, reuseport, v6only");
  if (lua_getfield(L, idx, "backlog") != LUA_TNIL) s->backlog = (int)luaL_checkinteger(L, -1);
  if (lua_getfield(L, idx, "reuseport") != LUA_TNIL) s->reuseport = lua_toboolean(L, -1);
  if (lua_getfield(L, idx, "v6only") != LUA_TNIL) s->v6only = lua_toboolean(L, -1);
  lua_pop(L, 3);
  luaL_argcheck(L, s->backlog > 0, idx, "field 'backlog' must be at least 1");
}

static int open_at(const port_addr *a, const setup *s, int *fd) {
  int family = port_addr_family(a);
  int err = family == PORT_UNIX ? port_net_unlink_stale(a) : 0;
  if (err || (err = port_net_socket(family, PORT_STREAM, fd)) != 0) return err;
  if (family != PORT_UNIX) {
    port_net_option_set(*fd, "reuseaddr", 1);
    port_net_nodelay(*fd);                       /* connections inherit it */
    if (family == PORT_INET6) err = port_net_option_set(*fd, "v6only", s->v6only);
    if (!err && s->reuseport) err = port_net_option_set(*fd, "reuseport", 1);
  }
  if (!err) err = port_net_bind(*fd, a);
  if (!err) err = port_net_listen(*fd, s->backlog);
  if (err) port_net_close(*fd);
  return err;
}

/* Nobody in particular means every interface, of both families where the system can. */
static int open_any(int port, setup *s, int *fd) {
  port_addr a;
  port_addr_any(&a, PORT_INET6, port);
  int err = open_at(&a, s, fd);
  if ((err != EAFNOSUPPORT && err != EADDRNOTAVAIL) || s->v6only) return err;
  port_addr_any(&a, PORT_INET, port);
  return open_at(&a, s, fd);
}

static int listening(lua_State *L, int fd, const mr_where *w) {
  int err;
  mr_listener *l = mr_listener_new(fd, &err);
  if (!l) return mr_net_error(L, err);
  if (w->is_path) l->path = w->path;
  mr_shared_push_new(L, &l->shared);
  return 1;
}

static int refuse(lua_State *L, int err, const mr_where *w) {
  char text[PORT_ADDR_TEXT];
  if (w->is_path) {
    port_addr_text(&w->path, text);
    lua_pushfstring(L, "listen at unix:%s", text);
  } else {
    lua_pushfstring(L, "listen at %s:%d", w->host && *w->host ? w->host : "*", w->port);
  }
  return mr_net_fail_at(L, err, lua_tostring(L, -1));
}

static int listen_names(lua_State *L, const mr_where *w, setup *s);

static int names_k(lua_State *L, int status, lua_KContext ctx) {
  mr_where w;
  setup s = { 4096, 0, 0 };
  (void)status;
  (void)ctx;
  int n = mr_names_ended(L, mr_names_at(L, 3), mr_wake(mr_self_fiber(L)));
  if (n) return n;
  mr_where_get(L, 1, &w);
  setup_get(L, 1, &s);
  setup_get(L, 2, &s);
  return listen_names(L, &w, &s);
}

/* The first address of the name that works. */
static int listen_names(lua_State *L, const mr_where *w, setup *s) {
  mr_resolve *q = mr_names_at(L, 3);
  port_addr a;
  int fd, err = EADDRNOTAVAIL;
  for (int i = 0; i < q->n; i++) {
    if (port_addr_native(&a, q->list[i].u.bytes, q->list[i].len, w->port) != 0) continue;
    if ((err = open_at(&a, s, &fd)) == 0) return listening(L, fd, w);
  }
  return refuse(L, err, w);
}

/* net.listen(where[, options]) -> server | nil, message, code */
static int l_listen(lua_State *L) {
  mr_where w;
  setup s = { 4096, 0, 0 };
  port_addr a;
  int fd, err;
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushnil(L);                                /* 3: the name's request */
  mr_where_get(L, 1, &w);
  setup_get(L, 1, &s);
  setup_get(L, 2, &s);
  if (w.is_path) err = open_at(&w.path, &s, &fd);
  else if (!w.host || !*w.host || strcmp(w.host, "*") == 0) err = open_any(w.port, &s, &fd);
  else if (port_addr_numeric(&a, w.host, w.port) == 0) err = open_at(&a, &s, &fd);
  else {
    mr_names_push(L, w.host, 0);
    lua_copy(L, -1, 3);
    int n = mr_names_wait(L, mr_names_at(L, 3), UINT64_MAX, 0, names_k);
    return n ? n : listen_names(L, &w, &s);
  }
  return err ? refuse(L, err, &w) : listening(L, fd, &w);
}

/* ---- names ---- */

static int addresses(lua_State *L, mr_resolve *q) {
  port_addr a;
  char text[PORT_ADDR_TEXT];
  lua_createtable(L, q->n, 0);
  for (int i = 0, n = 0; i < q->n; i++) {
    if (port_addr_native(&a, q->list[i].u.bytes, q->list[i].len, 0) != 0) continue;
    port_addr_text(&a, text);
    lua_pushstring(L, text);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

static int resolve_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  mr_resolve *q = mr_names_at(L, 3);
  int n = mr_names_ended(L, q, mr_wake(mr_self_fiber(L)));
  return n ? n : addresses(L, q);
}

/* net.resolve(host[, seconds]) -> list of addresses | nil, message, code */
static int l_resolve(lua_State *L) {
  const char *host = luaL_checkstring(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 2);
  mr_resolve *q = mr_names_push(L, host, 0);
  int n = mr_names_wait(L, q, deadline, 0, resolve_k);
  return n ? n : addresses(L, q);
}

static const luaL_Reg functions[] = {
  { "listen", l_listen }, { "connect", mr_dial }, { "udp", mr_udp_new }, { "resolve", l_resolve }, { NULL, NULL }
};

MR_EXPORT int luaopen_mare_net(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  return 1;
}

void mr_net_setup(void) {
  mr_listener_type = &class.share;
  mr_conn_setup();
}
