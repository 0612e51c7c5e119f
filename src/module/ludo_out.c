/*
 * ludo_out: values to bytes, for mare.ludo. See ludo.h.
 *
 * Tables are read raw, and no code of the program runs meanwhile, but that of finalisers where memory is got; should one of those change a table that is being
 * read, that is an error. A *record*, whose keys are all short strings and whose values are all plain, is read from Lua's own nodes (put_record); every other
 * table by the API, with the same bytes as result. Each open table is a *frame*: it lies on the Lua stack, above it the key that lua_next was at, above that
 * the value. What outgrows the C stack lies in userdata on the Lua stack: so errors leave nothing behind.
 */
#include "module/ludo.h"
#include "module/buflib.h"
#include "lua/layout.h"

#include <stdlib.h>
#include <string.h>

enum { RECORD_TEXT = 1 << 10 };                  /* bytes of a record's text, at most: room is got for all, also for what comes again */
enum { ARRAY, NEXT, VALUE };                     /* where a frame is: in its array values; before a pair; behind the pair's key */
enum { REFERENCES = 1, NAMES, OUT, MAP, PLACES = MAP };   /* on the stack, above the values: behind writer.at */

typedef struct frame { int at; uint32_t narr, i, left; uint8_t shaped, stage; } frame;
typedef struct slot { const void *key; uint32_t value; } slot;
typedef struct shape { uint32_t hash, first, n; } shape;

typedef struct writer {
  lua_State *L;
  int at;
  char *p;
  size_t len, cap;
  slot *slots;
  uint32_t mask, nslots;
  uint32_t nstrings, nobjects, nshapes, nkeys;
  int depth, again, argument;
  shape shapes[LUDO_SHAPES];
  const void *keys[8 * LUDO_SHAPES];
  frame frames[LUDO_DEPTH];
} writer;

/* ---- bytes ---- */

static PORT_NOINLINE void grow(writer *w, size_t n) {
  size_t cap = (w->len + n) * 2;
  if (n > (size_t)UINT32_MAX || w->len + n > (size_t)UINT32_MAX) luaL_error(w->L, "a message can't have more than 4 GiB");
  char *p = lua_newuserdatauv(w->L, cap, 0);
  memcpy(p, w->p, w->len);
  lua_replace(w->L, w->at + OUT);
  w->p = p;
  w->cap = cap;
}

static inline char *room(writer *w, size_t n) {
  if (PORT_UNLIKELY(w->cap - w->len < n)) grow(w, n);
  return w->p + w->len;
}

static inline void put_byte(writer *w, unsigned b) {
  *room(w, 1) = (char)b;
  w->len++;
}

static inline void put_number(writer *w, uint64_t n) {
  char *p = room(w, 10);
  size_t i = 0;
  for (; n >= 0x80; n >>= 7) p[i++] = (char)(n | 0x80);
  p[i++] = (char)n;
  w->len += i;
}

static void put_bytes(writer *w, const char *s, size_t n) {
  memcpy(room(w, n), s, n);
  w->len += n;
}

/* ---- what was written before ---- */

static PORT_NOINLINE void grow_map(writer *w) {
  uint32_t mask = w->mask * 2 + 1;
  slot *all = lua_newuserdatauv(w->L, (size_t)(mask + 1) * sizeof *all, 0);
  memset(all, 0, (size_t)(mask + 1) * sizeof *all);
  for (uint32_t i = 0; i <= w->mask; i++) {
    if (!w->slots[i].key) continue;
    uint32_t k = (uint32_t)(((uintptr_t)w->slots[i].key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & mask;
    while (all[k].key) k = (k + 1) & mask;
    all[k] = w->slots[i];
  }
  lua_replace(w->L, w->at + MAP);
  w->slots = all;
  w->mask = mask;
}

/* 1: it was there, *value is its number. 0: it has the one that *value was. */
static int number_of(writer *w, const void *key, uint32_t *value) {
  if (PORT_UNLIKELY(w->nslots * 2 > w->mask)) grow_map(w);
  uint32_t i = (uint32_t)(((uintptr_t)key * UINT64_C(0x9E3779B97F4A7C15)) >> 32) & w->mask;
  for (; w->slots[i].key; i = (i + 1) & w->mask) {
    if (w->slots[i].key != key) continue;
    *value = w->slots[i].value;
    return 1;
  }
  w->slots[i] = (slot){ key, *value };
  w->nslots++;
  return 0;
}

/* ---- errors ---- */

/* The way to the value: ".items[3].owner". */
static void push_path(writer *w) {
  lua_State *L = w->L;
  luaL_Buffer b;
  luaL_checkstack(L, 12, NULL);
  luaL_buffinit(L, &b);
  for (int i = 0; i < w->depth && i < 40; i++) {
    const frame *f = &w->frames[i];
    if (f->stage == ARRAY) lua_pushfstring(L, "[%d]", (int)f->i);
    else if (lua_type(L, f->at + 1) == LUA_TSTRING) lua_pushfstring(L, ".%s", lua_tostring(L, f->at + 1));
    else if (lua_isinteger(L, f->at + 1)) lua_pushfstring(L, "[%I]", lua_tointeger(L, f->at + 1));
    else lua_pushfstring(L, "[%s]", luaL_typename(L, f->at + 1));
    luaL_addvalue(&b);
  }
  luaL_pushresult(&b);
}

static PORT_NORETURN void refuse(writer *w, const char *what, const char *remedy) {
  push_path(w);
  luaL_error(w->L, "value %d%s: %s cannot be sent by LuDO%s", w->argument, lua_tostring(w->L, -1), what, remedy);
  abort();
}

static PORT_NORETURN void changed(writer *w) {
  luaL_error(w->L, "value %d: a table has changed while it was sent", w->argument);
  abort();
}

/* ---- values that are no tables; each is on top and stays ---- */

/* `s` is Lua's own text: its address stands for it. */
static void put_text(writer *w, const char *s, size_t n) {
  uint32_t number = w->nstrings;
  if (number_of(w, s, &number)) {
    if (number < 32) return put_byte(w, LUDO_RECENT + number);
    put_byte(w, LUDO_KNOWN);
    return put_number(w, number);
  }
  w->nstrings++;
  if (n < 32) {
    put_byte(w, LUDO_SHORT + (unsigned)n);
  } else {
    put_byte(w, LUDO_STRING);
    put_number(w, n);
  }
  put_bytes(w, s, n);
}

static void put_string(writer *w, int idx) {
  size_t n;
  const char *s = lua_tolstring(w->L, idx, &n);
  put_text(w, s, n);
}

static void put_integer(writer *w, lua_Integer i) {
  if (i >= LUDO_SMALL - LUDO_ZERO && i <= 0xff - LUDO_ZERO) return put_byte(w, (unsigned)(i + LUDO_ZERO));
  put_byte(w, LUDO_INTEGER);
  put_number(w, (uint64_t)i << 1 ^ (i < 0 ? UINT64_MAX : 0));
}

static void put_float(writer *w, uint64_t bits) {
  put_byte(w, LUDO_FLOAT);
  char *p = room(w, 8);
  for (int i = 0; i < 8; i++) p[i] = (char)(bits >> 8 * i);
  w->len += 8;
}

static void put_numeric(writer *w) {
  lua_State *L = w->L;
  if (lua_isinteger(L, -1)) return put_integer(w, lua_tointeger(L, -1));
  lua_Number n = lua_tonumber(L, -1);
  uint64_t bits;
  memcpy(&bits, &n, sizeof bits);
  put_float(w, bits);
}

static void put_userdata(writer *w) {
  const mr_buffer *b = mr_buffer_get(w->L, -1);
  if (!b) refuse(w, luaL_tolstring(w->L, -1, NULL), "; send what it is made from, or serve an object that uses it here");
  if (mr_buffer_is_open(b)) refuse(w, "an open buffer", "; seal it first");
  put_byte(w, LUDO_BUFFER);
  put_number(w, b->length);
  put_bytes(w, (const char *)b->bytes, b->length);
}

/* Pushes what leads to the object that the table on top is or stands for; 0: neither, and nothing was pushed. */
static int push_reference(writer *w) {
  lua_State *L = w->L;
  lua_pushvalue(L, -1);
  if (lua_rawget(L, w->at + REFERENCES) == LUA_TSTRING) return 1;
  lua_pop(L, 1);
  if (PORT_LIKELY(!lua_getmetatable(L, -1))) return 0;
  int is_proxy = lua_rawget(L, w->at + NAMES) == LUA_TBOOLEAN;
  lua_pop(L, 1);
  if (!is_proxy) return 0;
  lua_pushliteral(L, "_reference");
  if (lua_rawget(L, -2) == LUA_TSTRING) return 1;
  lua_pop(L, 1);
  return 0;
}

/* What is known of the table on top by others than its content. 1: written; 0: its content is to be written. */
static int is_known_table(writer *w) {
  lua_State *L = w->L;
  uint32_t number = w->nobjects;
  if (PORT_UNLIKELY(push_reference(w))) {
    put_byte(w, LUDO_REFERENCE);
    put_string(w, -1);
    lua_pop(L, 1);
    return 1;
  }
  if (number_of(w, lua_topointer(L, -1), &number)) {
    w->again = 1;
    put_byte(w, LUDO_OBJECT);
    put_number(w, number);
    return 1;
  }
  w->nobjects++;
  return 0;
}

static int put_leaf(writer *w) {
  switch (lua_type(w->L, -1)) {
    case LUA_TNIL: put_byte(w, LUDO_NIL); break;
    case LUA_TBOOLEAN: put_byte(w, lua_toboolean(w->L, -1) ? LUDO_TRUE : LUDO_FALSE); break;
    case LUA_TNUMBER: put_numeric(w); break;
    case LUA_TSTRING: put_string(w, -1); break;
    case LUA_TTABLE: return is_known_table(w);
    case LUA_TUSERDATA: put_userdata(w); break;
    case LUA_TFUNCTION: refuse(w, "a function", "; code does not travel. Serve an object that has it as a method");
    default: refuse(w, luaL_typename(w->L, -1), "");
  }
  return 1;
}

/* ---- tables ---- */

static void put_class(writer *w) {
  lua_State *L = w->L;
  if (!lua_getmetatable(L, -1)) return;
  if (lua_rawget(L, w->at + NAMES) != LUA_TSTRING)
    refuse(w, "a table with a metatable that has no name", "; give its class one: classes = { name = metatable }, on both sides");
  put_byte(w, LUDO_CLASS);
  put_string(w, -1);
  lua_pop(L, 1);
}

static int is_array_key(lua_State *L, int idx, uint32_t narr) {
  lua_Integer i = lua_isinteger(L, idx) ? lua_tointeger(L, idx) : 0;
  return i >= 1 && (lua_Unsigned)i <= narr;
}

/* Begins to walk over what is no array value: lua_next starts behind the key that is pushed. */
static void push_start(lua_State *L, int at, uint32_t narr) {
  const raw_table *t = mr_layout && narr ? lua_topointer(L, at) : NULL;
  if (t && raw_arraysize(t) >= narr) lua_pushinteger(L, (lua_Integer)narr);
  else lua_pushnil(L);
}

static inline uint32_t mixed(uint32_t hash, const void *key) { return (hash ^ (uint32_t)((uintptr_t)key >> 4)) * 0x01000193u + 1; }

/* How many pairs are no array values; *named: the keys are few, and strings, they are at `keys`. */
static uint32_t count_pairs(lua_State *L, int at, uint32_t *narr, const void **keys, uint32_t *hash, int *named) {
  uint32_t n = 0, within = 0;
  int whole = 1;
  *named = 1;
  *hash = 0;
  push_start(L, at, *narr);
  if (!lua_isnil(L, -1)) whole = 0;              /* the array values were left out */
  while (lua_next(L, at)) {
    lua_pop(L, 1);
    if (is_array_key(L, -1, *narr)) {
      within++;
      continue;
    }
    if (n < LUDO_KEYS && lua_type(L, -1) == LUA_TSTRING) {
      keys[n] = lua_tostring(L, -1);
      *hash = mixed(*hash, keys[n]);
    } else {
      *named = 0;
    }
    n++;
  }
  if (whole && within < *narr / 2) {             /* mostly holes: they are pairs, too */
    *narr = 0;
    *named = 0;
    n += within;
  }
  return n;
}

/* The number of the shape with these keys; it is made if there is room. *made: it was. */
static int find_shape(writer *w, const void **keys, uint32_t n, uint32_t hash, int *made) {
  *made = 0;
  for (uint32_t i = 0; i < w->nshapes; i++) {
    const shape *s = &w->shapes[i];
    if (s->hash == hash && s->n == n && memcmp(w->keys + s->first, keys, n * sizeof *keys) == 0) return (int)i;
  }
  if (w->nshapes == LUDO_SHAPES || w->nkeys + n > sizeof w->keys / sizeof *w->keys) return -1;
  memcpy(w->keys + w->nkeys, keys, n * sizeof *keys);
  w->shapes[w->nshapes] = (shape){ hash, w->nkeys, n };
  w->nkeys += n;
  *made = 1;
  return (int)w->nshapes++;
}

static void put_keys(writer *w, frame *f) {
  lua_State *L = w->L;
  put_number(w, f->left);
  uint32_t n = 0;
  for (push_start(L, f->at, f->narr); lua_next(L, f->at);) {
    lua_pop(L, 1);
    if (is_array_key(L, -1, f->narr)) continue;
    if (++n > f->left || lua_type(L, -1) != LUA_TSTRING) changed(w);
    put_string(w, -1);
  }
  if (n != f->left) changed(w);
}

/* ---- records ---- */

static size_t length_of(const raw_string *s) { return s->tt == (RAW_SHORT & ~RAW_COLLECTABLE) ? s->shrlen : s->length; }

/* The keys of a record, and its bytes at most; 0: the table is none. */
static uint32_t record_keys(const raw_table *t, const void **keys, uint32_t *hash, size_t *most) {
  uint32_t n = 0;
  *hash = 0;
  *most = 32;
  if (t->metatable || raw_arraysize(t) || t->lsizenode > 6) return 0;
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++) {
    if (raw_isnil(node->tt)) continue;
    if (n == LUDO_KEYS || node->key_tt != RAW_SHORT) return 0;
    const raw_string *key = (const raw_string *)(uintptr_t)node->key;
    switch (node->tt) {
      case RAW_FALSE: case RAW_TRUE: case RAW_INT: case RAW_FLT: break;
      case RAW_SHORT: case RAW_LONG: {
        size_t length = length_of((const raw_string *)(uintptr_t)node->bits);
        if (length > RECORD_TEXT) return 0;
        *most += length;
        break;
      }
      default: return 0;
    }
    keys[n++] = key->text;
    *hash = mixed(*hash, key->text);
    *most += 32 + key->shrlen;
  }
  return n;
}

static void put_plain(writer *w, const raw_node *node) {
  switch (node->tt) {
    case RAW_FALSE: put_byte(w, LUDO_FALSE); break;
    case RAW_TRUE: put_byte(w, LUDO_TRUE); break;
    case RAW_INT: put_integer(w, (lua_Integer)node->bits); break;
    case RAW_FLT: put_float(w, node->bits); break;
    default: {
      const raw_string *s = (const raw_string *)(uintptr_t)node->bits;
      put_text(w, s->text, length_of(s));
    }
  }
}

/* Room for so many bytes and strings. 1: memory was got, so finalisers may have run. */
static int make_room(writer *w, size_t bytes, uint32_t strings) {
  int got = w->cap - w->len < bytes;
  if (got) grow(w, bytes);
  for (; (w->nslots + strings) * 2 > w->mask; got = 1) grow_map(w);
  return got;
}

/* Writes the table on top, if it is a record. While its nodes are looked at no memory is got, so nothing moves them. */
static int put_record(writer *w) {
  const raw_table *t = lua_topointer(w->L, -1);
  const void *keys[LUDO_KEYS];
  uint32_t hash, n;
  size_t most;
  int made;
  do {
    n = record_keys(t, keys, &hash, &most);
    if (!n) return 0;
  } while (make_room(w, most, 2 * n));
  int number = find_shape(w, keys, n, hash, &made);
  if (number < 0) return 0;
  put_byte(w, made ? LUDO_SHAPE : LUDO_SHAPED);
  put_number(w, 0);
  put_number(w, made ? n : (uint64_t)number);
  for (uint32_t i = 0; made && i < n; i++) {
    const char *key = keys[i];
    put_text(w, key, ((const raw_string *)(const void *)(key - offsetof(raw_string, text)))->shrlen);
  }
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++)
    if (!raw_isnil(node->tt)) put_plain(w, node);
  return 1;
}

/* ---- all tables ---- */

/* The table on top is written whole and taken away, if it is a record; else it becomes a frame, what begins it is written. */
static void open_table(writer *w) {
  lua_State *L = w->L;
  const void *keys[LUDO_KEYS];
  uint32_t hash;
  int named, made, number;
  if (w->depth == LUDO_DEPTH) luaL_error(L, "value %d: tables nest deeper than %d", w->argument, LUDO_DEPTH);
  if (PORT_LIKELY(mr_layout) && put_record(w)) return lua_pop(L, 1);
  if (!lua_checkstack(L, 12)) luaL_error(L, "value %d: tables nest too deep", w->argument);
  put_class(w);
  frame *f = &w->frames[w->depth++];
  size_t border = lua_rawlen(L, -1);
  *f = (frame){ .at = lua_gettop(L), .narr = border < UINT32_MAX / 2 ? (uint32_t)border : 0 };
  f->left = count_pairs(L, f->at, &f->narr, keys, &hash, &named);
  number = f->left && named ? find_shape(w, keys, f->left, hash, &made) : -1;
  put_byte(w, number < 0 ? LUDO_TABLE : made ? LUDO_SHAPE : LUDO_SHAPED);
  put_number(w, f->narr);
  f->shaped = number >= 0;
  if (number < 0) put_number(w, f->left);
  else if (made) put_keys(w, f);
  else put_number(w, (uint64_t)number);
}

/* The next pair is pushed, in the place of the key before. */
static void next_pair(writer *w, frame *f) {
  do {
    if (lua_gettop(w->L) > f->at + 1) lua_settop(w->L, f->at + 1);
    if (!lua_next(w->L, f->at)) changed(w);
  } while (is_array_key(w->L, -2, f->narr));
  f->left--;
}

/* Writes the value on top, and takes it away. */
static void put_value(writer *w) {
  lua_State *L = w->L;
  if (put_leaf(w)) return lua_pop(L, 1);
  open_table(w);
  while (w->depth) {
    frame *f = &w->frames[w->depth - 1];
    int open = 0;
    if (f->stage == ARRAY && f->i < f->narr) {
      lua_rawgeti(L, f->at, (lua_Integer)++f->i);
      open = !put_leaf(w);
      if (!open) lua_pop(L, 1);
    } else if (f->stage == VALUE) {
      f->stage = NEXT;
      open = !put_leaf(w);
      if (!open) lua_pop(L, 1);
    } else if (f->left) {
      if (f->stage == ARRAY) push_start(L, f->at, f->narr);
      f->stage = VALUE;
      next_pair(w, f);
      if (f->shaped) continue;
      lua_pushvalue(L, -2);
      open = !put_leaf(w);
      if (!open) lua_pop(L, 1);
    } else {
      lua_settop(L, f->at - 1);
      w->depth--;
    }
    if (open) open_table(w);
  }
}

static void put_word(char *p, uint32_t n) {
  for (int i = 0; i < 4; i++) p[i] = (char)(n >> 8 * i);
}

port_slice mr_ludo_write(lua_State *L, char *out, size_t cap, int type, uint32_t id, int world, int first) {
  slot map[128];
  writer w;
  int n = lua_gettop(L) - first + 1;
  luaL_checkstack(L, 20, NULL);
  if (PORT_UNLIKELY(n > LUDO_VALUES)) luaL_error(L, "%d values can't be sent at once, only %d", n, (int)LUDO_VALUES);
  w.at = first + n - 1;
  lua_rawgeti(L, world, WORLD_REFERENCES);
  lua_rawgeti(L, world, WORLD_NAMES);
  lua_pushnil(L);
  lua_pushnil(L);
  luaL_checktype(L, w.at + REFERENCES, LUA_TTABLE);
  luaL_checktype(L, w.at + NAMES, LUA_TTABLE);
  memset(map, 0, sizeof map);
  w.L = L;
  w.p = out;
  w.cap = cap;
  w.len = LUDO_HEAD + 1;
  w.slots = map;
  w.mask = sizeof map / sizeof *map - 1;
  w.nslots = w.nstrings = w.nobjects = w.nshapes = w.nkeys = 0;
  w.depth = w.again = 0;
  put_number(&w, (uint64_t)n);
  for (int i = 0; i < n; i++) {
    w.argument = i + 1;
    lua_pushvalue(L, first + i);
    put_value(&w);
  }
  put_word(w.p, (uint32_t)w.len);
  put_word(w.p + 4, id);
  put_word(w.p + 8, (uint32_t)type);
  w.p[LUDO_HEAD] = w.again ? LUDO_AGAIN : 0;
  return (port_slice){ w.p, w.len };
}

/* message(type, id, world, …) -> string; raises what can't be sent, and where it is */
int mr_ludo_message(lua_State *L) {
  enum { WORLD = 3 };
  char out[LUDO_BYTES];
  lua_Integer type = luaL_checkinteger(L, 1), id = luaL_checkinteger(L, 2);
  luaL_argcheck(L, type >= LUDO_CALL && type <= LUDO_LAST, 1, "a type of messages expected");
  luaL_argcheck(L, id >= 0 && (uint64_t)id <= UINT32_MAX, 2, "an id expected");
  luaL_checktype(L, WORLD, LUA_TTABLE);
  port_slice m = mr_ludo_write(L, out, sizeof out, (int)type, (uint32_t)id, WORLD, WORLD + 1);
  lua_pushlstring(L, m.p, m.len);
  return 1;
}
