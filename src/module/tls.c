/*
 * tls: mare.tls.core - contexts, and the methods that only connections with TLS have. What programs call is lua/mare/tls.lua.
 */
#include "module/net.h"
#include "io/context.h"

#include <string.h>

#define TNAME "tls context"

static void context_push(lua_State *L, mr_shared *o);
static const luaL_Reg none[] = { { NULL, NULL } };
static const mr_class class = { .share = { .name = TNAME, .destroy = mr_context_destroy, .push = context_push }, .tname = TNAME, .meta = none,
                                .methods = none };
static void context_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

static mr_context *context_check(lua_State *L, int idx) { return (mr_context *)mr_shared_check(L, idx, mr_context_type, TNAME); }

/* ---- contexts from options: a table at 1, the context at 2 ---- */

static const char *string_field(lua_State *L, const char *name) {
  int type = lua_getfield(L, 1, name);
  if (type == LUA_TNIL) return lua_pop(L, 1), NULL;
  if (type != LUA_TSTRING) luaL_error(L, "option '%s' must be a string", name);
  return lua_tostring(L, -1);                    /* stays on the stack, and so alive */
}

/* true, nil: `yes`; false: none; "optional" and so on. */
static int policy(lua_State *L, const char *name, int missing) {
  int type = lua_getfield(L, 1, name), how = missing;
  if (type == LUA_TBOOLEAN) how = lua_toboolean(L, -1) ? MR_TLS_VERIFY : MR_TLS_VERIFY_NONE;
  else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "required") == 0) how = MR_TLS_VERIFY;
  else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "optional") == 0) how = MR_TLS_VERIFY_OPTIONAL;
  else if (type == LUA_TSTRING && strcmp(lua_tostring(L, -1), "none") == 0) how = MR_TLS_VERIFY_NONE;
  else if (type != LUA_TNIL) luaL_error(L, "option '%s' must be true, false, \"required\", \"optional\" or \"none\"", name);
  lua_pop(L, 1);
  return how;
}

static void alpn(lua_State *L, mr_context *x) {
  int type = lua_getfield(L, 1, "alpn");
  if (type == LUA_TNIL) return lua_pop(L, 1);
  if (type != LUA_TTABLE) luaL_error(L, "option 'alpn' must be a list of names");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  lua_Integer n = luaL_len(L, -2 + !lua_istable(L, -2));
  for (lua_Integer i = 1; i <= n; i++) {
    size_t len;
    lua_getfield(L, 1, "alpn");
    lua_rawgeti(L, -1, i);
    lua_remove(L, -2);
    const char *s = lua_tolstring(L, -1, &len);
    if (!s || len == 0 || len > 255) luaL_error(L, "option 'alpn': names have 1 to 255 bytes");
    luaL_addchar(&b, (char)len);
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
  size_t len;
  const char *list = lua_tolstring(L, -1, &len);
  if (len && mr_context_alpn(x, list, len) != 0) luaL_error(L, "option 'alpn': the names are too many");
}

static int refused(lua_State *L, const char *text) { return mr_net_fail(L, text, "TLS_SETUP"); }

/* context(options) -> context | nil, message, code */
static int l_context(lua_State *L) {
  char text[MR_TLS_TEXT];
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mr_context *x = mr_context_new();
  if (!x) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, (mr_shared *)x);
  int trusts = lua_getfield(L, 1, "ca") != LUA_TNIL;
  lua_pop(L, 1);
  int verify = policy(L, "verify", MR_TLS_VERIFY);
  int client = policy(L, "client_cert", MR_TLS_VERIFY_NONE);
  mr_context_verify(x, verify, client);
  const char *cert = string_field(L, "cert"), *key = string_field(L, "key");
  if (!cert != !key && !cert) return refused(L, "a key without a certificate: give 'cert', too");
  if (cert && mr_context_cert(x, cert, key ? key : cert, text) != 0) return refused(L, text);
  if ((trusts || verify != MR_TLS_VERIFY_NONE) && mr_context_trust(x, string_field(L, "ca"), text) != 0) return refused(L, text);
  const char *min = string_field(L, "min_version"), *max = string_field(L, "max_version");
  if (mr_context_versions(x, min, max) != 0) return luaL_error(L, "options 'min_version' and 'max_version' are \"1.2\" or \"1.3\"");
  const char *ciphers = string_field(L, "ciphers");
  if (ciphers && mr_context_ciphers(x, ciphers, text) != 0) return refused(L, text);
  alpn(L, x);
  lua_settop(L, 2);
  return 1;
}

/* ---- connections ---- */

static mr_conn *plain(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  if (c->fd >= 0 && c->tls) luaL_argerror(L, 1, "this connection has TLS already");
  if (c->reading || c->writing) luaL_argerror(L, 1, "a fiber uses this connection: TLS must begin before or after that");
  return c;
}

/* client(connection, context, host | nil, session | nil) -> true | nil, message, code */
static int l_client(lua_State *L) {
  mr_conn *c = plain(L);
  mr_context *x = context_check(L, 2);
  size_t len = 0;
  const char *host = luaL_optstring(L, 3, NULL), *session = luaL_optlstring(L, 4, NULL, &len);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  int err = mr_tls_client(c, x, host, session, len);
  if (err == EINVAL) return mr_net_fail(L, session ? "the session or the host's name is not valid" : "the host's name is not valid", "EINVAL");
  if (err) return mr_net_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* server(connection, context) -> true | nil, message, code */
static int l_server(lua_State *L) {
  mr_conn *c = plain(L);
  mr_context *x = context_check(L, 2);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  luaL_argcheck(L, mr_context_has_cert(x), 2, "a server needs a certificate: tls.context{cert=, key=}");
  int err = mr_tls_serve(c, (mr_shared *)x);
  if (err) return mr_net_error(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* listener(server, context) -> server: what it accepts will speak TLS */
static int l_listener(lua_State *L) {
  mr_listener *l = (mr_listener *)mr_shared_check(L, 1, mr_listener_type, "server");
  mr_context *x = context_check(L, 2);
  luaL_argcheck(L, mr_context_has_cert(x), 2, "a server needs a certificate: tls.context{cert=, key=}");
  luaL_argcheck(L, !l->context, 1, "this server has TLS already");
  mr_retain((mr_shared *)x);
  l->context = (mr_shared *)x;                       /* nobody else knows the server yet */
  lua_settop(L, 1);
  return 1;
}

static int handshake_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)w;
  if (why != MR_AGAIN) c->dry = 0;
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  int err = mr_tls_handshake(c);
  if (!err) return lua_pushboolean(L, 1), 1;
  if (err == EAGAIN) return -1;
  if (!c->rerr) c->rerr = c->werr = err;
  return mr_conn_fail(L, c, err);
}

static int handshake_link(void *o, mr_wait *w) {
  mr_conn *c = o;
  int now = mr_watch_wait(c->watch, mr_conn_direction(c, MR_READ), w);
  if (now) c->dry = 0;
  return now;
}

static void handshake_unlink(void *o, mr_wait *w) {
  mr_conn *c = o;
  c->dry = 0;
  if (c->watch) mr_watch_unwait(c->watch, w);
}

static const mr_waitclass handshaking = { .run = { .op = "handshake", .link = handshake_link, .unlink = handshake_unlink }, .take = handshake_take };

/* connection:handshake([seconds]) -> true | nil, message, code: without it the first read or write does it */
int mr_conn_handshake(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  luaL_argcheck(L, c->tls, 1, "this connection has no TLS");
  uint64_t deadline = mr_deadline_or(L, 2, c->patience);
  lua_settop(L, 1);
  return mr_await(L, mr_self_fiber(L), &handshaking, c, deadline);
}

/* connection:session() -> string | nil: to be resumed by tls.connect{session=} */
int mr_conn_session(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  unsigned char *s = NULL;
  size_t n = 0, room = 0;
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  luaL_argcheck(L, c->tls, 1, "this connection has no TLS");
  lua_settop(L, 1);
  while (c->fd >= 0 && (n = mr_tls_session(c, s, room)) > room) {     /* a finaliser may have closed it, or read a longer one */
    lua_settop(L, 1);
    s = lua_newuserdatauv(L, room = n, 0);
  }
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  if (n) lua_pushlstring(L, (const char *)s, n);
  else lua_pushnil(L);
  return 1;
}

static void field(lua_State *L, const char *name, const char *value) {
  if (!value || !*value) return;
  lua_pushstring(L, value);
  lua_setfield(L, -2, name);
}

static void flag(lua_State *L, const char *name, int value) {
  lua_pushboolean(L, value);
  lua_setfield(L, -2, name);
}

/* connection:tls() -> table about the TLS of it | nil: it has none */
int mr_conn_tls(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  mr_tls_info i;
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  if (!c->tls) return lua_pushnil(L), 1;
  mr_tls_describe(c, &i);
  lua_createtable(L, 0, 11);
  field(L, "version", i.version);
  field(L, "cipher", i.cipher);
  field(L, "server_name", i.server_name);
  field(L, "subject", i.subject);
  field(L, "issuer", i.issuer);
  field(L, "valid_until", i.until);
  field(L, "fingerprint", i.fingerprint);
  if (i.alpn_len) {
    lua_pushlstring(L, i.alpn, i.alpn_len);
    lua_setfield(L, -2, "alpn");
  }
  flag(L, "resumed", i.resumed);
  flag(L, "server", i.server);
  flag(L, "verified", i.verified);
  return 1;
}

static const luaL_Reg functions[] = {
  { "context", l_context }, { "client", l_client }, { "server", l_server }, { "listener", l_listener }, { NULL, NULL }
};

int luaopen_mare_tls_core(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  return 1;
}

void mr_tls_setup(void) { mr_context_type = &class.share; }
