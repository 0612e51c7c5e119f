/* get: what the files that decode share. Each pushes one value, or raises. */
#ifndef MR_CDR_GET_H
#define MR_CDR_GET_H

#include "cdr/type.h"

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
