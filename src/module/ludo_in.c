/*
 * ludo_in: bytes to values, for mare.ludo. See ludo.h. The bytes may be anything: whoever sends them may wish us ill.
 *
 * Each number is compared with what it counts before it is used: there can't be more values than bytes are left, a string lies within the message, what is
 * referred to has come before. What the values take is estimated before it is allocated, and refused beyond the world's limit. Nothing but the world's own
 * functions is called; no code comes in, classes are those that the program has named.
 *
 * Each open table is a frame, as in ludo_out.c: it lies on the Lua stack, above it the key that waits for its value.
 */
#include "module/ludo.h"
#include "module/buflib.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARRAY, KEY, VALUE, SHAPED };              /* what a frame gets next */
enum { CLASSES = 1, STRINGS, OBJECTS };          /* on the stack, behind reader.at */
enum { TEXTS = 64, TEXT = 40, RECALLS = 4 };     /* see is_short */
enum { OF_TABLE = 56, OF_ELEMENT = 16, OF_NODE = 40, OF_STRING = 32 };   /* bytes, about */
enum { MOST = 1 << 28 };                         /* values of a table, so that sizes are ints */
enum { CROWDS = 4096, CROWD = 512 };              /* see crowded */

typedef struct frame { int at; uint32_t narr, i, left, key, table, chains; uint8_t hash, stage; } frame;   /* key: of the shape's keys, the next; table:
                                                    its number among all with pairs; chains: how many its nodes can begin */
typedef struct shape { uint32_t first, n; } shape;

typedef struct text { uint32_t at, n; } text;

typedef struct reader {
  lua_State *L;
  int at, world, listed, recalls;
  const unsigned char *p, *end, *start;
  int64_t memory;
  uint32_t nstrings, nobjects, nshapes, nkeys;
  int depth, again;
  shape shapes[LUDO_SHAPES];
  uint32_t keys[LUDO_SHAPES * LUDO_KEYS];        /* numbers of strings */
  uint32_t ntables, nnumbers;                    /* tables with pairs; keys that are numbers */
  text texts[TEXTS];
  uint16_t crowds[CROWDS];                       /* zero once nnumbers isn't */
  frame frames[LUDO_DEPTH];
} reader;

static PORT_NORETURN void bad(const reader *r, const char *why) {
  luaL_error(r->L, "what came is no LuDO message: %s, at byte %d", why, (int)(r->p - r->start) + 1);
  abort();
}

static void take_memory(reader *r, uint64_t n) {
  if ((r->memory -= (int64_t)n) < 0) bad(r, "its values would take more memory than is allowed");
}

static size_t left(const reader *r) { return (size_t)(r->end - r->p); }

static uint64_t get_number(reader *r) {
  uint64_t n = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (r->p == r->end) bad(r, "it ends in a number");
    unsigned char b = *r->p++;
    if (shift == 63 && b > 1) bad(r, "a number is too large");
    n |= (uint64_t)(b & 0x7f) << shift;
    if (!(b & 0x80)) return n;
  }
  bad(r, "a number is too long");
}

/* How many of what takes so many bytes each, at least. */
static uint32_t get_count(reader *r, size_t each) {
  uint64_t n = get_number(r);
  if (n > left(r) / each) bad(r, "it ends before what it counts");
  return (uint32_t)n;
}

static uint32_t get_index(reader *r, uint32_t n, const char *why) {
  uint64_t i = get_number(r);
  if (i >= n) bad(r, why);
  return (uint32_t)i;
}

/* ---- strings: pushed; they get numbers ---- */

/* From now on strings are in a list. */
static PORT_NOINLINE void list_strings(reader *r) {
  lua_createtable(r->L, TEXTS, 0);
  for (uint32_t i = 0; i < r->nstrings; i++) {
    lua_pushlstring(r->L, (const char *)r->start + r->texts[i].at, r->texts[i].n);
    lua_rawseti(r->L, -2, (lua_Integer)i + 1);
  }
  lua_replace(r->L, r->at + STRINGS);
  r->listed = 1;
}

/*
 * The string that follows gets a number. A short one, of which Lua has but one anyway, is remembered as a place in the message, while there are few and
 * they seldom come again. 0: it goes into the list.
 */
static inline int is_short(reader *r, uint64_t n) {
  if (PORT_UNLIKELY(r->listed)) return 0;
  if (PORT_UNLIKELY(n > TEXT || r->nstrings == TEXTS)) return list_strings(r), 0;
  r->texts[r->nstrings++] = (text){ (uint32_t)(r->p - r->start), (uint32_t)n };
  return 1;
}

static void push_string(reader *r, uint64_t n) {
  if (n > left(r)) bad(r, "a string is longer than the message");
  take_memory(r, n + OF_STRING + OF_ELEMENT);
  int here = is_short(r, n);
  lua_pushlstring(r->L, (const char *)r->p, (size_t)n);
  r->p += n;
  if (PORT_LIKELY(here)) return;
  lua_pushvalue(r->L, -1);
  lua_rawseti(r->L, r->at + STRINGS, (lua_Integer)++r->nstrings);
}

static void push_known(reader *r, uint32_t i) {
  if (i >= r->nstrings) bad(r, "it refers to a string that has not come");
  if (PORT_UNLIKELY(!r->listed && ++r->recalls > RECALLS)) list_strings(r);
  if (r->listed) lua_rawgeti(r->L, r->at + STRINGS, (lua_Integer)i + 1);
  else lua_pushlstring(r->L, (const char *)r->start + r->texts[i].at, r->texts[i].n);
}

/* 1: the tag was one of a string's. */
static int is_string(reader *r, unsigned tag) {
  if (tag >= LUDO_SHORT && tag < LUDO_SMALL) {
    if (tag < LUDO_RECENT) push_string(r, tag - LUDO_SHORT);
    else push_known(r, tag - LUDO_RECENT);
  } else if (tag == LUDO_STRING) {
    push_string(r, get_number(r));
  } else if (tag == LUDO_KNOWN) {
    push_known(r, get_index(r, r->nstrings, "it refers to a string that has not come"));
  } else {
    return 0;
  }
  return 1;
}

static void get_string(reader *r, const char *why) {
  if (r->p == r->end || !is_string(r, *r->p++)) bad(r, why);
}

/* ---- tables ---- */

/* A string that comes next, as its number. */
static uint32_t get_key(reader *r) {
  unsigned tag = r->p < r->end ? *r->p : 0;
  uint32_t number = r->nstrings;
  if (tag >= LUDO_RECENT && tag < LUDO_SMALL) number = tag - LUDO_RECENT;
  if (tag == LUDO_KNOWN) {
    r->p++;
    return get_index(r, r->nstrings, "it refers to a string that has not come");
  }
  get_string(r, "a key of a shape is no string");
  lua_pop(r->L, 1);
  return number;
}

static void read_shape(reader *r, frame *f, int made) {
  if (!made) {
    const shape *s = &r->shapes[get_index(r, r->nshapes, "it refers to a shape that has not come")];
    f->key = s->first;
    f->left = s->n;
    return;
  }
  uint32_t n = get_count(r, 1);
  if (n == 0 || n > LUDO_KEYS || r->nshapes == LUDO_SHAPES) bad(r, "a shape has too many keys or none, or there are too many shapes");
  shape *s = &r->shapes[r->nshapes];
  *s = (shape){ r->nkeys, n };
  for (uint32_t i = 0; i < n; i++) r->keys[s->first + i] = get_key(r);
  r->nkeys += n;
  r->nshapes++;
  f->key = s->first;
  f->left = n;
}

static uint64_t nodes_of(uint32_t n) {
  uint64_t size = n ? 1 : 0;
  while (size && size < n) size *= 2;
  return size;
}

static void set_class(reader *r) {
  lua_pushvalue(r->L, -2);
  if (lua_rawget(r->L, r->at + CLASSES) != LUA_TTABLE) {
    const char *name = lua_tostring(r->L, -3);
    luaL_error(r->L, "a table of class '%s' came, which has no metatable here: classes = { name = metatable }", name ? name : "?");
  }
  lua_setmetatable(r->L, -2);
}

/* Pushes an empty table, whose frame is on top. 0: there is nothing to fill it with, and no frame. `class`: its name is on the stack, and goes. */
static int open_table(reader *r, unsigned tag, int class) {
  lua_State *L = r->L;
  if (r->depth == LUDO_DEPTH) bad(r, "its tables nest too deep");
  if (!lua_checkstack(L, 12)) bad(r, "its tables nest too deep");
  frame *f = &r->frames[r->depth];
  *f = (frame){ .narr = get_count(r, 1), .hash = tag == LUDO_TABLE ? KEY : SHAPED };
  if (tag == LUDO_TABLE) {
    f->left = get_count(r, 2);
    f->table = r->ntables++;
    f->chains = ((uint32_t)nodes_of(f->left) - 1) | 1;
  }
  else read_shape(r, f, tag == LUDO_SHAPE);
  if (f->narr > MOST || f->left > MOST) bad(r, "a table is too large");
  take_memory(r, OF_TABLE + OF_ELEMENT + (uint64_t)f->narr * OF_ELEMENT + nodes_of(f->left) * OF_NODE);
  lua_createtable(L, (int)f->narr, (int)f->left);
  if (class) {
    set_class(r);
    lua_replace(L, -2);
  }
  if (r->again) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, r->at + OBJECTS, (lua_Integer)++r->nobjects);
  }
  f->at = lua_gettop(L);
  f->stage = f->narr ? ARRAY : f->hash;
  if (!f->narr && !f->left) return 0;
  r->depth++;
  return 1;
}

static int read_class(reader *r) {
  get_string(r, "the name of a class is no string");
  unsigned tag = r->p < r->end ? *r->p++ : 0;
  if (tag < LUDO_TABLE || tag > LUDO_SHAPE) bad(r, "what has a class is no table");
  return open_table(r, tag, 1);
}

static void read_object(reader *r) {
  if (!r->again) bad(r, "it refers to a table, but says that it does not");
  lua_rawgeti(r->L, r->at + OBJECTS, (lua_Integer)get_index(r, r->nobjects, "it refers to a table that has not come") + 1);
}

static void read_reference(reader *r) {
  lua_State *L = r->L;
  luaL_checkstack(L, 8, NULL);
  take_memory(r, 1000);
  lua_rawgeti(L, r->world, WORLD_RESOLVE);
  get_string(r, "a reference is no string");
  lua_call(L, 1, 1);
}

static void read_buffer(reader *r) {
  uint64_t n = get_number(r);
  if (n > left(r)) bad(r, "a buffer is longer than the message");
  take_memory(r, n + 200);
  mr_buffer_push_new(r->L, mr_buffer_copy(r->p, (size_t)n));
  r->p += n;
}

static void read_float(reader *r) {
  uint64_t bits = 0;
  lua_Number n;
  if (left(r) < 8) bad(r, "it ends in a number");
  for (int i = 0; i < 8; i++) bits |= (uint64_t)r->p[i] << 8 * i;
  r->p += 8;
  memcpy(&n, &bits, sizeof n);
  lua_pushnumber(r->L, n);
}

/* Pushes the next value. 1: a table, whose content follows. */
static int read_value(reader *r) {
  lua_State *L = r->L;
  if (r->p == r->end) bad(r, "it ends before its last value");
  unsigned tag = *r->p++;
  if (tag >= LUDO_SMALL) return lua_pushinteger(L, (lua_Integer)tag - LUDO_ZERO), 0;
  if (is_string(r, tag)) return 0;
  switch (tag) {
    case LUDO_NIL: lua_pushnil(L); return 0;
    case LUDO_FALSE:
    case LUDO_TRUE: lua_pushboolean(L, tag == LUDO_TRUE); return 0;
    case LUDO_INTEGER: {
      uint64_t n = get_number(r);
      lua_pushinteger(L, (lua_Integer)(n >> 1 ^ (n & 1 ? UINT64_MAX : 0)));
      return 0;
    }
    case LUDO_FLOAT: read_float(r); return 0;
    case LUDO_TABLE:
    case LUDO_SHAPED:
    case LUDO_SHAPE: return open_table(r, tag, 0);
    case LUDO_OBJECT: read_object(r); return 0;
    case LUDO_CLASS: return read_class(r);
    case LUDO_REFERENCE: read_reference(r); return 0;
    case LUDO_BUFFER: read_buffer(r); return 0;
    default: r->p--; bad(r, "there is no such kind of value");
  }
}

/* What Lua 5.4 makes of a number to choose its chain. */
static uint64_t hash_of(lua_State *L, int at) {
  int exact, e;
  lua_Integer i = lua_tointegerx(L, at, &exact);
  if (exact) return (uint64_t)i;
  double n = frexp(lua_tonumber(L, at), &e) * -(double)INT_MIN;
  if (!(n >= -9223372036854775808.0 && n < 9223372036854775808.0)) return 0;   /* infinite */
  unsigned u = (unsigned)e + (unsigned)(int64_t)n;
  return u <= (unsigned)INT_MAX ? u : ~u;
}

/*
 * Numbers are put into chains by their value alone, so whoever sends them can put all of a table's into one, and each would be compared with all before it.
 * Chains are counted, in fewer counters than there may be chains: numbers that were not chosen for that spread evenly.
 */
static void crowded(reader *r, const frame *f) {
  if (!r->nnumbers) memset(r->crowds, 0, sizeof r->crowds);
  uint64_t chain = hash_of(r->L, -1) % f->chains, h = (chain + ((uint64_t)f->table << 32) + 1) * 0x9e3779b97f4a7c15u;
  uint16_t *n = &r->crowds[h >> 52];
  if (*n > CROWD + 2 * (r->nnumbers++ / CROWDS)) bad(r, "too many of its keys are made to collide");
  ++*n;
}

/* A complete value is on top: it goes into the frame. */
static void fill(reader *r, frame *f) {
  lua_State *L = r->L;
  switch (f->stage) {
    case ARRAY:
      lua_rawseti(L, f->at, (lua_Integer)++f->i);
      if (f->i == f->narr) f->stage = f->hash;
      return;
    case KEY:
      if (lua_isnil(L, -1) || (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1))) bad(r, "a key is nil or not a number");
      if (lua_type(L, -1) == LUA_TNUMBER) crowded(r, f);
      f->stage = VALUE;
      return;
    case VALUE:
      lua_rawset(L, f->at);
      f->stage = KEY;
      break;
    default: lua_rawset(L, f->at);
  }
  f->left--;
}

/* What a frame's next value needs below it: the key, where that is a shape's. */
static void push_key(reader *r, frame *f) {
  if (f->stage == SHAPED) push_known(r, r->keys[f->key++]);
}

static void read_whole(reader *r) {
  for (;;) {
    if (r->depth) push_key(r, &r->frames[r->depth - 1]);
    if (read_value(r)) continue;
    for (;;) {
      if (!r->depth) return;
      frame *f = &r->frames[r->depth - 1];
      fill(r, f);
      if (f->stage == VALUE || f->i < f->narr || f->left) break;
      r->depth--;                                /* the table is on top: a complete value */
    }
  }
}

/* A string that nobody wants, but which has a number. */
static void skip_string(reader *r) {
  unsigned tag = r->p < r->end ? *r->p : 0;
  uint64_t n = tag - LUDO_SHORT;
  if (PORT_LIKELY(tag >= LUDO_SHORT && tag < LUDO_RECENT && n < left(r) && !r->listed && r->nstrings < TEXTS)) {
    r->texts[r->nstrings++] = (text){ (uint32_t)(++r->p - r->start), (uint32_t)n };
    r->p += n;
    return;
  }
  get_string(r, "a string expected");
  lua_pop(r->L, 1);
}

int mr_ludo_read(lua_State *L, const char *s, size_t len, int world, int skip, int again) {
  reader r;
  luaL_checkstack(L, 20, NULL);
  r.at = lua_gettop(L);
  r.world = world;
  lua_rawgeti(L, world, WORLD_CLASSES);
  luaL_checktype(L, -1, LUA_TTABLE);
  lua_pushnil(L);
  lua_rawgeti(L, world, WORLD_MEMORY);
  r.memory = luaL_checkinteger(L, -1);
  lua_pop(L, 1);
  r.L = L;
  r.start = (const unsigned char *)s;
  r.p = r.start + LUDO_HEAD;
  r.end = r.start + len;
  r.nstrings = r.nobjects = r.nshapes = r.nkeys = r.ntables = r.nnumbers = 0;
  r.depth = r.listed = r.recalls = r.again = 0;
  uint32_t n = 0;
  if (r.p < r.end) {                             /* else it has no body: no values */
    r.again = *r.p & LUDO_AGAIN;
    if (*r.p++ & ~LUDO_AGAIN) bad(&r, "there is no such flag");
    n = get_count(&r, 1);
  }
  if (r.again) lua_createtable(L, 16, 0);
  else lua_pushnil(L);
  if (n > LUDO_VALUES) bad(&r, "it has too many values");
  if (n < (uint32_t)skip) bad(&r, "it has too few values");
  luaL_checkstack(L, (int)n + again + 20, NULL);
  for (int i = 0; i < again; i++) lua_pushvalue(L, r.at - again + 1 + i);
  for (int i = 0; i < skip; i++) skip_string(&r);
  for (uint32_t i = (uint32_t)skip; i < n; i++) read_whole(&r);
  if (r.p != r.end) bad(&r, "more follows behind its last value");
  return (int)n - skip + again;
}

/* values(message, world) -> the values; raises what is wrong with it */
int mr_ludo_values(lua_State *L) {
  size_t len;
  const char *s = luaL_checklstring(L, 1, &len);
  luaL_checktype(L, 2, LUA_TTABLE);
  luaL_argcheck(L, len >= LUDO_HEAD, 1, "a message has a head");
  lua_settop(L, 2);
  return mr_ludo_read(L, s, len, 2, 0, 0);
}

/* ---- a request, before it is read ---- */

/* A short string that has not come before, at *p; moves on. */
static int peek_string(const unsigned char **p, const unsigned char *end, port_slice *s) {
  size_t n = *p < end ? (size_t)**p - LUDO_SHORT : SIZE_MAX;
  if (n >= LUDO_RECENT - LUDO_SHORT || n >= (size_t)(end - *p)) return 0;
  *s = (port_slice){ (const char *)*p + 1, n };
  *p += n + 1;
  return 1;
}

int mr_ludo_is_request(const char *s, size_t n, mr_ludo_request *q, size_t *length) {
  const unsigned char *p = (const unsigned char *)s + LUDO_HEAD, *end;
  if (n < LUDO_HEAD + 4 || mr_ludo_word(s + 8) != LUDO_CALL) return 0;
  *length = mr_ludo_word(s);
  if (*length > n || *length > LUDO_MOST || *length < LUDO_HEAD + 4) return 0;
  end = (const unsigned char *)s + *length;
  q->id = mr_ludo_word(s + 4);
  if (*p++ & ~LUDO_AGAIN || *p < 2 || *p++ >= 0x80) return 0;
  return peek_string(&p, end, &q->key) && peek_string(&p, end, &q->operation);
}
