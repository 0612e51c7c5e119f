/* put: what the files that encode share. Each returns 0, or -1 with e->exception set. */
#ifndef MR_CDR_PUT_H
#define MR_CDR_PUT_H

#include "cdr/type.h"

int mr_put_char(mr_enc *e, mr_val v);
int mr_put_string(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_octets(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_sequence(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_other(mr_enc *e, const mr_type *t, mr_val v);       /* the kinds that are seldom met */
int mr_put_wchar(mr_enc *e, mr_val v);
int mr_put_unit(mr_enc *e, uint32_t unit);
int mr_put_wstring(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_union(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_any(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_typecode(mr_enc *e, mr_val v);
int mr_put_reference(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_fixed(mr_enc *e, const mr_type *t, mr_val v);

/* The parts of those that hold others. What begins enters v, and its values go on from there; mr_leave ends it. */
int mr_struct_begin(mr_enc *e, const mr_type *t, mr_val v);
int mr_list_begin(mr_enc *e, const mr_type *t, mr_val v, uint64_t *i, uint64_t *n);   /* of n elements i went already */
mr_val mr_list_element(mr_enc *e, mr_val list, uint64_t i);                           /* from 1; the list is on top of the stack */
int mr_union_begin(mr_enc *e, const mr_type *t, mr_val v, const mr_member **m);       /* the member whose value follows, or NULL */
mr_val mr_union_value(mr_enc *e, mr_val v, const mr_member *m);
int mr_any_begin(mr_enc *e, mr_val v, const mr_type **inside);                        /* 1: that was all of it */
mr_val mr_any_value(mr_enc *e, mr_val v);

int mr_enum_ordinal(mr_enc *e, const mr_type *t, mr_val v, uint32_t *ordinal);

/* Runs f, protected, with the n values on top of the stack; its one result, or the error object (e->raised), replaces them. */
int mr_foreign(mr_enc *e, lua_CFunction f, int n);
static inline void mr_push_val(mr_enc *e, mr_val v) {
  if (e->raw) raw_push(e->L, v.tt, v.bits);
  else if (v.tt & RAW_COLLECTABLE) lua_pushvalue(e->L, (int)v.bits);
  else switch (v.tt) {
    case RAW_INT: lua_pushinteger(e->L, (lua_Integer)v.bits); break;
    case RAW_FLT: { lua_Number n; memcpy(&n, &v.bits, sizeof n); lua_pushnumber(e->L, n); break; }
    case RAW_FALSE: case RAW_TRUE: lua_pushboolean(e->L, v.tt == RAW_TRUE); break;
    case RAW_LIGHT: lua_pushvalue(e->L, (int)v.bits); break;
    default: lua_pushnil(e->L); break;
  }
}

#endif
