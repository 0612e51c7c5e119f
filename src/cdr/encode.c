/*
 * encode: Lua values to bytes. See type.h.
 *
 * Nothing here calls what may step Lua's collector (all that makes strings, tables or closures) or runs foreign code, but for what mr_foreign
 * does: a metamethod, a function of the environment, the TypeCode of an any. So raw pointers into tables stay good between two of those, and no
 * finaliser writes into the buffer; the tables being read are on the stack. A value that was read from a table and is not on the stack may be
 * garbage after the next of those (mr_field runs metamethods): it is used before, or pushed.
 * A failure is a return of -1 through all levels, each of which puts its part before the path. Only then is anything said.
 */
#include <stdarg.h>
#include <stdio.h>
#include <math.h>
#include "cdr/put.h"
#include "cdr/flat.h"
#include "transfer/transfer.h"

/* ---- failures ---- */

int mr_refuse(mr_enc *e, const char *exception, int minor, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(e->text, sizeof e->text, format, list);
  va_end(list);
  e->exception = exception;
  e->minor = minor;
  return -1;
}

static void describe(const mr_enc *e, mr_val v, char *to, size_t size) {
  lua_Number n;
  size_t length;
  const char *s;
  switch (v.tt) {
    case RAW_NIL: snprintf(to, size, "nil"); break;
    case RAW_INT: snprintf(to, size, LUA_INTEGER_FMT, (lua_Integer)v.bits); break;
    case RAW_FLT: memcpy(&n, &v.bits, sizeof n); snprintf(to, size, "%.14g", n); break;
    case RAW_FALSE: snprintf(to, size, "false"); break;
    case RAW_TRUE: snprintf(to, size, "true"); break;
    case RAW_SHORT: case RAW_LONG:
      s = mr_val_text(e, v, &length);
      snprintf(to, size, length > 30 ? "'%.27s...'" : "'%.30s'", s);
      break;
    default: snprintf(to, size, "%s", v.tt == RAW_LIGHTC ? "function" : lua_typename(e->L, v.tt & 15)); break;
  }
}

static int is_frozen(mr_enc *e, mr_val v) {
  if (v.tt != RAW_USERDATA) return 0;
  mr_push_val(e, v);
  int name = luaL_getmetafield(e->L, -1, "__name"), is = name == LUA_TSTRING && strcmp(lua_tostring(e->L, -1), "frozen table") == 0;
  lua_pop(e->L, name == LUA_TNIL ? 1 : 2);
  return is;
}

/* "expected" names a type: of a value of the right type what is wrong with it is said elsewhere. */
int mr_wrong(mr_enc *e, const char *expected, mr_val got) {
  char text[48];
  describe(e, got, text, sizeof text);
  return mr_refuse(e, "BAD_PARAM", 0, "%s expected, got %s%s", expected, text, is_frozen(e, got) ? ", a frozen table: send what freeze.copy gives" : "");
}

void mr_hint(mr_enc *e, const char *more) {
  size_t n = strlen(e->text);
  snprintf(e->text + n, sizeof e->text - n, "%s", more);
}

/* The beginning of a long path matters less than its end. */
static int prepend(mr_enc *e, const char *s, size_t n) {
  if (e->cut) return -1;
  e->cut = e->at < n + 3;
  if (e->cut) { s = "..."; n = 3; }
  e->at -= (uint32_t)n;
  memcpy(e->path + e->at, s, n);
  return -1;
}

int mr_in_member(mr_enc *e, const char *name) {
  char text[80];
  int n = snprintf(text, sizeof text, ".%s", name);
  return prepend(e, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

int mr_in_element(mr_enc *e, uint64_t i) {
  char text[24];
  return prepend(e, text, (size_t)snprintf(text, sizeof text, "[%llu]", (unsigned long long)i));
}

/* ---- values ---- */

mr_val mr_val_at(const mr_enc *e, int idx) {
  lua_State *L = e->L;
  mr_val v = { 0, RAW_NIL };
  if (e->raw) {
    const raw_value *r = raw_top(L) - (lua_gettop(L) + 1 - idx);
    v.bits = r->bits;
    v.tt = r->tt;
    return v;
  }
  v.bits = (uint64_t)idx;
  switch (lua_type(L, idx)) {
    case LUA_TNIL: break;
    case LUA_TBOOLEAN: v.tt = lua_toboolean(L, idx) ? RAW_TRUE : RAW_FALSE; break;
    case LUA_TNUMBER:
      v.tt = lua_isinteger(L, idx) ? RAW_INT : RAW_FLT;
      if (v.tt == RAW_INT) v.bits = (uint64_t)lua_tointegerx(L, idx, NULL);
      else {
        lua_Number n = lua_tonumberx(L, idx, NULL);
        memcpy(&v.bits, &n, sizeof n);
      }
      break;
    case LUA_TSTRING: v.tt = RAW_SHORT; break;
    case LUA_TTABLE: v.tt = RAW_TABLE; break;
    case LUA_TUSERDATA: v.tt = RAW_USERDATA; break;
    case LUA_TFUNCTION: v.tt = RAW_FUNCTION; break;
    case LUA_TTHREAD: v.tt = RAW_THREAD; break;
    default: v.tt = RAW_LIGHT; break;
  }
  return v;
}

const char *mr_val_text(const mr_enc *e, mr_val v, size_t *n) {
  if (!e->raw) return lua_tolstring(e->L, (int)v.bits, n);
  const raw_string *s = (const raw_string *)(uintptr_t)v.bits;
  *n = v.tt == RAW_SHORT ? s->shrlen : s->length;
  return s->text;
}

/* ---- tables ---- */

/* `room` never says more than MR_MAX_DEPTH, so whoever is too deep comes here. */
static PORT_NOINLINE int more_room(mr_enc *e) {
  if (e->depth > MR_MAX_DEPTH) return mr_refuse(e, "BAD_PARAM", 0, "nested more than %d levels deep", MR_MAX_DEPTH);
  if (!lua_checkstack(e->L, 160)) mr_raise_memory(e->L);
  e->room = e->depth + 16;                     /* levels; each has at most six values of its own on the stack */
  if (e->room > MR_MAX_DEPTH) e->room = MR_MAX_DEPTH + 1;
  return 0;
}

int mr_enter(mr_enc *e, mr_val table) {
  if (PORT_UNLIKELY(++e->depth >= e->room) && more_room(e)) return -1;
  if (e->raw) raw_push(e->L, table.tt, table.bits);
  return 0;
}

void mr_leave(mr_enc *e) {
  mr_assert(e->depth > 0);
  e->depth--;
  if (e->raw) raw_pop(e->L);
}

void mr_drop(mr_enc *e, int strays) {
  mr_assert(strays >= 0 && strays <= e->strays);
  lua_pop(e->L, e->strays - strays);
  e->strays = strays;
}

int mr_index(lua_State *L) {
  lua_getfield(L, 1, (const char *)lua_touserdata(L, 2));
  return 1;
}

/* Runs f with the n values on top; its one result replaces them. -1: it failed. */
int mr_foreign(mr_enc *e, lua_CFunction f, int n) {
  lua_State *L = e->L;
  lua_pushcfunction(L, f);
  lua_insert(L, -n - 1);
  e->foreign = 1;
  mr_out_leave(&e->o);
  int status = lua_pcall(L, n, 1, 0);
  mr_out_return(&e->o);
  e->values.class_at = NULL;                   /* what it knew may be gone */
  if (status == LUA_OK) return 0;
  if (!e->raised) lua_copy(L, -1, e->fields + 1);
  e->exception = "";
  e->raised = 1;                               /* the first one stays, whatever else goes wrong now */
  return -1;
}

/* Through the API, or with metamethods; the value is a stray one on the stack. */
static PORT_NOINLINE mr_val field_api(mr_enc *e, mr_val table, const char *name) {
  lua_State *L = e->L;
  mr_val none = { 0, RAW_NIL };
  if (!lua_checkstack(L, 40)) mr_raise_memory(L);
  e->strays++;
  if (e->raw) raw_push(L, RAW_TABLE, table.bits);
  else lua_pushvalue(L, (int)table.bits);
  if (!lua_getmetatable(L, -1)) {
    lua_getfield(L, -1, name);
    lua_remove(L, -2);
  } else {
    lua_pop(L, 1);
    lua_pushlightuserdata(L, (void *)(uintptr_t)name);
    if (mr_foreign(e, mr_index, 2)) return none;
  }
  return mr_val_at(e, lua_gettop(L));
}

mr_val mr_field(mr_enc *e, mr_val table, mr_member *m) {
  if (PORT_UNLIKELY(!e->raw || !m->key)) return field_api(e, table, m->name);
  mr_val v = { 0, RAW_NIL };
  const raw_table *t = (const raw_table *)(uintptr_t)table.bits;
  const raw_node *node = mr_find_node(t, m->key, &m->hint);
  if (PORT_LIKELY(node && !raw_isnil(node->tt))) {
    v.bits = node->bits;
    v.tt = node->tt;
    return v;
  }
  return t->metatable ? field_api(e, table, m->name) : v;
}

/* ---- numbers ---- */

static const char *const ranges[TK_ALL] = {
  [TK_SHORT] = "-32768 to 32767", [TK_LONG] = "-2147483648 to 2147483647", [TK_USHORT] = "0 to 65535", [TK_ULONG] = "0 to 4294967295",
  [TK_OCTET] = "0 to 255", [TK_INT8] = "-128 to 127", [TK_LONGLONG] = "64 bits", [TK_ULONGLONG] = "64 bits", [TK_FLOAT] = "about -3.4e38 to 3.4e38",
};

static PORT_NOINLINE int bad_number(mr_enc *e, const mr_type *t, mr_val v) {
  if (v.tt != RAW_INT && v.tt != RAW_FLT) return mr_wrong(e, mr_kind_name(t), v);
  char text[48];
  describe(e, v, text, sizeof text);
  return mr_refuse(e, "BAD_PARAM", 0, "%s expected (%s), got %s", mr_kind_name(t), ranges[t->kind], text);
}

PORT_NOINLINE int mr_whole(mr_val v, int64_t *n, int wide) {
  lua_Number f;
  if (v.tt != RAW_FLT) return 0;
  memcpy(&f, &v.bits, sizeof f);
  if (!(f >= -9223372036854775808.0 && f < (wide ? 18446744073709551616.0 : 9223372036854775808.0)) || floor(f) != f) return 0;
  *n = f >= 9223372036854775808.0 ? (int64_t)(uint64_t)f : (int64_t)f;
  return 1;
}

static inline int integer(mr_val v, int64_t *n) {
  *n = (int64_t)v.bits;
  return PORT_LIKELY(v.tt == RAW_INT) || mr_whole(v, n, 0);
}

static inline int number(mr_val v, double *n) {
  if (PORT_LIKELY(v.tt == RAW_FLT)) memcpy(n, &v.bits, sizeof *n);
  else if (v.tt == RAW_INT) *n = (double)(int64_t)v.bits;
  else return 0;
  return 1;
}

static inline int put_float(mr_enc *e, const mr_type *t, mr_val v) {
  double n;
  uint32_t bits;
  if (!number(v, &n)) return bad_number(e, t, v);
  float f = (float)n;
  if (PORT_UNLIKELY(isinf(f) && !isinf(n))) return bad_number(e, t, v);
  memcpy(&bits, &f, 4);
  mr_out_u32(&e->o, bits);
  return 0;
}

static inline int put_double(mr_enc *e, const mr_type *t, mr_val v) {
  double n;
  uint64_t bits;
  if (!number(v, &n)) return bad_number(e, t, v);
  memcpy(&bits, &n, 8);
  mr_out_u64(&e->o, bits);
  return 0;
}

/* ---- structures ---- */

static inline int begin_struct(mr_enc *e, const mr_type *t, mr_val v) {
  if (PORT_UNLIKELY(v.tt != RAW_TABLE)) return mr_wrong(e, t->name ? t->name : "table", v);
  if (PORT_UNLIKELY(t->kind == TK_EXCEPT)) mr_out_text(&e->o, t->id ? t->id : "", t->id ? strlen(t->id) : 0);
  return mr_enter(e, v);
}
int mr_struct_begin(mr_enc *e, const mr_type *t, mr_val v) { return begin_struct(e, t, v); }

static PORT_NOINLINE int put_struct(mr_enc *e, const mr_type *t, mr_val v) {
  if (PORT_UNLIKELY(e->depth >= MR_RECURSION)) return mr_put_deep(e, t, v);
  if (mr_flat_out(e, t) && v.tt == RAW_TABLE && mr_put_flat(e, t, (const raw_table *)(uintptr_t)v.bits)) return 0;
  int strays = e->strays;
  if (begin_struct(e, t, v)) return -1;
  for (mr_member *m = t->members, *last = m + t->n; m < last; m++) {
    mr_val x = mr_field(e, v, m);
    if (PORT_UNLIKELY(mr_put(e, m->type, x))) return mr_in_member(e, m->name);
    if (PORT_UNLIKELY(e->strays != strays)) mr_drop(e, strays);
  }
  mr_leave(e);
  return 0;
}

static PORT_NOINLINE int other_label(mr_enc *e, const mr_type *t, mr_val v, uint32_t *ordinal) {
  int64_t i;
  if (integer(v, &i) && i >= 0 && i < (int64_t)t->n) { *ordinal = (uint32_t)i; return 0; }
  if (v.tt == RAW_SHORT || v.tt == RAW_LONG) {
    if (!lua_checkstack(e->L, 8)) mr_raise_memory(e->L);
    mr_push_val(e, v);
    i = mr_long_label(e->L, e->fields, t);
    if (i >= 0) { *ordinal = (uint32_t)i; return 0; }
  }
  char text[48];
  describe(e, v, text, sizeof text);
  return mr_refuse(e, "BAD_PARAM", 0, "a label of enum %s expected, got %s", t->name ? t->name : "?", text);
}

int mr_enum_ordinal(mr_enc *e, const mr_type *t, mr_val v, uint32_t *ordinal) {
  if (v.tt != RAW_SHORT) return other_label(e, t, v, ordinal);
  uint64_t key = e->raw ? v.bits : (uint64_t)(uintptr_t)lua_topointer(e->L, (int)v.bits);
  uint32_t found = t->slots[mr_short_label(t, key)];
  if (PORT_UNLIKELY(!found)) return other_label(e, t, v, ordinal);
  *ordinal = found - 1;
  return 0;
}

static int put_enum(mr_enc *e, const mr_type *t, mr_val v) {
  uint32_t ordinal;
  if (mr_enum_ordinal(e, t, v, &ordinal)) return -1;
  mr_out_u32(&e->o, ordinal);
  return 0;
}

#define INTEGER(low, high, how, type) do { \
    int64_t n; \
    if (PORT_UNLIKELY(!integer(v, &n) || n < (low) || n > (high))) return bad_number(e, t, v); \
    how(&e->o, (type)n); \
    return 0; \
  } while (0)

static PORT_NOINLINE int put_wide_integer(mr_enc *e, const mr_type *t, mr_val v) {
  int64_t n;
  if (!mr_whole(v, &n, t->kind == TK_ULONGLONG)) return bad_number(e, t, v);
  mr_out_u64(&e->o, (uint64_t)n);
  return 0;
}

int mr_put(mr_enc *e, const mr_type *t, mr_val v) {
  switch (t->kind) {
    case TK_SHORT: INTEGER(INT16_MIN, INT16_MAX, mr_out_u16, uint16_t);
    case TK_USHORT: INTEGER(0, UINT16_MAX, mr_out_u16, uint16_t);
    case TK_LONG: INTEGER(INT32_MIN, INT32_MAX, mr_out_u32, uint32_t);
    case TK_ULONG: INTEGER(0, UINT32_MAX, mr_out_u32, uint32_t);
    case TK_OCTET: INTEGER(0, UINT8_MAX, mr_out_u8, uint8_t);
    case TK_INT8: INTEGER(INT8_MIN, INT8_MAX, mr_out_u8, uint8_t);
    case TK_LONGLONG: case TK_ULONGLONG:
      if (PORT_UNLIKELY(v.tt != RAW_INT)) return put_wide_integer(e, t, v);
      mr_out_u64(&e->o, v.bits);
      return 0;
    case TK_FLOAT: return put_float(e, t, v);
    case TK_DOUBLE: return put_double(e, t, v);
    case TK_BOOLEAN:
      if (PORT_UNLIKELY(v.tt != RAW_TRUE && v.tt != RAW_FALSE)) return mr_wrong(e, "boolean", v);
      mr_out_u8(&e->o, v.tt == RAW_TRUE);
      return 0;
    case TK_CHAR: return mr_put_char(e, v);
    case TK_STRING: return mr_put_string(e, t, v);
    case TK_STRUCT: case TK_EXCEPT: return put_struct(e, t, v);
    case TK_ENUM: return put_enum(e, t, v);
    case TK_SEQUENCE: case TK_ARRAY: return mr_put_sequence(e, t, v);
    case TK_OCTETS: case TK_CHARS: return mr_put_octets(e, t, v);
    case TK_NULL: case TK_VOID: return v.tt == RAW_NIL ? 0 : mr_wrong(e, "nil", v);
    default: return mr_put_other(e, t, v);
  }
}
