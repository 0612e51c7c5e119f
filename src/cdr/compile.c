/*
 * compile: from the Lua tables that describe types to mr_type. See type.h.
 *
 * A type's userdata goes into the cache before its parts are compiled, so that a recursive type finds itself. It is SOUND when the compilation
 * that made it has ended well: before, a part that is ready may point to one that never will be. What a compilation that failed left behind is
 * made anew. A type may contain itself only through a sequence or a value.
 *
 * Reading a type's table may run metamethods, which compile, marshal, and answer otherwise the next time: nothing is read twice and believed.
 *
 * A type's parts are compiled by a loop: each type that is open has a frame. On Lua's stack it has, from `at`: its table, its userdata, the list of
 * what that refers to and, while its members are compiled, their list and the member whose type is being compiled.
 */
#include <stdlib.h>
#include <stdio.h>
#include <stdarg.h>
#include "cdr/union.h"
#include "cdr/flat.h"
#include "cdr/frames.h"
#include "cdr/text.h"
#include "cdr/value.h"

enum { MAX_TEMPLATE = 64 };                    /* members; larger structs are built key by key */

typedef struct compiler {
  lua_State *L;
  mr_cdr_env *env;
  int fields;
  uint32_t serial, level;
  int wire, codec;
  mr_type *made;                               /* the last; all of them are kept by the first one's references */
  uint32_t inherited;                          /* members that valuetypes have from their bases: each has a list of its own */
  mr_frames open;
} compiler;

typedef struct frame {
  mr_type *t;
  const mr_type *part;                         /* the last one that was compiled */
  int at;
  uint32_t i, n;                               /* parts that were begun; how many there are. A union's first one is its discriminator. */
  uint8_t kind;
} frame;
enum { USERDATA = 1, REFS, LIST, MEMBER };     /* behind `at` */

static PORT_NORETURN void bad(compiler *c, const char *format, ...) {
  char text[200];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  if (c->wire) mr_env_raise(c->L, c->fields, "BAD_TYPECODE", 0, text, c->codec);
  luaL_error(c->L, "bad type: %s", text);
  abort();
}

static const char type_tag;                    /* its address tells our userdata from others' */

mr_type *mr_type_at(lua_State *L, int idx) {
  mr_type *t = lua_rawlen(L, idx) >= sizeof *t ? lua_touserdata(L, idx) : NULL;
  return t && t->tag == ((uintptr_t)&type_tag ^ (uintptr_t)t) ? t : NULL;
}

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

/* Pushes the table of a part. */
static void push_part(compiler *c, int at, const char *name) {
  lua_getfield(c->L, at, name);
  if (!lua_istable(c->L, -1)) bad(c, "its '%s' is no type but a %s", name, luaL_typename(c->L, -1));
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
  t->lastfree = raw_free(table);
  if (found == t->n) t->lsizenode = table->lsizenode;
  lua_pop(L, 1);
}

/* A type may be so large that nothing could hold a value of it. */
static uint64_t plus(uint64_t a, uint64_t b) { return a + b < a || a + b > UINT64_MAX / 2 ? UINT64_MAX / 2 : a + b; }

/* ---- the kinds ---- */

/* The references of an enum have such labels as keys. An alias has them from the enum, whose labels lie behind it. */
int64_t mr_long_label(lua_State *L, int fields, const mr_type *t) {
  mr_env_table(L, fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, (const mr_type *)(const void *)t->members - 1);
  if (!mr_type_at(L, -1) || lua_getiuservalue(L, -1, 2) != LUA_TTABLE) mr_env_changed(L);
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

static void begin_cases(compiler *c, frame *f) {
  mr_type *t = f->t;
  t->element = f->part;
  if (!mr_union_allows(t->element)) bad(c, "a union's discriminator can't be a %s", mr_kind_name(t->element));
  t->fallback = (int32_t)number_field(c, f->at, "default", 0, t->n) - 1;
  push_list(c, f->at, "members");
}

static void end_union(compiler *c, mr_type *t) {
  t->min = t->element->min;
  const char *problem = mr_union_ready(t);
  if (problem) bad(c, "union '%s' %s", t->name ? t->name : "?", problem);
}

static void end_list(mr_type *t, const mr_type *element) {
  t->element = element;
  if (element->kind == TK_OCTET) t->kind = TK_OCTETS;
  if (element->kind == TK_CHAR) t->kind = TK_CHARS;
  if (t->fixed) t->min = t->n && element->min > UINT64_MAX / 2 / t->n ? UINT64_MAX / 2 : t->n * element->min;
}

static void end_alias(compiler *c, mr_type *t, const mr_type *to) {
  if (!to->ready && to->kind != TK_VALUE) bad(c, "'%s' is another name for a type that is not complete", t->name ? t->name : "?");
  mr_type own = *t;
  *t = *to;                                    /* what `to` points to is alive by refs */
  if (!to->ready) t->flat = NULL;              /* not known yet */
  t->tag = own.tag;
  t->alias = 1;
  t->origin = to->origin ? to->origin : to;
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
static mr_type *make(compiler *c, int at, int kind, const mr_shape *shape) {
  uint32_t n = shape->n, nodes = n && n <= MAX_TEMPLATE ? power_above(n) : 0, slots = 0, labels = 0;
  size_t value = shape->nids ? mr_value_size(shape) : 0;
  if (kind == TK_STRUCT || kind == TK_EXCEPT || kind == TK_UNION) {
    n = count_list(c, at, "members", 1 << 16);
    nodes = n <= MAX_TEMPLATE && kind != TK_UNION ? power_above(n) : 0;
    labels = kind == TK_UNION ? n : 0;
  } else if (kind == TK_ENUM) {
    n = count_list(c, at, "labels", 1 << 24);
    slots = power_above(2 * n);
  }
  size_t flat = (kind == TK_STRUCT || (kind == TK_VALUE && !shape->custom)) && n && n <= MR_FLAT_MOST && mr_layout ? mr_flat_size(n) : 0;
  size_t size = sizeof(mr_type) + n * sizeof(mr_member) + nodes * sizeof(raw_node) + labels * sizeof(mr_label) + value +
                slots * sizeof(uint32_t) + flat;
  mr_type *t = lua_newuserdatauv(c->L, size, 2);
  memset(t, 0, size);
  t->tag = (uintptr_t)&type_tag ^ (uintptr_t)t;
  t->kind = (uint8_t)kind;
  t->min = mr_kind_least(kind);
  t->lsizenode = 255;
  t->fallback = -1;
  t->n = n;
  t->members = (mr_member *)(t + 1);
  t->nodes = (raw_node *)(void *)(t->members + n);
  t->labels = (mr_label *)(void *)(t->nodes + nodes);
  t->value = value ? (mr_value *)(void *)(t->labels + labels) : NULL;
  t->slots = (uint32_t *)(void *)((char *)(t->labels + labels) + value);
  t->flat = flat ? (mr_flat *)(void *)(t->slots + slots) : NULL;
  t->map = slots - 1;
  return t;
}

static int known_kind(compiler *c, int at) {
  lua_State *L = c->L;
  int kind = lua_getfield(L, at, "kind") == LUA_TSTRING ? mr_kind_of(lua_tostring(L, -1)) : -1;
  if (kind < 0) bad(c, "no kind is called '%s'", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  if (kind != TK_OBJREF) return kind;
  lua_getfield(L, at, "abstract");
  if (lua_toboolean(L, -1)) kind = TK_ABSTRACT;
  lua_pop(L, 1);
  return kind;
}

/* Pushes the list of what a type refers to, before it refers to anything but its bases' members. */
static void push_refs(compiler *c, int at, int kind, mr_shape *shape) {
  *shape = (mr_shape){ 0 };
  if (kind != TK_VALUE && kind != TK_VALUEBOX) {
    lua_createtable(c->L, 4, 0);
    return;
  }
  const char *problem = mr_value_shape(c->L, at, kind, shape);
  c->inherited += shape->inherited;
  if (c->inherited > MR_MOST_INHERITED) problem = "has, with others, inherited too many members";
  if (!problem) return;
  lua_getfield(c->L, at, "name");
  bad(c, "valuetype '%s' %s", lua_type(c->L, -1) == LUA_TSTRING ? lua_tostring(c->L, -1) : "?", problem);
}

/* The cache has it: is it sound? */
static const mr_type *cached(compiler *c) {
  mr_type *t = mr_type_at(c->L, -1);
  if (!t || (t->ready != SOUND && t->serial != c->serial)) return NULL;
  if (!t->ready && t->level == c->level) bad(c, "'%s' contains itself", t->name ? t->name : "?");
  return t;
}

/* T is at `at`, on top: pushes its new userdata, which the cache has now, and the list of what that refers to. */
static mr_type *enter(compiler *c, int at) {
  lua_State *L = c->L;
  mr_shape shape;
  int kind = known_kind(c, at);
  push_refs(c, at, kind, &shape);
  mr_type *t = make(c, at, kind, &shape);
  if (t->value) mr_value_make(L, at + 1, t->value, &shape);
  lua_insert(L, at + USERDATA);
  t->serial = c->serial;
  t->number = ++c->env->types;
  t->wire = (uint8_t)c->wire;
  t->level = c->level;
  t->made = c->made;
  c->made = t;
  lua_pushvalue(L, at);
  lua_setiuservalue(L, at + USERDATA, 1);
  lua_pushvalue(L, at + REFS);
  lua_setiuservalue(L, at + USERDATA, 2);
  mr_env_table(L, c->fields, ENV_TYPES);
  lua_pushvalue(L, at);
  lua_pushvalue(L, at + USERDATA);
  lua_rawset(L, -3);
  mr_env_table(L, c->fields, ENV_ADDRESSES);
  lua_pushvalue(L, at + USERDATA);
  lua_rawsetp(L, -2, t);
  lua_settop(L, at + REFS);
  return t;
}

/* What can be said of the type before its parts are known. */
static void begin_type(compiler *c, frame *f) {
  mr_type *t = f->t;
  int refs = f->at + REFS;
  size_t length;
  t->name = kept_string(c, f->at, "name", refs, &length);
  t->id = kept_string(c, f->at, "id", refs, &length);
  switch (f->kind) {
    case TK_STRING: case TK_WSTRING: t->n = (uint32_t)number_field(c, f->at, "bound", 0, UINT32_MAX); break;
    case TK_STRUCT: case TK_EXCEPT: push_list(c, f->at, "members"); f->n = t->n; break;
    case TK_UNION: f->n = t->n + 1; break;
    case TK_ENUM: enum_labels(c, t, f->at, refs); break;
    case TK_SEQUENCE: t->n = (uint32_t)number_field(c, f->at, "bound", 0, UINT32_MAX); f->n = 1; break;
    case TK_ARRAY: t->n = (uint32_t)number_field(c, f->at, "length", -1, INT32_MAX); t->fixed = 1; f->n = 1; break;
    case TK_ALIAS: case TK_VALUEBOX: f->n = 1; break;
    case TK_VALUE: lua_rawgeti(c->L, refs, 1); f->n = t->n; break;
    case TK_FIXED: fixed(c, t, f->at); break;
    default: break;
  }
}

/* All of it is there: its userdata takes the place of its table, and is on top. */
static void end_type(compiler *c, const frame *f) {
  switch (f->kind) {
    case TK_STRUCT: case TK_EXCEPT: case TK_VALUE:
      make_template(c, f->t);
      if (f->t->flat) f->t->flat = mr_flat_make(f->t, f->t->flat);
      break;
    case TK_UNION: end_union(c, f->t); break;
    case TK_SEQUENCE: case TK_ARRAY: end_list(f->t, f->part); break;
    case TK_ALIAS: end_alias(c, f->t, f->part); break;
    case TK_VALUEBOX: f->t->element = f->part; break;
    default: break;
  }
  f->t->ready = 1;
  lua_settop(c->L, f->at + USERDATA);
  lua_replace(c->L, f->at);
}

/* Compiles T on top of the stack, or begins to. Its userdata replaces it, and its type is the result; NULL: it has a frame now. */
static const mr_type *begin(compiler *c) {
  lua_State *L = c->L;
  frame f = { .at = lua_gettop(L) };
  luaL_checkstack(L, 12, "a type nested too deeply");
  if (!lua_istable(L, f.at)) bad(c, "type expected, got %s", luaL_typename(L, f.at));
  mr_env_table(L, c->fields, ENV_TYPES);
  lua_pushvalue(L, f.at);
  lua_rawget(L, -2);
  const mr_type *known = cached(c);
  if (known) {
    lua_replace(L, f.at);
    lua_settop(L, f.at);
    return known;
  }
  lua_settop(L, f.at);
  f.t = enter(c, f.at);
  f.kind = f.t->kind;
  begin_type(c, &f);
  if (!f.n) {
    end_type(c, &f);
    return f.t;
  }
  if (c->open.n == MR_MAX_TYPE_DEPTH) bad(c, "nested more than %d levels deep", MR_MAX_TYPE_DEPTH);
  *(frame *)mr_frames_push(L, &c->open) = f;
  return NULL;
}

/* ---- parts ---- */

/* Pushes the type of a member, behind the member: its number from 0. */
static void push_member(compiler *c, const frame *f, uint32_t i) {
  lua_State *L = c->L;
  mr_member *m = &f->t->members[i];
  if (lua_rawgeti(L, f->at + LIST, (lua_Integer)i + 1) != LUA_TTABLE) bad(c, "its member %d is no table", (int)i + 1);
  member_name(c, m, f->at + MEMBER, f->at + REFS);
  if (f->kind == TK_UNION && (int64_t)i != f->t->fallback) {
    lua_getfield(L, f->at + MEMBER, "label");
    m->label = label_value(c, f->t->element);
    lua_settop(L, f->at + MEMBER);
  }
  push_part(c, f->at + MEMBER, "type");
}

/* Pushes the table of the next part; 0: there is no other. */
static int next_part(compiler *c, frame *f) {
  if (f->i == f->n) return 0;
  uint32_t i = f->i++;
  switch (f->kind) {
    case TK_SEQUENCE: c->level++; /* fall through */
    case TK_ARRAY: push_part(c, f->at, "element"); break;
    case TK_VALUEBOX: c->level++; /* fall through */
    case TK_ALIAS: push_part(c, f->at, "type"); break;
    case TK_VALUE: c->level++; push_member(c, f, i); break;
    case TK_UNION:
      if (i == 0) push_part(c, f->at, "discriminator");
      else push_member(c, f, i - 1);
      break;
    default: push_member(c, f, i); break;
  }
  return 1;
}

/* The part, whose userdata is on top, has been compiled. */
static void take_part(compiler *c, frame *f, const mr_type *part) {
  mr_type *t = f->t;
  lua_rawseti(c->L, f->at + REFS, (lua_Integer)lua_rawlen(c->L, f->at + REFS) + 1);
  f->part = part;
  if (f->kind == TK_SEQUENCE || f->kind == TK_VALUE || f->kind == TK_VALUEBOX) c->level--;
  if (f->kind == TK_UNION && f->i == 1) begin_cases(c, f);
  else if (f->kind == TK_VALUE) {
    t->members[f->i - 1].type = part;
    lua_settop(c->L, f->at + LIST);
  }
  else if (f->kind == TK_STRUCT || f->kind == TK_EXCEPT || f->kind == TK_UNION) {
    t->members[f->i - 1 - (f->kind == TK_UNION)].type = part;
    t->min = plus(t->min, part->min);
    lua_settop(c->L, f->at + LIST);
  }
}

/* Replaces T on top of the stack by its type's userdata. */
static const mr_type *compile(compiler *c) {
  const mr_type *t = begin(c);
  while (c->open.n) {
    frame *f = mr_frames_last(&c->open);
    if (t) take_part(c, f, t);
    if (next_part(c, f)) { t = begin(c); continue; }
    end_type(c, f);
    t = f->t;
    c->open.n--;
  }
  return t;
}

const mr_type *mr_type_get(lua_State *L, mr_cdr_env *env, int fields, int wire) {
  compiler c = { .L = L, .env = env, .fields = fields, .serial = ++env->serial, .wire = wire >= 0, .codec = wire };
  luaL_checkstack(L, 4, NULL);
  mr_frames_begin(L, &c.open, sizeof(frame));
  lua_insert(L, -2);                           /* below T */
  c.open.index--;
  const mr_type *t = compile(&c);
  lua_remove(L, c.open.index);
  for (mr_type *m = c.made, *next; m; m = next) {
    next = m->made;
    m->made = NULL;
    m->ready = SOUND;
  }
  return t;
}

const mr_type *mr_type_known(lua_State *L, int fields, int idx) {
  idx = lua_absindex(L, idx);
  mr_env_table(L, fields, ENV_TYPES);
  lua_pushvalue(L, idx);
  lua_rawget(L, -2);
  const mr_type *t = mr_type_at(L, -1);
  lua_pop(L, 2);
  return t && t->ready == SOUND ? t : NULL;
}

void mr_push_type(lua_State *L, int fields, const mr_type *t) {
  mr_env_table(L, fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, t->origin ? t->origin : t);
  if (!mr_type_at(L, -1)) mr_env_changed(L);
  lua_getiuservalue(L, -1, 1);
  lua_replace(L, -3);
  lua_pop(L, 1);
}
