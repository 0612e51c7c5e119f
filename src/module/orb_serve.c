/*
 * orb_serve: an ordinary request, from the bytes in which it came to those of its reply, for lua/mare/orb/leader.lua.
 *
 * Ordinary is: it has come whole, is short, has no service contexts and wants its reply when it is served; its object and its operation were met
 * before, the servant is a table with a method for it; no other request of the connection is in progress, a fiber rests that would take the lead,
 * and there is room for all in the budgets. Whatever else it is, its bytes stay where the next read finds them, nothing has been changed, and nil is
 * returned: the reader in Lua takes it from there. Once a request has begun, its job has every field that Lua would have set; so what goes wrong, or
 * takes long, ends in Lua (REPLIED, FAILED).
 *
 * No string is made of the request and none of the reply. The request lies in the C stack while its arguments are decoded - what decoding runs may
 * read into the thread's scratch buffer - and a servant that waits finds neither again. The reply lies in the buffer of src/cdr from where it was
 * encoded to where it is written, between which no Lua code runs.
 *
 * What objects and operations were met before is kept by a serving record, one for each pool: in a list, its user value, the names of the fields
 * that are read, then for each of some hundred pairs what `parts` names; beside it, in C, where these lie. A pair is found by a hash of its
 * bytes, which are then compared. The record forgets all of them when an object is removed.
 */
#include "module/orb_serving.h"
#include "run/replay.h"

#include <string.h>

enum { COST = 4096 };                            /* bytes that a request counts beside its own */

static const char *const names[] = { MR_SERVING_FIELDS(MR_F_NAME) FIELDS(MR_F_NAME) };

/* ---- objects and operations that were met before ---- */

static int is_text(const raw_value *v, mr_slice s) {
  const raw_string *t = (const raw_string *)(uintptr_t)v->bits;
  size_t n = v->tt == RAW_SHORT ? t->shrlen : t->length;
  return n == s.len && memcmp(t->text, s.p, n) == 0;
}

static const raw_value *parts_of(const mr_serving *s, size_t i) { return s->list->array + NFIELDS + PARTS * i; }

static int find_row(const mr_serving *s, uint32_t hash, const mr_giop *g) {
  size_t i = hash % ROWS;
  if (!s->rows[i].results || s->rows[i].hash != hash) return 0;
  return is_text(parts_of(s, i) + KEY, g->key) && is_text(parts_of(s, i) + OPERATION, g->operation);
}

static void clear_row(lua_State *L, mr_serving *s, int list, size_t i) {
  s->rows[i].results = NULL;
  for (int k = 1; k <= PARTS; k++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, list, (lua_Integer)(NFIELDS + PARTS * i) + k);
  }
}

/* Stack: from `at` on entry, call, key, operation. 1: it is a method of an active object that is no function. */
static int is_plain(lua_State *L, mr_serving *s, int at) {
  raw_table *entry = mr_table_at(L, at), *calls = entry ? TABLE(entry, s, calls) : NULL;
  if (!calls || IS_SET(entry, s, dynamic)) return 0;
  raw_push(L, RAW_TABLE, (uintptr_t)calls);
  lua_pushvalue(L, at + 3);
  lua_rawget(L, -2);
  lua_replace(L, at + 1);
  lua_pop(L, 1);
  raw_table *call = mr_table_at(L, at + 1);
  return call && IS_SET(call, s, plain) && raw_arraysize(s->list) >= NFIELDS + PARTS * ROWS;
}

static void push_field(lua_State *L, const raw_table *t, mr_slot *s) {
  const raw_value *v = mr_slot_in(t, s);
  if (v && !raw_isnil(v->tt)) raw_push(L, v->tt, v->bits);
  else lua_pushboolean(L, 0);
}

/* Takes the pair into the row, if it is one of those that are ordinary. 0: it is not. The record is at 1, its objects at 2 in its user values. */
static int fill_row(lua_State *L, mr_serving *s, uint32_t hash, const mr_giop *g) {
  static const int order[PARTS] = { [ENTRY] = 1, [CALL] = 2, [KEY] = 3, [OPERATION] = 4, [ARGUMENTS] = 5, [RESULTS] = 6 };
  int top = lua_gettop(L), list = top + 1;
  size_t i = hash % ROWS;
  row *r = &s->rows[i];
  luaL_checkstack(L, 16, NULL);
  lua_getiuservalue(L, 1, 1);
  lua_getiuservalue(L, 1, 2);
  lua_pushlstring(L, g->key.p, g->key.len);
  lua_rawget(L, -2);                             /* of the objects */
  lua_replace(L, -2);
  lua_pushnil(L);
  lua_pushlstring(L, g->key.p, g->key.len);
  lua_pushlstring(L, g->operation.p, g->operation.len);
  int good = g->operation.len <= 40 && is_plain(L, s, list + 1);
  if (good) {
    raw_table *call = mr_table_at(L, list + 2);
    push_field(L, call, SLOT(s, arguments));
    push_field(L, call, SLOT(s, results));
    r->arguments = mr_program_at(L, list + 5);
    mr_program *results = mr_program_at(L, list + 6);
    good = results && !results->env->buffers && (r->arguments != NULL) == lua_toboolean(L, list + 5);
    clear_row(L, s, list, i);
    for (int k = 0; good && k < PARTS; k++) {
      lua_pushvalue(L, list + order[k]);
      lua_rawseti(L, list, (lua_Integer)(NFIELDS + PARTS * i) + k + 1);
    }
    r->hash = hash;
    r->method = (mr_slot){ (uintptr_t)lua_topointer(L, list + 4), 0 };
    r->results = good ? results : NULL;
  }
  lua_settop(L, top);
  return good;
}

/* forget(record): an object is none any more */
static int l_forget(lua_State *L) {
  mr_serving *s = mr_serving_at(L, 1);
  lua_settop(L, 1);
  lua_getiuservalue(L, 1, 1);
  for (size_t i = 0; i < ROWS; i++)
    if (s->rows[i].results) clear_row(L, s, 2, i);
  return 0;
}

/* tell(record, list, info): from now on the interceptors of the list are told of requests; this info is used, where it is not in use */
static int l_tell(lua_State *L) {
  mr_serving *s = mr_serving_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 3);
  lua_getiuservalue(L, 1, 1);
  lua_insert(L, 2);
  lua_rawseti(L, 2, TOLD_AT + 2);
  lua_rawseti(L, 2, TOLD_AT + 1);
  s->told = raw_arraysize(s->list) >= TOLD_AT + 2;
  return 0;
}

/* ---- is it one of those? ---- */

/* The method, looked up as Lua would, as long as there are only tables on the way. NULL: it is none, or Lua finds it. */
static const raw_value *method_of(const raw_table *servant, mr_serving *s, row *r) {
  for (int level = 0; level < 8; level++) {
    const raw_value *v = mr_slot_in(servant, &r->method);
    if (v && !raw_isnil(v->tt)) return (v->tt & 15) == (RAW_FUNCTION & 15) ? v : NULL;
    if (!servant->metatable) return NULL;
    servant = TABLE(servant->metatable, s, __index);
    if (!servant) return NULL;
  }
  return NULL;
}

/* Service contexts that mean nothing to the connection: code sets and addresses to be called back at are Lua's. */
static int are_strange(const mr_giop *g, const char *p, size_t len) {
  enum { CODE_SETS = 1, BI_DIR = 5 };
  mr_in in;
  size_t n;
  mr_in_begin(&in, p, len, g->contexts, g->little);
  for (uint32_t i = 0; i < g->ncontexts; i++) {
    uint32_t id = mr_in_u32(&in);
    if (id == CODE_SETS || id == BI_DIR) return 0;
    mr_in_octets(&in, &n);
  }
  return 1;
}

static int is_request(const char *p, size_t n, mr_giop *g, size_t *length) {
  if (PORT_UNLIKELY(!mr_short_message(p, n, GIOP_REQUEST, g, length))) return 0;
  return !g->more && g->has_key && g->addressing == GIOP_KEY && g->response == 3 && (PORT_LIKELY(!g->ncontexts) || are_strange(g, p, *length));
}

static int get_state(lua_State *L, mr_serving *s, mr_place *t) {
  if (!mr_place_get(L, s->slots, t)) return 0;
  t->connection = TABLE(t->peer, s, connection);
  return t->connection != NULL;
}

/* No message has begun to come, nor does the one before still count. */
static int is_between(mr_serving *s, const mr_place *t) {
  int64_t asked, unfinished, passed;
  if (!INTEGER(t->connection, s, asked, &asked) || !INTEGER(t->connection, s, nunfinished, &unfinished)) return 0;
  return INTEGER(t->connection, s, passed, &passed) && !(asked | unfinished | passed);
}

/* So many requests of the connection are in progress, and it takes more. */
static int is_open(mr_serving *s, const mr_place *t, int64_t requests) {
  return mr_place_is_open(s->slots, t, requests) && !IS_SET(t->connection, s, incompatible);
}

/* ---- serving ---- */

/* The job and its peer become what admit, request and serve of the Lua side would make of them. */
static void begin_job(lua_State *L, mr_serving *s, const mr_place *t, const mr_giop *g, size_t length, const raw_value *parts, int64_t codec) {
  int64_t bits = g->little | g->minor << 1;
  mr_slot_put(L, 3, SLOT(s, call), parts + CALL);
  mr_place_enter(L, s->slots, t, g->id, (int64_t)length + COST, parts + KEY, parts + OPERATION);
  int all = SET_INTEGER(t->job, s, response, 3) & SET_INTEGER(t->job, s, phase, BEFORE) & SET_INTEGER(t->job, s, codec, bits | codec) &
            SET_BOOLEAN(t->job, s, silent, 0) & SET_INTEGER(t->connection, s, bits, bits);
  mr_assert(all);                                /* leader.lua makes them with all these fields */
  (void)all;
}

/* The servant has returned; its results begin at the index ctx. The reply is in s->out, or, a long one, the function's result. */
static int execute_k(lua_State *L, int status, lua_KContext ctx) {
  mr_serving *s = mr_serving_at(L, 1);
  raw_table *job = mr_table_at(L, 4);
  mr_program *results = mr_program_at(L, 3);
  int64_t id = 0, codec = 0;
  (void)status;
  luaL_argcheck(L, job && results && INTEGER(job, s, id, &id) && INTEGER(job, s, codec, &codec), 1, "a request in progress expected");
  SET_INTEGER(job, s, phase, AFTER);
  if (mr_program_answer(L, results, 3, (uint32_t)id, (int)codec | CDR_BULK, (int)ctx, lua_gettop(L) - (int)ctx + 1, 0, &s->out)) return 0;
  s->out.p = NULL;
  return 1;
}

/* In protected mode: record, arguments' program or false, results' program, job, method, servant. */
static int execute(lua_State *L) {
  mr_serving *s = mr_serving_at(L, 1);
  raw_table *job = mr_table_at(L, 4);
  mr_program *arguments = s->arguments;
  mr_slice in = s->in;
  int64_t codec = 0;
  s->in.p = NULL;
  luaL_argcheck(L, in.p && job && INTEGER(job, s, codec, &codec), 1, "a request expected");
  int fields = arguments ? mr_program_open(L, arguments, 2) : 0, n = 1;
  lua_KContext first = lua_gettop(L) + 1;
  lua_pushvalue(L, 5);
  lua_pushvalue(L, 6);
  if (arguments) n += mr_program_read(L, arguments, fields, (int)codec, in.p, in.len, s->body);
  SET_INTEGER(job, s, phase, DURING);
  lua_callk(L, n, LUA_MULTRET, first, execute_k);
  return execute_k(L, LUA_OK, first);
}

/* The request was served, or that failed. How many results are pushed; none: it has ended. */
static int served(lua_State *L, mr_serving *s, mr_place *t, mr_fiber *f, int status) {
  if (PORT_UNLIKELY(status != LUA_OK && status != LUA_YIELD)) {
    lua_pushinteger(L, MR_FAILED);
    lua_insert(L, -2);
    return 2;
  }
  if (PORT_LIKELY(s->out.p != NULL)) {
    port_slice out = { s->out.p, s->out.len };
    if (PORT_LIKELY(!IS_SET(t->connection, s, incompatible) && mr_place_finish(L, s->slots, t, f, &out))) return 0;
    lua_pushlstring(L, out.p, out.len);
  }
  lua_pushinteger(L, MR_REPLIED);
  lua_insert(L, -2);
  return 2;
}

/* After a servant that was interrupted, or has waited. */
static int serve_k(lua_State *L, int status, lua_KContext ctx) {
  mr_place t;
  (void)ctx;
  if (!get_state(L, mr_serving_at(L, 1), &t)) return luaL_error(L, "a peer's record has lost its fields");
  int results = served(L, mr_serving_at(L, 1), &t, mr_self_fiber(L), status);
  if (!results) lua_pushinteger(L, MR_SERVED);
  return results ? results : 1;
}

/*
 * The request g, whose bytes are at p, of those n that have come. How many results are pushed, none: it was served, and this fiber still leads.
 * -1: it is not ordinary, nothing has happened.
 */
static int serve_one(lua_State *L, mr_fiber *f, mr_conn *c, mr_serving *s, uint32_t hash, const mr_giop *g, const char *p, size_t n, size_t length) {
  char copy[MR_ORB_MOST];
  mr_place t;
  int64_t limit, codec;
  row *r = &s->rows[hash % ROWS];
  const raw_value *parts = parts_of(s, hash % ROWS);
  raw_table *entry = (raw_table *)(uintptr_t)parts[ENTRY].bits, *servant = TABLE(entry, s, servant);
  const raw_value *method = servant && !IS_SET(entry, s, forward) ? method_of(servant, s, r) : NULL;
  if (!method || !get_state(L, s, &t) || !t.standby || !is_between(s, &t) || !is_open(s, &t, 0) || !mr_place_has_room(s->slots, &t, (int64_t)length + COST)) return -1;
  if (s->told && !mr_serving_tells(s)) return -1;
  if (!INTEGER(t.connection, s, limit, &limit) || (uint64_t)limit < length || !INTEGER(t.connection, s, codec, &codec)) return -1;
  if (!mr_place_relieve(L, s->slots, &t, f)) return -1;
  lua_pushcfunction(L, s->told ? mr_serve_told : execute);
  lua_pushvalue(L, 1);
  raw_push(L, parts[ARGUMENTS].tt, parts[ARGUMENTS].bits);
  raw_push(L, parts[RESULTS].tt, parts[RESULTS].bits);
  lua_pushvalue(L, 3);
  raw_push(L, method->tt, method->bits);
  raw_push(L, RAW_TABLE, (uintptr_t)servant);
  if (s->told) raw_push(L, RAW_TABLE, (uintptr_t)entry);
  memcpy(copy, p, length);
  s->in = (mr_slice){ copy, length };
  s->body = g->body;
  s->arguments = r->arguments;
  s->ncontexts = g->ncontexts;
  mr_read_use(c, p, n, length);
  mr_read_leave(c);
  begin_job(L, s, &t, g, length, parts, codec);
  return served(L, s, &t, f, lua_pcallk(L, 6 + s->told, LUA_MULTRET, 6, 0, serve_k));
}

/* ---- waiting for it ---- */

/* A pair that was not met before, or lately: what has come goes where the next look finds it, as what is called now may run any code. 1: look again. */
static int meet(lua_State *L, mr_conn *c, mr_serving *s, uint32_t hash, mr_giop *g, const char *p, size_t n, size_t length) {
  char copy[MR_ORB_MOST];
  const char *why;
  size_t offset;
  memcpy(copy, p, length);
  mr_read_use(c, p, n, 0);
  return mr_giop_parse(g, copy, length, &why, &offset) && fill_row(L, s, hash, g);
}

static int serving_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  mr_serving *s = mr_serving_at(L, 1);
  const char *p;
  size_t length;
  mr_giop g;
  if (why != MR_AGAIN) c->dry = 0;
  mr_goes_on(L);
  for (int turns = MR_TURN, met = 0; c->fd >= 0;) {
    long n = mr_read_look(w->fiber, c, &p);
    if (n == -EAGAIN) return -1;
    if (n <= 0) break;
    int ordinary = is_request(p, (size_t)n, &g, &length);
    uint32_t hash = ordinary ? mr_hash(g.key.p, g.key.len) ^ mr_hash(g.operation.p, g.operation.len) : 0;
    if (PORT_UNLIKELY(ordinary && !find_row(s, hash, &g))) {
      if (met || !meet(L, c, s, hash, &g, p, (size_t)n, length)) break;
      met = 1;
      continue;
    }
    int results = ordinary ? serve_one(L, w->fiber, c, s, hash, &g, p, (size_t)n, length) : -1;
    if (PORT_UNLIKELY(results > 0)) return results;
    if (PORT_UNLIKELY(results < 0)) {
      mr_read_use(c, p, (size_t)n, 0);
      break;
    }
    met = 0;
    if (--turns == 0 || w->fiber->deadline != UINT64_MAX || !mr_read_enter(c)) return lua_pushinteger(L, MR_SERVED), 1;
  }
  mr_read_leave(c);
  return 0;
}

static const mr_waitclass ordinary = { .run = { .op = "read", .link = mr_read_link, .unlink = mr_read_unlink }, .take = serving_take,
                                       .give_up = mr_serving_give_up };

/*
 * serve(record, pool, job, peer, connection, trace) -> SERVED | REPLIED, reply to be written | FAILED, error | LATE | nil: not ordinary, see above.
 * trace: the handler of a servant's errors
 */
static int l_serve(lua_State *L) {
  mr_serving *s = mr_serving_at(L, 1);
  mr_conn *c = mr_check_conn(L, 5);
  mr_place t;
  luaL_checktype(L, 6, LUA_TFUNCTION);
  lua_settop(L, 6);
  if (!get_state(L, s, &t) || !is_between(s, &t) || !t.standby) return 0;
  uint64_t deadline = mr_place_patience(L, s->slots, &t);
  if (!mr_read_enter(c)) return 0;
  return mr_await(L, mr_self_fiber(L), &ordinary, c, deadline);
}

/* serving(objects) -> record | nil: Lua is not as we know it, or every step is recorded */
static int l_serving(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  if (!mr_layout || mr_replay_on) return 0;
  mr_serving *s = lua_newuserdatauv(L, sizeof *s, 2);
  memset(s, 0, sizeof *s);
  lua_createtable(L, TOLD_AT + 2, 0);
  s->list = (raw_table *)(uintptr_t)lua_topointer(L, 3);
  mr_slots_make(L, s->slots, names, NFIELDS);
  for (size_t i = 0; i < ROWS; i++) clear_row(L, s, 3, i);
  for (int i = 1; i <= 2; i++) {
    lua_pushboolean(L, 0);
    lua_rawseti(L, 3, TOLD_AT + i);
  }
  lua_setiuservalue(L, 2, 1);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, 2, 2);
  s->tag = mr_serving_tag(s);
  return 1;
}

const luaL_Reg mr_orb_serving[] = { { "serving", l_serving }, { "serve", l_serve }, { "forget", l_forget }, { "tell", l_tell }, { NULL, NULL } };
