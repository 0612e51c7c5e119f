/*
 * code: see code.h.
 *
 * Dumping costs a microsecond and more, so it is done once per prototype. Each state that sends functions has a cache
 * in its registry: prototype -> place in the program-wide store of code. A prototype is known by its address, which is
 * only sound while it lives: the cache remembers the closure it was dumped from in a weak table, and an entry whose
 * closure was collected is not used. (Without raw reading the closure itself is the key.) Nothing in a state owns
 * code, so states need no finaliser; the store is bounded, and places in it carry a generation.
 */
#include <stdlib.h>
#include <string.h>
#include "transfer/code.h"

typedef struct mr_code { mr_shared head; size_t size; char bytes[]; } mr_code;

static void destroy(mr_shared *o) { free(o); }
static void push_nothing(lua_State *L, mr_shared *o) { (void)o; lua_pushnil(L); }
static const mr_sharetype code_type = { "code", destroy, push_nothing };

/* ---- the store: direct mapped by content; whoever finds an entry locked does without ---- */

#define STORE       256
#define MAX_STORED  ((size_t)64 << 10)

typedef struct entry { port_lock lock; uint32_t generation; mr_code *code; } entry;
typedef struct place { uint32_t index, generation; } place;
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
static mr_code *store_get(place at) {
  entry *e = &store[at.index];
  mr_code *c = NULL;
  if (!port_trylock(&e->lock)) return NULL;
  if (e->generation == at.generation && (c = e->code) != NULL) mr_retain(&c->head);
  port_unlock(&e->lock);
  return c;
}

/* Stores c, or finds its equal; the caller's reference becomes one to the result. 0: not stored. */
static int store_put(mr_code **c, place *at) {
  mr_code *mine = *c, *drop;
  if (mine->size > MAX_STORED) return 0;
  at->index = hash_of(mine) % STORE;
  entry *e = &store[at->index];
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
  at->generation = e->generation;
  port_unlock(&e->lock);
  if (drop) mr_release(&drop->head);
  return 1;
}

/* ---- a state's cache ---- */

#define CACHED 16

typedef struct cache {
  uint64_t key[CACHED];                        /* prototype, or closure; 0 = free */
  place at[CACHED];
  uint32_t next;                               /* the one to replace */
} cache;

static char cache_key;                         /* registry: the cache; its user value is the weak table of closures */

void mr_code_prepare(lua_State *L) {
  cache *c = lua_newuserdatauv(L, sizeof *c, 1);
  memset(c, 0, sizeof *c);
  lua_createtable(L, CACHED, 0);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_setiuservalue(L, -2, 1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &cache_key);
}

/* Stack: [..., function, closures]. */
static mr_code *cache_get(mr_packer *p, const cache *c, uint64_t key) {
  uint32_t i = 0;
  while (i < CACHED && c->key[i] != key) i++;
  if (i == CACHED) return NULL;
  int type = lua_rawgeti(p->L, -1, i + 1), alive = p->raw ? type == LUA_TFUNCTION : lua_rawequal(p->L, -1, -3);
  lua_pop(p->L, 1);
  return alive ? store_get(c->at[i]) : NULL;
}

static void cache_put(mr_packer *p, cache *c, uint64_t key, place at) {
  uint32_t i = 0;
  while (i < CACHED && c->key[i] != key) i++;
  if (i == CACHED) i = c->next++ % CACHED;
  lua_pushvalue(p->L, -2);
  lua_rawseti(p->L, -2, i + 1);
  c->key[i] = key;
  c->at[i] = at;
}

/* ---- dumping and loading ---- */

static int write_code(lua_State *L, const void *data, size_t n, void *ud) {
  mr_packer *p = ud;
  (void)L;
  memcpy(mr_take(p, &p->dump, n), data, n);
  return 0;
}

/* The function at index -2. */
static mr_code *dump(mr_packer *p) {
  p->dump.length = 0;
  lua_pushvalue(p->L, -2);
  lua_dump(p->L, write_code, p, 0);
  lua_pop(p->L, 1);
  mr_code *c = malloc(sizeof *c + p->dump.length);
  if (!c) mr_raise_memory(p->L);
  c->head.type = &code_type;
  atomic_init(&c->head.refs, 1);
  c->size = p->dump.length;
  memcpy(c->bytes, p->dump.at, c->size);
  return c;
}

int mr_code_get(mr_packer *p, uint32_t number, mr_shared **code) {
  lua_State *L = p->L;
  uint64_t bits = p->objects[number].bits, key = p->raw ? (uint64_t)((const raw_closure *)bits)->proto : bits;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &cache_key) != LUA_TUSERDATA) { p->need = NEED_CODE; return PACK_AGAIN; }
  cache *c = lua_touserdata(L, -1);
  lua_getiuservalue(L, -1, 1);
  lua_replace(L, -2);
  mr_shared **held = mr_take(p, &p->held, sizeof *held);
  p->held.length -= sizeof *held;              /* room first: nothing may raise once there is a reference */
  mr_shared **shared = mr_take(p, &p->shared, sizeof *shared);
  mr_code *found = cache_get(p, c, key);
  place at;
  if (!found && (found = dump(p)) != NULL && store_put(&found, &at)) cache_put(p, c, key, at);
  lua_pop(L, 1);
  *shared = *held = *code = &found->head;
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

void mr_code_load(lua_State *L, const mr_shared *code) {
  source s = { (const mr_code *)(const void *)code, 0 };
  if (lua_load(L, read_code, &s, "=received", "b") != LUA_OK) lua_error(L);
}
