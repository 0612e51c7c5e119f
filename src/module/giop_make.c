/*
 * giop_make: whole GIOP messages without values of programs (those are src/cdr/message.c's): heads of requests, replies that the broker gives itself,
 * and the short messages.
 *
 * A message is written into its thread's scratch buffer (cdr.h), where nobody else may write meanwhile. So each function first checks all its
 * arguments and makes strings of its numbers; from mr_out_begin to mr_out_push Lua is asked for nothing that could run a finaliser.
 */
#include "module/giop_make.h"
#include "cdr/message.h"
#include "cdr/giop.h"

enum { MOST = INT32_MAX - 4096 };                /* bytes of one part of a message, as a buffer holds 2 GiB */

/* What all makers begin with: minor at 1, little at 2. */
typedef struct maker { lua_State *L; int minor, little, type; size_t id_at; } maker;

static maker make(lua_State *L, int type) {
  lua_Integer minor = luaL_checkinteger(L, 1);
  luaL_argcheck(L, minor >= 0 && minor <= 2, 1, "GIOP is 1.0, 1.1 or 1.2");
  return (maker){ L, (int)minor, lua_isinteger(L, 2) ? lua_tointeger(L, 2) != 0 : lua_toboolean(L, 2), type, 0 };
}

static void check_text(lua_State *L, int idx) {
  size_t n = 0;
  if (!lua_isnoneornil(L, idx)) luaL_checklstring(L, idx, &n);
  luaL_argcheck(L, n <= MOST, idx, "this is too long for a message");
}

static void check_ulong(lua_State *L, int idx) {
  lua_Integer n = luaL_checkinteger(L, idx);
  luaL_argcheck(L, n >= 0 && n <= UINT32_MAX, idx, "a number from 0 to 4294967295");
}

static void check_contexts(lua_State *L, int idx) {
  if (!lua_isnoneornil(L, idx)) luaL_checktype(L, idx, LUA_TTABLE);
}

/* ---- writing ---- */

static uint32_t ulong_at(lua_State *L, int idx) { return (uint32_t)lua_tointeger(L, idx); }

static mr_slice text_at(lua_State *L, int idx) {
  mr_slice s = { "", 0 };
  if (!lua_isnil(L, idx)) s.p = lua_tolstring(L, idx, &s.len);
  return s;
}

static void put_octets(mr_out *o, mr_slice s) { mr_out_octets(o, s.p, s.len); }

/* Up to the message's end. A body of GIOP 1.2 begins at a multiple of 8; without bytes there is none. */
static void put_body(mr_out *o, const maker *m, mr_slice body) {
  if (m->minor == 2 && body.len) mr_out_align(o, 8);
  mr_out_bytes(o, body.p, body.len);
}

/* Pushes the message: its header, and what `write` writes. */
static void build(maker *m, void (*write)(mr_out *o, maker *m)) {
  mr_out o;
  char head[] = { 'G', 'I', 'O', 'P', 1, (char)m->minor, (char)m->little, (char)m->type };
  mr_out_begin(&o, m->L, m->little);
  mr_out_bytes(&o, head, sizeof head);
  mr_out_u32(&o, 0);
  write(&o, m);
  mr_out_patch32(&o, GIOP_SIZE_AT, (uint32_t)(mr_out_length(&o) - GIOP_HEADER));
  mr_out_push(&o);
}

/* ---- requests: response 3, key 4, operation 5, contexts 6, id 7, body 8 ---- */

static void write_request(mr_out *o, maker *m) {
  lua_State *L = m->L;
  unsigned response = (unsigned)lua_tointeger(L, 3);
  mr_slice operation = text_at(L, 5);
  if (m->minor < 2) mr_out_contexts(L, o, 6);
  mr_out_align(o, 4);
  m->id_at = mr_out_length(o);
  mr_out_u32(o, ulong_at(L, 7));
  mr_out_u8(o, m->minor < 2 ? response != 0 : response);
  if (m->minor > 0) mr_out_bytes(o, "\0\0\0", 3);
  if (m->minor == 2) mr_out_u16(o, GIOP_KEY);
  put_octets(o, text_at(L, 4));
  mr_out_text(o, operation.p, operation.len);
  if (m->minor < 2) mr_out_u32(o, 0);            /* no principal */
  else mr_out_contexts(L, o, 6);
  put_body(o, m, text_at(L, 8));
}

static maker make_request(lua_State *L) {
  maker m = make(L, GIOP_REQUEST);
  lua_Integer response = luaL_checkinteger(L, 3);
  luaL_argcheck(L, response == 0 || response == 1 || response == 3, 3, "0: none, 1: when the server has it, 3: when it is served");
  luaL_checkstring(L, 4);
  luaL_checkstring(L, 5);
  for (int i = 4; i <= 5; i++) check_text(L, i);
  check_contexts(L, 6);
  return m;
}

/* core.head(minor, little, response, key, operation[, contexts]) -> a request without a body, offset of its id (which is 0) */
static int l_head(lua_State *L) {
  maker m = make_request(L);
  lua_settop(L, 6);
  lua_pushinteger(L, 0);
  lua_pushnil(L);
  build(&m, write_request);
  lua_pushinteger(L, (lua_Integer)m.id_at);
  return 2;
}

/*
 * core.request(minor, little, response, key, operation, contexts | nil, id[, body]) -> message; a 1.2 body as it is encoded at an index of 1
 * modulo 8
 */
static int l_request(lua_State *L) {
  maker m = make_request(L);
  lua_settop(L, 8);
  check_ulong(L, 7);
  check_text(L, 8);
  build(&m, write_request);
  return 1;
}

/* ---- replies: id 3, status 4, contexts 5, body 6 ---- */

static void write_reply(mr_out *o, maker *m) {
  lua_State *L = m->L;
  if (m->minor < 2) mr_out_contexts(L, o, 5);
  mr_out_u32(o, ulong_at(L, 3));
  mr_out_u32(o, ulong_at(L, 4));
  if (m->minor == 2) mr_out_contexts(L, o, 5);
  put_body(o, m, text_at(L, 6));
}

/* ---- the others ---- */

static void write_locate_request(mr_out *o, maker *m) {
  mr_out_u32(o, ulong_at(m->L, 3));
  if (m->minor == 2) mr_out_u16(o, GIOP_KEY);
  put_octets(o, text_at(m->L, 4));
}

static void write_locate_reply(mr_out *o, maker *m) {
  mr_slice body = text_at(m->L, 5);
  mr_out_u32(o, ulong_at(m->L, 3));
  mr_out_u32(o, ulong_at(m->L, 4));
  mr_out_bytes(o, body.p, body.len);
}

static void write_id(mr_out *o, maker *m) { mr_out_u32(o, ulong_at(m->L, 3)); }

static void write_nothing(mr_out *o, maker *m) {
  (void)o;
  (void)m;
}

/* ---- what needs nothing but its arguments ---- */

/* `arguments`, from 3 on: u a number of 32 bits, t text or nil, c service contexts or nil. */
typedef struct form { int type; const char *arguments; void (*write)(mr_out *o, maker *m); } form;

static int fill(lua_State *L, const form *f) {
  maker m = make(L, f->type);
  lua_settop(L, 2 + (int)strlen(f->arguments));
  for (int i = 0; f->arguments[i]; i++) {
    if (f->arguments[i] == 'u') check_ulong(L, 3 + i);
    else if (f->arguments[i] == 't') check_text(L, 3 + i);
    else check_contexts(L, 3 + i);
  }
  build(&m, f->write);
  return 1;
}

static const form reply = { GIOP_REPLY, "uuct", write_reply }, locate_request = { GIOP_LOCATE_REQUEST, "ut", write_locate_request },
                  locate_reply = { GIOP_LOCATE_REPLY, "uut", write_locate_reply }, cancel = { GIOP_CANCEL, "u", write_id },
                  close = { GIOP_CLOSE, "", write_nothing }, error = { GIOP_ERROR, "", write_nothing };

/* core.reply(minor, little, id, status[, contexts[, body]]) -> message; a 1.2 body as it is encoded at an index of 1 modulo 8 */
static int l_reply(lua_State *L) { return fill(L, &reply); }
/* core.locate_request(minor, little, id, key) -> message */
static int l_locate_request(lua_State *L) { return fill(L, &locate_request); }
/* core.locate_reply(minor, little, id, status[, body]) -> message; the body as it is encoded at an index of 21, which is 5 modulo 8 */
static int l_locate_reply(lua_State *L) { return fill(L, &locate_reply); }
/* core.cancel(minor, little, id) -> message */
static int l_cancel(lua_State *L) { return fill(L, &cancel); }
/* core.close(minor, little) -> message */
static int l_close(lua_State *L) { return fill(L, &close); }
/* core.error(minor, little) -> message */
static int l_error(lua_State *L) { return fill(L, &error); }

const luaL_Reg mr_giop_makers[] = {
  { "head", l_head }, { "request", l_request }, { "reply", l_reply }, { "locate_request", l_locate_request },
  { "locate_reply", l_locate_reply }, { "cancel", l_cancel }, { "close", l_close }, { "error", l_error }, { NULL, NULL }
};
