/* get: what the files that decode share. Each pushes one value, or raises. */
#ifndef MR_CDR_GET_H
#define MR_CDR_GET_H

#include "cdr/type.h"

enum { MR_SHORT_TEXT = 40 };                     /* bytes of a string that Lua has once, as it is configured usually */

void mr_get_char(mr_dec *d);
void mr_get_string(mr_dec *d, const mr_type *t);
void mr_get_octets(mr_dec *d, const mr_type *t);
void mr_get_sequence(mr_dec *d, const mr_type *t);
void mr_get_other(mr_dec *d, const mr_type *t);
void mr_get_wchar(mr_dec *d);
void mr_get_wstring(mr_dec *d, const mr_type *t);
void mr_get_union(mr_dec *d, const mr_type *t);
void mr_get_any(mr_dec *d, const mr_type *t);
void mr_get_typecode(mr_dec *d);
void mr_get_reference(mr_dec *d, const mr_type *t);
void mr_get_fixed(mr_dec *d, const mr_type *t);

/* The parts of those that hold others. */
void mr_except_begin(mr_dec *d);                                    /* pushes the repository id */
void mr_except_end(mr_dec *d);                                      /* the table on top gets the id below it, and takes its place */
int  mr_list_begin_get(mr_dec *d, const mr_type *t, uint32_t *n);   /* pushes the list, of n elements; 1: they are in it */
void mr_list_store(mr_dec *d, uint32_t i);                          /* the value on top becomes element i, from 0, of the list below it */
void mr_list_end(mr_dec *d, const mr_type *t, uint32_t n);
const mr_type *mr_union_begin_get(mr_dec *d, const mr_type *t);     /* pushes what stands before the value; NULL: there is no value, and nil is pushed */
const mr_type *mr_any_begin_get(mr_dec *d);                         /* the same */

/* The n values on top become the fields of a new table, in the members' order; it is pushed in their place. */
void mr_build(mr_dec *d, const mr_type *t);
/* Pushes a table with the members of t as keys, to be filled raw. NULL: it is empty, and can't be. */
raw_table *mr_new_table(lua_State *L, const mr_type *t);
void mr_dec_enter(mr_dec *d, uint32_t fields); /* one level deeper: room on the stack for the fields of a table, which are paid out of the budget */
static inline void mr_dec_leave(mr_dec *d) {
  mr_assert(d->depth > 0);
  d->depth--;
}
PORT_NORETURN void mr_dec_bad(mr_dec *d);      /* raises what d->in found */

/* ---- short strings that were met lately need not be made again: get_text.c ---- */

static inline uint64_t mr_load64(const char *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}
static inline uint64_t mr_load32(const char *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}
/* All of up to 16 bytes, the first and the last eight of more. */
typedef struct mr_ends { uint64_t first, last; } mr_ends;
static inline mr_ends mr_text_ends(const char *s, size_t n) {
  if (PORT_LIKELY(n >= 8)) return (mr_ends){ mr_load64(s), mr_load64(s + n - 8) };
  if (n >= 4) return (mr_ends){ mr_load32(s), mr_load32(s + n - 4) };
  if (n == 0) return (mr_ends){ 0, 0 };
  return (mr_ends){ (uint64_t)(unsigned char)s[0] << 8 | (unsigned char)s[n / 2], (unsigned char)s[n - 1] };
}

/* Where a string would be kept; NULL: nowhere. */
static inline raw_value *mr_kept(const mr_dec *d, uint32_t place) {
  return PORT_LIKELY(d->raw && raw_arraysize(d->env->kept) >= MR_KEPT) ? d->env->kept->array + place : NULL;
}
static inline const raw_value *mr_kept_char(const mr_dec *d, char c) {
  const raw_value *v = (unsigned char)c < MR_KEPT_CHARS ? mr_kept(d, (unsigned char)c) : NULL;
  return v && v->tt == RAW_SHORT ? v : NULL;
}
void mr_push_new_text(mr_dec *d, const char *s, size_t n, uint32_t place);   /* and keeps it there */

/* n bytes that need no conversion. */
static inline void mr_push_text(mr_dec *d, const char *s, size_t n) {
  if (n <= MR_SHORT_TEXT) {
    const mr_ends ends = mr_text_ends(s, n);
    const uint64_t mixed = (ends.first ^ (ends.last << 7 | ends.last >> 57) ^ n) * UINT64_C(0x9E3779B97F4A7C15);
    const uint32_t place = MR_KEPT_CHARS + (uint32_t)(mixed >> 58);
    const raw_value *v = mr_kept(d, place);
    const raw_string *r = v && v->tt == RAW_SHORT ? (const raw_string *)(uintptr_t)v->bits : NULL;
    if (PORT_LIKELY(r && r->shrlen == n)) {
      const mr_ends its = mr_text_ends(r->text, n);
      if (its.first == ends.first && its.last == ends.last && (n <= 16 || memcmp(s + 8, r->text + 8, n - 16) == 0)) {
        raw_push(d->L, RAW_SHORT, v->bits);
        return;
      }
    }
    mr_push_new_text(d, s, n, place);
  } else lua_pushlstring(d->L, s, n);
}

static inline void mr_get_integer(mr_dec *d, int64_t n) {
  if (PORT_LIKELY(d->raw)) raw_push(d->L, RAW_INT, (uint64_t)n);
  else lua_pushinteger(d->L, n);
}
static inline void mr_get_number(mr_dec *d, double n) {
  uint64_t bits;
  memcpy(&bits, &n, sizeof bits);
  if (PORT_LIKELY(d->raw)) raw_push(d->L, RAW_FLT, bits);
  else lua_pushnumber(d->L, n);
}

#endif
