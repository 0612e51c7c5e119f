/*
 * station: luaproc's channels. They are channels as all are, of capacity 0 or unbounded, in a space of names of their own; messages may be
 * empty and begin with nil.
 *
 * A name says nothing when it is used; the channel is looked for each time. A process remembers the last few that it has found (mr_known,
 * module/station.h), with a reference to each, so the table of names is not asked for every message. A channel that was deleted is closed:
 * then the table is asked. A closed channel that was found in it just now means that it was deleted in between, so the loop ends.
 */
#include "module/station.h"

#include <stdlib.h>
#include <string.h>

/* ---- names and words ---- */

const char *mr_station_name(lua_State *L, size_t *len) {
  mr_check_forked(L);
  const char *name = lua_tolstring(L, 1, len);
  return PORT_LIKELY(name != NULL) ? name : luaL_checklstring(L, 1, len);
}

int mr_station_says(lua_State *L, const char *before, const char *after) {
  lua_pushnil(L);
  lua_pushstring(L, before);
  lua_pushvalue(L, 1);
  lua_pushstring(L, after);
  lua_concat(L, 3);
  return 2;
}

int mr_station_missing(lua_State *L) { return mr_station_says(L, "channel '", "' does not exist"); }

/* ---- finding ---- */


/* Takes the caller's reference over. */
static void remember(lua_State *L, mr_proc *p, mr_channel *c, const char *name) {
  if (!p->known) p->known = calloc(1, sizeof *p->known);
  mr_known *k = p->known;
  if (!k) {
    mr_release((mr_shared *)c);
    mr_raise(L, MR_ENOMEM);
  }
  unsigned at = k->next++ % MR_KNOWN;
  if (k->object[at]) mr_release(k->object[at]);
  k->object[at] = (mr_shared *)c;
  k->seen[at] = name;
}

/* Puts the channel's userdata, made by push, at 2: it holds a reference as long as the call lasts. */
static mr_channel *anchored(lua_State *L, mr_channel *c, int *first) {
  lua_insert(L, 2);
  ++*first;
  return c;
}

/* Where the cache has a channel of that name that was not found closed, or -1. */
static int in_cache(mr_known *k, const char *name, size_t len) {
  for (int i = 0; k && i < MR_KNOWN; i++)
    if (k->seen[i] && mr_channel_named_so((mr_channel *)k->object[i], name, len)) return i;
  return -1;
}

static PORT_NOINLINE mr_channel *look_up(lua_State *L, mr_fiber *f, const char *name, size_t len, int *first) {
  mr_known *k = mr_proc_of(f)->known;
  int at = in_cache(k, name, len);
  if (at >= 0 && !f->crew) {
    k->seen[at] = name;
    return (mr_channel *)k->object[at];
  }
  mr_channel *c = mr_channel_lookup(CH_SPACE_LUAPROC, name, len, mr_channel_hash(name, len));
  if (!c) return NULL;
  if (f->crew || mr_lua_in_finaliser(L)) {
    mr_shared_push_new(L, (mr_shared *)c);
    return anchored(L, c, first);
  }
  remember(L, mr_proc_of(f), c, name);
  return c;
}

mr_channel *mr_station_find(lua_State *L, mr_fiber *f, const char *name, size_t len, int *first) {
  mr_known *k = mr_proc_of(f)->known;
  if (PORT_LIKELY(k != NULL && !f->crew))
    for (int i = 0; i < MR_KNOWN; i++)
      if (k->seen[i] == name && mr_channel_named_so((mr_channel *)k->object[i], name, len)) return (mr_channel *)k->object[i];
  return look_up(L, f, name, len, first);
}

void mr_station_forget(mr_fiber *f, mr_channel *c) {
  mr_known *k = mr_proc_of(f)->known;
  for (int i = 0; k && i < MR_KNOWN; i++)
    if (k->object[i] == (mr_shared *)c) k->seen[i] = NULL;   /* its place is taken over in its turn */
}

/* ---- making and deleting ---- */

/* luaproc.newchannel(name [, asynchronous]) -> true | nil, message */
int mr_station_new(lua_State *L) {
  size_t len;
  int made, err;
  const char *name = mr_station_name(L, &len);
  size_t capacity = lua_isboolean(L, 2) && lua_toboolean(L, 2) ? MR_UNBOUNDED : 0;
  mr_channel *c = mr_channel_named(CH_SPACE_LUAPROC, name, len, capacity, &made, &err);
  if (!c) return mr_raise(L, err);
  mr_release((mr_shared *)c);
  if (!made) return mr_station_says(L, "channel '", "' already exists");
  lua_pushboolean(L, 1);
  return 1;
}

/* luaproc.delchannel(name) -> true | nil, message */
int mr_station_delete(lua_State *L) {
  size_t len;
  const char *name = mr_station_name(L, &len);
  switch (mr_channel_delete(CH_SPACE_LUAPROC, name, len, mr_self_fiber(L))) {
    case CH_CLOSED: return mr_station_missing(L);
    case CH_BLOCKED: return mr_station_says(L, "asynchronous channel '", "' still stores messages");
    default: lua_pushboolean(L, 1); return 1;
  }
}

/* ---- sending ---- */

/* nil, message: why a value can't travel, which is on the top. A coroutine has the original's words. */
static int unfit(lua_State *L, int first) {
  for (int i = first, top = lua_gettop(L); i < top; i++)
    if (lua_isthread(L, i)) {
      lua_pushfstring(L, "failed to send value of unsupported type '%s'", luaL_typename(L, i));
      break;
    }
  lua_pushnil(L);
  lua_insert(L, -2);
  return 2;
}

/* Before it waited: the caller looks again, or knows what to say. */
static int as_it_is(lua_State *L, int how) {
  (void)L;
  return how;
}

static int nobody_received(lua_State *L, int how) {
  (void)how;
  return mr_station_says(L, "channel '", "' destroyed while waiting for receiver");
}

static int send_k(lua_State *L, int status, lua_KContext ctx) {
  static const mr_words after = { send_k, nobody_received, 1 };
  (void)status;
  return mr_exchange_sent(L, (mr_fiber *)ctx, &after);
}

static const mr_words sending = { send_k, as_it_is, 1 };

/* luaproc.send(name, …) -> true | nil, message */
int mr_station_send(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  size_t len;
  const char *name = mr_station_name(L, &len);
  int first = 2, n;
  for (;;) {
    mr_channel *c = mr_station_find(L, f, name, len, &first);
    if (PORT_UNLIKELY(!c)) return mr_station_missing(L);
    n = mr_exchange_send(L, f, c, first, UINT64_MAX, &sending);
    if (PORT_LIKELY(n >= 0)) return n;
    if (n == EXCHANGE_VALUE) return unfit(L, first);
    mr_station_forget(f, c);
  }
}

/* ---- receiving ---- */

static int nobody_sent(lua_State *L, int how) {
  (void)how;
  return mr_station_says(L, "channel '", "' destroyed while waiting for sender");
}

static int receive_k(lua_State *L, int status, lua_KContext ctx) {
  static const mr_words after = { receive_k, nobody_sent, 1 };
  (void)status;
  return mr_exchange_received(L, (mr_fiber *)ctx, &after);
}

static const mr_words receiving = { receive_k, as_it_is, 1 };

/* luaproc.receive(name [, asynchronous]) -> … | nil, message */
int mr_station_receive(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  size_t len;
  const char *name = mr_station_name(L, &len);
  uint64_t deadline = UINT64_MAX;
  int first = 2, n;
  if (PORT_UNLIKELY(lua_gettop(L) != 1)) {
    if (lua_toboolean(L, 2)) deadline = 0;
    lua_settop(L, 1);
  }
  for (;;) {
    mr_channel *c = mr_station_find(L, f, name, len, &first);
    if (PORT_UNLIKELY(!c)) return mr_station_missing(L);
    n = mr_exchange_receive(L, f, c, deadline, &receiving);
    if (PORT_LIKELY(n >= 0)) return n;
    if (n == EXCHANGE_BLOCKED) return mr_station_says(L, "no senders waiting on channel '", "'");
    mr_station_forget(f, c);
  }
}

/* ---- barriers ---- */

/* Stack: the name, perhaps the channel, the number on top. */
static int barrier_find(lua_State *L);

/* In `linked` of a node: it was the last to arrive, and all are through. */
static int barrier_link(void *o, mr_wait *w) {
  mr_step s = mr_channel_meet(o, w->mail->u.meeting.expected, w, &w->mail->u.meeting.round, w->fiber);
  w->linked = s == CH_DONE;
  return s == CH_WAIT ? 0 : s == CH_NOMEM ? -1 : 1;
}

static void barrier_unlink(void *o, mr_wait *w) { mr_channel_unmeet(o, w, w->mail->u.meeting.round); }

static int barrier_through(lua_State *L) {
  lua_pushboolean(L, 1);
  return 1;
}

static int barrier_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_fiber *f = w->fiber;
  unsigned round;
  if (why == MR_WOKEN || w->linked) return barrier_through(L);
  if (why == MR_CLOSED) return mr_station_says(L, "channel '", "' destroyed while waiting at a barrier");
  mr_lua_of(f)->mail.u.meeting.expected = lua_tointeger(L, -1);
  switch (mr_channel_meet(o, mr_lua_of(f)->mail.u.meeting.expected, NULL, &round, f)) {
    case CH_DONE: return barrier_through(L);
    case CH_NOMEM: return mr_raise(L, MR_ENOMEM);
    case CH_CLOSED: mr_station_forget(f, o); return barrier_find(L);
    default: return -1;
  }
}

static const mr_waitclass barrier = { .run = { .op = "wait at the barrier", .link = barrier_link, .unlink = barrier_unlink, .shown = 1 },
                                      .take = barrier_take };

static int barrier_find(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  size_t len;
  int first = 2;
  lua_Integer n = lua_tointeger(L, -1);
  lua_settop(L, 1);
  const char *name = mr_station_name(L, &len);
  mr_channel *c = mr_station_find(L, f, name, len, &first);
  if (!c) return mr_station_missing(L);
  lua_pushinteger(L, n);
  return mr_await(L, f, &barrier, c, UINT64_MAX);
}

/* luaproc.barrier(name, n) -> true once n processes have called it | nil, message. The first to arrive decides n. */
int mr_station_barrier(lua_State *L) {
  size_t len;
  mr_station_name(L, &len);
  luaL_checkinteger(L, 2);
  lua_settop(L, 2);
  return barrier_find(L);
}
