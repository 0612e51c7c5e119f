/*
 * curl: mare.http.curl - clients and transfers of src/io/curl.h for lua/mare/http/client.lua, which waits for them. Nothing here waits.
 *
 * A client and a transfer are userdata without methods, which don't leave their process. A transfer holds its client, and the body that libcurl reads
 * where it lies, so both live as long as it does. What of a transfer was closed has an end of its own: it failed.
 */
#include "module/module.h"
#include "io/curl.h"
#include "port/errors.h"

#include <errno.h>
#include <string.h>

#ifndef MR_CURL

int luaopen_mare_http_curl(lua_State *L) {
  return luaL_error(L, "this mare was built without libcurl, which the client of mare.http needs: install its headers (Debian: libcurl4-openssl-dev), then "
                       "build again");
}

#else

typedef struct client { mr_curl *curl; } client;
typedef struct transfer { mr_transfer *transfer; } transfer;

static int l_client_gc(lua_State *L) {
  client *c = mr_gc_own(L, sizeof *c, l_client_gc);
  mr_curl *curl = c ? c->curl : NULL;
  if (curl) {
    c->curl = NULL;
    mr_curl_close(curl);
  }
  return 0;
}

static int l_transfer_gc(lua_State *L) {
  transfer *t = mr_gc_own(L, sizeof *t, l_transfer_gc);
  mr_transfer *old = t ? t->transfer : NULL;
  if (old) {
    t->transfer = NULL;
    mr_transfer_close(old);
  }
  return 0;
}

static mr_curl *check_client(lua_State *L) {
  client *c = mr_is_own(L, 1, sizeof *c, l_client_gc) ? lua_touserdata(L, 1) : NULL;
  luaL_argexpected(L, c, 1, "client");
  if (!c->curl) luaL_argerror(L, 1, "the client is closed");
  return c->curl;
}

/* NULL: it was closed. */
static mr_transfer *to_transfer(lua_State *L) {
  transfer *t = mr_is_own(L, 1, sizeof *t, l_transfer_gc) ? lua_touserdata(L, 1) : NULL;
  luaL_argexpected(L, t, 1, "transfer");
  return t->transfer;
}

static mr_transfer *check_transfer(lua_State *L) {
  mr_transfer *t = to_transfer(L);
  if (!t) luaL_argerror(L, 1, "the transfer is closed");
  return t;
}

static void check(lua_State *L, int err) {
  if (err == ENOMEM) mr_raise(L, MR_ENOMEM);
}

/* A userdata with finaliser, whose only word is NULL. */
static void *push_box(lua_State *L, const void *key, lua_CFunction gc, int values) {
  mr_proc *p = mr_self(L);
  if (p->finalisers == 0) p->finalisers = 1;
  void **box = lua_newuserdatauv(L, sizeof *box, values);
  *box = NULL;
  mr_meta_set(L, key, "__gc", gc);
  return box;
}

static long limit(lua_State *L, const char *name) {
  lua_getfield(L, 1, name);
  lua_Integer n = luaL_optinteger(L, -1, 0);
  lua_pop(L, 1);
  return n > 0 && n < 1000000 ? (long)n : 0;
}

/* open{ per_host =, total =, kept =, cookies = } -> client; nil, message, code */
static int l_open(lua_State *L) {
  static const char key;
  int err;
  luaL_checktype(L, 1, LUA_TTABLE);
  mr_check_forked(L);
  mr_outside_check(L, "the client of mare.http");
  mr_curl_limits limits = { .per_host = limit(L, "per_host"), .total = limit(L, "total"), .kept = limit(L, "kept") };
  lua_getfield(L, 1, "cookies");
  limits.cookies = lua_toboolean(L, -1);
  client *c = push_box(L, &key, l_client_gc, 0);
  c->curl = mr_curl_open(&limits, &err);
  if (c->curl) return 1;
  check(L, err);
  lua_pushnil(L);
  char text[128];
  lua_pushstring(L, port_error_text(err, text, sizeof text));
  lua_pushstring(L, port_error_name(err));
  return 3;
}

static int l_close(lua_State *L) {
  if (mr_is_own(L, 1, sizeof(client), l_client_gc)) return l_client_gc(L);
  return to_transfer(L) ? l_transfer_gc(L) : 0;
}

/* finish(client): closes its transfers */
static int l_finish(lua_State *L) {
  mr_curl_finish(check_client(L));
  return 0;
}

/* descriptor(client) -> what to wait for until there is something to do */
static int l_descriptor(lua_State *L) {
  lua_pushinteger(L, mr_curl_descriptor(check_client(L)));
  return 1;
}

/* step(client) -> how many transfers are running */
static int l_step(lua_State *L) {
  mr_curl *c = check_client(L);
  check(L, mr_curl_step(c));
  lua_pushinteger(L, mr_curl_running(c));
  return 1;
}

static int l_running(lua_State *L) {
  lua_pushinteger(L, mr_curl_running(check_client(L)));
  return 1;
}

/* changed(client) -> the id of a transfer to which something has happened; nil: there is none */
static int l_changed(lua_State *L) {
  int64_t id = mr_curl_changed(check_client(L));
  if (id) lua_pushinteger(L, id);
  else lua_pushnil(L);
  return 1;
}

typedef struct text { char *p; size_t len; } text;

static int count_line(void *ud, const char *line) { return *(size_t *)ud += strlen(line) + 1, 0; }

static int write_line(void *ud, const char *line) {
  text *t = ud;
  size_t n = strlen(line);
  memcpy(t->p + t->len, line, n);
  t->p[t->len + n] = '\n';
  t->len += n + 1;
  return 0;
}

/* cookies(client) -> string: a line each, fields separated by tabs, as Netscape's browser kept them */
static int l_cookies(lua_State *L) {
  mr_curl *c = check_client(L);
  size_t n = 0;
  check(L, mr_curl_cookies(c, count_line, &n));
  text t = { lua_newuserdatauv(L, n + 1, 0), 0 };
  check(L, mr_curl_cookies(c, write_line, &t));
  lua_pushlstring(L, t.p, t.len);
  return 1;
}

/* ---- transfers ---- */

static int refuse(lua_State *L, const char *option, int err) {
  check(L, err);
  if (err == ENOENT) return luaL_error(L, "mare.http: there is no option '%s'", option);
  return luaL_error(L, "mare.http: libcurl %s does not know the option '%s', or not this value", mr_curl_version(), option);
}

/* The table of options on top: texts and numbers by their names. */
static void set_options(lua_State *L, mr_transfer *t) {
  int table = lua_gettop(L), err;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    size_t len;
    const char *name = lua_tostring(L, -2);
    if (lua_isinteger(L, -1)) err = mr_transfer_number(t, name, lua_tointeger(L, -1));
    else {
      const char *value = luaL_checklstring(L, -1, &len);
      err = mr_transfer_text(t, name, value, len);
    }
    if (err) refuse(L, name, err);
    lua_pop(L, 1);
  }
}

static void set_fields(lua_State *L, mr_transfer *t, int list) {
  for (lua_Integer i = 1; lua_rawgeti(L, list, i) != LUA_TNIL; i++, lua_pop(L, 1)) check(L, mr_transfer_field(t, luaL_checkstring(L, -1)));
  lua_pop(L, 1);
}

/*
 * begin(client, { [option] = string or integer }, fields of the request, body | length | nil) -> transfer, id
 * A body is a string; a length: the body comes by `feed`, -1: nobody knows how much.
 */
static int l_begin(lua_State *L) {
  static const char key;
  int err;
  mr_curl *c = check_client(L);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 4);
  transfer *box = push_box(L, &key, l_transfer_gc, 2);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 5, 1);
  lua_pushvalue(L, 4);
  lua_setiuservalue(L, 5, 2);
  mr_transfer *t = box->transfer = mr_transfer_open(c, &err);
  if (!t) check(L, err);
  if (lua_isinteger(L, 4)) {
    mr_transfer_upload(t, lua_tointeger(L, 4));
  } else if (!lua_isnil(L, 4)) {
    size_t len;
    const char *p = luaL_checklstring(L, 4, &len);
    mr_transfer_body(t, p, len);
  }
  lua_pushvalue(L, 2);
  set_options(L, t);
  lua_pop(L, 1);
  set_fields(L, t, 3);
  check(L, mr_transfer_begin(t));
  lua_settop(L, 5);
  lua_pushinteger(L, mr_transfer_id(t));
  return 2;
}

/* head(transfer) -> the head of the answer; nil: it has not come */
static int l_head(lua_State *L) {
  size_t len = 0;
  mr_transfer *t = to_transfer(L);
  const char *p = t ? mr_transfer_head(t, &len) : NULL;
  if (p) lua_pushlstring(L, p, len);
  else lua_pushnil(L);
  return 1;
}

/* take(transfer, most) -> bytes of the body; nil: there are none now */
static int l_take(lua_State *L) {
  size_t len = 0;
  mr_transfer *t = to_transfer(L);
  lua_Integer most = luaL_checkinteger(L, 2);
  const char *p = t ? mr_transfer_bytes(t, &len) : NULL;
  if (!p || len == 0 || most < 1) return lua_pushnil(L), 1;
  if ((lua_Unsigned)most < len) len = (size_t)most;
  lua_pushlstring(L, p, len);
  if (to_transfer(L) == t) mr_transfer_taken(t, len);          /* a finaliser may have closed it */
  return 1;
}

/* over(transfer) -> nil: not yet; true; false, text, code: it failed */
static int l_over(lua_State *L) {
  mr_transfer *t = to_transfer(L);
  mr_failure f = { "EBADF", "closed" };
  int over = t ? mr_transfer_over(t, &f) : -1;
  if (over < 0) {
    if (f.code && strcmp(f.code, "ENOMEM") == 0) mr_raise(L, MR_ENOMEM);
    lua_pushboolean(L, 0);
    lua_pushstring(L, f.text);
    lua_pushstring(L, f.code);
    return 3;
  }
  if (over) lua_pushboolean(L, 1);
  else lua_pushnil(L);
  return 1;
}

/* hungry(transfer) -> true: it wants bytes of the body; false: not now; nil: never again */
static int l_hungry(lua_State *L) {
  mr_transfer *t = to_transfer(L);
  int hungry = t ? mr_transfer_hungry(t) : -1;
  if (hungry < 0) lua_pushnil(L);
  else lua_pushboolean(L, hungry);
  return 1;
}

/* feed(transfer, bytes | nil): the next of the body; nil: that was all */
static int l_feed(lua_State *L) {
  size_t len;
  mr_transfer *t = check_transfer(L);
  if (lua_isnoneornil(L, 2)) return mr_transfer_fed(t), 0;
  const char *p = luaL_checklstring(L, 2, &len);
  check(L, mr_transfer_feed(t, p, len));
  return 0;
}

/* moved(transfer) -> a number that grows with each byte that comes or goes */
static int l_moved(lua_State *L) {
  mr_transfer *t = to_transfer(L);
  lua_pushinteger(L, t ? (lua_Integer)mr_transfer_moved(t) : 0);
  return 1;
}

/* info(transfer) -> address, port, how many connections were opened for it, seconds until connected, until the first byte, in all */
static int l_info(lua_State *L) {
  mr_transfer_info i;
  mr_transfer_info_of(check_transfer(L), &i);
  lua_pushstring(L, i.address);
  lua_pushinteger(L, i.port);
  lua_pushinteger(L, i.connections);
  lua_pushnumber(L, i.connected);
  lua_pushnumber(L, i.first);
  lua_pushnumber(L, i.total);
  return 6;
}

/* ---- addresses ---- */

static int push_url(lua_State *L) {
  const mr_url *u = lua_touserdata(L, 1);
  lua_pushstring(L, u->text);
  lua_pushstring(L, u->scheme);
  lua_pushstring(L, u->host);
  lua_pushstring(L, u->port);
  return 4;
}

/* url(text[, base]) -> absolute, scheme, host, port | nil, what is wrong */
static int l_url(lua_State *L) {
  mr_url u;
  const char *text = luaL_checkstring(L, 1), *base = luaL_optstring(L, 2, NULL);
  lua_settop(L, 2);
  lua_pushcfunction(L, push_url);
  lua_pushlightuserdata(L, &u);
  const char *why = mr_url_read(base, text, &u);
  if (why) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    return 2;
  }
  int status = lua_pcall(L, 1, 4, 0);
  mr_url_free(&u);
  return status == LUA_OK ? 4 : lua_error(L);
}

static int l_version(lua_State *L) {
  lua_pushstring(L, mr_curl_version());
  return 1;
}

static const luaL_Reg functions[] = {
  { "close", l_close }, { "finish", l_finish }, { "descriptor", l_descriptor }, { "step", l_step }, { "running", l_running }, { "changed", l_changed },
  { "cookies", l_cookies }, { "head", l_head }, { "take", l_take }, { "over", l_over }, { "hungry", l_hungry }, { "feed", l_feed },
  { "moved", l_moved }, { "info", l_info }, { "url", l_url }, { "version", l_version }, { NULL, NULL } };
static const luaL_Reg owned[] = { { "open", l_open }, { "begin", l_begin }, { NULL, NULL } };

int luaopen_mare_http_curl(lua_State *L) {
  mr_host_ensure(L);
  const char *why = mr_curl_load();
  if (why) return luaL_error(L, "%s", why);
  luaL_newlib(L, functions);
  mr_set_functions(L, owned);
  return 1;
}

#endif
