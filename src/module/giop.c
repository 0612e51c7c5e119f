/*
 * giop: mare.orb.giop.core - GIOP messages for Lua: taken from a connection, read, put together; giop_make.c makes them. What they mean is
 * src/cdr/giop.c's matter; what is done about them, lua/mare/orb/giop/connection.lua's.
 */
#include "module/net.h"
#include "module/giop_make.h"
#include "cdr/giop.h"
#include "cdr/bulk.h"
#include "heap/heap.h"
#include "port/virtual.h"

#include <string.h>

/* ---- receiving ---- */

static int parsed(lua_State *L);
static int adopt(lua_State *L, mr_bytes *in);
static const mr_framing framing = { .name = "GIOP", .length = mr_giop_length };
static const mr_framing framing_parsed = { "GIOP", mr_giop_length, parsed, MR_BULK_FROM, adopt };

/* Requests, replies and their pieces; as long as a process with a limit does not own too much outside its heap, where the limit is not felt. */
static int adopt(lua_State *L, mr_bytes *in) {
  const char *p = mr_bytes_at(in);
  if (p[GIOP_TYPE_AT] != GIOP_REQUEST && p[GIOP_TYPE_AT] != GIOP_REPLY && p[GIOP_TYPE_AT] != GIOP_FRAGMENT) return 0;
  mr_proc *self = mr_self(L);
  if (!self->finalisers) self->finalisers = 1;
  mr_bulk *b = mr_bulk_push(L);
  if (!in->len) return lua_pop(L, 1), -1;        /* a finaliser closed the connection just now */
  if (self->limit && b->owed->bytes + in->len > self->limit) return lua_pop(L, 1), 0;
  mr_bytes all = *in;
  memset(in, 0, sizeof *in);
  mr_bulk_fill(L, b, all.data, mr_bytes_at(&all), all.len);
  return 1;
}

static int receive(lua_State *L, mr_fiber *f, const mr_framing *how) {
  mr_conn *c = mr_check_conn(L, 1);
  lua_Integer limit = luaL_checkinteger(L, 2), room = luaL_optinteger(L, 4, limit);
  luaL_argcheck(L, limit >= GIOP_HEADER, 2, "a message has 12 bytes at least");
  luaL_argcheck(L, room >= GIOP_HEADER, 4, "a message has 12 bytes at least");
  return mr_read_frame(L, f, c, how, (size_t)limit, (size_t)room, 3);
}

/*
 * core.receive(connection, limit[, seconds[, room]]) -> message | nil, message, code
 * What is within the limit but beyond the room stays in the socket: nil, its size, "ENOBUFS".
 */
static int l_receive(lua_State *L) { return receive(L, mr_self_fiber(L), &framing); }
static int l_process_receive(lua_State *L) { return receive(L, mr_fiber_here(L), &framing); }
/* core.take(connection, limit[, seconds[, room]]) -> message, and what core.parse gives of it | nil, message, code */
static int l_take(lua_State *L) { return receive(L, mr_self_fiber(L), &framing_parsed); }
static int l_process_take(lua_State *L) { return receive(L, mr_fiber_here(L), &framing_parsed); }

/* core.moved(connection) -> bytes read and written on it so far */
static int l_moved(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_check_conn(L, 1)->moved);
  return 1;
}

/* core.partial(connection) -> boolean: is what has come first, and was not read yet, a piece of a message? */
static int l_partial(lua_State *L) {
  const mr_conn *c = mr_check_conn(L, 1);
  const char *p = c->in.len >= GIOP_HEADER ? mr_bytes_at(&c->in) : NULL;
  lua_pushboolean(L, p && ((p[GIOP_FLAGS_AT] & GIOP_MORE) || p[GIOP_TYPE_AT] == GIOP_FRAGMENT));
  return 1;
}

/* core.trim(): gives the system back what nobody uses, of this program's heaps and of malloc's */
static int l_trim(lua_State *L) {
  (void)L;
  mr_pool_trim();
  port_malloc_trim();
  return 0;
}

/* ---- reading ---- */

static void push_slice(lua_State *L, mr_slice s) { lua_pushlstring(L, s.p, s.len); }

/* nil, or { [id] = data }; of an id that is there twice the first counts. */
static void push_contexts(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  mr_in in;
  if (!g->ncontexts) return lua_pushnil(L);
  mr_in_begin(&in, p, len, g->contexts, g->little);
  lua_newtable(L);
  for (uint32_t i = 0; i < g->ncontexts; i++) {
    size_t n;
    lua_Integer id = mr_in_u32(&in);
    const char *data = mr_in_octets(&in, &n);
    if (lua_rawgeti(L, -1, id) == LUA_TNIL) {
      lua_pushlstring(L, data, n);
      lua_rawseti(L, -3, id);
    }
    lua_pop(L, 1);
  }
}

/* The IOR as a canonical one: an encapsulation in little-endian. */
static void push_canonical(lua_State *L, const mr_giop *g, const char *p, size_t len) {
  mr_in in;
  mr_out o;
  mr_in_begin(&in, p, len, g->reference, g->little);
  mr_out_begin(&o, L, CDR_LITTLE);
  mr_out_u8(&o, CDR_LITTLE);
  mr_ior_copy(&in, &o);
  mr_out_push(&o);
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
  size_t len;
  if (!mr_bulk_bytes(L, 1, &len)) luaL_checkstring(L, 1);
  lua_settop(L, 1);
  return parsed(L);
}

/* core.context(message, id) -> the data of that service context of a request or a reply | nil. Nothing else is made of it. */
static int l_context(lua_State *L) {
  size_t len, offset, n;
  lua_Integer id = luaL_checkinteger(L, 2);
  const char *why, *p = mr_bulk_bytes(L, 1, &len);
  mr_giop g;
  mr_in in;
  if (!p) p = luaL_checklstring(L, 1, &len);
  if (!mr_giop_parse(&g, p, len, &why, &offset) || !g.ncontexts) return 0;
  mr_in_begin(&in, p, len, g.contexts, g.little);
  for (uint32_t i = 0; i < g.ncontexts; i++) {
    lua_Integer found = mr_in_u32(&in);
    const char *data = mr_in_octets(&in, &n);
    if (found != id) continue;
    lua_pushlstring(L, data, n);
    return 1;
  }
  return 0;
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
static size_t skipped(int i, const char *p) { return i == 1 ? 0 : p[GIOP_MINOR_AT] >= 2 ? GIOP_HEADER + 4 : GIOP_HEADER; }

static mr_slice piece(lua_State *L, int i) {
  mr_slice s;
  lua_rawgeti(L, 1, i);
  s.p = mr_bulk_bytes(L, -1, &s.len);
  if (!s.p) luaL_argerror(L, 1, "a list of messages");
  size_t head = s.len < GIOP_HEADER ? GIOP_HEADER : skipped(i, s.p);
  if (s.len < head) luaL_argerror(L, 1, "a list of messages");
  lua_pop(L, 1);                                 /* the list keeps it */
  return (mr_slice){ s.p + head, s.len - head };
}

/* Behind a 1.1 message whose pieces were aligned otherwise than the whole is: where they meet, and how many such places there are. */
static void put_seams(lua_State *L, int n, char *out) {
  size_t at = piece(L, 1).len;
  for (int i = 2; i <= n; i++, out += 4) {
    cdr_store32(out, (uint32_t)at, CDR_LITTLE);
    at += piece(L, i).len;
  }
  cdr_store32(out, (uint32_t)n - 1, CDR_LITTLE);
}

static int has_seams(lua_State *L, int n) {
  mr_slice s = piece(L, 1);
  size_t at = s.len;
  if (s.p[GIOP_MINOR_AT] != 1) return 0;
  for (int i = 2; i <= n; i++) {
    if (at % 8 != 4) return 1;
    at += piece(L, i).len;
  }
  return 0;
}

/* Long pieces are used up: their bytes go before the collector learns of it. */
static void free_pieces(lua_State *L, int n) {
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    mr_bulk *b = mr_bulk_at(L, -1);
    if (b) mr_bulk_free(b);
    lua_pop(L, 1);
  }
}

/* Where the whole is put together: a block that a bulk at the top owns, or a string's buffer (then *b is NULL). */
static char *room_for(lua_State *L, size_t size, mr_bulk **b, luaL_Buffer *buffer) {
  mr_proc *self = mr_self(L);
  *b = NULL;
  if (size < MR_BULK_FROM || self->limit) return luaL_buffinitsize(L, buffer, size);
  if (!self->finalisers) self->finalisers = 1;
  *b = mr_bulk_push(L);                          /* first, as it may raise */
  char *out = malloc(size);
  if (!out) mr_raise(L, MR_ENOMEM);
  mr_bulk_fill(L, *b, out, out, size);
  return out;
}

/* core.join({ message, fragment, … }) -> the message they are the pieces of, not marked as going on any more. The pieces must not be used again. */
static int l_join(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int n = (int)lua_rawlen(L, 1);
  size_t size = 0, at = 0;
  luaL_Buffer buffer;
  mr_bulk *b;
  luaL_argcheck(L, n > 0, 1, "a list of messages");
  for (int i = 1; i <= n; i++) {
    size_t more = piece(L, i).len;
    luaL_argcheck(L, more <= UINT32_MAX - size, 1, "a message has 4 GiB at most");
    size += more;
  }
  size_t seams = has_seams(L, n) ? 4 * (size_t)n : 0;
  luaL_argcheck(L, seams <= SIZE_MAX - size, 1, "a message has 4 GiB at most");
  char *out = room_for(L, size + seams, &b, &buffer);
  for (int i = 1; i <= n; i++) {                 /* a finaliser may have changed the list just now */
    mr_slice s = piece(L, i);
    if (s.len > size - at || (i == n && s.len < size - at)) luaL_argerror(L, 1, "the list changed while it was read");
    memcpy(out + at, s.p, s.len);
    at += s.len;
  }
  out[GIOP_FLAGS_AT] &= ~GIOP_MORE;
  cdr_store32(out + GIOP_SIZE_AT, (uint32_t)(size - GIOP_HEADER), out[GIOP_FLAGS_AT] & GIOP_LITTLE);
  if (seams) out[GIOP_FLAGS_AT] |= (char)GIOP_SEAMS;
  if (seams) put_seams(L, n, out + size);
  free_pieces(L, n);
  if (!b) luaL_pushresultsize(&buffer, size + seams);
  return 1;
}

/* ---- the module ---- */

/* stamp() -> eight bytes in a run that can be repeated, drawn from its seed; else nothing */
static int l_stamp(lua_State *L) {
  uint64_t n = port_is_virtual() ? port_entropy() : 0;
  if (n) lua_pushlstring(L, (const char *)&n, sizeof n);
  return n != 0;
}

static const luaL_Reg plain[] = {
  { "parse", l_parse }, { "context", l_context }, { "moved", l_moved }, { "partial", l_partial }, { "trim", l_trim }, { "stamp", l_stamp }, { NULL, NULL }
};
/* Those that know whose they are: mr_self. */
static const luaL_Reg owned[] = { { "receive", l_receive }, { "take", l_take }, { "join", l_join }, { NULL, NULL } };
static const luaL_Reg owned_fast[] = { { "receive", l_process_receive }, { "take", l_process_take }, { "join", l_join }, { NULL, NULL } };

/* The numbers of giop.h, by their names: Lua has no others. */
static const struct { const char *name; int value; } numbers[] = {
#define N(name) { #name, GIOP_##name }
  N(REQUEST), N(REPLY), N(CANCEL), N(LOCATE_REQUEST), N(LOCATE_REPLY), N(CLOSE), N(ERROR), N(FRAGMENT), N(KEY), N(PROFILE), N(REFERENCE),
  N(NO_EXCEPTION), N(USER_EXCEPTION), N(SYSTEM_EXCEPTION), N(LOCATION_FORWARD), N(LOCATION_FORWARD_PERM), N(NEEDS_ADDRESSING),
  N(UNKNOWN_OBJECT), N(OBJECT_HERE), N(OBJECT_FORWARD), N(OBJECT_FORWARD_PERM), N(LOC_SYSTEM_EXCEPTION), N(LOC_NEEDS_ADDRESSING),
#undef N
};

int luaopen_mare_orb_giop_core(lua_State *L) {
  mr_host_ensure(L);
  luaL_newlib(L, plain);
  luaL_setfuncs(L, mr_giop_makers, 0);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    lua_pushinteger(L, numbers[i].value);
    lua_setfield(L, -2, numbers[i].name);
  }
  mr_set_functions(L, mr_in_process(L) ? owned_fast : owned);
  return 1;
}
