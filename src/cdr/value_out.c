/*
 * value_out: values from Lua to bytes. See value.h; the rules of encode.c hold: what may collect garbage goes through mr_foreign.
 *
 * A value has its repository id, also where it is of the declared type and needs none: JacORB reads those in anys and custom values as if it didn't
 * know what is declared. One of a derived type that can be truncated has those of the bases for which that is so, too, and is chunked: its state, and that of all values inside it, comes in counted pieces, so that the
 * receiver finds the end of what it does not know. Inside such a value a chunk is always open while something else than the head of a value is
 * written; where that was nothing its size is taken back. Custom values are always chunked.
 */
#include "cdr/value.h"
#include "cdr/flat.h"
#include "cdr/put.h"
#include "cdr/typecode.h"
#include "transfer/transfer.h"

/* ---- what is known of the message ---- */

/* met(n): for so many tables */
static int l_met(lua_State *L) { lua_createtable(L, 0, (int)lua_tointeger(L, 1)); return 1; }

static int begun(mr_enc *e) {
  if (PORT_LIKELY(e->values.begun)) return e->raised ? -1 : 0;
  if (e->raised) return -1;
  if (!lua_checkstack(e->L, 30)) mr_raise_memory(e->L);
  lua_pushinteger(e->L, (lua_Integer)e->env->sent + 8);
  if (mr_foreign(e, l_met, 1)) return -1;
  lua_replace(e->L, e->fields + 1);
  e->env->sent -= e->env->sent / 8;
  e->values = (mr_values_out){ .begun = 1 };
  return 0;
}

static int met(const mr_enc *e) { return e->fields + 1; }

/* ---- which type ---- */

/* compile(fields, T, light userdata env) */
static int l_compile(lua_State *L) {
  lua_pushvalue(L, 2);
  mr_type_get(L, (mr_cdr_env *)lua_touserdata(L, 3), 1, -1);
  return 1;
}

/* find(fields, id, light userdata env) -> userdata or nil */
static int l_find(lua_State *L) {
  size_t n;
  const char *id = lua_tolstring(L, 2, &n);
  mr_value_find(L, (mr_cdr_env *)lua_touserdata(L, 3), 1, id, n);
  return 1;
}

/* The type whose table is on top; it stays there. NULL: failed. */
const mr_type *mr_type_ready(mr_enc *e) {
  lua_State *L = e->L;
  const mr_type *t = mr_type_known(L, e->fields, -1);
  if (PORT_LIKELY(t != NULL)) return t;
  lua_pushvalue(L, e->fields);
  lua_pushvalue(L, -2);
  lua_pushlightuserdata(L, e->env);
  if (mr_foreign(e, l_compile, 3)) return NULL;
  t = mr_type_at(L, -1);
  lua_pop(L, 1);
  return t;
}

/* The class is on top of the stack, and is taken off. 1: it is one that was registered; t: its type. */
static int type_of_class(mr_enc *e, const void *class, const mr_type **t) {
  lua_State *L = e->L;
  int top = lua_gettop(L) - 1;
  mr_env_table(L, e->fields, ENV_CLASSES);
  lua_insert(L, -2);
  if (lua_rawget(L, -2) != LUA_TTABLE) { lua_settop(L, top); return 0; }
  *t = mr_type_ready(e);
  if (*t) {                                    /* keeps it as long as the message is written */
    lua_pushboolean(L, 1);
    lua_rawset(L, met(e));
    e->values.class_at = class;
    e->values.class_type = *t;
  }
  lua_settop(L, top);
  return *t ? 1 : -1;
}

static const void *class_of(mr_enc *e, mr_val v) {
  if (e->raw) return ((const raw_table *)(uintptr_t)v.bits)->metatable;
  if (!lua_getmetatable(e->L, (int)v.bits)) return NULL;
  const void *class = lua_topointer(e->L, -1);
  lua_pop(e->L, 1);
  return class;
}

static void push_class(mr_enc *e, mr_val v) {
  if (e->raw) raw_push(e->L, RAW_TABLE, (uintptr_t)((const raw_table *)(uintptr_t)v.bits)->metatable);
  else lua_getmetatable(e->L, (int)v.bits);
}

/* The type with the repository id that is on top of the stack, which is taken off. -1: there is none; `value` names it. */
static int type_of_id(mr_enc *e, const mr_type **t) {
  lua_State *L = e->L;
  int top = lua_gettop(L) - 1;
  lua_pushvalue(L, -1);
  if (lua_rawget(L, met(e)) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    lua_pushvalue(L, e->fields);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, e->env);
    if (mr_foreign(e, l_find, 3)) return -1;
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, met(e));
  }
  *t = mr_type_at(L, -1);
  if (!*t) {
    mr_refuse(e, "BAD_PARAM", 0, "no valuetype with the id '%.100s' was loaded", lua_tostring(L, top + 1));
    mr_in_member(e, "_repid");
  }
  lua_settop(L, top);
  return *t ? 1 : -1;
}

int mr_value_type(mr_enc *e, mr_val v, const mr_type **t) {
  if (begun(e)) return -1;
  const void *class = class_of(e, v);
  *t = e->values.class_type;
  if (class && class == e->values.class_at) return 1;
  if (!lua_checkstack(e->L, 20)) mr_raise_memory(e->L);
  if (class) {
    push_class(e, v);
    int r = type_of_class(e, class, t);
    if (r) return r;
  }
  *t = NULL;
  int strays = e->strays, r = 0;
  mr_val id = mr_field(e, v, &e->env->own->members[0]);
  if (id.tt == RAW_SHORT || id.tt == RAW_LONG) {
    mr_push_val(e, id);
    r = type_of_id(e, t);
    if (r > 0) r = 2;
  }
  if (r >= 0 && e->strays != strays) mr_drop(e, strays);
  return r;
}

static int no_type(mr_enc *e, const mr_type *formal) {
  return mr_refuse(e, "BAD_PARAM", 0, "%s is abstract: a table whose class broker:factory knows, or with _repid, expected", formal->name ? formal->name : "ValueBase");
}

/* What v is, where `formal` is declared. */
static int find_type(mr_enc *e, const mr_type *formal, mr_val v, const mr_type **t) {
  int r = mr_value_type(e, v, t);
  if (r < 0) return -1;
  if (!r || !mr_value_is(e->L, e->fields, *t, formal, e->values.is)) {
    if (r == 2)
      return mr_refuse(e, "BAD_PARAM", 0, "%s expected, got a value with the id '%.100s'", formal->name ? formal->name : "value", (*t)->value->ids[0].s);
    *t = mr_itself(formal);
  }
  if (PORT_UNLIKELY((*t)->kind == TK_ABSTRACT || (*t)->value->abstract || (*t)->value->any)) return no_type(e, formal);
  return 0;
}

/* ---- chunks ---- */

static void open_chunk(mr_enc *e) {
  e->values.before = mr_out_length(&e->o);
  mr_out_u32(&e->o, 0);
  e->values.chunk = mr_out_length(&e->o);
}

static void close_chunk(mr_enc *e) {
  size_t size = mr_out_length(&e->o) - e->values.chunk;
  mr_assert(e->values.chunk > 0);
  if (size) mr_out_patch32(&e->o, e->values.chunk - 4, (uint32_t)size);
  else e->o.at = e->o.start + e->values.before;
  e->values.chunk = 0;
}

/* ---- heads ---- */

/* The place is that of what follows. */
static void put_indirection(mr_enc *e, size_t to) {
  mr_out_u32(&e->o, TK_INDIRECTION);
  mr_out_u32(&e->o, (uint32_t)((int64_t)to - (int64_t)mr_out_length(&e->o)));
}

/* Its first n repository ids, as they were written for another value of this type, or now. */
static void put_ids(mr_enc *e, const mr_type *t, uint32_t n) {
  lua_State *L = e->L;
  const mr_value *v = t->value;
  int64_t key = n > 1 ? -(int64_t)t->number : t->number;
  if (e->values.id_of != key) {
    if (lua_rawgeti(L, met(e), key) == LUA_TNUMBER) {
      e->values.id_of = key;
      e->values.id_at = (size_t)lua_tointeger(L, -1);
    }
    lua_pop(L, 1);
  }
  if (e->values.id_of == key) { put_indirection(e, e->values.id_at); return; }
  mr_out_align(&e->o, 4);
  e->values.id_of = key;
  e->values.id_at = mr_out_length(&e->o);
  lua_pushinteger(L, (lua_Integer)e->values.id_at);
  lua_rawseti(L, met(e), key);
  if (n > 1) mr_out_u32(&e->o, n);
  for (uint32_t i = 0; i < n; i++) mr_out_text(&e->o, v->ids[i].s, v->ids[i].n);
}

/* What is known of a table: the number of its type and its place. */
static void note(mr_enc *e, const mr_type *t, mr_val v, size_t at) {
  if (++e->values.n > e->env->sent && e->values.n <= MR_MOST_ROOM) e->env->sent = e->values.n;
  mr_push_val(e, v);
  lua_pushinteger(e->L, (lua_Integer)((uint64_t)t->number << 32 | (uint32_t)at));
  lua_rawset(e->L, met(e));
}

/* 1: it was written already, as this type. */
static int put_shared(mr_enc *e, const mr_type *t, mr_val v) {
  lua_State *L = e->L;
  mr_push_val(e, v);
  lua_rawget(L, met(e));
  uint64_t found = lua_isinteger(L, -1) ? (uint64_t)lua_tointeger(L, -1) : 0;
  lua_pop(L, 1);
  if (found >> 32 != t->number) return 0;
  put_indirection(e, (uint32_t)found);
  return 1;
}

static void put_head(mr_enc *e, const mr_type *formal, mr_value_out *o) {
  int list = o->t->number != formal->number && o->t->value->nids > 1;
  o->chunked = e->values.level > 0 || list || o->t->value->custom;
  if (e->values.level) close_chunk(e);
  mr_out_align(&e->o, 4);
  if (o->v.tt == RAW_TABLE) note(e, o->t, o->v, mr_out_length(&e->o));
  mr_out_u32(&e->o, VALUE_TAG | (list ? VALUE_IDS : VALUE_ONE_ID) | (o->chunked ? VALUE_CHUNKED : 0));
  put_ids(e, o->t, list ? o->t->value->nids : 1);
  if (!o->chunked) return;
  e->values.level++;
  open_chunk(e);
}

/* ---- values ---- */

/* An abstract interface: what goes before a value. 1: it is a reference, which was written. */
static int put_abstract(mr_enc *e, const mr_type *formal, mr_val v) {
  const mr_type *t;
  int reference = v.tt != RAW_NIL && (v.tt != RAW_TABLE || mr_knows_reference(e, v));
  if (v.tt == RAW_TABLE && !reference) {
    int r = mr_value_type(e, v, &t);
    if (r < 0) return -1;
    reference = !r || !mr_value_is(e->L, e->fields, t, formal, e->values.is);
  }
  mr_out_u8(&e->o, (unsigned)reference);
  if (!reference) return 0;
  return mr_put_reference(e, formal, v) ? -1 : 1;
}

int mr_value_begin(mr_enc *e, const mr_type *formal, mr_val v, mr_value_out *o, uint64_t *n) {
  if (begun(e)) return -1;
  if (!lua_checkstack(e->L, 20)) mr_raise_memory(e->L);
  if (formal->kind == TK_ABSTRACT) {
    int r = put_abstract(e, formal, v);
    if (r) return r;
  }
  if (v.tt == RAW_NIL) { mr_out_u32(&e->o, 0); return 1; }
  *o = (mr_value_out){ .t = mr_itself(formal), .v = v, .strays = e->strays };
  if (formal->kind != TK_VALUEBOX) {
    if (v.tt != RAW_TABLE) return mr_wrong(e, formal->name ? formal->name : "value", v);
    if (find_type(e, formal, v, &o->t)) return -1;
    o->wrapped = o->t->kind == TK_VALUEBOX && o->t->element->kind != TK_STRUCT;
  }
  if (v.tt == RAW_TABLE && put_shared(e, o->t, v)) return 1;
  put_head(e, formal, o);
  if (mr_flat_out(e, o->t) && mr_put_flat(e, o->t, (const raw_table *)(uintptr_t)v.bits)) {
    mr_value_end(e, o);
    return 1;
  }
  if (mr_enter(e, v)) return -1;
  *n = o->t->kind == TK_VALUEBOX ? 1 : o->t->n;
  if (o->t->value->custom) {
    if (mr_custom_begin(e, o->t, v, n)) return -1;
    o->list = lua_gettop(e->L);
    e->strays++;
  }
  return 0;
}

/* A value that its class wrote. */
static mr_val custom_part(mr_enc *e, const mr_value_out *o, uint64_t i, const mr_type **t) {
  lua_rawgeti(e->L, o->list, (lua_Integer)(2 * i + 1));
  *t = lua_istable(e->L, -1) ? mr_type_ready(e) : NULL;
  lua_pop(e->L, 1);
  lua_rawgeti(e->L, o->list, (lua_Integer)(2 * i + 2));
  e->strays++;
  mr_val v = mr_val_at(e, lua_gettop(e->L));
  if (!*t && !e->raised) mr_wrong(e, "type", v);
  return v;
}

mr_val mr_value_part(mr_enc *e, mr_value_out *o, uint64_t i, const mr_type **t) {
  if (PORT_UNLIKELY(o->list)) return custom_part(e, o, i, t);
  if (o->t->kind == TK_VALUEBOX) {
    *t = o->t->element;
    return o->wrapped ? mr_field(e, o->v, &e->env->own->members[1]) : o->v;
  }
  mr_member *m = &o->t->members[i];
  *t = m->type;
  return mr_field(e, o->v, m);
}

int mr_value_in_part(mr_enc *e, const mr_value_out *o, uint64_t i) {
  if (o->list) return mr_in_element(e, i + 1);
  if (o->t->kind == TK_VALUEBOX) return o->wrapped ? mr_in_member(e, "_value") : -1;
  return mr_in_member(e, o->t->members[i].name);
}

void mr_value_end(mr_enc *e, mr_value_out *o) {
  if (e->strays != o->strays) mr_drop(e, o->strays);
  if (!o->chunked) return;
  close_chunk(e);
  if (mr_out_length(&e->o) == e->values.end) e->o.at -= 4;     /* it ends this one, too */
  mr_out_u32(&e->o, -e->values.level);
  e->values.end = mr_out_length(&e->o);
  if (--e->values.level) open_chunk(e);
}

int mr_put_value(mr_enc *e, const mr_type *t, mr_val v) {
  mr_value_out o;
  uint64_t n;
  if (PORT_UNLIKELY(e->depth >= MR_RECURSION)) return mr_put_deep(e, t, v);
  int r = mr_value_begin(e, t, v, &o, &n);
  if (r) return r < 0 ? -1 : 0;
  int strays = e->strays;
  for (uint64_t i = 0; i < n; i++) {
    const mr_type *part;
    mr_val x = mr_value_part(e, &o, i, &part);
    if (PORT_UNLIKELY(!part || mr_put(e, part, x))) return mr_value_in_part(e, &o, i);
    if (PORT_UNLIKELY(e->strays != strays)) mr_drop(e, strays);
  }
  mr_value_end(e, &o);
  mr_leave(e);
  return 0;
}
