/*
 * ludo_call: an ordinary LuDO call, from the arguments to the results, for lua/mare/ludo/proxy.lua. As orb_call.c, with which it shares calling.h.
 *
 * Ordinary is: the proxy's link is there, was used lately, and the server has said who it is; nobody waits on it, and nothing has come that was not read.
 * Whatever else it is, also when an argument can't be sent, `slow` is called with the same arguments before anything has happened. The reply is read here,
 * too: if it has come whole, is short, says no more than results, and nobody has begun to wait beside us. Else `resume` waits for it, as it does for the
 * rest of a request that could not be written at once, and says what is wrong with a reply that can't be read.
 *
 * Whatever raises an error, writing the arguments and reading the results, runs in protected mode, as the caller is to get an error that Lua's side makes.
 *
 * The stack while it waits: the arguments, then `mr_extras`. What else is known is in upvalues.
 */
#include "module/ludo.h"
#include "module/calling.h"

#include <string.h>

enum { MOST = 100 };                             /* arguments, at most */
static const int64_t last_id = 0xffffffff;
enum upvalues { HOST = 1, RECORD, STATES, NAME, SLOW, RESUME, NOTHING, UPVALUES = NOTHING };

#define FIELDS(F) F(greeted) F(world) F(key)
enum { BEFORE_FIELDS = MR_NCALLING - 1, FIELDS(MR_F_NUMBER) NFIELDS };
static const char *const names[] = { MR_CALLING_FIELDS(MR_F_NAME) FIELDS(MR_F_NAME) };

typedef mr_calling calling;
static const char calling_tag;
static inline calling *calling_at(lua_State *L, int idx) { return mr_calling_at(L, idx, &calling_tag); }

/* ---- the reply ---- */

/* Waits for the reply in Lua. `rest` is what is left of the request, `sent` how much of it went; `come`: the reply is here. n: of the arguments */
static int resume(lua_State *L, int n, port_slice rest, size_t sent, port_slice come) {
  int first = lua_gettop(L) + 1;
  luaL_checkstack(L, n + 10, NULL);
  lua_pushvalue(L, lua_upvalueindex(RESUME));
  lua_pushvalue(L, n + STATE);
  lua_pushvalue(L, lua_upvalueindex(NAME));
  lua_pushvalue(L, n + LINK);
  lua_pushvalue(L, n + ID);
  lua_pushvalue(L, n + DEADLINE);
  if (rest.p) lua_pushlstring(L, rest.p, rest.len);
  else lua_pushnil(L);
  lua_pushinteger(L, (lua_Integer)sent);
  if (come.p) lua_pushlstring(L, come.p, come.len);
  else lua_pushnil(L);
  for (int i = 2; i <= n; i++) lua_pushvalue(L, i);
  lua_callk(L, n + 7, LUA_MULTRET, first, mr_all_results);
  return mr_all_results(L, LUA_OK, first);
}

static const port_slice nothing = { NULL, 0 };

/* The bytes begin with a whole message of results, of the request with this id, and nobody else waits for one. */
static int is_reply(calling *k, const raw_table *link, uint32_t id, const char *p, size_t n, size_t *length) {
  int64_t count, limit;
  if (PORT_UNLIKELY(n < LUDO_HEAD || mr_ludo_word(p + 8) != LUDO_REPLY || mr_ludo_word(p + 4) != id)) return 0;
  *length = mr_ludo_word(p);
  if (PORT_UNLIKELY(*length < LUDO_HEAD || *length > n || *length > LUDO_MOST || IS_SET(link, k, dead))) return 0;
  return INTEGER(link, k, count, &count) && !count && INTEGER(link, k, limit, &limit) && *length <= (uint64_t)limit;
}

/* In protected mode: the message, world. */
static int decode(lua_State *L) {
  const port_slice *message = lua_touserdata(L, 1);
  return mr_ludo_read(L, message->p, message->len, 2, 0, 0);
}

static int results(lua_State *L, calling *k, int n, port_slice message) {
  raw_table *state = mr_table_at(L, n + STATE), *world = state ? TABLE(state, k, world) : NULL;
  if (PORT_UNLIKELY(!world)) return resume(L, n, nothing, 0, message);
  lua_pushcfunction(L, decode);
  lua_pushlightuserdata(L, &message);
  raw_push(L, RAW_TABLE, (uintptr_t)world);
  if (PORT_LIKELY(lua_pcall(L, 2, LUA_MULTRET, 0) == LUA_OK)) return lua_gettop(L) - (n + EXTRAS);
  lua_settop(L, n + EXTRAS);
  return resume(L, n, nothing, 0, message);
}

static int reply_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  calling *k = calling_at(L, lua_upvalueindex(RECORD));
  int n = lua_gettop(L) - EXTRAS;
  char copy[LUDO_MOST];
  const char *p;
  size_t length;
  if (why != MR_AGAIN) c->dry = 0;
  mr_goes_on(L);
  long got = c->fd >= 0 ? mr_read_look(w->fiber, c, &p) : 0;
  if (got == -EAGAIN) return -1;
  mr_read_leave(c);
  int whole = got > 0 && is_reply(k, mr_table_at(L, n + LINK), (uint32_t)lua_tointeger(L, n + ID), p, (size_t)got, &length);
  mr_lead_no_more(L, k->slots, n, NOTHING);
  if (PORT_UNLIKELY(!whole)) {
    if (got > 0) mr_read_use(c, p, (size_t)got, 0);
    return resume(L, n, nothing, 0, nothing);
  }
  memcpy(copy, p, length);                       /* what reading it runs may read here, too */
  mr_read_use(c, p, (size_t)got, length);
  return results(L, k, n, (port_slice){ copy, length });
}

/* Time is over: Lua says so to the server, and to the caller. Else an error ends this function, and closes the variable. */
static int reply_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)w;
  c->dry = 0;
  mr_read_leave(c);
  if (why != MR_TIMEOUT) return 0;
  int n = lua_gettop(L) - EXTRAS;
  mr_lead_no_more(L, calling_at(L, lua_upvalueindex(RECORD))->slots, n, NOTHING);
  return resume(L, n, nothing, 0, nothing);
}

static const mr_waitclass reply = { .run = { .op = "read", .link = mr_read_link, .unlink = mr_read_unlink }, .take = reply_take,
                                    .give_up = reply_give_up };

/* ---- the request ---- */

typedef struct request { uint32_t id; port_slice message; char bytes[LUDO_BYTES]; } request;

/* In protected mode: the request, world, key, operation, arguments. Gives what holds the message, if that is long. */
static int encode(lua_State *L) {
  request *q = lua_touserdata(L, 1);
  q->message = mr_ludo_write(L, q->bytes, sizeof q->bytes, LUDO_CALL, q->id, 2, 3);
  lua_pushvalue(L, -2);
  return 1;
}

/* Makes the message; what holds it is pushed. 0: Lua says what is wrong. */
static int push_message(lua_State *L, calling *k, const raw_table *state, int n, request *q) {
  raw_table *world = TABLE(state, k, world);
  const raw_value *key = mr_slot_in(state, SLOT(k, key));
  if (!world || !key) return 0;
  lua_pushcfunction(L, encode);
  lua_pushlightuserdata(L, q);
  raw_push(L, RAW_TABLE, (uintptr_t)world);
  raw_push(L, key->tt, key->bits);
  lua_pushvalue(L, lua_upvalueindex(NAME));
  mr_push_again(L, 2, n - 1);
  return lua_pcall(L, n + 3, 1, 0) == LUA_OK;
}

/* Is the link of the state, which is on top, one for an ordinary call? */
static raw_table *get_link(lua_State *L, calling *k, int64_t *id, int64_t *limit, double *now) {
  raw_table *state = mr_table_at(L, -1), *link = state ? TABLE(state, k, link) : NULL;
  if (!link || !IS_SET(link, k, greeted) || !mr_link_is_free(link, k->slots) || !mr_link_is_warm(link, k->slots, now)) return NULL;
  return INTEGER(link, k, limit, limit) && INTEGER(link, k, id, id) && *id < last_id ? link : NULL;
}

/* Finalisers may have run while the message was made: is all as it was? */
static int is_as_before(lua_State *L, calling *k, const raw_table *link, int64_t id, const mr_conn *c, int n) {
  int64_t last;
  return mr_movable_to(L, n + SOCKET, mr_conn_type) == &c->base.shared && mr_takes_call(c) && mr_link_is_free(link, k->slots) &&
         INTEGER(link, k, id, &last) && last == id;
}

/* function(object, …) -> results */
static int l_call(lua_State *L) {
  calling *k = calling_at(L, lua_upvalueindex(RECORD));
  int n = lua_gettop(L);
  int64_t id, limit;
  uint64_t deadline;
  double now;
  request q;
  if (PORT_UNLIKELY(n < 1 || n > MOST || !lua_checkstack(L, LUA_MINSTACK + n))) return mr_hand_on(L, n, SLOW);
  lua_pushvalue(L, 1);
  lua_rawget(L, lua_upvalueindex(STATES));
  raw_table *state = mr_table_at(L, -1), *link = get_link(L, k, &id, &limit, &now);
  const raw_value *socket = link ? mr_slot_in(link, SLOT(k, socket)) : NULL;
  if (!socket) return mr_hand_on(L, n, SLOW);
  raw_push(L, RAW_TABLE, (uintptr_t)link);
  raw_push(L, socket->tt, socket->bits);
  lua_pushinteger(L, id + 1);
  mr_conn *c = (mr_conn *)mr_movable_to(L, n + SOCKET, mr_conn_type);
  if (!c || !mr_takes_call(c) || !mr_push_until(L, state, k->slots, now, &deadline)) return mr_hand_on(L, n, SLOW);
  lua_pushnil(L);
  q.id = (uint32_t)(id + 1);
  if (!push_message(L, k, state, n, &q) || q.message.len > (uint64_t)limit || !is_as_before(L, k, link, id, c, n)) return mr_hand_on(L, n, SLOW);
  mr_link_use(link, k->slots, now, id + 1);
  long r = mr_conn_write(c, &q.message, 1);
  /* Over TLS all may be written while its last record waits for room in the kernel: Lua's side waits until it is gone. */
  if (PORT_UNLIKELY(r != (long)q.message.len || !mr_read_enter(c))) {
    size_t sent = r > 0 ? (size_t)r : 0;
    return resume(L, n, (port_slice){ q.message.p + sent, q.message.len - sent }, sent, nothing);
  }
  lua_settop(L, n + EXTRAS);
  return mr_await_leading(L, k->slots, c, n, &reply, deadline);
}

/* ---- making them ---- */

/* calling() -> record | nil: Lua is not as we know it, or every step is recorded */
static int l_calling(lua_State *L) { return mr_calling_make(L, names, NFIELDS, &calling_tag); }

/* call(record, states, name, slow, resume) -> function(object, …) */
static int l_make_call(lua_State *L) {
  calling_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TSTRING);
  luaL_checktype(L, 5, LUA_TFUNCTION);
  lua_settop(L, 5);
  mr_push_host(L);
  lua_insert(L, 1);
  mr_push_nothing(L);
  lua_pushcclosure(L, l_call, UPVALUES);
  return 1;
}

const luaL_Reg mr_ludo_calling[] = { { "calling", l_calling }, { "call", l_make_call }, { NULL, NULL } };
