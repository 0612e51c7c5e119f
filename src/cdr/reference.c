/*
 * reference: object references in both directions (CORBA 3.3 part 2, 7.6.2).
 *
 * In Lua a reference is a value of the broker's, a proxy or a servant; the environment's tables know its canonical IOR (little-endian, after
 * an octet 1 and three of padding) and the other way round. What is not in them the environment's functions answer, and enter there as they like.
 * Nothing of an IOR's profiles is looked at here.
 *
 * An IOR that was seen lately is found by a hash of its bytes on the wire: `recent` has the canonical string. It is only compared there,
 * so which one another message put into the same place doesn't matter.
 */
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/typecode.h"
#include "cdr/giop.h"
#include "transfer/transfer.h"

enum { RECENT = 128, MOST_KEPT = 4096, HEAD = 4 };   /* references; bytes of one */

/* number by number, as the orders may differ */
int mr_ior_copy(mr_in *in, mr_out *o) {
  size_t n;
  const char *s = mr_in_text(in, &n);
  if (s) mr_out_text(o, s, n);
  uint32_t count = mr_in_u32(in);
  mr_out_u32(o, count);
  for (uint32_t i = 0; i < count && !in->bad; i++) {
    mr_out_u32(o, mr_in_u32(in));
    if ((s = mr_in_octets(in, &n)) != NULL) mr_out_octets(o, s, n);
  }
  return !in->bad;
}

/* ---- encoding ---- */

/* reference_out(f, value, fields, light userdata type): f(value, the type's table) */
static int l_reference_out(lua_State *L) {
  mr_push_type(L, 3, (const mr_type *)lua_touserdata(L, 4));
  lua_replace(L, 3);
  lua_settop(L, 3);
  lua_call(L, 2, 1);
  return 1;
}

static int put_swapped(mr_enc *e, const char *s, size_t n) {
  mr_in in;
  mr_in_begin(&in, s, n, HEAD, CDR_LITTLE);
  return mr_ior_copy(&in, &e->o) ? 0 : mr_refuse(e, "INV_OBJREF", 0, "a broken IOR: %s", in.bad);
}

/* The canonical IOR is on top of the stack; it is taken off. */
static int put_ior(mr_enc *e) {
  size_t n;
  const char *s = lua_type(e->L, -1) == LUA_TSTRING ? lua_tolstring(e->L, -1, &n) : NULL;
  if (!s || n < HEAD + 12 || s[0] != 1) return mr_refuse(e, "INV_OBJREF", 0, "the reference has no canonical IOR");
  int r = 0;
  mr_out_align(&e->o, 4);
  if (!(e->codec & CDR_LITTLE)) r = put_swapped(e, s, n);
  else mr_out_bytes(&e->o, s + HEAD, n - HEAD);
  lua_pop(e->L, 1);
  return r;
}

int mr_knows_reference(mr_enc *e, mr_val v) {
  lua_State *L = e->L;
  mr_env_table(L, e->fields, ENV_IORS);
  mr_push_val(e, v);
  lua_rawget(L, -2);
  int known = lua_type(L, -1) == LUA_TSTRING;
  lua_pop(L, 2);
  return known;
}

static PORT_NOINLINE int ask(mr_enc *e, const mr_type *t, mr_val v) {
  lua_State *L = e->L;
  if (!t || lua_rawgeti(L, e->fields, ENV_OUT) != LUA_TFUNCTION) return mr_wrong(e, "object reference", v);
  mr_push_val(e, v);
  lua_pushvalue(L, e->fields);
  lua_pushlightuserdata(L, (void *)(uintptr_t)t);
  return mr_foreign(e, l_reference_out, 4) ? -1 : put_ior(e);
}

int mr_put_reference(mr_enc *e, const mr_type *t, mr_val v) {
  lua_State *L = e->L;
  if (v.tt == RAW_NIL) {
    mr_out_text(&e->o, "", 0);
    mr_out_u32(&e->o, 0);
    return 0;
  }
  int kind = v.tt & 15;
  if (kind != LUA_TTABLE && kind != LUA_TUSERDATA && kind != LUA_TFUNCTION) return mr_wrong(e, "object reference", v);
  int top = lua_gettop(L);
  luaL_checkstack(L, 20, NULL);
  mr_env_table(L, e->fields, ENV_IORS);
  mr_push_val(e, v);
  lua_rawget(L, -2);
  int r = PORT_LIKELY(lua_type(L, -1) == LUA_TSTRING) ? put_ior(e) : ask(e, t, v);
  if (!r) lua_settop(L, top);
  return r;
}

/* ---- decoding ---- */

typedef struct extent { mr_in before; const char *start, *end; int isnil; } extent;

/* Goes over an IOR; every length is checked. */
static void scan(mr_dec *d, extent *x) {
  mr_in *in = &d->in;
  size_t n;
  x->before = *in;
  x->start = mr_in_take(in, 4, 0);
  mr_in_text(in, &n);
  uint32_t count = mr_in_u32(in);
  if (!in->bad && count > mr_in_left(in) / 8) mr_in_fail(in, "more profiles than bytes");
  for (uint32_t i = 0; i < count && !in->bad; i++) {
    size_t length;
    mr_in_u32(in);
    mr_in_octets(in, &length);
  }
  if (in->bad) mr_dec_bad(d);
  x->end = in->at;
  x->isnil = n == 0 && count == 0;
}

/* The canonical form of the IOR whose bytes are x, into o. */
static void make_canonical(mr_dec *d, mr_out *o, const extent *x) {
  mr_in in = x->before;
  mr_out_begin(o, d->L, CDR_LITTLE);
  mr_out_bytes(o, "\1\0\0\0", HEAD);
  mr_ior_copy(&in, o);
}

/* Pushes the canonical string that is these bytes behind its head, if it is the one in their place of `recent`, the table on top. */
static int push_recent(lua_State *L, const char *s, size_t n, int *slot) {
  size_t length;
  *slot = (int)(mr_hash(s, n) % RECENT) + 1;
  if (lua_rawgeti(L, -1, *slot) == LUA_TSTRING) {
    const char *known = lua_tolstring(L, -1, &length);
    if (length == n + HEAD && memcmp(known + HEAD, s, n) == 0) return 1;
  }
  lua_pop(L, 1);
  return 0;
}

/* Pushes the canonical string. On the wire it looks the same in little-endian, but perhaps for what is in the padding. */
static void push_ior(mr_dec *d, const extent *x) {
  lua_State *L = d->L;
  mr_out o;
  int slot;
  mr_env_table(L, d->fields, ENV_RECENT);
  if (!(d->codec & CDR_LITTLE) || !push_recent(L, x->start, (size_t)(x->end - x->start), &slot)) {
    make_canonical(d, &o, x);
    if (!push_recent(L, o.start + HEAD, mr_out_length(&o) - HEAD, &slot)) {
      size_t n = mr_out_length(&o);
      mr_out_push(&o);
      if (PORT_LIKELY(n <= MOST_KEPT)) {
        lua_pushvalue(L, -1);
        lua_rawseti(L, -3, slot);
      }
    }
  }
  lua_remove(L, -2);
}

void mr_get_reference(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  extent x;
  scan(d, &x);
  if (x.isnil) { lua_pushnil(L); return; }
  if (PORT_UNLIKELY(!lua_checkstack(L, 12))) mr_raise_memory(L);
  push_ior(d, &x);
  mr_env_table(L, d->fields, ENV_PROXIES);
  lua_pushvalue(L, -2);
  if (PORT_LIKELY(lua_rawget(L, -2) != LUA_TNIL)) {
    lua_replace(L, -3);
    lua_pop(L, 1);
    return;
  }
  lua_pop(L, 2);
  if (lua_rawgeti(L, d->fields, ENV_IN) != LUA_TFUNCTION) { lua_pop(L, 1); return; }   /* none: the IOR itself */
  lua_insert(L, -2);
  mr_push_type(L, d->fields, t);
  lua_call(L, 2, 1);
}
