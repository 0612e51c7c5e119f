/*
 * get_list: sequences and arrays, from bytes to Lua.
 *
 * A list's length is believed when the bytes that are left can hold as many of the least its elements take, beside what the lists around it still
 * have to come (`reserved`); elements that take none are paid out of the budget. So all tables together have no more places than there are bytes.
 * Where elements may be nil the table says how many there are, as `n`.
 */
#include "cdr/get.h"
#include "cdr/flat.h"
#include "transfer/transfer.h"

static uint32_t length_of(mr_dec *d, const mr_type *t) {
  uint64_t n = t->fixed ? t->n : mr_in_u32(&d->in), least = t->element->min;
  if (!t->fixed && t->n && n > t->n) mr_dec_raise(d, "MARSHAL", 0, "a sequence longer than its type allows");
  uint64_t left = mr_in_left(&d->in), free = left > d->reserved ? left - d->reserved : 0;
  if (least ? n > free / least : n > d->budget) mr_dec_raise(d, "MARSHAL", 0, "a list longer than the bytes that are left");
  if (n > INT32_MAX) mr_dec_raise(d, "MARSHAL", 0, "a list too long");
  if (!least) d->budget -= n;
  return (uint32_t)n;
}

/* Numbers go into a raw array in one loop; a table with none but numbers never owes a barrier. */
#define FILL(size, type, word, convert) do { \
    const char *p = mr_in_take(&d->in, size, (size_t)n * size); \
    if (!p) return 1; \
    for (uint32_t i = 0; i < n; i++) { \
      type w; \
      memcpy(&w, p + (size_t)i * size, size); \
      if (d->in.swap) w = word; \
      a[i].bits = (uint64_t)(int64_t)convert; \
      a[i].tt = RAW_INT; \
    } \
    return 1; \
  } while (0)

/* 0: these aren't numbers, or there may be a gap between them. */
static int fill_numbers(mr_dec *d, const mr_type *t, raw_value *a, uint32_t n) {
  if (PORT_UNLIKELY(d->in.stop != d->in.end)) return 0;
  switch (t->kind) {
    case TK_SHORT: FILL(2, uint16_t, cdr_swap16(w), (int16_t)w);
    case TK_USHORT: FILL(2, uint16_t, cdr_swap16(w), w);
    case TK_LONG: FILL(4, uint32_t, cdr_swap32(w), (int32_t)w);
    case TK_ULONG: FILL(4, uint32_t, cdr_swap32(w), w);
    case TK_LONGLONG: case TK_ULONGLONG: FILL(8, uint64_t, cdr_swap64(w), w);
    case TK_DOUBLE: {
      const char *p = mr_in_take(&d->in, 8, (size_t)n * 8);
      if (!p) return 1;
      for (uint32_t i = 0; i < n; i++) {
        memcpy(&a[i].bits, p + (size_t)i * 8, 8);
        if (d->in.swap) a[i].bits = cdr_swap64(a[i].bits);
        a[i].tt = RAW_FLT;
      }
      return 1;
    }
    default: return 0;
  }
}

/* The value on top becomes element i of the list below it. */
static inline void store(mr_dec *d, uint32_t i) {
  lua_State *L = d->L;
  if (PORT_LIKELY(d->raw)) {
    raw_value *v = raw_top(L) - 1;
    raw_table *list = (raw_table *)(uintptr_t)(v - 1)->bits;
    if (PORT_LIKELY(!raw_isblack(list) || !(v->tt & RAW_COLLECTABLE))) {
      list->array[i].bits = v->bits;
      list->array[i].tt = v->tt;
      raw_pop(L);
      return;
    }
  }
  lua_rawseti(L, -2, (lua_Integer)i + 1);
}

void mr_list_store(mr_dec *d, uint32_t i) { store(d, i); }

int mr_list_begin_get(mr_dec *d, const mr_type *t, uint32_t *length) {
  lua_State *L = d->L;
  mr_dec_enter(d, 0);
  uint32_t n = length_of(d, t);
  if (PORT_UNLIKELY(d->in.bad != NULL)) mr_dec_bad(d);
  lua_createtable(L, (int)n, mr_may_be_nil(t->element) && !t->fixed);
  if (n && d->raw && fill_numbers(d, t->element, ((raw_table *)(uintptr_t)(raw_top(L) - 1)->bits)->array, n)) return 1;
  d->reserved += n * t->element->min;
  *length = n;
  return 0;
}

void mr_list_end(mr_dec *d, const mr_type *t, uint32_t n) {
  if (!mr_may_be_nil(t->element) || t->fixed) return;
  lua_pushliteral(d->L, "n");
  lua_pushinteger(d->L, n);
  lua_rawset(d->L, -3);
}

void mr_get_sequence(mr_dec *d, const mr_type *t) {
  const mr_type *element = t->element;
  uint32_t n;
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) { mr_get_deep(d, t); return; }
  if (mr_list_begin_get(d, t, &n)) { mr_dec_leave(d); return; }
  int flat = element->kind == TK_STRUCT && mr_flat_in(d, element);
  if (flat && PORT_UNLIKELY(!lua_checkstack(d->L, MR_FLAT_MOST))) mr_raise_memory(d->L);
  for (uint32_t i = 0; i < n; i++) {
    d->reserved -= element->min;
    if (!flat || PORT_UNLIKELY(!mr_get_flat(d, element))) mr_get(d, element);
    store(d, i);
  }
  mr_list_end(d, t, n);
  mr_dec_leave(d);
}
