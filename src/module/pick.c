/*
 * pick: mare.select where it is nothing but a list of channels to be received from, in a process.
 *
 * As in select.c each channel is asked, in a random order; if none has anything, the fiber waits at all of them, by nodes that are its own and stay
 * with it from call to call (`set` of its mr_lua). They are linked only while it is parked here: whatever ends the wait, the continuation takes
 * them out first. The channels are kept alive by their userdata, which lie on the stack: the program may change the table meanwhile.
 *
 * Stack of a call: 1 the table, then its channels, above them what is received.
 *
 * Whatever is unusual - options, other things to wait for, many channels, limits, what is left of an earlier message, a run that is repeated -
 * mr_select_any does, to which it is as if nothing had happened yet.
 */
#include "module/pick.h"
#include "module/hop.h"
#include "run/replay.h"

#include <stdlib.h>

enum { MOST = 8 };                               /* channels; so many fit on the stack without asking for room */

typedef struct place { mr_wait wait; mr_mail mail; mr_channel *channel; int key; } place;
typedef struct places { int n, size; place at[]; } places;

typedef struct candidate { mr_channel *channel; int key; } candidate;

/* ---- the channels ---- */

/* What is wanted, from `v` on; 0: it isn't all channels. */
static inline int candidates(const raw_value *v, int n, candidate *c) {
  for (int i = 0; i < n; i++) {
    if (PORT_UNLIKELY((c[i].channel = mr_hop_channel(&v[i])) == NULL)) return 0;
    c[i].key = i + 1;
  }
  return 1;
}

/* So that of those that are ready none is preferred. */
static inline void shuffle(candidate *c, int n) {
  static PORT_TLS unsigned rng;
  if (PORT_UNLIKELY(rng == 0)) rng = (unsigned)port_entropy();
  for (int i = n - 1; i > 0; i--) {
    rng = rng * 1664525u + 1013904223u;
    int k = (int)(((uint64_t)rng * (uint64_t)(i + 1)) >> 32);
    candidate t = c[i];
    c[i] = c[k];
    c[k] = t;
  }
}

/* The cases are the n channels on the stack, whatever the table has become. */
static PORT_NOINLINE int select_again(lua_State *L, int n) {
  lua_settop(L, n + 1);
  lua_createtable(L, n, 0);
  for (int i = 1; i <= n; i++) {
    lua_pushvalue(L, i + 1);
    lua_rawseti(L, -2, i);
  }
  lua_replace(L, 1);
  lua_settop(L, 1);
  return mr_select_any(L);
}

/* ---- what is received ---- */

/* key, values… of what has come through a node */
static inline int results(lua_State *L, mr_fiber *f, const candidate *c, mr_mail *m) {
  raw_push(L, RAW_INT, (uint64_t)c->key);
  if (PORT_UNLIKELY(m->kind != MAIL_SCALARS) || PORT_UNLIKELY(m->n != 1)) return mr_exchange_push(L, f, m, c->channel) + 1;
  port_count(&mr_proc_of(f)->received);
  m->kind = MAIL_NONE;
  mr_hop_push(L, &m->u.s[0]);
  return 2;
}

/* The first that has something gives it; 0: none has. */
static inline int ask(lua_State *L, mr_fiber *f, const candidate *c, int n) {
  for (int i = 0; i < n; i++) {
    if (!mr_channel_may_have(c[i].channel)) continue;
    raw_push(L, RAW_INT, (uint64_t)c[i].key);
    int got = mr_hop_now(L, f, c[i].channel);
    if (PORT_LIKELY(got >= 0)) return got + 1;
    raw_pop(L);
  }
  return 0;
}

/* ---- the wait ---- */

static PORT_NOINLINE places *make_places(mr_lua *l, int n) {
  places *p = mr_proc_of(&l->fiber)->budget ? NULL : realloc(l->set, sizeof *p + (size_t)n * sizeof(place));
  if (!p) return NULL;
  memset(p, 0, sizeof *p + (size_t)n * sizeof(place));
  p->size = n;
  for (int i = 0; i < n; i++) {
    p->at[i].wait.fiber = &l->fiber;
    p->at[i].wait.mail = &p->at[i].mail;
  }
  return l->set = p;
}

/* Those that were linked, but the one through which the fiber was claimed: that was taken out before. */
static inline void unlink_all(places *p, const mr_wait *fired) {
  for (int i = 0; i < p->n; i++)
    if (&p->at[i].wait != fired) mr_channel_quick_unwait(p->at[i].channel, &p->at[i].wait);
  p->n = 0;
}

/* f's wait is open. 0: one has something, or was closed; what is linked stays so. */
static inline int link_all(mr_fiber *f, places *p, const candidate *c, int n) {
  for (int i = 0; i < n; i++) {
    place *at = &p->at[i];
    at->wait.ticket = f->wait.ticket;
    at->channel = c[i].channel;
    at->key = c[i].key;
    at->mail.kind = MAIL_NONE;
    if (PORT_UNLIKELY(!mr_channel_quick_wait(c[i].channel, &at->wait))) return 0;
    p->n = i + 1;
  }
  return 1;
}

static int pick(lua_State *L, mr_fiber *f, int n);

static PORT_NOINLINE int ended_otherwise(lua_State *L, mr_fiber *f, mr_reason why, const candidate *c, int n) {
  if (why == MR_CLOSED) {
    lua_pushinteger(L, c->key);
    lua_pushnil(L);
    lua_pushliteral(L, "closed");
    return 3;
  }
  if (why == MR_AGAIN) return pick(L, f, n);
  mr_raise_reason(L, f, why);
  return mr_timed_out(L);
}

/* The wait is over, for the reason `why`; n channels are on the stack. */
static inline int woken(lua_State *L, mr_fiber *f, mr_reason why, int n) {
  places *p = mr_lua_of(f)->set;
  place *at = (place *)(void *)f->fired;         /* NULL: through none of them */
  unlink_all(p, f->fired);
  candidate c = { at ? at->channel : NULL, at ? at->key : 0 };
  if (PORT_UNLIKELY(why != MR_WOKEN)) return ended_otherwise(L, f, why, &c, n);
  return results(L, f, &c, &at->mail);
}

static int pick_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = (mr_fiber *)ctx;
  (void)status;
  return woken(L, f, mr_plain_wake(f), ((places *)mr_lua_of(f)->set)->n);
}

/* Not all could be linked. */
static PORT_NOINLINE int withdraw(lua_State *L, mr_fiber *f, int n) {
  places *p = mr_lua_of(f)->set;
  if (!mr_wait_cancel(f)) return woken(L, f, mr_plain_wake(f), n);
  unlink_all(p, NULL);
  return select_again(L, n);
}

/* Of the n channels on the stack. */
static int pick(lua_State *L, mr_fiber *f, int n) {
  mr_lua *l = mr_lua_of(f);
  places *p = l->set;
  candidate c[MOST];
  int got;
  if (PORT_UNLIKELY(l->odd & (ODD_HELD | ODD_AUX))) return select_again(L, n);
  if (PORT_UNLIKELY(!candidates(raw_arguments(L) + 1, n, c))) return select_again(L, n);
  shuffle(c, n);
  if ((got = ask(L, f, c, n)) > 0) return got;
  if (PORT_UNLIKELY(!p || p->size < n) && (p = make_places(l, n)) == NULL) return select_again(L, n);
  if (PORT_UNLIKELY(!mr_plain_open(f, L))) return select_again(L, n);
  if (PORT_UNLIKELY(!link_all(f, p, c, n))) return withdraw(L, f, n);
  mr_fiber_in(f, "select");
  f->on = NULL;
  f->deadline = UINT64_MAX;
  return mr_plain_park(L, f, pick_k);
}

/* Nothing but a list, without fields and metatable; how long it is, 0: something else. */
static inline int plain_list(const raw_value *v) {
  const raw_table *t = (const raw_table *)(uintptr_t)v->bits;
  if (PORT_UNLIKELY(v->tt != RAW_TABLE) || PORT_UNLIKELY(t->metatable != NULL) || PORT_UNLIKELY(t->lastfree != NULL)) return 0;
  uint32_t n = raw_arraysize(t);
  return PORT_LIKELY(n <= MOST) ? (int)n : 0;
}

int mr_pick(lua_State *L) {
  if (PORT_UNLIKELY(!mr_layout) || PORT_UNLIKELY(mr_replay_on)) return mr_select_any(L);
  raw_value *a = raw_arguments(L);
  int n = PORT_LIKELY(raw_top(L) - a == 1) ? plain_list(a) : 0;
  if (PORT_UNLIKELY(n == 0)) return mr_select_any(L);
  const raw_table *t = (const raw_table *)(uintptr_t)a->bits;
  for (int i = 0; i < n; i++) {
    raw_value v = raw_element(t, (uint32_t)i);
    if (PORT_UNLIKELY(v.tt != RAW_USERDATA)) {
      lua_settop(L, 1);
      return mr_select_any(L);
    }
    raw_push(L, v.tt, v.bits);
  }
  return pick(L, mr_fiber_here(L), n);
}
