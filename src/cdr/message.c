/* message: runs programs, and writes whole GIOP messages around their values (CORBA 3.3 part 2, 9.4). */
#include <stdio.h>
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/message.h"
#include "cdr/bulk.h"
#include "cdr/giop.h"
#include "cdr/text.h"
#include "transfer/transfer.h"

enum { BUDGET = 4096, BUDGET_PER_BYTE = 8 };
enum { ROOM = 60, LEVELS = 4 };                 /* on the stack: more would make it grow, and each error shrinks it again */

/* Two values above the arguments: the program's list, which keeps what it needs while it runs, and a place for an error object. */
int mr_program_open(lua_State *L, const mr_program *p, int idx) {
  if (PORT_UNLIKELY(!lua_checkstack(L, ROOM))) mr_raise_memory(L);
  mr_fields_push(L, idx, p->fields, ENV_FIELDS + 1 + p->n * (p->names ? 2 : 1), p->seal);
  lua_pushnil(L);
  return lua_gettop(L) - 1;
}

/* What of the program's list is its own, before its label. */
static uint32_t own_fields(const mr_program *p) { return ENV_FIELDS + 1 + p->n * (p->names ? 2 : 1); }

/* An error of the encoder's; it begins with what the program is for, if that was said. */
static PORT_NOINLINE void raise_labelled(mr_enc *e, const mr_program *p, const char *exception, int minor, const char *text) {
  lua_State *L = e->L;
  lua_settop(L, e->fields);
  if (lua_rawgeti(L, e->fields, own_fields(p) + 1) == LUA_TSTRING) text = lua_pushfstring(L, "%s: %s", lua_tostring(L, -1), text);
  mr_env_raise(L, e->fields, exception, minor, text, e->codec);
}

static PORT_NOINLINE void raise_refused(mr_enc *e, const mr_program *p, uint32_t i) {
  char text[600], place[32] = "value";
  lua_State *L = e->L;
  mr_out_end();
  if (e->raised) {
    lua_settop(L, e->fields + 1);
    lua_error(L);
  }
  if (p->n > 1) snprintf(place, sizeof place, "value %u", (unsigned)i + 1);
  const char *name = p->names ? p->names[i] : place;
  snprintf(text, sizeof text, "%s%.*s: %s", name, (int)(sizeof e->path - e->at), e->path + e->at, e->text);
  raise_labelled(e, p, e->exception, e->minor, text);
}

static void begin(mr_enc *e, lua_State *L, const mr_program *p, int fields, int codec) {
  e->L = L;
  e->env = p->env;
  e->raw = mr_layout;
  e->codec = codec;
  e->depth = e->strays = e->raised = e->foreign = e->values.begun = 0;
  e->cut = 0;
  e->room = LEVELS;
  e->fields = fields;
  e->at = sizeof e->path;
  mr_out_begin(&e->o, L, codec & CDR_LITTLE);
}

/* Between values: nothing is open, and on the stack is what is counted. */
#define check_enc(e) mr_assert((e)->depth == 0 && lua_gettop((e)->L) == (e)->fields + 1 + (e)->strays)
#define check_dec(d, above, pushed) \
  mr_assert((d)->depth == 0 && (d)->reserved == 0 && lua_gettop((d)->L) == (above) + (int)(pushed) && (d)->in.at <= (d)->in.end)

/* Missing values are nil, those too many are not looked at: see check_surplus. */
static void put_values(mr_enc *e, const mr_program *p, uint32_t n, int first, int nvalues) {
  int above = e->fields + 2 - first;             /* values on the stack from the first one on, while none is read */
  for (uint32_t i = 0; i < n; i++) {
    mr_val v = { 0, RAW_NIL };
    if ((int)i < nvalues) {
      if (PORT_LIKELY(e->raw)) {
        const raw_value *r = raw_top(e->L) - above - e->strays + i;
        v = (mr_val){ r->bits, r->tt };
      } else v = mr_val_at(e, first + (int)i);
    }
    if (PORT_UNLIKELY(mr_put(e, p->types[i], v) || e->raised)) raise_refused(e, p, i);
    check_enc(e);
  }
}

void mr_program_encode(lua_State *L, const mr_program *p, int codec, int first, int nvalues) {
  mr_enc e;
  begin(&e, L, p, mr_program_open(L, p, 1), codec);
  put_values(&e, p, p->n, first, nvalues);
  mr_out_push(&e.o);
}

static int minor_of(int codec) { return (codec & CDR_MINOR) >> CDR_MINOR_SHIFT; }

int mr_program_decode(lua_State *L, const mr_program *p, int codec, const char *s, size_t n, size_t at) {
  return mr_program_read(L, p, mr_program_open(L, p, 1), codec, s, n, at);
}

int mr_program_read(lua_State *L, const mr_program *p, int fields, int codec, const char *s, size_t n, size_t at) {
  mr_dec d = { .L = L, .env = p->env, .raw = mr_layout, .codec = codec, .fields = fields };
  int above = lua_gettop(L);
  d.budget = BUDGET + BUDGET_PER_BYTE * (uint64_t)n;
  int held = mr_debt_begin(L, p->env, n - at);
  mr_in_begin(&d.in, s, n, at, codec & CDR_LITTLE);
  if (PORT_UNLIKELY(minor_of(codec) == 1 && n > GIOP_HEADER && (s[GIOP_FLAGS_AT] & GIOP_SEAMS) && memcmp(s, "GIOP", 4) == 0)) mr_in_seams(&d.in);
  if (PORT_UNLIKELY(p->n > 20 && !lua_checkstack(L, (int)p->n + LUA_MINSTACK))) mr_raise_memory(L);
  for (uint32_t i = 0; i < p->n; i++) {
    mr_get(&d, p->types[i]);
    check_dec(&d, above, i + 1);
  }
  if (PORT_UNLIKELY(held >= 0)) mr_debt_end(L, p->env, held);
  return (int)p->n;
}

/* ---- messages ---- */

/* Whether the last value is a large one whose bytes on the wire are those of the Lua string, or sealed buffer, at idx. */
static int is_bulk(const mr_enc *e, const mr_program *p, int idx) {
  const mr_type *t = p->types[p->n - 1];
  if (t->kind == TK_OCTETS && lua_type(e->L, idx) == LUA_TUSERDATA && !t->n && !t->fixed) {
    const mr_buffer *b = mr_buffer_get(e->L, idx);             /* a sealed one: it goes out as it is */
    return b && !mr_buffer_is_open(b) && b->length >= MR_BULK_FROM && b->length < (size_t)1 << 30;
  }
  if (t->n || t->fixed || lua_type(e->L, idx) != LUA_TSTRING || lua_rawlen(e->L, idx) < MR_BULK_FROM || lua_rawlen(e->L, idx) >= (size_t)1 << 30) return 0;
  if (t->kind == TK_OCTETS) return 1;
  if (t->kind != TK_STRING) return 0;
  size_t n;
  const char *s = lua_tolstring(e->L, idx, &n);
  return !memchr(s, 0, n) && ((e->codec & CDR_AS_IS) || mr_text_ascii(s, n));
}

/* All but the last value has been written: the message's pieces, see bulk.h. */
static void push_pieces(mr_enc *e, int text, int idx) {
  lua_State *L = e->L;
  const mr_buffer *b = mr_buffer_get(L, idx);
  size_t n = b ? b->length : lua_rawlen(L, idx);
  mr_out_u32(&e->o, (uint32_t)(n + (size_t)text));
  mr_out_patch32(&e->o, GIOP_SIZE_AT, (uint32_t)(mr_out_length(&e->o) + n + (size_t)text - GIOP_HEADER));
  mr_out_push(&e->o);
  lua_pushvalue(L, idx);
  lua_pushlstring(L, "", (size_t)text);
  mr_bulk_list(L);
}

/* A body of GIOP 1.2 begins at a multiple of 8; without values there is none. 1: all of the message is written; 0: its pieces are pushed. */
static int write_body(mr_enc *e, const mr_program *p, int first, int nvalues) {
  if (p->n && minor_of(e->codec) >= 2) mr_out_align(&e->o, 8);
  int last = first + (int)p->n - 1;
  if (PORT_UNLIKELY((e->codec & CDR_BULK) && p->n && nvalues >= (int)p->n && is_bulk(e, p, last))) {
    put_values(e, p, p->n - 1, first, nvalues);
    push_pieces(e, p->types[p->n - 1]->kind == TK_STRING, last);
    return 0;
  }
  put_values(e, p, p->n, first, nvalues);
  mr_out_patch32(&e->o, GIOP_SIZE_AT, (uint32_t)(mr_out_length(&e->o) - GIOP_HEADER));
  return 1;
}

/* A message that is not too long stays where it was written. */
static int lies_here(mr_enc *e, int written, mr_slice *message) {
  *message = (mr_slice){ e->o.start, mr_out_length(&e->o) };
  if (PORT_LIKELY(written && message->len < MR_BULK_FROM)) return e->foreign ? MR_HERE_AFTER_ALL : MR_HERE;
  if (written) mr_out_push(&e->o);
  return MR_PUSHED;
}

/* An argument too many is a mistake that would go unseen, unless it is nil. (Results too many, as Lua's functions like to give, are left out.) */
static PORT_NOINLINE void check_surplus(mr_enc *e, const mr_program *p, int first, int nvalues) {
  char text[80];
  lua_State *L = e->L;
  int n = (int)p->n, last = nvalues;
  while (last > n && lua_isnil(L, first + last - 1)) last--;
  if (last == n) return;
  snprintf(text, sizeof text, "%d argument%s expected, got %d", n, n == 1 ? "" : "s", last);
  mr_out_end();
  raise_labelled(e, p, "BAD_PARAM", 0, text);
}

static int write_request(mr_enc *e, const mr_program *p, const mr_head *head, uint32_t id, int first, int nvalues) {
  if (PORT_UNLIKELY(nvalues > (int)p->n)) check_surplus(e, p, first, nvalues);
  mr_out_bytes(&e->o, head->bytes.p, head->bytes.len);
  mr_out_patch32(&e->o, head->idat, id);
  return write_body(e, p, first, nvalues);
}

void mr_program_request(lua_State *L, const mr_program *p, const mr_head *head, uint32_t id, int codec, int first, int nvalues) {
  mr_enc e;
  begin(&e, L, p, mr_program_open(L, p, 1), codec);
  if (write_request(&e, p, head, id, first, nvalues)) mr_out_push(&e.o);
}

int mr_program_ask(lua_State *L, const mr_program *p, int idx, const mr_head *head, uint32_t id, int codec, int first, int nvalues, mr_slice *message) {
  mr_enc e;
  begin(&e, L, p, mr_program_open(L, p, idx), codec);
  return lies_here(&e, write_request(&e, p, head, id, first, nvalues), message);
}

/* One of the list, on top of the stack. Where the data lies stays true, as the list keeps it. */
static void put_context(lua_State *L, mr_out *o, int i) {
  size_t n;
  int ok = lua_istable(L, -1);
  if (ok) {
    lua_rawgeti(L, -1, 1);
    lua_rawgeti(L, -2, 2);
    ok = lua_type(L, -1) == LUA_TSTRING && lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 0 && lua_tointeger(L, -2) <= UINT32_MAX;
  }
  if (!ok) luaL_error(L, "service context %d must be { id, data }: a number and a string", i);
  const char *data = lua_tolstring(L, -1, &n);
  mr_out_u32(o, (uint32_t)lua_tointeger(L, -2));
  mr_out_octets(o, data, n);
  lua_pop(L, 2);
}

void mr_out_contexts(lua_State *L, mr_out *o, int idx) {
  int n = lua_istable(L, idx) ? (int)lua_rawlen(L, idx) : 0;
  mr_out_u32(o, (uint32_t)n);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, idx, i);
    put_context(L, o, i);
    lua_pop(L, 1);
  }
}

static int write_reply(mr_enc *e, const mr_program *p, uint32_t id, uint32_t status, int contexts, int first, int nvalues) {
  char head[8] = { 'G', 'I', 'O', 'P', 1, (char)minor_of(e->codec), (char)(e->codec & CDR_LITTLE), GIOP_REPLY };
  mr_out_bytes(&e->o, head, sizeof head);
  mr_out_u32(&e->o, 0);
  if (minor_of(e->codec) < 2) mr_out_contexts(e->L, &e->o, contexts);
  mr_out_u32(&e->o, id);
  mr_out_u32(&e->o, status);
  if (minor_of(e->codec) >= 2) mr_out_contexts(e->L, &e->o, contexts);
  return write_body(e, p, first, nvalues);
}

void mr_program_reply(lua_State *L, const mr_program *p, uint32_t id, int codec, uint32_t status, int contexts, int first, int nvalues) {
  mr_enc e;
  begin(&e, L, p, mr_program_open(L, p, 1), codec);
  if (write_reply(&e, p, id, status, contexts, first, nvalues)) mr_out_push(&e.o);
}

int mr_program_answer(lua_State *L, const mr_program *p, int idx, uint32_t id, int codec, int first, int nvalues, int contexts, mr_slice *message) {
  mr_enc e;
  int fields = mr_program_open(L, p, idx);
  begin(&e, L, p, fields, codec);
  return lies_here(&e, write_reply(&e, p, id, GIOP_NO_EXCEPTION, contexts ? contexts : fields + 1, first, nvalues), message);
}
