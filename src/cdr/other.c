/* other: the kinds that are seldom met, in both directions. */
#include "cdr/put.h"
#include "cdr/get.h"

int mr_put_other(mr_enc *e, const mr_type *t, mr_val v) {
  switch (t->kind) {
    case TK_WCHAR: return mr_put_wchar(e, v);
    case TK_WSTRING: return mr_put_wstring(e, t, v);
    default: return mr_refuse(e, "NO_IMPLEMENT", 0, "values of kind '%s' can't be sent yet", mr_kind_name(t));
  }
}

void mr_get_other(mr_dec *d, const mr_type *t) {
  switch (t->kind) {
    case TK_WCHAR: mr_get_wchar(d); break;
    case TK_WSTRING: mr_get_wstring(d, t); break;
    default: mr_dec_raise(d, "NO_IMPLEMENT", 0, "a value of a kind that can't be received yet");
  }
}
