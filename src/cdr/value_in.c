/*
 * value_in: values from bytes to Lua. See value.h.
 *
 * A value's table is there before what is in it, as that may point back to it: with all its keys, whose values are `true` until they come. The list at
 * `fields` + 1 has for each value its place with its type's number, and its table, in the order in which they were read, which is that of their places; so an
 * indirection is found by halving. The same list has, by minus their places, the types that repository ids (or lists of them) stand for, by their numbers
 * far below that all types that were met, and by a type's mr_value the class that its values get.
 *
 * What a value costs is bounded by its bytes, as that of a struct: a table, its fields (mr_dec_enter), three places in that list. An id is
 * looked at once where it stands, and an indirection to it finds what that gave.
 */
#include <stdio.h>
#include "cdr/value.h"
#include "cdr/flat.h"
#include "cdr/get.h"
#include "transfer/transfer.h"

enum { PLACE = 1, VALUE, ENTRY = VALUE };      /* of an entry */
#define TYPE_AT(number) (-((lua_Integer)1 << 40) - (lua_Integer)(number))
enum { MOST_ID = 1024 };                       /* bytes of a repository id that is looked for */
enum { NO_FACTORY = 1 };

static int met(const mr_dec *d) { return d->fields + 1; }
static size_t place(const mr_dec *d) { return (size_t)(d->in.at - d->in.origin); }
static void check(mr_dec *d) { if (PORT_UNLIKELY(d->in.bad != NULL)) mr_dec_bad(d); }

static PORT_NORETURN void fail_back(mr_dec *d, const char *what) {
  d->in.at -= 4;                               /* to the number that is wrong */
  mr_dec_raise(d, "MARSHAL", 0, what);
}

/* ---- what was read already ---- */

static void begin(mr_dec *d) {
  lua_State *L = d->L;
  if (PORT_UNLIKELY(!lua_checkstack(L, MR_FLAT_MOST + 20))) mr_raise_memory(L);
  if (PORT_LIKELY(d->values.begun)) return;
  size_t room = mr_in_left(&d->in) / 8;
  if (room > d->env->got) room = d->env->got;
  lua_createtable(L, ((int)room + 4) * ENTRY, 4);
  lua_replace(L, met(d));
  d->values.begun = 1;
  d->env->got -= d->env->got / 8;
}

/* The value on top begins at that place. */
static uint32_t note(mr_dec *d, const mr_type *t, size_t at) {
  lua_State *L = d->L;
  lua_Integer first = (lua_Integer)d->values.n * ENTRY;
  lua_pushinteger(L, (lua_Integer)((uint64_t)t->number << 32 | (uint32_t)at));
  lua_rawseti(L, met(d), first + PLACE);
  lua_pushvalue(L, -1);
  lua_rawseti(L, met(d), first + VALUE);
  if (++d->values.n > d->env->got && d->values.n <= MR_MOST_ROOM) d->env->got = d->values.n;
  return d->values.n - 1;
}

static uint64_t place_of(mr_dec *d, uint32_t entry) {
  lua_rawgeti(d->L, met(d), (lua_Integer)entry * ENTRY + PLACE);
  uint64_t at = (uint64_t)lua_tointeger(d->L, -1);
  lua_pop(d->L, 1);
  return at;
}

/* Pushes the value that begins there, and the type it has. */
static const mr_type *push_met(mr_dec *d, lua_Integer at) {
  lua_State *L = d->L;
  uint32_t low = 0, high = d->values.n;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if ((lua_Integer)(uint32_t)place_of(d, middle) < at) low = middle + 1;
    else high = middle;
  }
  uint64_t found = low < d->values.n ? place_of(d, low) : 0;
  if (low == d->values.n || (uint32_t)found != at) return NULL;
  lua_rawgeti(L, met(d), TYPE_AT(found >> 32));
  const mr_type *t = lua_touserdata(L, -1);
  lua_pop(L, 1);
  lua_rawgeti(L, met(d), (lua_Integer)low * ENTRY + VALUE);
  return t;
}

/* Where an indirection leads; the number that says so is read. */
static lua_Integer read_target(mr_dec *d) {
  int32_t offset = (int32_t)mr_in_u32(&d->in);
  check(d);
  lua_Integer at = (lua_Integer)place(d) - 4 + offset;
  if (offset >= -4 || at < 0) fail_back(d, "an indirection outside of what was read");
  return at;
}

/* The content of a box is on top: where no box is declared it has to say what it is. */
static void wrap(lua_State *L, const mr_type *box) {
  lua_createtable(L, 0, 2);
  lua_insert(L, -2);
  lua_setfield(L, -2, "_value");
  lua_pushlstring(L, box->value->ids[0].s, box->value->ids[0].n);
  lua_setfield(L, -2, "_repid");
}

static int is_wrapped(const mr_type *t, const mr_type *formal) {
  return t->kind == TK_VALUEBOX && t->element->kind != TK_STRUCT && t->number != formal->number;
}

static void get_shared(mr_dec *d, const mr_type *formal, lua_Integer at) {
  const mr_type *t = push_met(d, at);
  if (!t) fail_back(d, "an indirection to where no value begins");
  if (!mr_value_is(d->L, d->fields, t, formal, d->values.is)) fail_back(d, "an indirection to a value of another type");
  if (lua_rawequal(d->L, -1, met(d))) fail_back(d, "an indirection to a box that is not closed yet");
  if (!is_wrapped(t, formal)) return;
  mr_dec_enter(d, 2);
  wrap(d->L, t);
  mr_dec_leave(d);
}

/* ---- which type ---- */

static PORT_NORETURN void unknown_type(mr_dec *d, const char *id, size_t n) {
  char text[240], name[101];
  if (n > 100) n = 100;
  for (size_t i = 0; i < n; i++) name[i] = id[i];
  for (size_t i = 0; i < n; i++) if (name[i] < 32 || name[i] > 126) name[i] = '?';
  name[n] = 0;
  snprintf(text, sizeof text, "a value of type '%s', which is not known: load its IDL", name);
  mr_dec_raise(d, "MARSHAL", NO_FACTORY, text);
}

/* The type with that id that the environment knows. */
static const mr_type *look_up(mr_dec *d, const char *id, size_t n) {
  lua_State *L = d->L;
  if (n > MOST_ID) return NULL;
  lua_pushlstring(L, id, n);
  lua_pushvalue(L, -1);
  if (lua_rawget(L, met(d)) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    if (!mr_value_find(L, d->env, d->fields, id, n)) { lua_pop(L, 2); return NULL; }
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, met(d));                     /* keeps it, too */
  }
  const mr_type *t = mr_type_at(L, -1);
  lua_pop(L, 2);
  return t;
}

/* The type with that id; NULL: it is not known here. A TypeCode is believed where nothing else is known: those of JacORB's leave out the bases. */
static const mr_type *find(mr_dec *d, const mr_type *formal, const char *id, size_t n) {
  int same = formal->value && n == formal->value->ids[0].n && memcmp(id, formal->value->ids[0].s, n) == 0;
  if (same && !formal->wire) return formal;
  const mr_type *t = look_up(d, id, n);
  return t || !same ? t : formal;
}

/* The string that begins at a place, where one was read: its length and bytes. */
static const char *text_at(mr_dec *d, lua_Integer at, size_t *n) {
  size_t before = place(d) - 8;
  const char *p = d->in.origin + at;
  *n = (size_t)at + 5 <= before ? cdr_load32(p, d->codec & CDR_LITTLE) : 0;
  if (*n == 0 || *n > before - 4 - (size_t)at || p[4 + *n - 1]) fail_back(d, "an indirection to where no repository id stands");
  --*n;
  return p + 4;
}

static const char *read_id(mr_dec *d, size_t *n) {
  mr_in ahead = d->in;
  if (mr_in_u32(&ahead) == TK_INDIRECTION && !ahead.bad) {
    d->in = ahead;
    return text_at(d, read_target(d), n);
  }
  const char *id = mr_in_text(&d->in, n);
  check(d);
  return id;
}

/* What was found for the ids at a place. The number's last bit says that there is more in a value than its type knows. */
static const mr_type *found_at(mr_dec *d, lua_Integer at, int *more) {
  *more = 0;
  if (PORT_LIKELY(at == d->values.id_at && d->values.id_type)) return d->values.id_type;
  lua_rawgeti(d->L, met(d), -at - 1);
  uintptr_t found = (uintptr_t)lua_touserdata(d->L, -1);
  lua_pop(d->L, 1);
  *more = (int)(found & 1);
  if (*more) return (const mr_type *)(found & ~(uintptr_t)1);
  d->values.id_at = at;
  return d->values.id_type = (const mr_type *)found;
}

static void note_ids(mr_dec *d, const mr_type *t, lua_Integer at, int more) {
  lua_pushlightuserdata(d->L, (void *)((uintptr_t)t | (uintptr_t)more));
  lua_rawseti(d->L, met(d), -at - 1);
}

/* The tag was read: an id or an indirection follows it at once, unless the piece of the message ends there. */
static int points(const mr_dec *d) { return d->in.stop - d->in.at >= 8 && cdr_load32(d->in.at, 1) == TK_INDIRECTION; }

static const mr_type *read_one(mr_dec *d, const mr_type *formal) {
  mr_in before = d->in;
  size_t n;
  int more;
  if (PORT_LIKELY(points(d))) {
    d->in.at += 4;
    const mr_type *t = found_at(d, read_target(d), &more);
    if (t && !more) return t;
    d->in = before;
  }
  const char *id = read_id(d, &n);
  lua_Integer at = (lua_Integer)(id - d->in.origin) - 4;
  const mr_type *t = find(d, formal, id, n);
  if (!t) unknown_type(d, id, n);
  note_ids(d, t, at, 0);
  return t;
}

/* The first of a list that is known: a value of a type that is not is cut down to one that it can be truncated to. */
static const mr_type *read_list(mr_dec *d, const mr_type *formal, int *more) {
  uint32_t count = mr_in_u32(&d->in);
  check(d);
  lua_Integer at = (lua_Integer)place(d) - 4;
  const mr_type *t = NULL;
  if (count == TK_INDIRECTION) {
    t = found_at(d, read_target(d), more);
    if (!t) fail_back(d, "an indirection to where no list of repository ids stands");
    return t;
  }
  if (count == 0 || count > mr_in_left(&d->in) / 5) fail_back(d, "a list of repository ids of a wrong length");
  const char *first = NULL;
  size_t length = 0;
  for (uint32_t i = 0; i < count; i++) {
    size_t n;
    const char *id = read_id(d, &n);
    if (i == 0) { first = id; length = n; }
    if (t || !(t = find(d, formal, id, n))) continue;
    *more = i > 0;
  }
  if (!t) unknown_type(d, first, length);
  note_ids(d, t, at, *more);
  return t;
}

/* What is noted of it may be asked for later in the message, when nobody else has it any more. */
static void keep(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  if (PORT_LIKELY(d->values.kept == t->number)) return;
  d->values.kept = t->number;
  mr_env_table(L, d->fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, t);
  if (!mr_type_at(L, -1)) mr_env_changed(L);
  lua_rawseti(L, met(d), TYPE_AT(t->number));
  lua_pop(L, 1);
}

static const mr_type *read_type(mr_dec *d, const mr_type *formal, uint32_t tag, int *more) {
  const mr_type *t = NULL;
  *more = 0;
  if (tag & VALUE_CODEBASE) mr_chunk_skip_text(&d->in);      /* where a program could be loaded from */
  check(d);
  switch (tag & VALUE_IDS) {
    case 0: t = formal->value ? find(d, formal, formal->value->ids[0].s, formal->value->ids[0].n) : formal; break;
    case VALUE_ONE_ID: t = read_one(d, formal); break;
    case VALUE_IDS: t = read_list(d, formal, more); break;
    default: fail_back(d, "a value whose tag means nothing");
  }
  if (t->kind == TK_ABSTRACT || t->value->abstract || t->value->any) mr_dec_raise(d, "MARSHAL", 0, "a value that does not say which type it has");
  if (!mr_value_is(d->L, d->fields, t, formal, d->values.is)) mr_dec_raise(d, "MARSHAL", 0, "a value of another type than is declared");
  if (*more && !(tag & VALUE_CHUNKED)) mr_dec_raise(d, "MARSHAL", 0, "a value of an unknown type without chunks");
  t = mr_itself(t);
  keep(d, t);
  return t;
}

/* ---- classes ---- */

/* Pushes the class of a type, or false. */
static int push_class(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  if (lua_rawgetp(L, met(d), t->value) == LUA_TNIL) {
    lua_pop(L, 1);
    mr_env_table(L, d->fields, ENV_CLASSES);
    lua_pushlstring(L, t->value->ids[0].s, t->value->ids[0].n);
    if (lua_rawget(L, -2) != LUA_TTABLE) {
      lua_pop(L, 1);
      lua_pushboolean(L, 0);
    }
    lua_replace(L, -2);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, met(d), t->value);
  }
  return lua_istable(L, -1);
}

/* The value on top, all of which is there, becomes an object of its class, or says what it is. */
static void finish(mr_dec *d, const mr_value_in *v) {
  lua_State *L = d->L;
  if (v->t->kind == TK_VALUE && push_class(d, v->t)) {
    lua_setmetatable(L, -2);
    return;
  }
  if (v->t->kind == TK_VALUE) lua_pop(L, 1);
  if (!v->id) return;
  if (!v->fill) { wrap(L, v->t); return; }
  lua_pushliteral(L, "_repid");
  lua_pushstring(L, v->id);
  lua_rawset(L, -3);
}

/* ---- values ---- */

/* Pushes what the value will be. A box that is not a struct is not known before it is read: until then it is the list of all values itself. */
static void push_new(mr_dec *d, const mr_value_in *v) {
  lua_State *L = d->L;
  if (!v->fill) lua_pushvalue(L, met(d));
  else if (d->raw && v->fill->lsizenode != 255) mr_new_table(L, v->fill);
  else lua_createtable(L, 0, (int)v->fill->n);
}

static void get_custom(mr_dec *d, mr_value_in *v) {
  if (!push_class(d, v->t)) {
    lua_pop(d->L, 1);
    char text[240];
    snprintf(text, sizeof text, "a custom value, '%.100s', whose class is not known: broker:factory(type, class)", v->t->value->ids[0].s);
    mr_dec_raise(d, "MARSHAL", NO_FACTORY, text);
  }
  lua_setmetatable(d->L, -2);
  if (++d->values.custom > MR_MOST_CUSTOM) mr_dec_raise(d, "MARSHAL", 0, "custom values nested too deeply");
  mr_custom_read(d, v->t);
  d->values.custom--;
  if (v->chunked && !mr_chunk_end(&d->in, 1)) mr_dec_bad(d);
  mr_dec_leave(d);
}

/* A value that points to nothing is there before it is noted. 0: it is read in the general way. */
static int get_whole(mr_dec *d, const mr_value_in *v, size_t at) {
  if (!mr_get_flat(d, v->t)) return 0;
  note(d, v->t, at);
  finish(d, v);
  return 1;
}

/* The tag has been read, and is one. */
static int begin_value(mr_dec *d, const mr_type *formal, uint32_t tag, uint32_t outside, mr_value_in *v) {
  size_t at = place(d) - 4;
  const mr_type *t = read_type(d, formal, tag, &v->more);
  int box = t->kind == TK_VALUEBOX, custom = t->value->custom;
  v->t = t;
  v->fill = box ? (t->element->kind == TK_STRUCT ? t->element : NULL) : t;
  v->id = t->number != formal->number ? t->value->ids[0].s : NULL;
  v->chunked = (tag & VALUE_CHUNKED) != 0;
  v->n = v->fill ? v->fill->n : 1;
  if (v->chunked) mr_chunk_begin(&d->in, outside);
  else if (outside) mr_dec_raise(d, "MARSHAL", 0, "a value without chunks in one that has them");
  if (mr_flat_in(d, t) && get_whole(d, v, at)) return 1;
  mr_dec_enter(d, custom ? 0 : v->n);
  if (custom) lua_createtable(d->L, 0, 0);
  else push_new(d, v);
  v->entry = note(d, t, at);
  if (!v->fill) lua_pop(d->L, 1);
  if (!custom) return 0;
  get_custom(d, v);
  return 1;
}

int mr_value_begin_get(mr_dec *d, const mr_type *formal, mr_value_in *v) {
  uint32_t outside;
  begin(d);
  if (formal->kind == TK_ABSTRACT && mr_in_u8(&d->in)) {
    check(d);
    mr_get_reference(d, formal);
    return 1;
  }
  uint32_t tag = mr_chunk_tag(&d->in, &outside);
  check(d);
  if (tag >= VALUE_TAG && tag <= INT32_MAX) return begin_value(d, formal, tag, outside, v);
  if (tag == 0) lua_pushnil(d->L);
  else if (tag == TK_INDIRECTION) get_shared(d, formal, read_target(d));
  else fail_back(d, "a value's tag expected");
  mr_chunk_inside(&d->in, outside);
  return 1;
}

/* A program's code that runs meanwhile may have found the table, and changed it. */
void mr_value_store(mr_dec *d, const mr_value_in *v, uint32_t i) {
  lua_State *L = d->L;
  if (!v->fill) return;
  const mr_member *m = &v->fill->members[i];
  if (PORT_LIKELY(d->raw && v->fill->lsizenode != 255)) {
    raw_value *x = raw_top(L) - 1;
    raw_table *table = (raw_table *)(uintptr_t)(x - 1)->bits;
    raw_node *node = &table->node[m->place];
    if (PORT_LIKELY(table->lsizenode == v->fill->lsizenode && node->key == m->key && node->key_tt == RAW_SHORT && !raw_isnil(node->tt) &&
                    (!raw_isblack(table) || !(x->tt & RAW_COLLECTABLE)))) {
      node->bits = x->bits;
      node->tt = x->tt;
      raw_pop(L);
      return;
    }
  }
  lua_pushlstring(L, m->name, m->length);
  lua_insert(L, -2);
  lua_rawset(L, -3);
}

void mr_value_end_get(mr_dec *d, mr_value_in *v) {
  if (!v->fill) {
    lua_pushvalue(d->L, -1);
    lua_rawseti(d->L, met(d), (lua_Integer)v->entry * ENTRY + VALUE);
  }
  finish(d, v);
  if (v->chunked && !mr_chunk_end(&d->in, v->more)) mr_dec_bad(d);
}

void mr_get_value(mr_dec *d, const mr_type *t) {
  mr_value_in v;
  if (PORT_UNLIKELY(d->depth >= MR_RECURSION)) { mr_get_deep(d, t); return; }
  if (mr_value_begin_get(d, t, &v)) return;
  for (uint32_t i = 0; i < v.n; i++) {
    mr_get(d, mr_value_part_type(&v, i));
    mr_value_store(d, &v, i);
  }
  mr_value_end_get(d, &v);
  mr_dec_leave(d);
}
