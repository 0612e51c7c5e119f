/*
 * udp: sockets of datagrams, in C and in Lua. Like a connection such a socket belongs to one process at a time and is moved in messages.
 * A socket that is not bound to an address of one family speaks both: it is one of IPv6, and IPv4 addresses are mapped.
 */
#include "module/net.h"
#include "observe/trace.h"
#include "port/errors.h"

#include <stdlib.h>
#include <string.h>

#define TNAME "udp socket"

typedef struct mr_udp {
  mr_movable base;                   /* first */
  int fd;                            /* -1: closed */
  mr_watch *watch;
  unsigned char family;              /* PORT_INET, PORT_INET6, PORT_UNIX */
  unsigned char reading;             /* a fiber is in receive */
  unsigned short users, selects;     /* fibers that send, and calls of select; the latter alone */
  mr_fiber *selector;                /* who waits in these: one fiber, as only one is woken when a datagram comes */
  uint64_t patience;
  port_addr path;                    /* of a Unix socket: its file goes with it */
} mr_udp;

static void udp_push(lua_State *L, mr_shared *o);
static const mr_class class;

static mr_udp *udp_check(lua_State *L) { return (mr_udp *)mr_shared_check(L, 1, &class.share, TNAME); }

static void drop(mr_udp *u, mr_fiber *near) {
  if (u->fd < 0) return;
  int fd = u->fd;
  u->fd = -1;
  mr_watch_close(u->watch, near);
  port_net_close(fd);
  port_net_unlink_own(&u->path);
}

static void dropped(mr_shared *o) { drop((mr_udp *)o, NULL); }

static void destroy(mr_shared *o) {
  dropped(o);
  free(o);
}

static const char *busy(mr_shared *o) {
  mr_udp *u = (mr_udp *)o;
  return u->reading || u->users ? "udp socket is in use: another fiber sends, receives or selects it. Send it when that is over" : NULL;
}

static int udp_fail(lua_State *L, mr_udp *u, int err) { return u->fd < 0 ? mr_net_fail(L, "closed", "EBADF") : mr_net_error(L, err); }

/* ---- receiving ---- */

/* `what`: the address is wanted, too. A datagram that could not be delivered is told to the next call as an error, once. */
static int datagram_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_udp *u = o;
  port_addr a;
  int from = w->what;
  (void)why;
  if (u->fd < 0) return u->reading = 0, udp_fail(L, u, EBADF);
  char *s = mr_scratch(w->fiber);
  mr_trace_begin(TRACE_RECEIVE);
  long r = s ? port_net_receive(u->fd, s, MR_SCRATCH, &a) : -ENOMEM;
  mr_trace_finish(r);
  if (r < 0 && PORT_WOULD_BLOCK(-r)) return -1;
  u->reading = 0;
  if (r < 0) return udp_fail(L, u, (int)-r);
  lua_pushlstring(L, s, (size_t)r);
  return from ? 1 + mr_push_addr(L, &a) : 1;
}

static int datagram_link(void *o, mr_wait *w) { return mr_watch_wait(((mr_udp *)o)->watch, MR_READ, w); }

static void datagram_unlink(void *o, mr_wait *w) {
  mr_udp *u = o;
  if (u->fd >= 0) mr_watch_unwait(u->watch, w);
}

static int datagram_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)w;
  (void)why;
  ((mr_udp *)o)->reading = 0;
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass receiving = { .run = { .op = "receive_from", .link = datagram_link, .unlink = datagram_unlink }, .take = datagram_take,
                                        .give_up = datagram_give_up };

static int receive(lua_State *L, int from) {
  mr_udp *u = udp_check(L);
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  if (u->reading || u->selects) return mr_net_fail(L, "another fiber receives from this socket", "EBUSY");
  uint64_t deadline = mr_deadline_or(L, 2, u->patience);
  u->reading = 1;
  lua_settop(L, 1);
  return mr_await_as(L, mr_self_fiber(L), &receiving, u, (unsigned short)from, deadline);
}

/* socket:receive([seconds]) -> data | nil, message, code */
static int l_udp_receive(lua_State *L) { return receive(L, 0); }
/* socket:receive_from([seconds]) -> data, host, port | nil, message, code */
static int l_udp_receive_from(lua_State *L) { return receive(L, 1); }

/* ---- sending ---- */

enum { DATA = 2, TO = 3 };           /* stack: the socket, the datagram, the address as bytes or nil */

static int datagram_send_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_udp *u = o;
  size_t len;
  const char *data = lua_tolstring(L, DATA, &len);
  (void)w;
  (void)why;
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  mr_trace_begin(TRACE_SEND);
  long r = port_net_send(u->fd, data, len, (const port_addr *)lua_touserdata(L, TO));
  mr_trace_finish(r);
  if (r >= 0) return lua_pushboolean(L, 1), 1;
  return PORT_WOULD_BLOCK(-r) ? -1 : udp_fail(L, u, (int)-r);
}

static int datagram_send_link(void *o, mr_wait *w) {
  mr_udp *u = o;
  if (mr_watch_wait(u->watch, MR_WRITE, w)) return 1;
  u->users++;
  w->linked = 1;
  return 0;
}

static void datagram_send_unlink(void *o, mr_wait *w) {
  mr_udp *u = o;
  u->users = (unsigned short)(u->users - w->linked);
  if (u->fd >= 0) mr_watch_unwait(u->watch, w);
}

static const mr_waitclass sending = { .run = { .op = "send_to", .link = datagram_send_link, .unlink = datagram_send_unlink, .each = 1 }, .take = datagram_send_take };

static int datagram_send(lua_State *L, mr_udp *u) {
  return mr_await(L, mr_self_fiber(L), &sending, u, mr_deadline_after(u->patience));
}

/* socket:send(data) -> true | nil, message, code: to where it is connected to */
static int l_udp_send(lua_State *L) {
  mr_udp *u = udp_check(L);
  luaL_checkstring(L, DATA);
  lua_settop(L, 2);
  lua_pushnil(L);
  return datagram_send(L, u);
}

/* The address at `where` of the arguments becomes bytes at TO; a name is resolved first. */
static void keep_address(lua_State *L, mr_udp *u, port_addr *a) {
  mr_outside_address(L, a);
  if (u->family == PORT_INET6) port_addr_map(a);
  memcpy(lua_newuserdatauv(L, sizeof *a, 0), a, sizeof *a);
  lua_replace(L, TO);
  lua_settop(L, TO);
}

/* The hold of the name is at 5, its port at 6. */
static int send_named(lua_State *L, mr_request *r) {
  mr_resolve *q = (mr_resolve *)r;
  mr_udp *u = udp_check(L);
  port_addr a;
  if (q->n == 0) return mr_names_fail(L, q);
  int port = (int)lua_tointeger(L, 6);
  for (int i = 0; i < q->n; i++) {
    if (port_addr_native(&a, q->list[i].u.bytes, q->list[i].len, port) != 0) continue;
    if (u->family == PORT_INET && port_addr_family(&a) != PORT_INET) continue;
    keep_address(L, u, &a);
    return datagram_send(L, u);
  }
  return udp_fail(L, u, EAFNOSUPPORT);
}

/* socket:send_to(data, host, port) or (data, "unix:/path") -> true | nil, message, code */
static int l_udp_send_to(lua_State *L) {
  mr_udp *u = udp_check(L);
  luaL_checkstring(L, DATA);
  mr_where w;
  port_addr a;
  lua_settop(L, 4);
  if (lua_isnil(L, 4)) mr_where_get(L, 3, &w);
  else mr_where_pair(L, 3, &w);
  u = udp_check(L);                              /* what was converted may have run anything */
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  if (w.is_path) a = w.path;
  else if (port_addr_numeric(&a, w.host && *w.host ? w.host : "127.0.0.1", w.port) != 0) {
    mr_names_push(L, w.host, 1, send_named);
    lua_insert(L, 5);
    lua_settop(L, 5);
    lua_pushinteger(L, w.port);
    return mr_names_await(L, 5, mr_deadline_after(u->patience));
  }
  keep_address(L, u, &a);
  return datagram_send(L, u);
}

/* socket:connect(host, port) or ("unix:/path") or () -> true | nil, message, code: an udp_address, not a name; () undoes it */
static int l_udp_connect(lua_State *L) {
  mr_udp *u = udp_check(L);
  mr_where w;
  port_addr a;
  int err;
  lua_settop(L, 3);
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  if (lua_isnil(L, 2)) {
    err = port_net_disconnect(u->fd);
  } else {
    if (lua_isnil(L, 3)) mr_where_get(L, 2, &w);
    else mr_where_pair(L, 2, &w);
    if (w.is_path) a = w.path;
    else luaL_argcheck(L, port_addr_numeric(&a, w.host && *w.host ? w.host : "127.0.0.1", w.port) == 0, 2,
                       "an address is needed here, not a name: see net.resolve");
    u = udp_check(L);
    if (u->fd < 0) return udp_fail(L, u, EBADF);
    if (u->family == PORT_INET6) port_addr_map(&a);
    err = port_net_connect(u->fd, &a);
  }
  if (err) return udp_fail(L, u, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- the rest ---- */

/* socket:close() -> true */
static int l_udp_close(lua_State *L) {
  drop(udp_check(L), mr_self_fiber(L));
  lua_pushboolean(L, 1);
  return 1;
}

/* socket:closed() -> boolean */
static int l_udp_closed(lua_State *L) {
  lua_pushboolean(L, udp_check(L)->fd < 0);
  return 1;
}

/* socket:timeout([seconds]) -> socket */
static int l_udp_timeout(lua_State *L) {
  mr_udp *u = udp_check(L);
  u->patience = mr_patience(L, 2);
  lua_settop(L, 1);
  return 1;
}

static int udp_address(lua_State *L, int (*get)(int, port_addr *)) {
  mr_udp *u = udp_check(L);
  port_addr a;
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  int err = get(u->fd, &a);
  return err ? udp_fail(L, u, err) : mr_push_addr(L, &a);
}

/* socket:address() -> host, port | path */
static int l_udp_address(lua_State *L) { return udp_address(L, port_net_local); }
/* socket:peer() -> host, port | path | nil, message, code */
static int l_udp_peer(lua_State *L) { return udp_address(L, port_net_peer); }

/* socket:option(name[, value]) -> value | true | nil, message, code */
static int l_udp_option(lua_State *L) {
  mr_udp *u = udp_check(L);
  mr_setting s = mr_setting_get(L);
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  mr_setting_do(&s, u->fd);
  return mr_setting_push(L, &s);
}

/* socket:fd() -> number */
static int l_udp_fd(lua_State *L) {
  mr_udp *u = udp_check(L);
  if (u->fd < 0) return udp_fail(L, u, EBADF);
  lua_pushinteger(L, u->fd);
  return 1;
}

static int selected_by_other(const mr_udp *u, const mr_fiber *f) { return u->fd >= 0 && u->selects && u->selector != f; }

static int udp_case_link(void *o, mr_wait *w) {
  mr_udp *u = o;
  if (selected_by_other(u, w->fiber)) return 1;
  if (u->fd < 0 || mr_watch_wait(u->watch, MR_READ, w)) return 1;
  u->users++;
  u->selects++;
  u->selector = w->fiber;
  w->linked = 1;
  return 0;
}

static void udp_case_unlink(void *o, mr_wait *w) {
  mr_udp *u = o;
  if (!w->linked) return;
  w->linked = 0;
  u->users--;
  u->selects--;
  if (u->fd >= 0) mr_watch_unwait(u->watch, w);
}

static int udp_case_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_udp *u = o;
  (void)why;
  if (u->reading) return mr_net_fail(L, "another fiber receives from this socket", "EBUSY");
  if (selected_by_other(u, w->fiber)) return mr_net_fail(L, "another fiber selects this socket", "EBUSY");
  if (u->fd >= 0 && !port_net_readable(u->fd)) return -1;
  lua_pushboolean(L, 1);
  return 1;
}

static const mr_waitclass readable = { .run = { .op = "receive_from", .link = udp_case_link, .unlink = udp_case_unlink, .each = 1 }, .take = udp_case_take };

static const luaL_Reg meta[] = { { "__close", mr_close_meta }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "send_to", l_udp_send_to },
  { "receive_from", l_udp_receive_from },
  { "send", l_udp_send },
  { "receive", l_udp_receive },
  { "connect", l_udp_connect },
  { "close", l_udp_close },
  { "closed", l_udp_closed },
  { "timeout", l_udp_timeout },
  { "address", l_udp_address },
  { "peer", l_udp_peer },
  { "option", l_udp_option },
  { "fd", l_udp_fd },
  { NULL, NULL }
};

static const mr_class class = { .share = { .name = "udp socket", .destroy = destroy, .push = udp_push, .moves = 1, .dropped = dropped,
                                           .busy = busy }, .tname = TNAME, .meta = meta,
                                .methods = methods, .wait = &readable };
static void udp_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

/* ---- making one ---- */

static int open_at(const port_addr *a, int *fd, int family) {
  int err = port_net_socket(family, PORT_DATAGRAM, fd);
  if (err) return err;
  if (family == PORT_INET6) err = port_net_option_set(*fd, "v6only", 0);
  if (!err && a) err = port_net_bind(*fd, a);
  if (err) port_net_close(*fd);
  return err;
}

static int open_any(int port, int bound, int *fd, int *family) {
  port_addr a;
  *family = PORT_INET6;
  port_addr_any(&a, PORT_INET6, port);
  int err = open_at(bound ? &a : NULL, fd, PORT_INET6);
  if (err != EAFNOSUPPORT && err != EADDRNOTAVAIL) return err;
  *family = PORT_INET;
  port_addr_any(&a, PORT_INET, port);
  return open_at(bound ? &a : NULL, fd, PORT_INET);
}

static int open_where(lua_State *L, mr_where *w, int *fd, int *family) {
  port_addr a;
  if (w->is_path) {
    *family = PORT_UNIX;
    return open_at(&w->path, fd, PORT_UNIX);
  }
  if (!w->host || !*w->host || strcmp(w->host, "*") == 0) return open_any(w->port, 1, fd, family);
  luaL_argcheck(L, port_addr_numeric(&a, w->host, w->port) == 0, 1, "an address is needed here, not a name: see net.resolve");
  *family = port_addr_family(&a);
  return open_at(&a, fd, *family);
}

/* net.udp([where]) -> socket | nil, message, code */
int mr_udp_new(lua_State *L) {
  mr_where w = { 0 };
  int fd, family, err;
  if (lua_isnoneornil(L, 1)) {
    err = open_any(0, 0, &fd, &family);
  } else {
    mr_where_get(L, 1, &w);
    err = open_where(L, &w, &fd, &family);
  }
  if (err) return mr_net_error(L, err);
  mr_udp *u = calloc(1, sizeof *u);
  if (u) u->watch = mr_watch_open(fd, &err);
  if (!u || !u->watch) {
    port_net_close(fd);
    free(u);
    return mr_net_error(L, err ? err : ENOMEM);
  }
  u->base.shared.type = &class.share;
  atomic_init(&u->base.shared.refs, 1);
  u->fd = fd;
  u->family = (unsigned char)family;
  u->patience = UINT64_MAX;
  if (w.is_path) u->path = w.path;
  mr_shared_push_new(L, &u->base.shared);
  return 1;
}

