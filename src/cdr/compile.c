/*
 * compile: from the Lua tables that describe types to mr_type. See type.h.
 *
 * A type's userdata goes into the cache before its parts are compiled, so that a recursive type finds itself. It is SOUND when the compilation
 * that made it has ended well: before, a part that is ready may point to one that never will be. What a compilation that failed left behind is
 * made anew. A type may contain itself only through a sequence.
 *
 * Reading a type's table may run metamethods, which compile, marshal, and answer otherwise the next time: nothing is read twice and believed.
 */
#include <stdlib.h>
#include <stdio.h>
#include <stdarg.h>
#include "cdr/union.h"
#include "cdr/text.h"
#include "transfer/packet.h"

enum { MAX_TEMPLATE = 64 };                    /* members; larger structs are built key by key */

typedef struct compiler {
  lua_State *L;
  mr_cdr_env *env;
  int fields;
  uint32_t serial, level, depth;
  int wire;
  mr_type *made;                               /* the last; all of them are kept by the first one's references */
} compiler;

static PORT_NORETURN void bad(compiler *c, const char *format, ...) {
  char text[200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (c->wire) mr_env_raise(c->L, c->fields, "BAD_TYPECODE", 0, text);
  luaL_error(c->L, "bad type: %s", text);
  abort();
}

static const struct { const char *name; uint8_t kind, size; } kinds[] = {
  { "null", TK_NULL, 0 }, { "void", TK_VOID, 0 }, { "short", TK_SHORT, 2 }, { "long", TK_LONG, 4 }, { "ushort", TK_USHORT, 2 },
  { "ulong", TK_ULONG, 4 }, { "float", TK_FLOAT, 4 }, { "double", TK_DOUBLE, 8 }, { "boolean", TK_BOOLEAN, 1 }, { "char", TK_CHAR, 1 },
  { "octet", TK_OCTET, 1 }, { "any", TK_ANY, 4 }, { "TypeCode", TK_TYPECODE, 4 }, { "interface", TK_OBJREF, 9 }, { "struct", TK_STRUCT, 0 },
  { "union", TK_UNION, 0 }, { "enum", TK_ENUM, 4 }, { "string", TK_STRING, 5 }, { "sequence", TK_SEQUENCE, 4 }, { "array", TK_ARRAY, 0 },
  { "alias", TK_ALIAS, 0 }, { "except", TK_EXCEPT, 5 }, { "longlong", TK_LONGLONG, 8 }, { "ulonglong", TK_ULONGLONG, 8 },
  { "longdouble", TK_LONGDOUBLE, 16 }, { "wchar", TK_WCHAR, 1 }, { "wstring", TK_WSTRING, 4 }, { "fixed", TK_FIXED, 1 },
  { "value", TK_VALUE, 4 }, { "valuebox", TK_VALUEBOX, 4 }, { "native", TK_NATIVE, 0 },
};

static int find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (strcmp(kinds[i].name, name) == 0) return (int)i;
  return -1;
}

int mr_kind_of(const char *name) {
  int i = find_kind(name);
  return i < 0 ? -1 : kinds[i].kind;
}

const char *mr_kind_name(const mr_type *t) {
  if (t->kind == TK_OCTETS || t->kind == TK_CHARS) return t->fixed ? "array" : "sequence";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) if (kinds[i].kind == t->kind) return kinds[i].name;
  return "type";
}

static const mr_type *compile(compiler *c);

/* ---- reading T, at the index `at` ---- */

static lua_Integer number_field(compiler *c, int at, const char *name, lua_Integer missing, lua_Integer most) {
  lua_State *L = c->L;
  int type = lua_getfield(L, at, name), isint = 0;
  lua_Integer n = lua_tointegerx(L, -1, &isint);
  if (type == LUA_TNIL && missing >= 0) { n = missing; isint = 1; }
  if (!isint || n < 0 || n > most) bad(c, "its '%s' is no number from 0 to %lld", name, (long long)most);
  lua_pop(L, 1);
  return n;
}

static void push_list(compiler *c, int at, const char *name) {
  if (lua_getfield(c->L, at, name) != LUA_TTABLE) bad(c, "its '%s' is a %s", name, luaL_typename(c->L, -1));
}

/* The string stays alive by the list at `refs`. */
static const char *kept_string(compiler *c, int at, const char *name, int refs, size_t *length) {
  lua_State *L = c->L;
  if (lua_getfield(L, at, name) != LUA_TSTRING) { *length = 0; lua_pop(L, 1); return NULL; }
  const char *s = lua_tolstring(L, -1, length);
  lua_rawseti(L, refs, (lua_Integer)lua_rawlen(L, refs) + 1);
  return s;
}

static const mr_type *part(compiler *c, int at, const char *name, int refs) {
  lua_State *L = c->L;
  lua_getfield(L, at, name);
  if (!lua_istable(L, -1)) bad(c, "its '%s' is no type but a %s", name, luaL_typename(L, -1));
  const mr_type *t = compile(c);
  lua_rawseti(L, refs, (lua_Integer)lua_rawlen(L, refs) + 1);
  return t;
}

/* ---- members ---- */

/* A key is known by its address if it is a short string: all equal ones are the same. The string is on top. */
static uint64_t address_of(lua_State *L) {
  if (!mr_layout) return (uint64_t)(uintptr_t)lua_topointer(L, -1);
  return (raw_top(L) - 1)->tt == RAW_SHORT ? (raw_top(L) - 1)->bits : 0;
}

static void member_name(compiler *c, mr_member *m, int at, int refs) {
  lua_State *L = c->L;
  size_t length;
  if (lua_getfield(L, at, "name") != LUA_TSTRING) bad(c, "a member's 'name' is a %s", luaL_typename(L, -1));
  m->key = address_of(L);
  m->name = lua_tolstring(L, -1, &length);
  m->length = (uint32_t)length;
  lua_rawseti(L, refs, (lua_Integer)lua_rawlen(L, refs) + 1);
}

/* The hash part of a table that has all members, as it is before they have values. */
static void make_template(compiler *c, mr_type *t) {
  lua_State *L = c->L;
  t->lsizenode = 255;
  if (!mr_layout || t->n == 0 || t->n > MAX_TEMPLATE) return;
  lua_createtable(L, 0, (int)t->n);
  for (uint32_t i = 0; i < t->n; i++) {
    if (!t->members[i].key) { lua_pop(L, 1); return; }
    lua_pushlstring(L, t->members[i].name, t->members[i].length);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
  }
  const raw_table *table = (const raw_table *)lua_topointer(L, -1);
  uint32_t size = raw_nodes(table), found = 0;
  for (uint32_t i = 0; i < size; i++) {
    t->nodes[i] = table->node[i];
    for (uint32_t k = 0; k < t->n; k++)
      if (table->node[i].key_tt == RAW_SHORT && table->node[i].key == t->members[k].key) { t->members[k].place = i; found++; }
  }
  t->lastfree = (int32_t)(table->lastfree - table->node);
  if (found == t->n) t->lsizenode = table->lsizenode;
  lua_pop(L, 1);
}

/* A type may be so large that nothing could hold a value of it. */
static uint64_t plus(uint64_t a, uint64_t b) { return a + b < a || a + b > UINT64_MAX / 2 ? UINT64_MAX / 2 : a + b; }

/* `at` is the type, its members are in its list; for a union the same name may come more than once. */
static void struct_members(compiler *c, mr_type *t, int at, int refs) {
  lua_State *L = c->L;
  push_list(c, at, "members");
  int list = lua_gettop(L);
  for (uint32_t i = 0; i < t->n; i++) {
    mr_member *m = &t->members[i];
    if (lua_rawgeti(L, list, (lua_Integer)i + 1) != LUA_TTABLE) bad(c, "its member %d is no table", (int)i + 1);
    member_name(c, m, list + 1, refs);
    m->type = part(c, list + 1, "type", refs);
    t->min = plus(t->min, m->type->min);
    lua_settop(L, list);
  }
  lua_settop(L, list - 1);
  make_template(c, t);
}

/* ---- the kinds ---- */

/* The references of an enum have such labels as keys. An alias has them from the enum, whose labels lie behind it. */
int64_t mr_long_label(lua_State *L, int fields, const mr_type *t) {
  lua_rawgeti(L, fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, (const mr_type *)(const void *)t->members - 1);
  lua_getiuservalue(L, -1, 2);
  lua_pushvalue(L, -4);
  lua_rawget(L, -2);
  int64_t i = lua_isinteger(L, -1) ? lua_tointeger(L, -1) : -1;
  lua_pop(L, 5);
  return i;
}

/* The label on top, whose ordinal is i, can be found. Of labels that are the same the first counts. */
static void enter_label(compiler *c, mr_type *t, uint32_t i, int refs) {
  lua_State *L = c->L;
  uint64_t key = t->members[i].key;
  if (key) {
    uint32_t slot = mr_short_label(t, key);
    if (!t->slots[slot]) t->slots[slot] = i + 1;
  }
  if (key && mr_layout) return;                /* else the address may be one of many, as is that of a long string */
  lua_pushvalue(L, -1);
  if (lua_rawget(L, refs) == LUA_TNIL) {
    lua_pushvalue(L, -2);
    lua_pushinteger(L, i);
    lua_rawset(L, refs);
  }
  lua_pop(L, 1);
}

static void enum_labels(compiler *c, mr_type *t, int at, int refs) {
  lua_State *L = c->L;
  push_list(c, at, "labels");
  for (uint32_t i = 0; i < t->n; i++) {
    size_t length;
    mr_member *m = &t->members[i];
    if (lua_rawgeti(L, -1, (lua_Integer)i + 1) != LUA_TSTRING) bad(c, "its label %d is no string", (int)i + 1);
    m->key = address_of(L);
    m->name = lua_tolstring(L, -1, &length);
    m->length = (uint32_t)length;
    enter_label(c, t, i, refs);
    lua_rawseti(L, refs, (lua_Integer)lua_rawlen(L, refs) + 1);
  }
  lua_pop(L, 1);
}

/* Of the label on top, which is taken off; -1: the enum has none such. */
static int64_t ordinal_of(compiler *c, const mr_type *t) {
  uint64_t key = address_of(c->L);
  uint32_t found = key ? t->slots[mr_short_label(t, key)] : 0;
  if (!found) return mr_long_label(c->L, c->fields, t);
  lua_pop(c->L, 1);
  return found - 1;
}

/* The number of the label on top of the stack, as its discriminator's type has it. */
static int64_t label_value(compiler *c, const mr_type *t) {
  lua_State *L = c->L;
  size_t n, used;
  int isint;
  lua_Integer i = lua_tointegerx(L, -1, &isint);
  if (t->kind == TK_BOOLEAN && lua_isboolean(L, -1)) return lua_toboolean(L, -1);
  if (lua_type(L, -1) == LUA_TSTRING) {
    const char *s = lua_tolstring(L, -1, &n);
    if (t->kind == TK_CHAR && n == 1) return (unsigned char)*s;
    uint32_t wide = t->kind == TK_WCHAR && n ? mr_text_read(s, n, &used) : UINT32_MAX;
    if (wide <= 0xffff && used == n) return wide;
    if (t->kind == TK_ENUM) {
      lua_pushvalue(L, -1);
      int64_t k = ordinal_of(c, t);
      if (k >= 0) return k;
    }
  } else if (isint && t->kind != TK_BOOLEAN && t->kind != TK_CHAR && t->kind != TK_WCHAR && t->kind != TK_ENUM) return i;
  bad(c, "the label '%s' is no %s", luaL_tolstring(L, -1, NULL), t->name ? t->name : mr_kind_name(t));
}

static void union_members(compiler *c, mr_type *t, int at, int refs) {
  lua_State *L = c->L;
  t->element = part(c, at, "discriminator", refs);
  if (!mr_union_allows(t->element)) bad(c, "a union's discriminator can't be a %s", mr_kind_name(t->element));
  t->fallback = (int32_t)number_field(c, at, "default", 0, t->n) - 1;
  struct_members(c, t, at, refs);
  t->min = t->element->min;
  push_list(c, at, "members");
  for (uint32_t i = 0; i < t->n; i++) {
    if ((int32_t)i == t->fallback) continue;
    lua_rawgeti(L, -1, (lua_Integer)i + 1);
    lua_getfield(L, -1, "label");
    t->members[i].label = label_value(c, t->element);
    lua_pop(L, 2);
  }
  lua_pop(L, 1);
  const char *problem = mr_union_ready(t);
  if (problem) bad(c, "union '%s' %s", t->name ? t->name : "?", problem);
}

static void sequence(compiler *c, mr_type *t, int at, int refs) {
  int isarray = t->kind == TK_ARRAY;
  t->fixed = (uint8_t)isarray;
  t->n = (uint32_t)(isarray ? number_field(c, at, "length", -1, INT32_MAX) : number_field(c, at, "bound", 0, UINT32_MAX));
  c->level += (uint32_t)!isarray;
  t->element = part(c, at, "element", refs);
  c->level -= (uint32_t)!isarray;
  if (t->element->kind == TK_OCTET) t->kind = TK_OCTETS;
  if (t->element->kind == TK_CHAR) t->kind = TK_CHARS;
  if (isarray) t->min = t->n && t->element->min > UINT64_MAX / 2 / t->n ? UINT64_MAX / 2 : t->n * t->element->min;
}

static void alias(compiler *c, mr_type *t, int at, int refs) {
  const mr_type *to = part(c, at, "type", refs);
  if (!to->ready) bad(c, "'%s' is another name for a type that is not complete", t->name ? t->name : "?");
  mr_type own = *t;
  *t = *to;                                    /* what `to` points to is alive by refs */
  t->alias = 1;
  t->serial = own.serial;
  t->made = own.made;
  t->name = own.name;
  t->id = own.id;
}

static void fixed(compiler *c, mr_type *t, int at) {
  t->n = (uint32_t)number_field(c, at, "digits", -1, 31);
  if (t->n == 0) bad(c, "its 'digits' is no number from 1 to 31");
  t->scale = (uint32_t)number_field(c, at, "scale", -1, t->n);
  t->min = t->n / 2 + 1;
}

static void fill(compiler *c, mr_type *t, int at, int refs) {
  size_t length;
  t->name = kept_string(c, at, "name", refs, &length);
  t->id = kept_string(c, at, "id", refs, &length);
  switch (t->kind) {
    case TK_STRING: case TK_WSTRING: t->n = (uint32_t)number_field(c, at, "bound", 0, UINT32_MAX); break;
    case TK_STRUCT: case TK_EXCEPT: struct_members(c, t, at, refs); break;
    case TK_UNION: union_members(c, t, at, refs); break;
    case TK_ENUM: enum_labels(c, t, at, refs); break;
    case TK_SEQUENCE: case TK_ARRAY: sequence(c, t, at, refs); break;
    case TK_ALIAS: alias(c, t, at, refs); break;
    case TK_FIXED: fixed(c, t, at); break;
    default: break;
  }
  t->ready = 1;
}

/* ---- making one ---- */

static uint32_t count_list(compiler *c, int at, const char *name, uint32_t most) {
  push_list(c, at, name);
  size_t n = lua_rawlen(c->L, -1);
  if (n > most) bad(c, "too many %s", name);
  lua_pop(c->L, 1);
  return (uint32_t)n;
}

static uint32_t power_above(uint32_t n) {
  uint32_t size = 1;
  while (size < n) size *= 2;
  return size;
}

/* Everything of the type in one block; the userdata is on top. */
static mr_type *make(compiler *c, int at, int which) {
  uint8_t kind = kinds[which].kind;
  uint32_t n = 0, nodes = 0, slots = 0, labels = 0;
  if (kind == TK_STRUCT || kind == TK_EXCEPT || kind == TK_UNION) {
    n = count_list(c, at, "members", 1 << 16);
    nodes = n <= MAX_TEMPLATE ? power_above(n) : 0;
    labels = kind == TK_UNION ? n : 0;
  } else if (kind == TK_ENUM) {
    n = count_list(c, at, "labels", 1 << 24);
    slots = power_above(2 * n);
  }
  size_t size = sizeof(mr_type) + n * sizeof(mr_member) + nodes * sizeof(raw_node) + labels * sizeof(mr_label) +
                slots * sizeof(uint32_t);
  mr_type *t = lua_newuserdatauv(c->L, size, 2);
  memset(t, 0, size);
  t->kind = kind;
  t->min = kinds[which].size;
  t->lsizenode = 255;
  t->fallback = -1;
  t->n = n;
  t->members = (mr_member *)(t + 1);
  t->nodes = (raw_node *)(void *)(t->members + n);
  t->labels = (mr_label *)(void *)(t->nodes + nodes);
  t->slots = (uint32_t *)(void *)(t->labels + labels);
  t->map = slots - 1;
  return t;
}

static int known_kind(compiler *c, int at) {
  lua_State *L = c->L;
  int which = lua_getfield(L, at, "kind") == LUA_TSTRING ? find_kind(lua_tostring(L, -1)) : -1;
  if (which < 0) bad(c, "no kind is called '%s'", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return which;
}

/* The cache has it: is it sound? */
static const mr_type *cached(compiler *c) {
  mr_type *t = lua_touserdata(c->L, -1);
  if (!t || (t->ready != SOUND && t->serial != c->serial)) return NULL;
  if (!t->ready && t->level == c->level) bad(c, "'%s' contains itself", t->name ? t->name : "?");
  return t;
}

/* Replaces T on top of the stack by its type's userdata. */
static const mr_type *compile(compiler *c) {
  lua_State *L = c->L;
  int at = lua_gettop(L);
  luaL_checkstack(L, 12, "a type nested too deeply");
  if (!lua_istable(L, at)) bad(c, "type expected, got %s", luaL_typename(L, at));
  if (++c->depth > MR_MAX_DEPTH) bad(c, "nested too deeply");
  lua_rawgeti(L, c->fields, ENV_TYPES);
  lua_pushvalue(L, at);
  lua_rawget(L, -2);
  const mr_type *known = cached(c);
  if (known) {
    lua_replace(L, at);
    lua_settop(L, at);
    c->depth--;
    return known;
  }
  lua_settop(L, at + 1);
  mr_type *t = make(c, at, known_kind(c, at));
  t->serial = c->serial;
  t->level = c->level;
  t->made = c->made;
  c->made = t;
  lua_pushvalue(L, at);
  lua_setiuservalue(L, -2, 1);
  lua_createtable(L, 4, 0);
  int refs = lua_gettop(L);
  lua_pushvalue(L, refs);
  lua_setiuservalue(L, -3, 2);
  lua_pushvalue(L, at);
  lua_pushvalue(L, -3);
  lua_rawset(L, at + 1);
  lua_rawgeti(L, c->fields, ENV_ADDRESSES);
  lua_pushvalue(L, refs - 1);
  lua_rawsetp(L, -2, t);
  lua_pop(L, 1);
  fill(c, t, at, refs);
  lua_settop(L, refs - 1);
  lua_replace(L, at);
  lua_settop(L, at);
  c->depth--;
  return t;
}

const mr_type *mr_type_get(lua_State *L, mr_cdr_env *env, int fields, int wire) {
  compiler c = { .L = L, .env = env, .fields = fields, .serial = ++env->serial, .wire = wire };
  const mr_type *t = compile(&c);
  for (mr_type *m = c.made, *next; m; m = next) {
    next = m->made;
    m->made = NULL;
    m->ready = SOUND;
  }
  return t;
}

const mr_type *mr_type_known(lua_State *L, int fields, int idx) {
  idx = lua_absindex(L, idx);
  lua_rawgeti(L, fields, ENV_TYPES);
  lua_pushvalue(L, idx);
  lua_rawget(L, -2);
  const mr_type *t = (const mr_type *)lua_touserdata(L, -1);
  lua_pop(L, 2);
  return t && t->ready == SOUND ? t : NULL;
}

void mr_push_type(lua_State *L, int fields, const mr_type *t) {
  lua_rawgeti(L, fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, t);
  lua_getiuservalue(L, -1, 1);
  lua_replace(L, -3);
  lua_pop(L, 1);
  for (int i = 0; i < MR_MAX_DEPTH && lua_istable(L, -1); i++) {
    int more = lua_getfield(L, -1, "kind") == LUA_TSTRING && strcmp(lua_tostring(L, -1), "alias") == 0;
    lua_pop(L, 1);
    if (!more) return;
    lua_getfield(L, -1, "type");
    lua_replace(L, -2);
  }
}
