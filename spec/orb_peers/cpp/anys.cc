// Samples of any and TypeCode: one any for each kind, in the order of the names.
#include "samples.h"

using namespace Shore;
typedef CORBA::ULong Index;

namespace sample {

const char *const any_names[] = {"null", "short", "long", "longlong", "ushort", "ulong", "ulonglong", "float", "double", "boolean", "char", "octet",
  "string", "bounded string", "fixed", "enum", "alias", "struct", "nested struct", "recursive struct", "union", "recursive union", "sequence",
  "sequence of structs", "octets", "array", "array of strings", "nil reference", "any", "TypeCode", "exception"};
const Index any_count = sizeof any_names / sizeof *any_names;
const char *const wide_names[] = {"wchar", "wstring", "bounded wstring"};
const Index wide_count = 3;

template <class T> static void insert(CORBA::Any &v, void (*make)(Index, T &), Index i)
{
  T t;
  make(i, t);
  v <<= t;
}

static void scalar_any(Index i, CORBA::Any &v)
{
  switch (i) {
  case 0: break;
  case 1: v <<= short_(1); break;
  case 2: v <<= long_(1); break;
  case 3: v <<= longlong_(1); break;
  case 4: v <<= ushort_(1); break;
  case 5: v <<= ulong_(1); break;
  case 6: v <<= ulonglong_(1); break;
  case 7: v <<= float_(1); break;
  case 8: v <<= double_(1); break;
  case 9: v <<= CORBA::Any::from_boolean(true); break;
  case 10: v <<= CORBA::Any::from_char('z'); break;
  case 11: v <<= CORBA::Any::from_octet(255); break;
  case 12: v <<= "ol\xe1"; break;
  case 13: v <<= CORBA::Any::from_string("12345678", 8); v.type(_tc_Name8); break;
  }
}

static void fixed_any(CORBA::Any &v)
{
  Money m;
  money_(0, m);
  v <<= CORBA::Any::from_fixed(m, 7, 2);
  v.type(_tc_Money);
}

static void array_any(Index i, CORBA::Any &v)
{
  if (i == 25) {
    Cube c;
    cube_(0, c);
    v <<= Cube_forany(c);
  } else {
    Names n;
    names_(0, n);
    v <<= Names_forany(n);
  }
}

static void full_any(CORBA::Any &v)
{
  Full f;
  f.t = HIGH; f.n = -1; f.s = "full";
  point_(0, f.p);
  f.list.length(1);
  f.list[0] = "a";
  v <<= f;
}

void any_(Index i, CORBA::Any &v)
{
  CORBA::Any inner;
  switch (i) {
  case 14: fixed_any(v); break;
  case 15: v <<= RISING; break;
  case 16: v <<= (CORBA::Long)12; v.type(_tc_Metres); break;
  case 17: insert(v, point_, 0); break;
  case 18: insert(v, deep_, 0); break;
  case 19: insert(v, tree_, 1); break;
  case 20: insert(v, bytide_, 3); break;
  case 21: insert(v, expr_, 1); break;
  case 22: insert(v, shorts_, 1); break;
  case 23: insert(v, mixeds_, 1); break;
  case 24: insert(v, octets_, 1); break;
  case 25: case 26: array_any(i, v); break;
  case 27: v <<= Base::_nil(); break;
  case 28: inner <<= "inner"; v <<= inner; break;
  case 29: v <<= _tc_Tree; break;
  case 30: full_any(v); break;
  default: scalar_any(i, v);
  }
}

void wideany_(Index i, CORBA::Any &v)
{
  if (i == 0) v <<= CORBA::Any::from_wchar(0x2206);
  else if (i == 1) v <<= wstring_(1);
  else { v <<= CORBA::Any::from_wstring((CORBA::WChar *)wide8_(1), 8); v.type(_tc_Wide8); }
}

void anys_(Index i, Anys &v)
{
  if (i == 0) return;
  v.length(3);                                           // the middle one stays empty
  v[0] <<= (CORBA::Long)1;
  v[2] <<= "three";
}

CORBA::TypeCode_ptr typecode_(Index i)
{
  static const CORBA::TypeCode_ptr list[] = {CORBA::_tc_long, _tc_Name8, _tc_Mixed, _tc_Tree, _tc_Expr, _tc_Deep, _tc_Money, _tc_Cube, _tc_ByTide,
    _tc_Full, _tc_Rich, _tc_Wide8, _tc_Octets, _tc_Metres, _tc_Tide, _tc_ByShort, _tc_Forest, CORBA::_tc_null, CORBA::_tc_void};
  return list[i];
}
const Index typecode_count = 19;

}
