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
int mr_put_any(mr_enc *e, mr_val v);
int mr_put_typecode(mr_enc *e, mr_val v);
int mr_put_reference(mr_enc *e, const mr_type *t, mr_val v);
int mr_put_fixed(mr_enc *e, const mr_type *t, mr_val v);

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
