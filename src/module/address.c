/* address: where a socket is or should be, as Lua programs write it; and names. */
#include "module/net.h"
#include "port/errors.h"

#include <string.h>

/* ---- failures ---- */

int mr_net_fail(lua_State *L, const char *message, const char *code) {
  lua_pushnil(L);
  lua_pushstring(L, message);
  lua_pushstring(L, code);
  return 3;
}

int mr_net_error(lua_State *L, int err) {
  char buf[128];
  return mr_net_fail(L, port_error_text(err, buf, sizeof buf), port_error_name(err));
}

int mr_net_fail_at(lua_State *L, int err, const char *what) {
  char buf[128];
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", what, port_error_text(err, buf, sizeof buf));
  lua_pushstring(L, port_error_name(err));
  return 3;
}

void mr_path_push(lua_State *L, const port_addr *a) {
  char text[PORT_ADDR_TEXT];
  size_t n = port_addr_text(a, text);
  int named = n && !text[0];                     /* an abstract one, which begins with a zero */
  lua_pushfstring(L, "unix:%s%s", named ? "@" : "", text + named);
}

uint64_t mr_patience(lua_State *L, int idx) {
  uint64_t at = mr_deadline(L, idx);
  return at == UINT64_MAX || at == 0 ? at : (uint64_t)(lua_tonumber(L, idx) * 1e9);
}

uint64_t mr_deadline_after(uint64_t patience) { return patience == UINT64_MAX || patience == 0 ? patience : port_now() + patience; }

uint64_t mr_deadline_or(lua_State *L, int idx, uint64_t patience) {
  return lua_isnoneornil(L, idx) ? mr_deadline_after(patience) : mr_deadline(L, idx);
}

/* ---- where ---- */

int mr_port_get(lua_State *L, int idx) {
  int is;
  lua_Integer n = lua_tointegerx(L, idx, &is);
  luaL_argcheck(L, is && n >= 0 && n <= 65535, idx, "a port is a whole number from 0 to 65535");
  return (int)n;
}

static int bad_where(lua_State *L, int idx, const char *text) {
  lua_pushfstring(L, "'%s' is no address: write a port, \"host:port\", \"[ipv6]:port\", \":port\" or \"unix:/path\"", text);
  return luaL_argerror(L, idx, lua_tostring(L, -1));
}

static void path_get(lua_State *L, int idx, const char *path, size_t len, mr_where *w) {
  char name[PORT_ADDR_TEXT];
  w->is_path = 1;
  if (len > 1 && path[0] == '@' && len < sizeof name) {           /* an abstract name */
    memcpy(name, path, len);
    name[0] = 0;
    path = name;
  }
  int err = port_addr_unix(&w->path, path, len);
  luaL_argcheck(L, err != ENAMETOOLONG, idx, "the path of a Unix socket can have 107 bytes; use a shorter one");
  luaL_argcheck(L, err == 0, idx, "the path of a Unix socket can't be empty");
}

static int digits(lua_State *L, int idx, const char *s, const char *text) {
  long n = 0;
  if (!*s) bad_where(L, idx, text);
  for (; *s; s++) {
    if (*s < '0' || *s > '9') bad_where(L, idx, text);
    n = n * 10 + (*s - '0');
    luaL_argcheck(L, n <= 65535, idx, "a port is a whole number from 0 to 65535");
  }
  return (int)n;
}

static void text_get(lua_State *L, int idx, mr_where *w) {
  size_t len;
  const char *s = lua_tolstring(L, idx, &len), *colon = strrchr(s, ':');
  if (strncmp(s, "unix:", 5) == 0) {
    path_get(L, idx, s + 5, len - 5, w);
  } else if (*s == '[') {
    const char *end = strchr(s, ']');
    if (!end || end[1] != ':') bad_where(L, idx, s);
    w->host = lua_pushlstring(L, s + 1, (size_t)(end - s) - 1);
    w->port = digits(L, idx, end + 2, s);
  } else if (!colon) {
    w->port = digits(L, idx, s, s);
  } else {
    if (strchr(s, ':') != colon) bad_where(L, idx, s);
    w->host = lua_pushlstring(L, s, (size_t)(colon - s));
    w->port = digits(L, idx, colon + 1, s);
  }
}

static int listed(const char *list, const char *name) {
  size_t len = strlen(name);
  for (const char *p = list; len && (p = strstr(p, name)) != NULL; p += len)
    if ((p == list || p[-1] == ' ') && (p[len] == ',' || !p[len])) return 1;
  return 0;
}

void mr_options_check(lua_State *L, int idx, const char *list) {
  for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1)) {
    if (lua_type(L, -2) == LUA_TSTRING && listed(list, lua_tostring(L, -2))) continue;
    luaL_argerror(L, idx, lua_pushfstring(L, "there is no option '%s'; there are %s", luaL_tolstring(L, -2, NULL), list));
  }
}

static void table_get(lua_State *L, int idx, mr_where *w) {
  size_t len;
  if (lua_getfield(L, idx, "path") != LUA_TNIL) {
    luaL_argcheck(L, lua_type(L, -1) == LUA_TSTRING, idx, "field 'path' must be a string");
    const char *path = lua_tolstring(L, -1, &len);
    path_get(L, idx, path, len, w);
    return;
  }
  lua_pop(L, 1);
  int type = lua_getfield(L, idx, "host");
  luaL_argcheck(L, type == LUA_TNIL || type == LUA_TSTRING, idx, "field 'host' must be a string");
  w->host = lua_tostring(L, -1);
  int is;
  lua_getfield(L, idx, "port");
  lua_Integer n = lua_tointegerx(L, -1, &is);
  luaL_argcheck(L, is && n >= 0 && n <= 65535, idx, "field 'port' must be a whole number from 0 to 65535 (or give 'path')");
  w->port = (int)n;
}

void mr_where_get(lua_State *L, int idx, mr_where *w) {
  memset(w, 0, sizeof *w);
  switch (lua_type(L, idx)) {
    case LUA_TNUMBER: w->port = mr_port_get(L, idx); break;
    case LUA_TSTRING: text_get(L, idx, w); break;
    case LUA_TTABLE: table_get(L, idx, w); break;
    default: luaL_typeerror(L, idx, "address (port, \"host:port\", \"unix:/path\" or table)");
  }
}

void mr_where_pair(lua_State *L, int idx, mr_where *w) {
  memset(w, 0, sizeof *w);
  w->host = luaL_checkstring(L, idx);
  w->port = mr_port_get(L, idx + 1);
}

int mr_push_addr(lua_State *L, const port_addr *a) {
  char text[PORT_ADDR_TEXT];
  size_t len = port_addr_text(a, text);
  if (len && text[0] == 0) text[0] = '@';
  lua_pushlstring(L, text, len);
  if (port_addr_port(a) < 0) return 1;
  lua_pushinteger(L, port_addr_port(a));
  return 2;
}

void mr_outside_address(lua_State *L, const port_addr *a) {
  char text[PORT_ADDR_TEXT];
  if (PORT_LIKELY(!port_sim_on) || port_sim_inside(a)) return;
  port_addr_text(a, text);
  if (port_addr_port(a) < 0) mr_outside_check(L, text);
  else mr_outside_check(L, lua_pushfstring(L, strchr(text, ':') ? "[%s]:%d" : "%s:%d", text, port_addr_port(a)));
}

/* ---- names ---- */

mr_hold *mr_query_push(lua_State *L, const port_query *q, mr_finish finish) {
  mr_hold *h = mr_hold_push(L);
  mr_resolve *r = mr_resolve_new(q);
  if (!r) mr_raise(L, MR_ENOMEM);
  h->request = &r->request;
  h->finish = finish;
  if (PORT_UNLIKELY(port_sim_on) && !r->known && !port_sim_knows(q->host)) mr_outside_check(L, q->host);
  return h;
}

mr_hold *mr_names_push(lua_State *L, const char *host, int datagram, mr_finish finish) {
  port_query q = { .host = host, .datagram = datagram != 0 };
  return mr_query_push(L, &q, finish);
}

int mr_names_await(lua_State *L, int idx, uint64_t deadline) {
  mr_hold *h = lua_touserdata(L, idx);
  if (((mr_resolve *)h->request)->known) return h->finish(L, h->request);
  return mr_hold_await(L, idx, MR_NAMES, deadline, "resolve");
}

int mr_names_fail(lua_State *L, const mr_resolve *q) { return mr_net_fail(L, q->text, q->code); }
