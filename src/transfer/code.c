/*
 * code: see code.h.
 *
 * Dumping costs a microsecond and more, so it is done once per prototype. Each state that sends functions has a cache
 * in its registry: prototype -> place in the program-wide store of code. A prototype is known by its address, which is
 * only sound while it lives: the cache remembers the closure it was dumped from, weakly, and an entry whose closure was
 * collected is not used. (Without raw reading the closure itself is the key.) Nothing in a state owns code, so states
 * need no finaliser; the store is bounded, and a place in it carries a generation.
 */
#include <stdlib.h>
#include <string.h>
#include "transfer/code.h"

typedef struct mr_code { mr_shared head; size_t size; char bytes[]; } mr_code;

static void destroy(mr_shared *o) { free(o); }
static void push_nothing(lua_State *L, mr_shared *o) { (void)o; lua_pushnil(L); }
static const mr_sharetype code_type = { .name = "code", .destroy = destroy, .push = push_nothing };

/* ---- the store: direct mapped by content; whoever finds an entry locked does without ---- */

#define STORE       256
#define MAX_STORED  ((size_t)64 << 10)

/* A place, as others remember it: index + STORE * generation. */
typedef struct entry { port_lock lock; uint64_t generation; mr_code *code; } entry;
static entry store[STORE];

static uint32_t hash_of(const mr_code *c) {
  uint64_t h = c->size, word;
  size_t i = 0;
  for (; i + 8 <= c->size; i += 8) {
    memcpy(&word, c->bytes + i, 8);
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    h ^= h >> 29;
  }
  for (; i < c->size; i++) h = (h ^ (unsigned char)c->bytes[i]) * UINT64_C(0x100000001B3);
  return (uint32_t)(h >> 32);
}

/* A reference to what is at that place, or NULL if it is no longer the same. */
static mr_code *store_get(uint64_t place) {
  entry *e = &store[place % STORE];
  mr_code *c = NULL;
  if (!port_trylock(&e->lock)) return NULL;
  if (e->generation == place / STORE && (c = e->code) != NULL) mr_retain(&c->head);
  port_unlock(&e->lock);
  return c;
}

/* Stores c, or finds its equal; the caller's reference becomes one to the result. 0: not stored. */
static int store_put(mr_code **c, uint64_t *place) {
  mr_code *mine = *c, *drop;
  if (mine->size > MAX_STORED) return 0;
  uint32_t index = hash_of(mine) % STORE;
  entry *e = &store[index];
  if (!port_trylock(&e->lock)) return 0;
  mr_code *there = e->code;
  if (there && there->size == mine->size && memcmp(there->bytes, mine->bytes, mine->size) == 0) {
    mr_retain(&there->head);
    *c = there;
    drop = mine;
  } else {
    mr_retain(&mine->head);
    e->code = mine;
    e->generation++;
    drop = there;
  }
  *place = index + STORE * e->generation;
  port_unlock(&e->lock);
  if (drop) mr_release(&drop->head);
  return 1;
}

/* ---- a state's cache ---- */

/*
 * A weak table in the registry; of the three values of an entry only the closure can go. Then, an array: closure, key (the
 * prototype's address, or the closure's), place; and last the number of the entry to replace next.
 */
#define CACHED 16
enum { CLOSURE, KEY, PLACE, STEP, NEXT = CACHED * STEP, SLOTS };

static char cache_key;

void mr_code_prepare(lua_State *L) {
  lua_createtable(L, SLOTS, 0);
  for (int i = 1; i <= SLOTS; i++) {
    lua_pushinteger(L, 0);
    lua_rawseti(L, -2, i);
  }
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &cache_key);
}

static uint64_t integer_at(lua_State *L, int i) {
  lua_rawgeti(L, -1, i + 1);
  uint64_t n = (uint64_t)lua_tointegerx(L, -1, NULL);
  lua_pop(L, 1);
  return n;
}

/* Stack: [..., function, cache]. */
static mr_code *get_api(lua_State *L, uint64_t key) {
  int i = 0;
  while (i < NEXT && integer_at(L, i + KEY) != key) i += STEP;
  if (i == NEXT) return NULL;
  lua_rawgeti(L, -1, i + CLOSURE + 1);
  int alive = lua_rawequal(L, -1, -3);
  lua_pop(L, 1);
  return alive ? store_get(integer_at(L, i + PLACE)) : NULL;
}

/* 0: there is no cache. A closure that is still in a weak table keeps its prototype alive, so the address means that one. */
static int get_raw(mr_packer *p, uint64_t key, mr_code **found) {
  const raw_node *node = mr_registry_find(p->L, &p->codehint, RAW_LIGHT, &cache_key, 0);
  if (!node || node->tt != RAW_TABLE) return 0;
  const raw_table *t = (const raw_table *)node->bits;
  if (raw_arraysize(t) < SLOTS) return 0;
  uint32_t i = 0;
  while (i < NEXT && raw_element(t, i + KEY).bits != key) i += STEP;
  *found = i < NEXT && raw_element(t, i + CLOSURE).tt == RAW_FUNCTION ? store_get(raw_element(t, i + PLACE).bits) : NULL;
  return 1;
}

static void set_integer(lua_State *L, int i, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_rawseti(L, -2, i + 1);
}

/* Stack: [..., function, cache]. Writes to what is there, so nothing is allocated. */
static void cache_put(lua_State *L, uint64_t key, uint64_t place) {
  int i = 0;
  while (i < NEXT && integer_at(L, i + KEY) != key) i += STEP;
  if (i == NEXT) {
    uint64_t next = integer_at(L, NEXT) % CACHED;
    i = (int)next * STEP;
    set_integer(L, NEXT, next + 1);
  }
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, i + CLOSURE + 1);
  set_integer(L, i + KEY, key);
  set_integer(L, i + PLACE, place);
}

/* ---- dumping and loading ---- */

static int write_code(lua_State *L, const void *data, size_t n, void *ud) {
  mr_packer *p = ud;
  (void)L;
  memcpy(mr_take(p, &p->dump, n), data, n);
  return 0;
}

/* The function on top. */
static mr_code *dump(mr_packer *p) {
  p->dump.length = 0;
  mr_lua_dump(p->L, write_code, p);
  mr_code *c = malloc(sizeof *c + p->dump.length);
  if (!c) mr_raise_memory(p->L);
  c->head.type = &code_type;
  atomic_init(&c->head.refs, 1);
  c->size = p->dump.length;
  memcpy(c->bytes, p->dump.at, c->size);
  return c;
}

/* Stack: [..., function]. */
static mr_code *dump_and_store(mr_packer *p, uint64_t key) {
  uint64_t place;
  mr_code *c = dump(p);
  if (!store_put(&c, &place)) return c;
  lua_rawgetp(p->L, LUA_REGISTRYINDEX, &cache_key);
  cache_put(p->L, key, place);
  lua_pop(p->L, 1);
  return c;
}

static mr_code *get_or_dump_raw(mr_packer *p, const mr_object *o) {
  mr_code *c = NULL;
  uint64_t key = (uint64_t)((const raw_closure *)o->bits)->proto;
  if (!get_raw(p, key, &c)) { p->need = NEED_CODE; return NULL; }
  if (c) return c;
  raw_push(p->L, o->tt, o->bits);
  c = dump_and_store(p, key);
  lua_pop(p->L, 1);
  return c;
}

static mr_code *get_or_dump_api(mr_packer *p, const mr_object *o) {
  mr_code *c = NULL;
  if (lua_rawgetp(p->L, LUA_REGISTRYINDEX, &cache_key) != LUA_TTABLE) p->need = NEED_CODE;
  else c = get_api(p->L, o->bits);
  lua_pop(p->L, 1);
  return c || p->need ? c : dump_and_store(p, o->bits);
}

int mr_code_get(mr_packer *p, uint32_t number, mr_shared **code) {
  const mr_object *o = &p->objects[number];
  mr_shared **held = mr_take(p, &p->held, sizeof *held);
  p->held.length -= sizeof *held;              /* room first: nothing may raise once there is a reference */
  mr_shared **shared = mr_take(p, &p->shared, sizeof *shared);
  mr_code *c = p->raw ? get_or_dump_raw(p, o) : get_or_dump_api(p, o);
  if (PORT_UNLIKELY(!c)) return PACK_AGAIN;
  *shared = *held = *code = &c->head;
  p->held.length += sizeof *held;
  return 0;
}

typedef struct source { const mr_code *code; int done; } source;

static const char *read_code(lua_State *L, void *ud, size_t *n) {
  source *s = ud;
  (void)L;
  *n = s->done ? 0 : s->code->size;
  s->done = 1;
  return s->code->bytes;
}

int mr_function_load(lua_State *L, const mr_shared *code) {
  source s = { (const mr_code *)(const void *)code, 0 };
  return lua_load(L, read_code, &s, "=received", "b") == LUA_OK;
}

void mr_code_load(lua_State *L, const mr_shared *code) {
  if (!mr_function_load(L, code)) lua_error(L);
}
