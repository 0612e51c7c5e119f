-- builtin: orb.idl, which files include for CORBA's own types. CORBA::TypeCode, Object and ValueBase need no include.
return [[
#ifndef MARE_ORB_IDL
#define MARE_ORB_IDL
#pragma prefix "omg.org"
module CORBA {
  typedef string Identifier;
  typedef string RepositoryId;
  typedef string ScopedName;
  typedef string VersionSpec;
  typedef short Visibility;
  const Visibility PRIVATE_MEMBER = 0;
  const Visibility PUBLIC_MEMBER = 1;
  typedef unsigned long Flags;
  typedef unsigned long PolicyType;
  typedef sequence<any> AnySeq;
  typedef sequence<boolean> BooleanSeq;
  typedef sequence<char> CharSeq;
  typedef sequence<wchar> WCharSeq;
  typedef sequence<octet> OctetSeq;
  typedef sequence<short> ShortSeq;
  typedef sequence<unsigned short> UShortSeq;
  typedef sequence<long> LongSeq;
  typedef sequence<unsigned long> ULongSeq;
  typedef sequence<long long> LongLongSeq;
  typedef sequence<unsigned long long> ULongLongSeq;
  typedef sequence<float> FloatSeq;
  typedef sequence<double> DoubleSeq;
  typedef sequence<long double> LongDoubleSeq;
  typedef sequence<string> StringSeq;
  typedef sequence<wstring> WStringSeq;
  valuetype StringValue string;
  valuetype WStringValue wstring;
};
#endif
]]
