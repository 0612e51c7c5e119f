/*
 * names: values that travel as a name, because the receiver has its own: the globals, modules, C functions of modules.
 * And shared objects, which travel as a pointer.
 *
 * Which values are modules is read from package.loaded at every message that has objects, as it can change at any
 * time: the first few objects are looked for among its entries; then one pass over them fills a filter of 512 bits, which
 * nearly every object misses.
 */
#include <string.h>
#include "transfer/packet.h"

#define SEARCHES 3                             /* cheaper than a filter, for so many objects */

static inline int has_address(uint8_t tt) { return tt & RAW_COLLECTABLE || tt == RAW_LIGHTC; }

static inline void filter_add(mr_packer *p, uint64_t address) {
  uint32_t bit = mr_filter_bit(address);
  p->modules[bit / 64] |= UINT64_C(1) << bit % 64;
}

static PORT_NOINLINE void fill_filter(mr_packer *p) {
  p->filtered = 1;
  memset(p->modules, 0, sizeof p->modules);
  if (p->raw) {
    const raw_table *t = (const raw_table *)p->loaded.bits;
    for (uint32_t i = 0, n = raw_nodes(t); i < n; i++)
      if (has_address(t->node[i].tt)) filter_add(p, t->node[i].bits);
    return;
  }
  mr_fields f;
  mr_fields_open(p, &f, &p->loaded);
  while (mr_fields_next(p, &f))
    if (has_address(f.value.tt)) filter_add(p, f.value.bits);
}

static void find_raw(mr_packer *p) {
  p->globals = raw_element(raw_registry(p->L), LUA_RIDX_GLOBALS - 1).bits;
  const raw_node *node = mr_registry_find(p->L, &p->loadedhint, RAW_SHORT, LUA_LOADED_TABLE, sizeof LUA_LOADED_TABLE - 1);
  if (!node || node->tt != RAW_TABLE) { p->looked = -1; return; }
  p->looked = 1;
  p->loaded.tt = RAW_TABLE;
  p->loaded.bits = node->bits;
}

static void find_api(mr_packer *p) {
  lua_State *L = p->L;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
  p->globals = (uint64_t)lua_topointer(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE) != LUA_TTABLE) {
    lua_pop(L, 1);
    p->looked = -1;
    return;
  }
  mr_read(p, lua_gettop(L), &p->loaded);
  p->looked = 1;
}

/* By the API, package.loaded stays on the stack. */
void mr_find_modules(mr_packer *p) {
  p->filtered = p->searches = 0;
  if (p->raw) find_raw(p);
  else find_api(p);
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
  mr_fields_open(p, &f, &p->loaded);
  while (mr_fields_next(p, &f)) {
    if (f.value.bits != bits || f.value.tt != tt || (found && !before(&f.key, name))) continue;
    *name = f.key;
    found = 1;
  }
  return found;
}

static int is_there(const raw_table *t, const mr_value *v) {
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++)
    if (PORT_UNLIKELY(node->bits == v->bits) && node->tt == v->tt && node->key_tt == RAW_SHORT) return 1;
  return 0;
}

int mr_is_module(mr_packer *p, const mr_value *v) {
  mr_value name;
  if (p->looked < 0) return 0;
  if (p->raw && p->searches < SEARCHES) {
    p->searches++;
    return is_there((const raw_table *)p->loaded.bits, v);
  }
  if (!p->filtered) fill_filter(p);
  uint32_t bit = mr_filter_bit(v->bits);
  return p->modules[bit / 64] >> bit % 64 & 1 && module_name(p, v->bits, v->tt, &name);
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

/* ---- C functions ---- */

/* What the standard libraries call their functions. An alias elsewhere is not the name to send. */
static const char *const standard[][2] = {
  { LUA_GNAME, " assert collectgarbage dofile error getmetatable ipairs load loadfile next pairs pcall print rawequal rawget rawlen"
               " rawset require select setmetatable tonumber tostring type warn xpcall " },
  { LUA_COLIBNAME, " close create isyieldable resume running status wrap yield " },
  { LUA_DBLIBNAME, " debug gethook getinfo getlocal getmetatable getregistry getupvalue getuservalue sethook setlocal setmetatable"
                   " setupvalue setuservalue traceback upvalueid upvaluejoin setcstacklimit " },
  { LUA_IOLIBNAME, " close flush input lines open output popen read tmpfile type write " },
  { LUA_MATHLIBNAME, " abs acos asin atan ceil cos deg exp floor fmod log max min modf rad random randomseed sin sqrt tan tointeger"
                     " type ult " },
  { LUA_OSLIBNAME, " clock date difftime execute exit getenv remove rename setlocale time tmpname " },
  { LUA_LOADLIBNAME, " loadlib searchpath " },
  { LUA_STRLIBNAME, " byte char dump find format gmatch gsub len lower match pack packsize rep reverse sub unpack upper " },
  { LUA_TABLIBNAME, " concat insert move pack remove sort unpack " },
  { LUA_UTF8LIBNAME, " char codepoint codes len offset " },
};

static int is_called(const mr_value *text, const char *word) {
  return text->length == strlen(word) && memcmp((const char *)text->bits, word, text->length) == 0;
}

static int is_word(const mr_value *text, const char *words) {
  for (size_t n; *++words; words += n)
    if ((n = strcspn(words, " ")) == text->length && memcmp(words, (const char *)text->bits, n) == 0) return 1;
  return 0;
}

enum { STANDARD, OF_MODULE, ADDED, NOWHERE };       /* ADDED: to the globals or a standard library, by the program */
typedef struct name { mr_value module, field; int rank; } name;

static int rank_of(const mr_value *module, const mr_value *field) {
  for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
    if (is_called(module, standard[i][0])) return is_word(field, standard[i][1]) ? STANDARD : ADDED;
  return OF_MODULE;
}

/* The better name of two; of equal ones the first in alphabetical order, so that it does not depend on the order in tables. */
static void consider(name *best, const mr_value *module, const mr_value *field) {
  int rank = rank_of(module, field);
  if (rank > best->rank) return;
  if (rank == best->rank) {
    if (before(&best->module, module)) return;
    if (!before(module, &best->module) && before(&best->field, field)) return;
  }
  best->module = *module;
  best->field = *field;
  best->rank = rank;
}

static void search_raw(const mr_object *o, const mr_value *module, const raw_table *t, name *best) {
  for (const raw_node *node = t->node, *end = node + raw_nodes(t); node < end; node++) {
    if (PORT_LIKELY(node->bits != o->bits) || node->tt != o->tt || node->key_tt != RAW_SHORT) continue;
    raw_value key = { node->key, node->key_tt };
    mr_value field;
    mr_read_raw(&key, &field);
    consider(best, module, &field);
  }
}

static void search_api(mr_packer *p, const mr_object *o, const mr_value *module, const mr_value *table, name *best) {
  mr_fields f;
  mr_fields_open(p, &f, table);
  while (mr_fields_next(p, &f))
    if (f.value.bits == o->bits && f.value.tt == o->tt) consider(best, module, &f.key);
}

int mr_pack_cfunction(mr_packer *p, uint32_t number) {
  const mr_object *o = &p->objects[number];
  name best = { .rank = NOWHERE };
  mr_fields f;
  if (p->looked > 0) {
    mr_fields_open(p, &f, &p->loaded);
    while (mr_fields_next(p, &f)) {
      if (f.value.tt != RAW_TABLE) continue;
      if (p->raw) search_raw(o, &f.key, (const raw_table *)f.value.bits, &best);
      else search_api(p, o, &f.key, &f.value, &best);
    }
  }
  if (best.rank == NOWHERE) return mr_fail(p, number, NULL);               /* explain.c finds the words */
  define_name(p, KIND_CFUNCTION, &best.module, &best.field);
  return 0;
}

/* ---- shared objects ---- */

int (*mr_share_valid)(const void *block, size_t size);

int mr_is_constant(mr_packer *p, const mr_value *v) {
  lua_State *L = p->L;
  int top = lua_gettop(L), constant = 0;
  mr_value meta, type;
  mr_push(p, v);
  const void *block = lua_touserdata(L, -1);
  size_t size = lua_rawlen(L, -1);
  if (lua_getmetatable(L, -1)) {
    mr_read(p, lua_gettop(L), &meta);
    if (mr_field_find(p, &meta, "__share", &type) && type.tt == RAW_LIGHT && size >= sizeof(mr_shared *) && mr_share_valid && mr_share_valid(block, size)) {
      const mr_shared *o = *(mr_shared *const *)block;
      constant = o && o->type->constant;
    }
  }
  lua_settop(L, top);
  return constant;
}

int mr_pack_shared(mr_packer *p, uint32_t number) {
  lua_State *L = p->L;
  mr_value meta, type;
  if (p->objects[number].tt == RAW_THREAD)
    return mr_fail(p, number, "coroutine cannot be sent; send its function and create the coroutine in the receiver");
  mr_push_object(p, number);
  if (!lua_getmetatable(L, -1)) return mr_fail(p, number, NULL);           /* explain.c finds the words */
  mr_read(p, lua_gettop(L), &meta);
  if (!mr_field_find(p, &meta, "__share", &type) || type.tt != RAW_LIGHT) return mr_pack_cargo(p, number);
  const void *block = lua_touserdata(L, -2);
  size_t size = lua_rawlen(L, -2);
  if (size < sizeof(mr_shared *) || (mr_share_valid && !mr_share_valid(block, size))) return mr_fail(p, number, NULL);
  mr_shared *o = *(mr_shared *const *)block;
  if (!o) return mr_fail(p, number, "object was finalised already and cannot be sent any more");
  if (o->type->stays) return mr_fail(p, number, o->type->stays);
  if (o->type->moves) {
    if (p->section && !p->judge) return mr_fail(p, number, "object moves, and belongs to a class, which all its receivers keep");
    if (p->stays) return mr_fail(p, number, p->still ? p->still : "object moves, and this is no message that one process receives");
    if (mr_share_valid && mr_share_valid(block, size) < 0) return mr_fail(p, number, "object was moved to another process");
    const char *busy = o->type->busy ? o->type->busy(o) : NULL;
    if (busy) return mr_fail(p, number, busy);
    p->moves = 1;
  }
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
