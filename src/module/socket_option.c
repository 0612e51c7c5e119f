/* socket_option: getoption and setoption of mare.socket, with LuaSocket's names, values and words. */
#include "module/socket.h"
#include "port/sockopt.h"

#include <string.h>

static int where(const mr_sock *s, int set) {
  if (SOCK_IS(s->class) & SOCK_ANY_TCP) return set ? PORT_OPT_TCP_SET : PORT_OPT_TCP_GET;
  if (SOCK_IS(s->class) & SOCK_ANY_UDP) return set ? PORT_OPT_UDP_SET : PORT_OPT_UDP_GET;
  return set ? PORT_OPT_UNIX_SET : PORT_OPT_UNIX_GET;
}

static int failed(lua_State *L, int set) {
  lua_pushnil(L);
  lua_pushstring(L, set ? "setsockopt failed" : "getsockopt failed");
  return 2;
}

static int get_linger(lua_State *L, int fd) {
  int on, seconds;
  if (port_sockopt_linger_get(fd, &on, &seconds) != 0) return failed(L, 0);
  lua_createtable(L, 0, 2);
  lua_pushboolean(L, on);
  lua_setfield(L, -2, "on");
  lua_pushinteger(L, seconds);
  lua_setfield(L, -2, "timeout");
  return 1;
}

static int get(lua_State *L, const mr_sock *s, const port_sockopt *o) {
  char text[128];
  int value;
  if (o->kind == PORT_OPT_LINGER) return get_linger(L, s->fd);
  if (o->kind == PORT_OPT_DEVICE || o->kind == PORT_OPT_INTERFACE) {
    if (port_sockopt_text_get(s->fd, o, text) != 0) return failed(L, 0);
    lua_pushstring(L, text);
    return 1;
  }
  if (port_sockopt_get(s->fd, o, &value) != 0) return failed(L, 0);
  if (o->kind == PORT_OPT_FLAG) lua_pushboolean(L, value);
  else if (o->kind == PORT_OPT_NUMBER) lua_pushinteger(L, value);
  else lua_pushstring(L, value ? mr_sock_text(value, text, sizeof text) : NULL);
  return 1;
}

/* A field of the table at 3, of that type; the type comes first in the complaint. */
static void field(lua_State *L, const char *name, int type) {
  lua_getfield(L, 3, name);
  int right = type == LUA_TNUMBER ? lua_isnumber(L, -1) : type == LUA_TSTRING ? lua_isstring(L, -1) : lua_type(L, -1) == type;
  if (right) return;
  lua_pushfstring(L, "%s '%s' field expected", lua_typename(L, type), name);
  luaL_argerror(L, 3, lua_tostring(L, -1));
}

/* What converts the value may run metamethods, which may close the socket: its descriptor is read behind that. */

static int set_linger(lua_State *L, const mr_sock *s) {
  luaL_checktype(L, 3, LUA_TTABLE);
  field(L, "on", LUA_TBOOLEAN);
  field(L, "timeout", LUA_TNUMBER);
  lua_Number seconds = lua_tonumber(L, -1);
  return port_sockopt_linger_set(s->fd, lua_toboolean(L, -2), seconds > 0 && seconds < 65536 ? (int)seconds : 0);
}

static int set_member(lua_State *L, const mr_sock *s, const port_sockopt *o) {
  const char *address = NULL;
  unsigned number = 0;
  int bad;
  luaL_checktype(L, 3, LUA_TTABLE);
  field(L, "multiaddr", LUA_TSTRING);
  const char *group = lua_tostring(L, -1);
  luaL_argcheck(L, port_sockopt_is_group(o, group), 3, "invalid 'multiaddr' ip address");
  if (o->kind == PORT_OPT_MEMBER) {
    field(L, "interface", LUA_TSTRING);
    address = lua_tostring(L, -1);
  } else if (lua_getfield(L, 3, "interface") != LUA_TNIL) {
    luaL_argcheck(L, lua_isnumber(L, -1), 3, "number 'interface' field expected");
    lua_Number n = lua_tonumber(L, -1);
    number = n >= 0 && n <= 4294967295.0 ? (unsigned)n : 0;
  }
  int err = port_sockopt_member(s->fd, o, group, address, number, &bad);
  luaL_argcheck(L, !bad, 3, "invalid 'interface' ip address");
  return err;
}

static int set_text(lua_State *L, const mr_sock *s, const port_sockopt *o) {
  const char *text = luaL_checkstring(L, 3);
  int err = port_sockopt_text_set(s->fd, o, text);
  luaL_argcheck(L, err != EINVAL || o->kind != PORT_OPT_INTERFACE, 3, "ip expected");
  return err;
}

static int set_plain(lua_State *L, const mr_sock *s, const port_sockopt *o) {
  if (o->kind == PORT_OPT_FLAG) {
    luaL_checktype(L, 3, LUA_TBOOLEAN);
    return port_sockopt_set(s->fd, o, lua_toboolean(L, 3));
  }
  lua_Number n = lua_tonumber(L, 3);             /* LuaSocket takes what is no number for 0 */
  return port_sockopt_set(s->fd, o, n >= -2147483648.0 && n <= 2147483647.0 ? (int)n : 0);
}

static int set(lua_State *L, const mr_sock *s, const port_sockopt *o) {
  int err;
  switch (o->kind) {
    case PORT_OPT_LINGER: err = set_linger(L, s); break;
    case PORT_OPT_DEVICE: case PORT_OPT_INTERFACE: err = set_text(L, s, o); break;
    case PORT_OPT_MEMBER: case PORT_OPT_MEMBER6: err = set_member(L, s, o); break;
    default: err = set_plain(L, s, o);
  }
  if (err) return failed(L, 1);
  lua_pushinteger(L, 1);
  return 1;
}

/* object:getoption(name) -> value | nil, message;  object:setoption(name, value) -> 1 | nil, message */
int mr_sock_option(lua_State *L, int sets) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  const port_sockopt *o = port_sockopt_find(luaL_checkstring(L, 2), where(s, sets));
  if (!o) {
    lua_pushfstring(L, "unsupported option `%s'", lua_tostring(L, 2));
    return luaL_argerror(L, 2, lua_tostring(L, -1));
  }
  if (lua_gettop(L) > 3) lua_settop(L, 3);       /* what is missing is "no value", not nil */
  return sets ? set(L, s, o) : get(L, s, o);
}
