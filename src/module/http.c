/*
 * http: mare.http.core - heads of HTTP/1 for Lua: requests taken from a connection, their fields, which handler a router has for a path. What they mean
 * is lua/mare/http's matter; answers are http_answer.c's.
 *
 * A request becomes a table in one go: a copy of the shape's nodes, into which the values are written. Where Lua's layouts are not known, the API
 * makes the same table.
 */
#include "module/http.h"
#include "lua/build.h"

#include <limits.h>
#include <string.h>

/* ---- requests ---- */

static int64_t length(const char *p, size_t len, const char **why) { return mr_httphead_length(p, len, why); }

/*
 * One of which a part has come is not waited for: the time it may take is another than that until it begins. An empty line, which some clients send
 * behind a body, is no part of it yet.
 */
static int64_t length_at_once(const char *p, size_t len, const char **why) {
  int64_t n = mr_httphead_length(p, len, why);
  if (n == 0 && len <= 2 && memcmp(p, "\r\n", len) == 0) return 0;
  if (n == 0) *why = "a part of it has come";
  return n ? n : -1;
}

static int is_letter(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

/* ---- requests as tables ---- */

enum { CONN = 1, LIMIT, SECONDS, FIELDS_MOST, SHAPE, HEAD };     /* indices of a function that takes a request from a connection */

/* What a server sends to a proxy, and some clients, is a whole address: its path alone. Without '?' and what follows. */
static mr_slice_of path_of(mr_slice_of t) {
  const char *end = t.p + t.len, *p = t.p;
  if (t.len && t.p[0] != '/') {
    while (p < end && (is_letter(*p) || (p > t.p && (*p == '+' || *p == '-' || *p == '.' || (*p >= '0' && *p <= '9'))))) p++;
    if (p > t.p && end - p >= 3 && memcmp(p, "://", 3) == 0) for (p += 3; p < end && *p != '/' && *p != '?';) p++;
    else p = t.p;
  }
  const char *query = memchr(p, '?', (size_t)(end - p));
  return (mr_slice_of){ p, (size_t)((query ? query : end) - p) };
}

/* raw_path(target) -> string */
static int l_raw_path(lua_State *L) {
  mr_slice_of t;
  t.p = luaL_checklstring(L, 1, &t.len);
  mr_slice_of path = path_of(t);
  lua_pushlstring(L, path.p, path.len);
  return 1;
}

static void set_raw(raw_table *t, mr_httpshape *s, int field, const raw_value *v) {
  raw_value *to = mr_slot_in(t, &s->slots[field]);
  to->bits = v->bits;
  to->tt = v->tt;
}

/* The empty request is copied, and pushed; 0: there is no memory without a collection, or the layout is not known. */
static raw_table *copy_first(lua_State *L, const mr_httpshape *s) {
  raw_global *g = raw_global_of(L);
  raw_table *t = mr_layout ? raw_new_table(g) : NULL;
  if (!t || !raw_new_nodes(g, t, s->first->node, s->first->lsizenode, raw_free(s->first))) return NULL;
  t->metatable = (raw_table *)(uintptr_t)s->class;
  raw_push(L, RAW_TABLE, (uintptr_t)t);
  return t;
}

/* The method, the target and its path are on top, then stays the request. */
static void make_request(lua_State *L, mr_httpshape *s, const mr_httphead *h) {
  enum { METHOD = HEAD + 1, TARGET, PATH };
  int body = h->length > 0 || (h->bits & HTTP_IN_CHUNKS);
  raw_table *t = copy_first(L, s);
  if (PORT_LIKELY(t != NULL)) {
    const raw_value *at = raw_arguments(L) - 1;
    set_raw(t, s, F_connection, at + CONN);
    set_raw(t, s, F_head, at + HEAD);
    set_raw(t, s, F_method, at + METHOD);
    set_raw(t, s, F_target, at + TARGET);
    set_raw(t, s, F_raw_path, at + PATH);
    SET_INTEGER(t, s, bits, h->bits);
    if (h->length >= 0) SET_INTEGER(t, s, length, h->length);
    SET_BOOLEAN(t, s, _done, !body);
    return;
  }
  static const struct { const char *name; int index; } strings[] = { { "connection", CONN }, { "head", HEAD }, { "method", METHOD }, { "target", TARGET },
                                                                     { "raw_path", PATH } };
  lua_createtable(L, 0, MR_HTTP_NODES);
  for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
    lua_pushvalue(L, strings[i].index);
    lua_setfield(L, -2, strings[i].name);
  }
  lua_pushinteger(L, h->bits);
  lua_setfield(L, -2, "bits");
  if (h->length >= 0) lua_pushinteger(L, h->length), lua_setfield(L, -2, "length");
  lua_pushboolean(L, !body);
  lua_setfield(L, -2, "_done");
  lua_getiuservalue(L, SHAPE, 2);
  lua_setmetatable(L, -2);
}

/* The head is on top: the request; or nil, the status to refuse it with. */
static int request_of(lua_State *L) {
  size_t len;
  mr_httphead h;
  const char *p = lua_tolstring(L, HEAD, &len);
  lua_Integer most = lua_tointeger(L, FIELDS_MOST);
  int status = mr_httphead_read(p, len, most < INT_MAX ? (int)most : INT_MAX, &h);
  if (PORT_UNLIKELY(status)) {
    lua_pushnil(L);
    lua_pushinteger(L, status);
    return 2;
  }
  mr_slice_of path = path_of(h.target);
  lua_pushlstring(L, h.method.p, h.method.len);
  lua_pushlstring(L, h.target.p, h.target.len);
  if (path.len == h.target.len) lua_pushvalue(L, -1);
  else lua_pushlstring(L, path.p, path.len);
  make_request(L, lua_touserdata(L, SHAPE), &h);
  lua_replace(L, HEAD + 1);
  lua_settop(L, HEAD + 1);
  return 1;
}

static const mr_framing framing = { .name = "HTTP", .length = length, .results = request_of };
static const mr_framing framing_at_once = { .name = "HTTP", .length = length_at_once, .results = request_of };

static mr_httpshape *check_shape(lua_State *L, int idx) {
  mr_httpshape *s = lua_rawlen(L, idx) == sizeof *s ? lua_touserdata(L, idx) : NULL;
  luaL_argcheck(L, s && s->tag == mr_httpshape_tag(s), idx, "a shape of requests expected");
  return s;
}

static int receive(lua_State *L, mr_fiber *f, const mr_framing *how) {
  mr_conn *c = mr_check_conn(L, CONN);
  lua_Integer limit = luaL_checkinteger(L, LIMIT);
  luaL_argcheck(L, limit >= 64 && limit <= 1 << 20, LIMIT, "a head has 64 bytes to 1 MiB");
  luaL_checkinteger(L, FIELDS_MOST);
  check_shape(L, SHAPE);
  lua_settop(L, SHAPE);
  return mr_read_frame(L, f, c, how, (size_t)limit, (size_t)limit, SECONDS);
}

/*
 * receive(connection, limit, seconds, most fields, shape) -> head, request | head, nil, status | nil, message, code
 * begin is the same, but "EPROTO" also when a part of a head has come.
 */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L), &framing); }
static int l_process_receive(lua_State *L) { return receive(L, mr_fiber_here(L), &framing); }
static int l_begin(lua_State *L) { return receive(L, mr_self_fiber(L), &framing_at_once); }
static int l_process_begin(lua_State *L) { return receive(L, mr_fiber_here(L), &framing_at_once); }

/* shape(metatable) -> shape, reply: for requests with this metatable; see http_answer.c */
static int l_shape(lua_State *L) {
  static const char *const names[] = { MR_HTTP_FIELDS(MR_F_NAME) };
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  mr_httpshape *s = lua_newuserdatauv(L, sizeof *s, 3);
  memset(s, 0, sizeof *s);
  s->moment.second = -1;
  lua_createtable(L, 0, MR_HTTP_NODES);
  for (int i = 0; i < MR_HTTP_NEW; i++) {
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, names[i]);
  }
  s->first = lua_topointer(L, -1);
  lua_setiuservalue(L, 2, 1);
  s->class = lua_topointer(L, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, 2);
  lua_createtable(L, MR_HTTP_NFIELDS, 0);
  mr_slots_make(L, s->slots, names, MR_HTTP_NFIELDS);
  lua_setiuservalue(L, 2, 3);
  s->tag = mr_httpshape_tag(s);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, mr_http_reply, 1);
  return 2;
}

/* parse(head, most fields) -> method, target, bits, length | nil, status; nil, "more" when it has no end yet */
static int l_parse(lua_State *L) {
  size_t len;
  const char *why, *p = luaL_checklstring(L, 1, &len);
  lua_Integer most = luaL_checkinteger(L, 2);
  mr_httphead h;
  int64_t n = mr_httphead_length(p, len, &why);
  int status = n < 0 ? 400 : n == 0 ? 0 : mr_httphead_read(p, (size_t)n, most < INT_MAX ? (int)most : INT_MAX, &h);
  if (n <= 0 || status) {
    lua_pushnil(L);
    if (status) lua_pushinteger(L, status);
    else lua_pushliteral(L, "more");
    return 2;
  }
  lua_pushlstring(L, h.method.p, h.method.len);
  lua_pushlstring(L, h.target.p, h.target.len);
  lua_pushinteger(L, h.bits);
  if (h.length < 0) lua_pushnil(L);
  else lua_pushinteger(L, h.length);
  return 4;
}

static void push_lower(lua_State *L, mr_slice_of s) {
  luaL_Buffer b;
  char *text = luaL_buffinitsize(L, &b, s.len);
  for (size_t i = 0; i < s.len; i++) text[i] = s.p[i] >= 'A' && s.p[i] <= 'Z' ? (char)(s.p[i] + 32) : s.p[i];
  luaL_pushresultsize(&b, s.len);
}

/* fields(head) -> { [name in lower case] = value }; of a name that is there more than once the values are joined, as RFC 9110 says */
static int l_fields(lua_State *L) {
  size_t len, at = 0;
  mr_slice_of name, value;
  const char *p = luaL_checklstring(L, 1, &len);
  lua_settop(L, 1);
  lua_createtable(L, 0, 8);
  while (mr_httphead_field(p, len, &at, &name, &value)) {
    push_lower(L, name);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 2) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushlstring(L, value.p, value.len);
    } else {
      lua_pushstring(L, strcmp(lua_tostring(L, -2), "cookie") == 0 ? "; " : ", ");
      lua_pushlstring(L, value.p, value.len);
      lua_concat(L, 3);
    }
    lua_rawset(L, 2);
  }
  return 1;
}

/* ---- the rest ---- */

/* phrase(status) -> string: "" for one that nobody has given a meaning */
static int l_phrase(lua_State *L) {
  lua_pushstring(L, mr_http_phrase(luaL_checkinteger(L, 1)));
  return 1;
}

/* date(seconds since 1970) -> string */
static int l_date(lua_State *L) {
  char text[64];
  lua_Integer t = luaL_checkinteger(L, 1);
  luaL_argcheck(L, t >= 0 && t < 253402300800, 1, "a second of the years 1970 to 9999");
  mr_http_date(text, sizeof text, t);
  lua_pushstring(L, text);
  return 1;
}

/* decode(text[, plus]) -> string: %XX as bytes; `plus`: a plus sign is a space. What is no such escape stays. */
static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static void push_decoded(lua_State *L, const char *s, size_t len, int plus) {
  luaL_Buffer b;
  if (!memchr(s, '%', len) && !(plus && memchr(s, '+', len))) {
    lua_pushlstring(L, s, len);
    return;
  }
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < len; i++) {
    int escape = s[i] == '%' && i + 2 < len && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0;
    luaL_addchar(&b, escape ? (char)(hex(s[i + 1]) * 16 + hex(s[i + 2])) : plus && s[i] == '+' ? ' ' : s[i]);
    if (escape) i += 2;
  }
  luaL_pushresult(&b);
}

static int l_decode(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  push_decoded(L, s, len, lua_toboolean(L, 2));
  return 1;
}

/* ---- routes ---- */

enum { HERE = 1, FIXED, ANY, REST };             /* a node of lua/mare/http/router.lua: its elements */

typedef struct value { mr_slice_of text; const struct value *before; } value;   /* of a parameter, and those before it */

/* The routes are on top: they stay there, and the n values follow. */
static int found(lua_State *L, const value *last, int n) {
  luaL_checkstack(L, n + 8, "too many parameters");
  for (int i = 1; i <= n; i++) {
    const value *v = last;
    for (int k = n; k > i; k--) v = v->before;
    push_decoded(L, v->text.p, v->text.len, 0);
  }
  return n + 1;
}

/* An element of the node on top that is a table is pushed; 0: it has none. */
static int enter(lua_State *L, int element) {
  if (lua_rawgeti(L, -1, element) == LUA_TTABLE) return 1;
  lua_pop(L, 1);
  return 0;
}

/* The node is on top. The routes for what is left of the path, fixed segments before others: how many results are on top; 0: none, the node still is. */
static int seek(lua_State *L, const char *p, const char *end, const value *before, int n) {
  int results;
  if (p == end) return enter(L, HERE) ? found(L, before, n) : 0;
  p++;
  const char *slash = memchr(p, '/', (size_t)(end - p)), *after = slash ? slash : end;
  value v = { { p, (size_t)(after - p) }, before };
  luaL_checkstack(L, 8, "a route is too long");
  if (enter(L, FIXED)) {
    lua_pushlstring(L, v.text.p, v.text.len);
    if (lua_rawget(L, -2) == LUA_TTABLE && (results = seek(L, after, end, before, n)) != 0) return results;
    lua_pop(L, 2);
  }
  if (v.text.len && enter(L, ANY)) {
    if ((results = seek(L, after, end, &v, n + 1)) != 0) return results;
    lua_pop(L, 1);
  }
  v.text.len = (size_t)(end - p);
  return enter(L, REST) ? found(L, &v, n + 1) : 0;
}

/* find(node, path) -> routes, values of the parameters… | nothing */
static int l_find(lua_State *L) {
  size_t len;
  static const char slash[] = "/";
  luaL_checktype(L, 1, LUA_TTABLE);
  const char *p = luaL_checklstring(L, 2, &len);
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  return len && *p == '/' ? seek(L, p, p + len, NULL, 0) : seek(L, slash, slash + 1, NULL, 0);
}

static const luaL_Reg functions[] = { { "parse", l_parse }, { "fields", l_fields }, { "phrase", l_phrase }, { "decode", l_decode }, { "date", l_date },
                                      { "shape", l_shape }, { "raw_path", l_raw_path }, { "find", l_find }, { NULL, NULL } };
static const luaL_Reg owned[] = { { "receive", l_receive }, { "begin", l_begin }, { NULL, NULL } };
static const luaL_Reg owned_fast[] = { { "receive", l_process_receive }, { "begin", l_process_begin }, { NULL, NULL } };
static const struct { const char *name; int value; } bits[] = { { "KEEP", HTTP_KEEP }, { "OLD", HTTP_OLD }, { "IN_CHUNKS", HTTP_IN_CHUNKS },
                                                                { "WAITS", HTTP_WAITS }, { "CHANGES", HTTP_CHANGES },
                                                                { "ASKS", HTTP_ASKS } };

int luaopen_mare_http_core(lua_State *L) {
  mr_host_ensure(L);
  if (!mr_http_built())
    return luaL_error(L, "this mare was built without llhttp, which mare.http needs: run tools/fetch-llhttp in mare's sources, then build again");
  luaL_newlib(L, functions);
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    lua_pushinteger(L, bits[i].value);
    lua_setfield(L, -2, bits[i].name);
  }
  mr_http_head_push(L);
  lua_setfield(L, -2, "head");
  mr_set_functions(L, mr_in_process(L) ? owned_fast : owned);
  return 1;
}
