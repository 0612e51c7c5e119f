/*
 * typecode_in: TypeCodes from the wire as tables of types (CORBA 3.3 part 2, 9.3.5.1).
 *
 * What is read is a graph: each TypeCode becomes one table, entered at its position before its parts are read, and an indirection is the table at
 * an earlier position of the same outermost TypeCode. Whether it is a type that can exist (no cycle but through a sequence, sound labels) is for
 * compile.c to say. Tables are never more than the bytes allow, as each takes four of its own.
 *
 * TypeCodes inside TypeCodes are read by a loop: each one that is open has a frame. On Lua's stack it has its type's table and, while its members
 * are read, their list and the member whose type is being read.
 */
#include <stdio.h>
#include "cdr/get.h"
#include "cdr/frames.h"
#include "cdr/typecode.h"
#include "cdr/union.h"
#include "transfer/transfer.h"

enum { BELIEVED = 16 };

typedef struct reader {
  mr_dec *d;
  lua_State *L;
  const char *origin;                          /* positions count from here */
  int seen;                                    /* stack index of: position -> table */
  mr_frames open;
} reader;

typedef struct frame {
  mr_in in;                                    /* its encapsulation */
  uint32_t kind;
  uint32_t i, n;                               /* parts that were begun; how many there are. A union's first one is its discriminator, a value's its base. */
  int32_t fallback;                            /* of a union: which member, from 0, or -1 */
  const mr_type *discriminator;
} frame;

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

static uint32_t read_count(reader *r, mr_in *in, size_t least) {
  uint32_t n = mr_in_u32(in);
  check(r, in);
  if (n > mr_in_left(in) / least) fail(r, in, "MARSHAL", "a TypeCode with more members than bytes");
  return n;
}

/* It grows with what comes: each TypeCode around this one may have claimed the same bytes for its own members. */
static void push_list(lua_State *L, uint32_t n) { lua_createtable(L, n < BELIEVED ? (int)n : BELIEVED, 0); }

/*
 * A member may come without a name; a table needs one. One that begins with an underscore is none of IDL's: it would stand in the table where the
 * mapping's own fields do (_anytype, _ior …), and pass for one of them.
 */
static void read_member_name(reader *r, mr_in *in, uint32_t i) {
  read_text(r, in, "name");
  lua_getfield(r->L, -1, "name");
  const char *name = lua_tostring(r->L, -1);
  if (*name == 0 || *name == '_') {
    lua_pushfstring(r->L, "_%d", (int)i);
    lua_setfield(r->L, -3, "name");
  }
  lua_pop(r->L, 1);
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
  const mr_type *t = mr_type_get(r->L, r->d->env, r->d->fields, r->d->codec);
  lua_pop(r->L, 1);
  if (!mr_union_allows(t)) fail(r, in, "BAD_TYPECODE", "a union whose discriminator is no number");
  return t;
}

/* What stands behind the discriminator. */
static void begin_cases(reader *r, frame *f) {
  mr_in *in = &f->in;
  f->discriminator = discriminator(r, in);
  f->fallback = (int32_t)mr_in_u32(in);
  uint32_t n = read_count(r, in, 9);
  if (f->fallback < -1 || f->fallback >= (int64_t)n) fail(r, in, "BAD_TYPECODE", "a union whose default is none of its members");
  if (f->fallback >= 0) {
    lua_pushinteger(r->L, f->fallback + 1);
    lua_setfield(r->L, -2, "default");
  }
  push_list(r->L, n);
  f->n = n + 1;
}

/* The label of the member on top, which is the one with that number, from 0. */
static void read_case(reader *r, frame *f, uint32_t i) {
  if ((int64_t)i == f->fallback) { skip_label(&f->in, f->discriminator); return; }
  read_label(r, &f->in, f->discriminator);
  lua_setfield(r->L, -2, "label");
}

/* ---- one TypeCode ---- */

static void set_flag(reader *r, const char *name) {
  lua_pushboolean(r->L, 1);
  lua_setfield(r->L, -2, name);
}

static const char *lua_kind(uint32_t kind) {
  static const char *const names[TK_KINDS] = {
    [TK_OBJREF] = "interface", [TK_STRUCT] = "struct", [TK_UNION] = "union", [TK_ENUM] = "enum", [TK_STRING] = "string", [TK_SEQUENCE] = "sequence",
    [TK_ARRAY] = "array", [TK_ALIAS] = "alias", [TK_EXCEPT] = "except", [TK_WSTRING] = "wstring", [TK_FIXED] = "fixed", [TK_NATIVE] = "native",
    [TK_ABSTRACT] = "interface", [TK_LOCAL] = "interface", [TK_VALUE] = "value", [TK_VALUEBOX] = "valuebox",
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

static void read_modifier(reader *r, mr_in *in) {
  static const char *const names[] = { [MR_VM_CUSTOM] = "custom", [MR_VM_ABSTRACT] = "abstract", [MR_VM_TRUNCATABLE] = "truncatable" };
  unsigned modifier = mr_in_u16(in);
  check(r, in);
  if (modifier > MR_VM_TRUNCATABLE) fail(r, in, "BAD_TYPECODE", "a value type of no known sort");
  if (modifier) set_flag(r, names[modifier]);
}

static void begin_content(reader *r, frame *f) {
  mr_in *in = &f->in;
  if (f->kind == TK_SEQUENCE || f->kind == TK_ARRAY) { f->n = 1; return; }
  if (f->kind == TK_ABSTRACT) set_flag(r, "abstract");
  if (f->kind == TK_LOCAL) set_flag(r, "local");
  read_names(r, in);
  switch (f->kind) {
    case TK_STRUCT: case TK_EXCEPT:
      f->n = read_count(r, in, 8);
      push_list(r->L, f->n);
      break;
    case TK_VALUE: read_modifier(r, in); /* fall through */
    case TK_UNION: case TK_ALIAS: case TK_VALUEBOX: f->n = 1; break;
    case TK_ENUM: read_labels(r, in); break;
    default: break;
  }
}

static void begin_long(reader *r, mr_in *in, uint32_t kind) {
  char text[60];
  frame f = { .kind = kind };
  lua_Integer position = in->at - 4 - r->origin;
  if (!lua_kind(kind)) fail(r, in, "MARSHAL", "a TypeCode of no known kind");
  if (r->open.n == MR_MAX_TYPE_DEPTH) {
    snprintf(text, sizeof text, "a TypeCode nested more than %d levels deep", MR_MAX_TYPE_DEPTH);
    fail(r, in, "BAD_TYPECODE", text);
  }
  mr_in_open(in, &f.in);
  check(r, in);
  new_type(r, kind, 4);
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->seen, position);
  begin_content(r, &f);
  *(frame *)mr_frames_push(r->L, &r->open) = f;
}

/* Reads one, or begins to. 1: its table is on top, and that was all of it; 0: it has a frame now, and `in` may have moved. */
static int read_code(reader *r, mr_in *in) {
  if (PORT_UNLIKELY(!lua_checkstack(r->L, 16))) mr_raise_memory(r->L);
  uint32_t kind = mr_in_u32(in);
  check(r, in);
  if (kind == TK_INDIRECTION) read_indirection(r, in);
  else if (mr_kind_is_basic(kind)) mr_push_basic(r->L, r->d->fields, (int)kind);
  else if (kind == TK_STRING || kind == TK_WSTRING || kind == TK_FIXED) read_short(r, in, kind);
  else { begin_long(r, in, kind); return 0; }
  return 1;
}

/* ---- a TypeCode's parts ---- */

static int has_first(const frame *f) { return f->kind == TK_UNION || f->kind == TK_VALUE; }
static int has_members(const frame *f) { return f->kind == TK_STRUCT || f->kind == TK_EXCEPT || has_first(f); }

/* 1: the next part begins now, at f->in; 0: there is no other. */
static int next_part(reader *r, frame *f) {
  if (f->i == f->n) return 0;
  uint32_t i = f->i++;
  if (!has_members(f) || (has_first(f) && i == 0)) return 1;
  lua_createtable(r->L, 0, 3);
  if (has_first(f)) i--;
  if (f->kind == TK_UNION) read_case(r, f, i);
  read_member_name(r, &f->in, i + 1);
  return 1;
}

/* A value's base is on top, or null. */
static void take_base(reader *r, frame *f) {
  lua_State *L = r->L;
  lua_getfield(L, -1, "kind");
  const char *kind = lua_tostring(L, -1);
  int none = strcmp(kind, "null") == 0;
  if (!none && strcmp(kind, "value") != 0) fail(r, &f->in, "BAD_TYPECODE", "a value type whose base is none");
  lua_pop(L, 1);
  lua_createtable(L, !none, 0);
  lua_insert(L, -2);
  if (none) lua_pop(L, 1);
  else lua_rawseti(L, -2, 1);
  lua_setfield(L, -2, "bases");
  uint32_t n = read_count(r, &f->in, 10);
  push_list(L, n);
  f->n = n + 1;
}

static void take_state(reader *r, frame *f) {
  lua_setfield(r->L, -2, "type");
  unsigned public = mr_in_u16(&f->in);
  check(r, &f->in);
  lua_pushboolean(r->L, public != 0);
  lua_setfield(r->L, -2, "public");
  lua_rawseti(r->L, -2, f->i - 1);
}

/* The part on top goes where it belongs. */
static void take_part(reader *r, frame *f) {
  lua_State *L = r->L;
  switch (f->kind) {
    case TK_SEQUENCE: case TK_ARRAY:
      lua_setfield(L, -2, "element");
      read_number(r, &f->in, f->kind == TK_ARRAY ? "length" : "bound");
      break;
    case TK_ALIAS: case TK_VALUEBOX: lua_setfield(L, -2, "type"); break;
    case TK_VALUE:
      if (f->i == 1) take_base(r, f);
      else take_state(r, f);
      break;
    case TK_UNION:
      if (f->i == 1) {
        lua_setfield(L, -2, "discriminator");
        begin_cases(r, f);
        break;
      } /* fall through */
    default:
      lua_setfield(L, -2, "type");
      lua_rawseti(L, -2, f->kind == TK_UNION ? f->i - 1 : f->i);
      break;
  }
}

/* All parts are there: the table stays on top. */
static void end(reader *r, frame *f) {
  if (has_members(f)) lua_setfield(r->L, -2, f->kind == TK_VALUE ? "state" : "members");
  check(r, &f->in);
  r->open.n--;
}

void mr_typecode_parse(mr_dec *d) {
  reader r = { .d = d, .L = d->L };
  if (PORT_UNLIKELY(!lua_checkstack(d->L, 16))) mr_raise_memory(d->L);
  r.origin = d->in.base;
  lua_createtable(d->L, 0, 0);
  r.seen = lua_gettop(d->L);
  mr_frames_begin(d->L, &r.open, sizeof(frame));
  int whole = read_code(&r, &d->in);
  while (r.open.n) {
    frame *f = mr_frames_last(&r.open);
    if (whole) take_part(&r, f);
    whole = !next_part(&r, f);
    if (whole) end(&r, f);
    else whole = read_code(&r, &f->in);
  }
  lua_replace(d->L, r.seen);
  lua_settop(d->L, r.seen);
}
