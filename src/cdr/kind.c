/* kind: the kinds of types: their names in the tables of types, and the bytes that a value of them has at least. */
#include "cdr/type.h"

static const struct { const char *name; uint8_t kind, size; } kinds[] = {
  { "null", TK_NULL, 0 }, { "void", TK_VOID, 0 }, { "short", TK_SHORT, 2 }, { "long", TK_LONG, 4 }, { "ushort", TK_USHORT, 2 },
  { "ulong", TK_ULONG, 4 }, { "float", TK_FLOAT, 4 }, { "double", TK_DOUBLE, 8 }, { "boolean", TK_BOOLEAN, 1 }, { "char", TK_CHAR, 1 },
  { "octet", TK_OCTET, 1 }, { "any", TK_ANY, 4 }, { "TypeCode", TK_TYPECODE, 4 }, { "interface", TK_OBJREF, 9 }, { "struct", TK_STRUCT, 0 },
  { "union", TK_UNION, 0 }, { "enum", TK_ENUM, 4 }, { "string", TK_STRING, 5 }, { "sequence", TK_SEQUENCE, 4 }, { "array", TK_ARRAY, 0 },
  { "alias", TK_ALIAS, 0 }, { "except", TK_EXCEPT, 5 }, { "longlong", TK_LONGLONG, 8 }, { "ulonglong", TK_ULONGLONG, 8 },
  { "longdouble", TK_LONGDOUBLE, 16 }, { "wchar", TK_WCHAR, 1 }, { "wstring", TK_WSTRING, 4 }, { "fixed", TK_FIXED, 1 },
  { "value", TK_VALUE, 4 }, { "valuebox", TK_VALUEBOX, 4 }, { "native", TK_NATIVE, 0 },
  { "abstract interface", TK_ABSTRACT, 5 }, { "int8", TK_INT8, 1 },
};

static int place_of(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (strcmp(kinds[i].name, name) == 0) return (int)i;
  return -1;
}

int mr_kind_of(const char *name) {
  int i = place_of(name);
  return i < 0 ? -1 : kinds[i].kind;
}

uint64_t mr_kind_least(int kind) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (kinds[i].kind == kind) return kinds[i].size;
  return 0;
}

const char *mr_kind_name(const mr_type *t) {
  if (t->kind == TK_OCTETS || t->kind == TK_CHARS) return t->fixed ? "array" : "sequence";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (kinds[i].kind == t->kind) return kinds[i].name;
  return "type";
}

int mr_kind_is_basic(uint32_t kind) { return kind <= TK_TYPECODE || (kind >= TK_LONGLONG && kind <= TK_WCHAR); }
