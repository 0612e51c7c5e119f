/*
 * socket: mare.socket.core - LuaSocket's objects as userdata: their life, classes, addresses, time limits. What waits is in socket_io.c,
 * socket_select.c; options in socket_option.c. Names and what needs several addresses is left to Lua (lua/mare/socket/).
 */
#include "module/socket.h"
#include "port/errors.h"

#include <stdlib.h>
#include <string.h>

const char *const mr_sock_class[SOCK_CLASSES + 1] = {
  "tcp{master}", "tcp{client}", "tcp{server}", "udp{unconnected}", "udp{connected}",
  "unixstream{master}", "unixstream{client}", "unixstream{server}", "unixdgram{unconnected}", "unixdgram{connected}", NULL
};
static char keys[SOCK_CLASSES];      /* of the metatables in the registry */

/* ---- classes ---- */

static uint64_t tag_of(const mr_sock *s) { return mr_secret ^ (uintptr_t)s ^ UINT64_C(0x736f636b6574); }

mr_sock *mr_sock_to(lua_State *L, int idx) {
  mr_sock *s = lua_rawlen(L, idx) == sizeof(mr_sock) ? lua_touserdata(L, idx) : NULL;
  return s && s->tag == tag_of(s) ? s : NULL;
}

/* LuaSocket names one class, or a group: "tcp{any}". */
static const char *expected(unsigned classes) {
  static const struct { unsigned classes; const char *name; } groups[] = {
    { SOCK_ANY_TCP, "tcp{any}" }, { SOCK_ANY_UDP, "udp{any}" }, { SOCK_ANY_STREAM, "unixstream{any}" }, { SOCK_ANY_DGRAM, "unixdgram{any}" },
  };
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
    if (classes == groups[i].classes) return groups[i].name;
  for (int i = 0; i < SOCK_CLASSES; i++)
    if (classes & SOCK_IS(i)) return mr_sock_class[i];
  return "socket";
}

/* What the caller of a method that several kinds have must have meant. */
static unsigned meant(const mr_sock *s, unsigned classes) {
  static const unsigned kinds[] = { SOCK_ANY_TCP, SOCK_ANY_UDP, SOCK_ANY_STREAM, SOCK_ANY_DGRAM };
  for (int i = 0; s && i < 4; i++)
    if ((SOCK_IS(s->class) & kinds[i]) && (classes & kinds[i])) return classes & kinds[i];
  for (int i = 0; i < 4; i++)
    if (classes & kinds[i]) return classes & kinds[i];
  return classes;
}

mr_sock *mr_sock_check(lua_State *L, unsigned classes) {
  mr_sock *s = mr_sock_to(L, 1);
  if (PORT_LIKELY(s && (classes & SOCK_IS(s->class)))) return s;
  mr_check_forked(L);
  lua_pushfstring(L, "%s expected", expected(meant(s, classes)));
  luaL_argerror(L, 1, lua_tostring(L, -1));
  return NULL;
}

void mr_sock_become(lua_State *L, int idx, int class) {
  mr_sock *s = lua_touserdata(L, idx);
  idx = lua_absindex(L, idx);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &keys[class]) != LUA_TTABLE) luaL_error(L, "the class '%s' is gone", mr_sock_class[class]);
  lua_setmetatable(L, idx);
  s->class = class;
}

mr_sock *mr_sock_push(lua_State *L, int class, int family) {
  mr_proc *p = mr_self(L);
  if (p->finalisers == 0) p->finalisers = 1;
  mr_sock *s = lua_newuserdatauv(L, sizeof *s, 0);
  memset(s, 0, sizeof *s);
  s->fd = -1;
  s->family = (unsigned char)family;
  s->block = s->total = -1;
  s->born = mr_sock_now();
  s->tag = tag_of(s);
  mr_sock_become(L, -1, class);
  return s;
}

int mr_sock_watch(mr_sock *s) {
  int err = 0;
  if (!s->watch) s->watch = mr_watch_open(s->fd, &err);
  return s->watch ? 0 : err;
}

static void unwatch(mr_sock *s, mr_fiber *near) {
  if (s->watch) mr_watch_close(s->watch, near);
  s->watch = NULL;
}

static void drop(mr_sock *s, mr_fiber *near) {
  int fd = s->fd;
  s->fd = -1;
  unwatch(s, near);
  if (fd >= 0) port_net_close(fd);
  s->taken++;
  s->lost = 0;
  mr_bytes_free(&s->in);
  mr_turn_refuse(&s->reading, near);
  mr_turn_refuse(&s->writing, near);
}

/* ---- failures ---- */

const char *mr_sock_text(int err, char *buf, size_t size) {
  switch (err) {
    case EPIPE: case ECONNRESET: case ECONNABORTED: return "closed";
    case ETIMEDOUT: return "timeout";
    case EADDRINUSE: return "address already in use";
    case EISCONN: return "already connected";
    case EACCES: return "permission denied";
    case ECONNREFUSED: return "connection refused";
    default: return port_error_text(err, buf, size);
  }
}

int mr_sock_fail(lua_State *L, int err) {
  char buf[128];
  lua_pushnil(L);
  lua_pushstring(L, mr_sock_text(err, buf, sizeof buf));
  return 2;
}

static int done(lua_State *L, int err) {
  if (err) return mr_sock_fail(L, err);
  lua_pushinteger(L, 1);
  return 1;
}

/* ---- time ---- */

double mr_sock_now(void) { return port_wall(); }

uint64_t mr_sock_deadline(const mr_sock *s) {
  double limit = s->block >= 0 && !(s->total >= 0 && s->total < s->block) ? s->block : s->total;
  if (!(limit >= 0) || limit > 9e9) return UINT64_MAX;
  return limit == 0 ? 0 : port_now() + (uint64_t)(limit * 1e9);
}

/* object:settimeout([seconds[, mode]]) -> 1 */
static int l_settimeout(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  lua_Number seconds = luaL_optnumber(L, 2, -1);
  const char *mode = luaL_optstring(L, 3, "b");
  luaL_argcheck(L, *mode == 'b' || *mode == 't' || *mode == 'r', 3, "invalid timeout mode");
  *(*mode == 'b' ? &s->block : &s->total) = seconds;
  return done(L, 0);
}

/* object:gettimeout() -> seconds each wait may take, seconds the call may take; negative: no limit */
static int l_gettimeout(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  lua_pushnumber(L, s->block);
  lua_pushnumber(L, s->total);
  return 2;
}

/* ---- life ---- */

/* core.new(class, family) -> object | nil, message: without a family its descriptor is made by the first address */
static int l_new(lua_State *L) {
  int class = luaL_checkoption(L, 1, NULL, mr_sock_class), family = (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, family == 0 || family == PORT_INET || family == PORT_INET6 || family == PORT_UNIX, 2, "no such family");
  mr_sock_push(L, class, family);
  return 1;
}

static int opens(mr_sock *s, int family) {
  int datagrams = SOCK_IS(s->class) & (SOCK_ANY_UDP | SOCK_ANY_DGRAM) ? 1 : 0;
  int err = port_net_socket(family, datagrams ? PORT_DATAGRAM : PORT_STREAM, &s->fd);
  if (err) s->fd = -1;
  else if (family == PORT_INET6) port_net_option_set(s->fd, "v6only", 1);
  return err;
}

/* core.open(object, family) -> 1 | nil, message: it has a descriptor of that family now; a new one unless its family is settled */
static int l_open(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  int family = (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, family == PORT_INET || family == PORT_INET6 || family == PORT_UNIX, 2, "no such family");
  if (s->fd >= 0 && s->family == family) return done(L, 0);
  if (s->fd >= 0) drop(s, mr_self_fiber(L));
  return done(L, opens(s, family));
}

/* core.settle(object, family): an address of that family has worked */
static int l_settle(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  int family = (int)luaL_checkinteger(L, 2);
  luaL_argcheck(L, family == PORT_INET || family == PORT_INET6 || family == PORT_UNIX, 2, "no such family");
  s->family = (unsigned char)family;
  return 0;
}

/* object:close() -> 1 */
static int l_close(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  drop(s, mr_self_fiber(L));
  return done(L, 0);
}

/* Metamethods have no upvalue in hosts. In a forked child the descriptor is the parent's business. */
static int l_gc(lua_State *L) {
  mr_sock *s = mr_sock_to(L, 1);
  if (s && !mr_forked()) drop(s, NULL);
  return 0;
}

static int l_tostring(lua_State *L) {
  mr_sock *s = mr_sock_to(L, 1);
  if (!s) luaL_argerror(L, 1, "socket expected");
  lua_pushfstring(L, "%s: %p", mr_sock_class[s->class], (void *)s);
  return 1;
}

/* core.become(object, class): as LuaSocket's objects do when they are connected */
static int l_become(lua_State *L) {
  mr_sock_check(L, SOCK_ANY);
  mr_sock_become(L, 1, luaL_checkoption(L, 2, NULL, mr_sock_class));
  lua_settop(L, 1);
  return 1;
}

/* core.class(value) -> the class's name, the family; nil for what is no object of ours */
static int l_class(lua_State *L) {
  mr_sock *s = mr_sock_to(L, 1);
  if (!s) return 0;
  lua_pushstring(L, mr_sock_class[s->class]);
  lua_pushinteger(L, s->family);
  return 2;
}

/* master:listen([backlog]) -> 1 | nil, message */
static int l_listen(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_MASTER) | SOCK_IS(SOCK_UNIX_MASTER));
  lua_Number backlog = luaL_optnumber(L, 2, 32);
  int err = port_net_listen(s->fd, backlog > 0x7fffffff ? 0x7fffffff : backlog > -2 ? (int)backlog : -1);
  if (err) return mr_sock_fail(L, err);
  mr_sock_become(L, 1, s->class == SOCK_MASTER ? SOCK_SERVER : SOCK_UNIX_SERVER);
  return done(L, 0);
}

/* client:shutdown([what]) -> 1 */
static int l_shutdown(lua_State *L) {
  static const char *const ways[] = { "receive", "send", "both", NULL };
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_CLIENT) | SOCK_IS(SOCK_UNIX_CLIENT));
  int way = luaL_checkoption(L, 2, "both", ways);
  port_net_shutdown(s->fd, way != 1, way != 0);
  return done(L, 0);
}

/* ---- what it is ---- */

/* object:getfd() -> descriptor, -1: it has none */
static int l_getfd(lua_State *L) {
  lua_pushinteger(L, mr_sock_check(L, SOCK_ANY)->fd);
  return 1;
}

/* object:setfd(descriptor): what it had before stays open, as with LuaSocket */
static int l_setfd(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  lua_Number fd = luaL_checknumber(L, 2);
  if (fd >= 0 && fd < PORT_SIM_FD) mr_outside_check(L, "setfd");
  unwatch(s, mr_self_fiber(L));
  s->fd = fd >= 0 && fd <= 0x7fffffff ? (int)fd : -1;
  if (s->fd >= 0) port_net_adopt(s->fd);
  return 0;
}

/* object:dirty() -> boolean: bytes were received and not asked for */
static int l_dirty(lua_State *L) {
  lua_pushboolean(L, mr_sock_check(L, SOCK_ANY)->in.len > 0);
  return 1;
}

static const char *family_name(const mr_sock *s) { return s->family == PORT_INET6 ? "inet6" : s->family == PORT_INET ? "inet" : "unspec"; }

/* object:getfamily() -> "inet4" | "inet6" */
static int l_getfamily(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY_TCP | SOCK_ANY_UDP);
  lua_pushstring(L, s->family == PORT_INET6 ? "inet6" : "inet4");
  return 1;
}

static int name(lua_State *L, mr_sock *s, int (*get)(int, port_addr *), int as_text) {
  port_addr a;
  int err = get(s->fd, &a);
  if (err) return mr_sock_fail(L, err);
  if (mr_push_addr(L, &a) == 1) return 1;
  if (as_text) lua_pushstring(L, lua_tostring(L, -1)), lua_remove(L, -2);
  lua_pushstring(L, family_name(s));
  return 3;
}

/* object:getsockname() -> host, port, family | path | nil, message */
static int l_getsockname(lua_State *L) { return name(L, mr_sock_check(L, SOCK_ANY), port_net_local, 1); }

/* object:getpeername() -> host, port, family | nil, message */
static int l_getpeername(lua_State *L) {
  return name(L, mr_sock_check(L, SOCK_ANY_TCP | SOCK_IS(SOCK_CONNECTED)), port_net_peer, 0);
}

#define COUNTED (SOCK_IS(SOCK_CLIENT) | SOCK_ANY_STREAM)

/* client:getstats() -> bytes received, bytes sent, seconds */
static int l_getstats(lua_State *L) {
  mr_sock *s = mr_sock_check(L, COUNTED);
  lua_pushinteger(L, (lua_Integer)s->received);
  lua_pushinteger(L, (lua_Integer)s->sent);
  lua_pushnumber(L, mr_sock_now() - s->born);
  return 3;
}

static uint64_t count(lua_State *L, int idx, uint64_t otherwise) {
  lua_Number n = luaL_optnumber(L, idx, (lua_Number)otherwise);
  return n >= 0 && n < 0x1p63 ? (uint64_t)n : 0;
}

/* client:setstats([received[, sent[, seconds]]]) -> 1 */
static int l_setstats(lua_State *L) {
  mr_sock *s = mr_sock_check(L, COUNTED);
  s->received = count(L, 2, s->received);
  s->sent = count(L, 3, s->sent);
  if (lua_isnumber(L, 4)) s->born = mr_sock_now() - lua_tonumber(L, 4);
  return done(L, 0);
}

static int l_getoption(lua_State *L) { return mr_sock_option(L, 0); }
static int l_setoption(lua_State *L) { return mr_sock_option(L, 1); }

/* ---- addresses, as strings that hold the system's structure ---- */

static int push_raw(lua_State *L, const port_addr *a) {
  lua_pushlstring(L, (const char *)a->bytes, a->len);
  lua_pushinteger(L, port_addr_family(a));
  return 2;
}

/* core.address(host, port) -> address, family: of a numeric host; nil: it is none */
static int l_address(lua_State *L) {
  const char *host = luaL_checkstring(L, 1);
  lua_Integer port = luaL_checkinteger(L, 2);
  port_addr a;
  if (port < 0 || port > 65535 || port_addr_numeric(&a, host, (int)port) != 0) return 0;
  return push_raw(L, &a);
}

/* core.path(path) -> address | nil, message */
static int l_path(lua_State *L) {
  size_t len;
  const char *path = luaL_checklstring(L, 1, &len);
  port_addr a;
  if (port_addr_unix(&a, path, len) != 0) return lua_pushnil(L), lua_pushliteral(L, "path too long"), 2;
  lua_pushlstring(L, (const char *)a.bytes, a.len);
  return 1;
}

/* core.bind(object, address) -> 1 | nil, message */
static int l_bind(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  port_addr a;
  size_t len;
  const char *p = luaL_checklstring(L, 2, &len);
  int err = port_addr_raw(&a, p, len);
  return done(L, err ? err : port_net_bind(s->fd, &a));
}

/* core.disconnect(object) */
static int l_disconnect(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY_UDP);
  if (s->fd >= 0) port_net_disconnect(s->fd);
  return done(L, 0);
}

/* ---- names ---- */

static int addresses(lua_State *L, mr_request *r) {
  mr_resolve *q = (mr_resolve *)r;
  port_addr a;
  if (q->n == 0) return mr_names_fail(L, q);
  char text[PORT_ADDR_TEXT];
  lua_createtable(L, q->n, 0);
  for (int i = 0, n = 0; i < q->n; i++) {
    if (port_addr_raw(&a, q->list[i].u.bytes, q->list[i].len) != 0) continue;
    lua_createtable(L, 0, 3);
    port_addr_text(&a, text);
    lua_pushstring(L, text);
    lua_setfield(L, -2, "host");
    push_raw(L, &a);
    lua_setfield(L, -3, "family");
    lua_setfield(L, -2, "address");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* core.resolve(host | nil, service | nil, how) -> list of { host, address, family } | nil, message, code. how: letters of "46dpn" */
static int l_resolve(lua_State *L) {
  const char *how = luaL_optstring(L, 3, "");
  port_query q = { .host = luaL_optstring(L, 1, NULL), .service = luaL_optstring(L, 2, NULL) };
  q.family = strchr(how, '4') ? PORT_RESOLVE_4 : strchr(how, '6') ? PORT_RESOLVE_6 : PORT_RESOLVE_ANY;
  q.datagram = strchr(how, 'd') != NULL;
  q.passive = strchr(how, 'p') != NULL;
  q.numeric = strchr(how, 'n') != NULL;
  lua_settop(L, 3);
  mr_query_push(L, &q, addresses);
  return mr_names_await(L, 4, UINT64_MAX);
}

/* core.gettime() -> seconds since 1970 */
static int l_gettime(lua_State *L) {
  lua_pushnumber(L, mr_sock_now());
  return 1;
}

/* core.gethostname() -> name */
static int l_gethostname(lua_State *L) {
  char buf[257];
  int err = port_net_hostname(buf, sizeof buf);
  if (err) return mr_sock_fail(L, err);
  lua_pushstring(L, buf);
  return 1;
}

/* ---- the module ---- */

static const luaL_Reg common[] = {
  { "close", l_close }, { "dirty", l_dirty }, { "getfd", l_getfd }, { "setfd", l_setfd }, { "getsockname", l_getsockname },
  { "settimeout", l_settimeout }, { "gettimeout", l_gettimeout }, { "setoption", l_setoption }, { NULL, NULL }
};
static const luaL_Reg streams[] = {
  { "accept", mr_sock_accept }, { "getstats", l_getstats }, { "setstats", l_setstats }, { "listen", l_listen },
  { "receive", mr_sock_receive }, { "send", mr_sock_send }, { "shutdown", l_shutdown }, { NULL, NULL }
};
static const luaL_Reg datagrams[] = {
  { "receive", mr_sock_dgram_receive }, { "receivefrom", mr_sock_receivefrom }, { "send", mr_sock_dgram_send }, { NULL, NULL }
};
static const luaL_Reg inet[] = {
  { "getfamily", l_getfamily }, { "getoption", l_getoption }, { "getpeername", l_getpeername }, { NULL, NULL }
};
static const luaL_Reg meta[] = { { "__gc", l_gc }, { "__tostring", l_tostring }, { NULL, NULL } };

static const luaL_Reg functions[] = {
  { "new", l_new }, { "open", l_open }, { "settle", l_settle }, { "become", l_become }, { "class", l_class }, { "address", l_address }, { "path", l_path },
  { "bind", l_bind }, { "connect", mr_sock_connect }, { "disconnect", l_disconnect }, { "sendto", mr_sock_sendto },
  { "resolve", l_resolve }, { "select", mr_sock_select }, { "gettime", l_gettime }, { "gethostname", l_gethostname }, { NULL, NULL }
};

/* Leaves the class's methods on the stack; its metatable is registered. */
static void class_make(lua_State *L, int class) {
  unsigned is = SOCK_IS(class);
  lua_createtable(L, 0, 8);
  luaL_setfuncs(L, meta, 0);
  lua_pushstring(L, mr_sock_class[class]);
  lua_setfield(L, -2, "__name");
  lua_createtable(L, 0, 32);
  mr_set_functions(L, common);
  mr_set_functions(L, is & (SOCK_ANY_TCP | SOCK_ANY_STREAM) ? streams : datagrams);
  if (is & (SOCK_ANY_TCP | SOCK_ANY_UDP)) mr_set_functions(L, inet);
  lua_pushstring(L, mr_sock_class[class]);
  lua_setfield(L, -2, "class");
  lua_pushvalue(L, -1);
  lua_setfield(L, -3, "__index");
  lua_insert(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &keys[class]);
}

int luaopen_mare_socket_core(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 16);
  mr_set_functions(L, functions);
  lua_createtable(L, 0, SOCK_CLASSES);
  for (int i = 0; i < SOCK_CLASSES; i++) {
    class_make(L, i);
    lua_setfield(L, -2, mr_sock_class[i]);
  }
  lua_setfield(L, -2, "classes");
  return 1;
}
