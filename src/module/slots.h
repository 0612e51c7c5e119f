/*
 * slots: how straight functions of calls (orb.h, ludo_call.c, ludo_serve.c) read and write the tables that Lua's side keeps its state in.
 *
 * A field is found where the last table had it: some ten instructions. Only numbers and booleans are written so, which need no barrier. All of it needs
 * Lua's layouts (lua/layout.h).
 */
#ifndef MODULE_SLOTS_H
#define MODULE_SLOTS_H

#include "module/module.h"
#include "lua/layout.h"

/* A field by its name, a short string that somebody keeps. */
typedef struct mr_slot { uint64_t key; uint32_t hint; } mr_slot;

/* Where its value lies; NULL: the table has none. */
static inline raw_value *mr_slot_in(const raw_table *t, mr_slot *s) {
  const raw_node *node = mr_find_node(t, s->key, &s->hint);
  return PORT_LIKELY(node != NULL) ? (raw_value *)(uintptr_t)node : NULL;
}
/* Its tag; nil where there is none. */
static inline uint8_t mr_slot_tag(const raw_table *t, mr_slot *s) {
  const raw_value *v = mr_slot_in(t, s);
  return PORT_LIKELY(v != NULL) ? v->tt : RAW_NIL;
}
static inline int mr_slot_is_set(const raw_table *t, mr_slot *s) {          /* neither nil nor false */
  uint8_t tt = mr_slot_tag(t, s);
  return !raw_isnil(tt) && tt != RAW_FALSE;
}
static inline int mr_slot_integer(const raw_table *t, mr_slot *s, int64_t *n) {
  const raw_value *v = mr_slot_in(t, s);
  *n = 0;
  if (PORT_UNLIKELY(!v || v->tt != RAW_INT)) return 0;
  *n = (int64_t)v->bits;
  return 1;
}
static inline raw_table *mr_slot_table(const raw_table *t, mr_slot *s) {
  const raw_value *v = mr_slot_in(t, s);
  return PORT_LIKELY(v && v->tt == RAW_TABLE) ? (raw_table *)(uintptr_t)v->bits : NULL;
}
/* The table at an index, counted from the first argument on, or from the top if it is below 0; NULL: there is none. */
static inline raw_table *mr_table_at(lua_State *L, int idx) {
  const raw_value *v = idx > 0 ? raw_arguments(L) + idx - 1 : raw_top(L) + idx;
  return v < raw_top(L) && v->tt == RAW_TABLE ? (raw_table *)(uintptr_t)v->bits : NULL;
}

/* Each file lists the fields it knows as FIELDS(F), F(name) each; then enum { FIELDS(MR_F_NUMBER) NFIELDS }, names[] = { FIELDS(MR_F_NAME) }, and k->slots. */
#define MR_F_NUMBER(name) F_##name,
#define MR_F_NAME(name) #name,
#define SLOT(k, name) (&(k)->slots[F_##name])
#define IS_SET(t, k, name) mr_slot_is_set(t, SLOT(k, name))
#define INTEGER(t, k, name, n) mr_slot_integer(t, SLOT(k, name), n)
#define TABLE(t, k, name) mr_slot_table(t, SLOT(k, name))
#define SET_INTEGER(t, k, name, n) mr_slot_set(t, SLOT(k, name), RAW_INT, (uint64_t)(n))
#define SET_BOOLEAN(t, k, name, yes) mr_slot_set(t, SLOT(k, name), (yes) ? RAW_TRUE : RAW_FALSE, 0)

/* Writes what is not collected into a field that the table has. 0: it has none. */
static inline int mr_slot_set(const raw_table *t, mr_slot *s, uint8_t tt, uint64_t bits) {
  raw_value *v = mr_slot_in(t, s);
  if (PORT_UNLIKELY(!v)) return 0;
  v->bits = bits;
  v->tt = tt;
  return 1;
}

/* Writes what may be collected into a field of the table at idx; nothing is done where it holds that already. */
static inline void mr_slot_put(lua_State *L, int idx, mr_slot *s, const raw_value *v) {
  const raw_value *old = mr_slot_in(mr_table_at(L, idx), s);
  if (PORT_LIKELY(old && old->bits == v->bits && old->tt == v->tt)) return;
  raw_value copy = *v;
  raw_push(L, RAW_SHORT, s->key);
  raw_push(L, copy.tt, copy.bits);
  lua_rawset(L, idx);
}

/* The values at the index `from` and above become elements 1, 2 … of a table, and its field n how many they are. */
static inline void mr_slot_fill(lua_State *L, raw_table *t, mr_slot *n, int from, int many) {
  if (PORT_UNLIKELY(!t)) return;
  for (int i = 0; i < many; i++) {
    const raw_value *v = raw_arguments(L) + from - 1 + i;
    if (PORT_LIKELY((uint32_t)i < raw_arraysize(t) && (!(v->tt & RAW_COLLECTABLE) || !raw_isblack(t)))) {
      raw_set_element(t, (uint32_t)i, v);
      continue;
    }
    raw_push(L, RAW_TABLE, (uintptr_t)t);
    lua_pushvalue(L, from + i);
    lua_rawseti(L, -2, i + 1);
    lua_pop(L, 1);
  }
  mr_slot_set(t, n, RAW_INT, (uint64_t)many);
}

/* Pushes n values once more, those from the index `from` on. */
static inline void mr_push_again(lua_State *L, int from, int n) {
  for (int i = 0; i < n; i++) {
    const raw_value *v = raw_arguments(L) + from - 1 + i;
    raw_push(L, v->tt, v->bits);
  }
}

/* Names in the order of an enumeration become slots; they are kept by the list on top, from its place 1 on. */
static inline void mr_slots_make(lua_State *L, mr_slot *slots, const char *const *names, int n) {
  for (int i = 0; i < n; i++) {
    lua_pushstring(L, names[i]);
    slots[i] = (mr_slot){ (uintptr_t)lua_topointer(L, -1), 0 };
    lua_rawseti(L, -2, i + 1);
  }
}

#endif
