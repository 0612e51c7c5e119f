/*
 * hop: the two halves of what most messages are, each one straight function for channel.c: a small value goes to a receiver that waits, or into the
 * queue, or waits itself; a receiver takes what is queued, or waits where there is nothing.
 *
 * Both look at the arguments where Lua has them (lua/layout.h), and at nothing twice. Where something is unusual - other values, a
 * budget, limits, what is left of an earlier message - nothing has happened yet, and exchange.c does it all.
 */
#ifndef MR_HOP_H
#define MR_HOP_H

#include "channel/quick.h"
#include "lua/layout.h"
#include "module/exchange.h"
#include "process/plain.h"

/* As mr_shared_to, of a place on the stack. */
static inline mr_channel *mr_hop_channel(const raw_value *v) {
  if (PORT_UNLIKELY(v->tt != RAW_USERDATA)) return NULL;
  const raw_userdata *u = (const raw_userdata *)(uintptr_t)v->bits;
  if (PORT_UNLIKELY(u->size != sizeof(mr_box)) || PORT_UNLIKELY(u->nuvalue != 0)) return NULL;
  const mr_box *b = (const mr_box *)(const void *)u->block;
  if (PORT_UNLIKELY(b->tag != (mr_secret ^ (uintptr_t)b->object))) return NULL;     /* one that was finalised has no tag */
  return PORT_LIKELY(b->object->type == mr_channel_type) ? (mr_channel *)b->object : NULL;
}

/* 0: it is no scalar, or nil. */
static inline int mr_hop_scalar(const raw_value *v, mr_scalar *s) {
  s->u.i = (lua_Integer)v->bits;
  s->type = 0x10 | LUA_TNUMBER;
  if (PORT_LIKELY(v->tt == RAW_INT)) return 1;
  switch (v->tt) {
    case RAW_FLT: s->type = LUA_TNUMBER; return 1;
    case RAW_FALSE: case RAW_TRUE:
      s->type = LUA_TBOOLEAN;
      s->u.b = v->tt == RAW_TRUE;
      return 1;
    case RAW_LIGHT: s->type = LUA_TLIGHTUSERDATA; return 1;
    default: return 0;
  }
}

static inline void mr_hop_push(lua_State *L, const mr_scalar *s) {
  if (PORT_LIKELY(mr_layout) && PORT_LIKELY(s->type == (0x10 | LUA_TNUMBER))) raw_push(L, RAW_INT, (uint64_t)s->u.i);
  else mr_scalar_push(L, s);
}

/* true, as the result of a send that is done */
static inline int mr_hop_sent(lua_State *L, mr_fiber *f) {
  port_count(&mr_proc_of(f)->sent);
  if (PORT_LIKELY(mr_layout)) raw_push(L, RAW_TRUE, 0);
  else lua_pushboolean(L, 1);
  return 1;
}

/* Nobody receives, and there is no room: it waits with its value. */
static inline int mr_hop_offer(lua_State *L, mr_fiber *f, mr_channel *c, const mr_scalar *s, const mr_words *w, lua_CFunction otherwise) {
  mr_lua *l = mr_lua_of(f);
  if (PORT_UNLIKELY(!mr_plain_open(f, L))) return otherwise(L);
  mr_mail_scalar(&l->mail, s);
  if (PORT_UNLIKELY(!mr_channel_quick_offer(c, &f->wait))) {
    mr_wait_abandon(f);
    l->mail.kind = MAIL_NONE;
    return otherwise(L);
  }
  mr_fiber_in(f, "send");
  f->on = (mr_shared *)c;
  f->deadline = UINT64_MAX;
  return mr_plain_park(L, f, w->k);
}

/* channel:send(v…) in a process; `otherwise` does the same in any case. */
static inline int mr_hop_send(lua_State *L, const mr_words *w, lua_CFunction otherwise) {
  mr_proc *p = mr_proc_here(L);
  mr_fiber *f = p->job.fiber;
  mr_scalar s;
  mr_channel *c;
  mr_wait *peer;
  if (PORT_UNLIKELY(!mr_layout)) return otherwise(L);
  const raw_value *a = raw_arguments(L);
  if (PORT_UNLIKELY(raw_top(L) - a != 2) || PORT_UNLIKELY((c = mr_hop_channel(a)) == NULL)) return otherwise(L);
  if (PORT_UNLIKELY(!mr_hop_scalar(&a[1], &s)) || PORT_UNLIKELY(p->budget != NULL)) return otherwise(L);
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_HELD)) return otherwise(L);
  mr_step step = mr_channel_quick_put(c, &s, &peer);
  if (PORT_LIKELY(step == CH_PEER)) {
    mr_mail_scalar(peer->mail, &s);
    mr_ready(peer->fiber, MR_WOKEN, f);
  } else if (PORT_UNLIKELY(step != CH_DONE)) {
    return mr_hop_offer(L, f, c, &s, w, otherwise);
  }
  return mr_hop_sent(L, f);
}

/* The continuation of sends. */
static inline int mr_hop_was_sent(lua_State *L, mr_fiber *f, const mr_words *w) {
  mr_channel *c = (mr_channel *)f->on;
  mr_reason why = mr_plain_wake(f);
  if (PORT_UNLIKELY(why != MR_WOKEN)) return mr_exchange_sent_so(L, f, c, why, w);
  mr_lua_of(f)->mail.kind = MAIL_NONE;
  return mr_hop_sent(L, f);
}

/* What has come into the fiber's mail. */
static inline int mr_hop_take(lua_State *L, mr_fiber *f, mr_channel *c) {
  mr_mail *m = &mr_lua_of(f)->mail;
  if (PORT_UNLIKELY(m->kind != MAIL_SCALARS) || PORT_UNLIKELY(m->n != 1)) return mr_exchange_push(L, f, m, c);
  port_count(&mr_proc_of(f)->received);
  m->kind = MAIL_NONE;
  mr_hop_push(L, &m->u.s[0]);
  return 1;
}

/* A sender who waited has been claimed. */
static inline int mr_hop_take_from(lua_State *L, mr_fiber *f, mr_channel *c, mr_wait *peer) {
  if (PORT_UNLIKELY(peer->mail->kind != MAIL_SCALARS)) return mr_exchange_take_from(L, f, c, peer);
  mr_lua_of(f)->mail = *peer->mail;
  peer->mail->kind = MAIL_NONE;
  mr_ready(peer->fiber, MR_WOKEN, f);
  return mr_hop_take(L, f, c);
}

/* What there may be; -1: nothing. */
static inline int mr_hop_now(lua_State *L, mr_fiber *f, mr_channel *c) {
  mr_wait *peer = NULL;
  mr_step step = c->capacity > 0 ? mr_channel_quick_take(c, &mr_lua_of(f)->mail) : mr_channel_quick_sender(c, &peer);
  if (step == CH_BLOCKED) return -1;
  if (PORT_LIKELY(peer != NULL)) return mr_hop_take_from(L, f, c, peer);
  return PORT_LIKELY(c->capacity > 0 && step == CH_DONE) ? mr_hop_take(L, f, c) : mr_exchange_now(L, f, c);
}

/* channel:receive() in a process, of the channel at 1; `alone`: if there are other arguments, it is `otherwise` that knows them. */
static inline int mr_hop_receive(lua_State *L, int alone, const mr_words *w, lua_CFunction otherwise) {
  mr_fiber *f = mr_fiber_here(L);
  mr_lua *l = mr_lua_of(f);
  mr_channel *c;
  int n;
  if (PORT_UNLIKELY(!mr_layout)) return otherwise(L);
  const raw_value *a = raw_arguments(L);
  if (PORT_UNLIKELY(alone ? raw_top(L) - a != 1 : raw_top(L) <= a)) return otherwise(L);
  if (PORT_UNLIKELY((c = mr_hop_channel(a)) == NULL) || PORT_UNLIKELY(l->odd & (ODD_HELD | ODD_AUX))) return otherwise(L);
  if (mr_channel_may_have(c) && (n = mr_hop_now(L, f, c)) >= 0) return n;
  if (PORT_UNLIKELY(!mr_plain_open(f, L))) return otherwise(L);
  if (PORT_UNLIKELY(!mr_channel_quick_wait(c, &f->wait))) return mr_exchange_receive_open(L, f, c, w);
  mr_fiber_in(f, "receive");
  f->on = (mr_shared *)c;
  f->deadline = UINT64_MAX;
  return mr_plain_park(L, f, w->k);
}

/* The continuation of receives. */
static inline int mr_hop_received(lua_State *L, mr_fiber *f, const mr_words *w) {
  mr_channel *c = (mr_channel *)f->on;
  mr_reason why = mr_plain_wake(f);
  if (PORT_UNLIKELY(why != MR_WOKEN)) return mr_exchange_received_so(L, f, c, why, w);
  return mr_hop_take(L, f, c);
}

#endif
