/*
 * unpack: builds the values of a packet in the receiver.
 *
 * First every string and every empty object is made, each in its slot; then they are filled, which allocates nothing
 * but what a table's own insertion may; metatables come last, so none of them sees a half-built object.
 * Plain packets are built without all that, by plain.c. Slots are on the Lua stack while they are few, else in a table; both keep what is being built alive.
 *
 * Invariant: a Lua error at any point leaves nothing but garbage in the receiver, and the packet untouched.
 */
#include <string.h>
#include "lua/build.h"
#include "transfer/packet.h"
#include "transfer/code.h"
#include "transfer/cargo.h"

#define STACK_SLOTS 40                         /* more slots than these are kept in a table */
#define BULK        100                        /* objects */

/* The first table of a shape; the others copy its hash part and put their own values in. */
enum { NEW, FILLED, LEARNT, UNFIT };
typedef struct template { uint32_t slot; uint8_t known, place[MAX_SHAPE]; } template;

typedef struct unpacker {
  lua_State *L;
  const mr_parts *m;
  int base;                                    /* stack index of the first slot, or of the table of slots */
  int intable, raw;
  int made;                                    /* as in the parts; 0 when it was used */
  raw_table *table;                            /* the table of slots, for raw writing */
  raw_value *slots;                            /* raw: set when nothing is allocated any more */
  const char *body;
  template *templates;
  uint8_t *classes;                            /* per class: what becomes of its section */
  int wanted;                                  /* the receiver lacks a class that the data use */
} unpacker;

enum { SKIP = 0, BUILD = 1, BUILD_REST = 2 };  /* REST: the class is known, what else its section has is needed */

static inline uint32_t object_slot(const unpacker *u, uint32_t number) { return u->m->nstrings + number; }

static void push_slot(unpacker *u, uint32_t i) {
  if (u->intable) lua_rawgeti(u->L, u->base, (lua_Integer)i + 1);
  else lua_pushvalue(u->L, u->base + (int)i);
}

/* The value on top becomes slot i; slots are made in order. */
static inline void keep(unpacker *u, uint32_t i) {
  if (!u->intable) return;
  if (u->raw && !raw_isblack(u->table)) {
    raw_pop(u->L);
    raw_set_element(u->table, i, raw_top(u->L));
    return;
  }
  lua_rawseti(u->L, u->base, (lua_Integer)i + 1);
}

/* ---- making ---- */

static inline const uint64_t *push_string(lua_State *L, const uint64_t *record) {
  size_t n = (size_t)(record[0] >> 1);
  int far = record[0] & 1;
  lua_pushlstring(L, far ? (const char *)record[1] : (const char *)(record + 1), n);
  return record + (far ? 2 : 1 + PAD8(n) / 8);
}

void mr_push_cfunction(lua_State *L) {
  mr_push_module(L, -2);
  if (lua_istable(L, -1)) {
    lua_pushvalue(L, -2);
    lua_gettable(L, -2);                         /* not raw: globals may appear when they are first used */
    lua_remove(L, -2);
  }
  if (!lua_isfunction(L, -1))
    luaL_error(L, "cannot receive C function '%s.%s': that module has no such function here", lua_tostring(L, -3), lua_tostring(L, -2));
  lua_replace(L, -3);
  lua_pop(L, 1);
}

static inline const mr_def *defs(const unpacker *u) { return (const mr_def *)(const void *)u->m->at[DEF]; }
static inline const mr_section *section_at(const unpacker *u, uint32_t i) { return (const mr_section *)(const void *)u->m->at[CLASS] + i; }
static inline const mr_def *class_def(const unpacker *u, uint32_t i) {
  return (const mr_def *)(const void *)(u->m->at[DEF] + (size_t)section_at(u, i)->def * 8);
}

static void make_class(unpacker *u, const mr_def *d) {
  if (mr_class_find(u->L, section_at(u, d->narr)->id)) return;
  const mr_def *own = class_def(u, d->narr);
  lua_createtable(u->L, (int)own->narr, (int)own->u.hash.npairs);
  u->classes[d->narr] = BUILD;
  u->wanted = 1;
}

static void make_function(unpacker *u, const mr_def *d) {
  if (!u->made || d != defs(u)) {
    mr_code_load(u->L, d->u.object);
    return;
  }
  lua_pushvalue(u->L, u->made);
  u->made = 0;
}

static void make_object(unpacker *u, const mr_def *d) {
  lua_State *L = u->L;
  switch (d->kind) {
    case KIND_CLASS: make_class(u, d); break;
    case KIND_FUNCTION: make_function(u, d); break;
    case KIND_GLOBALS: lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS); break;
    case KIND_CARGO: mr_cargo_make(L, (mr_cargo *)d->u.object); break;
    case KIND_SHARED: d->u.object->type->push(L, d->u.object); break;
    case KIND_MODULE:
      push_slot(u, d->narr);
      mr_push_module(L, -1);
      lua_remove(L, -2);
      break;
    default:
      push_slot(u, d->narr);
      push_slot(u, (uint32_t)d->u.word);
      mr_push_cfunction(L);
      break;
  }
}

/* The slots of a section, or of the data (klass = -1, which has no def of its own). */
typedef struct range { uint32_t strings, objects, metas, laststring, lastobject, lastmeta; const uint64_t *str; const mr_def *def; } range;

static range range_of(const unpacker *u, int64_t klass) {
  const mr_parts *m = u->m;
  range r = { 0, 0, 0, m->nstrings, m->nobjects, m->nmetas, (const uint64_t *)(const void *)m->at[STR], defs(u) };
  if (klass >= 0) {
    const mr_section *c = section_at(u, (uint32_t)klass);
    r.strings = c->strings;
    r.objects = c->objects;
    r.metas = c->metas;
    r.str += c->str;
    r.def = class_def(u, (uint32_t)klass) + 1;
  }
  if (klass + 1 < m->nclasses) {
    const mr_section *next = section_at(u, (uint32_t)(klass + 1));
    r.laststring = next->strings;
    r.lastobject = next->objects;
    r.lastmeta = next->metas;
  }
  return r;
}

/*
 * Slots on the stack are made in order: strings lie below objects, so a section's strings come before the data's objects.
 * Packets with sections keep their slots in a table therefore, where the order is free.
 */
static void make_range(unpacker *u, const range *r) {
  const uint64_t *record = r->str;
  const mr_def *d = r->def;
  for (uint32_t i = r->strings; i < r->laststring; i++) {
    record = push_string(u->L, record);
    keep(u, i);
  }
  for (uint32_t i = r->objects; i < r->lastobject; i++, d++) {
    if (d->kind == KIND_TABLE) lua_createtable(u->L, (int)d->narr, (int)d->u.hash.npairs);
    else make_object(u, d);
    keep(u, object_slot(u, i));
  }
}

static void make_all(unpacker *u) {
  range r = range_of(u, -1);
  make_range(u, &r);
  for (uint32_t i = 0; i < u->m->nclasses; i++) {
    if (u->classes[i] == SKIP && u->wanted && section_at(u, i)->referenced) u->classes[i] = BUILD_REST;
    if (u->classes[i] == SKIP) continue;
    r = range_of(u, i);
    make_range(u, &r);
  }
}

/* ---- filling ---- */

static inline uint32_t slot_of(const unpacker *u, uint8_t tag, uint64_t word) {
  mr_assert(tag == TAG_STRING ? PAIR_LOW(word) < u->m->nstrings : word < u->m->nobjects);
  return tag == TAG_STRING ? PAIR_LOW(word) : object_slot(u, (uint32_t)word);
}

static void push_scalar(lua_State *L, uint8_t tag, uint64_t word) {
  lua_Number n;
  switch (tag) {
    case RAW_NIL: lua_pushnil(L); break;
    case RAW_FALSE: lua_pushboolean(L, 0); break;
    case RAW_TRUE: lua_pushboolean(L, 1); break;
    case RAW_INT: lua_pushinteger(L, (lua_Integer)word); break;
    case RAW_FLT: memcpy(&n, &word, sizeof n); lua_pushnumber(L, n); break;
    default: lua_pushlightuserdata(L, (void *)word); break;
  }
}

static inline void push_value(unpacker *u, uint8_t tag, uint64_t word) {
  if (TAG_ISREF(tag)) {
    uint32_t i = slot_of(u, tag, word);
    if (u->raw) raw_push(u->L, u->slots[i].tt, u->slots[i].bits);
    else push_slot(u, i);
  } else if (u->raw) raw_push(u->L, tag, word);
  else push_scalar(u->L, tag, word);
}

static inline mr_block next_block(unpacker *u, size_t n) {
  mr_block b = { (uint8_t *)u->body, (uint64_t *)(void *)(u->body + PAD8(n)) };
  u->body += PAD8(n) + 8 * n;
  return b;
}

/* A value into a place of an object that is not black. */
static inline void put(const unpacker *u, uint64_t *bits, uint8_t *tt, uint8_t tag, uint64_t word) {
  if (TAG_ISREF(tag)) {
    const raw_value *from = &u->slots[slot_of(u, tag, word)];
    *bits = from->bits;
    *tt = from->tt;
  } else {
    *bits = word;
    *tt = tag;
  }
}

/* Stack, API only: [..., table]. */
static void fill_array(unpacker *u, const mr_def *d, raw_table *t) {
  uint32_t n = d->narr;
  if (d->uniform) {
    const uint64_t *words = (const uint64_t *)(const void *)u->body;
    u->body += (size_t)n * 8;
    if (t) raw_put_numbers(t->array, d->uniform, words, n);
    else for (uint32_t i = 0; i < n; i++) {
      push_scalar(u->L, d->uniform, words[i]);
      lua_rawseti(u->L, -2, (lua_Integer)i + 1);
    }
    return;
  }
  mr_block b = next_block(u, n);
  if (t) for (uint32_t i = 0; i < n; i++) put(u, &t->array[i].bits, &t->array[i].tt, b.tags[i], b.words[i]);
  else for (uint32_t i = 0; i < n; i++) {
    push_value(u, b.tags[i], b.words[i]);
    lua_rawseti(u->L, -2, (lua_Integer)i + 1);
  }
}

static void fill_pairs(unpacker *u, uint32_t n) {
  mr_block b = next_block(u, (size_t)n * 2);
  for (size_t i = 0; i < (size_t)n * 2; i += 2) {
    push_value(u, b.tags[i], b.words[i]);
    push_value(u, b.tags[i + 1], b.words[i + 1]);
    lua_rawset(u->L, -3);
  }
}

static void fill_fields(unpacker *u, const uint64_t *keys, uint32_t n) {
  mr_block b = next_block(u, n);
  for (uint32_t i = 0; i < n; i++) {
    push_value(u, TAG_STRING, keys[i]);
    push_value(u, b.tags[i], b.words[i]);
    lua_rawset(u->L, -3);
  }
}

/*
 * Where the keys of a shape are in the hash part of the first table filled with it. One may be missing: a module that is
 * nil here.
 */
static void learn(unpacker *u, template *t, const uint64_t *keys, uint32_t n) {
  const raw_table *first = (const raw_table *)u->slots[t->slot].bits;
  t->known = UNFIT;
  for (uint32_t i = 0; i < n; i++) {
    uint64_t key = u->slots[PAIR_LOW(keys[i])].bits;
    uint32_t at = 0, size = raw_nodes(first);
    while (at < size && (first->node[at].key != key || !(first->node[at].key_tt & RAW_COLLECTABLE))) at++;
    if (at == size) return;
    t->place[i] = (uint8_t)at;
  }
  t->known = LEARNT;
}

/* 0: this table must be filled key by key. */
static int fill_like_first(unpacker *u, template *t, raw_table *to, const uint64_t *keys, uint32_t n) {
  const raw_table *first = (const raw_table *)u->slots[t->slot].bits;
  if (t->known == FILLED) learn(u, t, keys, n);
  if (t->known == UNFIT || raw_isblack(to) || to->lsizenode != first->lsizenode) return 0;
  raw_copy_nodes(to, first->node, raw_free(first));
  mr_block b = next_block(u, n);
  for (uint32_t i = 0; i < n; i++) {
    raw_node *node = &to->node[t->place[i]];
    put(u, &node->bits, &node->tt, b.tags[i], b.words[i]);
  }
  return 1;
}

static inline const uint64_t *shape_of(const unpacker *u, const mr_def *d) {
  return (const uint64_t *)(const void *)u->m->at[SHAPE] + (d->u.hash.shape - 1);
}

/* Stack: [..., table]. */
static void fill_hash(unpacker *u, const mr_def *d) {
  if (!d->u.hash.shape) { fill_pairs(u, d->u.hash.npairs); return; }
  const uint64_t *shape = shape_of(u, d);
  fill_fields(u, shape + 1, PAIR_LOW(shape[0]));
}

/* 0: not done. */
static int fill_shape_raw(unpacker *u, const mr_def *d, uint32_t slot, raw_table *t) {
  const uint64_t *shape = shape_of(u, d);
  uint32_t number = PAIR_HIGH(shape[0]);
  if (number >= MR_LIKES) return 0;
  template *like = &u->templates[number];
  if (like->known != NEW) return fill_like_first(u, like, t, shape + 1, PAIR_LOW(shape[0]));
  like->known = FILLED;                        /* it will be, before the next one comes */
  like->slot = slot;
  return 0;
}

static void fill_raw(unpacker *u, const mr_def *d, uint32_t slot) {
  raw_table *t = (raw_table *)u->slots[slot].bits;
  uint32_t narr = d->narr;
  if (narr && (d->uniform || !raw_isblack(t))) {
    fill_array(u, d, t);
    narr = 0;
  }
  if (!narr && d->u.hash.shape && fill_shape_raw(u, d, slot, t)) return;
  if (!narr && !d->u.hash.npairs) return;
  raw_push(u->L, RAW_TABLE, (uint64_t)t);
  if (narr) fill_array(u, d, NULL);
  if (d->u.hash.npairs) fill_hash(u, d);
  raw_pop(u->L);
}

static void fill_table(unpacker *u, const mr_def *d, uint32_t slot) {
  if (u->raw) { fill_raw(u, d, slot); return; }
  if (!d->narr && !d->u.hash.npairs) return;
  push_slot(u, slot);
  if (d->narr) fill_array(u, d, NULL);
  if (d->u.hash.npairs) fill_hash(u, d);
  lua_pop(u->L, 1);
}

static void fill_function(unpacker *u, const mr_def *d, uint32_t slot) {
  lua_State *L = u->L;
  mr_block b = next_block(u, d->nup);
  push_slot(u, slot);
  for (int i = 0; i < d->nup; i++) {
    if (b.tags[i] == TAG_UPVALUE) {
      push_slot(u, object_slot(u, PAIR_LOW(b.words[i])));
      lua_upvaluejoin(L, -2, i + 1, -1, (int)PAIR_HIGH(b.words[i]));
      lua_pop(L, 1);
    } else {
      push_value(u, b.tags[i], b.words[i]);
      lua_setupvalue(L, -2, i + 1);
    }
  }
  lua_pop(L, 1);
}

/* What was shared and is here already keeps the values it has. */
static void fill_cargo(unpacker *u, const mr_def *d, uint32_t slot) {
  mr_block b = next_block(u, d->nup);
  push_slot(u, slot);
  for (int i = 0; i < d->nup; i++) {
    push_value(u, b.tags[i], b.words[i]);
    lua_setiuservalue(u->L, -2, i + 1);
  }
  lua_pop(u->L, 1);
}

static void skip_values(unpacker *u, const mr_def *d) {
  size_t n = d->narr, pairs = d->u.hash.npairs;
  u->body += d->uniform ? 8 * n : PAD8(n) + 8 * n;
  if (!d->u.hash.shape) pairs *= 2;
  u->body += PAD8(pairs) + 8 * pairs;
}

static void fill_range(unpacker *u, const range *r) {
  const mr_def *d = r->def;
  for (uint32_t i = r->objects; i < r->lastobject; i++, d++) {
    if (d->kind == KIND_TABLE) fill_table(u, d, object_slot(u, i));
    else if (d->kind == KIND_FUNCTION) fill_function(u, d, object_slot(u, i));
    else if (d->kind == KIND_CARGO && d->nup) fill_cargo(u, d, object_slot(u, i));
  }
}

static void fill_all(unpacker *u) {
  range r = range_of(u, -1);
  fill_range(u, &r);
  for (uint32_t i = 0; i < u->m->nclasses; i++) {
    const mr_section *c = section_at(u, i);
    if (u->classes[i] == SKIP) continue;
    u->body = u->m->at[BODY] + (size_t)c->body * 8;
    if (u->classes[i] == BUILD) fill_table(u, class_def(u, i), object_slot(u, c->object));
    else skip_values(u, class_def(u, i));
    r = range_of(u, i);
    fill_range(u, &r);
  }
}

/* ---- the whole ---- */

/* A known class keeps the metatable it has. */
static void set_metatables(unpacker *u, const range *r, uint32_t except) {
  const uint64_t *pair = (const uint64_t *)(const void *)u->m->at[META];
  for (uint32_t i = r->metas; i < r->lastmeta; i++) {
    if (PAIR_LOW(pair[i]) == except) continue;
    push_slot(u, object_slot(u, PAIR_LOW(pair[i])));
    push_slot(u, object_slot(u, PAIR_HIGH(pair[i])));
    if (PORT_UNLIKELY(!lua_istable(u->L, -1)))
      luaL_error(u->L, "cannot receive a table whose metatable is a module: that module is a %s here", luaL_typename(u->L, -1));
    lua_setmetatable(u->L, -2);
    lua_pop(u->L, 1);
  }
}

static void finish(unpacker *u) {
  range r = range_of(u, -1);
  set_metatables(u, &r, NOBODY);
  for (uint32_t i = 0; i < u->m->nclasses; i++) {
    if (u->classes[i] == SKIP) continue;
    r = range_of(u, i);
    set_metatables(u, &r, u->classes[i] == BUILD_REST ? section_at(u, i)->object : NOBODY);
  }
  for (uint32_t i = 0; i < u->m->nclasses; i++) {
    if (u->classes[i] != BUILD) continue;
    push_slot(u, object_slot(u, section_at(u, i)->object));
    mr_class_register(u->L, lua_gettop(u->L), section_at(u, i)->id);
    lua_pop(u->L, 1);
  }
}

/* The last step, which can't fail: from now on they are the receiver's. Those that share stand in sections, too, and are there already. */
static PORT_NOINLINE void arrive(unpacker *u) {
  range r = range_of(u, -1);
  const mr_def *d = r.def;
  for (uint32_t i = r.objects; i < r.lastobject; i++, d++) {
    if (d->kind != KIND_CARGO) continue;
    push_slot(u, object_slot(u, i));
    mr_cargo_arrive(u->L, lua_gettop(u->L), (mr_cargo *)d->u.object);
    lua_pop(u->L, 1);
  }
}

static int unpack_scalars(lua_State *L, const mr_parts *m) {
  uint32_t n = m->nvalues;
  const uint8_t *tags = (const uint8_t *)m->at[BODY];
  const uint64_t *words = (const uint64_t *)(const void *)(tags + PAD8(n));
  const uint64_t *str = (const uint64_t *)(const void *)m->at[STR];
  for (uint32_t i = 0; i < n; i++) {
    if (tags[i] == TAG_STRING) push_string(L, str + PAIR_HIGH(words[i]));
    else push_scalar(L, tags[i], words[i]);
  }
  return (int)n;
}

static void find_slots(unpacker *u, uint32_t nslots) {
  if (!u->raw) return;
  u->slots = u->intable ? u->table->array : raw_top(u->L) - nslots;
}

static void unpack_graph(unpacker *u, uint32_t nslots) {
  template templates[MR_LIKES];
  for (uint32_t i = 0; i < MR_LIKES && i < u->m->nshapes; i++) templates[i].known = NEW;
  u->templates = templates;
  make_all(u);
  find_slots(u, nslots);
  uint32_t n = u->m->nvalues;
  u->body = u->m->at[BODY];
  mr_block b = next_block(u, n);
  fill_all(u);
  if (u->m->nmetas || u->m->nclasses) finish(u);
  find_slots(u, nslots);
  for (uint32_t i = 0; i < n; i++) push_value(u, b.tags[i], b.words[i]);
  if (PORT_UNLIKELY(u->m->ncargo)) arrive(u);
}

/* Tables for slots and for the state of classes, below the results; how many values they are is returned. */
static int make_room(unpacker *u, uint32_t nslots) {
  uint32_t nclasses = u->m->nclasses;
  int below = 0;
  if (nclasses) {
    u->classes = lua_newuserdatauv(u->L, nclasses, 0);
    memset(u->classes, SKIP, nclasses);
    below++;
  }
  u->base = lua_gettop(u->L) + 1;
  if (!u->intable) return below + (int)nslots;
  lua_createtable(u->L, (int)nslots, 0);
  u->table = u->raw ? (raw_table *)lua_topointer(u->L, -1) : NULL;
  return below + 1;
}

static int unpack_objects(lua_State *L, const mr_parts *m, int made) {
  int n = (int)m->nvalues, top = lua_gettop(L);
  uint32_t nslots = m->nstrings + m->nobjects;
  unpacker u = { .L = L, .m = m, .raw = mr_layout, .made = made, .intable = nslots > STACK_SLOTS || m->nclasses };
  int room = n + LUA_MINSTACK + (u.intable ? 0 : (int)nslots);
  if (PORT_UNLIKELY(!lua_checkstack(L, room))) mr_raise_memory(L);
  int below = make_room(&u, nslots);           /* slots lie under the results */
  unpack_graph(&u, nslots);
  lua_rotate(L, top + 1, n);
  lua_pop(L, below);
  return n;
}

static int l_unpack_objects(lua_State *L) {
  const mr_parts *m = lua_touserdata(L, 1);
  lua_settop(L, 0);
  return unpack_objects(L, m, 0);
}

/*
 * A generational collector steps whenever the heap has grown by a fifth. When as much as the heap holds arrives at once, it would
 * visit the same objects again and again, and in the end hold them for old; so it is stopped meanwhile, and makes one minor step
 * afterwards. (Starting it sets its debt to zero, so without that step it might never run. An incremental one would lose its pause by
 * this, so it is left alone.) Old garbage that only major steps find makes the heap larger, until what arrives is no bulk for it.
 */
static int is_bulk(lua_State *L, const mr_parts *m) {
  if (m->nobjects < BULK || !mr_layout || !raw_isgenerational(L)) return 0;
  size_t size = (size_t)m->nobjects * 100 + (size_t)m->nstrings * 40;
  return size / 1024 >= (size_t)lua_gc(L, LUA_GCCOUNT) / 2 && lua_gc(L, LUA_GCISRUNNING) == 1;
}

static int unpack_bulk(lua_State *L, const mr_parts *m) {
  int top = lua_gettop(L);
  if (!lua_checkstack(L, LUA_MINSTACK)) mr_raise_memory(L);
  lua_pushcfunction(L, l_unpack_objects);
  lua_pushlightuserdata(L, (void *)m);
  lua_gc(L, LUA_GCSTOP);
  int status = lua_pcall(L, 1, LUA_MULTRET, 0);
  lua_gc(L, LUA_GCRESTART);
  mr_lua_step(L, 0);
  if (status != LUA_OK) lua_error(L);
  return lua_gettop(L) - top;
}

int mr_unpack_parts(lua_State *L, const mr_parts *m) {
  mr_assert_unlocked();
  if (!m->nobjects || (m->plain && mr_layout)) {
    if (PORT_UNLIKELY(!lua_checkstack(L, (int)m->nvalues + LUA_MINSTACK))) mr_raise_memory(L);
    if (!m->nobjects) return unpack_scalars(L, m);
    if (PORT_LIKELY(mr_unpack_plain(L, m))) return (int)m->nvalues;
  }
  return is_bulk(L, m) ? unpack_bulk(L, m) : unpack_objects(L, m, m->made);
}
