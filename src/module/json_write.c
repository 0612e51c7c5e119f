/*
 * json_write: the text of a value.
 *
 * Arrays and objects that are being written are *frames*, innermost last: depth costs no C stack. A frame keeps on the Lua stack what it needs: a table,
 * of an object the key that was written last, and if its names are sorted, all of them. Frozen tables are read where they lie; their userdata, on the stack
 * or in a table there, holds them.
 *
 * All memory is Lua's: the text grows in a userdata, the frames in another, so an error leaves garbage and nothing else. Tables are read without
 * metamethods; but memory that is asked for may collect garbage, and so run finalisers of the program: nothing read out of a table is used behind that
 * unless the stack holds it.
 */
#include "module/json.h"
#include "base/json.h"
#include "lua/layout.h"
#include "module/buflib.h"
#include "share/frozen.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED = 1024, FRAMES = 16, PIECE = 512, SLOTS = 8, SHOWN = 6 };

typedef enum { ARRAY, OBJECT, NODES, SORTED } kind;  /* NODES: an object whose names are all in the table's hash part, which is read raw */
typedef struct name { const char *text; size_t length; uint64_t place; } name;   /* place: in a frozen table; else its number among the keys */
typedef struct frame {
  const mr_part *part;                         /* NULL: a table, at `at` */
  const name *names;                           /* SORTED */
  uint64_t i, n;                               /* elements or names so far, and all of them; of a frozen OBJECT the place */
  int at, top;                                 /* on the Lua stack: what it has; what was there before */
  uint8_t kind, filled;
} frame;

typedef struct writer {
  lua_State *L;
  const mr_json_writing *o;
  char *text, *at, *end;
  frame *f;
  int n, room;
  int slot;                                    /* two slots of the stack: what holds the text, what holds the frames */
  frame first[FRAMES];
  char fixed[FIXED];
} writer;

/* A value, wherever it was read. */
typedef struct value {
  enum { NOTHING, BOOLEAN, INTEGER, FLOAT, STRING, TABLE, PART, OTHER } type;
  union { int yes; int64_t i; double d; size_t length; };
  const void *p;                               /* a string's bytes, a part; TABLE and OTHER are on top of the stack */
} value;

/* ---- text ---- */

static PORT_NOINLINE void more(writer *w, size_t n) {
  size_t used = (size_t)(w->at - w->text), room = (size_t)(w->end - w->text);
  if (n > SIZE_MAX / 4 - room) mr_raise(w->L, MR_ENOMEM);
  while (room < used + n) room *= 2;
  luaL_checkstack(w->L, SLOTS, NULL);
  char *text = lua_newuserdatauv(w->L, room, 0);
  memcpy(text, w->text, used);
  lua_replace(w->L, w->slot);
  w->text = text;
  w->at = text + used;
  w->end = text + room;
}

static inline void reserve(writer *w, size_t n) {
  if (PORT_UNLIKELY((size_t)(w->end - w->at) < n)) more(w, n);
}
static inline void put(writer *w, char c) {
  reserve(w, 1);
  *w->at++ = c;
}
static inline void put_text(writer *w, const char *s, size_t n) {
  reserve(w, n);
  memcpy(w->at, s, n);
  w->at += n;
}

/* ---- what is wrong, and where ---- */

static int is_name(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (s[i] != '_' && !((s[i] | 32) >= 'a' && (s[i] | 32) <= 'z') && !(i > 0 && s[i] >= '0' && s[i] <= '9')) return 0;
  return n > 0;
}

static void add_name(luaL_Buffer *b, const char *s, size_t n) {
  enum { MOST = 40 };
  char shown[MOST * MR_JSON_WIDEST];
  if (is_name(s, n) && n <= MOST) {
    luaL_addchar(b, '.');
    luaL_addlstring(b, s, n);
    return;
  }
  luaL_addstring(b, "[\"");
  luaL_addlstring(b, shown, mr_json_escape(shown, s, n < MOST ? n : MOST, MR_JSON_MARK));
  luaL_addstring(b, n < MOST ? "\"]" : "…\"]");
}

/* The step from this frame to what is written in it. Its key is on the stack, or in what is held from there. */
static void add_step(writer *w, luaL_Buffer *b, const frame *f) {
  char number[32];
  if (f->kind == ARRAY) {
    snprintf(number, sizeof number, "[%llu]", (unsigned long long)f->i);
    luaL_addstring(b, number);
    return;
  }
  if (f->kind == SORTED) {
    add_name(b, f->names[f->i - 1].text, f->names[f->i - 1].length);
    return;
  }
  if (f->part) {
    mr_frozen_value key = mr_part_key_at(f->part, f->i);
    const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)key.word;
    if (key.tag == FROZEN_STRING) add_name(b, s->bytes, s->length);
    return;
  }
  if (lua_type(w->L, f->at + 1) == LUA_TSTRING) {
    size_t length;
    const char *s = lua_tolstring(w->L, f->at + 1, &length);
    add_name(b, s, length);
  } else {
    snprintf(number, sizeof number, "[%lld]", (long long)lua_tointeger(w->L, f->at + 1));
    luaL_addstring(b, number);
  }
}

/* Raises; of long paths the middle is left out. */
static int wrong(writer *w, const char *what) {
  lua_State *L = w->L;
  luaL_Buffer b;
  luaL_checkstack(L, LUA_MINSTACK, NULL);
  luaL_where(L, 1);
  luaL_buffinit(L, &b);
  luaL_addstring(&b, "value");
  for (int i = 0; i < w->n; i++) {
    if (w->n > 2 * SHOWN + 1 && i == SHOWN) {
      luaL_addstring(&b, "…");
      i = w->n - SHOWN;
    }
    add_step(w, &b, &w->f[i]);
  }
  luaL_addstring(&b, ": ");
  luaL_addstring(&b, what);
  luaL_pushresult(&b);
  lua_concat(L, 2);
  return lua_error(L);
}

static int wrong_type(writer *w, const char *type) {
  char text[160];
  snprintf(text, sizeof text, "a %s can't be written as JSON", type);
  return wrong(w, text);
}

/* ---- scalars ---- */

/* A piece of a long string ends before a character, so that none is cut. */
static size_t piece_of(const char *s, size_t n) {
  if (n <= PIECE) return n;
  size_t cut = PIECE;
  while (cut > PIECE - 4 && ((unsigned char)s[cut] & 0xc0) == 0x80) cut--;
  return cut;
}

/* 0: it is no UTF-8. The bytes stay where they are meanwhile. */
static int try_string(writer *w, const char *s, size_t n) {
  reserve(w, 1);
  *w->at++ = '"';
  do {
    size_t piece = piece_of(s, n);
    reserve(w, piece * MR_JSON_WIDEST + 1);
    size_t done = mr_json_escape(w->at, s, piece, w->o->other);
    if (done == MR_JSON_REFUSED) return 0;
    w->at += done;
    s += piece;
    n -= piece;
  } while (n > 0);
  *w->at++ = '"';                              /* there was room for it beside the last piece */
  return 1;
}

static void put_string(writer *w, const char *s, size_t n) {
  char text[100];
  if (PORT_LIKELY(try_string(w, s, n))) return;
  size_t at = 0, len;
  while (at < n && (len = mr_json_character(s + at, n - at)) > 0) at += len;
  snprintf(text, sizeof text, "a string is no UTF-8 from its byte %zu on (\\x%02X)", at + 1, (unsigned)(unsigned char)s[at]);
  wrong(w, text);
}

static void put_number(writer *w, double d) {
  if (PORT_UNLIKELY(!isfinite(d))) {
    if (!w->o->null_numbers) wrong(w, isnan(d) ? "JSON has no NaN (nonfinite = \"null\" writes null)" : "JSON has no infinity (nonfinite = \"null\" writes null)");
    put_text(w, "null", 4);
    return;
  }
  reserve(w, MR_JSON_NUMBER);
  w->at = mr_json_double(w->at, d);
}

/* ---- reading values ---- */

/* Of the value on top; strings stay as long as it does. */
static value value_on_top(lua_State *L) {
  value v = { .type = OTHER };
  switch (lua_type(L, -1)) {
    case LUA_TNIL: v.type = NOTHING; break;
    case LUA_TBOOLEAN: v.type = BOOLEAN, v.yes = lua_toboolean(L, -1); break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, -1)) v.type = INTEGER, v.i = lua_tointeger(L, -1);
      else v.type = FLOAT, v.d = lua_tonumber(L, -1);
      break;
    case LUA_TSTRING: v.type = STRING, v.p = lua_tolstring(L, -1, &v.length); break;
    case LUA_TTABLE: v.type = TABLE; break;
    case LUA_TLIGHTUSERDATA: if (!lua_touserdata(L, -1)) v.type = NOTHING; break;
    case LUA_TUSERDATA: {
      const mr_part *part = mr_frozen_part(L, -1);
      if (part) v.type = PART, v.p = part;
      break;
    }
    default: break;
  }
  return v;
}

static value value_frozen(lua_State *L, mr_frozen_value f) {
  value v = { .type = OTHER };
  if (f.tag == FROZEN_SHARED) {                /* a buffer, or part of another whole, which this one holds */
    mr_shared *o = (mr_shared *)(uintptr_t)f.word;
    o->type->push(L, o);
    return value_on_top(L);
  }
  lua_pushnil(L);                              /* every value has a place on the stack */
  switch (f.tag) {
    case RAW_NIL: v.type = NOTHING; break;
    case RAW_FALSE: v.type = BOOLEAN, v.yes = 0; break;
    case RAW_TRUE: v.type = BOOLEAN, v.yes = 1; break;
    case RAW_INT: v.type = INTEGER, v.i = (int64_t)f.word; break;
    case RAW_FLT: v.type = FLOAT; memcpy(&v.d, &f.word, sizeof v.d); break;
    case RAW_LIGHT: if (!f.word) v.type = NOTHING; break;
    case FROZEN_STRING: {
      const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)f.word;
      v.type = STRING, v.p = s->bytes, v.length = s->length;
      break;
    }
    case FROZEN_PART: v.type = PART, v.p = (const void *)(uintptr_t)f.word; break;
    default: break;
  }
  return v;
}

/* ---- frames ---- */

static void line(writer *w, int level) {
  if (!w->o->indent) return;
  size_t spaces = (size_t)level * (size_t)w->o->indent;
  reserve(w, spaces + 1);
  *w->at++ = '\n';
  memset(w->at, ' ', spaces);
  w->at += spaces;
}

static void open(writer *w, kind k, const mr_part *part, uint64_t n, int top) {
  char text[100];
  if (w->n >= w->o->depth) {
    snprintf(text, sizeof text, "there are more than %d tables in each other (or a table is in itself); depth = N allows more", w->o->depth);
    wrong(w, text);
  }
  if (w->n == w->room) {
    frame *f = lua_newuserdatauv(w->L, (size_t)w->room * 2 * sizeof *f, 0);
    memcpy(f, w->f, (size_t)w->n * sizeof *f);
    lua_replace(w->L, w->slot + 1);
    w->f = f;
    w->room *= 2;
  }
  w->f[w->n++] = (frame){ .part = part, .n = n, .at = top + 1, .top = top, .kind = (uint8_t)k };
  put(w, k == ARRAY ? '[' : '{');
}

/* An array is a table whose keys are 1 … n; an object one whose keys are strings. */
typedef struct keys { uint64_t all, elements; lua_Integer last; int strings, others; } keys;

/* `i` is 0 where the key is no integer. */
static inline void count_key(keys *k, int type, lua_Integer i) {
  k->all++;
  if (type == LUA_TSTRING) {
    k->strings = 1;
  } else if (type == LUA_TNUMBER && i >= 1) {
    k->elements++;
    if (i > k->last) k->last = i;
  } else {
    k->others = 1;
  }
}

/* What is set in the array part, and in the hash part. */
static void count_raw(keys *k, const raw_table *t) {
  for (uint32_t i = 0, n = raw_arraysize(t); i < n; i++) {
    if (raw_isnil(t->array[i].tt)) continue;
    k->elements++;
    k->last = (lua_Integer)i + 1;
  }
  k->all = k->elements;
  for (uint32_t i = 0, n = raw_nodes(t); i < n; i++) {
    const raw_node *node = &t->node[i];
    if (raw_isnil(node->tt)) continue;
    if (PORT_LIKELY((node->key_tt & 15) == LUA_TSTRING)) k->strings = 1, k->all++;
    else count_key(k, node->key_tt & 15, node->key_tt == RAW_INT ? (lua_Integer)node->key : 0);
  }
}

/* Of the table on top. */
static keys keys_of(lua_State *L) {
  keys k = { 0 };
  if (PORT_LIKELY(mr_layout)) {
    count_raw(&k, lua_topointer(L, -1));
    return k;
  }
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) count_key(&k, lua_type(L, -2), lua_isinteger(L, -2) ? lua_tointeger(L, -2) : 0);
  return k;
}

static keys keys_of_part(const mr_part *part) {
  keys k = { 0 };
  mr_frozen_value key, v;
  for (uint64_t place = 0; mr_part_next(part, &place, &key, &v);)
    count_key(&k, key.tag == FROZEN_STRING ? LUA_TSTRING : LUA_TNUMBER, key.tag == RAW_INT ? (lua_Integer)key.word : 0);
  return k;
}

static int wrong_keys(writer *w, const keys *k) {
  if (k->strings && k->elements) return wrong(w, "a table has names and numbers as keys: JSON has arrays and objects (json.object writes numbers as names)");
  if (k->others) return wrong(w, "a table has a key that is no string and no index from 1 on");
  return wrong(w, "a list has holes (json.array writes null in them, json.object numbers as names)");
}

/* How a table with these keys is written. */
static kind kind_of(writer *w, const keys *k, int mark) {
  if (mark == MR_JSON_OBJECT) return k->others ? (kind)wrong_keys(w, k) : OBJECT;
  if (mark == MR_JSON_ARRAY) {
    if (k->strings || k->others) wrong(w, "an array (json.array) has a key that is no index");
    if (k->last > 64 && (uint64_t)k->last / 16 > k->elements) wrong(w, "an array (json.array) is nearly all holes");
    return ARRAY;
  }
  if (k->all == 0) return w->o->empty_object ? OBJECT : ARRAY;
  if (k->elements == k->all && (uint64_t)k->last == k->all) return ARRAY;
  if (k->elements || k->others) wrong_keys(w, k);
  return OBJECT;
}

static int by_name(const void *a, const void *b) {
  const name *x = a, *y = b;
  size_t n = x->length < y->length ? x->length : y->length;
  int d = n ? memcmp(x->text, y->text, n) : 0;
  return d ? d : (x->length > y->length) - (x->length < y->length);
}

/*
 * Behind the table on top: a list of its keys, each as text and as it is, and their order, whose texts the list holds. How many; a finaliser may have taken
 * some away.
 */
static uint64_t sort_table(writer *w, uint64_t n, const name **order) {
  lua_State *L = w->L;
  int table = lua_gettop(L);
  lua_createtable(L, n < INT_MAX / 2 ? (int)n * 2 : 0, 0);
  name *names = lua_newuserdatauv(L, (size_t)n * sizeof *names, 0);
  uint64_t i = 0;
  lua_pushnil(L);
  while (i < n && lua_next(L, table)) {
    lua_pop(L, 1);
    lua_pushvalue(L, -1);
    lua_rawseti(L, table + 1, (lua_Integer)(2 * i + 2));
    lua_pushvalue(L, -1);
    names[i].text = lua_tolstring(L, -1, &names[i].length);
    lua_rawseti(L, table + 1, (lua_Integer)(2 * i + 1));
    names[i].place = i;
    i++;
  }
  lua_settop(L, table + 2);
  qsort(names, (size_t)i, sizeof *names, by_name);
  *order = names;
  return i;
}

static uint64_t sort_part(writer *w, const mr_part *part, uint64_t n, const name **order) {
  name *names = lua_newuserdatauv(w->L, (size_t)n * sizeof *names, 0);
  mr_frozen_value key, v;
  uint64_t place = 0, i = 0;
  for (; i < n && mr_part_next(part, &place, &key, &v); i++) {
    const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)key.word;
    names[i] = (name){ s->bytes, s->length, place };
  }
  qsort(names, (size_t)i, sizeof *names, by_name);
  *order = names;
  return i;
}

/* The table on top, or the part, which the value on top holds or one below it. That stays there as long as the frame. */
static void open_table(writer *w, const mr_part *part) {
  lua_State *L = w->L;
  int top = lua_gettop(L) - 1;
  luaL_checkstack(L, SLOTS, NULL);
  int mark = part ? MR_JSON_NO_MARK : mr_json_mark(L, -1);
  keys k = part ? keys_of_part(part) : keys_of(L);
  kind is = kind_of(w, &k, mark);
  if (is == ARRAY) {
    open(w, ARRAY, part, (uint64_t)k.last, top);
    return;
  }
  if (w->o->sorted && k.all > 1) {
    const name *names;
    uint64_t n = part ? sort_part(w, part, k.all, &names) : sort_table(w, k.all, &names);
    open(w, SORTED, part, n, top);
    w->f[w->n - 1].names = names;
    return;
  }
  open(w, mr_layout && !part && !k.elements ? NODES : OBJECT, part, 0, top);
  if (!part) lua_pushnil(L);                   /* the key before the first */
}

static void close_frame(writer *w) {
  const frame *f = &w->f[--w->n];
  lua_settop(w->L, f->top);
  if (f->filled) line(w, w->n);
  put(w, f->kind == ARRAY ? ']' : '}');
}

/* ---- values ---- */

static void put_other_value(writer *w) {
  lua_State *L = w->L;
  int at = lua_gettop(L);
  size_t n;
  if (!mr_buffer_here(L, at)) wrong_type(w, luaL_typename(L, at));
  mr_piece_fix(L, at);                         /* a finaliser may change an open one */
  const char *s = mr_piece_get(L, at, &n);
  put_string(w, s, n);
}

/* It is on top of the stack, or below it, and goes from there; that of an array or object when that is closed. */
static void put_value(writer *w, value v) {
  switch (v.type) {
    case NOTHING: put_text(w, "null", 4); break;
    case BOOLEAN: if (v.yes) put_text(w, "true", 4); else put_text(w, "false", 5); break;
    case INTEGER:
      reserve(w, MR_JSON_NUMBER);
      w->at = mr_json_integer(w->at, v.i);
      break;
    case FLOAT: put_number(w, v.d); break;
    case STRING: put_string(w, v.p, v.length); break;
    case TABLE: open_table(w, NULL); return;
    case PART: open_table(w, v.p); return;
    case OTHER: put_other_value(w); break;
  }
  lua_pop(w->L, 1);
}

/* What stands before a value, or a name. */
static void begin(writer *w, frame *f) {
  if (f->filled) put(w, ',');
  f->filled = 1;
  line(w, w->n);
}

static void put_name(writer *w, frame *f, const char *s, size_t n) {
  begin(w, f);
  put_string(w, s, n);
  put_text(w, ": ", w->o->indent ? 2 : 1);
}

/* A number as a name, as the next key of the frame's table. The table may have the text as another key: then it would have one name twice. */
static void put_index(writer *w, frame *f) {
  lua_State *L = w->L;
  size_t n;
  lua_pushvalue(L, f->at + 1);
  const char *s = lua_tolstring(L, -1, &n);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, f->at) != LUA_TNIL) wrong(w, "this number is a key, and so is its text");
  lua_pop(L, 1);
  put_name(w, f, s, n);
  lua_pop(L, 1);
}

static int next_of_table(writer *w, frame *f) {
  lua_State *L = w->L;
  lua_settop(L, f->at + 1);
  if (!lua_next(L, f->at)) return 0;
  if (PORT_LIKELY(lua_type(L, -2) == LUA_TSTRING)) {
    size_t n;
    const char *s = lua_tolstring(L, -2, &n);
    put_name(w, f, s, n);
  } else {
    put_index(w, f);
  }
  put_value(w, value_on_top(L));
  return 1;
}

/* The next node that is set; its key and value are pushed. A finaliser may have given the table other nodes meanwhile. */
static int next_of_nodes(writer *w, frame *f) {
  lua_State *L = w->L;
  const raw_table *t = lua_topointer(L, f->at);
  const raw_node *node;
  lua_settop(L, f->at);
  do {
    if (f->i >= raw_nodes(t)) return 0;
    node = &t->node[f->i++];
  } while (raw_isnil(node->tt) || (node->key_tt & 15) != LUA_TSTRING);
  raw_push(L, node->key_tt, node->key);
  raw_push(L, node->tt, node->bits);
  const raw_string *s = (const raw_string *)(uintptr_t)node->key;
  put_name(w, f, s->text, s->tt == (RAW_SHORT & 63) ? s->shrlen : s->length);
  put_value(w, value_on_top(L));
  return 1;
}

static int next_of_part(writer *w, frame *f) {
  mr_frozen_value key, v;
  if (!mr_part_next(f->part, &f->i, &key, &v)) return 0;
  const mr_frozen_string *s = (const mr_frozen_string *)(uintptr_t)key.word;
  put_name(w, f, s->bytes, s->length);
  put_value(w, value_frozen(w->L, v));
  return 1;
}

static int next_sorted(writer *w, frame *f) {
  lua_State *L = w->L;
  if (f->i == f->n) return 0;
  const name *s = &f->names[f->i++];
  if (f->i > 1 && by_name(s - 1, s) == 0) wrong(w, "this number is a key, and so is its text");
  put_name(w, f, s->text, s->length);
  if (f->part) return put_value(w, value_frozen(L, mr_part_string(f->part, s->text, s->length))), 1;
  lua_rawgeti(L, f->at + 1, (lua_Integer)(2 * s->place + 2));
  lua_rawget(L, f->at);
  put_value(w, value_on_top(L));
  return 1;
}

/* Goes on until an array or object begins, or this one is at its end: 0. */
static int elements(writer *w, frame *f) {
  lua_State *L = w->L;
  int n = w->n;
  while (f->i < f->n) {
    begin(w, f);
    lua_Integer i = (lua_Integer)++f->i;
    if (f->part) {
      put_value(w, value_frozen(L, mr_part_integer(f->part, i)));
    } else {
      lua_rawgeti(L, f->at, i);
      put_value(w, value_on_top(L));
    }
    if (w->n > n) return 1;
  }
  return 0;
}

static int step(writer *w) {
  frame *f = &w->f[w->n - 1];
  if (f->kind == ARRAY) return elements(w, f);
  if (f->kind == NODES) return next_of_nodes(w, f);
  if (f->kind == SORTED) return next_sorted(w, f);
  return f->part ? next_of_part(w, f) : next_of_table(w, f);
}

void mr_json_write(lua_State *L, int idx, const mr_json_writing *o, int into) {
  int top = lua_gettop(L);
  luaL_checkstack(L, SLOTS, NULL);
  writer w = { .L = L, .o = o, .room = FRAMES, .slot = top + 1 };
  w.text = w.at = w.fixed;
  w.end = w.fixed + FIXED;
  w.f = w.first;
  lua_pushvalue(L, idx);
  lua_pushnil(L);                              /* the two slots, and above them the value */
  lua_pushnil(L);
  lua_rotate(L, top + 1, 2);
  put_value(&w, value_on_top(L));
  while (w.n > 0)
    if (!step(&w)) close_frame(&w);
  size_t n = (size_t)(w.at - w.text);
  if (into) {
    mr_buffer *b = mr_buffer_edit_more(L, into, n);
    memcpy(mr_buffer_at(b, b->length), w.text, n);
    b->length += n;
  } else {
    lua_pushlstring(L, w.text, n);
    lua_insert(L, top + 1);
  }
  lua_settop(L, top + !into);
}
