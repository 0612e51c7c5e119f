/*
 * calling: what the straight calls of CORBA and of LuDO share (orb_call.c, ludo_call.c): how the caller leads its link while it waits, what is handed to Lua.
 *
 * Both know a link by the same fields, which link.lua of either gives it; their slots come first in the list of each.
 *
 * The stack of a call: its arguments, then `mr_extras`. A function's record of slots is its upvalue; which one, each file says.
 */
#ifndef MODULE_CALLING_H
#define MODULE_CALLING_H

#include "module/slots.h"
#include "module/net.h"
#include "run/replay.h"

#include <string.h>

#define MR_CALLING_FIELDS(F) F(link) F(socket) F(timeout) F(dead) F(leader) F(leading) F(count) F(id) F(used) F(limit)
enum { MR_CALLING_FIELDS(MR_F_NUMBER) MR_NCALLING };
enum mr_extras { STATE = 1, LINK, SOCKET, ID, DEADLINE, GUARD, EXTRAS = GUARD };   /* GUARD: the variable to be closed, nil before */

static const double mr_link_idle = 0.05;         /* seconds without a call, as in link.lua: then the connection is looked at first */

/* ---- the record ---- */

/* Where the fields of states and links lie. `tag` in what follows: the address of something that the file alone has, which tells its record from others. */
typedef struct mr_calling { uintptr_t tag; mr_slot slots[]; } mr_calling;

static inline mr_calling *mr_calling_at(lua_State *L, int idx, const void *tag) {
  mr_calling *k = lua_rawlen(L, idx) >= sizeof *k ? (mr_calling *)lua_touserdata(L, idx) : NULL;
  if (PORT_UNLIKELY(!k || k->tag != ((uintptr_t)tag ^ (uintptr_t)k))) luaL_error(L, "record of calls expected");
  return k;
}

/* A C function: makes it, with n fields. nil: Lua is not as we know it, or every step is recorded. */
static inline int mr_calling_make(lua_State *L, const char *const *names, int n, const void *tag) {
  lua_settop(L, 0);
  if (!mr_layout || mr_replay_on) return 0;
  size_t size = sizeof(mr_calling) + (size_t)n * sizeof(mr_slot);
  mr_calling *k = lua_newuserdatauv(L, size, 1);
  memset(k, 0, size);
  lua_createtable(L, n, 0);
  mr_slots_make(L, k->slots, names, n);
  lua_setiuservalue(L, 1, 1);
  k->tag = (uintptr_t)tag ^ (uintptr_t)k;
  return 1;
}

/* ---- handing it to Lua ---- */

/* The results begin at the index ctx. */
static inline int mr_all_results(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return lua_gettop(L) - (int)ctx + 1;
}

/* The function at the upvalue gets the first n values, and nothing else. */
static inline int mr_hand_on(lua_State *L, int n, int function) {
  lua_settop(L, n);
  lua_pushvalue(L, lua_upvalueindex(function));
  lua_insert(L, 1);
  lua_callk(L, n, LUA_MULTRET, 1, mr_all_results);
  return lua_gettop(L);
}

/* ---- the state of things ---- */

/* Nobody waits on the link, which lives. */
static inline int mr_link_is_free(const raw_table *link, mr_slot *at) {
  int64_t count;
  return !mr_slot_is_set(link, at + F_dead) && !mr_slot_is_set(link, at + F_leader) && mr_slot_integer(link, at + F_count, &count) && count == 0;
}

/* It was used just now: *now. */
static inline int mr_link_is_warm(const raw_table *link, mr_slot *at, double *now) {
  const raw_value *used = mr_slot_in(link, at + F_used);
  double since;
  if (PORT_UNLIKELY(!used || used->tt != RAW_FLT)) return 0;
  memcpy(&since, &used->bits, sizeof since);
  *now = (double)port_now() * 1e-9;
  return *now - since <= mr_link_idle;
}

static inline void mr_link_use(const raw_table *link, mr_slot *at, double now, int64_t id) {
  uint64_t bits;
  memcpy(&bits, &now, sizeof bits);
  mr_slot_set(link, at + F_used, RAW_FLT, bits);
  mr_slot_set(link, at + F_id, RAW_INT, (uint64_t)id);
}

/* Nothing is being written or read, and nothing has come that was not read. */
static inline int mr_takes_bytes(const mr_conn *c) {
  return c->fd >= 0 && mr_conn_settled(c) && !c->sent && !c->writing && !c->werr && !c->out.len && !c->buffered && !c->in.len && !c->rerr && !c->eof;
}
static inline int mr_takes_call(const mr_conn *c) { return mr_takes_bytes(c) && !c->reading && !c->lost && !c->selects_read; }

/* Until when a call may take that begins now: pushes the time for Lua, nil for ever. 0: its limit is no number. */
static inline int mr_push_until(lua_State *L, const raw_table *state, mr_slot *at, double now, uint64_t *deadline) {
  const raw_value *v = mr_slot_in(state, at + F_timeout);
  *deadline = UINT64_MAX;
  if (PORT_LIKELY(!v || raw_isnil(v->tt) || v->tt == RAW_FALSE)) return lua_pushnil(L), 1;
  if (v->tt != RAW_FLT && v->tt != RAW_INT) return 0;
  raw_push(L, v->tt, v->bits);
  double seconds = lua_tonumber(L, -1);
  *deadline = mr_deadline(L, -1);
  lua_pop(L, 1);
  lua_pushnumber(L, now + seconds);
  return 1;
}

/* ---- leading: n is the number of arguments ---- */

/* The wait is over: nobody leads. The variable that is to be closed does nothing any more. */
static inline void mr_lead_no_more(lua_State *L, mr_slot *at, int n, int nothing) {
  if (lua_isnil(L, n + GUARD)) return;
  mr_slot_set(mr_table_at(L, n + LINK), at + F_leader, RAW_FALSE, 0);
  lua_copy(L, lua_upvalueindex(nothing), n + GUARD);
}

/* Waits as the link's leader, which others see from when this fiber parks. As mr_await. */
static inline int mr_await_leading(lua_State *L, mr_slot *at, mr_conn *c, int n, const mr_waitclass *class, uint64_t deadline) {
  mr_fiber *f = mr_self_fiber(L);
  f->wait.fiber = f;
  f->wait.what = 0;
  f->wait.linked = 0;
  f->fired = NULL;
  f->deadline = deadline;
  int results = class->take(L, c, &f->wait, MR_AGAIN);
  if (results >= 0) return results;
  raw_table *link = mr_table_at(L, n + LINK);
  mr_slot_set(link, at + F_leading, RAW_INT, (uint64_t)lua_tointeger(L, n + ID));
  mr_slot_set(link, at + F_leader, RAW_TRUE, 0);
  lua_copy(L, n + LINK, n + GUARD);
  lua_toclose(L, n + GUARD);
  return mr_await_on(L, f, class, c, 0, deadline);
}

/* Pushes what does nothing when it is closed: the upvalue that mr_lead_no_more gets. */
static inline int mr_do_nothing(lua_State *L) {
  (void)L;
  return 0;
}
static inline void mr_push_nothing(lua_State *L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, mr_do_nothing);
  lua_setfield(L, -2, "__close");
  lua_setmetatable(L, -2);
}

/* The first upvalue: where mr_self_fiber finds a host. */
static inline void mr_push_host(lua_State *L) {
  if (mr_in_process(L)) lua_pushnil(L);
  else mr_host_push(L);
}

#endif
