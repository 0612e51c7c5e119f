/*
 * exchange: what send and receive do, for mare.channel and for luaproc, which have words of their own for how they end.
 *
 * A message with a small payload (at most two nil, boolean, number or light userdata values) travels as mail, without any
 * block. Others are packed by the sender: unpacked straight into a parked receiver where that is possible, else sealed.
 * While mail is in a fiber's `mail` its fiber owns it. A message is moved to `held` while it is unpacked, as finalisers that run meanwhile may
 * receive too; one that could not be unpacked (memory) stays there and is the first thing the next receive on that channel
 * finds. A finaliser touches neither. Calls through Lua may meet a debug hook of the program, which may send and receive as it likes: what is
 * being unpacked is then not in `held`, and no packer is read after such a call.
 */
#include "module/exchange.h"
#include "channel/quick.h"
#include "process/limit.h"

#define STRING_LOAN 4096               /* a parked sender lends strings from this size on instead of copying them */

/* Of a case of select. */
static int case_fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}


/* ---- counting: what has left the sender, what has come to the receiver ---- */

static inline void count_sent(const mr_fiber *f) { port_count(&mr_proc_of(f)->sent); }
static inline void count_received(const mr_fiber *f) { port_count(&mr_proc_of(f)->received); }

/* true, as the result of a send that is done */
static inline int sent(lua_State *L, const mr_fiber *f) {
  count_sent(f);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- receiving ---- */

void mr_exchange_back(mr_fiber *f) {
  mr_shared *from = mr_lua_of(f)->held_from;
  mr_mail m = { .kind = MAIL_MESSAGE, .u.m = mr_lua_of(f)->held };
  mr_lua_hold(mr_lua_of(f), NULL, NULL);
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
  mr_message *m = mr_lua_of(f)->held;
  mr_shared *from = mr_lua_of(f)->held_from;
  mr_lua_hold(mr_lua_of(f), NULL, NULL);
  mr_message_free(m);
  mr_release(from);
}

/* Names are looked up in Lua, so errors of all kinds may come, and hooks may run: f does not hold the message meanwhile. */
static int unpack_names(lua_State *L, mr_fiber *f) {
  mr_message *m = mr_lua_of(f)->held;
  mr_shared *from = mr_lua_of(f)->held_from;
  int top = lua_gettop(L);
  mr_lua_hold(mr_lua_of(f), NULL, NULL);
  lua_pushcfunction(L, l_unpack);
  lua_pushlightuserdata(L, m);
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  if (status == LUA_ERRMEM) {
    if (mr_lua_of(f)->held_from) mr_exchange_back(f);       /* a hook has received, and had no memory either */
    mr_lua_hold(mr_lua_of(f), m, from);
    return lua_error(L);
  }
  mr_message_free(m);
  mr_release(from);
  return status == LUA_OK ? lua_gettop(L) - top : lua_error(L);
}

/*
 * Unpacks what f holds. Without memory it goes on holding it: the next receive on that channel tries again. Other errors - a
 * module that the receiver can't find - would come again for ever: the message is gone.
 */
static int unpack_held(lua_State *L, mr_fiber *f) {
  int n;
  if (PORT_UNLIKELY(mr_message_needs_code(mr_lua_of(f)->held))) {
    n = unpack_names(L, f);
  } else {
    n = mr_unpack(L, mr_lua_of(f)->held);
    release_held(f);
  }
  mr_lua_of(f)->odd |= ODD_AUX;
  return n;
}

int mr_exchange_push(lua_State *L, mr_fiber *f, mr_mail *m, mr_channel *c) {
  int n = m->n, kind = m->kind;
  count_received(f);
  m->kind = MAIL_NONE;
  switch (kind) {
    case MAIL_SCALARS:
      for (int i = 0; i < n; i++) mr_scalar_push(L, &m->u.s[i]);
      return n;
    case MAIL_AUX:
      lua_xmove(mr_lua_of(f)->aux, L, n);                   /* deliver_direct has made room */
      return n;
    default:
      if (PORT_UNLIKELY(mr_lua_in_finaliser(L))) return unpack_apart(L, c, m->u.m);
      mr_lua_hold(mr_lua_of(f), m->u.m, (mr_shared *)c);
      mr_retain((mr_shared *)c);
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
  count_received(f);
  return 1;
}

int mr_exchange_take_from(lua_State *L, mr_fiber *f, mr_channel *c, mr_wait *peer) {
  if (peer->mail->kind == MAIL_STRING) return push_loan(L, f, peer);
  mr_lua_of(f)->mail = *peer->mail;
  peer->mail->kind = MAIL_NONE;
  mr_ready(peer->fiber, MR_WOKEN, f);
  return mr_exchange_push(L, f, &mr_lua_of(f)->mail, c);
}

static int aux_key;

static void make_aux(lua_State *L, mr_fiber *f) {
  mr_lua_of(f)->odd &= (unsigned char)~ODD_AUX;
  if (mr_lua_of(f)->aux || f->crew || mr_proc_of(f)->kind == PROC_HOST) return;
  lua_State *aux = lua_newthread(L);
  lua_sethook(aux, NULL, 0, 0);                  /* a debug hook would be inherited, and run on senders' threads */
  lua_rawsetp(L, LUA_REGISTRYINDEX, &aux_key);
  mr_lua_of(f)->aux = aux;
}

/* `open`: the fiber's wait is. */
static int receive_on(lua_State *L, mr_fiber *f, mr_channel *c, uint64_t deadline, const mr_words *w, int open) {
  mr_wait *peer;
  for (;;) {
    mr_mail m;
    mr_step s = mr_channel_take(c, &m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      mr_fiber_in(f, "receive");
      f->on = (mr_shared *)c;
      f->deadline = deadline;
      return mr_park(L, f, deadline, (lua_KContext)f, w->k);
    }
    if (open) mr_wait_abandon(f);
    switch (s) {
      case CH_DONE:
        mr_lua_of(f)->mail = m;
        if (peer) mr_ready(peer->fiber, peer->mail->kind == MAIL_NONE ? MR_WOKEN : MR_AGAIN, f);
        return mr_exchange_push(L, f, &mr_lua_of(f)->mail, c);
      case CH_PEER: return mr_exchange_take_from(L, f, c, peer);
      case CH_CLOSED: return w->end(L, EXCHANGE_CLOSED);
      default: break;
    }
    if (deadline == 0) return w->end(L, EXCHANGE_BLOCKED);
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    open = 1;
  }
}

int mr_exchange_receive_open(lua_State *L, mr_fiber *f, mr_channel *c, const mr_words *w) { return receive_on(L, f, c, UINT64_MAX, w, 1); }

int mr_exchange_receive(lua_State *L, mr_fiber *f, mr_channel *c, uint64_t deadline, const mr_words *w) {
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_HELD) && !mr_lua_in_finaliser(L)) {
    if (mr_lua_of(f)->held_from == (mr_shared *)c) return unpack_held(L, f);
    mr_exchange_back(f);
  }
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_AUX)) make_aux(L, f);
  int open = deadline && !mr_channel_may_have(c) && mr_can_yield(f, L) && mr_wait_open(f, L) == MR_OK;   /* it will have to wait, so at once */
  return receive_on(L, f, c, deadline, w, open);
}

int mr_exchange_received(lua_State *L, mr_fiber *f, const mr_words *w) {
  mr_channel *c = (mr_channel *)f->on;
  return mr_exchange_received_so(L, f, c, mr_lua_wake(f), w);
}

int mr_exchange_received_so(lua_State *L, mr_fiber *f, mr_channel *c, mr_reason r, const mr_words *w) {
  if (PORT_LIKELY(r == MR_WOKEN)) return mr_exchange_push(L, f, &mr_lua_of(f)->mail, c);
  mr_channel_unwait(c, &f->wait);
  if (r == MR_AGAIN) return mr_exchange_receive(L, f, c, f->deadline, w);
  mr_raise_reason(L, f, r);
  return w->end(L, r == MR_CLOSED ? EXCHANGE_CLOSED : EXCHANGE_TIMEOUT);
}

/* ---- sending ---- */

static int l_unpack_view(lua_State *A) {
  mr_packer *p = lua_touserdata(A, 1);
  lua_settop(A, 0);
  return mr_unpack_view(A, p);
}

/*
 * Straight into the parked receiver, on this thread but as the receiver: finalisers that run meanwhile see its process and this
 * thread, and can't wait. Select puts its case's number beside the values. 0: it could not be done, nothing has happened.
 */
static int deliver_direct(mr_fiber *f, mr_wait *node, mr_packer *p) {
  mr_fiber *peer = node->fiber;
  lua_State *A = mr_lua_of(peer)->aux;
  peer->thread = f->thread;
  lua_pushcfunction(A, l_unpack_view);
  lua_pushlightuserdata(A, p);
  if (lua_pcall(A, 1, LUA_MULTRET, 0) != LUA_OK || lua_gettop(A) > 200 || !lua_checkstack(mr_lua_of(peer)->parked_L, lua_gettop(A) + 1)) {
    lua_settop(A, 0);
    return 0;
  }
  node->mail->kind = MAIL_AUX;
  node->mail->n = (unsigned char)lua_gettop(A);
  return 1;
}

static int no_room(lua_State *L, mr_budget *over) {
  char text[200];
  return luaL_error(L, "%s", mr_proc_over(over, text));
}

/* What p holds goes to a claimed receiver. */
static int deliver(lua_State *L, mr_fiber *f, mr_wait *node, mr_packer *p) {
  mr_fiber *peer = node->fiber;
  int direct = peer->mode == WAIT_YIELD && mr_lua_of(peer)->aux && !peer->crew && p == mr_kit_of(f->thread)->packer && !mr_packer_needs_code(p) &&
               atomic_load_explicit(&peer->state, memory_order_acquire) == FIBER_PARKED;
  if (!direct || !deliver_direct(f, node, p)) {
    mr_budget *over;
    mr_message *m = mr_proc_seal(L, mr_proc_of(f), p, &over);
    if (!m) {
      mr_ready(peer, MR_AGAIN, f);
      return no_room(L, over);
    }
    node->mail->kind = MAIL_MESSAGE;
    node->mail->u.m = m;
  }
  mr_ready(peer, MR_WOKEN, f);
  return sent(L, f);
}

/* string, mail, fiber: the string as a message. (Who runs it is told: it is called here, so without the host that a function of a host state has.) */
static int l_seal(lua_State *L) {
  mr_mail *mail = lua_touserdata(L, 2);
  mr_fiber *f = lua_touserdata(L, 3);
  mr_packer *p = mr_packer_for(L, f);
  mr_budget *over;
  if (mr_pack(p, L, 1, 1, "message") != 0) return lua_error(L);
  mail->u.m = mr_proc_seal(L, mr_proc_of(f), p, &over);
  if (!mail->u.m) return no_room(L, over);
  mail->kind = MAIL_MESSAGE;
  return 0;
}

/* The string to lend is on top, and a receiver came in between. */
static int deliver_top(lua_State *L, mr_fiber *f, mr_wait *peer) {
  mr_mail mail = { .kind = MAIL_NONE };
  lua_pushcfunction(L, l_seal);
  lua_pushvalue(L, -2);
  lua_pushlightuserdata(L, &mail);
  lua_pushlightuserdata(L, f);
  if (lua_pcall(L, 3, 0, 0) != LUA_OK) {         /* the receiver is ours to wake, whatever happens */
    mr_mail_back(L, &mail);
    mr_ready(peer->fiber, MR_AGAIN, f);
    return lua_error(L);
  }
  *peer->mail = mail;
  mr_ready(peer->fiber, MR_WOKEN, f);
  return sent(L, f);
}

/* Mail to whoever waits, into the queue, or waiting itself. The mail is owned by the caller until it left. */
static int put(lua_State *L, mr_fiber *f, mr_channel *c, mr_mail *m, uint64_t deadline, const mr_words *w) {
  mr_wait *peer;
  int open = 0, err;
  for (;;) {
    mr_step s = mr_channel_put(c, m, open ? &f->wait : NULL, &peer);
    if (s == CH_WAIT) {
      mr_fiber_in(f, "send");
      f->on = (mr_shared *)c;
      f->deadline = deadline;
      return mr_park(L, f, deadline, (lua_KContext)f, w->k);
    }
    if (open) mr_wait_abandon(f);
    switch (s) {
      case CH_PEER:
        if (m->kind == MAIL_STRING) return deliver_top(L, f, peer);
        *peer->mail = *m;
        mr_ready(peer->fiber, MR_WOKEN, f);
        /* fall through */
      case CH_DONE: return sent(L, f);
      case CH_CLOSED: mr_mail_back(L, m); return w->end(L, EXCHANGE_CLOSED);
      case CH_NOMEM: mr_mail_back(L, m); return mr_raise(L, MR_ENOMEM);
      default: break;
    }
    if (deadline == 0) {
      mr_mail_back(L, m);
      return w->end(L, EXCHANGE_BLOCKED);
    }
    if ((err = mr_wait_open(f, L)) != MR_OK) {
      mr_mail_back(L, m);
      return mr_raise(L, err);
    }
    open = 1;
  }
}

static int scalars(lua_State *L, int first, int n, mr_mail *m) {
  if (n > MR_INLINE || (!mr_scalar_get(L, first, &m->u.s[0]) && n > 0)) return 0;
  if (n == 2 && !mr_scalar_get(L, first + 1, &m->u.s[1])) return 0;
  m->kind = MAIL_SCALARS;
  m->n = (unsigned char)n;
  return 1;
}

static int lendable(lua_State *L, int first, int n, mr_channel *c) {
  return n == 1 && mr_channel_capacity(c) == 0 && lua_type(L, first) == LUA_TSTRING && lua_rawlen(L, first) >= STRING_LOAN;
}

int mr_exchange_send(lua_State *L, mr_fiber *f, mr_channel *c, int first, uint64_t deadline, const mr_words *w) {
  mr_wait *peer;
  int n = lua_gettop(L) - first + 1;
  mr_mail m;
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_HELD) && !mr_lua_in_finaliser(L)) mr_exchange_back(f);
  int small = scalars(L, first, n, &m);
  if (PORT_UNLIKELY(!w->nils) && (n < 1 || (small ? m.u.s[0].type == LUA_TNIL : lua_isnil(L, first)))) return w->end(L, EXCHANGE_NIL);
  /* a process with a budget packs all it sends: also numbers in a queue are memory */
  if (PORT_LIKELY(small && !mr_proc_of(f)->budget)) return put(L, f, c, &m, deadline, w);
  mr_packer *p = mr_packer_for(L, f);
  if (mr_pack(p, L, first, n, "message") != 0) return w->end(L, EXCHANGE_VALUE);
  switch (mr_channel_take_receiver(c, &peer)) {
    case CH_CLOSED: return w->end(L, EXCHANGE_CLOSED);
    case CH_PEER: return deliver(L, f, peer, p);
    default: break;
  }
  if (lendable(L, first, n, c) && deadline) {
    m.kind = MAIL_STRING;
    m.u.str.p = lua_tolstring(L, first, &m.u.str.len);
    return put(L, f, c, &m, deadline, w);
  }
  m.kind = MAIL_MESSAGE;
  mr_budget *over;
  m.u.m = mr_proc_seal(L, mr_proc_of(f), p, &over);
  if (!m.u.m) return no_room(L, over);
  return put(L, f, c, &m, deadline, w);
}

int mr_exchange_sent(lua_State *L, mr_fiber *f, const mr_words *w) {
  mr_channel *c = (mr_channel *)f->on;
  return mr_exchange_sent_so(L, f, c, mr_lua_wake(f), w);
}

int mr_exchange_sent_so(lua_State *L, mr_fiber *f, mr_channel *c, mr_reason r, const mr_words *w) {
  if (PORT_LIKELY(r == MR_WOKEN)) {
    mr_lua_of(f)->mail.kind = MAIL_NONE;
    return sent(L, f);
  }
  mr_channel_unwait(c, &f->wait);
  if (r == MR_AGAIN) {
    mr_mail m = mr_lua_of(f)->mail;
    mr_lua_of(f)->mail.kind = MAIL_NONE;
    return put(L, f, c, &m, f->deadline, w);
  }
  mr_mail_back(L, &mr_lua_of(f)->mail);
  mr_raise_reason(L, f, r);
  return w->end(L, r == MR_CLOSED ? EXCHANGE_CLOSED : EXCHANGE_TIMEOUT);
}

/* ---- for select ---- */

static int receive_link(void *o, mr_wait *w) { return mr_channel_link(o, w, 0); }
static int send_link(void *o, mr_wait *w) { return mr_channel_link(o, w, 1); }
static void exchange_unlink(void *o, mr_wait *w) { mr_channel_unwait(o, w); }

int mr_exchange_now(lua_State *L, mr_fiber *f, mr_channel *c) {
  mr_wait *peer;
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_HELD) && !mr_lua_in_finaliser(L)) {
    if (mr_lua_of(f)->held_from == (mr_shared *)c) return unpack_held(L, f);
    mr_exchange_back(f);
  }
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_AUX)) make_aux(L, f);
  switch (mr_channel_take(c, &mr_lua_of(f)->mail, NULL, &peer)) {
    case CH_DONE:
      if (peer) mr_ready(peer->fiber, peer->mail->kind == MAIL_NONE ? MR_WOKEN : MR_AGAIN, f);
      return mr_exchange_push(L, f, &mr_lua_of(f)->mail, c);
    case CH_PEER: return mr_exchange_take_from(L, f, c, peer);
    case CH_CLOSED: return case_fail(L, "closed");
    default: return -1;
  }
}

static int receive_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  if (why == MR_WOKEN) return mr_exchange_push(L, w->fiber, w->mail, o);
  if (why == MR_CLOSED) return case_fail(L, "closed");
  return mr_exchange_now(L, w->fiber, o);
}

/* The operation is on top. */
static void prepare_send(lua_State *L, mr_case *k) {
  int at = lua_gettop(L), n = mr_operation_values(L, at);
  mr_fiber *f = mr_self_fiber(L);
  mr_budget *over;
  if (!mr_proc_of(f)->budget && scalars(L, at + 1, n, &k->mail)) return;
  mr_packer *p = mr_packer_for(L, f);
  if (mr_pack(p, L, at + 1, n, "message") != 0) lua_error(L);
  k->mail.u.m = mr_proc_seal(L, mr_proc_of(f), p, &over);
  if (!k->mail.u.m) no_room(L, over);
  k->mail.kind = MAIL_MESSAGE;
}

static int send_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_wait *peer;
  if (why == MR_CLOSED) return case_fail(L, "closed");
  if (why == MR_AGAIN) {
    switch (mr_channel_put(o, w->mail, NULL, &peer)) {
      case CH_PEER:
        *peer->mail = *w->mail;
        mr_ready(peer->fiber, MR_WOKEN, w->fiber);
        break;
      case CH_DONE: break;
      case CH_CLOSED: return case_fail(L, "closed");
      case CH_NOMEM: return mr_raise(L, MR_ENOMEM);
      default: return -1;
    }
  }
  w->mail->kind = MAIL_NONE;
  return sent(L, w->fiber);
}

const mr_waitclass mr_exchange_receiving = { .run = { .op = "receive", .link = receive_link, .unlink = exchange_unlink, .stays = 1 }, .take = receive_take };
const mr_waitclass mr_exchange_sending = { .run = { .op = "send", .link = send_link, .unlink = exchange_unlink }, .take = send_take, .prepare = prepare_send };
