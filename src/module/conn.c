/*
 * conn: the methods of connections, with and without TLS; those that read are in read.c.
 *
 * Everything an operation remembers while it waits is in the connection (`want`, `job`), which is alive because its userdata is at index 1.
 */
#include "module/net.h"
#include "module/buflib.h"
#include "io/tls.h"
#include "io/context.h"
#include "port/errors.h"

#include <stdio.h>
#include <string.h>

#define TNAME "connection"

mr_conn *mr_check_conn(lua_State *L, int idx) {
  mr_shared *o = mr_movable_to(L, idx, mr_conn_type);
  return (mr_conn *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, idx, mr_conn_type, TNAME));
}

/* What is wrong with a connection, apart from it: to push that may run a finaliser, which closes the connection. */
typedef struct fault { char text[MR_TLS_TEXT], code[MR_TLS_CODE]; } fault;

static void fault_of(const mr_conn *c, int err, fault *f) {
  char buf[128];
  int tls = c->fd >= 0 && c->tls && mr_tls_failed(c->tls);
  if (c->fd < 0) snprintf(f->text, sizeof f->text, "closed");
  else if (tls) snprintf(f->text, sizeof f->text, "%s", mr_tls_text(c->tls));
  else snprintf(f->text, sizeof f->text, "%s", port_error_text(err, buf, sizeof buf));
  snprintf(f->code, sizeof f->code, "%s", c->fd < 0 ? "EBADF" : tls ? mr_tls_code(c->tls) : port_error_name(err));
}

int mr_conn_fail(lua_State *L, mr_conn *c, int err) {
  fault f;
  fault_of(c, err, &f);
  return mr_net_fail(L, f.text, f.code);
}

/* ---- writing ---- */

enum { JOB_WRITE, JOB_FLUSH, JOB_CLOSE, JOB_SHUTDOWN };
enum { LATE = -1 };                  /* in place of an errno value: the time is over */

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

/* The string or sealed buffer at idx; nothing, if a program has finalised that buffer. */
static inline const char *piece(lua_State *L, int idx, size_t *len) {
  const char *p = mr_piece_get(L, idx, len);
  if (PORT_UNLIKELY(!p)) *len = 0;
  return p;
}

static int gather(lua_State *L, mr_conn *c, port_slice *s, size_t *total) {
  int n = 0;
  *total = 0;
  if (c->out.len) s[n++] = (port_slice){ mr_bytes_at(&c->out), c->out.len };
  for (int i = c->job.index; i <= c->job.last && n < PORT_SLICES; i++) {
    size_t len, off = i == c->job.index ? c->job.offset : 0;
    const char *p = piece(L, i, &len);
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
    size_t len;
    piece(L, c->job.index, &len);
    size_t left = len > c->job.offset ? len - c->job.offset : 0;
    if (r < left) break;
    r -= left;
    c->job.index++;
    c->job.offset = 0;
  }
  c->job.offset += r;
}

/* All of it fits into the buffer: 1, and it is there. */
static int hold(lua_State *L, mr_conn *c) {
  size_t total = 0, len;
  for (int i = c->job.index; i <= c->job.last; i++) {
    piece(L, i, &len);
    total += len;
  }
  if (c->out.len + total > c->buffered) return 0;
  if (!mr_bytes_reserve(&c->out, c->out.len ? total : c->buffered)) return 0;
  for (int i = c->job.index; i <= c->job.last; i++) {
    const char *p = piece(L, i, &len);
    mr_bytes_add(&c->out, p, len);
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

static int end_sending(mr_conn *c) {
  if (c->tls) mr_tls_end(c);
  c->sent = 1;
  int err = port_net_shutdown(c->fd, 0, 1);
  return err == ENOTCONN ? 0 : err;
}

/* The turn is passed, or the connection is closed, before anything is pushed: that may fail for want of memory, or run finalisers. */
static int job_ended(lua_State *L, mr_fiber *f, mr_conn *c, int err) {
  fault why;
  int kind = c->job.kind, had = c->fd >= 0, late = err == LATE && had;
  lua_Integer sent = (lua_Integer)c->job.done;
  if (kind == JOB_SHUTDOWN && !err && had) err = end_sending(c);
  if (kind == JOB_CLOSE && !err && had && c->tls) mr_tls_end(c);
  int failed = kind == JOB_CLOSE ? err && had : err || !had;
  if (failed && !late) fault_of(c, err, &why);
  if (kind != JOB_CLOSE) pass_turn(c, f);
  else mr_conn_linger(c, f), mr_conn_drop(c, f);
  if (!failed) return lua_pushboolean(L, 1), 1;
  int n = late ? mr_timed_out(L) : mr_net_fail(L, why.text, why.code);
  if (kind == JOB_CLOSE) return n;
  if (late) lua_pushnil(L);                      /* a time that is over has no code */
  lua_pushinteger(L, sent);
  return 4;
}

/* TLS may have to read before it can write. */
static int writing_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  if (why != MR_AGAIN && c->waits_for == MR_READ) c->dry = 0;
  mr_goes_on(L);
  int err = c->fd < 0 ? EBADF : c->werr ? c->werr : push_out(L, c);
  return err == EAGAIN ? -1 : job_ended(L, w->fiber, c, err);
}

static int writing_link(void *o, mr_wait *w) {
  mr_conn *c = o;
  int dir = mr_conn_direction(c, MR_WRITE), now = mr_watch_wait(c->watch, dir, w);
  c->waits_for = (unsigned char)dir;
  if (now && dir == MR_READ) c->dry = 0;
  return now;
}

static void writing_unlink(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (c->watch) mr_watch_unwait(c->watch, w);
}

static int writing_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  if (c->waits_for == MR_READ) c->dry = 0;
  if (why == MR_TIMEOUT) return job_ended(L, w->fiber, c, LATE);
  break_off(c, w->fiber);
  return 0;
}

static const mr_waitclass writing = { .run = { .op = "write", .link = writing_link, .unlink = writing_unlink }, .take = writing_take,
                                      .give_up = writing_give_up };

static int write_begin(lua_State *L, mr_fiber *f, mr_conn *c, int kind, int last, uint64_t deadline) {
  c->writing = 1;
  c->waits_for = 0;
  c->job.kind = (unsigned char)kind;
  c->job.index = 2;
  c->job.last = last;
  c->job.offset = 0;
  c->job.done = 0;
  if (c->buffered && kind == JOB_WRITE && c->fd >= 0 && !c->werr && hold(L, c)) return job_ended(L, f, c, 0);
  return mr_await(L, f, &writing, c, deadline);
}

/* Others are writing: what we write comes after theirs. The strings are the stack from 2 to its top. `what`: the kind of the job. */
static int conn_turn_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  if (why == MR_WOKEN) return write_begin(L, w->fiber, c, w->what, w->what == JOB_WRITE ? lua_gettop(L) : 1, w->fiber->deadline);
  return c->fd < 0 ? mr_conn_fail(L, c, EBADF) : -1;
}

static int conn_turn_link(void *o, mr_wait *w) {
  mr_conn_turn_add(o, w);
  return 0;
}

static void conn_turn_unlink(void *o, mr_wait *w) { mr_conn_turn_del(o, w); }

static const mr_waitclass turn = { .run = { .op = "write", .link = conn_turn_link, .unlink = conn_turn_unlink }, .take = conn_turn_take };

static int job_start(lua_State *L, mr_fiber *f, mr_conn *c, int kind, int last, uint64_t deadline) {
  if (PORT_UNLIKELY(c->fd < 0)) return mr_conn_fail(L, c, EBADF);
  if (PORT_UNLIKELY(c->sent)) return mr_net_fail(L, "this side of the connection was shut down", "EPIPE");
  if (PORT_UNLIKELY(c->writing)) return mr_await_as(L, f, &turn, c, (unsigned short)kind, deadline);
  return write_begin(L, f, c, kind, last, deadline);
}

static int write_as(lua_State *L, mr_fiber *f) {
  mr_conn *c = mr_check_conn(L, 1);
  int top = lua_gettop(L);
  for (int i = 2; i <= top; i++)
    if (lua_type(L, i) != LUA_TSTRING) mr_piece_fix(L, i);
  return job_start(L, f, c, JOB_WRITE, top, mr_deadline_after(c->patience));
}

/* connection:write(string | buffer…) -> true | nil, message, code, bytes of them that were sent */
static int l_conn_write(lua_State *L) { return write_as(L, mr_self_fiber(L)); }
static int l_process_write(lua_State *L) { return write_as(L, mr_fiber_here(L)); }

/* connection:flush([seconds]) -> true | nil, message, code */
static int l_conn_flush(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  uint64_t deadline = mr_deadline_or(L, 2, c->patience);
  lua_settop(L, 1);
  return job_start(L, mr_self_fiber(L), c, JOB_FLUSH, 1, deadline);
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
  uint64_t deadline = mr_deadline_after(c->patience);
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
  return job_start(L, mr_self_fiber(L), c, JOB_SHUTDOWN, 1, deadline);
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
  c->patience = mr_patience(L, 2);
  lua_settop(L, 1);
  return 1;
}

static int conn_address(lua_State *L, int (*get)(int, port_addr *)) {
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

/* ---- select ---- */

static int readable_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)why;
  int selected = mr_conn_selected_by_other(c, w->fiber);
  if (c->reading || selected)                    /* what one fetches the other would wait for */
    return mr_net_fail(L, selected ? "another fiber selects this connection" : "another fiber reads from this connection", "EBUSY");
  c->dry = 0;                                    /* nobody may have polled since: ask the kernel */
  if (!mr_conn_ready(c, w->fiber)) return -1;
  lua_pushboolean(L, 1);
  return 1;
}

static int writable_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)w;
  (void)why;
  if (c->fd >= 0 && !c->werr && !port_net_writable(c->fd)) return -1;
  lua_pushboolean(L, 1);
  return 1;
}

static const mr_waitclass readable = { .run = { .op = "read", .link = mr_conn_reading_link, .unlink = mr_conn_unlink, .each = 1 },
                                       .take = readable_take };
static const mr_waitclass writable = { .run = { .op = "write", .link = mr_conn_writing_link, .unlink = mr_conn_unlink, .each = 1 },
                                       .take = writable_take };

/* connection:writing() -> a case of select: a write would not wait */
static int l_conn_writing(lua_State *L) {
  mr_check_conn(L, 1);
  lua_settop(L, 1);
  mr_operation_push(L, &writable, 1);
  return 1;
}

/* connection:peer() -> host, port | path */
static int l_conn_peer(lua_State *L) { return conn_address(L, port_net_peer); }
/* connection:address() -> host, port | path */
static int l_conn_address(lua_State *L) { return conn_address(L, port_net_local); }

/* connection:option(name[, value]) -> value | true | nil, message, code */
static int l_conn_option(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  mr_setting s = mr_setting_get(L);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  mr_setting_do(&s, c->fd);
  return mr_setting_push(L, &s);
}

/* connection:fd() -> number | nil */
static int l_conn_fd(lua_State *L) {
  mr_conn *c = mr_check_conn(L, 1);
  if (c->fd < 0) return mr_conn_fail(L, c, EBADF);
  mr_conn_hasty(c);                              /* whoever uses it expects that it does not block */
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
  { "read_buffer", mr_read_buffer_method },
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

static void conn_push(lua_State *L, mr_shared *o);
static const mr_class class = { .share = { .name = "connection", .destroy = mr_conn_destroy, .push = conn_push, .moves = 1,
                                           .dropped = mr_conn_dropped, .busy = mr_conn_busy }, .tname = TNAME, .meta = meta,
                                .methods = methods, .fast = fast, .wait = &readable };
static void conn_push(lua_State *L, mr_shared *o) {
  mr_conn *c = (mr_conn *)o;
  mr_shared_push(L, o, &class);
  if (c->seat && !c->accepted) mr_conn_unseat(c);      /* it was moved */
  c->accepted = 0;
}

int mr_push_conn(lua_State *L, mr_conn *c) {
  mr_shared_push_new(L, &c->base.shared);
  return 1;
}

void mr_conn_setup(void) { mr_conn_type = &class.share; }
