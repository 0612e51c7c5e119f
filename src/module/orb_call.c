/*
 * orb_call: an ordinary call, from the arguments to the results, for lua/mare/orb/invoke.lua; and what finds the function to call, a proxy's __index.
 *
 * Ordinary is: the proxy's connection is there, was used lately, has its code sets settled and this operation's head made; nobody waits on it, and
 * nothing has come that was not read. Whatever else it is, `slow` is called with the same arguments before anything has happened. The reply is
 * read here, too: if it has come whole, is short, says no more than results, and nobody has begun to wait beside us. Else what has come stays
 * where the next read finds it, and `resume` waits for the reply, as it does for the rest of a request that could not be written at once.
 *
 * No string is made of request and reply. The reply lies in the C stack while it is decoded, as what decoding runs may read into the thread's scratch
 * buffer.
 *
 * A caller that waits is its link's leader (link.lua), which others see by the link's fields; so they are written only before it parks, and there the
 * link becomes a to-be-closed variable of this function, as it is one of Lua's `lead`: whatever ends the wait, somebody else leads. When the reply has
 * come in the ordinary way the variable becomes one that does nothing.
 *
 * The stack while it waits: the arguments, then `mr_extras` (calling.h). What else is known is in upvalues.
 *
 * With interceptors (orb_told.c) the first argument is what they see, the info: its service contexts go with the request, a reply that has some is
 * kept in it, and `slow` and `resume` get it, too.
 */
#include "module/orb.h"
#include "module/calling.h"

#include <string.h>

enum { LAST_ID = 0x7fffffff };
enum { RESULTS = CDR_BULK | CDR_YES };           /* of a reply's codec */
enum { ROOM = 1024 };                            /* bytes of a head with service contexts */
enum upvalues { HOST = 1, RECORD, STATES, OPERATION, REQUEST, REPLY, SLOW, RESUME, NOTHING, TELLS, UPVALUES = TELLS };   /* TELLS: true with interceptors */

#define FIELDS(F) \
  F(class) F(check) F(target) F(entry) F(heads) F(idat) F(bits) F(ready) F(over) F(hurried) F(wrapped) F(tap) F(conn) \
  F(asked) F(nunfinished) F(passed) F(codec) F(endpoint) F(sas) F(_contexts) F(_message)
enum { BEFORE_FIELDS = MR_NCALLING - 1, FIELDS(MR_F_NUMBER) NFIELDS };
static const char *const names[] = { MR_CALLING_FIELDS(MR_F_NAME) FIELDS(MR_F_NAME) };

typedef mr_calling calling;
static const char calling_tag;
static inline calling *calling_at(lua_State *L, int idx) { return mr_calling_at(L, idx, &calling_tag); }

/* ---- the state of things ---- */

typedef struct call {
  raw_table *state, *target, *link, *conn;
  const raw_value *socket;                       /* in the link: good until the program's own code may run */
  int64_t id, idat, limit, codec;
  double now;
} call;

/* Between calls, and nothing of the connection is unusual. */
static int is_free(calling *k, const call *a) {
  return !IS_SET(a->link, k, over) && !IS_SET(a->link, k, hurried) && mr_link_is_free(a->link, k->slots);
}

static int is_plain(calling *k, const call *a) {
  int64_t asked, unfinished, passed;
  if (!INTEGER(a->conn, k, asked, &asked) || !INTEGER(a->conn, k, nunfinished, &unfinished) || !INTEGER(a->conn, k, passed, &passed)) return 0;
  return !(asked | unfinished | passed) && !IS_SET(a->link, k, tap) && !IS_SET(a->link, k, wrapped);
}

/* The state is on top of the stack. */
static int get_call(lua_State *L, calling *k, call *a) {
  const raw_value *ready;
  int64_t bits;
  a->state = mr_table_at(L, -1);
  a->target = a->state ? TABLE(a->state, k, target) : NULL;
  a->link = a->target ? TABLE(a->target, k, link) : NULL;
  a->conn = a->link ? TABLE(a->link, k, conn) : NULL;
  if (!a->conn || IS_SET(a->state, k, check) || IS_SET(a->target, k, entry)) return 0;
  ready = mr_slot_in(a->target, SLOT(k, ready));
  a->socket = mr_slot_in(a->link, SLOT(k, socket));
  if (!ready || ready->bits != (uintptr_t)a->conn || !a->socket) return 0;
  if (!INTEGER(a->link, k, id, &a->id) || a->id >= LAST_ID || !INTEGER(a->target, k, idat, &a->idat) || a->idat < GIOP_HEADER) return 0;
  if (!INTEGER(a->target, k, limit, &a->limit) || !INTEGER(a->target, k, bits, &bits) || !INTEGER(a->conn, k, codec, &a->codec)) return 0;
  a->codec |= bits;
  return mr_link_is_warm(a->link, k->slots, &a->now) && is_free(k, a) && is_plain(k, a);
}

/* The head of this operation's requests; NULL: it was not made for this target. It is pushed. */
static const char *push_head(lua_State *L, calling *k, const call *a, mr_head *head) {
  raw_table *heads = TABLE(a->target, k, heads);
  if (!heads) return NULL;
  raw_push(L, RAW_TABLE, (uintptr_t)heads);
  lua_pushvalue(L, lua_upvalueindex(OPERATION));
  lua_rawget(L, -2);
  head->idat = (size_t)a->idat;
  head->bytes.p = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &head->bytes.len) : NULL;
  return head->bytes.p && head->idat + 4 <= head->bytes.len ? head->bytes.p : NULL;
}

/* The same head with the info's contexts, in `room`; those are the end of a head in GIOP 1.2. 0: Lua makes it. */
static int add_contexts(lua_State *L, calling *k, const call *a, mr_head *head, char *room) {
  raw_table *list = TABLE(mr_table_at(L, 1), k, _contexts), *endpoint = TABLE(a->target, k, endpoint);
  uint32_t given = 0;
  size_t at = head->bytes.len, len;
  if (!list || !endpoint || IS_SET(endpoint, k, sas) || (a->codec & CDR_MINOR) >> CDR_MINOR_SHIFT < 2 || at > ROOM || at % 4) return 0;
  memcpy(room, head->bytes.p, at);
  lua_checkstack(L, 8);
  raw_push(L, RAW_TABLE, (uintptr_t)list);
  for (lua_Unsigned i = 1, n = lua_rawlen(L, -1); i <= n; i++, given++) {
    lua_rawgeti(L, -1, (lua_Integer)i);
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    const char *data = lua_tolstring(L, -1, &len);
    if (!data || len > ROOM || at + 8 + len + 4 > ROOM) return 0;
    cdr_store32(room + at, (uint32_t)lua_tointeger(L, -2), CDR_LITTLE);
    cdr_store32(room + at + 4, (uint32_t)len, CDR_LITTLE);
    memcpy(room + at + 8, data, len);
    at += 8 + len;
    while (at % 4) room[at++] = 0;
    lua_pop(L, 3);
  }
  cdr_store32(room + head->bytes.len - 4, given, CDR_LITTLE);
  head->bytes = (mr_slice){ room, at };
  return 1;
}

/* ---- the reply ---- */

static int is_told(lua_State *L) { return lua_toboolean(L, lua_upvalueindex(TELLS)); }

/* Waits for the reply in Lua. `rest` is what is left of the request, `sent` how much of it went. The stack is that of the wait. */
static int resume(lua_State *L, mr_slice rest, size_t sent) {
  int n = lua_gettop(L) - EXTRAS, told = is_told(L);
  luaL_checkstack(L, n + 10, NULL);
  lua_pushvalue(L, lua_upvalueindex(RESUME));
  lua_pushvalue(L, told ? 1 : n + STATE);
  lua_pushvalue(L, lua_upvalueindex(OPERATION));
  lua_pushvalue(L, n + LINK);
  lua_pushvalue(L, n + ID);
  lua_pushvalue(L, n + DEADLINE);
  if (rest.p) lua_pushlstring(L, rest.p, rest.len);
  else lua_pushnil(L);
  lua_pushinteger(L, (lua_Integer)sent);
  for (int i = 2 + told; i <= n; i++) lua_pushvalue(L, i);
  int first = n + EXTRAS + 1;
  lua_callk(L, n + 6 - told, LUA_MULTRET, first, mr_all_results);
  return mr_all_results(L, LUA_OK, first);
}

/* The bytes begin with a whole reply that gives results, to the request with this id, and nobody else waits for one. */
static int is_reply(calling *k, const raw_table *link, uint32_t id, const char *p, size_t n, mr_giop *g, size_t *length) {
  int64_t count, limit;
  raw_table *conn = TABLE(link, k, conn);
  if (!mr_short_message(p, n, GIOP_REPLY, g, length) || g->more || g->id != id || g->status) return 0;
  if (!conn || IS_SET(link, k, over) || !INTEGER(link, k, count, &count) || count || !INTEGER(conn, k, limit, &limit)) return 0;
  return (int64_t)*length <= limit && SET_INTEGER(conn, k, bits, g->little | g->minor << 1);
}

static int results(lua_State *L, calling *k, const raw_table *conn, const mr_giop *g, mr_slice message) {
  mr_program *p = mr_program_at(L, lua_upvalueindex(REPLY));
  int64_t codec = 0;
  if (!p) return 0;
  INTEGER(conn, k, codec, &codec);
  return mr_program_read(L, p, mr_program_open(L, p, lua_upvalueindex(REPLY)), (int)codec | g->little | g->minor << 1 | RESULTS, message.p, message.len, g->body);
}

static int reply_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  calling *k = calling_at(L, lua_upvalueindex(RECORD));
  int n = lua_gettop(L) - EXTRAS;
  raw_table *link = mr_table_at(L, n + LINK);
  char copy[MR_ORB_MOST];
  const char *p;
  size_t length;
  mr_giop g;
  if (why != MR_AGAIN) c->dry = 0;
  mr_goes_on(L);
  long got = c->fd >= 0 ? mr_read_look(w->fiber, c, &p) : 0;
  if (got == -EAGAIN) return -1;
  mr_read_leave(c);
  int whole = got > 0 && is_reply(k, link, (uint32_t)lua_tointeger(L, n + ID), p, (size_t)got, &g, &length);
  mr_lead_no_more(L, k->slots, n, NOTHING);
  if (PORT_UNLIKELY(!whole)) {
    if (got > 0) mr_read_use(c, p, (size_t)got, 0);
    return resume(L, (mr_slice){ NULL, 0 }, 0);
  }
  memcpy(copy, p, length);
  mr_read_use(c, p, (size_t)got, length);
  if (PORT_UNLIKELY(g.ncontexts && is_told(L))) {              /* who asks for a context looks for it there */
    raw_push(L, RAW_SHORT, SLOT(k, _message)->key);
    lua_pushlstring(L, copy, length);
    lua_rawset(L, 1);
  }
  return results(L, k, TABLE(mr_table_at(L, n + LINK), k, conn), &g, (mr_slice){ copy, length });
}

/* Time is over: Lua says so to the server, and to the caller. Else an error ends this function, and closes the variable. */
static int reply_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_conn *c = o;
  (void)w;
  c->dry = 0;
  mr_read_leave(c);
  if (why != MR_TIMEOUT) return 0;
  mr_lead_no_more(L, calling_at(L, lua_upvalueindex(RECORD))->slots, lua_gettop(L) - EXTRAS, NOTHING);
  return resume(L, (mr_slice){ NULL, 0 }, 0);
}

static const mr_waitclass reply = { .run = { .op = "read", .link = mr_read_link, .unlink = mr_read_unlink }, .take = reply_take,
                                    .give_up = reply_give_up };

/* ---- the request ---- */

/* After the program's own code may have run: is all as it was? */
static int is_as_before(lua_State *L, calling *k, const call *a, const mr_conn *c, int n) {
  int64_t id;
  return mr_movable_to(L, n + SOCKET, mr_conn_type) == &c->base.shared && mr_takes_bytes(c) && !c->reading && is_free(k, a) && INTEGER(a->link, k, id, &id) &&
         id == a->id;
}

/* `told`: 1 if the info is the first argument, before the object */
static inline int make_call(lua_State *L, const int told) {
  calling *k = calling_at(L, lua_upvalueindex(RECORD));
  mr_program *request = mr_program_at(L, lua_upvalueindex(REQUEST));
  int n = lua_gettop(L);
  uint64_t deadline;
  char room[ROOM];
  mr_head head;
  mr_slice message;
  call a;
  if (PORT_UNLIKELY(n <= told || !request || !lua_checkstack(L, LUA_MINSTACK))) return mr_hand_on(L, n, SLOW);
  lua_pushvalue(L, 1 + told);
  lua_rawget(L, lua_upvalueindex(STATES));
  if (!get_call(L, k, &a) || !push_head(L, k, &a, &head)) return mr_hand_on(L, n, SLOW);
  if (told && IS_SET(mr_table_at(L, 1), k, _contexts) && !add_contexts(L, k, &a, &head, room)) return mr_hand_on(L, n, SLOW);
  lua_settop(L, n + STATE);
  raw_push(L, RAW_TABLE, (uintptr_t)a.link);
  raw_push(L, a.socket->tt, a.socket->bits);
  lua_pushinteger(L, a.id + 1);
  mr_conn *c = (mr_conn *)mr_movable_to(L, n + SOCKET, mr_conn_type);
  if (!c || !mr_takes_call(c) || !mr_push_until(L, a.state, k->slots, a.now, &deadline)) return mr_hand_on(L, n, SLOW);
  lua_pushnil(L);
  int here = mr_program_ask(L, request, lua_upvalueindex(REQUEST), &head, (uint32_t)(a.id + 1), (int)a.codec, 2 + told, n - 1 - told, &message);
  if (here == MR_PUSHED || message.len > (uint64_t)a.limit || (here != MR_HERE && !is_as_before(L, k, &a, c, n))) return mr_hand_on(L, n, SLOW);
  lua_settop(L, n + EXTRAS);
  mr_link_use(a.link, k->slots, a.now, a.id + 1);
  long r = mr_conn_write(c, &(port_slice){ message.p, message.len }, 1);
  /* Over TLS all may be written while its last record waits for room in the kernel: Lua's side waits until it is gone. */
  if (PORT_UNLIKELY(r != (long)message.len || !mr_read_enter(c))) {
    size_t sent = r > 0 ? (size_t)r : 0;
    return resume(L, (mr_slice){ message.p + sent, message.len - sent }, sent);
  }
  return mr_await_leading(L, k->slots, c, n, &reply, deadline);
}

/* function(object, …) -> results */
static int l_call(lua_State *L) { return make_call(L, 0); }
/* function(info, object, …) -> results */
static int l_told_call(lua_State *L) { return make_call(L, 1); }

/* proxy.__index: what the interface's class has under that name; `slow` finds all else. */
static int l_index(lua_State *L) {
  calling *k = calling_at(L, lua_upvalueindex(RECORD));
  lua_settop(L, 2);
  lua_pushvalue(L, 1);
  lua_rawget(L, lua_upvalueindex(STATES));
  raw_table *state = mr_table_at(L, -1), *class = state ? TABLE(state, k, class) : NULL;
  const raw_value *name = raw_top(L) - 2;
  if (PORT_LIKELY(class && name->tt == RAW_SHORT)) {
    mr_slot s = { name->bits, ((const raw_string *)(uintptr_t)name->bits)->hash };
    const raw_value *v = mr_slot_in(class, &s);
    if (PORT_LIKELY(v && !raw_isnil(v->tt))) return raw_push(L, v->tt, v->bits), 1;
  }
  return mr_hand_on(L, 2, SLOW);
}

/* ---- making them ---- */

/* calling() -> record | nil: Lua is not as we know it, or every step is recorded */
static int l_calling(lua_State *L) { return mr_calling_make(L, names, NFIELDS, &calling_tag); }

/* call(record, states, operation, slow, resume, told) -> function(object, …), of an operation with a reply; with `told` function(info, object, …) */
static int l_make_call(lua_State *L) {
  calling_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_checktype(L, 3, LUA_TTABLE);
  lua_settop(L, 6);
  mr_push_host(L);
  for (int i = 1; i <= 3; i++) lua_pushvalue(L, i);
  lua_getfield(L, 3, "request");
  lua_getfield(L, 3, "reply");
  lua_pushvalue(L, 4);
  lua_pushvalue(L, 5);
  mr_push_nothing(L);
  lua_pushvalue(L, 6);
  lua_pushcclosure(L, lua_toboolean(L, 6) ? l_told_call : l_call, UPVALUES);
  return 1;
}

/* index(record, states, slow) -> __index of proxies */
static int l_make_index(lua_State *L) {
  calling_at(L, 1);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 3);
  mr_push_host(L);
  lua_pushvalue(L, 1);
  lua_pushvalue(L, 2);
  for (int i = OPERATION; i < SLOW; i++) lua_pushnil(L);
  lua_pushvalue(L, 3);
  lua_pushcclosure(L, l_index, SLOW);
  return 1;
}

static const luaL_Reg functions[] = { { "calling", l_calling }, { "call", l_make_call }, { "index", l_make_index }, { NULL, NULL } };

int luaopen_mare_orb_core(lua_State *L) {
  mr_host_ensure(L);
  mr_layout_check();
  luaL_newlib(L, functions);
  mr_set_functions(L, mr_orb_serving);
  mr_set_functions(L, mr_orb_telling);
  return 1;
}
