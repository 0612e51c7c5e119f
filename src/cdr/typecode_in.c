/*
 * typecode_in: TypeCodes from the wire as tables of types (CORBA 3.3 part 2, 9.3.5.1).
 *
 * What is read is a graph: each TypeCode becomes one table, entered at its position before its parts are read, and an indirection is the table at
 * an earlier position of the same outermost TypeCode. Whether it is a type that can exist (no cycle but through a sequence, sound labels) is for
 * compile.c to say. Tables are never more than the bytes allow, as each takes four of its own.
 */
#include "cdr/get.h"
#include "cdr/typecode.h"
#include "cdr/union.h"
#include "transfer/packet.h"

enum { MAX_NESTING = 100, BELIEVED = 64 };

typedef struct reader {
  mr_dec *d;
  lua_State *L;
  const char *origin;                          /* positions count from here */
  int seen, depth;                             /* stack index of: position -> table */
} reader;

static void read_code(reader *r, mr_in *in);

static PORT_NORETURN void fail(reader *r, const mr_in *in, const char *exception, const char *what) {
  r->d->in.at = in->bad ? in->bad_at : in->at;
  mr_dec_raise(r->d, exception, 0, in->bad ? in->bad : what);
}
static void check(reader *r, const mr_in *in) { if (PORT_UNLIKELY(in->bad != NULL)) fail(r, in, "MARSHAL", ""); }

/* ---- pieces; the table being filled is on top ---- */

static void read_text(reader *r, mr_in *in, const char *field) {
  size_t n;
  const char *s = mr_in_text(in, &n);
  check(r, in);
  if (memchr(s, 0, n)) fail(r, in, "BAD_TYPECODE", "a name with a zero byte inside");
  lua_pushlstring(r->L, s, n);
  lua_setfield(r->L, -2, field);
}

static void read_names(reader *r, mr_in *in) {
  read_text(r, in, "id");
  read_text(r, in, "name");
}

static void read_number(reader *r, mr_in *in, const char *field) {
  uint32_t n = mr_in_u32(in);
  check(r, in);
  lua_pushinteger(r->L, n);
  lua_setfield(r->L, -2, field);
}

static void read_part(reader *r, mr_in *in, const char *field) {
  read_code(r, in);
  lua_setfield(r->L, -2, field);
}

static uint32_t read_count(reader *r, mr_in *in, size_t least) {
  uint32_t n = mr_in_u32(in);
  check(r, in);
  if (n > mr_in_left(in) / least) fail(r, in, "MARSHAL", "a TypeCode with more members than bytes");
  return n;
}

/* It grows with what comes: each TypeCode around this one may have claimed the same bytes for its own members. */
static void push_list(lua_State *L, uint32_t n) { lua_createtable(L, n < BELIEVED ? (int)n : BELIEVED, 0); }

/* A member may come without a name; a table needs one. */
static void read_member_name(reader *r, mr_in *in, uint32_t i) {
  read_text(r, in, "name");
  lua_getfield(r->L, -1, "name");
  if (lua_rawlen(r->L, -1) == 0) {
    lua_pushfstring(r->L, "_%d", (int)i);
    lua_setfield(r->L, -3, "name");
  }
  lua_pop(r->L, 1);
}

static void read_members(reader *r, mr_in *in) {
  uint32_t n = read_count(r, in, 8);
  push_list(r->L, n);
  for (uint32_t i = 1; i <= n; i++) {
    lua_createtable(r->L, 0, 2);
    read_member_name(r, in, i);
    read_part(r, in, "type");
    lua_rawseti(r->L, -2, i);
  }
  lua_setfield(r->L, -2, "members");
}

static void read_labels(reader *r, mr_in *in) {
  uint32_t n = read_count(r, in, 5);
  push_list(r->L, n);
  for (uint32_t i = 1; i <= n; i++) {
    size_t length;
    const char *s = mr_in_text(in, &length);
    check(r, in);
    if (memchr(s, 0, length)) fail(r, in, "BAD_TYPECODE", "a label with a zero byte inside");
    lua_pushlstring(r->L, s, length);
    lua_rawseti(r->L, -2, i);
  }
  lua_setfield(r->L, -2, "labels");
}

/* ---- unions ---- */

/* Reads a label as a value of its type, and pushes it. In TypeCodes a wchar is as in GIOP 1.2. */
static void read_label(reader *r, mr_in *in, const mr_type *t) {
  mr_dec *d = r->d;
  mr_in whole = d->in;
  int codec = d->codec;
  d->in = *in;
  d->codec = (codec & CDR_LITTLE) | 2 << CDR_MINOR_SHIFT | CDR_AS_IS | CDR_UTF16;
  mr_get(d, t);
  *in = d->in;
  d->in = whole;
  d->codec = codec;
}

/* A member's name and TypeCode may begin here. */
static int is_member(mr_in in) {
  size_t n;
  const char *name = mr_in_text(&in, &n);
  uint32_t kind = mr_in_u32(&in);
  return !in.bad && !memchr(name, 0, n) && (kind < TK_KINDS || kind == TK_INDIRECTION);
}

/* The default's label means nothing: omniORB writes one of the discriminator's type, JacORB an octet whatever that is. */
static void skip_label(mr_in *in, const mr_type *t) {
  mr_in typed = *in;
  size_t size = t->kind == TK_ENUM ? 4 : t->kind == TK_WCHAR ? mr_in_u8(&typed) : (size_t)t->min;
  mr_in_take(&typed, t->kind == TK_WCHAR ? 1 : size, size);
  if (!typed.bad && is_member(typed)) *in = typed;
  else mr_in_u8(in);
}

static const mr_type *discriminator(reader *r, const mr_in *in) {
  lua_getfield(r->L, -1, "discriminator");
  const mr_type *t = mr_type_get(r->L, r->d->env, r->d->fields, 1);
  lua_pop(r->L, 1);
  if (!mr_union_allows(t)) fail(r, in, "BAD_TYPECODE", "a union whose discriminator is no number");
  return t;
}

static void read_union(reader *r, mr_in *in) {
  lua_State *L = r->L;
  read_part(r, in, "discriminator");
  const mr_type *t = discriminator(r, in);
  int32_t fallback = (int32_t)mr_in_u32(in);
  uint32_t n = read_count(r, in, 9);
  if (fallback < -1 || fallback >= (int64_t)n) fail(r, in, "BAD_TYPECODE", "a union whose default is none of its members");
  if (fallback >= 0) {
    lua_pushinteger(L, fallback + 1);
    lua_setfield(L, -2, "default");
  }
  push_list(L, n);
  for (uint32_t i = 1; i <= n; i++) {
    lua_createtable(L, 0, 3);
    if ((int32_t)i - 1 == fallback) skip_label(in, t);
    else {
      read_label(r, in, t);
      lua_setfield(L, -2, "label");
    }
    read_member_name(r, in, i);
    read_part(r, in, "type");
    lua_rawseti(L, -2, i);
  }
  lua_setfield(L, -2, "members");
}

/* ---- one TypeCode ---- */

static void set_flag(reader *r, const char *name) {
  lua_pushboolean(r->L, 1);
  lua_setfield(r->L, -2, name);
}

static void read_content(reader *r, mr_in *in, uint32_t kind) {
  switch (kind) {
    case TK_STRUCT: case TK_EXCEPT: read_names(r, in); read_members(r, in); break;
    case TK_UNION: read_names(r, in); read_union(r, in); break;
    case TK_ENUM: read_names(r, in); read_labels(r, in); break;
    case TK_ALIAS: read_names(r, in); read_part(r, in, "type"); break;
    case TK_SEQUENCE: read_part(r, in, "element"); read_number(r, in, "bound"); break;
    case TK_ARRAY: read_part(r, in, "element"); read_number(r, in, "length"); break;
    case TK_ABSTRACT: set_flag(r, "abstract"); read_names(r, in); break;
    case TK_LOCAL: set_flag(r, "local"); read_names(r, in); break;
    default: read_names(r, in); break;
  }
}

static const char *lua_kind(uint32_t kind) {
  static const char *const names[TK_KINDS] = {
    [TK_OBJREF] = "interface", [TK_STRUCT] = "struct", [TK_UNION] = "union", [TK_ENUM] = "enum", [TK_STRING] = "string", [TK_SEQUENCE] = "sequence",
    [TK_ARRAY] = "array", [TK_ALIAS] = "alias", [TK_EXCEPT] = "except", [TK_WSTRING] = "wstring", [TK_FIXED] = "fixed", [TK_NATIVE] = "native",
    [TK_ABSTRACT] = "interface", [TK_LOCAL] = "interface",
  };
  return kind < TK_KINDS ? names[kind] : NULL;
}

static void new_type(reader *r, uint32_t kind, int fields) {
  lua_createtable(r->L, 0, fields);
  lua_pushstring(r->L, lua_kind(kind));
  lua_setfield(r->L, -2, "kind");
}

static void read_indirection(reader *r, mr_in *in) {
  int64_t here = in->at - r->origin, at;
  at = here + (int32_t)mr_in_u32(in);
  check(r, in);
  lua_rawgeti(r->L, r->seen, at);
  if (!lua_istable(r->L, -1)) fail(r, in, "BAD_TYPECODE", "an indirection to where no TypeCode begins");
}

static void read_short(reader *r, mr_in *in, uint32_t kind) {
  if (kind == TK_FIXED) {
    new_type(r, kind, 3);
    uint16_t digits = mr_in_u16(in), scale = mr_in_u16(in);
    check(r, in);
    if (digits == 0 || digits > 31 || scale > digits) fail(r, in, "BAD_TYPECODE", "a fixed type that can't exist");
    lua_pushinteger(r->L, digits);
    lua_setfield(r->L, -2, "digits");
    lua_pushinteger(r->L, scale);
    lua_setfield(r->L, -2, "scale");
    return;
  }
  uint32_t bound = mr_in_u32(in);
  check(r, in);
  if (bound == 0) { mr_push_basic(r->L, r->d->fields, (int)kind); return; }
  new_type(r, kind, 2);
  lua_pushinteger(r->L, bound);
  lua_setfield(r->L, -2, "bound");
}

static void read_long(reader *r, mr_in *in, uint32_t kind) {
  mr_in inside;
  lua_Integer position = in->at - 4 - r->origin;
  if (kind == TK_VALUE || kind == TK_VALUEBOX) fail(r, in, "NO_IMPLEMENT", "a TypeCode of a value type");
  if (!lua_kind(kind)) fail(r, in, "MARSHAL", "a TypeCode of no known kind");
  if (++r->depth > MAX_NESTING) fail(r, in, "BAD_TYPECODE", "a TypeCode nested too deeply");
  mr_in_open(in, &inside);
  check(r, in);
  new_type(r, kind, 4);
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->seen, position);
  read_content(r, &inside, kind);
  check(r, &inside);
  r->depth--;
}

static void read_code(reader *r, mr_in *in) {
  if (PORT_UNLIKELY(!lua_checkstack(r->L, 16))) mr_raise_memory(r->L);
  uint32_t kind = mr_in_u32(in);
  check(r, in);
  if (kind == TK_INDIRECTION) read_indirection(r, in);
  else if (mr_kind_is_basic(kind)) mr_push_basic(r->L, r->d->fields, (int)kind);
  else if (kind == TK_STRING || kind == TK_WSTRING || kind == TK_FIXED) read_short(r, in, kind);
  else read_long(r, in, kind);
}

void mr_typecode_parse(mr_dec *d) {
  reader r = { .d = d, .L = d->L };
  if (PORT_UNLIKELY(!lua_checkstack(d->L, 16))) mr_raise_memory(d->L);
  r.origin = d->in.base;
  lua_createtable(d->L, 0, 0);
  r.seen = lua_gettop(d->L);
  read_code(&r, &d->in);
  lua_remove(d->L, r.seen);
}
