/*
 * ludo_serve: an ordinary LuDO request, from the bytes in which it came to those of its reply, for lua/mare/ludo/pool.lua. As orb_serve.c, with which it
 * shares serving.h.
 *
 * Ordinary is: it has come whole, is short, its key and its operation too; the object is a table with a method of that name, found without running any code;
 * no other request of the connection is in progress, a fiber rests that would take the lead, and there is room for all in the budgets. What is no such
 * request by its bytes stays where the next read finds it, and nil is returned; what is none by all else is returned as a string (MESSAGE): Lua serves
 * either. Once a request has begun, its job has every field that Lua would have set; so what goes wrong, or takes long, ends in Lua (REPLIED, FAILED).
 *
 * A request lies in the C stack while it is read, as what that runs may read into the thread's scratch buffer. A short reply lies in the record from where
 * it is complete to where it is written, between which no Lua code runs.
 */
#include "module/ludo.h"
#include "module/serving.h"
#include "run/replay.h"

#include <string.h>

enum { COST = 1024 };                            /* bytes that a request counts beside its own, as in pool.lua */
enum { ARGUMENTS = 6 };                          /* of serve */

#define FIELDS(F) F(running) F(packing) F(__index)
enum { BEFORE_FIELDS = MR_NSERVING - 1, FIELDS(MR_F_NUMBER) NFIELDS };
static const char *const names[] = { MR_SERVING_FIELDS(MR_F_NAME) FIELDS(MR_F_NAME) };

typedef struct serving {
  uintptr_t tag;
  raw_table *objects, *world;
  size_t limit;                                  /* of messages */
  mr_slot slots[NFIELDS];
  port_slice in, out;                            /* the request that is about to be read, the reply that is about to be written; p NULL: none */
  char reply[LUDO_BYTES];
} serving;
static const char serving_tag;

static serving *serving_at(lua_State *L, int idx) {
  serving *s = lua_rawlen(L, idx) >= sizeof *s ? (serving *)lua_touserdata(L, idx) : NULL;
  if (!s || s->tag != ((uintptr_t)&serving_tag ^ (uintptr_t)s)) luaL_argerror(L, idx, "record of a pool's requests expected");
  return s;
}

/* ---- objects and methods ---- */

/* What a table has under the short string on the stack at idx; NULL: nothing. */
static const raw_value *field_of(lua_State *L, const raw_table *t, int idx) {
  const raw_value *name = raw_arguments(L) + idx - 1;
  mr_slot s = { name->bits, ((const raw_string *)(uintptr_t)name->bits)->hash };
  const raw_value *v = mr_slot_in(t, &s);
  return v && !raw_isnil(v->tt) ? v : NULL;
}

/* The method, looked up as Lua would, as long as there are only tables on the way. NULL: it is none, or Lua finds it. */
static const raw_value *method_of(lua_State *L, const raw_table *object, serving *s, int idx) {
  for (int level = 0; level < 8; level++) {
    const raw_value *v = field_of(L, object, idx);
    if (v) return (v->tt & 15) == (RAW_FUNCTION & 15) ? v : NULL;
    if (!object->metatable) return NULL;
    object = TABLE(object->metatable, s, __index);
    if (!object) return NULL;
  }
  return NULL;
}

/* ---- serving ---- */

/* The servant has returned; its results begin at the index ctx. The reply is in s->out, or, a long one, the function's result. */
static int execute_k(lua_State *L, int status, lua_KContext ctx) {
  serving *s = serving_at(L, 1);
  raw_table *job = mr_table_at(L, 2);
  char out[LUDO_BYTES];
  int64_t id = 0;
  (void)status;
  luaL_argcheck(L, job && INTEGER(job, s, id, &id) && SET_BOOLEAN(job, s, packing, 1), 2, "a request in progress expected");
  port_slice m = mr_ludo_write(L, out, sizeof out, LUDO_REPLY, (uint32_t)id, 3, (int)ctx);
  s->out.p = NULL;
  if (PORT_UNLIKELY(m.p != out || m.len > s->limit)) {
    lua_pushlstring(L, m.p, m.len);
    return 1;
  }
  memcpy(s->reply, out, m.len);
  s->out = (port_slice){ s->reply, m.len };
  return 0;
}

/* In protected mode: record, job, world, method, object. */
static int execute(lua_State *L) {
  serving *s = serving_at(L, 1);
  raw_table *job = mr_table_at(L, 2);
  port_slice in = s->in;
  s->in.p = NULL;
  luaL_argcheck(L, in.p && job, 1, "a request expected");
  int n = mr_ludo_read(L, in.p, in.len, 3, 2, 2);
  lua_KContext first = lua_gettop(L) - n + 1;
  SET_BOOLEAN(job, s, running, 1);
  lua_callk(L, n - 1, LUA_MULTRET, first, execute_k);
  return execute_k(L, LUA_OK, first);
}

/* The request was served, or that failed. How many results are pushed; none: it has ended. */
static int served(lua_State *L, serving *s, mr_place *t, mr_fiber *f, int status) {
  if (PORT_UNLIKELY(status != LUA_OK && status != LUA_YIELD)) {
    lua_pushinteger(L, MR_FAILED);
    lua_insert(L, -2);
    return 2;
  }
  if (PORT_LIKELY(s->out.p != NULL)) {
    if (PORT_LIKELY(mr_place_finish(L, s->slots, t, f, &s->out))) return SET_BOOLEAN(t->job, s, running, 0), 0;
    lua_pushlstring(L, s->out.p, s->out.len);
  }
  lua_pushinteger(L, MR_REPLIED);
  lua_insert(L, -2);
  return 2;
}

/* After a servant that was interrupted, or has waited. */
static int serve_k(lua_State *L, int status, lua_KContext ctx) {
  serving *s = serving_at(L, 1);
  mr_place t;
  (void)ctx;
  if (!mr_place_get(L, s->slots, &t)) return luaL_error(L, "a peer's record has lost its fields");
  int results = served(L, s, &t, mr_self_fiber(L), status);
  if (!results) lua_pushinteger(L, MR_SERVED);
  return results ? results : 1;
}

/* The request's bytes are taken, key and operation are on the stack. Pushes what execute gets; 0: it is not ordinary, nothing has happened. */
static int begin(lua_State *L, mr_fiber *f, serving *s, mr_place *t, const mr_ludo_request *q, size_t length) {
  enum { KEY = ARGUMENTS + 1, OPERATION };
  const raw_value *found = field_of(L, s->objects, KEY);
  raw_table *object = found && found->tt == RAW_TABLE ? (raw_table *)(uintptr_t)found->bits : NULL;
  const raw_value *method = object ? method_of(L, object, s, OPERATION) : NULL;
  if (!method || !mr_place_get(L, s->slots, t) || !t->standby || !mr_place_is_open(s->slots, t, 0)) return 0;
  if (!mr_place_has_room(s->slots, t, (int64_t)length + COST) || !mr_place_relieve(L, s->slots, t, f)) return 0;
  raw_value key = raw_arguments(L)[KEY - 1], operation = raw_arguments(L)[OPERATION - 1];
  lua_pushcfunction(L, execute);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 3);
  raw_push(L, RAW_TABLE, (uintptr_t)s->world);
  raw_push(L, method->tt, method->bits);
  raw_push(L, RAW_TABLE, (uintptr_t)object);
  mr_place_enter(L, s->slots, t, q->id, (int64_t)length + COST, &key, &operation);
  SET_BOOLEAN(t->job, s, packing, 0);
  return 1;
}

/* The request whose bytes are at p, of those n that have come. How many results are pushed, none: it was served, and this fiber still leads. */
static int serve_one(lua_State *L, mr_fiber *f, mr_conn *c, serving *s, const mr_ludo_request *q, const char *p, size_t n, size_t length) {
  char copy[LUDO_MOST];
  mr_place t;
  memcpy(copy, p, length);
  mr_read_use(c, p, n, length);
  mr_read_leave(c);
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  lua_pushlstring(L, copy + (q->key.p - p), q->key.len);
  lua_pushlstring(L, copy + (q->operation.p - p), q->operation.len);
  if (PORT_UNLIKELY(!q->operation.len || copy[q->operation.p - p] == '_' || !begin(L, f, s, &t, q, length))) {
    lua_pushinteger(L, MR_MESSAGE);
    lua_pushlstring(L, copy, length);
    return 2;
  }
  s->in = (port_slice){ copy, length };
  return served(L, s, &t, f, lua_pcallk(L, 5, LUA_MULTRET, ARGUMENTS, 0, serve_k));
}

/* ---- waiting for it ---- */

static int serving_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  serving *s = serving_at(L, 1);
  mr_ludo_request q;
  const char *p;
  size_t length;
  if (why != MR_AGAIN) c->dry = 0;
  mr_goes_on(L);
  for (int turns = MR_TURN; c->fd >= 0;) {
    long n = mr_read_look(w->fiber, c, &p);
    if (n == -EAGAIN) return -1;
    if (n <= 0) break;
    if (PORT_UNLIKELY(!mr_ludo_is_request(p, (size_t)n, &q, &length) || length > s->limit)) {
      mr_read_use(c, p, (size_t)n, 0);
      break;
    }
    int results = serve_one(L, w->fiber, c, s, &q, p, (size_t)n, length);
    if (PORT_UNLIKELY(results > 0)) return results;
    lua_settop(L, ARGUMENTS);
    if (--turns == 0 || w->fiber->deadline != UINT64_MAX || !mr_read_enter(c)) return lua_pushinteger(L, MR_SERVED), 1;
  }
  mr_read_leave(c);
  return 0;
}

static const mr_waitclass ordinary = { .run = { .op = "read", .link = mr_read_link, .unlink = mr_read_unlink }, .take = serving_take,
                                       .give_up = mr_serving_give_up };

/*
 * serve(record, pool, job, peer, connection, trace) -> SERVED | REPLIED, reply to be written | FAILED, what trace gave | LATE | MESSAGE, request | nil: what
 * comes next is not ordinary, see above. trace: the handler of a servant's errors
 */
static int l_serve(lua_State *L) {
  serving *s = serving_at(L, 1);
  mr_conn *c = mr_check_conn(L, 5);
  mr_place t;
  luaL_checktype(L, 6, LUA_TFUNCTION);
  lua_settop(L, ARGUMENTS);
  if (!mr_place_get(L, s->slots, &t) || !mr_place_is_open(s->slots, &t, 0) || !t.standby) return 0;
  uint64_t deadline = mr_place_patience(L, s->slots, &t);
  if (!mr_read_enter(c)) return 0;
  return mr_await(L, mr_self_fiber(L), &ordinary, c, deadline);
}

/* serving(objects, world, limit) -> record | nil: Lua is not as we know it, or every step is recorded */
static int l_serving(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_Integer limit = luaL_checkinteger(L, 3);
  lua_settop(L, 2);
  if (!mr_layout || mr_replay_on) return 0;
  serving *s = lua_newuserdatauv(L, sizeof *s, 3);
  memset(s, 0, sizeof *s);
  s->objects = (raw_table *)(uintptr_t)lua_topointer(L, 1);
  s->world = (raw_table *)(uintptr_t)lua_topointer(L, 2);
  s->limit = (size_t)limit;
  lua_createtable(L, NFIELDS, 0);
  mr_slots_make(L, s->slots, names, NFIELDS);
  lua_setiuservalue(L, 3, 1);
  for (int i = 1; i <= 2; i++) {
    lua_pushvalue(L, i);
    lua_setiuservalue(L, 3, i + 1);
  }
  s->tag = (uintptr_t)&serving_tag ^ (uintptr_t)s;
  return 1;
}

const luaL_Reg mr_ludo_serving[] = { { "serving", l_serving }, { "serve", l_serve }, { NULL, NULL } };
