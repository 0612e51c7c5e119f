/*
 * socket_io: what waits in mare.socket: accept, connect, receive, send.
 *
 * An operation is a step that is tried until it does not have to wait; `what` of its wait says which. The object is at 1. How far the one that
 * has the turn has come is in the turn.
 *
 * A step that ends leaves its turn before it pushes anything, as that may fail for want of memory, or run finalisers, which may use the
 * object or close it, and the thread's scratch buffer too. So nothing is pushed between a look at `in`, or into the scratch buffer, and the
 * copy. Bytes that are in `in` are taken out after their string is there; `taken` tells whether somebody else was faster.
 */
#include "module/socket.h"
#include "io/conn.h"

#include <string.h>

typedef struct op {
  const char *name;
  int direction;                       /* MR_READ or MR_WRITE: what it waits for */
  int (*step)(lua_State *L, mr_fiber *f, mr_sock *s);   /* results; -1: it would have to wait */
  int (*fail)(lua_State *L, mr_sock *s, const char *why);
} op;

enum { OP_ACCEPT, OP_CONNECT, OP_RECEIVE, OP_SEND, OP_DGRAM_RECEIVE, OP_RECEIVEFROM, OP_DGRAM_SEND, OP_SENDTO,
       OP_CONNECTING };
enum { SLOW = 32 };                  /* reads that wait before they try, after one that tried in vain */
static const op ops[];

/* ---- turns ---- */

static mr_turn *turn_of(mr_sock *s, int what) {
  switch (what) {
    case OP_RECEIVE: return &s->reading;
    case OP_SEND: return &s->writing;
    default: return NULL;
  }
}

static void pass(mr_turn *t, mr_fiber *near) {
  t->busy = 0;
  while (t->waiting.next && !mr_waitq_empty(&t->waiting)) {
    mr_wait *n = t->waiting.next;
    mr_waitq_del(n);
    if (!mr_wait_claim(n)) continue;
    t->busy = 1;
    mr_ready(n->fiber, MR_WOKEN, near);
    return;
  }
}

static void leave(mr_sock *s, int what, mr_fiber *f) {
  mr_turn *t = turn_of(s, what);
  if (t && t->busy) pass(t, f);
}

void mr_turn_refuse(mr_turn *t, mr_fiber *near) {
  while (t->waiting.next && !mr_waitq_empty(&t->waiting)) {
    mr_wait *n = t->waiting.next;
    mr_waitq_del(n);
    if (mr_wait_claim(n)) mr_ready(n->fiber, MR_CLOSED, near);
  }
}

/* ---- the wait ---- */

static int io_failed(lua_State *L, mr_fiber *f, mr_sock *s, int what, const char *why) {
  leave(s, what, f);
  return ops[what].fail(L, s, why);
}

static int io_failed_by(lua_State *L, mr_fiber *f, mr_sock *s, int what, int err) {
  char buf[128];
  return io_failed(L, f, s, what, mr_sock_text(err, buf, sizeof buf));
}

/*
 * An answer is often there at once. Who is alone waits for it in the kernel: to park and to be woken by a poller would cost more than the
 * answer. A host may wait there for as long as it likes, as it may compute; a process for a moment, as it must hear when it is to end, and as
 * nothing is to run while nothing happens. That the monitor ends the moment saves a timer for each call.
 */
static int glance(const mr_fiber *f, const mr_sock *s, int direction, uint64_t deadline) {
  enum { MOMENT = 5, LONG = 60000 };             /* ms: half of what a worker may go without dispatching; and when a deadline is looked at */
  if (!mr_alone(f)) return 0;
  int host = mr_proc_of(f)->kind == PROC_HOST, ms = host ? -1 : MOMENT;
  if (deadline != UINT64_MAX) {
    uint64_t now = port_now(), left = deadline > now ? (deadline - now + 999999) / 1000000 : 0;
    if (left < MOMENT) return 0;
    if (host) ms = left > LONG ? LONG : (int)left;
  } else if (!host && mr_linger_begin(f)) {
    int ready = port_net_wait(s->fd, direction == MR_WRITE, -1);
    mr_linger_end(f);
    return ready;
  }
  return port_net_wait(s->fd, direction == MR_WRITE, ms);
}

static int io_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_sock *s = o;
  mr_fiber *f = w->fiber;
  int what = w->what, n, err;
  uint64_t deadline = f->deadline;
  (void)why;
  mr_goes_on(L);
  do {
    if (PORT_UNLIKELY(s->fd < 0)) return io_failed(L, f, s, what, "closed");
    if ((n = ops[what].step(L, f, s)) >= 0 || deadline == 0) return n;
    s->slow = SLOW;
  } while (glance(f, s, ops[what].direction, deadline));
  if (PORT_UNLIKELY(!s->watch) && (err = mr_sock_watch(s)) != 0) return io_failed_by(L, f, s, what, err);
  return -1;
}

static int io_link(void *o, mr_wait *w) {
  mr_fiber_in(w->fiber, ops[w->what].name);
  return mr_watch_wait(((mr_sock *)o)->watch, ops[w->what].direction, w);
}

static void io_unlink(void *o, mr_wait *w) {
  mr_sock *s = o;
  if (s->watch) mr_watch_unwait(s->watch, w);
}

static int io_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  if (why == MR_TIMEOUT) return io_failed(L, w->fiber, o, w->what, "timeout");
  leave(o, w->what, w->fiber);
  return 0;
}

static const mr_waitclass io = { .run = { .link = io_link, .unlink = io_unlink }, .take = io_take, .give_up = io_give_up };

/* The turn is ours, if there are any. */
static int io_begin(lua_State *L, mr_fiber *f, mr_sock *s, int what, uint64_t deadline) {
  mr_turn *t = turn_of(s, what);
  if (t) t->progress = 0;
  return mr_await_as(L, f, &io, s, (unsigned short)what, deadline);
}

/* ---- the wait for a turn ---- */

static int sock_turn_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_sock *s = o;
  if (why == MR_WOKEN) return io_begin(L, w->fiber, s, w->what, w->fiber->deadline);
  return s->fd < 0 ? ops[w->what].fail(L, s, "closed") : -1;
}

static int sock_turn_link(void *o, mr_wait *w) {
  mr_turn *t = turn_of(o, w->what);
  if (!t->waiting.next) mr_waitq_init(&t->waiting);
  mr_waitq_add(&t->waiting, w);
  mr_fiber_in(w->fiber, ops[w->what].name);
  return 0;
}

static void sock_turn_unlink(void *o, mr_wait *w) {
  (void)o;
  mr_waitq_del(w);
}

static int sock_turn_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) { return why == MR_TIMEOUT ? ops[w->what].fail(L, o, "timeout") : 0; }

static const mr_waitclass turn = { .run = { .link = sock_turn_link, .unlink = sock_turn_unlink }, .take = sock_turn_take, .give_up = sock_turn_give_up };

static int io_start(lua_State *L, mr_sock *s, int what) {
  mr_fiber *f = mr_self_fiber(L);
  mr_turn *t = turn_of(s, what);
  uint64_t deadline = mr_sock_deadline(s);
  if (PORT_UNLIKELY(t && t->busy && s->fd >= 0)) return mr_await_as(L, f, &turn, s, (unsigned short)what, deadline);
  if (t && s->fd >= 0) t->busy = 1;
  if (what == OP_RECEIVE && s->slow && s->fd >= 0 && !s->in.len && deadline) {
    s->slow--;                                 /* its last tries came too early: the wait first, it saves a call */
    glance(f, s, MR_READ, deadline);
  }
  return io_begin(L, f, s, what, deadline);
}

static int fail_plainly(lua_State *L, mr_sock *s, const char *why) {
  (void)s;
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* ---- accept and connect ---- */

/* The object that the connection becomes is at 2. One edge may stand for many connections and wakes one fiber: it passes that on. */
static int accept_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  mr_sock *c = lua_touserdata(L, 2);
  int fd, err = port_net_accept(s->fd, &fd);
  if (PORT_WOULD_BLOCK(err)) return -1;
  if (err) return mr_sock_fail(L, err);
  if (s->watch && mr_watch_waited(s->watch, MR_READ)) mr_watch_edge(s->watch, MR_READ, f);
  c->fd = fd;
  c->family = s->family;
  lua_settop(L, 2);
  return 1;
}

/* server:accept() -> client | nil, message */
int mr_sock_accept(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_SERVER) | SOCK_IS(SOCK_UNIX_SERVER));
  lua_settop(L, 1);
  mr_sock_push(L, s->class == SOCK_UNIX_SERVER ? SOCK_UNIX_CLIENT : SOCK_CLIENT, s->family);
  return io_start(L, s, OP_ACCEPT);
}

static int connected(lua_State *L, int err) {
  if (err) return mr_sock_fail(L, err);
  lua_pushinteger(L, 1);
  return 1;
}

static int connect_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  port_addr a;
  size_t len;
  const char *p = lua_tolstring(L, 2, &len);
  int err = port_addr_raw(&a, p, len);
  if (!err) err = port_net_connect(s->fd, &a);
  if (err != EINPROGRESS) return connected(L, err);
  return f->deadline ? io_begin(L, f, s, OP_CONNECTING, f->deadline) : -1;   /* without time LuaSocket doesn't look, either */
}

static int connecting_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  int err = port_net_connected(s->fd);
  (void)f;
  return err == EINPROGRESS ? -1 : connected(L, err);
}

/* In a run that can be repeated. */
static void check_inside(lua_State *L, int idx) {
  port_addr a;
  size_t len;
  const char *p = lua_tolstring(L, idx, &len);
  if (port_addr_raw(&a, p, len) == 0) mr_outside_address(L, &a);
}

/* connect(object, address): the descriptor is there */
int mr_sock_connect(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_ANY);
  luaL_checkstring(L, 2);
  if (SOCK_IS(s->class) & (SOCK_ANY_TCP | SOCK_ANY_STREAM)) check_inside(L, 2);
  return io_start(L, s, OP_CONNECT);
}

/* ---- receiving from a stream ---- */

/* What is wanted is an integer at 2: so many bytes, or one of these. At 3 is what stands before the result. */
enum { WANT_A_LINE = -1, WANT_EVERYTHING = -2 };

static void take(mr_sock *s, size_t n) {
  s->taken++;
  s->received += n;
  mr_bytes_drop(&s->in, n);
}

/* A line is given without its \r, wherever they are. Those inside are dropped from a string of it: making a buffer may run finalisers. */
static void push_line(lua_State *L, const char *p, size_t n) {
  luaL_Buffer b;
  if (n && p[n - 1] == '\r') n--;
  int plain = !n || !memchr(p, '\r', n);
  lua_pushlstring(L, n ? p : "", n);
  if (plain) return;
  p = lua_tostring(L, -1);
  char *to = luaL_buffinitsize(L, &b, n);
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (p[i] != '\r') to[k++] = p[i];
  luaL_pushresultsize(&b, k);
  lua_remove(L, -2);
}

static void push_bytes(lua_State *L, const char *p, size_t n) {
  if (lua_tointeger(L, 2) == WANT_A_LINE) push_line(L, p, n);
  else lua_pushlstring(L, n ? p : "", n);
  if (lua_rawlen(L, 3) == 0) return;
  lua_pushvalue(L, 3);
  lua_insert(L, -2);
  lua_concat(L, 2);
}

static int received(lua_State *L) {
  lua_pushnil(L);
  lua_pushnil(L);
  return 3;
}

static int give_held(lua_State *L, mr_sock *s, size_t used, size_t n) {
  uint64_t before = s->taken;
  push_bytes(L, s->in.len ? mr_bytes_at(&s->in) : "", n);
  if (s->taken == before && used) take(s, used);
  return received(L);
}

static int receive_fail(lua_State *L, mr_sock *s, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  uint64_t before = s->taken;
  size_t n = s->in.len;
  push_bytes(L, n ? mr_bytes_at(&s->in) : "", n);
  if (s->taken == before && n) take(s, n);
  return 3;
}

/* How many of the first len bytes the result uses up, 0: more are needed. *give: how many of them it is made of. */
static size_t match(lua_State *L, const char *p, size_t len, uint64_t *seen, size_t *give) {
  lua_Integer want = lua_tointeger(L, 2);
  if (want == WANT_EVERYTHING) return 0;
  if (want >= 0) return *give = (size_t)want, len >= (size_t)want ? (size_t)want : 0;
  if (*seen > len) *seen = 0;
  const char *q = memchr(p + *seen, '\n', len - *seen);
  *seen = len;
  if (!q) return 0;
  *give = (size_t)(q - p);
  return *give + 1;
}

/* Straight from the scratch buffer. What Lua has no memory for is lost, and every later call says so. */
static int give_fresh(lua_State *L, mr_fiber *f, mr_sock *s, const char *p, size_t len, size_t used, size_t give) {
  if (used < len && !mr_bytes_add(&s->in, p + used, len - used)) {
    s->lost = ENOMEM;
    return io_failed_by(L, f, s, OP_RECEIVE, ENOMEM);
  }
  leave(s, OP_RECEIVE, f);
  s->received += used;
  s->lost = ENOMEM;
  push_bytes(L, p, give);
  s->lost = 0;
  return received(L);
}

static int at_end(lua_State *L, mr_fiber *f, mr_sock *s) {
  if (lua_tointeger(L, 2) != WANT_EVERYTHING || s->in.len == 0) return io_failed(L, f, s, OP_RECEIVE, "closed");
  leave(s, OP_RECEIVE, f);
  return give_held(L, s, s->in.len, s->in.len);
}

/* Much is wanted: into `in` without another copy. */
static long read_in_place(mr_sock *s) {
  if (!mr_bytes_reserve(&s->in, s->in.len < MR_SCRATCH ? MR_SCRATCH : s->in.len)) return -ENOMEM;
  size_t room = s->in.cap - s->in.head - s->in.len;
  long r = port_net_read(s->fd, s->in.data + s->in.head + s->in.len, room);
  if (r > 0) s->in.len += (size_t)r;
  return r;
}

static int is_large(lua_State *L, const mr_sock *s) {
  lua_Integer want = lua_tointeger(L, 2);
  return s->in.len && (want == WANT_EVERYTHING || want > MR_SCRATCH);
}

static long read_scratch(mr_fiber *f, mr_sock *s, char **p) {
  if ((*p = mr_scratch(f)) == NULL) return -ENOMEM;
  return port_net_read(s->fd, *p, MR_SCRATCH);
}

/* A process's limit holds for what its sockets keep for it, too. */
static int too_much(const mr_sock *s, const mr_fiber *f) { return mr_proc_of(f)->limit && s->in.len > mr_proc_of(f)->limit; }

static int receive_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  size_t used, give;
  char *p = NULL;
  for (;;) {
    if (s->in.len && ((used = match(L, mr_bytes_at(&s->in), s->in.len, &s->reading.progress, &give)) > 0 || lua_tointeger(L, 2) == 0)) {
      leave(s, OP_RECEIVE, f);
      return give_held(L, s, used, give);
    }
    if (PORT_UNLIKELY(s->lost || too_much(s, f))) return io_failed_by(L, f, s, OP_RECEIVE, ENOMEM);
    long r = is_large(L, s) ? read_in_place(s) : read_scratch(f, s, &p);
    if (r == 0) return at_end(L, f, s);
    if (r < 0) return PORT_WOULD_BLOCK(-r) ? -1 : io_failed_by(L, f, s, OP_RECEIVE, (int)-r);
    if (!p) continue;
    if (s->in.len == 0) {
      used = match(L, p, (size_t)r, &s->reading.progress, &give);
      if (PORT_LIKELY(used || lua_tointeger(L, 2) == 0)) return give_fresh(L, f, s, p, (size_t)r, used, give);
    }
    if (!mr_bytes_add(&s->in, p, (size_t)r)) {
      s->lost = ENOMEM;
      return io_failed_by(L, f, s, OP_RECEIVE, ENOMEM);
    }
    p = NULL;
  }
}

static lua_Integer wanted(lua_State *L, size_t before, int *enough) {
  *enough = 0;
  if (lua_isnumber(L, 2)) {
    lua_Number n = lua_tonumber(L, 2);
    luaL_argcheck(L, n >= 0, 2, "invalid receive pattern");
    lua_Integer want = n < 0x1p62 ? (lua_Integer)n : (lua_Integer)1 << 62;
    *enough = before > 0 && (size_t)want <= before;
    return *enough ? 0 : want - (lua_Integer)before;
  }
  const char *p = luaL_optstring(L, 2, "*l");
  if (p[0] == '*' && p[1] == 'l') return WANT_A_LINE;
  luaL_argcheck(L, p[0] == '*' && p[1] == 'a', 2, "invalid receive pattern");
  return WANT_EVERYTHING;
}

/* client:receive([pattern[, prefix]]) -> string | nil, message, what came so far */
int mr_sock_receive(lua_State *L) {
  int enough;
  size_t before;
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_CLIENT) | SOCK_IS(SOCK_UNIX_CLIENT));
  luaL_optlstring(L, 3, "", &before);
  lua_settop(L, 3);
  if (lua_isnil(L, 3)) before = 0;
  lua_Integer want = wanted(L, before, &enough);
  if (enough) return received(L);
  lua_pushinteger(L, want);
  lua_replace(L, 2);
  return io_start(L, s, OP_RECEIVE);
}

/* ---- sending to a stream ---- */

/* The string is at 2; its first and last byte to send at 3 and 4. */
static int send_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  size_t first = (size_t)lua_tointeger(L, 3), last = (size_t)lua_tointeger(L, 4);
  const char *p = lua_tostring(L, 2);
  uint64_t *progress = &s->writing.progress;
  for (;;) {
    port_slice left = { p + first - 1 + *progress, last - first + 1 - (size_t)*progress };
    if (left.len == 0) break;
    long r = port_net_write(s->fd, &left, 1);
    if (r < 0) return PORT_WOULD_BLOCK(-r) ? -1 : io_failed_by(L, f, s, OP_SEND, (int)-r);
    *progress += (uint64_t)r;
    s->sent += (uint64_t)r;
    if ((size_t)r < left.len) return -1;         /* it is full: trying again would only say so */
  }
  leave(s, OP_SEND, f);
  lua_pushinteger(L, (lua_Integer)last);
  return lua_pushnil(L), lua_pushnil(L), 3;
}

static int send_fail(lua_State *L, mr_sock *s, const char *why) {
  lua_Integer progress = (lua_Integer)s->writing.progress;
  lua_pushnil(L);
  lua_pushstring(L, why);
  lua_pushinteger(L, lua_tointeger(L, 3) - 1 + progress);
  return 3;
}

static lua_Integer position(lua_State *L, int idx, lua_Number otherwise, size_t size) {
  lua_Number at = luaL_optnumber(L, idx, otherwise);
  if (at < 0) at += (lua_Number)size + 1;
  return at >= 0x1p53 ? (lua_Integer)1 << 53 : at > 0 ? (lua_Integer)at : 0;
}

/* client:send(data[, first[, last]]) -> last byte sent | nil, message, last byte sent */
int mr_sock_send(lua_State *L) {
  size_t size;
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_CLIENT) | SOCK_IS(SOCK_UNIX_CLIENT));
  luaL_checklstring(L, 2, &size);
  lua_Integer first = position(L, 3, 1, size), last = position(L, 4, -1, size);
  if (first < 1) first = 1;
  if (last > (lua_Integer)size) last = (lua_Integer)size;
  lua_settop(L, 2);
  lua_pushinteger(L, first);
  lua_pushinteger(L, last);
  if (first <= last) return io_start(L, s, OP_SEND);
  lua_pushinteger(L, first - 1);
  return lua_pushnil(L), lua_pushnil(L), 3;
}

/* ---- datagrams ---- */

/* At 2 how many bytes are wanted; at 3 nil, or a block of so many when they don't fit into the scratch buffer. */
static int dgram_step(lua_State *L, mr_fiber *f, mr_sock *s, int from) {
  port_addr a = { 0 };
  size_t size = (size_t)lua_tointeger(L, 2);
  char *p = lua_isnil(L, 3) ? mr_scratch(f) : lua_touserdata(L, 3);
  long r = p ? port_net_receive(s->fd, p, size, &a) : -ENOMEM;
  if (r < 0) return PORT_WOULD_BLOCK(-r) ? -1 : mr_sock_fail(L, (int)-r);
  if (s->watch && mr_watch_waited(s->watch, MR_READ)) mr_watch_edge(s->watch, MR_READ, f);
  lua_pushlstring(L, p, (size_t)r);
  return from ? 1 + mr_push_addr(L, &a) : 1;
}

static int receive_dgram_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  return dgram_step(L, f, s, 0);
}

static int receivefrom_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  return dgram_step(L, f, s, 1);
}

static int receive_begin(lua_State *L, mr_sock *s, int what) {
  enum { MOST = 1 << 24 };
  lua_Number n = luaL_optnumber(L, 2, 8192);
  lua_Integer size = n > MOST ? MOST : n > 0 ? (lua_Integer)n : 0;
  lua_settop(L, 1);
  lua_pushinteger(L, size);
  if (size > MR_SCRATCH) lua_newuserdatauv(L, (size_t)size, 0);
  else lua_pushnil(L);
  return io_start(L, s, what);
}

/* datagrams:receive([bytes]) -> string | nil, message */
int mr_sock_dgram_receive(lua_State *L) { return receive_begin(L, mr_sock_check(L, SOCK_ANY_UDP | SOCK_ANY_DGRAM), OP_DGRAM_RECEIVE); }

/* unconnected:receivefrom([bytes]) -> string, host, port | nil, message */
int mr_sock_receivefrom(lua_State *L) {
  return receive_begin(L, mr_sock_check(L, SOCK_IS(SOCK_UNCONNECTED) | SOCK_IS(SOCK_UNIX_UNCONNECTED)), OP_RECEIVEFROM);
}

static int out_step(lua_State *L, mr_sock *s, const port_addr *to) {
  size_t len;
  const char *p = lua_tolstring(L, 2, &len);
  long r = port_net_send(s->fd, p, len, to);
  if (r < 0) return PORT_WOULD_BLOCK(-r) ? -1 : mr_sock_fail(L, (int)-r);
  lua_pushinteger(L, r);
  return 1;
}

static int dgram_send_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  (void)f;
  return out_step(L, s, NULL);
}

static int sendto_step(lua_State *L, mr_fiber *f, mr_sock *s) {
  port_addr a;
  size_t len;
  const char *p = lua_tolstring(L, 3, &len);
  int err = port_addr_raw(&a, p, len);
  (void)f;
  return err ? mr_sock_fail(L, err) : out_step(L, s, &a);
}

/* LuaSocket's word for a datagram that a socket without a descriptor can't send. */
static int refused(lua_State *L, mr_sock *s, const char *why) {
  return fail_plainly(L, s, strcmp(why, "closed") == 0 ? "refused" : why);
}

/* connected:send(data) -> bytes | nil, message */
int mr_sock_dgram_send(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_CONNECTED) | SOCK_IS(SOCK_UNIX_CONNECTED));
  luaL_checkstring(L, 2);
  return io_start(L, s, OP_DGRAM_SEND);
}

/* sendto(object, data, address): the descriptor is there */
int mr_sock_sendto(lua_State *L) {
  mr_sock *s = mr_sock_check(L, SOCK_IS(SOCK_UNCONNECTED) | SOCK_IS(SOCK_UNIX_UNCONNECTED));
  luaL_checkstring(L, 2);
  luaL_checkstring(L, 3);
  check_inside(L, 3);
  return io_start(L, s, OP_SENDTO);
}

static const op ops[] = {
  { "accept", MR_READ, accept_step, fail_plainly },
  { "connect", MR_WRITE, connect_step, fail_plainly },
  { "receive", MR_READ, receive_step, receive_fail },
  { "send", MR_WRITE, send_step, send_fail },
  { "receive", MR_READ, receive_dgram_step, fail_plainly },
  { "receivefrom", MR_READ, receivefrom_step, fail_plainly },
  { "send", MR_WRITE, dgram_send_step, refused },
  { "sendto", MR_WRITE, sendto_step, refused },
  { "connect", MR_WRITE, connecting_step, fail_plainly },
};
