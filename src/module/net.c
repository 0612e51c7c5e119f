/* net: mare.net - listening, and names. Connecting is in dial.c, connections in conn.c, datagrams in udp.c. */
#include "module/net.h"
#include "io/context.h"

#include <limits.h>
#include <string.h>

#define TNAME "server"

static mr_listener *server_check(lua_State *L) { return (mr_listener *)mr_shared_check(L, 1, mr_listener_type, TNAME); }

/* ---- options of sockets ---- */

static int is_flag(const char *name) { return strstr("nodelay keepalive reuseaddr reuseport broadcast v6only", name) != NULL; }

static int number(lua_State *L) {
  lua_Integer n = luaL_checkinteger(L, 3);
  luaL_argcheck(L, n >= INT_MIN && n <= INT_MAX, 3, "a number of 32 bits expected");
  return (int)n;
}

mr_setting mr_setting_get(lua_State *L) {
  mr_setting s = { .name = luaL_checkstring(L, 2), .set = !lua_isnoneornil(L, 3) };
  luaL_argcheck(L, port_net_option_known(s.name), 2,
                "no such option; there are nodelay, keepalive, reuseaddr, reuseport, rcvbuf, sndbuf, broadcast, v6only, ttl, linger");
  if (lua_isboolean(L, 3)) s.value = strcmp(s.name, "linger") == 0 ? -1 + lua_toboolean(L, 3) : lua_toboolean(L, 3);
  else if (s.set) s.value = number(L);
  return s;
}

void mr_setting_do(mr_setting *s, int fd) {
  s->err = s->set ? port_net_option_set(fd, s->name, s->value) : port_net_option_get(fd, s->name, &s->value);
}

int mr_setting_push(lua_State *L, const mr_setting *s) {
  if (s->err) return mr_net_error(L, s->err);
  if (s->set) lua_pushboolean(L, 1);
  else if (is_flag(s->name)) lua_pushboolean(L, s->value);
  else if (s->value < 0) lua_pushboolean(L, 0);
  else lua_pushinteger(L, s->value);
  return 1;
}

/* ---- accepting ---- */

static mr_seat *seat_of(mr_listener *l, mr_fiber *f) { return mr_seat_of(l->rota, f->job); }

static int accepted(lua_State *L, mr_listener *l, mr_seat *s, int fd) {
  int err;
  mr_conn *c = mr_conn_new(fd, &err);
  if (!c) {
    if (s) mr_seat_done(s);
    return mr_net_error(L, err);
  }
  c->seat = s;
  c->accepted = 1;
  if (l->context && (err = mr_tls_serve(c, l->context)) != 0) {
    mr_release(&c->base.shared);
    return mr_net_error(L, err);
  }
  return mr_push_conn(L, c);
}

#define SHORTAGE 100000000u          /* ns until a server without descriptors tries again */

static int is_shortage(int err) { return err == EMFILE || err == ENFILE || err == ENOBUFS || err == ENOMEM; }

/* Of the loop over connections: it ends when the server is closed, and outlives a shortage of descriptors, until there may be some again. */
enum { ONE, EACH };

static int accept_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_listener *l = o;
  mr_fiber *f = w->fiber;
  mr_seat *s = seat_of(l, f);
  int fd, each = w->what == EACH;
  (void)why;
  if (!mr_listener_enter(l)) return mr_listener_pass(l, s, f), each ? 0 : mr_net_fail(L, "closed", "EBADF");
  int err = mr_listener_accept(l, s, &fd, &f->deadline, f);
  mr_listener_leave(l, f);
  if (err == 0) return accepted(L, l, s, fd);
  if (err == EAGAIN) return -1;
  if (each && is_shortage(err)) return f->deadline = port_now() + SHORTAGE, -1;
  if (!each) return mr_net_error(L, err);
  mr_net_error(L, err);
  return luaL_error(L, "accept: %s", lua_tostring(L, -2));
}

static int accept_link(void *o, mr_wait *w) {
  mr_listener *l = o;
  if (!mr_listener_enter(l)) return 1;
  w->linked = !mr_listener_wait(l, seat_of(l, w->fiber), w);
  mr_listener_leave(l, w->fiber);
  return !w->linked;
}

static void accept_unlink(void *o, mr_wait *w) { mr_listener_unwait(o, w); }

/* A time that is over may be one for which a connection was left to others. */
static int accept_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_seat *s = seat_of(o, w->fiber);
  (void)L;
  if (why == MR_TIMEOUT && mr_listener_leaves(s)) return MR_AWAIT_ON;
  mr_listener_pass(o, s, w->fiber);
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass accepting = { .run = { .op = "accept", .link = accept_link, .unlink = accept_unlink }, .take = accept_take,
                                        .give_up = accept_give_up };

/* Of a case of select: it may go on without having looked again. */
static void accept_case_unlink(void *o, mr_wait *w) {
  mr_fiber *f = w->fiber;
  if (w->linked) mr_listener_unwait(o, w);
  w->linked = 0;
  if (atomic_load(&mr_proc_of(f)->status) >= PROC_DONE || (f->reason == MR_WOKEN && f->fired == w)) return;
  mr_listener_pass(o, seat_of(o, f), f);
}

static const mr_waitclass selected = { .run = { .op = "accept", .link = accept_link, .unlink = accept_case_unlink, .each = 1 }, .take = accept_take };

/* server:accept([seconds]) -> connection | nil, message, code */
static int l_server_accept(lua_State *L) {
  mr_listener *l = server_check(L);
  uint64_t deadline = mr_deadline_or(L, 2, l->patience);
  lua_settop(L, 1);
  return mr_await_as(L, mr_self_fiber(L), &accepting, l, ONE, deadline);
}

static int l_next(lua_State *L) {
  mr_listener *l = server_check(L);
  lua_settop(L, 1);
  return mr_await_as(L, mr_self_fiber(L), &accepting, l, EACH, UINT64_MAX);
}

/* for connection in server:connections() do … end: until the server is closed */
static int l_server_connections(lua_State *L) {
  server_check(L);
  mr_function_push(L, l_next);
  lua_pushvalue(L, 1);
  return 2;
}

/* ---- the rest of servers ---- */

/* server:close() -> true: for every process that has it */
static int l_server_close(lua_State *L) {
  mr_listener_close(server_check(L), mr_self_fiber(L));
  lua_pushboolean(L, 1);
  return 1;
}

/* server:closed() -> boolean */
static int l_server_closed(lua_State *L) {
  mr_listener *l = server_check(L);
  int open = mr_listener_enter(l);
  if (open) mr_listener_leave(l, mr_self_fiber(L));
  lua_pushboolean(L, !open);
  return 1;
}

/* server:timeout([seconds]) -> server */
static int l_server_timeout(lua_State *L) {
  mr_listener *l = server_check(L);
  l->patience = mr_patience(L, 2);
  lua_settop(L, 1);
  return 1;
}

/* server:address() -> host, port | path */
static int l_server_address(lua_State *L) {
  mr_listener *l = server_check(L);
  port_addr a;
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  int err = port_net_local(l->fd, &a);
  mr_listener_leave(l, mr_self_fiber(L));
  return err ? mr_net_error(L, err) : mr_push_addr(L, &a);
}

/* server:option(name[, value]) -> value | true | nil, message, code */
static int l_server_option(lua_State *L) {
  mr_listener *l = server_check(L);
  mr_setting s = mr_setting_get(L);
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  mr_setting_do(&s, l->fd);
  mr_listener_leave(l, mr_self_fiber(L));
  return mr_setting_push(L, &s);
}

/* server:fd() -> number */
static int l_server_fd(lua_State *L) {
  mr_listener *l = server_check(L);
  if (!mr_listener_enter(l)) return mr_net_fail(L, "closed", "EBADF");
  lua_pushinteger(L, l->fd);
  mr_listener_leave(l, mr_self_fiber(L));
  return 1;
}

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

static void server_push(lua_State *L, mr_shared *o);
static const mr_class class = { .share = { .name = "server", .destroy = mr_listener_destroy, .push = server_push }, .tname = TNAME, .meta = meta,
                                .methods = methods, .wait = &selected };
static void server_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

/* ---- listening ---- */

static void setup_get(lua_State *L, int idx, mr_listening *s) {
  if (!lua_istable(L, idx)) return;
  mr_options_check(L, idx, idx == 1 ? "host, port, path, backlog, reuseport, v6only, mode" : "backlog, reuseport, v6only, mode");
  s->mode = mr_integer_field(L, idx, "listen", "mode", 0, 07777, s->mode);
  s->backlog = mr_integer_field(L, idx, "listen", "backlog", 1, INT_MAX, s->backlog);
  s->reuseport = mr_boolean_field(L, idx, "listen", "reuseport", s->reuseport);
  s->v6only = mr_boolean_field(L, idx, "listen", "v6only", s->v6only);
}

/* Where and how, from the arguments. */
static mr_listening arguments(lua_State *L, mr_where *w) {
  mr_listening how = { .backlog = 4096, .mode = -1 };
  mr_where_get(L, 1, w);
  setup_get(L, 1, &how);
  setup_get(L, 2, &how);
  return how;
}

static int listening(lua_State *L, mr_listener *l) {
  mr_shared_push_new(L, &l->shared);
  return 1;
}

static int refuse(lua_State *L, int err, const mr_where *w) {
  if (w->is_path) {
    mr_path_push(L, &w->path);
    lua_pushfstring(L, "listen at %s", lua_tostring(L, -1));
  } else {
    lua_pushfstring(L, "listen at %s:%d", w->host && *w->host ? w->host : "*", w->port);
  }
  return mr_net_fail_at(L, err, lua_tostring(L, -1));
}

/* The name at 1 is resolved: the first address of it that works. */
static int listen_names(lua_State *L, mr_request *r) {
  mr_resolve *q = (mr_resolve *)r;
  mr_where w;
  port_addr a;
  mr_listener *l;
  int err = EADDRNOTAVAIL;
  if (q->n == 0) return mr_names_fail(L, q);
  mr_listening how = arguments(L, &w);
  for (int i = 0; i < q->n; i++) {
    if (port_addr_native(&a, q->list[i].u.bytes, q->list[i].len, w.port) != 0) continue;
    if ((l = mr_listener_open(&a, &how, &err)) != NULL) return listening(L, l);
  }
  return refuse(L, err, &w);
}

/* (host, port[, options]) becomes ({ host =, port = }[, options]) */
static void join_pair(lua_State *L) {
  mr_where w;
  mr_where_pair(L, 1, &w);
  lua_settop(L, 3);
  lua_createtable(L, 0, 2);
  lua_pushvalue(L, 1);
  lua_setfield(L, 4, "host");
  lua_pushinteger(L, w.port);
  lua_setfield(L, 4, "port");
  if (!lua_isnil(L, 3)) luaL_checktype(L, 3, LUA_TTABLE);
  lua_replace(L, 1);
  lua_remove(L, 2);
}

/* net.listen(where[, options]) or (host, port[, options]) -> server | nil, message, code */
static int l_listen(lua_State *L) {
  mr_where w;
  mr_listener *l;
  port_addr a;
  int err;
  if (lua_isstring(L, 2)) join_pair(L);
  lua_settop(L, 2);
  if (!lua_isnil(L, 2)) luaL_checktype(L, 2, LUA_TTABLE);
  lua_pushnil(L);                                /* 3: the name's request */
  mr_listening how = arguments(L, &w);
  if (w.is_path) l = mr_listener_open(&w.path, &how, &err);
  else if (!w.host || !*w.host || strcmp(w.host, "*") == 0) l = mr_listener_open_any(w.port, &how, &err);
  else if (port_addr_numeric(&a, w.host, w.port) == 0) l = mr_listener_open(&a, &how, &err);
  else {
    mr_names_push(L, w.host, 0, listen_names);
    lua_copy(L, -1, 3);
    return mr_names_await(L, 3, UINT64_MAX);
  }
  return l ? listening(L, l) : refuse(L, err, &w);
}

/* ---- names ---- */

static int addresses(lua_State *L, mr_request *r) {
  mr_resolve *q = (mr_resolve *)r;
  port_addr a;
  char text[PORT_ADDR_TEXT];
  if (q->n == 0) return mr_names_fail(L, q);
  lua_createtable(L, q->n, 0);
  for (int i = 0, n = 0; i < q->n; i++) {
    if (port_addr_native(&a, q->list[i].u.bytes, q->list[i].len, 0) != 0) continue;
    port_addr_text(&a, text);
    lua_pushstring(L, text);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* net.resolve(host[, seconds]) -> list of addresses | nil, message, code */
static int l_resolve(lua_State *L) {
  const char *host = luaL_checkstring(L, 1);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 2);
  mr_names_push(L, host, 0, addresses);
  return mr_names_await(L, 3, deadline);
}

static const luaL_Reg functions[] = {
  { "listen", l_listen }, { "connect", mr_dial_connect }, { "udp", mr_udp_new }, { "resolve", l_resolve }, { NULL, NULL }
};

int luaopen_mare_net(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}

void mr_net_setup(void) {
  mr_listener_type = &class.share;
  mr_conn_setup();
}
