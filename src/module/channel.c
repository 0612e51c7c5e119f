/*
 * mare.channel.
 *
 * A message with a small payload (at most two nil, boolean, number or light userdata values) travels as mail, without any
 * block. Others are packed by the sender: unpacked straight into a parked receiver where that is possible, else sealed.
 * While mail is in f->mail its fiber owns it. A message is moved to f->held while it is unpacked, as finalisers that run meanwhile may
 * receive too; one that could not be unpacked (memory) stays there and is the first thing the next receive on that channel
 * finds. A finaliser touches neither.
 */
#include "module/module.h"
#include "channel/channel.h"

#include <string.h>

#define TNAME "channel"
#define STRING_LOAN 4096               /* a parked sender lends strings from this size on instead of copying them */

static mr_fiber *here(lua_State *L) { return (*(mr_proc **)lua_getextraspace(L))->fiber; }

static mr_channel *check(lua_State *L) { 
  mr_shared *o = mr_shared_to(L, 1, mr_channel_type);
  return (mr_channel *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, 1, mr_channel_type, TNAME));
}

static int fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

static int in_finaliser(lua_State *L) { return lua_gc(L, LUA_GCCOUNT, 0) == -1; }

/* ---- receiving ---- */

static void mail_back(mr_fiber *f) {
  mr_shared *from = f->held_from;
  mr_mail m = { .kind = MAIL_MESSAGE, .u.m = f->held };
  f->held_from = NULL;
  f->held = NULL;
  mr_channel_put_back((mr_channel *)from, &m);
  mr_release(from);
}

static int l_unpack(lua_State *L) {
  const mr_message *m = lua_touserdata(L, 1);
  lua_settop(L, 0);
  return mr_unpack(L, m);
}

/* For finalisers: takes m over without touching what the fiber holds. */
static int unpack_apart(lua_State *L, mr_channel *c, mr_message *m) {
  int top = lua_gettop(L);
  mr_mail mail = { .kind = MAIL_MESSAGE, .u.m = m };
  lua_pushcfunction(L, l_unpack);
  lua_pushlightuserdata(L, m);
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  if (status == LUA_ERRMEM) mr_channel_put_back(c, &mail);
  else mr_message_free(m);
  return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

static void release_held(mr_fiber *f) {
  mr_message *m = f->held;
  mr_shared *from = f->held_from;
  f->held = NULL;
  f->held_from = NULL;
  mr_message_free(m);
  mr_release(from);
}

/*
 * Unpacks what f holds. Without memory it goes on holding it: the next receive on that channel tries again. Other errors - a
 * module that the receiver can't find - would come again for ever: the message is gone.
 */
static int unpack_held(lua_State *L, mr_fiber *f) {
  int n;
  if (PORT_UNLIKELY(mr_message_needs_code(f->held))) {
    int top = lua_gettop(L);
    lua_pushcfunction(L, l_unpack);
    lua_pushlightuserdata(L, f->held);
    int status = lua_pcall(L, 1, LUA_MULTRET, 0);
    if (status == LUA_ERRMEM) return lua_error(L);
    release_held(f);
    if (status != LUA_OK) return lua_error(L);
    n = lua_gettop(L) - top;
  } else {
    n = mr_unpack(L, f->held);
    release_held(f);
  }
  f->want_aux = 1;
  return n;
}

/* Pushes the values of *m, which then is empty. */
static int push_mail(lua_State *L, mr_fiber *f, mr_mail *m, mr_channel *c) {
  int n = m->n, kind = m->kind;
  m->kind = MAIL_NONE;
  switch (kind) {
    case MAIL_SCALARS:
      for (int i = 0; i < n; i++) mr_scalar_push(L, &m->u.s[i]);
      return n;
    case MAIL_AUX:
      lua_xmove(f->aux, L, n);                   /* deliver_direct has made room */
      return n;
    default:
      if (PORT_UNLIKELY(in_finaliser(L))) return unpack_apart(L, c, m->u.m);
      f->held = m->u.m;
      f->held_from = (mr_shared *)c;
      mr_retain(f->held_from);
      return unpack_held(L, f);
  }
}

static int l_loan(lua_State *L) {
  mr_mail *m = lua_touserdata(L, 1);
  lua_pushlstring(L, m->u.str.p, m->u.str.len);
  return 1;
}

/* Copies the string a parked sender lends. On a memory error the sender's wait goes on as if it had just begun. */
static int push_loan(lua_State *L, mr_fiber *f, mr_wait *peer) {
  lua_pushcfunction(L, l_loan);
  lua_pushlightuserdata(L, peer->mail);
  int status = lua_pcall(L, 1, 1, 0);
  mr_ready(peer->fiber, status == LUA_OK ? MR_WOKEN : MR_AGAIN, f);
  if (status != LUA_OK) return lua_error(L);
  return 1;
}

static int take_from(lua_State *L, mr_fiber *f, mr_channel *c, mr_wait *peer) {
  if (peer->mail->kind == MAIL_STRING) return push_loan(L, f, peer);
  f->mail = *peer->mail;
  peer->mail->kind = MAIL_NONE;
  mr_ready(peer->fiber, MR_WOKEN, f);
  return push_mail(L, f, &f->mail, c);
}

static int receive_k(lua_State *L, int status, lua_KContext ctx);

static int aux_key;

static void make_aux(lua_State *L, mr_fiber *f) {
  f->want_aux = 0;
  if (f->aux || f->crew || f->proc->kind == PROC_HOST) return;
  lua_State *aux = lua_newthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &aux_key);
  f->aux = aux;
}

/* One try, waiting if `wait`; returns results, or parks. */
static int receive(lua_State *L, mr_fiber *f, mr_channel *c, uint64_t deadline, int wait) {
  mr_wait *peer;
  if (PORT_UNLIKELY(f->held_from != NULL) && !in_finaliser(L)) {
    if (f->held_from == (mr_shared *)c) return unpack_held(L, f);
    mail_back(f);
  }
  if (PORT_UNLIKELY(f->want_aux)) make_aux(L, f);
  int open = wait && deadline && mr_can_yield(f, L) && mr_wait_open(f, L) == MR_OK;
  for (;;) {
    mr_mail m;
    mr_step s = mr_channel_take(c, &m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      f->op = "receive";
      f->on = (mr_shared *)c;
      f->deadline = deadline;
      return mr_park(L, f, deadline, (lua_KContext)f, receive_k);
    }
    if (open) mr_wait_abandon(f);
    switch (s) {
      case CH_DONE:
        f->mail = m;
        if (peer) mr_ready(peer->fiber, peer->mail->kind == MAIL_NONE ? MR_WOKEN : MR_AGAIN, f);
        return push_mail(L, f, &f->mail, c);
      case CH_PEER: return take_from(L, f, c, peer);
      case CH_CLOSED: return fail(L, "closed");
      default: break;
    }
    if (!wait) return fail(L, "empty");
    if (deadline == 0) return fail(L, "timeout");
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    open = 1;
  }
}

static int receive_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = (mr_fiber *)ctx;
  mr_channel *c = (mr_channel *)f->on;          /* alive: the userdata is at index 1 */
  mr_reason r = mr_wake(f);
  (void)status;
  if (PORT_LIKELY(r == MR_WOKEN)) return push_mail(L, f, &f->mail, c);
  mr_channel_unwait(c, &f->wait);
  if (r == MR_AGAIN) return receive(L, f, c, f->deadline, 1);
  mr_raise_reason(L, f, r);
  return fail(L, r == MR_CLOSED ? "closed" : "timeout");
}

static int receive_as(lua_State *L, mr_fiber *f) {
  mr_channel *c = check(L);
  uint64_t deadline = UINT64_MAX;
  if (PORT_UNLIKELY(lua_gettop(L) != 1)) {
    deadline = mr_deadline(L, 2);
    lua_settop(L, 1);
  }
  return receive(L, f, c, deadline, 1);
}

/* channel:receive([seconds]) -> v… | nil, "closed" | nil, "timeout" */
static int l_channel_receive(lua_State *L) { return receive_as(L, mr_self_fiber(L)); }
static int l_process_receive(lua_State *L) { return receive_as(L, here(L)); }

/* channel:try_receive() -> v… | nil, "closed" | nil, "empty" */
static int l_channel_try_receive(lua_State *L) {
  mr_channel *c = check(L);
  lua_settop(L, 1);
  return receive(L, mr_self_fiber(L), c, 0, 0);
}

/* ---- sending ---- */

static int l_unpack_view(lua_State *A) {
  mr_packer *p = lua_touserdata(A, 1);
  lua_settop(A, 0);
  return mr_unpack_view(A, p);
}

/*
 * Straight into the parked receiver, on this thread but as the receiver: finalisers that run meanwhile see its process and this
 * thread, and can't wait. 0: it could not be done, nothing has happened.
 */
static int deliver_direct(mr_fiber *f, mr_wait *node, mr_packer *p) {
  mr_fiber *peer = node->fiber;
  lua_State *A = peer->aux;
  peer->thread = f->thread;
  lua_pushcfunction(A, l_unpack_view);
  lua_pushlightuserdata(A, p);
  if (lua_pcall(A, 1, LUA_MULTRET, 0) != LUA_OK || lua_gettop(A) > 200 || !lua_checkstack(peer->parked_L, lua_gettop(A))) {
    lua_settop(A, 0);
    return 0;
  }
  node->mail->kind = MAIL_AUX;
  node->mail->n = (unsigned char)lua_gettop(A);
  return 1;
}

/* What p holds goes to a claimed receiver. */
static int deliver(lua_State *L, mr_fiber *f, mr_wait *node, mr_packer *p) {
  mr_fiber *peer = node->fiber;
  int direct = peer->mode == WAIT_YIELD && peer->aux && !peer->crew && p == f->thread->packer && !mr_packer_needs_code(p) &&
               atomic_load_explicit(&peer->state, memory_order_acquire) == FIBER_PARKED;
  if (!direct || !deliver_direct(f, node, p)) {
    mr_message *m = mr_packer_seal(p);
    if (!m) {
      mr_ready(peer, MR_AGAIN, f);
      return mr_raise(L, MR_ENOMEM);
    }
    node->mail->kind = MAIL_MESSAGE;
    node->mail->u.m = m;
  }
  mr_ready(peer, MR_WOKEN, f);
  lua_pushboolean(L, 1);
  return 1;
}

static int l_pack_top(lua_State *L) { return mr_pack(lua_touserdata(L, 2), L, 1, 1, "message") ? lua_error(L) : 0; }

/* The string to lend is on top, and a receiver came in between. */
static int deliver_top(lua_State *L, mr_fiber *f, mr_wait *peer) {
  mr_packer *p = mr_packer_for(L, f);
  lua_pushcfunction(L, l_pack_top);
  lua_pushvalue(L, -2);
  lua_pushlightuserdata(L, p);
  if (lua_pcall(L, 2, 0, 0) != LUA_OK) {         /* the receiver is ours to wake, whatever happens */
    mr_ready(peer->fiber, MR_AGAIN, f);
    return lua_error(L);
  }
  return deliver(L, f, peer, p);
}

static int send_k(lua_State *L, int status, lua_KContext ctx);

/* Mail to whoever waits, into the queue, or waiting itself. The mail is owned by the caller until it left. */
static int put(lua_State *L, mr_fiber *f, mr_channel *c, mr_mail *m, uint64_t deadline, int wait) {
  mr_wait *peer;
  int open = 0, err;
  for (;;) {
    mr_step s = mr_channel_put(c, m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      f->op = "send";
      f->on = (mr_shared *)c;
      f->deadline = deadline;
      return mr_park(L, f, deadline, (lua_KContext)f, send_k);
    }
    if (open) mr_wait_abandon(f);
    switch (s) {
      case CH_PEER:
        if (m->kind == MAIL_STRING) return deliver_top(L, f, peer);
        *peer->mail = *m;
        mr_ready(peer->fiber, MR_WOKEN, f);
        /* fall through */
      case CH_DONE: lua_pushboolean(L, 1); return 1;
      case CH_CLOSED: mr_mail_back(m); return fail(L, "closed");
      case CH_NOMEM: mr_mail_back(m); return mr_raise(L, MR_ENOMEM);
      default: break;
    }
    if (!wait || deadline == 0) {
      mr_mail_back(m);
      return fail(L, wait ? "timeout" : "full");
    }
    if ((err = mr_wait_open(f, L)) != MR_OK) {
      mr_mail_back(m);
      return mr_raise(L, err);
    }
    open = 1;
  }
}

static int scalars(lua_State *L, int first, int n, mr_mail *m) {
  if (!mr_scalar_get(L, first, &m->u.s[0]) || n > MR_INLINE) return 0;
  if (n == 2 && !mr_scalar_get(L, first + 1, &m->u.s[1])) return 0;
  m->kind = MAIL_SCALARS;
  m->n = (unsigned char)n;
  return 1;
}

static int lendable(lua_State *L, int first, int n, mr_channel *c) {
  return n == 1 && mr_channel_capacity(c) == 0 && lua_type(L, first) == LUA_TSTRING && lua_rawlen(L, first) >= STRING_LOAN;
}

/* Values from `first` to the top, which stay on the stack while the sender waits. */
static int send(lua_State *L, mr_fiber *f, mr_channel *c, int first, uint64_t deadline, int wait) {
  mr_wait *peer;
  int n = lua_gettop(L) - first + 1;
  mr_mail m;
  if (PORT_UNLIKELY(n < 1 || lua_isnil(L, first)))
    return luaL_argerror(L, first, "the first value of a message can't be nil; send false, or close the channel");
  if (PORT_UNLIKELY(f->held_from != NULL) && !in_finaliser(L)) mail_back(f);
  if (PORT_LIKELY(scalars(L, first, n, &m))) return put(L, f, c, &m, deadline, wait);
  mr_packer *p = mr_packer_for(L, f);
  if (mr_pack(p, L, first, n, "message") != 0) return lua_error(L);
  switch (mr_channel_take_receiver(c, &peer)) {
    case CH_CLOSED: return fail(L, "closed");
    case CH_PEER: return deliver(L, f, peer, p);
    default: break;
  }
  if (lendable(L, first, n, c) && wait && deadline) {
    m.kind = MAIL_STRING;
    m.u.str.p = lua_tolstring(L, first, &m.u.str.len);
    return put(L, f, c, &m, deadline, wait);
  }
  m.kind = MAIL_MESSAGE;
  m.u.m = mr_packer_seal(p);
  if (!m.u.m) return mr_raise(L, MR_ENOMEM);
  return put(L, f, c, &m, deadline, wait);
}

static int send_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = (mr_fiber *)ctx;
  mr_channel *c = (mr_channel *)f->on;
  mr_reason r = mr_wake(f);
  (void)status;
  if (PORT_LIKELY(r == MR_WOKEN)) {
    f->mail.kind = MAIL_NONE;
    lua_pushboolean(L, 1);
    return 1;
  }
  mr_channel_unwait(c, &f->wait);
  if (r == MR_AGAIN) {
    mr_mail m = f->mail;
    f->mail.kind = MAIL_NONE;
    return put(L, f, c, &m, f->deadline, 1);
  }
  mr_mail_back(&f->mail);
  mr_raise_reason(L, f, r);
  return fail(L, r == MR_CLOSED ? "closed" : "timeout");
}

/* channel:send(v…) -> true | nil, "closed" */
static int l_channel_send(lua_State *L) { return send(L, mr_self_fiber(L), check(L), 2, UINT64_MAX, 1); }
static int l_process_send(lua_State *L) { return send(L, here(L), check(L), 2, UINT64_MAX, 1); }

/* channel:send_within(seconds, v…) -> true | nil, "closed" | nil, "timeout" */
static int l_channel_send_within(lua_State *L) {
  mr_channel *c = check(L);
  luaL_checknumber(L, 2);
  return send(L, mr_self_fiber(L), c, 3, mr_deadline(L, 2), 1);
}

/* channel:try_send(v…) -> true | nil, "closed" | nil, "full" */
static int l_channel_try_send(lua_State *L) { return send(L, mr_self_fiber(L), check(L), 2, 0, 0); }

/* ---- for select ---- */

static int link_receive(mr_case *c) { return mr_channel_link(c->object, &c->wait, 0); }
static int link_send(mr_case *c) { return mr_channel_link(c->object, &c->wait, 1); }
static void unlink_case(mr_case *c) { mr_channel_unwait(c->object, &c->wait); }

static int take_receive(lua_State *L, mr_case *k, mr_reason why) {
  mr_fiber *f = mr_self_fiber(L);
  mr_channel *c = k->object;
  mr_wait *peer;
  if (why == MR_WOKEN) return push_mail(L, f, &k->mail, c);
  if (why == MR_CLOSED) return fail(L, "closed");
  if (PORT_UNLIKELY(f->held_from != NULL) && !in_finaliser(L)) {
    if (f->held_from == (mr_shared *)c) return unpack_held(L, f);
    mail_back(f);
  }
  if (PORT_UNLIKELY(f->want_aux)) make_aux(L, f);
  switch (mr_channel_take(c, &f->mail, NULL, &peer)) {
    case CH_DONE:
      if (peer) mr_ready(peer->fiber, peer->mail->kind == MAIL_NONE ? MR_WOKEN : MR_AGAIN, f);
      return push_mail(L, f, &f->mail, c);
    case CH_PEER: return take_from(L, f, c, peer);
    case CH_CLOSED: return fail(L, "closed");
    default: return -1;
  }
}

/* The operation is on top. */
static void prepare_send(lua_State *L, mr_case *k) {
  int at = lua_gettop(L), n = mr_operation_values(L, at);
  if (scalars(L, at + 1, n, &k->mail)) return;
  mr_packer *p = mr_packer_for(L, mr_self_fiber(L));
  if (mr_pack(p, L, at + 1, n, "message") != 0) lua_error(L);
  k->mail.u.m = mr_packer_seal(p);
  if (!k->mail.u.m) mr_raise(L, MR_ENOMEM);
  k->mail.kind = MAIL_MESSAGE;
}

static int take_send(lua_State *L, mr_case *k, mr_reason why) {
  mr_fiber *f = mr_self_fiber(L);
  mr_wait *peer;
  if (why == MR_CLOSED) return fail(L, "closed");
  if (why == MR_AGAIN) {
    switch (mr_channel_put(k->object, &k->mail, NULL, &peer)) {
      case CH_PEER:
        *peer->mail = k->mail;
        mr_ready(peer->fiber, MR_WOKEN, f);
        break;
      case CH_DONE: break;
      case CH_CLOSED: return fail(L, "closed");
      case CH_NOMEM: return mr_raise(L, MR_ENOMEM);
      default: return -1;
    }
  }
  k->mail.kind = MAIL_NONE;
  lua_pushboolean(L, 1);
  return 1;
}

static const mr_waitclass receiving = { "receive", link_receive, unlink_case, take_receive, NULL, 1 };
static const mr_waitclass sending = { "send", link_send, unlink_case, take_send, prepare_send, 0 };

/* channel:sending(v…) -> a case for select: it is ready when the message can go */
static int l_channel_sending(lua_State *L) {
  check(L);
  if (lua_gettop(L) < 2 || lua_isnil(L, 2))
    return luaL_argerror(L, 2, "the first value of a message can't be nil; send false, or close the channel");
  mr_operation_push(L, &sending, lua_gettop(L));
  return 1;
}

/* ---- the rest ---- */

/* channel:close() */
static int l_channel_close(lua_State *L) {
  mr_channel_close(check(L), mr_self_fiber(L));
  return 0;
}

/* channel:closed() -> boolean */
static int l_channel_closed(lua_State *L) {
  lua_pushboolean(L, mr_channel_closed(check(L)));
  return 1;
}

/* iterator of each: channel -> v… | nil */
static int l_next(lua_State *L) {
  lua_settop(L, 1);
  return receive_as(L, mr_self_fiber(L));
}

/* for v… in channel:each() do … end: until it is closed and empty */
static int l_channel_each(lua_State *L) {
  check(L);
  mr_function_push(L, l_next);
  lua_pushvalue(L, 1);
  return 2;
}

/* #channel -> messages queued */
static int l_channel_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_channel_count(check(L)));
  return 1;
}

/* channel:name() -> string | nil */
static int l_channel_name(lua_State *L) {
  lua_pushstring(L, mr_channel_name(check(L)));
  return 1;
}

/* Eight fields with send and receive, and so half the size of nine: tostring makes do with __name. */
static const luaL_Reg meta[] = { { "__len", l_channel_len }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "send", l_channel_send },
  { "receive", l_channel_receive },
  { "send_within", l_channel_send_within },
  { "try_send", l_channel_try_send },
  { "try_receive", l_channel_try_receive },
  { "sending", l_channel_sending },
  { "close", l_channel_close },
  { "closed", l_channel_closed },
  { "each", l_channel_each },
  { "name", l_channel_name },
  { NULL, NULL }
};

/* In a process's state the hottest functions find their fiber without an upvalue. */
static const luaL_Reg fast[] = { { "send", l_process_send }, { "receive", l_process_receive }, { NULL, NULL } };

static void push(lua_State *L, mr_shared *o);
static const mr_class class = { { .name = "channel", .destroy = mr_channel_destroy, .push = push }, TNAME, meta, methods, fast, &receiving };
static void push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }

static size_t capacity_arg(lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return 0;
  lua_Number n = luaL_checknumber(L, idx);
  luaL_argcheck(L, n >= 0 && (n == (lua_Number)(lua_Integer)n || n > 1e15), idx,
                "capacity must be 0 (rendezvous), a whole number, or math.huge");
  return n > 1e15 ? MR_UNBOUNDED : (size_t)n;
}

static int push_new(lua_State *L, mr_channel *c) {
  mr_shared_push_new(L, (mr_shared *)c);
  return 1;
}

/* channel.new([capacity]) -> channel */
static int l_new(lua_State *L) {
  size_t capacity = capacity_arg(L, 1);
  mr_channel *c = mr_channel_new(capacity);
  if (!c) return mr_raise(L, MR_ENOMEM);
  return push_new(L, c);
}

/* channel.named(name[, capacity]) -> channel: the one of that name, made if there is none; lives until closed */
static int l_named(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  size_t capacity = capacity_arg(L, 2);
  mr_check_forked(L);
  int made, err;
  luaL_argcheck(L, memchr(name, 0, len) == NULL, 1, "a name can't contain a zero byte");
  mr_channel *c = mr_channel_named(name, len, capacity, &made, &err);
  if (!c) return mr_raise(L, err);
  return push_new(L, c);
}

/* channel.find(name) -> channel | nil */
static int l_find(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  mr_check_forked(L);
  mr_channel *c = mr_channel_lookup(name, len);
  if (!c) {
    lua_pushnil(L);
    return 1;
  }
  return push_new(L, c);
}

static const luaL_Reg functions[] = { { "new", l_new }, { "named", l_named }, { "find", l_find }, { NULL, NULL } };

MR_EXPORT int luaopen_mare_channel(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 3);
  mr_set_functions(L, functions);
  return 1;
}

void mr_channel_setup(void) {
  mr_channel_type = &class.share;
  mr_hooks.mail_back = mail_back;
  mr_hooks.describe = mr_channel_describe;
}
