/*
 * http: mare.http.core - heads of HTTP/1 for Lua: requests taken from a connection, their fields, heads of answers. What they mean is lua/mare/http's
 * matter.
 *
 * A head is made in two rounds of one function: the first counts its bytes, the second raises what is wrong with the fields, and writes them. So nothing
 * that came from a program gets into an answer without being looked at. A finaliser may change the fields in between: then the answer is refused.
 */
#include "module/net.h"
#include "module/buflib.h"
#include "io/httphead.h"

#include <limits.h>
#include <stdio.h>
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

/* The head is on top: method, target, bits, length of the body; or nil, the status to refuse it with. The most fields are argument 4. */
static int parsed(lua_State *L) {
  size_t len;
  mr_httphead h;
  const char *p = lua_tolstring(L, -1, &len);
  lua_Integer most = lua_tointeger(L, 4);
  int status = mr_httphead_read(p, len, most < INT_MAX ? (int)most : INT_MAX, &h);
  if (status) {
    lua_pushnil(L);
    lua_pushinteger(L, status);
    return 2;
  }
  lua_pushlstring(L, h.method.p, h.method.len);
  lua_pushlstring(L, h.target.p, h.target.len);
  lua_pushinteger(L, h.bits);
  if (h.length < 0) lua_pushnil(L);
  else lua_pushinteger(L, h.length);
  return 4;
}

static const mr_framing framing = { .name = "HTTP", .length = length, .results = parsed };
static const mr_framing framing_at_once = { .name = "HTTP", .length = length_at_once, .results = parsed };

static int receive(lua_State *L, mr_fiber *f, const mr_framing *how) {
  mr_conn *c = mr_check_conn(L, 1);
  lua_Integer limit = luaL_checkinteger(L, 2);
  luaL_argcheck(L, limit >= 64 && limit <= 1 << 20, 2, "a head has 64 bytes to 1 MiB");
  luaL_checkinteger(L, 4);
  lua_settop(L, 4);
  return mr_read_frame(L, f, c, how, (size_t)limit, (size_t)limit, 3);
}

/*
 * receive(connection, limit, seconds, most fields) -> head, method, target, bits, length | head, nil, status | nil, message, code
 * begin is the same, but "EPROTO" also when a part of a head has come.
 */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L), &framing); }
static int l_process_receive(lua_State *L) { return receive(L, mr_fiber_here(L), &framing); }
static int l_begin(lua_State *L) { return receive(L, mr_self_fiber(L), &framing_at_once); }
static int l_process_begin(lua_State *L) { return receive(L, mr_fiber_here(L), &framing_at_once); }

/* parse(head, most fields) -> method, target, bits, length | nil, status; nil, "more" when it has no end yet */
static int l_parse(lua_State *L) {
  size_t len;
  const char *why, *p = luaL_checklstring(L, 1, &len);
  lua_Integer most = luaL_checkinteger(L, 2);
  int64_t n = mr_httphead_length(p, len, &why);
  lua_settop(L, 0);
  if (n <= 0) {
    lua_pushnil(L);
    if (n) lua_pushinteger(L, 400);
    else lua_pushliteral(L, "more");
    return 2;
  }
  for (int i = 0; i < 3; i++) lua_pushnil(L);
  lua_pushinteger(L, most);
  lua_pushlstring(L, p, (size_t)n);
  return parsed(L);
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

/* ---- answers ---- */

static const char *phrase(lua_Integer status) {
  static const struct { int status; const char *phrase; } all[] = {
    { 200, "OK" }, { 404, "Not Found" }, { 304, "Not Modified" }, { 206, "Partial Content" }, { 204, "No Content" }, { 201, "Created" }, { 302, "Found" },
    { 400, "Bad Request" }, { 401, "Unauthorized" }, { 403, "Forbidden" }, { 500, "Internal Server Error" }, { 100, "Continue" },
    { 101, "Switching Protocols" }, { 103, "Early Hints" }, { 202, "Accepted" }, { 203, "Non-Authoritative Information" }, { 205, "Reset Content" },
    { 300, "Multiple Choices" }, { 301, "Moved Permanently" }, { 303, "See Other" }, { 307, "Temporary Redirect" }, { 308, "Permanent Redirect" },
    { 402, "Payment Required" }, { 405, "Method Not Allowed" }, { 406, "Not Acceptable" }, { 407, "Proxy Authentication Required" },
    { 408, "Request Timeout" }, { 409, "Conflict" }, { 410, "Gone" }, { 411, "Length Required" }, { 412, "Precondition Failed" },
    { 413, "Content Too Large" }, { 414, "URI Too Long" }, { 415, "Unsupported Media Type" }, { 416, "Range Not Satisfiable" },
    { 417, "Expectation Failed" }, { 421, "Misdirected Request" }, { 422, "Unprocessable Content" }, { 426, "Upgrade Required" },
    { 428, "Precondition Required" }, { 429, "Too Many Requests" }, { 431, "Request Header Fields Too Large" },
    { 451, "Unavailable For Legal Reasons" }, { 501, "Not Implemented" }, { 502, "Bad Gateway" }, { 503, "Service Unavailable" },
    { 504, "Gateway Timeout" }, { 505, "HTTP Version Not Supported" } };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].status == status) return all[i].phrase;
  return "";
}

/* The text of a second, made anew when it is over; a state's own. */
typedef struct moment { int64_t second; char text[40]; } moment;

enum { DATE_LENGTH = 29 };

/* As RFC 9110 writes it: "Sun, 06 Nov 1994 08:49:37 GMT". Days are counted from a first of March, so that leap days come last. */
static void date_write(char *to, size_t room, int64_t t) {
  static const char days[] = "ThuFriSatSunMonTueWed", months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
  int64_t day = t / 86400, second = t % 86400, z = day + 719468, era = z / 146097;
  int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  int64_t m = (5 * doy + 2) / 153, d = doy - (153 * m + 2) / 5 + 1, year = yoe + era * 400 + (m >= 10);
  snprintf(to, room, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * (day % 7), (int)d, months + 3 * m, (int)year, (int)(second / 3600),
           (int)(second / 60 % 60), (int)(second % 60));
}

/* date(seconds since 1970) -> string */
static int l_date(lua_State *L) {
  char text[64];
  lua_Integer t = luaL_checkinteger(L, 1);
  luaL_argcheck(L, t >= 0 && t < 253402300800, 1, "a second of the years 1970 to 9999");
  date_write(text, sizeof text, t);
  lua_pushstring(L, text);
  return 1;
}

static const char *now(lua_State *L) {
  moment *m = lua_touserdata(L, lua_upvalueindex(1));
  int64_t second = (int64_t)port_wall();
  if (m->second != second) {
    m->second = second;
    date_write(m->text, sizeof m->text, second);
  }
  return m->text;
}

typedef struct writer { char *p; size_t n, room; int dated, kinded; } writer;    /* p: NULL counts */

static inline void put(writer *w, const char *s, size_t n) {
  if (w->p && w->n + n <= w->room) memcpy(w->p + w->n, s, n);
  w->n += n;
}

#define PUT(w, literal) put(w, literal, sizeof literal - 1)

/* A value with a line's end in it would be an answer of whoever wrote it. */
static void check_value(lua_State *L, const char *name, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (p[i] == '\r' || p[i] == '\n' || p[i] == '\0') luaL_error(L, "the field '%s' has a line's end or a zero byte in its value", name);
}

static int is_word(const char *name, size_t n, const char *word) {
  for (size_t i = 0; i <= n; i++)
    if ((name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]) != word[i]) return 0;
  return 1;
}

/* The name is at -2, its value on top, a string or a number. */
static void put_field(lua_State *L, writer *w, const char *name, size_t len) {
  size_t n;
  if (!lua_isstring(L, -1)) luaL_error(L, "the field '%s' is a %s; strings, numbers and lists of them can be sent", name, luaL_typename(L, -1));
  lua_pushvalue(L, -1);
  const char *value = lua_tolstring(L, -1, &n);
  if (w->p) check_value(L, name, value, n);
  put(w, name, len);
  PUT(w, ": ");
  put(w, value, n);
  PUT(w, "\r\n");
  lua_pop(L, 1);
}

static void check_name(lua_State *L, const char *name, size_t len) {
  if (!mr_http_token(name, len)) luaL_error(L, "'%s' is no name of a field", name);
  if (is_word(name, len, "content-length") || is_word(name, len, "transfer-encoding") || is_word(name, len, "connection"))
    luaL_error(L, "the field '%s' is the server's own: it knows how the answer is sent", name);
}

static void put_fields(lua_State *L, writer *w, int table) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    size_t len;
    if (lua_type(L, -2) != LUA_TSTRING) luaL_error(L, "a field's name is a string, this one is a %s", luaL_typename(L, -2));
    const char *name = lua_tolstring(L, -2, &len);
    check_name(L, name, len);
    if (is_word(name, len, "date")) w->dated = 1;
    if (is_word(name, len, "content-type")) w->kinded = 1;
    if (lua_istable(L, -1)) {
      for (lua_Integer i = 1; lua_rawgeti(L, -1, i) != LUA_TNIL; i++) {
        put_field(L, w, name, len);
        lua_pop(L, 1);
      }
      lua_pop(L, 1);
    } else {
      put_field(L, w, name, len);
    }
    lua_pop(L, 1);
  }
}

enum { STATUS = 1, BITS, KIND, LENGTH, FIELDS, BODY };

static void put_number(writer *w, lua_Integer n) {
  char digits[24], *p = digits + sizeof digits;
  do *--p = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  put(w, p, (size_t)(digits + sizeof digits - p));
}

static void put_head(lua_State *L, writer *w, const char *date) {
  lua_Integer status = lua_tointeger(L, STATUS), bits = lua_tointeger(L, BITS);
  const char *words = phrase(status);
  size_t n;
  PUT(w, "HTTP/1.1 ");
  put_number(w, status);
  PUT(w, " ");
  put(w, words, strlen(words));
  PUT(w, "\r\n");
  w->dated = w->kinded = 0;
  if (lua_istable(L, FIELDS)) put_fields(L, w, FIELDS);
  if (!w->dated) {
    PUT(w, "Date: ");
    put(w, date, DATE_LENGTH);
    PUT(w, "\r\n");
  }
  if (!w->kinded && !lua_isnil(L, KIND)) {
    const char *kind = lua_tolstring(L, KIND, &n);
    if (w->p) check_value(L, "content-type", kind, n);
    PUT(w, "Content-Type: ");
    put(w, kind, n);
    PUT(w, "\r\n");
  }
  if (lua_isinteger(L, LENGTH)) {
    PUT(w, "Content-Length: ");
    put_number(w, lua_tointeger(L, LENGTH));
    PUT(w, "\r\n");
  } else if (lua_isboolean(L, LENGTH)) {
    PUT(w, "Transfer-Encoding: chunked\r\n");
  }
  if (!(bits & HTTP_KEEP)) PUT(w, "Connection: close\r\n");
  else if (bits & HTTP_OLD) PUT(w, "Connection: keep-alive\r\n");
  if (status == 101 || status == 426) PUT(w, "Connection: Upgrade\r\n");       /* what the field Upgrade says is for this connection */
  PUT(w, "\r\n");
  if (lua_isnil(L, BODY)) return;
  const char *body = lua_tolstring(L, BODY, &n);
  put(w, body, n);
}

/*
 * head(status, bits, type | nil, length | false | nil, fields | nil, body | nil) -> string
 * A length; false: the body comes in chunks; nil: neither is said. Of the bits only those count that say how the connection goes on.
 */
static int l_head(lua_State *L) {
  char small[2048];
  lua_Integer status = luaL_checkinteger(L, STATUS);
  luaL_argcheck(L, status >= 100 && status <= 999, STATUS, "a status is a number from 100 to 999");
  luaL_checkinteger(L, BITS);
  luaL_optstring(L, KIND, NULL);
  if (lua_isinteger(L, LENGTH)) luaL_argcheck(L, lua_tointeger(L, LENGTH) >= 0, LENGTH, "a length can't be negative");
  luaL_optstring(L, BODY, NULL);
  lua_settop(L, BODY);
  const char *date = now(L);
  writer w = { .p = NULL };
  put_head(L, &w, date);
  size_t total = w.n;
  w = (writer){ .p = total <= sizeof small ? small : lua_newuserdatauv(L, total, 0), .room = total };
  put_head(L, &w, date);
  if (w.n != total) return luaL_error(L, "the fields have changed while they were written");
  lua_pushlstring(L, w.p, w.n);
  return 1;
}

/* phrase(status) -> string: "" for one that nobody has given a meaning */
static int l_phrase(lua_State *L) {
  lua_pushstring(L, phrase(luaL_checkinteger(L, 1)));
  return 1;
}

/* decode(text[, plus]) -> string: %XX as bytes; `plus`: a plus sign is a space. What is no such escape stays. */
static int hex(char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1; }

static int l_decode(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  int plus = lua_toboolean(L, 2);
  if (!memchr(s, '%', len) && !(plus && memchr(s, '+', len))) {
    lua_settop(L, 1);
    return 1;
  }
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (size_t i = 0; i < len; i++) {
    int escape = s[i] == '%' && i + 2 < len && hex(s[i + 1]) >= 0 && hex(s[i + 2]) >= 0;
    luaL_addchar(&b, escape ? (char)(hex(s[i + 1]) * 16 + hex(s[i + 2])) : plus && s[i] == '+' ? ' ' : s[i]);
    if (escape) i += 2;
  }
  luaL_pushresult(&b);
  return 1;
}

static const luaL_Reg functions[] = { { "parse", l_parse }, { "fields", l_fields }, { "phrase", l_phrase }, { "decode", l_decode }, { "date", l_date },
                                      { NULL, NULL } };
static const luaL_Reg owned[] = { { "receive", l_receive }, { "begin", l_begin }, { NULL, NULL } };
static const luaL_Reg owned_fast[] = { { "receive", l_process_receive }, { "begin", l_process_begin }, { NULL, NULL } };
static const struct { const char *name; int value; } bits[] = { { "KEEP", HTTP_KEEP }, { "OLD", HTTP_OLD }, { "IN_CHUNKS", HTTP_IN_CHUNKS },
                                                                { "WAITS", HTTP_WAITS }, { "CHANGES", HTTP_CHANGES } };

int luaopen_mare_http_core(lua_State *L) {
  mr_host_ensure(L);
  if (!mr_http_built())
    return luaL_error(L, "this mare was built without llhttp, which mare.http needs: run tools/fetch-llhttp in mare's sources, then build again");
  luaL_newlib(L, functions);
  for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
    lua_pushinteger(L, bits[i].value);
    lua_setfield(L, -2, bits[i].name);
  }
  moment *m = lua_newuserdatauv(L, sizeof *m, 0);
  m->second = -1;
  lua_pushcclosure(L, l_head, 1);
  lua_setfield(L, -2, "head");
  mr_set_functions(L, mr_in_process(L) ? owned_fast : owned);
  return 1;
}
