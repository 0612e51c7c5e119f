/*
 * names: values that travel as a name, because the receiver has its own: the globals, modules, C functions of modules.
 * And shared objects, which travel as a pointer.
 *
 * Which values are modules is read from package.loaded at every message that has objects, as it can change at any
 * time: one pass over its entries fills a filter of 512 bits, which nearly every object then misses.
 */
#include <string.h>
#include <lauxlib.h>
#include "transfer/packet.h"

static inline uint32_t filter_bit(uint64_t address) {
  return (uint32_t)((address >> 4) * UINT64_C(0x9E3779B97F4A7C15) >> 55);
}

static inline int has_address(const mr_value *v) { return v->tt & RAW_COLLECTABLE || v->tt == RAW_LIGHTC; }

void mr_find_modules(mr_packer *p) {
  lua_State *L = p->L;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  p->globals = (uint64_t)lua_topointer(L, -1);
  lua_pop(L, 1);
  memset(p->modules, 0, sizeof p->modules);
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) != LUA_TTABLE) {
    lua_pop(L, 1);
    p->loaded = -1;
    return;
  }
  p->loaded = lua_gettop(L);
  mr_fields f;
  mr_fields_open(p, &f, p->loaded);
  while (mr_fields_next(p, &f)) {
    if (!has_address(&f.value)) continue;
    uint32_t bit = filter_bit(f.value.bits);
    p->modules[bit / 64] |= UINT64_C(1) << bit % 64;
  }
}

static int before(const mr_value *a, const mr_value *b) {
  size_t n = a->length < b->length ? a->length : b->length;
  int c = memcmp((const char *)a->bits, (const char *)b->bits, n);
  return c ? c < 0 : a->length < b->length;
}

/* The first name, in alphabetical order, under which v is loaded. */
static int module_name(mr_packer *p, uint64_t bits, uint8_t tt, mr_value *name) {
  int found = 0;
  mr_fields f;
  mr_fields_open(p, &f, p->loaded);
  while (mr_fields_next(p, &f)) {
    if (f.value.bits != bits || f.value.tt != tt || (found && !before(&f.key, name))) continue;
    *name = f.key;
    found = 1;
  }
  return found;
}

int mr_is_module(mr_packer *p, const mr_value *v) {
  mr_value name;
  uint32_t bit = filter_bit(v->bits);
  if (!(p->modules[bit / 64] >> bit % 64 & 1) || p->loaded < 0) return 0;
  return module_name(p, v->bits, v->tt, &name);
}

static uint32_t name_slot(mr_packer *p, const mr_value *name) {
  return PAIR_LOW(mr_pack_string(p, (const char *)name->bits, name->length));
}

static void define_name(mr_packer *p, uint8_t kind, const mr_value *module, const mr_value *field) {
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = kind;
  d->narr = name_slot(p, module);
  d->u.word = field ? name_slot(p, field) : 0;
  p->needscode = 1;
}

int mr_pack_module(mr_packer *p, uint32_t number) {
  mr_value name;
  memset(&name, 0, sizeof name);
  module_name(p, p->objects[number].bits, p->objects[number].tt, &name);
  define_name(p, KIND_MODULE, &name, NULL);
  return 0;
}

typedef struct name { mr_value module, field; int rank; } name;

static int is_called(const mr_value *text, const char *word) {
  return text->length == strlen(word) && memcmp((const char *)text->bits, word, text->length) == 0;
}

/* An alias in the globals may be the script's own: any module's name is better, and of the globals' own the basic library's. */
static int rank_of(const mr_value *module, const mr_value *field) {
  static const char *const basic[] = {
    "assert", "collectgarbage", "dofile", "error", "getmetatable", "ipairs", "load", "loadfile", "next", "pairs", "pcall",
    "print", "rawequal", "rawget", "rawlen", "rawset", "require", "select", "setmetatable", "tonumber", "tostring", "type",
    "warn", "xpcall"
  };
  if (!is_called(module, LUA_GNAME)) return 0;
  for (size_t i = 0; i < sizeof basic / sizeof *basic; i++)
    if (is_called(field, basic[i])) return 1;
  return 2;
}

static void search_module(mr_packer *p, const mr_object *o, const mr_value *module, int at, name *best) {
  mr_fields f;
  mr_fields_open(p, &f, at);
  while (mr_fields_next(p, &f)) {
    if (f.value.bits != o->bits || f.value.tt != o->tt) continue;
    int rank = rank_of(module, &f.key);
    if (rank > best->rank) continue;
    if (rank == best->rank) {
      if (before(&best->module, module)) continue;
      if (!before(module, &best->module) && before(&best->field, &f.key)) continue;
    }
    best->module = *module;
    best->field = f.key;
    best->rank = rank;
  }
}

int mr_pack_cfunction(mr_packer *p, uint32_t number) {
  name best = { .rank = 3 };
  mr_fields f;
  if (p->loaded > 0) {
    mr_fields_open(p, &f, p->loaded);
    while (mr_fields_next(p, &f)) {
      if (f.value.tt != RAW_TABLE) continue;
      mr_push(p, &f.value);
      search_module(p, &p->objects[number], &f.key, lua_gettop(p->L), &best);
      lua_pop(p->L, 1);
    }
  }
  if (best.rank == 3)
    return mr_fail(p, number, "C function cannot be sent, no module in package.loaded has it; "
                              "require its module in the receiver, or wrap it in a Lua function");
  define_name(p, KIND_CFUNCTION, &best.module, &best.field);
  return 0;
}

int mr_pack_shared(mr_packer *p, uint32_t number) {
  lua_State *L = p->L;
  mr_value type;
  if (p->objects[number].tt == RAW_THREAD)
    return mr_fail(p, number, "coroutine cannot be sent; send its function and create the coroutine in the receiver");
  mr_push_object(p, number);
  if (!lua_getmetatable(L, -1) || !mr_field_find(p, -1, "__share", &type) || type.tt != RAW_LIGHT)
    return mr_fail(p, number, NULL);           /* explain.c finds the words */
  mr_shared *o = *(mr_shared **)lua_touserdata(L, -2);
  if (!o) return mr_fail(p, number, "object was finalised already and cannot be sent any more");
  lua_pop(L, 2);
  mr_def *d = mr_take(p, &p->s[DEF], sizeof *d);
  memset(d, 0, sizeof *d);
  d->kind = KIND_SHARED;
  d->u.object = o;
  *(mr_shared **)mr_take(p, &p->shared, sizeof o) = o;
  return 0;
}

/* [..., name] -> [..., module] */
static void require_module(lua_State *L) {
  int name = lua_gettop(L);
  if (lua_getfield(L, LUA_REGISTRYINDEX, "mare.require") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushliteral(L, "require");
    lua_rawget(L, -2);
    lua_remove(L, -2);
  }
  if (lua_isnil(L, -1)) luaL_error(L, "cannot receive module '%s': there is no 'require' here", lua_tostring(L, name));
  lua_pushvalue(L, name);
  lua_call(L, 1, 1);
  lua_replace(L, name);
}

void mr_push_module(lua_State *L, int at) {
  at = lua_absindex(L, at);
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) == LUA_TTABLE) {
    lua_pushvalue(L, at);
    lua_rawget(L, -2);
    lua_remove(L, -2);
    if (lua_toboolean(L, -1)) return;
  }
  lua_pop(L, 1);
  lua_pushvalue(L, at);
  require_module(L);
}
