/*
 * read: how connections are read; see conn.c.
 *
 * Bytes go from the thread's scratch buffer into a Lua string; only what was not asked for, or is not enough yet, is copied to the
 * connection's own buffer. What is wanted lies in `want`.
 */
#include "module/net.h"
#include "module/buflib.h"
#include <string.h>

enum { MOST_AWAITED = 1 << 18 };               /* bytes */

/*
 * Whatever is pushed may fail for want of memory, and run finalisers. So the reader has left before that; while bytes are given, `lost` keeps
 * everybody away, and stays set when there was no memory for them: the stream has a hole.
 */
static void leave(mr_conn *c) {
  c->reading = 0;
  if (PORT_UNLIKELY(c->awaited) && c->fd >= 0) port_net_await(c->fd, 1);
  c->awaited = 0;
}

static inline int is_taken(const mr_conn *c) { return c->reading || c->lost; }

static int give(lua_State *L, mr_conn *c, const char *p, size_t n) {
  c->lost = 1;
  if (PORT_UNLIKELY(c->want.buffer)) mr_buffer_push_copy(L, p, n);
  else lua_pushlstring(L, p, n);
  c->lost = 0;
  return 1;
}

/* The pattern stays at index 2 of the reader's stack. */
static mr_pattern pattern_of(lua_State *L, const mr_conn *c) {
  mr_pattern p = { NULL, 0 };
  if (c->want.kind == WANT_UNTIL) p.p = lua_tolstring(L, 2, &p.len);
  return p;
}

enum { WORTH = 16384 };                            /* bytes from which taking their block over is cheaper than a copy */

/* The block in which the bytes lie becomes a buffer's. */
static int taken_over(lua_State *L, mr_conn *c, size_t n) {
  mr_bytes b = c->in;
  if (n < WORTH || n != b.len || n < b.cap / 2) return 0;
  memset(&c->in, 0, sizeof c->in);
  c->lost = 1;
  luaL_checkstack(L, 10, NULL);
  mr_buffer_adopt(L, b.data, b.data + b.head, n);
  c->lost = 0;
  return 1;
}

static int adopted(lua_State *L, mr_conn *c, size_t n) {
  if (PORT_UNLIKELY(c->want.buffer)) return taken_over(L, c, n);
  const mr_framing *how = c->want.kind == WANT_FRAME ? c->want.framing : NULL;
  if (!how || !how->large || n < how->large || n != c->in.len) return 0;
  c->lost = 1;
  int done = how->adopt(L, &c->in);
  c->lost = 0;
  return done;
}

static int give_held(lua_State *L, mr_conn *c, size_t used, size_t n) {
  int r = adopted(L, c, n);
  if (r) return r > 0 ? 1 : mr_conn_fail(L, c, EBADF);
  give(L, c, c->in.len ? mr_bytes_at(&c->in) : "", n);
  if (c->fd >= 0 && used) mr_bytes_drop(&c->in, used);   /* a finaliser may have closed it just now */
  return 1;
}

static int at_end(lua_State *L, mr_conn *c) {
  switch (c->want.kind) {
    case WANT_ALL: return give_held(L, c, c->in.len, c->in.len);
    case WANT_UNTIL: break;
    case WANT_FRAME:
      if (!c->in.len) break;
      lua_pushnil(L);
      lua_pushfstring(L, "the stream ended inside a %s message", c->want.framing->name);
      lua_pushliteral(L, "EOF");
      return 3;
    default:
      if (c->in.len) return give_held(L, c, c->in.len, c->in.len);
  }
  return mr_net_fail(L, "closed", "EOF");
}

/* What cannot be asked for in one go through the scratch buffer is read in place. */
static int is_counted(const mr_conn *c) { return c->want.kind == WANT_COUNT || c->want.kind == WANT_FRAME; }

static int is_large(const mr_conn *c) {
  return c->want.kind == WANT_ALL ? c->in.len > 0 : is_counted(c) && c->want.n > MR_SCRATCH && (c->in.len > 0 || c->want.buffer);
}

/* As much more than has come may be allocated because a frame's beginning says so. */
#define TRUSTED ((size_t)1 << 20)
/* So much at once for a buffer that the program asks for: its bytes never move. */
#define ASKED ((size_t)64 << 20)

static long fetch_in_place(mr_conn *c) {
  size_t room = c->in.len < MR_SCRATCH ? MR_SCRATCH : c->in.len;
  if (c->want.kind == WANT_FRAME && room < TRUSTED) room = 16 * room < TRUSTED ? 16 * room : TRUSTED;
  if (c->want.buffer && is_counted(c) && c->want.n <= ASKED) room = c->want.n;
  if (is_counted(c) && room > c->want.n - c->in.len) room = c->want.n - c->in.len;
  if (c->in.cap - c->in.head - c->in.len >= MR_SCRATCH / 4 && c->want.kind == WANT_ALL) room = c->in.cap - c->in.head - c->in.len;
  if (!mr_bytes_reserve(&c->in, room)) return -ENOMEM;
  long r = mr_conn_read(c, c->in.data + c->in.head + c->in.len, room);
  if (r > 0) c->in.len += (size_t)r;
  return r;
}

/* A process's limit holds for what its connections keep for it, too. */
static int too_much(const mr_conn *c, const mr_fiber *f) { return mr_proc_of(f)->limit && c->in.len > mr_proc_of(f)->limit; }

/* More bytes: > 0: into `in`, or if they are all that is wanted onto the stack (*given). 0, -errno as mr_conn_read. */
static long fetch(lua_State *L, mr_fiber *f, mr_conn *c, int *given) {
  size_t n;
  if (is_large(c)) return too_much(c, f) ? -ENOMEM : fetch_in_place(c);
  char *s = mr_scratch(f);
  if (PORT_UNLIKELY(!s || too_much(c, f))) return -ENOMEM;
  long r = mr_conn_read(c, s, MR_SCRATCH);
  if (r <= 0) return r;
  if (c->in.len == 0) {
    mr_pattern pattern = pattern_of(L, c);
    long used = mr_conn_match(c, s, (size_t)r, &pattern, &n);
    if (PORT_LIKELY(used > 0)) {
      if (used < r && !mr_bytes_add(&c->in, s + used, (size_t)(r - used))) return c->rerr = ENOMEM, -ENOMEM;
      leave(c);
      *given = give(L, c, s, n);
      return r;
    }
  }
  if (!mr_bytes_add(&c->in, s, (size_t)r)) return c->rerr = ENOMEM, -ENOMEM;
  return r;
}

static int mismatch(lua_State *L, mr_conn *c) {
  const char *why;
  if (c->want.kind != WANT_FRAME) return mr_net_fail(L, "the pattern did not come within the limit", "EMSGSIZE");
  const char *name = c->want.framing->name;
  int64_t n = c->want.framing->length(mr_bytes_at(&c->in), c->in.len, &why);
  lua_pushnil(L);
  if (n > 0 && (uint64_t)n <= c->want.limit) {
    lua_pushinteger(L, (lua_Integer)n);
    lua_pushliteral(L, "ENOBUFS");
    return 3;
  }
  if (n < 0) lua_pushfstring(L, "what came is no %s message: %s", name, why);
  else lua_pushfstring(L, "a %s message of %I bytes came, the limit is %I", name, (lua_Integer)n, (lua_Integer)c->want.limit);
  lua_pushstring(L, n < 0 ? "EPROTO" : "EMSGSIZE");
  return 3;
}

/* One turn of a read; *done: the reader has left, the results are on the stack. */
static int read_step(lua_State *L, mr_fiber *f, mr_conn *c, int *done) {
  size_t n;
  int given = 0;
  *done = 1;
  if (c->in.len) {
    mr_pattern pattern = pattern_of(L, c);
    long used = mr_conn_match(c, mr_bytes_at(&c->in), c->in.len, &pattern, &n);
    if (used != 0) leave(c);
    if (used > 0) return give_held(L, c, (size_t)used, n);
    if (used < 0) return mismatch(L, c);
  }
  if (c->rerr) return leave(c), mr_conn_fail(L, c, c->rerr);
  if (c->eof) return leave(c), at_end(L, c);
  long r = fetch(L, f, c, &given);
  if (given) return given;
  if (r == -ENOMEM) return leave(c), mr_conn_fail(L, c, ENOMEM);
  *done = 0;
  return r == -EAGAIN;
}

/* Of a large message the reader wants much at once: each wake-up costs more than the bytes that it would bring. */
static void await_more(mr_conn *c) {
  size_t left = is_counted(c) && c->in.len && c->want.n > c->in.len && !c->tls ? c->want.n - c->in.len : 0;
  int bytes = left < MR_SCRATCH * 2 ? 0 : left > MOST_AWAITED ? MOST_AWAITED : (int)left;
  if (bytes == c->awaited) return;
  port_net_await(c->fd, bytes ? bytes : 1);
  c->awaited = bytes;
}

/* Nothing has come. 1: the next try waits for it in the kernel. */
static int may_stay(mr_fiber *f, mr_conn *c) { return f->deadline == UINT64_MAX && !is_large(c) && !c->awaited && mr_conn_stay(c, f); }

static int read_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  int done, n, stayed = 0;
  if (why != MR_AGAIN) c->dry = 0;
  mr_goes_on(L);
  do {
    if (PORT_UNLIKELY(c->fd < 0)) return leave(c), mr_conn_fail(L, c, EBADF);
    n = read_step(L, w->fiber, c, &done);
    c->stays = NULL;
    if (!done && n && !stayed && may_stay(w->fiber, c)) stayed = 1, n = 0;
    if (!done) continue;
    if (n == 1 && c->want.kind == WANT_FRAME && c->want.framing->results) n += c->want.framing->results(L);
    return n;
  } while (!n);
  return -1;
}

int mr_read_link(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (mr_watch_wait(c->watch, mr_conn_direction(c, MR_READ), w)) {
    c->dry = 0;
    return 1;
  }
  if (PORT_UNLIKELY(is_large(c) || c->awaited)) await_more(c);
  return 0;
}

void mr_read_unlink(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (c->watch) mr_watch_unwait(c->watch, w);
}

static int read_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)L;
  (void)w;
  (void)why;
  c->dry = 0;
  leave(c);
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass reading = { .run = { .op = "read", .link = mr_read_link, .unlink = mr_read_unlink }, .take = read_take, .give_up = read_give_up };

/* A finaliser that runs while bytes are given finds the connection busy; else the read that gave them did not come back. */
static int unreadable(lua_State *L, const mr_conn *c) {
  if (c->lost && !mr_lua_in_finaliser(L)) return mr_net_fail(L, "bytes were lost, there was no memory for them", "ENOMEM");
  return mr_net_fail(L, "another fiber reads from this connection", "EBUSY");
}

static int read_begin(lua_State *L, mr_fiber *f, mr_conn *c, int kind, int seconds) {
  if (PORT_UNLIKELY(c->fd < 0)) return mr_conn_fail(L, c, EBADF);
  if (PORT_UNLIKELY(is_taken(c) || c->selects_read)) return unreadable(L, c);
  c->want.kind = (unsigned char)kind;
  c->want.seen = 0;
  uint64_t deadline = mr_deadline_or(L, seconds, c->patience);
  if (deadline == 0) c->dry = 0;                 /* nobody may have polled since: ask the kernel */
  c->reading = 1;
  return mr_await(L, f, &reading, c, deadline);
}

static int read_kind(lua_State *L, mr_conn *c) {
  if (lua_isnoneornil(L, 2)) return WANT_SOME;
  if (lua_type(L, 2) == LUA_TNUMBER) {
    lua_Integer n = luaL_checkinteger(L, 2);
    luaL_argcheck(L, n >= 0, 2, "a number of bytes can't be negative");
    c->want.n = (size_t)n;
    return WANT_COUNT;
  }
  const char *s = luaL_checkstring(L, 2);
  if (*s == '*') s++;
  switch (*s) {
    case 'l': return WANT_LINE;
    case 'L': return WANT_KEPT_LINE;
    case 'a': return WANT_ALL;
    default: return luaL_argerror(L, 2, "what to read is a number of bytes, \"l\", \"L\" or \"a\"");
  }
}

static int read_as(lua_State *L, mr_fiber *f, int buffer) {
  mr_conn *c = mr_check_conn(L, 1);
  size_t n = c->want.n;
  if (PORT_LIKELY(!is_taken(c))) c->want.buffer = (unsigned char)buffer;
  if (PORT_LIKELY(lua_gettop(L) == 1)) return read_begin(L, f, c, WANT_SOME, 3);
  int kind = read_kind(L, c);
  if (is_taken(c)) c->want.n = n;                /* somebody else's */
  else if (buffer && kind == WANT_COUNT && c->want.n == 0 && c->fd >= 0) return mr_buffer_push_copy(L, "", 0), 1;
  else if (kind == WANT_COUNT && c->want.n == 0 && c->fd >= 0) return lua_pushliteral(L, ""), 1;
  return read_begin(L, f, c, kind, 3);
}

/* connection:read([bytes | "l" | "L" | "a"[, seconds]]) -> string | nil, message, code */
int mr_read_method(lua_State *L) { return read_as(L, mr_self_fiber(L), 0); }
int mr_read_fast(lua_State *L) { return read_as(L, mr_fiber_here(L), 0); }

/* connection:read_buffer([bytes | "l" | "L" | "a"[, seconds]]) -> sealed buffer | nil, message, code */
int mr_read_buffer_method(lua_State *L) { return read_as(L, mr_self_fiber(L), 1); }

/* connection:read_until(pattern[, most[, seconds]]) -> string that ends with it | nil, message, code */
int mr_read_until_method(lua_State *L) {
  size_t length;
  luaL_checklstring(L, 2, &length);              /* may run a finaliser, which may do anything to the connection */
  mr_conn *c = mr_check_conn(L, 1);
  lua_Number most = luaL_optnumber(L, 3, 1e15);
  luaL_argcheck(L, length > 0, 2, "the pattern can't be empty");
  luaL_argcheck(L, most >= 1, 3, "at least one byte must be allowed");
  if (!is_taken(c)) c->want.buffer = 0;
  if (!is_taken(c)) c->want.n = most > 1e15 ? (size_t)1e15 : (size_t)most;
  return read_begin(L, mr_self_fiber(L), c, WANT_UNTIL, 4);
}

/* A message that is within the limit but beyond the room stays where it is: nil, its size, "ENOBUFS". */
int mr_read_frame(lua_State *L, mr_fiber *f, mr_conn *c, const mr_framing *framing, size_t limit, size_t room, int seconds) {
  if (PORT_LIKELY(!is_taken(c))) {
    c->want.buffer = 0;
    c->want.framing = framing;
    c->want.limit = limit;
    c->want.room = room;
    c->want.n = 0;
  }
  return read_begin(L, f, c, WANT_FRAME, seconds);
}

/* ---- by those who use bytes where they lie ---- */

int mr_read_enter(mr_conn *c) {
  if (PORT_UNLIKELY(c->fd < 0 || !mr_conn_settled(c) || is_taken(c) || c->selects_read)) return 0;
  c->want.kind = WANT_SOME;
  c->want.buffer = 0;
  c->reading = 1;
  return 1;
}

void mr_read_leave(mr_conn *c) { leave(c); }

long mr_read_look(mr_fiber *f, mr_conn *c, const char **p) {
  if (PORT_UNLIKELY(c->in.len)) return *p = mr_bytes_at(&c->in), (long)c->in.len;
  char *s = c->rerr || c->eof ? NULL : mr_scratch(f);
  if (PORT_UNLIKELY(!s)) return 0;
  long r = mr_conn_read(c, s, MR_SCRATCH);
  if (r == -EAGAIN && may_stay(f, c)) r = mr_conn_read(c, s, MR_SCRATCH);
  c->stays = NULL;
  *p = s;
  return r > 0 || r == -EAGAIN ? r : 0;
}

void mr_read_use(mr_conn *c, const char *p, size_t n, size_t used) {
  if (PORT_UNLIKELY(c->in.len)) mr_bytes_drop(&c->in, used);
  else if (PORT_UNLIKELY(used < n) && !mr_bytes_add(&c->in, p + used, n - used)) c->rerr = ENOMEM;
}
