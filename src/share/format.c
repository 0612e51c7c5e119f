/*
 * format: see format.h.
 *
 * The reader of formats follows Lua 5.4's lstrlib.c option by option, so that a program may take its formats from string.pack to buffers and back.
 */
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include "share/format.h"

#define MOST_INTEGER 16                        /* bytes of an integer in a format */
#define NATURAL 8                              /* alignment of "!" alone */
#define MOST ((size_t)1 << 46)

enum item { INTEGER, UNSIGNED, FLOAT, NUMBER, DOUBLE, CHARS, STRING, ZEROED, PADDING, ALIGNMENT, NOTHING };

typedef struct reader {
  lua_State *L;
  const char *p;
  int little, most;                            /* most: alignment */
} reader;

typedef struct option { enum item item; size_t size, pad; } option;

static int native_little(void) {
  const union { int i; char c; } u = { 1 };
  return u.c;
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t number(reader *r, size_t usual) {
  if (!is_digit(*r->p)) return usual;
  size_t n = 0;
  do n = n * 10 + (size_t)(*r->p++ - '0'); while (is_digit(*r->p) && n <= ((size_t)INT_MAX - 9) / 10);
  return n;
}

static size_t limited(reader *r, size_t usual) {
  size_t n = number(r, usual);
  if (n > MOST_INTEGER || n == 0) luaL_error(r->L, "integral size (%d) out of limits [1,%d]", (int)n, MOST_INTEGER);
  return n;
}

static option read_option(reader *r) {
  option o = { NOTHING, 0, 0 };
  switch (*r->p++) {
    case 'b': o.size = sizeof(char); o.item = INTEGER; break;
    case 'B': o.size = sizeof(char); o.item = UNSIGNED; break;
    case 'h': o.size = sizeof(short); o.item = INTEGER; break;
    case 'H': o.size = sizeof(short); o.item = UNSIGNED; break;
    case 'l': o.size = sizeof(long); o.item = INTEGER; break;
    case 'L': o.size = sizeof(long); o.item = UNSIGNED; break;
    case 'j': o.size = sizeof(lua_Integer); o.item = INTEGER; break;
    case 'J': o.size = sizeof(lua_Integer); o.item = UNSIGNED; break;
    case 'T': o.size = sizeof(size_t); o.item = UNSIGNED; break;
    case 'f': o.size = sizeof(float); o.item = FLOAT; break;
    case 'n': o.size = sizeof(lua_Number); o.item = NUMBER; break;
    case 'd': o.size = sizeof(double); o.item = DOUBLE; break;
    case 'i': o.size = limited(r, sizeof(int)); o.item = INTEGER; break;
    case 'I': o.size = limited(r, sizeof(int)); o.item = UNSIGNED; break;
    case 's': o.size = limited(r, sizeof(size_t)); o.item = STRING; break;
    case 'c':
      o.size = number(r, SIZE_MAX);
      if (o.size == SIZE_MAX) luaL_error(r->L, "missing size for format option 'c'");
      o.item = CHARS;
      break;
    case 'z': o.item = ZEROED; break;
    case 'x': o.size = 1; o.item = PADDING; break;
    case 'X': o.item = ALIGNMENT; break;
    case ' ': break;
    case '<': r->little = 1; break;
    case '>': r->little = 0; break;
    case '=': r->little = native_little(); break;
    case '!': r->most = (int)limited(r, NATURAL); break;
    default: luaL_error(r->L, "invalid format option '%c'", r->p[-1]);
  }
  return o;
}

/* The next one, of `total` bytes there are. */
static option next_option(reader *r, size_t total) {
  option o = read_option(r);
  size_t align = o.size;
  if (o.item == ALIGNMENT) {
    option of = *r->p ? read_option(r) : (option){ CHARS, 0, 0 };
    align = of.size;
    if (of.item == CHARS || align == 0) luaL_argerror(r->L, 2, "invalid next option for option 'X'");
  }
  if (align <= 1 || o.item == CHARS || o.item == PADDING || o.item == NOTHING) return o;
  if (align > (size_t)r->most) align = (size_t)r->most;
  if (align & (align - 1)) luaL_argerror(r->L, 2, "format asks for alignment not power of 2");
  o.pad = (align - (total & (align - 1))) & (align - 1);
  return o;
}

/* ---- numbers ---- */

static lua_Integer load_integer(lua_State *L, const unsigned char *p, int little, size_t size, int is_signed) {
  lua_Unsigned v = 0;
  size_t limit = size <= 8 ? size : 8;
  for (size_t i = limit; i-- > 0;) v = v << 8 | p[little ? i : size - 1 - i];
  if (size < 8) {
    if (is_signed) {
      lua_Unsigned mask = (lua_Unsigned)1 << (size * 8 - 1);
      v = (v ^ mask) - mask;
    }
  } else if (size > 8) {
    int sign = !is_signed || (lua_Integer)v >= 0 ? 0 : 0xff;
    for (size_t i = limit; i < size; i++)
      if (p[little ? i : size - 1 - i] != sign) luaL_error(L, "%d-byte integer does not fit into Lua Integer", (int)size);
  }
  return (lua_Integer)v;
}

static void store_integer(unsigned char *p, lua_Unsigned v, int little, size_t size, int negative) {
  for (size_t i = 0; i < size; i++) {
    p[little ? i : size - 1 - i] = i < 8 ? (unsigned char)(v & 255) : negative ? 0xff : 0;
    v >>= 8;
  }
}

static void turned(void *to, const void *from, size_t size, int little) {
  unsigned char *t = to;
  const unsigned char *f = from;
  if (little == native_little()) memcpy(to, from, size);
  else for (size_t i = 0; i < size; i++) t[i] = f[size - 1 - i];
}

/* ---- unpacking ---- */

static int push_item(reader *r, option *o, const unsigned char *p, size_t left) {
  lua_State *L = r->L;
  float f;
  double d;
  size_t n;
  const unsigned char *zero;
  switch (o->item) {
    case INTEGER: case UNSIGNED: lua_pushinteger(L, load_integer(L, p, r->little, o->size, o->item == INTEGER)); return 1;
    case FLOAT:
      turned(&f, p, sizeof f, r->little);
      lua_pushnumber(L, (lua_Number)f);
      return 1;
    case NUMBER: case DOUBLE:
      turned(&d, p, sizeof d, r->little);
      lua_pushnumber(L, (lua_Number)d);
      return 1;
    case CHARS: lua_pushlstring(L, (const char *)p, o->size); return 1;
    case STRING:
      n = (size_t)load_integer(L, p, r->little, o->size, 0);
      luaL_argcheck(L, n <= left - o->size, 2, "data string too short");
      lua_pushlstring(L, (const char *)p + o->size, n);
      o->size += n;
      return 1;
    case ZEROED:
      zero = left ? memchr(p, 0, left) : NULL;
      luaL_argcheck(L, zero, 2, "unfinished string for format 'z'");
      lua_pushlstring(L, (const char *)p, (size_t)(zero - p));
      o->size = (size_t)(zero - p) + 1;
      return 1;
    default: return 0;
  }
}

int mr_format_unpack(lua_State *L, const char *format, const unsigned char *p, size_t len, size_t at) {
  reader r = { L, format, native_little(), 1 };
  int n = 0;
  while (*r.p) {
    option o = next_option(&r, at);
    luaL_argcheck(L, o.pad <= len - at && o.size <= len - at - o.pad, 2, "data string too short");
    at += o.pad;
    luaL_checkstack(L, 2, "too many results");
    n += push_item(&r, &o, p + at, len - at);
    at += o.size;
  }
  lua_pushinteger(L, (lua_Integer)at + 1);
  return n + 1;
}

/* ---- packing ---- */

static void check_fits(lua_State *L, const option *o, lua_Integer v, int arg) {
  if (o->size >= 8) return;
  lua_Integer limit = (lua_Integer)1 << (o->size * 8 - 1);
  if (o->item == INTEGER) luaL_argcheck(L, -limit <= v && v < limit, arg, "integer overflow");
  else luaL_argcheck(L, (lua_Unsigned)v < (lua_Unsigned)1 << (o->size * 8), arg, "unsigned overflow");
}

typedef struct writer { reader r; mr_format_room room; void *ud; size_t done; } writer;

static unsigned char *place(writer *w, size_t n) {
  luaL_argcheck(w->r.L, n <= MOST && w->done <= MOST - n, 2, "format result too large");
  unsigned char *p = w->room(w->r.L, w->ud, w->done, n);
  w->done += n;
  return p;
}

static void put_text(writer *w, const option *o, int arg) {
  size_t n;
  const char *s = luaL_checklstring(w->r.L, arg, &n);
  if (o->item == CHARS) {
    luaL_argcheck(w->r.L, n <= o->size, arg, "string longer than given size");
    unsigned char *p = place(w, o->size);
    if (n) memcpy(p, s, n);
    memset(p + n, 0, o->size - n);
    return;
  }
  if (o->item == STRING) {
    luaL_argcheck(w->r.L, o->size >= sizeof n || n < (size_t)1 << (o->size * 8), arg, "string length does not fit in given size");
    store_integer(place(w, o->size), n, w->r.little, o->size, 0);
  } else {
    luaL_argcheck(w->r.L, strlen(s) == n, arg, "string contains zeros");
    n++;                                         /* with its zero */
  }
  unsigned char *p = place(w, n);
  if (n) memcpy(p, s, n);
}

/* 1: it took the argument. */
static int put_item(writer *w, const option *o, int arg) {
  lua_State *L = w->r.L;
  lua_Integer v;
  float f;
  double d;
  switch (o->item) {
    case INTEGER: case UNSIGNED:
      v = luaL_checkinteger(L, arg);
      check_fits(L, o, v, arg);
      store_integer(place(w, o->size), (lua_Unsigned)v, w->r.little, o->size, o->item == INTEGER && v < 0);
      return 1;
    case FLOAT:
      f = (float)luaL_checknumber(L, arg);
      turned(place(w, sizeof f), &f, sizeof f, w->r.little);
      return 1;
    case NUMBER: case DOUBLE:
      d = (double)luaL_checknumber(L, arg);
      turned(place(w, sizeof d), &d, sizeof d, w->r.little);
      return 1;
    case CHARS: case STRING: case ZEROED:
      put_text(w, o, arg);
      return 1;
    case PADDING: *place(w, 1) = 0; return 0;
    default: return 0;
  }
}

size_t mr_format_pack(lua_State *L, const char *format, int idx, mr_format_room room, void *ud) {
  writer w = { { L, format, native_little(), 1 }, room, ud, 0 };
  while (*w.r.p) {
    option o = next_option(&w.r, w.done);
    if (o.pad) memset(place(&w, o.pad), 0, o.pad);
    idx += put_item(&w, &o, idx);
  }
  return w.done;
}

/* ---- numbers in a row ---- */

size_t mr_number_size(char type) {
  switch (type) {
    case 'b': case 'B': return 1;
    case 'h': case 'H': return sizeof(short);
    case 'i': case 'I': return sizeof(int);
    case 'l': case 'L': return sizeof(long);
    case 'f': return sizeof(float);
    case 'j': case 'J': case 'd': case 'n': return 8;
    default: return 0;
  }
}

#define PUSH(letter, ctype, push, as) case letter: { ctype v; memcpy(&v, p, sizeof v); push(L, (as)v); break; }

void mr_number_push(lua_State *L, char type, const unsigned char *p) {
  switch (type) {
    PUSH('d', double, lua_pushnumber, lua_Number)
    PUSH('n', lua_Number, lua_pushnumber, lua_Number)
    PUSH('f', float, lua_pushnumber, lua_Number)
    PUSH('j', lua_Integer, lua_pushinteger, lua_Integer)
    PUSH('J', lua_Integer, lua_pushinteger, lua_Integer)
    PUSH('b', signed char, lua_pushinteger, lua_Integer)
    PUSH('B', unsigned char, lua_pushinteger, lua_Integer)
    PUSH('h', short, lua_pushinteger, lua_Integer)
    PUSH('H', unsigned short, lua_pushinteger, lua_Integer)
    PUSH('i', int, lua_pushinteger, lua_Integer)
    PUSH('I', unsigned, lua_pushinteger, lua_Integer)
    PUSH('l', long, lua_pushinteger, lua_Integer)
    PUSH('L', unsigned long, lua_pushinteger, lua_Integer)
    default: lua_pushnil(L);
  }
}

static int is_unsigned(char type) { return type >= 'A' && type <= 'Z'; }

void mr_number_check(lua_State *L, int idx, char type, mr_number *n) {
  double d;
  float f;
  switch (type) {
    case 'd': case 'n':
      d = (double)luaL_checknumber(L, idx);
      memcpy(n->bytes, &d, sizeof d);
      return;
    case 'f':
      f = (float)luaL_checknumber(L, idx);
      memcpy(n->bytes, &f, sizeof f);
      return;
    default: break;
  }
  option o = { is_unsigned(type) ? UNSIGNED : INTEGER, mr_number_size(type), 0 };
  lua_Integer v = luaL_checkinteger(L, idx);
  check_fits(L, &o, v, idx);
  store_integer(n->bytes, (lua_Unsigned)v, native_little(), o.size, v < 0);
}
