/*
 * class: metatables, and tables that are meant as such: those with a metamethod's name among their keys.
 *
 * A class gets a program-wide id at its first send. Every state knows the classes it has sent or received by two weak
 * tables in its registry, so that objects of a class share one metatable in each state, and a class that comes back is
 * the original. The sender can't know what the receiver has: each message carries the class in a *section* of its own,
 * after all data, which the receiver skips unless it needs it. A section that is needed may use another's objects:
 * then that one is built as well, though its class is known.
 */
#include <string.h>
#include <stdatomic.h>
#include "transfer/packet.h"

static char ids_key, classes_key;              /* registry: class -> id, id -> class */
static atomic_uint_least64_t last_id;

int mr_is_class_key(const char *text, size_t length) {
  static const char names[][12] = {
    "__index", "__newindex", "__call", "__name", "__tostring", "__eq", "__lt", "__le", "__len", "__concat", "__close",
    "__gc", "__mode", "__metatable", "__pairs", "__unm", "__add", "__sub", "__mul", "__div", "__idiv", "__mod", "__pow",
    "__band", "__bor", "__bxor", "__bnot", "__shl", "__shr"
  };
  if (length < 4 || length > 11 || text[0] != '_' || text[1] != '_') return 0;
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (memcmp(names[i], text, length) == 0 && (length == 11 || names[i][length] == 0)) return 1;
  return 0;
}

/* ---- ids ---- */

static void push_weak(lua_State *L, const char *key, const char *mode) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 0);
  lua_createtable(L, 0, 1);
  lua_pushstring(L, mode);
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, key);
}

void mr_class_register(lua_State *L, int table, uint64_t id) {
  push_weak(L, &classes_key, "v");
  lua_pushvalue(L, table);
  lua_rawseti(L, -2, (lua_Integer)id);
  lua_pop(L, 1);
  push_weak(L, &ids_key, "k");
  lua_pushvalue(L, table);
  lua_pushinteger(L, (lua_Integer)id);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

int mr_class_find(lua_State *L, uint64_t id) {
  int top = lua_gettop(L);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &classes_key) != LUA_TTABLE || lua_rawgeti(L, -1, (lua_Integer)id) != LUA_TTABLE) {
    lua_settop(L, top);
    return 0;
  }
  lua_remove(L, -2);
  return 1;
}

void mr_class_newborn(lua_State *L, int newborn, uint32_t n) {
  for (uint32_t i = 1; i <= n; i++) {
    lua_rawgeti(L, newborn, i);
    mr_class_register(L, lua_gettop(L), atomic_fetch_add(&last_id, 1) + 1);
    lua_pop(L, 1);
  }
}

/* The id of the class on top, which stays. 0: it has none, and was put among the newborn if there is room (no allocation: pack.c). */
static uint64_t find_id(mr_packer *p) {
  lua_State *L = p->L;
  uint64_t id = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &ids_key) == LUA_TTABLE) {
    lua_pushvalue(L, -2);
    lua_rawget(L, -2);
    id = (uint64_t)lua_tointeger(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  if (id) return id;
  p->nameless++;
  if (p->nnewborn < p->maxnewborn) {
    lua_pushvalue(L, -1);
    lua_rawseti(L, p->newborn, ++p->nnewborn);
  }
  return 0;
}

/* ---- packing ---- */

int mr_pack_class(mr_packer *p, uint32_t number) {
  mr_push_object(p, number);
  uint64_t id = find_id(p);
  lua_pop(p->L, 1);
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = KIND_CLASS;
  d->narr = p->nclasses++;
  mr_section *c = mr_take(p, &p->s[CLASS], sizeof *c);
  memset(c, 0, sizeof *c);
  c->id = id;
  c->object = number;
  return 0;
}

static mr_section *section_at(mr_packer *p, uint32_t i) { return (mr_section *)(void *)p->s[CLASS].at + i; }

int mr_pack_section(mr_packer *p, uint32_t klass) {
  mr_section *c = section_at(p, klass);
  c->strings = p->nstrings;
  c->objects = p->nobjects;
  c->metas = p->nmetas;
  c->str = (uint32_t)(p->s[STR].length / 8);
  c->def = (uint32_t)(p->s[DEF].length / 8);
  c->body = (uint32_t)(p->s[BODY].length / 8);
  p->section = klass + 1;
  p->current = c->object;
  return mr_pack_body(p, c->object);
}

/* Which section an object was found in: the last that began with no more objects than that. */
void mr_class_cross(mr_packer *p, uint32_t number) {
  uint32_t low = 0, high = p->section - 1;
  if (number < section_at(p, 0)->objects || number >= section_at(p, high)->objects) return;
  while (high - low > 1) {
    uint32_t middle = low + (high - low) / 2;
    if (section_at(p, middle)->objects > number) high = middle;
    else low = middle;
  }
  section_at(p, low)->referenced = 1;
}

/* Bit 2 of a table's flags says that it is known to have no __gc; setmetatable asks, so it usually is. */
static int has_gc(mr_packer *p, const mr_value *meta) {
  mr_value value;
  if (p->raw && ((const raw_table *)meta->bits)->flags & RAW_NOGC) return 0;
  return mr_field_find(p, meta, "__gc", &value);
}

/* "__stays" in a metatable with __gc: what the error says about its tables. The metatable keeps the text. */
static const char *why_not(mr_packer *p, const mr_value *meta) {
  mr_value words;
  if (mr_field_find(p, meta, "__stays", &words) && (words.tt == RAW_SHORT || words.tt == RAW_LONG)) return (const char *)words.bits;
  return "table with a __gc metamethod cannot be sent; send what it is made from and make it in the receiver";
}

int mr_pack_metatable(mr_packer *p, uint32_t number, const mr_value *meta) {
  uint32_t m;
  if (PORT_UNLIKELY(p->judge != NULL))
    return mr_fail(p, number, "table with a metatable cannot be frozen; freeze what it holds, in a table without one");
  int r = mr_pack_object(p, meta, &m);
  if (r) return r;
  mr_object *o = &p->objects[m];
  if (!o->ismeta && has_gc(p, meta)) return mr_fail(p, number, why_not(p, meta));
  p->objects[m].ismeta = 1;
  *(uint64_t *)mr_take(p, &p->s[META], 8) = PAIR(number, m);
  p->nmetas++;
  return 0;
}
