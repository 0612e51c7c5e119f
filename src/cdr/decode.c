/*
 * decode: bytes to Lua values. See type.h.
 *
 * Invariants: a value goes on the stack, and what it is made of lay there before; the bytes are a string below. An error is raised at once and
 * leaves nothing but garbage. A table is made when its values are there and nothing is allocated between its creation and its filling: then it
 * is not black, and is filled raw (layout.h). What a message may make is bounded by its bytes: list lengths by the bytes their elements need at
 * least (get_list.c), tables by `budget`, depth by MR_MAX_DEPTH (get_deep.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include "cdr/get.h"
#include "cdr/flat.h"
#include "lua/build.h"
#include "transfer/transfer.h"

/* ---- failures ---- */

static PORT_NORETURN void raise_at(mr_dec *d, const char *exception, int minor, const char *what, const char *at) {
  char text[300];
  snprintf(text, sizeof text, "%s (at byte %zu)", what, (size_t)(at - d->in.origin) + 1);
  mr_env_raise(d->L, d->fields, exception, minor, text, d->codec);
}
void mr_dec_raise(mr_dec *d, const char *exception, int minor, const char *what) { raise_at(d, exception, minor, what, d->in.at); }
void mr_dec_bad(mr_dec *d) { raise_at(d, "MARSHAL", 0, d->in.bad, d->in.bad_at); }

/* ---- tables ---- */

static PORT_NOINLINE void no_room(mr_dec *d) {
  if (lua_gettop(d->L) > MR_LUA_MAXSTACK / 2) mr_dec_raise(d, "MARSHAL", 0, "a value nested so deeply, with so many members, that Lua's stack can't hold it");
  mr_raise_memory(d->L);
}

void mr_dec_enter(mr_dec *d, uint32_t fields) {
  d->depth++;
  if (PORT_UNLIKELY(d->budget <= fields)) mr_dec_raise(d, "MARSHAL", 0, "more values than a message of this size can hold");
  d->budget -= fields + 1;
  if (PORT_UNLIKELY(!lua_checkstack(d->L, (int)fields + 12))) no_room(d);
}

static void build_api(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  int table = lua_gettop(L), first = table - (int)t->n;
  for (uint32_t i = 0; i < t->n; i++) {
    lua_pushlstring(L, t->members[i].name, t->members[i].length);
    lua_pushvalue(L, first + (int)i);
    lua_rawset(L, table);
  }
  if (t->n) {
    lua_replace(L, first);
    lua_settop(L, first);
  }
}

raw_table *mr_new_table(lua_State *L, const mr_type *t) {
  raw_global *g = raw_global_of(L);
  raw_table *table = raw_new_table(g);
  if (PORT_UNLIKELY(!table)) { lua_createtable(L, 0, 0); return NULL; }
  raw_push(L, RAW_TABLE, (uintptr_t)table);
  return PORT_LIKELY(raw_new_nodes(g, table, t->nodes, t->lsizenode, t->lastfree)) ? table : NULL;
}

void mr_build(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  uint32_t n = t->n;
  raw_table *table = NULL;
  if (PORT_LIKELY(t->lsizenode != 255 && d->raw)) table = mr_new_table(L, t);
  else lua_createtable(L, 0, (int)n);
  if (PORT_UNLIKELY(!table)) { build_api(d, t); return; }
  raw_value *top = raw_top(L) - 1, *from = top - n;
  for (uint32_t i = 0; i < n; i++) {
    raw_node *node = &table->node[t->members[i].place];
    node->bits = from[i].bits;
    node->tt = from[i].tt;
  }
  from->bits = top->bits;
  from->tt = top->tt;
  ((raw_state *)L)->top = from + 1;
}

static inline void get_members(mr_dec *d, const mr_type *t) {
  mr_dec_enter(d, t->n);
  for (const mr_member *m = t->members, *last = m + t->n; m < last; m++) mr_get(d, m->type);
  mr_build(d, t);
  mr_dec_leave(d);
}

static PORT_NOINLINE void get_struct(mr_dec *d, const mr_type *t) {
  if (mr_flat_in(d, t)) {
    if (PORT_UNLIKELY(!lua_checkstack(d->L, MR_FLAT_MOST))) no_room(d);
    if (PORT_LIKELY(mr_get_flat(d, t))) return;
  }
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) mr_get_deep(d, t);
  else get_members(d, t);
}

void mr_except_begin(mr_dec *d) {
  size_t n;
  const char *id = mr_in_text(&d->in, &n);
  if (!id) mr_dec_bad(d);
  lua_pushlstring(d->L, id, n);
}

void mr_except_end(mr_dec *d) {
  lua_State *L = d->L;
  lua_pushliteral(L, "_repid");
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_remove(L, -2);
}

static PORT_NOINLINE void get_except(mr_dec *d, const mr_type *t) {
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) { mr_get_deep(d, t); return; }
  mr_except_begin(d);
  get_members(d, t);
  mr_except_end(d);
}

static void get_enum(mr_dec *d, const mr_type *t) {
  uint32_t i = mr_in_u32(&d->in);
  if (PORT_UNLIKELY(i >= t->n)) mr_dec_raise(d, "MARSHAL", 0, "a number that is no label of its enum");
  const mr_member *m = &t->members[i];
  if (PORT_LIKELY(d->raw && m->key)) raw_push(d->L, RAW_SHORT, m->key);
  else lua_pushlstring(d->L, m->name, m->length);
}

static void get_boolean(mr_dec *d) {
  int yes = mr_in_u8(&d->in) != 0;
  if (PORT_LIKELY(d->raw)) raw_push(d->L, yes ? RAW_TRUE : RAW_FALSE, 0);
  else lua_pushboolean(d->L, yes);
}

static void get_float(mr_dec *d) {
  uint32_t bits = mr_in_u32(&d->in);
  float f;
  memcpy(&f, &bits, 4);
  mr_get_number(d, (double)f);
}

static void get_double(mr_dec *d) {
  uint64_t bits = mr_in_u64(&d->in);
  double n;
  memcpy(&n, &bits, 8);
  mr_get_number(d, n);
}

void mr_get(mr_dec *d, const mr_type *t) {
  switch (t->kind) {
    case TK_SHORT: mr_get_integer(d, (int16_t)mr_in_u16(&d->in)); break;
    case TK_USHORT: mr_get_integer(d, mr_in_u16(&d->in)); break;
    case TK_LONG: mr_get_integer(d, (int32_t)mr_in_u32(&d->in)); break;
    case TK_ULONG: mr_get_integer(d, mr_in_u32(&d->in)); break;
    case TK_LONGLONG: case TK_ULONGLONG: mr_get_integer(d, (int64_t)mr_in_u64(&d->in)); break;
    case TK_OCTET: mr_get_integer(d, mr_in_u8(&d->in)); break;
    case TK_INT8: mr_get_integer(d, (int8_t)mr_in_u8(&d->in)); break;
    case TK_FLOAT: get_float(d); break;
    case TK_DOUBLE: get_double(d); break;
    case TK_BOOLEAN: get_boolean(d); break;
    case TK_CHAR: mr_get_char(d); break;
    case TK_STRING: mr_get_string(d, t); break;
    case TK_STRUCT: get_struct(d, t); break;
    case TK_EXCEPT: get_except(d, t); break;
    case TK_ENUM: get_enum(d, t); break;
    case TK_SEQUENCE: case TK_ARRAY: mr_get_sequence(d, t); break;
    case TK_OCTETS: case TK_CHARS: mr_get_octets(d, t); break;
    case TK_NULL: case TK_VOID: lua_pushnil(d->L); break;
    default: mr_get_other(d, t); break;
  }
  if (PORT_UNLIKELY(d->in.bad != NULL)) mr_dec_bad(d);
}
