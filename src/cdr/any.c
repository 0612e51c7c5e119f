/*
 * any: values with their type (CORBA 3.3 part 2, 9.3.5), and TypeCodes as values, which are the tables of types.
 *
 * TypeCodes that were read lately are in ENV_READ: at a place that a hash of their bytes gives, those bytes and the type's userdata. So the same
 * TypeCode is the same table as long as it is there, and costs a comparison.
 */
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/typecode.h"
#include "cdr/value.h"
#include "transfer/transfer.h"

enum { PLACES = 128, MOST_KEPT = 4096 };       /* TypeCodes; bytes of one */

/* ---- encoding ---- */

/* code(fields, T, light userdata env, little) -> bytes */
static int l_code(lua_State *L) {
  mr_cdr_env *env = (mr_cdr_env *)lua_touserdata(L, 3);
  mr_typecode_bytes(L, env, 1, 2, lua_toboolean(L, 4));
  return 1;
}

static const mr_type *known_type(mr_enc *e, mr_val table) {
  mr_push_val(e, table);
  const mr_type *t = mr_type_known(e->L, e->fields, -1);
  lua_pop(e->L, 1);
  return t;
}

/* The TypeCode's bytes; NULL: failed. Afterwards the type is compiled. */
static const mr_type *put_code(mr_enc *e, mr_val table) {
  lua_State *L = e->L;
  size_t n;
  if (table.tt != RAW_TABLE) {
    mr_wrong(e, "a type", table);
    if (table.tt == RAW_SHORT || table.tt == RAW_LONG) mr_hint(e, ": broker:type makes one of such a text");
    return NULL;
  }
  const mr_type *t = known_type(e, table);
  if (t && mr_kind_is_basic(t->kind) && !t->alias) {
    mr_out_u32(&e->o, t->kind);
    return t;
  }
  if (!lua_checkstack(L, 20)) mr_raise_memory(L);
  mr_env_table(L, e->fields, ENV_WRITTEN);
  mr_env_table(L, lua_gettop(L), 1 + (e->codec & CDR_LITTLE));
  mr_push_val(e, table);
  if (!t || lua_rawget(L, -2) != LUA_TSTRING) {
    lua_settop(L, lua_gettop(L) - 3);
    lua_pushvalue(L, e->fields);
    mr_push_val(e, table);
    lua_pushlightuserdata(L, e->env);
    lua_pushboolean(L, e->codec & CDR_LITTLE);
    if (mr_foreign(e, l_code, 4)) return NULL;
    t = known_type(e, table);
    if (!t) { mr_refuse(e, "BAD_TYPECODE", 0, "a type that changed while it was compiled"); return NULL; }
  } else {
    lua_replace(L, -3);
    lua_pop(L, 1);
  }
  const char *s = lua_tolstring(L, -1, &n);
  mr_out_align(&e->o, 4);
  mr_out_bytes(&e->o, s, n);
  lua_pop(L, 1);
  return t;
}

int mr_put_typecode(mr_enc *e, mr_val v) { return put_code(e, v) ? 0 : -1; }

/* A value without a type. */
static int put_plain(mr_enc *e, mr_val v) {
  int64_t n = (int64_t)v.bits;
  switch (v.tt) {
    case RAW_NIL: mr_out_u32(&e->o, TK_NULL); return 0;
    case RAW_FALSE: case RAW_TRUE:
      mr_out_u32(&e->o, TK_BOOLEAN);
      mr_out_u8(&e->o, v.tt == RAW_TRUE);
      return 0;
    case RAW_INT:
      mr_out_u32(&e->o, n == (int32_t)n ? TK_LONG : TK_LONGLONG);
      if (n == (int32_t)n) mr_out_u32(&e->o, (uint32_t)n);
      else mr_out_u64(&e->o, (uint64_t)n);
      return 0;
    case RAW_FLT:
      mr_out_u32(&e->o, TK_DOUBLE);
      mr_out_u64(&e->o, v.bits);
      return 0;
    case RAW_SHORT: case RAW_LONG: {
      static const mr_type text = { .kind = TK_STRING };
      mr_out_u32(&e->o, TK_STRING);
      mr_out_u32(&e->o, 0);
      return mr_put_string(e, &text, v);
    }
    default: return mr_wrong(e, "a table with _anytype and _anyval, or a plain value", v);
  }
}

/* reference_type(f, value): f(value) */
static int l_reference_type(lua_State *L) {
  lua_call(L, 1, 1);
  return 1;
}

static void put_object_code(mr_enc *e) {
  mr_out_u32(&e->o, TK_OBJREF);
  size_t mark = mr_out_open(&e->o);
  mr_out_text(&e->o, "IDL:omg.org/CORBA/Object:1.0", 28);
  mr_out_text(&e->o, "Object", 6);
  mr_out_close(&e->o, mark);
}

/* An object reference, as the interface that the environment knows it has. 1: it is none. */
static int put_object(mr_enc *e, mr_val v, int known) {
  lua_State *L = e->L;
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 20)) mr_raise_memory(L);
  mr_push_val(e, v);                           /* keeps it while the function runs */
  if (lua_rawgeti(L, e->fields, ENV_ASK) == LUA_TFUNCTION) {
    mr_push_val(e, v);
    if (mr_foreign(e, l_reference_type, 2)) return -1;
  }
  const mr_type *t = NULL;
  if (lua_istable(L, -1)) {
    t = put_code(e, mr_val_at(e, top + 2));
    if (!t) return -1;
    if (t->kind != TK_OBJREF) return mr_refuse(e, "BAD_TYPECODE", 0, "a reference whose type is no interface");
  } else if (known) put_object_code(e);
  else { lua_settop(L, top); return 1; }
  if (mr_put_reference(e, t, v)) return -1;
  lua_settop(L, top);
  return 0;
}

/* A value that tells its type. 0: it is none. */
static int put_value_code(mr_enc *e, mr_val v, const mr_type **inside) {
  int r = mr_value_type(e, v, inside);
  if (r <= 0) return r;
  if (!lua_checkstack(e->L, 20)) mr_raise_memory(e->L);
  mr_push_type(e->L, e->fields, *inside);      /* keeps it */
  e->strays++;
  return put_code(e, mr_val_at(e, lua_gettop(e->L))) ? 1 : -1;
}

int mr_any_begin(mr_enc *e, mr_val v, const mr_type **inside) {
  int object = (v.tt & RAW_COLLECTABLE) && v.tt != RAW_SHORT && v.tt != RAW_LONG, known = object && mr_knows_reference(e, v);
  if (known || (object && v.tt != RAW_TABLE)) {
    int r = put_object(e, v, known);
    if (r <= 0) return r ? -1 : 1;
  }
  if (v.tt != RAW_TABLE) return put_plain(e, v) ? -1 : 1;
  if (mr_enter(e, v)) return -1;
  int strays = e->strays;
  mr_val type = mr_field(e, v, &e->env->any->members[0]);
  if (type.tt == RAW_NIL) {                    /* a value with its class, a servant, or a reference that came from another process */
    if (e->strays != strays) mr_drop(e, strays);
    int r = put_value_code(e, v, inside);
    if (r) return r < 0 ? -1 : 0;
    r = put_object(e, v, 0);
    if (r > 0) mr_wrong(e, "_anytype and _anyval, as this table needs a type", v);
    if (r) return -1;
    mr_leave(e);
    return 1;
  }
  mr_push_val(e, type);                        /* keeps the type while the value's metamethods run, whatever they do to this table */
  e->strays++;
  *inside = put_code(e, type);
  return *inside ? 0 : mr_in_member(e, "_anytype");
}

mr_val mr_any_value(mr_enc *e, mr_val v) {
  mr_val x = mr_field(e, v, &e->env->any->members[1]);
  return x.tt == RAW_NIL && mr_field(e, v, &e->env->any->members[0]).tt == RAW_NIL ? v : x;
}

int mr_put_any(mr_enc *e, const mr_type *t, mr_val v) {
  const mr_type *inside;
  if (PORT_UNLIKELY(e->depth >= MR_RECURSION)) return mr_put_deep(e, t, v);
  int strays = e->strays, all = mr_any_begin(e, v, &inside);
  if (all) return all < 0 ? -1 : 0;
  if (mr_put(e, inside, mr_any_value(e, v))) return mr_in_member(e, "_anyval");
  if (e->strays != strays) mr_drop(e, strays);
  mr_leave(e);
  return 0;
}

/* ---- decoding ---- */

/* The bytes that the TypeCode takes, 0: a short one, which isn't kept. */
static size_t extent_of(const mr_dec *d) {
  mr_in in = d->in;
  const char *start = mr_in_take(&in, 4, 0);
  uint32_t kind = mr_in_u32(&in);
  if (kind >= TK_KINDS || mr_kind_is_basic(kind) || kind == TK_FIXED || kind == TK_STRING || kind == TK_WSTRING) return 0;
  size_t n;
  mr_in_octets(&in, &n);
  return in.bad || (in.level && in.chunk != d->in.chunk) || n > MOST_KEPT ? 0 : (size_t)(in.at - start);
}

/* The type's userdata replaces its table on top. */
static const mr_type *compiled(mr_dec *d) { return mr_type_get(d->L, d->env, d->fields, d->codec); }

/* The environment's own table for this type, if it has one that is the same: replaces the table on top. */
static void resolve(mr_dec *d) {
  lua_State *L = d->L;
  int at = lua_gettop(L);
  if (lua_rawgeti(L, d->fields, ENV_RESOLVE) == LUA_TFUNCTION && lua_getfield(L, at, "id") == LUA_TSTRING && lua_rawlen(L, -1) > 0) {
    lua_call(L, 1, 1);
    if (lua_istable(L, -1)) {
      lua_getfield(L, at, "kind");
      lua_getfield(L, at + 1, "kind");
      int same = lua_rawequal(L, -1, -2);
      lua_settop(L, at + 1);
      if (same && mr_typecode_same(L, d->env, d->fields, at + 1, at)) lua_copy(L, at + 1, at);
    }
  }
  lua_settop(L, at);
}

/* Pushes the table, then the userdata. */
static const mr_type *read_anew(mr_dec *d) {
  lua_State *L = d->L;
  mr_typecode_parse(d);
  lua_pushvalue(L, -1);
  compiled(d);
  lua_pop(L, 1);
  resolve(d);
  lua_pushvalue(L, -1);
  return compiled(d);
}

const mr_type *mr_typecode_read(mr_dec *d) {
  lua_State *L = d->L;
  size_t n = extent_of(d), length;
  if (PORT_UNLIKELY(!lua_checkstack(L, 20))) mr_raise_memory(L);
  if (n == 0) {
    const mr_type *t = read_anew(d);
    lua_pop(L, 1);                             /* the cache keeps it as long as its table is there */
    return t;
  }
  mr_in before = d->in;
  const char *s = mr_in_take(&d->in, 4, n);
  int place = (int)(mr_hash(s, n) % PLACES) * 2 + 1;
  mr_env_table(L, d->fields, ENV_READ);
  if (lua_rawgeti(L, -1, place) == LUA_TSTRING) {
    const char *known = lua_tolstring(L, -1, &length);
    if (length == n && memcmp(known, s, n) == 0) {
      lua_rawgeti(L, -2, place + 1);
      const mr_type *t = mr_type_at(L, -1);
      if (!t) mr_env_changed(L);
      lua_getiuservalue(L, -1, 1);
      lua_replace(L, -4);
      lua_pop(L, 2);
      return t;
    }
  }
  lua_pop(L, 1);
  d->in = before;
  const mr_type *t = read_anew(d);             /* ENV_READ, table, userdata */
  lua_pushlstring(L, s, n);
  lua_pushnil(L);                              /* there is no memory for the rest: then nothing is in this place */
  lua_rawseti(L, -5, place);
  lua_insert(L, -2);
  lua_rawseti(L, -4, place + 1);
  lua_rawseti(L, -3, place);
  lua_replace(L, -2);
  return t;
}

void mr_get_typecode(mr_dec *d) { mr_typecode_read(d); }

const mr_type *mr_any_begin_get(mr_dec *d) {
  mr_dec_enter(d, 4);
  return mr_typecode_read(d);
}

void mr_get_any(mr_dec *d, const mr_type *t) {
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) { mr_get_deep(d, t); return; }
  mr_get(d, mr_any_begin_get(d));
  mr_build(d, d->env->any);
  mr_dec_leave(d);
}
