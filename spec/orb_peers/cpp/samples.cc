// The values. The same stand in java/Samples.java and samples.lua: change all three.
#include "samples.h"
#include <limits>
#include <cstring>
#include <cstdio>
#include <omniORB4/codeSets.h>

using namespace Shore;
typedef CORBA::ULong Index;

void prepare(cdrStream &s)
{
  static const GIOP::Version version = {1, 2};
  s.TCS_C(_OMNI_NS(omniCodeSet)::getTCS_C("ISO-8859-1", version));
  s.TCS_W(_OMNI_NS(omniCodeSet)::getTCS_W("UTF-16", version));
}

// What follows the TypeCode. Its encapsulations have octets between their members that mean nothing.
std::string value_bytes(const CORBA::Any &v)
{
  cdrMemoryStream s;
  CORBA::TypeCode_var type = v.type();
  CORBA::TypeCode::marshalTypeCode(type, s);
  return bytes(v).substr(s.bufSize());
}

// Structures taken out first: inside an any their padding is whatever was there.
template <class T> static bool same_as(const CORBA::Any &a, const CORBA::Any &b)
{
  const T *x, *y;
  return (a >>= x) && (b >>= y) && bytes(*x) == bytes(*y);
}

bool same_any(const CORBA::Any &a, const CORBA::Any &b)
{
  CORBA::TypeCode_var s = a.type(), t = b.type();
  if (s->kind() != t->kind() || !s->equivalent(t)) return false;
  CORBA::TypeCode_ptr p, q;
  if ((a >>= p) && (b >>= q)) return p->equal(q);
  const CORBA::WChar *v, *w;                               // a mark of byte order in front of them means nothing
  if ((a >>= v) && (b >>= w)) return same_wide(v, w);
  if ((a >>= CORBA::Any::to_wstring(v, 8)) && (b >>= CORBA::Any::to_wstring(w, 8))) return same_wide(v, w);
  return same_as<Shore::Deep>(a, b) || same_as<Shore::Mixeds>(a, b) || same_as<Shore::Point>(a, b) || value_bytes(a) == value_bytes(b);
}

bool same_wide(const CORBA::WChar *a, const CORBA::WChar *b)
{
  while (*a && *a == *b) { ++a; ++b; }
  return *a == *b;
}

std::string hex(const std::string &bytes)
{
  std::string text;
  char two[4];
  for (size_t i = 0; i < bytes.size() && i < 96; i++) {
    snprintf(two, sizeof two, "%02x", (unsigned char)bytes[i]);
    text += two;
  }
  return text;
}

namespace sample {

template <class T, size_t n> static T pick(const T (&list)[n], Index i)
{
  if (i >= n) throw CORBA::BAD_PARAM(0, CORBA::COMPLETED_NO);
  return list[i];
}

template <class Sequence, class T, size_t n> static void fill(Sequence &s, const T (&list)[n])
{
  s.length(n);
  for (Index k = 0; k < n; k++) s[k] = list[k];
}

CORBA::Short short_(Index i) { static const CORBA::Short v[] = {0, -32768, 32767}; return pick(v, i); }
CORBA::Long long_(Index i) { static const CORBA::Long v[] = {0, -2147483647 - 1, 2147483647}; return pick(v, i); }
CORBA::LongLong longlong_(Index i)
{
  static const CORBA::LongLong v[] = {0, INT64_MIN, INT64_MAX, 9007199254740993LL};
  return pick(v, i);
}
CORBA::UShort ushort_(Index i) { static const CORBA::UShort v[] = {0, 65535}; return pick(v, i); }
CORBA::ULong ulong_(Index i) { static const CORBA::ULong v[] = {0, 4294967295U}; return pick(v, i); }
CORBA::ULongLong ulonglong_(Index i)
{
  static const CORBA::ULongLong v[] = {0, UINT64_MAX, 9223372036854775808ULL};
  return pick(v, i);
}
CORBA::Float float_(Index i)
{
  static const CORBA::Float v[] = {0, -1.5f, std::numeric_limits<float>::max(), std::numeric_limits<float>::infinity()};
  return pick(v, i);
}
CORBA::Double double_(Index i)
{
  static const CORBA::Double v[] = {0, 3.141592653589793, 1e308, -std::numeric_limits<double>::infinity()};
  return pick(v, i);
}
CORBA::LongDouble longdouble_(Index i) { static const CORBA::LongDouble v[] = {0.5L, -1.25e300L}; return pick(v, i); }
CORBA::Boolean boolean_(Index i) { static const CORBA::Boolean v[] = {true, false}; return pick(v, i); }
CORBA::Char char_(Index i) { static const CORBA::Char v[] = {'a', '~', 0xe1}; return pick(v, i); }
CORBA::Octet octet_(Index i) { static const CORBA::Octet v[] = {0, 255}; return pick(v, i); }
CORBA::WChar wchar_(Index i) { static const CORBA::WChar v[] = {L'a', 0xe1, 0x2206, 0xfffd}; return pick(v, i); }
Tide tide_(Index i) { static const Tide v[] = {LOW, FALLING}; return pick(v, i); }

const char *string_(Index i)
{
  static std::string large;
  if (large.empty())
    for (int k = 0; k < 200000; k++) large += (char)('a' + k % 26);
  const char *v[] = {"", "low tide", "ol\xe1", large.c_str()};
  return pick(v, i);
}
const char *name8_(Index i) { static const char *const v[] = {"", "12345678"}; return pick(v, i); }
const CORBA::WChar *wstring_(Index i)
{
  static const CORBA::WChar *const v[] = {L"", L"ol\u00e1 \u2206 \u6f6e", nullptr};
  static const CORBA::WChar wave[] = {0xd83c, 0xdf0a, 0};            // U+1F30A as a surrogate pair
  return i == 2 ? wave : pick(v, i);
}
const CORBA::WChar *wide8_(Index i)
{
  static const CORBA::WChar *const v[] = {L"", L"\u2206\u2206\u2206\u2206\u2206\u2206\u2206\u2206"};
  return pick(v, i);
}

static CORBA::Fixed fixed(const char *text) { CORBA::Fixed f; f.NP_fromString(text); return f; }
void money_(Index i, Money &v)
{
  static const char *const t[] = {"12345.67", "99999.99", "-99999.99", "0.00", "-0.01"};
  v = fixed(pick(t, i));
}
void digits_(Index i, Digits &v)
{
  static const char *const t[] = {"9999999999999999999999999999999", "-1234567890123456789012345678901", "0"};
  v = fixed(pick(t, i));
}
void part_(Index i, Part &v) { static const char *const t[] = {"0.9999", "0.0001", "-0.5"}; v = fixed(pick(t, i)); }

void cube_(Index i, Cube v)
{
  for (int a = 0; a < 2; a++)
    for (int b = 0; b < 3; b++)
      for (int c = 0; c < 2; c++) v[a][b][c] = (a * 100 + b * 10 + c) * (i == 0 ? 1 : -1);
}
bool same_cube(const Cube a, const Cube b) { return memcmp(a, b, sizeof(Cube)) == 0; }
void names_(Index, Names v)
{
  v[0][0] = CORBA::string_dup("");
  v[0][1] = CORBA::string_dup("a");
  v[1][0] = CORBA::string_dup("bc");
  v[1][1] = CORBA::string_dup("ol\xe1");
}
bool same_names(const Names a, const Names b)
{
  for (int k = 0; k < 4; k++)
    if (strcmp(a[k / 2][k % 2], b[k / 2][k % 2]) != 0) return false;
  return true;
}
void six_(Index i, Six v) { for (int k = 0; k < 6; k++) v[k] = i == 0 ? k : 255; }
bool same_six(const Six a, const Six b) { return memcmp(a, b, 6) == 0; }
void four_(Index, Four v) { memcpy(v, "tide", 4); }
bool same_four(const Four a, const Four b) { return memcmp(a, b, 4) == 0; }
void corners_(Index, Corners v)
{
  v[0].x = -1; v[0].y = 0.5;
  v[1].x = 1; v[1].y = -0.5;
}
bool same_corners(const Corners a, const Corners b)
{
  return a[0].x == b[0].x && a[0].y == b[0].y && a[1].x == b[1].x && a[1].y == b[1].y;
}

void octets_(Index i, Octets &v)
{
  v.length(i == 0 ? 0 : i == 1 ? 256 : i == 2 ? 300000 : 10000);
  for (Index k = 0; k < v.length(); k++) v[k] = i == 1 ? k : k * 7 % 256;
}
void chars_(Index i, Chars &v) { static const char l[] = {'a', 'b', 'c', '~'}; if (i) fill(v, l); }
void booleans_(Index i, Booleans &v) { static const bool l[] = {true, false, true}; if (i) fill(v, l); }
void shorts_(Index i, Shorts &v) { static const CORBA::Short l[] = {-1, 0, 1}; if (i) fill(v, l); }
void longlongs_(Index i, LongLongs &v)
{
  static const CORBA::LongLong l[] = {INT64_MIN, INT64_MAX, 9007199254740993LL};
  if (i) fill(v, l);
}
void doubles_(Index i, Doubles &v) { static const double l[] = {0.1, -1e300}; if (i) fill(v, l); }
void strings_(Index i, Strings &v) { static const char *const l[] = {"", "a", "ol\xe1"}; if (i) fill(v, l); }
void wstrings_(Index i, WStrings &v) { static const CORBA::WChar *const l[] = {L"", L"\u2206"}; if (i) fill(v, l); }
void atmost4_(Index i, AtMost4 &v) { static const CORBA::Long l[] = {1, 2, 3, 4}; if (i) fill(v, l); }
void table_(Index i, Table &v)
{
  if (i == 0) return;
  v.length(3);
  v[0].length(1); v[0][0] = 1;
  v[2].length(2); v[2][0] = 2; v[2][1] = 3;
}
void cubes_(Index i, Cubes &v)
{
  if (i == 0) return;
  v.length(2);
  cube_(0, v[0]);
  cube_(1, v[1]);
}
void tides_(Index i, Tides &v) { static const Tide l[] = {LOW, RISING, HIGH, FALLING}; if (i) fill(v, l); }

void point_(Index i, Point &v)
{
  v.x = i == 0 ? -7 : 32767;
  v.y = i == 0 ? 2.25 : -1e-300;
}
void mixed_(Index i, Mixed &v)
{
  v.o = i ? 255 : 0; v.s = i ? -2 : 0; v.c = i ? 'm' : 'c'; v.l = i ? -3 : 0; v.b = i != 0; v.ll = i ? INT64_MIN + 1 : 0;
  v.f = i ? 0.5f : 0; v.st = i ? "mixed" : ""; v.d = i ? -2.5 : 0; v.t = i ? HIGH : LOW; v.us = i ? 65535 : 0;
  v.ul = i ? 4294967295U : 0; v.ull = i ? UINT64_MAX : 0;
  point_(0, v.p);
}
void mixeds_(Index i, Mixeds &v)
{
  v.length(i ? 1000 : 0);
  for (Index k = 0; k < v.length(); k++) {
    mixed_(1, v[k]);
    v[k].l = k;
  }
}
void deep_(Index, Deep &v)
{
  mixed_(1, v.m);
  v.ps.length(2);
  point_(0, v.ps[0]);
  point_(1, v.ps[1]);
  names_(0, v.n);
  v.tiny.length(2);
  v.tiny[0].length(3);
  for (int k = 0; k < 3; k++) v.tiny[0][k] = k + 1;
  v.a <<= (CORBA::Long)5;
}
void keywords_(Index, Keywords &v)
{
  v.end = 1; v.function = "two"; v.nil = true; v._cxx_and = 4; v.until = 5;
}
void tree_(Index i, Tree &v)
{
  if (i == 0) { v.name = "leaf"; return; }
  v.name = "root";
  v.kids.length(2);
  v.kids[0].name = "a";
  v.kids[1].name = "b";
  v.kids[1].kids.length(1);
  v.kids[1].kids[0].name = "c";
}

void byboolean_(Index i, ByBoolean &v) { if (i == 0) v.yes(5); else v.no("nay"); }
void onlytrue_(Index i, OnlyTrue &v) { if (i == 0) v.yes(-5); else v._default(); }
void bychar_(Index i, ByChar &v)
{
  if (i == 0) v.a(1);
  else if (i == 3) { v.other(2.5); v._d('z'); }
  else { v.bc(i == 1 ? "b" : "c"); v._d(i == 1 ? 'b' : 'c'); }
}
void byshort_(Index i, ByShort &v)
{
  if (i == 0) v.minus("minus one");
  else if (i == 1) v.least(-9);
  else if (i == 2) v.zero(true);
  else { v.other(200); v._d(77); }
}
void bylong_(Index i, ByLong &v) { if (i == 0) v.least(-1); else if (i == 1) v.greatest("top"); else { v._default(); v._d(5); } }
void byushort_(Index i, ByUshort &v)
{
  Point p;
  point_(0, p);
  if (i == 0) v.none(9); else if (i == 1) v.greatest(p); else { v._default(); v._d(5); }
}
void byulong_(Index i, ByUlong &v) { if (i == 0) v.greatest(INT64_MAX); else { v.other("other"); v._d(4294967295U); } }
void bytide_(Index i, ByTide &v)
{
  Point p;
  point_(0, p);
  if (i < 2) { v.turn(i + 1); v._d(i == 0 ? LOW : HIGH); }
  else if (i == 2) v.up("up");
  else { v.other(p); v._d(FALLING); }
}
void expr_(Index i, Expr &v)
{
  if (i == 0) { v.number(7); return; }
  Exprs inner, outer;
  inner.length(2);
  inner[0].number(2);
  inner[1].number(3);
  outer.length(3);
  outer[0].number(1);
  outer[1].sum(Exprs());
  outer[2].sum(inner);
  v.sum(outer);
}
void byfarushort_(Index i, ByFarUshort &v)
{
  Point p;
  point_(0, p);
  if (i == 0) v.greatest(p); else { v._default(); v._d(3); }
}
void bylonglong_(Index i, ByLongLong &v) { if (i == 0) v.least(-1); else if (i == 1) v.big("big"); else { v._default(); v._d(5); } }
void byfarulong_(Index i, ByFarUlong &v) { if (i == 0) v.greatest(-1); else { v.other("other"); v._d(1); } }
void byulonglong_(Index i, ByUlonglong &v)
{
  static const CORBA::Short l[] = {1, 2};
  Shorts s;
  fill(s, l);
  if (i == 0) v.greatest('g'); else { v.other(s); v._d(9223372036854775808ULL); }
}

}
