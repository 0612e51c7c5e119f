/* other: the kinds that are seldom met, in both directions. */
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/number.h"
#include "cdr/value.h"

/* ---- fixed ---- */

int mr_put_fixed(mr_enc *e, const mr_type *t, mr_val v) {
  unsigned char packed[16];
  char text[32];
  size_t n;
  const char *s = text;
  if (v.tt == RAW_INT) n = (size_t)lua_integer2str(text, sizeof text, (lua_Integer)v.bits);
  else if (v.tt == RAW_SHORT || v.tt == RAW_LONG) s = mr_val_text(e, v, &n);
  else return mr_wrong(e, "fixed (decimal digits in a string)", v);
  const char *problem = mr_fixed_pack(packed, s, n, t->n, t->scale);
  if (problem) return mr_refuse(e, "BAD_PARAM", 0, "fixed<%u,%u> expected, '%.40s' %s", (unsigned)t->n, (unsigned)t->scale, s, problem);
  mr_out_bytes(&e->o, packed, t->n / 2 + 1);
  return 0;
}

void mr_get_fixed(mr_dec *d, const mr_type *t) {
  char text[MR_FIXED_TEXT];
  const char *p = mr_in_take(&d->in, 1, t->n / 2 + 1);
  if (!p) return;
  size_t n = mr_fixed_text(text, (const unsigned char *)p, t->n, t->scale);
  if (n == 0) mr_dec_raise(d, "MARSHAL", 0, "a fixed value that is not made of decimal digits");
  lua_pushlstring(d->L, text, n);
}

/* ---- long double ---- */

static int put_quad(mr_enc *e, const mr_type *t, mr_val v) {
  uint64_t word[2];
  double n;
  if (v.tt == RAW_FLT) memcpy(&n, &v.bits, 8);
  else if (v.tt == RAW_INT) n = (double)(int64_t)v.bits;
  else return mr_wrong(e, mr_kind_name(t), v);
  mr_quad_from(word, n);
  int little = e->codec & CDR_LITTLE;
  mr_out_u64(&e->o, word[little]);
  mr_out_u64(&e->o, word[!little]);
  return 0;
}

static void get_quad(mr_dec *d) {
  uint64_t word[2];
  int little = d->codec & CDR_LITTLE;
  word[little] = mr_in_u64(&d->in);
  word[!little] = mr_in_u64(&d->in);
  mr_get_number(d, mr_quad_to(word));
}

int mr_put_other(mr_enc *e, const mr_type *t, mr_val v) {
  switch (t->kind) {
    case TK_WCHAR: return mr_put_wchar(e, v);
    case TK_WSTRING: return mr_put_wstring(e, t, v);
    case TK_UNION: return mr_put_union(e, t, v);
    case TK_OBJREF: return mr_put_reference(e, t, v);
    case TK_ANY: return mr_put_any(e, t, v);
    case TK_TYPECODE: return mr_put_typecode(e, v);
    case TK_FIXED: return mr_put_fixed(e, t, v);
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT: return mr_put_value(e, t, v);
    case TK_LONGDOUBLE: return put_quad(e, t, v);
    default: return mr_refuse(e, "NO_IMPLEMENT", 0, "values of kind '%s' can't be sent", mr_kind_name(t));
  }
}

void mr_get_other(mr_dec *d, const mr_type *t) {
  switch (t->kind) {
    case TK_WCHAR: mr_get_wchar(d); break;
    case TK_WSTRING: mr_get_wstring(d, t); break;
    case TK_UNION: mr_get_union(d, t); break;
    case TK_OBJREF: mr_get_reference(d, t); break;
    case TK_ANY: mr_get_any(d, t); break;
    case TK_TYPECODE: mr_get_typecode(d); break;
    case TK_FIXED: mr_get_fixed(d, t); break;
    case TK_VALUE: case TK_VALUEBOX: case TK_ABSTRACT: mr_get_value(d, t); break;
    case TK_LONGDOUBLE: get_quad(d); break;
    default: mr_dec_raise(d, "NO_IMPLEMENT", 0, "a value of a kind that can't be received");
  }
}
