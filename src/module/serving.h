/*
 * serving: what the straight serving of CORBA and of LuDO shares (orb_serve.c, ludo_serve.c): a pool's records of connections, requests and room.
 *
 * lua/mare/base/leaders.lua says what these records are; both pools have them alike, and their fields' slots come first in the list of each. A function
 * that serves has the pool at 2 on its stack, the job of the calling fiber at 3, the peer at 4, the connection at 5.
 */
#ifndef MODULE_SERVING_H
#define MODULE_SERVING_H

#include "module/slots.h"
#include "module/net.h"
#include "process/strand.h"

int mr_fiber_relief(lua_State *L, mr_fiber *f, int idx);   /* the fiber at idx relieves f when that waits (fiber.c). 0: it does not rest */

enum { MR_SERVED = 1, MR_REPLIED, MR_FAILED, MR_LATE, MR_MESSAGE };   /* results; LATE: nothing came in time; MESSAGE: what came is Lua's */
enum { MR_TURN = 64 };                           /* requests before other fibers get their turn, as in leader.lua and pool.lua */

#define MR_SERVING_FIELDS(F) \
  F(n) F(closing) F(gone) F(full) F(patience) F(purse) F(budget) F(held) F(closed) F(share) F(busy) F(guest) F(nwaiting) \
  F(standby) F(fiber) F(peer) F(id) F(slot) F(size) F(cancelled) F(key) F(operation)
enum { MR_SERVING_FIELDS(MR_F_NUMBER) MR_NSERVING };

/* What the pool knows of the request's connection, and of the room that there is. `connection`: the ORB's record. */
typedef struct mr_place { raw_table *job, *peer, *connection, *purse, *budget, *standby; int64_t held, all; } mr_place;

static inline int mr_place_get(lua_State *L, mr_slot *at, mr_place *t) {
  raw_table *pool = mr_table_at(L, 2);
  t->job = mr_table_at(L, 3);
  t->peer = mr_table_at(L, 4);
  if (!pool || !t->job || !t->peer) return 0;
  t->standby = mr_slot_table(pool, at + F_standby);
  t->connection = NULL;
  t->purse = mr_slot_table(t->peer, at + F_purse);
  t->budget = t->purse ? mr_slot_table(t->purse, at + F_budget) : NULL;
  return t->budget != NULL;
}

/* Nobody waits for room; what is held is known now. */
static inline int mr_place_is_calm(mr_slot *at, mr_place *t) {
  int64_t waiting;
  if (!mr_slot_integer(t->purse, at + F_held, &t->held) || !mr_slot_integer(t->budget, at + F_held, &t->all)) return 0;
  if (!mr_slot_integer(t->budget, at + F_nwaiting, &waiting)) return 0;
  return !mr_slot_is_set(t->purse, at + F_closed) && !mr_slot_is_set(t->budget, at + F_guest) && !waiting;
}

/* Would so many bytes more leave room for others? See budget.lua: what is asked here is more. */
static inline int mr_place_has_room(mr_slot *at, mr_place *t, int64_t more) {
  int64_t share, busy;
  if (!mr_place_is_calm(at, t) || !mr_slot_integer(t->budget, at + F_share, &share) || !mr_slot_integer(t->budget, at + F_busy, &busy)) return 0;
  return t->held + more <= share && t->all + more <= busy;
}

/* So many requests of the connection are in progress, and it takes more. */
static inline int mr_place_is_open(mr_slot *at, const mr_place *t, int64_t requests) {
  int64_t n;
  return mr_slot_integer(t->peer, at + F_n, &n) && n == requests && !mr_slot_is_set(t->peer, at + F_closing) && !mr_slot_is_set(t->peer, at + F_gone) &&
         !mr_slot_is_set(t->peer, at + F_full);
}

/* The standby relieves this fiber, should that wait. 0: it does not rest. */
static inline int mr_place_relieve(lua_State *L, mr_slot *at, const mr_place *t, mr_fiber *f) {
  const raw_value *v = mr_slot_in(t->standby, at + F_fiber);
  if (!v) return 0;
  raw_push(L, v->tt, v->bits);
  int rests = mr_fiber_relief(L, f, -1);
  lua_pop(L, 1);
  return rests;
}

/* The job is in progress, the only one of its peer: what leaders.enter and arm would do. */
static inline void mr_place_enter(lua_State *L, mr_slot *at, const mr_place *t, int64_t id, int64_t size, const raw_value *key, const raw_value *operation) {
  raw_value job = { (uintptr_t)t->job, RAW_TABLE }, peer = { (uintptr_t)t->peer, RAW_TABLE };
  mr_slot_put(L, 3, at + F_key, key);
  mr_slot_put(L, 3, at + F_operation, operation);
  raw_push(L, RAW_TABLE, (uintptr_t)t->standby);
  mr_slot_put(L, lua_gettop(L), at + F_peer, &peer);
  lua_pop(L, 1);
  if (lua_rawgeti(L, 4, 1), raw_top(L)[-1].bits != job.bits) {
    lua_pushvalue(L, 3);
    lua_rawseti(L, 4, 1);
  }
  lua_pop(L, 1);
  mr_slot_set(t->purse, at + F_held, RAW_INT, (uint64_t)(t->held + size));
  mr_slot_set(t->budget, at + F_held, RAW_INT, (uint64_t)(t->all + size));
  int all = mr_slot_set(t->job, at + F_size, RAW_INT, (uint64_t)size) & mr_slot_set(t->job, at + F_id, RAW_INT, (uint64_t)id) &
            mr_slot_set(t->job, at + F_slot, RAW_INT, 1) & mr_slot_set(t->peer, at + F_n, RAW_INT, 1);
  mr_assert(all);                                /* Lua makes them with all these fields */
  (void)all;
}

/* Its reply is written, if it can be at once, and it has ended. 0: Lua does that; *out is what is left to be written. */
static inline int mr_place_finish(lua_State *L, mr_slot *at, mr_place *t, mr_fiber *f, port_slice *out) {
  mr_conn *c = (mr_conn *)mr_movable_to(L, 5, mr_conn_type);
  int64_t size;
  if (!c || !mr_place_is_open(at, t, 1) || !mr_place_is_calm(at, t) || !mr_slot_integer(t->job, at + F_size, &size)) return 0;
  if (mr_slot_is_set(t->job, at + F_cancelled) || !mr_lua_of(f)->relief || !mr_slot_set(t->job, at + F_id, RAW_FALSE, 0)) return 0;
  if (c->fd < 0 || c->sent || c->writing || c->werr || c->out.len || c->buffered) return 0;
  long r = mr_conn_write(c, out, 1);
  if (PORT_UNLIKELY(r != (long)out->len || !mr_conn_settled(c))) {
    if (r > 0) out->p = (const char *)out->p + r, out->len -= (size_t)r;
    return 0;
  }
  mr_fiber_unrelief(f);
  mr_slot_set(t->purse, at + F_held, RAW_INT, (uint64_t)(t->held - size));
  mr_slot_set(t->budget, at + F_held, RAW_INT, (uint64_t)(t->all - size));
  mr_slot_set(t->peer, at + F_n, RAW_INT, 0);
  return 1;
}

/* ---- waiting for a request ---- */

/* give_up of the wait: it took too long, Lua decides. */
static inline int mr_serving_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)w;
  c->dry = 0;
  mr_read_leave(c);
  if (why != MR_TIMEOUT) return 0;
  lua_pushinteger(L, MR_LATE);
  return 1;
}

/* Until when the peer may say nothing. */
static inline uint64_t mr_place_patience(lua_State *L, mr_slot *at, const mr_place *t) {
  const raw_value *v = mr_slot_in(t->peer, at + F_patience);
  if (PORT_UNLIKELY(!v || (v->tt != RAW_FLT && v->tt != RAW_INT))) return UINT64_MAX;
  raw_push(L, v->tt, v->bits);
  uint64_t deadline = mr_deadline(L, -1);
  lua_pop(L, 1);
  return deadline;
}

#endif
