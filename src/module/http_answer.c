/*
 * http_answer: heads of answers for mare.http.core, and an ordinary answer from what a handler returned to the socket (reply).
 *
 * A head is written into a buffer on the C stack, and each field is looked at as it is written: nothing that came from a program gets into an answer
 * otherwise. One that is longer than the buffer has been counted by that, and is written once more; where a finaliser changes the fields in between, the
 * answer is refused.
 *
 * Ordinary is: a status that has a body and a string of at most 256 KiB, to a request that has none or whose body was read, on a connection where nobody
 * writes. Head and body then go out by one system call, and no string is made of them. What is not ordinary is left to lua/mare/http/request.lua,
 * with nothing changed.
 */
#include "module/http.h"
#include "port/net.h"
#include "run/replay.h"

#include <stdio.h>
#include <string.h>

const char *mr_http_phrase(lua_Integer status) {
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

enum { DATE_LENGTH = 29 };

/* As RFC 9110 writes it: "Sun, 06 Nov 1994 08:49:37 GMT". Days are counted from a first of March, so that leap days come last. */
void mr_http_date(char *to, size_t room, int64_t t) {
  static const char days[] = "ThuFriSatSunMonTueWed", months[] = "MarAprMayJunJulAugSepOctNovDecJanFeb";
  int64_t day = t / 86400, second = t % 86400, z = day + 719468, era = z / 146097;
  int64_t doe = z - era * 146097, yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365, doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  int64_t m = (5 * doy + 2) / 153, d = doy - (153 * m + 2) / 5 + 1, year = yoe + era * 400 + (m >= 10);
  snprintf(to, room, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + 3 * (day % 7), (int)d, months + 3 * m, (int)year, (int)(second / 3600),
           (int)(second / 60 % 60), (int)(second % 60));
}

static const char *now(mr_moment *m) {
  int64_t second = (int64_t)port_wall();
  if (m->second != second) {
    m->second = second;
    mr_http_date(m->text, sizeof m->text, second);
  }
  return m->text;
}

/* ---- writing ---- */

typedef struct writer { char *p; size_t n, room; int dated, kinded; } writer;    /* what is beyond the room is only counted */

static inline void put(writer *w, const char *s, size_t n) {
  if (w->n + n <= w->room) memcpy(w->p + w->n, s, n);
  w->n += n;
}

#define PUT(w, literal) put(w, literal, sizeof literal - 1)

/* A value with a line's end in it would be an answer of whoever wrote it. */
static void put_value(lua_State *L, writer *w, const char *name, const char *p, size_t n) {
  unsigned bad = 0;
  for (size_t i = 0; i < n; i++) bad |= (p[i] == '\r') | (p[i] == '\n') | (p[i] == '\0');
  if (PORT_UNLIKELY(bad)) luaL_error(L, "the field '%s' has a line's end or a zero byte in its value", name);
  put(w, p, n);
  PUT(w, "\r\n");
}

static int is_word(const char *name, size_t n, const char *word) {
  for (size_t i = 0; i < n; i++)
    if ((name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]) != word[i]) return 0;
  return 1;
}

#define IS(name, len, word) (len == sizeof word - 1 && is_word(name, len, word))

/* Its value is on top, a string or a number. */
static void put_field(lua_State *L, writer *w, const char *name, size_t len) {
  size_t n;
  put(w, name, len);
  PUT(w, ": ");
  if (PORT_LIKELY(lua_type(L, -1) == LUA_TSTRING)) {
    const char *value = lua_tolstring(L, -1, &n);
    put_value(L, w, name, value, n);
    return;
  }
  if (!lua_isnumber(L, -1)) luaL_error(L, "the field '%s' is a %s; strings, numbers and lists of them can be sent", name, luaL_typename(L, -1));
  lua_pushvalue(L, -1);                          /* or the number in the table would become a string */
  const char *value = lua_tolstring(L, -1, &n);
  put_value(L, w, name, value, n);
  lua_pop(L, 1);
}

/* What a field of this name makes superfluous is remembered. */
static void check_name(lua_State *L, writer *w, const char *name, size_t len) {
  if (PORT_UNLIKELY(!mr_http_token(name, len))) luaL_error(L, "'%s' is no name of a field", name);
  if (IS(name, len, "date")) w->dated = 1;
  else if (IS(name, len, "content-type")) w->kinded = 1;
  else if (IS(name, len, "content-length") || IS(name, len, "transfer-encoding") || IS(name, len, "connection"))
    luaL_error(L, "the field '%s' is the server's own: it knows how the answer is sent", name);
}

static void put_fields(lua_State *L, writer *w, int table) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    size_t len;
    if (lua_type(L, -2) != LUA_TSTRING) luaL_error(L, "a field's name is a string, this one is a %s", luaL_typename(L, -2));
    const char *name = lua_tolstring(L, -2, &len);
    check_name(L, w, name, len);
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

static void put_number(writer *w, lua_Integer n) {
  char digits[24], *p = digits + sizeof digits;
  do *--p = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  put(w, p, (size_t)(digits + sizeof digits - p));
}

enum { NONE = -1, CHUNKS = -2 };                 /* in place of a length */

typedef struct answer {
  lua_Integer status, length;
  unsigned bits;
  mr_slice_of kind, body;                        /* kind.p NULL: none */
  const char *date;
  int fields;                                    /* their table's index, 0: there are none */
} answer;

static void put_answer(lua_State *L, writer *w, const answer *a) {
  const char *words = mr_http_phrase(a->status);
  w->n = 0;
  w->dated = w->kinded = 0;
  PUT(w, "HTTP/1.1 ");
  put_number(w, a->status);
  PUT(w, " ");
  put(w, words, strlen(words));
  PUT(w, "\r\n");
  if (a->fields) put_fields(L, w, a->fields);
  if (!w->dated) {
    PUT(w, "Date: ");
    put(w, a->date, DATE_LENGTH);
    PUT(w, "\r\n");
  }
  if (!w->kinded && a->kind.p) {
    PUT(w, "Content-Type: ");
    put_value(L, w, "content-type", a->kind.p, a->kind.len);
  }
  if (a->length >= 0) {
    PUT(w, "Content-Length: ");
    put_number(w, a->length);
    PUT(w, "\r\n");
  } else if (a->length == CHUNKS) {
    PUT(w, "Transfer-Encoding: chunked\r\n");
  }
  if (!(a->bits & HTTP_KEEP)) PUT(w, "Connection: close\r\n");
  else if (a->bits & HTTP_OLD) PUT(w, "Connection: keep-alive\r\n");
  if (a->status == 101 || a->status == 426) PUT(w, "Connection: Upgrade\r\n");   /* what the field Upgrade says is for this connection */
  PUT(w, "\r\n");
  if (a->body.len) put(w, a->body.p, a->body.len);
}

static mr_slice_of slice_at(lua_State *L, int idx) {
  mr_slice_of s = { NULL, 0 };
  s.p = luaL_optlstring(L, idx, NULL, &s.len);
  if (!s.p) s.len = 0;
  return s;
}

enum { STATUS = 1, BITS, KIND, LENGTH, FIELDS, BODY };

/*
 * head(status, bits, type | nil, length | false | nil, fields | nil, body | nil) -> string
 * A length; false: the body comes in chunks; nil: neither is said. Of the bits only those count that say how the connection goes on.
 */
static int l_head(lua_State *L) {
  char small[2048];
  answer a = { .status = luaL_checkinteger(L, STATUS), .bits = (unsigned)luaL_checkinteger(L, BITS), .length = NONE };
  luaL_argcheck(L, a.status >= 100 && a.status <= 999, STATUS, "a status is a number from 100 to 999");
  lua_settop(L, BODY);
  a.kind = slice_at(L, KIND);
  a.body = slice_at(L, BODY);
  if (lua_isboolean(L, LENGTH)) a.length = CHUNKS;
  if (lua_isinteger(L, LENGTH)) luaL_argcheck(L, (a.length = lua_tointeger(L, LENGTH)) >= 0, LENGTH, "a length can't be negative");
  if (lua_istable(L, FIELDS)) a.fields = FIELDS;
  a.date = now(lua_touserdata(L, lua_upvalueindex(1)));
  writer w = { .p = small, .room = sizeof small };
  put_answer(L, &w, &a);
  if (w.n > w.room) {
    size_t total = w.n;
    w = (writer){ .p = lua_newuserdatauv(L, total, 0), .room = total };
    put_answer(L, &w, &a);
    if (w.n != total) return luaL_error(L, "the fields have changed while they were written");
  }
  lua_pushlstring(L, w.p, w.n);
  return 1;
}

/* ---- an ordinary answer ---- */

enum { JOINED = 1024, MOST = 1 << 18 };          /* bytes of a body: copied behind its head; sent here */

/* Is the request at 1 one whose answer is ordinary? */
static int is_ordinary(const raw_table *req, mr_httpshape *s, int64_t *bits) {
  const raw_value *method = req ? mr_slot_in(req, SLOT(s, method)) : NULL;
  if (!method || method->tt != RAW_SHORT || !INTEGER(req, s, bits, bits)) return 0;
  const raw_string *name = (const raw_string *)(uintptr_t)method->bits;
  if (name->shrlen == 4 && memcmp(name->text, "HEAD", 4) == 0) return 0;
  return IS_SET(req, s, _done) && !IS_SET(req, s, _began) && !IS_SET(req, s, _broken) && !(*bits & HTTP_WAITS);
}

/* What is left of two slices after n bytes of them. */
static int push_rest(lua_State *L, const port_slice *s, size_t n) {
  size_t first = n < s[0].len ? n : s[0].len;
  lua_pushlstring(L, (const char *)s[0].p + first, s[0].len - first);
  if (s[1].len) lua_pushlstring(L, (const char *)s[1].p + (n - first), s[1].len - (n - first)), lua_concat(L, 2);
  return 1;
}

/* The answer has begun. Writes what can be written at once: whether the connection goes on, or the rest. The connection is on top. */
static int write_out(lua_State *L, const port_slice *s, int64_t bits) {
  mr_conn *c = (mr_conn *)mr_movable_to(L, -1, mr_conn_type);
  long r = 0;
  if (PORT_LIKELY(c && c->fd >= 0 && !c->tls && !c->sent && !c->writing && !c->werr && !c->out.len && !c->buffered)) r = mr_conn_write(c, s, s[1].len ? 2 : 1);
  if (PORT_UNLIKELY(r != (long)(s[0].len + s[1].len))) return push_rest(L, s, r > 0 ? (size_t)r : 0);
  lua_pushboolean(L, (bits & HTTP_KEEP) != 0);
  return 1;
}

/*
 * reply(request, stopping, [status, ] body, fields) -> whether the connection goes on | a string, which is still to be sent | nil: it is not ordinary
 * Raises what is wrong with the fields, with nothing begun.
 */
int mr_http_reply(lua_State *L) {
  static const char text[] = "text/plain; charset=utf-8";
  enum { REQUEST = 1, STOPPING, STATUS_AT, BODY_AT, FIELDS_AT };
  char small[4096];
  mr_httpshape *s = lua_touserdata(L, lua_upvalueindex(1));
  int64_t bits;
  if (lua_type(L, STATUS_AT) == LUA_TSTRING) {
    lua_pushinteger(L, 200);
    lua_insert(L, STATUS_AT);
  }
  lua_settop(L, FIELDS_AT);
  if (PORT_UNLIKELY(!mr_layout || mr_replay_on || lua_toboolean(L, STOPPING) || lua_type(L, BODY_AT) != LUA_TSTRING || !lua_isinteger(L, STATUS_AT))) return 0;
  answer a = { .status = lua_tointeger(L, STATUS_AT), .kind = { text, sizeof text - 1 }, .fields = lua_istable(L, FIELDS_AT) ? FIELDS_AT : 0 };
  if (a.status < 200 || a.status > 999 || a.status == 204 || a.status == 304 || (!a.fields && !lua_isnil(L, FIELDS_AT))) return 0;
  if (PORT_UNLIKELY(!is_ordinary(mr_table_at(L, REQUEST), s, &bits))) return 0;
  a.body.p = lua_tolstring(L, BODY_AT, &a.body.len);
  mr_slice_of body = a.body;
  if (body.len > MOST) return 0;
  if (!body.len) a.kind.p = NULL;
  if (body.len > JOINED) a.body.len = 0;
  a.length = (lua_Integer)body.len;
  a.bits = (unsigned)bits;
  a.date = now(&s->moment);
  writer w = { .p = small, .room = sizeof small };
  put_answer(L, &w, &a);                         /* may run finalisers, which may do anything to the request */
  const raw_table *req = mr_table_at(L, REQUEST);
  const raw_value *conn = mr_slot_in(req, SLOT(s, connection));
  if (PORT_UNLIKELY(w.n > w.room || !conn || !is_ordinary(req, s, &bits) || (unsigned)bits != a.bits)) return 0;
  if (!mr_slot_in(req, SLOT(s, _began)) || !mr_slot_in(req, SLOT(s, status)) || !mr_slot_in(req, SLOT(s, _sent))) return 0;
  SET_BOOLEAN(req, s, _began, 1);
  SET_INTEGER(req, s, status, a.status);
  SET_INTEGER(req, s, _sent, body.len);
  raw_push(L, conn->tt, conn->bits);
  port_slice out[2] = { { w.p, w.n }, { body.p, body.len > JOINED ? body.len : 0 } };
  return write_out(L, out, bits);
}

/* ---- what the module has ---- */

void mr_http_head_push(lua_State *L) {
  mr_moment *m = lua_newuserdatauv(L, sizeof *m, 0);
  m->second = -1;
  lua_pushcclosure(L, l_head, 1);
}
