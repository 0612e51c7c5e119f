/*
 * conn: the methods of connections, with and without TLS; those that read are in read.c.
 *
 * Operations are loops: try, wait, try again. Where a fiber waits by yielding, the loop is entered anew from the continuation; everything an
 * operation remembers is in the connection (`want`, `job`), which is alive because its userdata is at index 1.
 */
#include "module/net.h"
#include "io/tls.h"

#include <string.h>

#define TNAME "connection"

mr_conn *mr_check_conn(lua_State *L, int idx) {
  mr_shared *o = mr_movable_to(L, idx, mr_conn_type);
  return (mr_conn *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, idx, mr_conn_type, TNAME));
}

int mr_conn_fail(lua_State *L, mr_conn *c, int err) {
  if (c->fd < 0) return mr_net_fail(L, "closed", "EBADF");
  if (c->tls && mr_tls_failed(c->tls)) return mr_net_fail(L, mr_tls_text(c->tls), mr_tls_code(c->tls));
  return mr_net_error(L, err);
}

static int timeout(lua_State *L) { return mr_net_fail(L, "timeout", "ETIMEDOUT"); }

/* ---- writing ---- */

enum { JOB_WRITE, JOB_FLUSH, JOB_CLOSE, JOB_SHUTDOWN };

static int write_k(lua_State *L, int status, lua_KContext ctx);

/* The next fiber that wants to write may. */
static void pass_turn(mr_conn *c, mr_fiber *f) {
  c->writing = 0;
  for (mr_wait *n; (n = c->turns) != NULL;) {
    mr_conn_turn_del(c, n);
    if (!mr_wait_claim(n)) continue;
    c->writing = 1;
    mr_ready(n->fiber, MR_WOKEN, f);
    return;
  }
}

/* An error ends the fiber's operation, and nobody learns how much of its bytes is out: what others wrote now would be taken for the rest. */
static void break_off(mr_conn *c, mr_fiber *f) {
  if (c->job.done && !c->werr) c->werr = ECANCELED;
  pass_turn(c, f);
}

static int gather(lua_State *L, mr_conn *c, port_slice *s, size_t *total) {
  int n = 0;
  *total = 0;
  if (c->out.len) s[n++] = (port_slice){ mr_bytes_at(&c->out), c->out.len };
  for (int i = c->job.index; i <= c->job.last && n < PORT_SLICES; i++) {
    size_t len, off = i == c->job.index ? c->job.offset : 0;
    const char *p = lua_tolstring(L, i, &len);
    if (len > off) s[n++] = (port_slice){ p + off, len - off };
  }
  for (int i = 0; i < n; i++) *total += s[i].len;
  return n;
}

static void advance(lua_State *L, mr_conn *c, size_t r) {
  size_t held = c->out.len < r ? c->out.len : r;
  if (held) mr_bytes_drop(&c->out, held);
  r -= held;
  c->job.done += r;
  while (c->job.index <= c->job.last) {
    size_t left = lua_rawlen(L, c->job.index) - c->job.offset;
    if (r < left) break;
    r -= left;
    c->job.index++;
    c->job.offset = 0;
  }
  c->job.offset += r;
}

/* All of it fits into the buffer: 1, and it is there. */
static int hold(lua_State *L, mr_conn *c) {
  port_slice s[PORT_SLICES];
  size_t total = 0, len;
  for (int i = c->job.index; i <= c->job.last; i++) total += lua_rawlen(L, i);
  if (c->out.len + total > c->buffered) return 0;
  if (c->out.len == 0 && !mr_bytes_reserve(&c->out, c->buffered)) return 0;
  for (int i = c->job.index; i <= c->job.last; i++) {
    s[0].p = lua_tolstring(L, i, &len);
    mr_bytes_add(&c->out, s[0].p, len);
  }
  return 1;
}

/* 0: everything is out; EAGAIN: wait; else an errno value. */
static int push_out(lua_State *L, mr_conn *c) {
  port_slice s[PORT_SLICES];
  size_t total;
  for (;;) {
    int n = gather(L, c, s, &total);
    if (n == 0) break;
    long r = mr_conn_write(c, s, n);
    if (r < 0) return (int)-r;
    advance(L, c, (size_t)r);
    if ((size_t)r < total && !c->tls) return EAGAIN;   /* it is full: trying again would only say so */
  }
  c->job.index = c->job.last + 1;
  return c->tls ? mr_tls_flush(c) : 0;
}

static int ended(lua_State *L, mr_fiber *f, mr_conn *c, int err) {
  int n, kind = c->job.kind;
  if (kind == JOB_CLOSE) {
    int had = c->fd >= 0;
    if (had && !err && c->tls) mr_tls_end(c);
    n = err && had ? mr_conn_fail(L, c, err) : 0;
    mr_conn_linger(c, f);
    mr_conn_drop(c, f);
  } else {
    if (kind == JOB_SHUTDOWN && !err && c->fd >= 0) {
      if (c->tls) mr_tls_end(c);
      c->sent = 1;
      err = port_net_shutdown(c->fd, 0, 1);
      if (err == ENOTCONN) err = 0;
    }
    n = err || c->fd < 0 ? mr_conn_fail(L, c, err) : 0;
    if (n) lua_pushinteger(L, (lua_Integer)c->job.done), n++;
    pass_turn(c, f);
  }
  if (n) return n;
  lua_pushboolean(L, 1);
  return 1;
}

static int write_on(lua_State *L, mr_fiber *f, mr_conn *c) {
  for (;;) {
    int err = c->fd < 0 ? EBADF : c->werr ? c->werr : push_out(L, c);
    if (err != EAGAIN) return ended(L, f, c, err);
    if (c->job.deadline == 0) return ended(L, f, c, ETIMEDOUT);
    if ((err = mr_wait_open(f, L)) != 0) {
      break_off(c, f);
      return mr_raise(L, err);
    }
    int dir = mr_conn_direction(c, MR_WRITE);
    if (mr_watch_wait(c->watch, dir, &f->wait)) {
      mr_wait_abandon(f);
      if (dir == MR_READ) c->dry = 0;
      continue;
    }
    f->op = "write";
    c->waits_for = (unsigned char)dir;
    mr_reason r = mr_park_here(L, f, c->job.deadline, (lua_KContext)c, write_k);
    if (dir == MR_READ) c->dry = 0;
    if (r == MR_WOKEN) continue;
    if (c->watch) mr_watch_unwait(c->watch, &f->wait);
    if (r == MR_TIMEOUT || r == MR_CLOSED) return ended(L, f, c, r == MR_TIMEOUT ? ETIMEDOUT : EBADF);
    break_off(c, f);
    return mr_net_fail_wait(L, f, r);
  }
}

static int write_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = mr_self_fiber(L);
  mr_conn *c = (mr_conn *)ctx;
  mr_reason r = mr_wake(f);
  (void)status;
  if (c->waits_for == MR_READ) c->dry = 0;
  if (r == MR_WOKEN) return write_on(L, f, c);
  if (c->watch) mr_watch_unwait(c->watch, &f->wait);
  if (r == MR_TIMEOUT || r == MR_CLOSED) return ended(L, f, c, r == MR_TIMEOUT ? ETIMEDOUT : EBADF);
  break_off(c, f);
  return mr_net_fail_wait(L, f, r);
}

static int write_begin(lua_State *L, mr_fiber *f, mr_conn *c, int kind, int last, uint64_t deadline) {
  c->writing = 1;
  c->job.kind = (unsigned char)kind;
  c->job.index = 2;
  c->job.last = last;
  c->job.offset = 0;
  c->job.done = 0;
  c->job.deadline = deadline;
  if (c->buffered && kind == JOB_WRITE && c->fd >= 0 && !c->werr && hold(L, c)) return ended(L, f, c, 0);
  return write_on(L, f, c);
}

static int turn_k(lua_State *L, int status, lua_KContext ctx);

static int turn_came(lua_State *L, mr_fiber *f, mr_conn *c, mr_reason r, int kind) {
  if (r == MR_WOKEN) return write_begin(L, f, c, kind, kind == JOB_WRITE ? lua_gettop(L) : 1, f->deadline);
  mr_conn_turn_del(c, &f->wait);
  return mr_net_fail_wait(L, f, r);
}

static int turn_k(lua_State *L, int status, lua_KContext kind) {
  mr_fiber *f = mr_self_fiber(L);
  (void)status;
  return turn_came(L, f, mr_check_conn(L, 1), mr_wake(f), (int)kind);
}

/* Others are writing: what we write comes after theirs. The strings are the stack from 2 to its top. */
static int wait_turn(lua_State *L, mr_fiber *f, mr_conn *c, int kind, uint64_t deadline) {
  if (deadline == 0) return timeout(L);
  int err = mr_wait_open(f, L);
  if (err) return mr_raise(L, err);
  mr_conn_turn_add(c, &f->wait);
  f->op = "write";
  f->deadline = deadline;
  mr_reason r = mr_park_here(L, f, deadline, kind, turn_k);
  return turn_came(L, f, c, r, kind);
}

static uint64_t patience(const mr_conn *c) { return c->patience == UINT64_MAX || !c->patience ? c->patience : port_now() + c->patience; }

static int start(lua_State *L, mr_fiber *f, mr_conn *c, int kind, int last, uint64_t deadline) {
  if (PORT_UNLIKELY(c->fd < 0)) return mr_conn_fail(L, c, EBADF);
  if (PORT_UNLIKELY(c->sent)) return mr_net_fail(L, "this side of the connection was shut down", "EPIPE");
  if (PORT_UNLIKELY(c->writing)) return wait_turn(L, f, c, kind, deadline);
  return write_begin(L, f, c, kind, last, deadline);
}

static int write_as(lua_State *L, mr_fiber *f) {
  mr_conn *c = mr_check_conn(L, 1);
  int top = lua_gettop(L);
  for (int i = 2; i <= top; i++) luaL_checklstring(L, i, NULL);
  return start(L, f, c, JOB_WRITE, top, patience(c));
}

/* connection:write(string…) -> true | nil, message, code, bytes of them that were sent */
static int l_conn_write(lua_State *L) { return write_as(L, mr_self_fiber(L)); }
static int l_process_write(lua_State *L) { return write_as(L, mr_proc_fiber(L)); }

/* connection:flush([seconds]) -> true | nil, message, code */
static int l_conn_flush(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  uint64_t deadline = mr_deadline_or(L, 2, c->patience);
  lua_settop(L, 1);
  return start(L, mr_self_fiber(L), c, JOB_FLUSH, 1, deadline);
}

/* connection:setvbuf("full"[, bytes] | "no") -> true */
static int l_conn_setvbuf(lua_State *L) {
  static const char *const modes[] = { "no", "full", NULL };
  mr_conn *c = mr_check_conn(L, 1);
  int full = luaL_checkoption(L, 2, NULL, modes);
  lua_Integer size = luaL_optinteger(L, 3, 8192);
  luaL_argcheck(L, size > 0 && size <= 1 << 30, 3, "a buffer has 1 byte to 1 GiB");
  c->buffered = full ? (size_t)size : 0;
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- ending ---- */

/* connection:close([seconds]) -> true | nil, message, code: it is closed in any case */
static int l_conn_close(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  mr_fiber *f = mr_self_fiber(L);
  uint64_t deadline = mr_deadline_or(L, 2, c->patience);
  lua_settop(L, 1);
  if (c->fd >= 0 && !c->writing && (c->out.len || c->tls) && !c->sent && !c->werr) return write_begin(L, f, c, JOB_CLOSE, 1, deadline);
  mr_conn_linger(c, f);
  mr_conn_drop(c, f);
  lua_pushboolean(L, 1);
  return 1;
}

/* connection:shutdown("write" | "read" | "both") -> true | nil, message, code */
static int l_conn_shutdown(lua_State *L) {
  static const char *const ways[] = { "write", "read", "both", NULL };
  mr_conn *c = mr_check_conn(L, 1);
  int way = luaL_checkoption(L, 2, "both", ways);
  uint64_t deadline = patience(c);
  lua_settop(L, 1);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  if (way) {
    int err = port_net_shutdown(c->fd, 1, 0);
    if (err && err != ENOTCONN) return mr_conn_fail(L, c, err);
  }
  if (way == 1 || c->sent) {
    lua_pushboolean(L, 1);
    return 1;
  }
  return start(L, mr_self_fiber(L), c, JOB_SHUTDOWN, 1, deadline);
}

/* connection:cut() -> true: nothing more is written */
static int l_conn_cut(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  if (!c->werr) c->werr = ECANCELED;
  lua_pushboolean(L, 1);
  return 1;
}

/* connection:closed() -> boolean: was it closed here? */
static int l_conn_closed(lua_State *L) {
  lua_pushboolean(L, mr_check_conn(L, 1)->fd < 0);
  return 1;
}

/* ---- the rest ---- */

/* connection:timeout([seconds]) -> connection: how long each operation may wait from now on; nothing or math.huge: for ever */
static int l_conn_timeout(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  uint64_t at = mr_deadline(L, 2);
  c->patience = at == UINT64_MAX || at == 0 ? at : (uint64_t)(lua_tonumber(L, 2) * 1e9);
  lua_settop(L, 1);
  return 1;
}

static int address(lua_State *L, int (*get)(int, port_addr *)) {
  mr_conn *c = mr_check_conn(L, 1);
  port_addr a;
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  int err = get(c->fd, &a);
  return err ? mr_conn_fail(L, c, err) : mr_push_addr(L, &a);
}

/* connection:buffered() -> bytes that were received and not read yet, as far as they are here */
static int l_conn_buffered(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_check_conn(L, 1)->in.len);
  return 1;
}

/* connection:writing() -> a case of select: a write would not wait */
static int l_conn_writing(lua_State *L) {
  mr_check_conn(L, 1);
  lua_settop(L, 1);
  mr_operation_push(L, &mr_conn_wait_writing, 1);
  return 1;
}

/* connection:peer() -> host, port | path */
static int l_conn_peer(lua_State *L) { return address(L, port_net_peer); }
/* connection:address() -> host, port | path */
static int l_conn_address(lua_State *L) { return address(L, port_net_local); }

/* connection:option(name[, value]) -> value | true | nil, message, code */
static int l_conn_option(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  return c->fd < 0 ? mr_conn_fail(L, c, EBADF) : mr_option(L, c->fd);
}

/* connection:fd() -> number | nil */
static int l_conn_fd(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  lua_pushinteger(L, c->fd);
  return 1;
}

static int l_conn_tostring(lua_State *L) {
  if (mr_is_husk(L, 1)) {
    lua_pushliteral(L, "connection (moved)");
    return 1;
  }
  mr_conn *c = mr_check_conn(L, 1);
  if (c->fd < 0) lua_pushfstring(L, "connection (closed): %p", (void *)c);
  else lua_pushfstring(L, "connection%s: %p", c->tls ? " with TLS" : "", (void *)c);
  return 1;
}

/* Metamethods have no upvalue in hosts: the method has. */
static int close_k(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

int mr_close_meta(lua_State *L) {
  if (mr_is_husk(L, 1)) return 0;                /* the receiver closes it */
  lua_settop(L, 1);
  lua_getfield(L, 1, "close");
  lua_pushvalue(L, 1);
  lua_callk(L, 1, 0, 0, close_k);
  return close_k(L, LUA_OK, 0);
}

static const luaL_Reg meta[] = { { "__tostring", l_conn_tostring }, { "__close", mr_close_meta }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "read", mr_read_method },
  { "read_until", mr_read_until_method },
  { "write", l_conn_write },
  { "flush", l_conn_flush },
  { "setvbuf", l_conn_setvbuf },
  { "timeout", l_conn_timeout },
  { "shutdown", l_conn_shutdown },
  { "close", l_conn_close },
  { "cut", l_conn_cut },
  { "closed", l_conn_closed },
  { "peer", l_conn_peer },
  { "buffered", l_conn_buffered },
  { "writing", l_conn_writing },
  { "address", l_conn_address },
  { "option", l_conn_option },
  { "fd", l_conn_fd },
  { "handshake", mr_conn_handshake },
  { "session", mr_conn_session },
  { "tls", mr_conn_tls },
  { NULL, NULL }
};

static const luaL_Reg fast[] = { { "read", mr_read_fast }, { "write", l_process_write }, { NULL, NULL } };

static void push(lua_State *L, mr_shared *o);
static const mr_class class = { .share = { .name = "connection", .destroy = mr_conn_destroy, .push = push, .moves = 1,
                                           .dropped = mr_conn_dropped, .busy = mr_conn_busy }, .tname = TNAME, .meta = meta,
                                .methods = methods, .fast = fast, .wait = &mr_conn_wait };
static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

int mr_push_conn(lua_State *L, mr_conn *c) {
  mr_shared_push_new(L, &c->base.shared);
  return 1;
}

void mr_conn_setup(void) { mr_conn_type = &class.share; }
