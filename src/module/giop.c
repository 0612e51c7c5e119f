/*
 * giop: mare.orb.giop.core - GIOP messages for Lua: taken from a connection, read, made. What they mean is src/cdr/giop.c's matter; what is
 * done about them, lua/mare/orb/giop/connection.lua's.
 */
#include "module/net.h"
#include "cdr/giop.h"
#include "cdr/bulk.h"

#include <string.h>

/* ---- receiving ---- */

static int parsed(lua_State *L);
static int adopt(lua_State *L, mr_bytes *in);
static const mr_framing framing = { .name = "GIOP", .length = mr_giop_length };
static const mr_framing framing_parsed = { "GIOP", mr_giop_length, parsed, MR_BULK_FROM, adopt };

/* Requests and replies that are whole; as long as a process with a limit does not own too much outside its heap, where the limit is not felt. */
static int adopt(lua_State *L, mr_bytes *in) {
  const char *p = mr_bytes_at(in);
  if ((p[6] & 2) || (p[7] != GIOP_REQUEST && p[7] != GIOP_REPLY)) return 0;
  mr_proc *self = mr_self(L);
  if (!self->finalisers) self->finalisers = 1;
  mr_bulk *b = mr_bulk_push(L);
  if (!in->len) return lua_pop(L, 1), -1;        /* a finaliser closed the connection just now */
  if (self->limit && *b->owed + in->len > self->limit) return lua_pop(L, 1), 0;
  mr_bytes all = *in;
  memset(in, 0, sizeof *in);
  mr_bulk_fill(L, b, all.data, mr_bytes_at(&all), all.len);
  return 1;
}

static int receive(lua_State *L, mr_fiber *f, const mr_framing *how) {
  mr_conn *c = mr_check_conn(L, 1);
  lua_Integer limit = luaL_checkinteger(L, 2);
  luaL_argcheck(L, limit >= GIOP_HEADER, 2, "a message has 12 bytes at least");
  return mr_read_frame(L, f, c, how, (size_t)limit, 3);
}

/* core.receive(connection, limit[, seconds]) -> message | nil, message, code */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L), &framing); }
static int l_process_receive(lua_State *L) { return receive(L, mr_proc_fiber(L), &framing); }
/* core.take(connection, limit[, seconds]) -> message, and what core.parse gives of it | nil, message, code */
static int l_take(lua_State *L) { return receive(L, mr_self_fiber(L), &framing_parsed); }
static int l_process_take(lua_State *L) { return receive(L, mr_proc_fiber(L), &framing_parsed); }

/* ---- reading ---- */

static void push_slice(lua_State *L, mr_slice s) { lua_pushlstring(L, s.p, s.len); }

/* nil, or { [id] = data }; of an id that is there twice the first counts. */
static void push_contexts(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  mr_reader r;
  if (!g->ncontexts) return lua_pushnil(L);
  mr_giop_read_at(&r, g, p, len, g->contexts);
  lua_newtable(L);
  for (uint32_t i = 0; i < g->ncontexts; i++) {
    lua_Integer id = mr_giop_get_ulong(&r);
    mr_slice data = mr_giop_get_octets(&r);
    if (lua_rawgeti(L, -1, id) == LUA_TNIL) {
      push_slice(L, data);
      lua_rawseti(L, -3, id);
    }
    lua_pop(L, 1);
  }
}

static void push_canonical(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  mr_reader r;
  luaL_Buffer b;
  mr_giop_read_at(&r, g, p, len, g->reference);
  size_t n = mr_ior_canonical(&r, NULL, SIZE_MAX);
  char *out = luaL_buffinitsize(L, &b, n);
  mr_giop_read_at(&r, g, p, len, g->reference);
  mr_ior_canonical(&r, out, n);
  luaL_pushresultsize(&b, n);
}

/* nil, { tag =, data = } or { index =, ior = } */
static void push_target(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  if (g->addressing == GIOP_KEY) return lua_pushnil(L);
  lua_createtable(L, 0, 2);
  if (g->addressing == GIOP_PROFILE) {
    lua_pushinteger(L, g->tag);
    lua_setfield(L, -2, "tag");
    push_slice(L, g->profile);
    lua_setfield(L, -2, "data");
  } else {
    lua_pushinteger(L, (lua_Integer)g->index + 1);
    lua_setfield(L, -2, "index");
    push_canonical(L, g, p, len);
    lua_setfield(L, -2, "ior");
  }
}

static void push_key(lua_State *L, const mr_giop *g) {
  if (g->has_key) push_slice(L, g->key);
  else lua_pushnil(L);
}

static int push_fields(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  int top = lua_gettop(L);
  if (g->type != GIOP_CLOSE && g->type != GIOP_ERROR && !(g->minor < 2 && (g->more || g->type == GIOP_FRAGMENT)))
    lua_pushinteger(L, g->id);
  else if (g->more || g->type == GIOP_FRAGMENT)
    lua_pushnil(L);
  if (g->more || g->type == GIOP_FRAGMENT) {
    lua_pushinteger(L, (lua_Integer)g->body + 1);
    return 2;
  }
  switch (g->type) {
    case GIOP_REQUEST:
      lua_pushinteger(L, g->response);
      push_key(L, g);
      push_slice(L, g->operation);
      lua_pushinteger(L, (lua_Integer)g->body + 1);
      push_contexts(L, g, p, len);
      push_target(L, g, p, len);
      break;
    case GIOP_REPLY:
      lua_pushinteger(L, g->status);
      lua_pushinteger(L, (lua_Integer)g->body + 1);
      push_contexts(L, g, p, len);
      break;
    case GIOP_LOCATE_REQUEST:
      push_key(L, g);
      push_target(L, g, p, len);
      break;
    case GIOP_LOCATE_REPLY:
      lua_pushinteger(L, g->status);
      lua_pushinteger(L, (lua_Integer)g->body + 1);
      break;
    default: break;
  }
  return lua_gettop(L) - top;
}

/*
 * core.parse(message) -> type, little | minor << 1, more, then
 *   of a request        id, response, key | nil, operation, body, contexts | nil, target | nil
 *   of a reply          id, status, body, contexts | nil
 *   of a locate request id, key | nil, target | nil
 *   of a locate reply   id, status, body
 *   of a cancel request id
 *   of a fragment, and whatever goes on in fragments: id | nil, body
 * | nil, what is wrong, at which offset
 * `body` is an index. The key is also that of an IIOP profile in the target.
 */
static int l_parse(lua_State *L) {
  luaL_checkstring(L, 1);
  lua_settop(L, 1);
  return parsed(L);
}

static int parsed(lua_State *L) {
  size_t len, offset;
  const char *why, *p = mr_bulk_bytes(L, -1, &len);
  mr_giop g;
  luaL_checkstack(L, 16, NULL);
  if (PORT_UNLIKELY(!mr_giop_parse(&g, p, len, &why, &offset))) {
    lua_pushnil(L);
    lua_pushstring(L, why);
    lua_pushinteger(L, (lua_Integer)offset);
    return 3;
  }
  lua_pushinteger(L, g.type);
  lua_pushinteger(L, g.little | g.minor << 1);
  lua_pushboolean(L, g.more);
  return 3 + push_fields(L, &g, p, len);
}

/* ---- putting together ---- */

/* How many bytes of the header of the i-th piece the whole does without: all of them, but of the first piece. */
static size_t skipped(int i, const char *p) { return i == 1 ? 0 : p[5] >= 2 ? GIOP_HEADER + 4 : GIOP_HEADER; }

static mr_slice piece(lua_State *L, int i) {
  mr_slice s;
  if (lua_rawgeti(L, 1, i) != LUA_TSTRING) luaL_argerror(L, 1, "a list of messages");
  s.p = lua_tolstring(L, -1, &s.len);
  size_t head = s.len < GIOP_HEADER ? GIOP_HEADER : skipped(i, s.p);
  if (s.len < head) luaL_argerror(L, 1, "a list of messages");
  lua_pop(L, 1);                                 /* the list keeps it */
  return (mr_slice){ s.p + head, s.len - head };
}

/* Behind a 1.1 message whose pieces were aligned otherwise than the whole is: where they meet, and how many such places there are. */
static void put_seams(lua_State *L, int n, char *out) {
  mr_writer w = { .p = out, .room = 4 * (size_t)n, .little = 1 };
  size_t at = piece(L, 1).len;
  for (int i = 2; i <= n; i++) {
    mr_slice four = { (char[]){ (char)at, (char)(at >> 8), (char)(at >> 16), (char)(at >> 24) }, 4 };
    mr_giop_put_raw(&w, four);
    at += piece(L, i).len;
  }
  unsigned count = (unsigned)n - 1;
  mr_giop_put_raw(&w, (mr_slice){ (char[]){ (char)count, (char)(count >> 8), (char)(count >> 16), (char)(count >> 24) }, 4 });
}

static int has_seams(lua_State *L, int n) {
  mr_slice s = piece(L, 1);
  size_t at = s.len;
  if (s.p[5] != 1) return 0;
  for (int i = 2; i <= n; i++) {
    if (at % 8 != 4) return 1;
    at += piece(L, i).len;
  }
  return 0;
}

/* core.join({ message, fragment, … }) -> the message they are the pieces of, not marked as going on any more */
static int l_join(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int n = (int)lua_rawlen(L, 1);
  size_t size = 0, at = 0;
  luaL_Buffer b;
  luaL_argcheck(L, n > 0, 1, "a list of messages");
  for (int i = 1; i <= n; i++) {
    size_t more = piece(L, i).len;
    luaL_argcheck(L, more <= UINT32_MAX - size, 1, "a message has 4 GiB at most");
    size += more;
  }
  size_t seams = has_seams(L, n) ? 4 * (size_t)n : 0;
  luaL_argcheck(L, seams <= SIZE_MAX - size, 1, "a message has 4 GiB at most");
  char *out = luaL_buffinitsize(L, &b, size + seams);
  for (int i = 1; i <= n; i++) {                 /* a finaliser may have changed the list just now */
    mr_slice s = piece(L, i);
    if (s.len > size - at || (i == n && s.len < size - at)) luaL_argerror(L, 1, "the list changed while it was read");
    memcpy(out + at, s.p, s.len);
    at += s.len;
  }
  out[6] &= ~2;
  mr_writer w = { .p = out, .at = 8, .room = GIOP_HEADER, .little = out[6] & 1 };
  mr_giop_put_ulong(&w, (uint32_t)(size - GIOP_HEADER));
  if (seams) out[6] |= (char)GIOP_SEAMS;
  if (seams) put_seams(L, n, out + size);
  luaL_pushresultsize(&b, size + seams);
  return 1;
}

/* ---- making ---- */

/* What all makers begin with: minor at 1, little at 2. */
typedef struct maker { lua_State *L; int minor, little, type; } maker;

static maker make(lua_State *L, int type) {
  lua_Integer minor = luaL_checkinteger(L, 1);
  luaL_argcheck(L, minor >= 0 && minor <= 2, 1, "GIOP is 1.0, 1.1 or 1.2");
  return (maker){ L, (int)minor, lua_isinteger(L, 2) ? lua_tointeger(L, 2) != 0 : lua_toboolean(L, 2), type };
}

static void put_header(mr_writer *w, const maker *m, size_t size) {
  mr_giop_put_raw(w, (mr_slice){ "GIOP\1", 5 });
  mr_giop_put_octet(w, (unsigned)m->minor);
  mr_giop_put_octet(w, (unsigned)m->little);
  mr_giop_put_octet(w, (unsigned)m->type);
  mr_giop_put_ulong(w, (uint32_t)(size - GIOP_HEADER));
}

static mr_slice slice_arg(lua_State *L, int idx) {
  mr_slice s = { "", 0 };
  if (!lua_isnoneornil(L, idx)) s.p = luaL_checklstring(L, idx, &s.len);
  luaL_argcheck(L, s.len < UINT32_MAX - 64, idx, "this is too long for a message");
  return s;
}

static uint32_t ulong_arg(lua_State *L, int idx) {
  lua_Integer n = luaL_checkinteger(L, idx);
  luaL_argcheck(L, n >= 0 && n <= UINT32_MAX, idx, "a number from 0 to 4294967295");
  return (uint32_t)n;
}

/* One field of the context at the top: where the data lies stays true, as the list keeps it. */
static mr_slice context_field(lua_State *L, int i, lua_Integer *id) {
  mr_slice s;
  lua_rawgeti(L, -1, 1);
  lua_rawgeti(L, -2, 2);
  *id = lua_isinteger(L, -2) ? lua_tointeger(L, -2) : -1;
  if (lua_type(L, -1) != LUA_TSTRING || *id < 0 || *id > UINT32_MAX)
    luaL_error(L, "service context %d must be { id, data }: a number and a string", i);
  s.p = lua_tolstring(L, -1, &s.len);
  lua_pop(L, 2);
  return s;
}

/* A list of { id, data } at idx, or nothing. */
static void put_contexts(mr_writer *w, lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return mr_giop_put_ulong(w, 0);
  luaL_checktype(L, idx, LUA_TTABLE);
  int n = (int)lua_rawlen(L, idx);
  mr_giop_put_ulong(w, (uint32_t)n);
  for (int i = 1; i <= n; i++) {
    lua_Integer id;
    if (lua_rawgeti(L, idx, i) != LUA_TTABLE) luaL_error(L, "service context %d must be { id, data }", i);
    mr_slice data = context_field(L, i, &id);
    mr_giop_put_ulong(w, (uint32_t)id);
    mr_giop_put_octets(w, data);
    lua_pop(L, 1);
  }
}

/* `write` twice: to count, and into a buffer, whose making may run a finaliser that changes the contexts. Pushes the message. */
static void build(const maker *m, void (*write)(mr_writer *w, const maker *m)) {
  luaL_Buffer b;
  mr_writer w = { .at = GIOP_HEADER, .room = SIZE_MAX, .little = m->little };
  write(&w, m);
  size_t size = w.at;
  if (w.full || size - GIOP_HEADER > UINT32_MAX) luaL_error(m->L, "a message has 4 GiB at most");
  w = (mr_writer){ .p = luaL_buffinitsize(m->L, &b, size), .room = size, .little = m->little };
  put_header(&w, m, size);
  write(&w, m);
  if (w.full || w.at != size) luaL_error(m->L, "the service contexts changed while the message was made");
  luaL_pushresultsize(&b, size);
}

/* ---- requests: response 3, key 4, operation 5, contexts 6, id 7, body 8 ---- */

static void write_request(mr_writer *w, const maker *m) {
  lua_State *L = m->L;
  int response = (int)lua_tointeger(L, 3);
  uint32_t id = (uint32_t)lua_tointeger(L, 7);
  if (m->minor < 2) put_contexts(w, L, 6);
  mr_giop_put_ulong(w, id);
  mr_giop_put_octet(w, m->minor < 2 ? response != 0 : (unsigned)response);
  for (int i = 0; i < 3 && m->minor > 0; i++) mr_giop_put_octet(w, 0);
  if (m->minor == 2) mr_giop_put_ushort(w, GIOP_KEY);
  mr_giop_put_octets(w, slice_arg(L, 4));
  mr_giop_put_string(w, slice_arg(L, 5));
  if (m->minor < 2) mr_giop_put_ulong(w, 0);          /* no principal */
  else put_contexts(w, L, 6);
  mr_slice body = slice_arg(L, 8);
  if (m->minor == 2 && body.len) mr_giop_put_align(w, 8);
  mr_giop_put_raw(w, body);
}

/* Where the id lies: an offset. */
static size_t id_offset(const maker *m) {
  mr_writer w = { .at = GIOP_HEADER, .room = SIZE_MAX, .little = m->little };
  if (m->minor < 2) put_contexts(&w, m->L, 6);
  mr_giop_put_align(&w, 4);
  return w.at;
}

static maker make_request(lua_State *L) {
  maker m = make(L, GIOP_REQUEST);
  lua_Integer response = luaL_checkinteger(L, 3);
  luaL_argcheck(L, response == 0 || response == 1 || response == 3, 3, "0: none, 1: when the server has it, 3: when it is served");
  luaL_checkstring(L, 4);
  luaL_checkstring(L, 5);
  return m;
}

/* core.head(minor, little, response, key, operation[, contexts]) -> a request without a body, offset of its id (which is 0) */
static int l_head(lua_State *L) {
  maker m = make_request(L);
  lua_settop(L, 6);
  lua_pushinteger(L, 0);
  lua_pushnil(L);
  build(&m, write_request);
  lua_pushinteger(L, (lua_Integer)id_offset(&m));
  return 2;
}

/*
 * core.request(minor, little, response, key, operation, contexts | nil, id[, body]) -> message; a 1.2 body as it is encoded at an index of 1
 * modulo 8
 */
static int l_request(lua_State *L) {
  maker m = make_request(L);
  ulong_arg(L, 7);
  lua_settop(L, 8);
  build(&m, write_request);
  return 1;
}

/* ---- replies: id 3, status 4, contexts 5, body 6 ---- */

static void write_reply(mr_writer *w, const maker *m) {
  lua_State *L = m->L;
  if (m->minor < 2) put_contexts(w, L, 5);
  mr_giop_put_ulong(w, ulong_arg(L, 3));
  mr_giop_put_ulong(w, ulong_arg(L, 4));
  if (m->minor == 2) put_contexts(w, L, 5);
  mr_slice body = slice_arg(L, 6);
  if (m->minor == 2 && body.len) mr_giop_put_align(w, 8);
  mr_giop_put_raw(w, body);
}

/* core.reply(minor, little, id, status[, contexts[, body]]) -> message; a 1.2 body as it is encoded at an index of 1 modulo 8 */
static int l_reply(lua_State *L) {
  maker m = make(L, GIOP_REPLY);
  lua_settop(L, 6);
  build(&m, write_reply);
  return 1;
}

/* ---- the others ---- */

static void write_locate_request(mr_writer *w, const maker *m) {
  mr_giop_put_ulong(w, ulong_arg(m->L, 3));
  if (m->minor == 2) mr_giop_put_ushort(w, GIOP_KEY);
  mr_giop_put_octets(w, slice_arg(m->L, 4));
}

static void write_locate_reply(mr_writer *w, const maker *m) {
  mr_giop_put_ulong(w, ulong_arg(m->L, 3));
  mr_giop_put_ulong(w, ulong_arg(m->L, 4));
  mr_giop_put_raw(w, slice_arg(m->L, 5));
}

static void write_id(mr_writer *w, const maker *m) { mr_giop_put_ulong(w, ulong_arg(m->L, 3)); }

static void write_nothing(mr_writer *w, const maker *m) {
  (void)w;
  (void)m;
}

static int made(lua_State *L, int type, void (*write)(mr_writer *w, const maker *m)) {
  maker m = make(L, type);
  lua_settop(L, 5);
  build(&m, write);
  return 1;
}

/* core.locate_request(minor, little, id, key) -> message */
static int l_locate_request(lua_State *L) { return made(L, GIOP_LOCATE_REQUEST, write_locate_request); }
/* core.locate_reply(minor, little, id, status[, body]) -> message; the body as it is encoded at an index of 21, which is 5 modulo 8 */
static int l_locate_reply(lua_State *L) { return made(L, GIOP_LOCATE_REPLY, write_locate_reply); }
/* core.cancel(minor, little, id) -> message */
static int l_cancel(lua_State *L) { return made(L, GIOP_CANCEL, write_id); }
/* core.close(minor, little) -> message */
static int l_close(lua_State *L) { return made(L, GIOP_CLOSE, write_nothing); }
/* core.error(minor, little) -> message */
static int l_error(lua_State *L) { return made(L, GIOP_ERROR, write_nothing); }

static const luaL_Reg plain[] = {
  { "parse", l_parse }, { "join", l_join }, { "head", l_head }, { "request", l_request }, { "reply", l_reply },
  { "locate_request", l_locate_request }, { "locate_reply", l_locate_reply }, { "cancel", l_cancel }, { "close", l_close },
  { "error", l_error }, { NULL, NULL }
};
static const luaL_Reg waiting[] = { { "receive", l_receive }, { "take", l_take }, { NULL, NULL } };
static const luaL_Reg waiting_fast[] = { { "receive", l_process_receive }, { "take", l_process_take }, { NULL, NULL } };

MR_EXPORT int luaopen_mare_orb_giop_core(lua_State *L) {
  mr_host_ensure(L);
  luaL_newlib(L, plain);
  mr_set_functions(L, mr_in_process(L) ? waiting_fast : waiting);
  return 1;
}
