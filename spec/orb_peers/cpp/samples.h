// The samples of rich.idl in C++, and what compares values: scalars with ==, all else by its marshalled bytes.
// A list macro names every t_X operation once; server and client are made from it.
#ifndef SAMPLES_H
#define SAMPLES_H
#include <omniORB4/CORBA.h>
#include <omniORB4/cdrStream.h>
#include <string>
#include "rich.hh"

// OP(name, type, number of samples); by how C++ passes them
#define SHORE_SCALARS(OP) \
  OP(short, CORBA::Short, 3) OP(long, CORBA::Long, 3) OP(longlong, CORBA::LongLong, 4) OP(ushort, CORBA::UShort, 2) \
  OP(ulong, CORBA::ULong, 2) OP(ulonglong, CORBA::ULongLong, 3) OP(float, CORBA::Float, 4) OP(double, CORBA::Double, 4) \
  OP(boolean, CORBA::Boolean, 2) OP(char, CORBA::Char, 2) OP(octet, CORBA::Octet, 2) OP(tide, Shore::Tide, 2)
#define SHORE_STRINGS(OP) OP(string, char, 4) OP(name8, char, 2)
#define SHORE_WIDE_STRINGS(OP) OP(wstring, CORBA::WChar, 3) OP(wide8, CORBA::WChar, 2)
#define SHORE_FIXED(OP) \
  OP(money, Shore::Money, 3) OP(digits, Shore::Digits, 2) OP(part, Shore::Part, 1) OP(point, Shore::Point, 2) \
  OP(onlytrue, Shore::OnlyTrue, 2) OP(byushort, Shore::ByUshort, 2)
#define SHORE_VARIABLE(OP) \
  OP(octets, Shore::Octets, 4) OP(chars, Shore::Chars, 2) OP(booleans, Shore::Booleans, 2) OP(shorts, Shore::Shorts, 2) \
  OP(longlongs, Shore::LongLongs, 2) OP(doubles, Shore::Doubles, 2) OP(strings, Shore::Strings, 2) OP(atmost4, Shore::AtMost4, 2) \
  OP(table, Shore::Table, 2) OP(cubes, Shore::Cubes, 2) OP(tides, Shore::Tides, 2) OP(mixed, Shore::Mixed, 2) \
  OP(mixeds, Shore::Mixeds, 2) OP(deep, Shore::Deep, 1) OP(keywords, Shore::Keywords, 1) OP(tree, Shore::Tree, 2) \
  OP(byboolean, Shore::ByBoolean, 2) OP(bychar, Shore::ByChar, 3) OP(byshort, Shore::ByShort, 3) OP(bylong, Shore::ByLong, 2) \
  OP(byulong, Shore::ByUlong, 1) OP(bytide, Shore::ByTide, 4) OP(expr, Shore::Expr, 2) OP(anys, Shore::Anys, 2)
#define SHORE_WIDE(OP) OP(wstrings, Shore::WStrings, 2)
#define SHORE_ARRAYS(OP) \
  OP(cube, Shore::Cube, 2) OP(names, Shore::Names, 1) OP(six, Shore::Six, 2) OP(four, Shore::Four, 1) OP(corners, Shore::Corners, 1)
#define MORE_FIXED(OP) OP(byfarushort, Shore::ByFarUshort, 2)
#define MORE_VARIABLE(OP) \
  OP(bylonglong, Shore::ByLongLong, 3) OP(byfarulong, Shore::ByFarUlong, 2) OP(byulonglong, Shore::ByUlonglong, 2)

namespace sample {
extern const char *const any_names[];
extern const CORBA::ULong any_count, typecode_count;
extern const char *const wide_names[];
extern const CORBA::ULong wide_count;

#define OP(name, type, n) type name##_(CORBA::ULong i);
SHORE_SCALARS(OP)
OP(wchar, CORBA::WChar, 4)
OP(longdouble, CORBA::LongDouble, 2)
#undef OP
#define OP(name, type, n) const type *name##_(CORBA::ULong i);
SHORE_STRINGS(OP)
SHORE_WIDE_STRINGS(OP)
#undef OP
#define OP(name, type, n) void name##_(CORBA::ULong i, type &v);
SHORE_FIXED(OP)
SHORE_VARIABLE(OP)
SHORE_WIDE(OP)
MORE_FIXED(OP)
MORE_VARIABLE(OP)
OP(any, CORBA::Any, 0)
OP(wideany, CORBA::Any, 0)
#undef OP
#define OP(name, type, n) void name##_(CORBA::ULong i, type v); bool same_##name(const type a, const type b);
SHORE_ARRAYS(OP)
#undef OP
CORBA::TypeCode_ptr typecode_(CORBA::ULong i);       // not the caller's
}

void prepare(cdrStream &s);                           // gives it code sets
std::string value_bytes(const CORBA::Any &v);

template <class T> std::string bytes(const T &v)
{
  cdrMemoryStream s(0, true);                         // zeros between the values
  prepare(s);
  v >>= s;
  return std::string((const char *)s.bufPtr(), s.bufSize());
}
// A copied fixed has forgotten its limits and can't be marshalled again.
inline std::string digits_of(const CORBA::Fixed &v) { CORBA::String_var s = v.NP_asString(); return s.in(); }
template <> inline std::string bytes(const Shore::Money &v) { return digits_of(v); }
template <> inline std::string bytes(const Shore::Digits &v) { return digits_of(v); }
template <> inline std::string bytes(const Shore::Part &v) { return digits_of(v); }
// Equal TypeCodes and equal values.
bool same_any(const CORBA::Any &a, const CORBA::Any &b);
bool same_wide(const CORBA::WChar *a, const CORBA::WChar *b);
std::string hex(const std::string &bytes);
#endif
