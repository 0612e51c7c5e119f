/*
 * put_list: sequences and arrays, from Lua to bytes.
 *
 * A list is read without metamethods. Its length is what `#` gives, or its field `n` where elements may be nil; a value behind that is a hole
 * before it, which is refused. So is a table without elements whose __len promises some. Numbers in a raw array go in one loop.
 */
#include "cdr/put.h"
#include "cdr/flat.h"

static inline mr_val element(mr_enc *e, mr_val list, uint64_t i) {
  mr_val v = { 0, RAW_NIL };
  if (e->raw) {
    const raw_table *t = (const raw_table *)(uintptr_t)list.bits;
    if (PORT_LIKELY(i <= raw_arraysize(t))) {
      v.bits = t->array[i - 1].bits;
      v.tt = t->array[i - 1].tt;
      if (raw_isnil(v.tt)) v.tt = RAW_NIL;
      return v;
    }
    lua_rawgeti(e->L, -1, (lua_Integer)i);     /* the list is on top */
  } else lua_rawgeti(e->L, (int)list.bits, (lua_Integer)i);
  e->strays++;
  return mr_val_at(e, lua_gettop(e->L));
}

mr_val mr_list_element(mr_enc *e, mr_val list, uint64_t i) { return element(e, list, i); }

/* ---- how long ---- */

/* An integer key from above n to `most` is a hole before it. The list is on top of the stack. */
static int has_more_api(lua_State *L, uint64_t n) {
  int found = 0;
  lua_pushnil(L);
  while (!found && lua_next(L, -2)) {
    found = lua_isinteger(L, -2) && lua_tointegerx(L, -2, NULL) > (lua_Integer)n;
    lua_pop(L, 1);
  }
  if (found) lua_pop(L, 1);
  return found;
}

static int has_more_raw(const raw_table *t, uint64_t n) {
  for (uint64_t i = n, size = raw_arraysize(t); i < size; i++) if (!raw_isnil(t->array[i].tt)) return 1;
  for (uint32_t i = 0, size = raw_nodes(t); i < size; i++) {
    const raw_node *node = &t->node[i];
    if (!raw_isnil(node->tt) && node->key_tt == RAW_INT && (int64_t)node->key > (int64_t)n) return 1;
  }
  return 0;
}

static int n_field(mr_enc *e, mr_val list, lua_Integer *n) {
  lua_State *L = e->L;
  if (e->raw) lua_pushvalue(L, -1);
  else lua_pushvalue(L, (int)list.bits);
  lua_rawgeti(L, e->fields, ENV_N);
  lua_rawget(L, -2);
  int isint, is = !lua_isnil(L, -1);
  *n = lua_tointegerx(L, -1, &isint);
  lua_pop(L, 2);
  if (is && (!isint || *n < 0 || *n > (lua_Integer)INT32_MAX)) return mr_refuse(e, "BAD_PARAM", 0, "its 'n' is no length");
  return is;
}

/* A table without elements: do they come from metamethods? */
static PORT_NOINLINE int is_virtual(mr_enc *e, mr_val list) {
  if (luaL_getmetafield(e->L, e->raw ? -1 : (int)list.bits, "__len") == LUA_TNIL) return 0;
  lua_pop(e->L, 1);
  return mr_refuse(e, "BAD_PARAM", 0, "a list with a metamethod __len and no elements of its own: copy them into a plain table");
}

/* The list has been entered. */
static int length_of(mr_enc *e, const mr_type *t, mr_val list, uint64_t *n) {
  lua_State *L = e->L;
  lua_Integer given;
  if (mr_may_be_nil(t->element)) {
    int is = n_field(e, list, &given);
    if (is < 0) return -1;
    if (is) { *n = (uint64_t)given; return 0; }
  }
  *n = t->fixed && mr_may_be_nil(t->element) ? t->n : lua_rawlen(L, e->raw ? -1 : (int)list.bits);
  int more;
  if (e->raw) more = has_more_raw((const raw_table *)(uintptr_t)list.bits, *n);
  else {
    lua_pushvalue(L, (int)list.bits);
    more = has_more_api(L, *n);
    lua_pop(L, 1);
  }
  if (!more && PORT_UNLIKELY(*n == 0)) return is_virtual(e, list);
  if (!more || (t->fixed && *n >= t->n)) return 0;
  mr_refuse(e, "BAD_PARAM", 0, "%s expected, got nil, a hole in the list%s", mr_kind_name(t->element),
            mr_may_be_nil(t->element) ? ": give its length as 'n'" : "");
  return mr_in_element(e, *n + 1);
}

/* ---- elements ---- */

/* Numbers of one size out of a raw array: how many of the first n went. The rest is for the general way, which also knows what is wrong. */
static uint64_t put_numbers(mr_enc *e, const mr_type *t, mr_val list, uint64_t n) {
  const raw_table *table = (const raw_table *)(uintptr_t)list.bits;
  const raw_value *a = table->array;
  uint64_t i = 0, size = raw_arraysize(table);
  if (n > size) n = size;
  if (n == 0 || e->o.swap) return 0;
  switch (t->element->kind) {
    case TK_LONG: case TK_ULONG: {
      int64_t low = t->element->kind == TK_LONG ? INT32_MIN : 0, high = t->element->kind == TK_LONG ? INT32_MAX : (int64_t)UINT32_MAX;
      mr_out_room(&e->o, n * 4 + OUT_SLACK);
      mr_out_pad(&e->o, 4);
      for (; i < n && a[i].tt == RAW_INT && (int64_t)a[i].bits >= low && (int64_t)a[i].bits <= high; i++) {
        uint32_t v = (uint32_t)a[i].bits;
        memcpy(e->o.at + 4 * i, &v, 4);
      }
      e->o.at += 4 * i;
      return i;
    }
    case TK_DOUBLE: case TK_LONGLONG: case TK_ULONGLONG: {
      uint8_t tt = t->element->kind == TK_DOUBLE ? RAW_FLT : RAW_INT;
      mr_out_room(&e->o, n * 8 + OUT_SLACK);
      mr_out_pad(&e->o, 8);
      for (; i < n && a[i].tt == tt; i++) memcpy(e->o.at + 8 * i, &a[i].bits, 8);
      e->o.at += 8 * i;
      return i;
    }
    default: return 0;
  }
}

/* Structs that are as expected: how many of the first n went. */
static uint64_t put_flats(mr_enc *e, const mr_type *element, mr_val list, uint64_t i, uint64_t n) {
  const raw_table *table = (const raw_table *)(uintptr_t)list.bits;
  const raw_value *a = table->array;
  uint64_t size = raw_arraysize(table);
  if (size > n) size = n;
  while (i < size && a[i].tt == RAW_TABLE && mr_put_flat(e, element, (const raw_table *)(uintptr_t)a[i].bits)) i++;
  return i;
}

static int put_elements(mr_enc *e, const mr_type *t, mr_val list, uint64_t i, uint64_t n) {
  int strays = e->strays, flat = t->element->kind == TK_STRUCT && mr_flat_out(e, t->element);
  for (; i < n; i++) {
    if (flat && (i = put_flats(e, t->element, list, i, n)) == n) break;
    mr_val v = element(e, list, i + 1);
    if (PORT_UNLIKELY(mr_put(e, t->element, v))) return mr_in_element(e, i + 1);
    if (PORT_UNLIKELY(e->strays != strays)) mr_drop(e, strays);
  }
  return 0;
}

static PORT_NOINLINE int wrong_length(mr_enc *e, const mr_type *t, uint64_t n) {
  unsigned long wanted = t->n;
  unsigned long long is = n;
  if (!t->fixed) return mr_refuse(e, "BAD_PARAM", 0, "at most %lu elements expected, got %llu", wanted, is);
  if (n > t->n) return mr_refuse(e, "BAD_PARAM", 0, "array of %lu expected, got %llu elements", wanted, is);
  mr_refuse(e, "BAD_PARAM", 0, "%s expected, got nil (the array has %lu elements)", mr_kind_name(t->element), wanted);
  return mr_in_element(e, n + 1);
}

int mr_list_begin(mr_enc *e, const mr_type *t, mr_val v, uint64_t *i, uint64_t *length) {
  uint64_t n;
  if (PORT_UNLIKELY(v.tt != RAW_TABLE)) return mr_wrong(e, t->fixed ? "array" : "sequence", v);
  if (mr_enter(e, v) || length_of(e, t, v, &n)) return -1;
  if (PORT_UNLIKELY((t->fixed && n != t->n) || (t->n && n > t->n))) return wrong_length(e, t, n);
  if (PORT_UNLIKELY(n > INT32_MAX)) return mr_refuse(e, "BAD_PARAM", 0, "a list too long");
  if (!t->fixed) mr_out_u32(&e->o, (uint32_t)n);
  *i = e->raw ? put_numbers(e, t, v, n) : 0;
  *length = n;
  return 0;
}

int mr_put_sequence(mr_enc *e, const mr_type *t, mr_val v) {
  uint64_t i, n;
  if (PORT_UNLIKELY(e->depth >= MR_RECURSION)) return mr_put_deep(e, t, v);
  if (mr_list_begin(e, t, v, &i, &n) || put_elements(e, t, v, i, n)) return -1;
  mr_leave(e);
  return 0;
}
