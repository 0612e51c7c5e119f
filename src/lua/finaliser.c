/*
 * finaliser: has a state finalisers to run? It is read off the state: Lua keeps the objects that have one, and those whose turn has come, in two
 * lists whose heads lie in the block that also holds the main lua_State. These two words are found by watching which words of that
 * block become the address of an object when it gets a finaliser, and when it waits for its turn. If they can't be told for
 * certain, every state counts as having finalisers.
 */
#include <stdlib.h>
#include <string.h>
#include "lua/probe.h"
#include "lua/layout.h"
#include "port/port.h"

enum { MAXWORDS = 512, ROUNDS = 4 };
typedef struct search {
  mr_probe probe;                      /* first: the allocator's */
  size_t words;
  uintptr_t before[MAXWORDS];
  unsigned char listed[MAXWORDS];      /* how often this word became the object that got a finaliser */
  unsigned char waiting[MAXWORDS];     /* how often it was the one whose turn is next */
  uintptr_t next;                      /* address of the object that must wait */
} search;

static atomic_int known;               /* 0 not tried, 1 found, -1 can't be told */
static size_t word_listed, word_waiting;

static uintptr_t *words_of(search *s) { return (uintptr_t *)(void *)s->probe.block; }

static int l_search_gc(lua_State *L) {
  search *s = lua_touserdata(L, lua_upvalueindex(1));
  if ((uintptr_t)lua_topointer(L, 1) != s->next && s->next) {
    for (size_t i = 0; i < s->words; i++) s->waiting[i] += words_of(s)[i] == s->next;
    s->next = 0;
  }
  return 0;
}

/* Two new objects get a finaliser one after the other, then both become garbage: the last made is finalised first. */
static int l_search(lua_State *L) {
  search *s = lua_touserdata(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushlightuserdata(L, s);
  lua_pushcclosure(L, l_search_gc, 1);
  lua_setfield(L, 2, "__gc");
  for (int i = 0; i < 2; i++) {
    lua_newtable(L);
    lua_newtable(L);                   /* so that the other one is not the newest object */
    lua_pop(L, 1);
    uintptr_t object = (uintptr_t)lua_topointer(L, -1);
    memcpy(s->before, words_of(s), s->words * sizeof *s->before);
    lua_pushvalue(L, 2);
    lua_setmetatable(L, -2);
    for (size_t k = 0; k < s->words; k++) s->listed[k] += words_of(s)[k] == object && s->before[k] != object;
    if (i == 0) s->next = object;
  }
  lua_settop(L, 2);
  lua_gc(L, LUA_GCCOLLECT, 0);
  return 0;
}

/* Is there one word that was counted so often? */
static int only(const unsigned char *count, size_t words, unsigned char times, size_t *word) {
  int n = 0;
  for (size_t i = 0; i < words; i++)
    if (count[i] == times) {
      *word = i;
      n++;
    }
  return n == 1;
}

static int run_rounds(search *s, lua_State *L) {
  for (int round = 0; round < ROUNDS; round++) {
    if (round == ROUNDS / 2) mr_lua_generational(L);
    lua_pushcfunction(L, l_search);
    lua_pushlightuserdata(L, s);
    if (lua_pcall(L, 1, 0, 0) != LUA_OK) return 0;
  }
  return 1;
}

static int find_words(search *s, size_t *listed, size_t *waiting) {
  lua_State *L = mr_lua_newstate(mr_probe_alloc, s);
  if (!L) return 0;
  s->words = s->probe.size / sizeof(uintptr_t);
  if (s->words > MAXWORDS) s->words = MAXWORDS;
  int ok = s->probe.block && run_rounds(s, L) && only(s->listed, s->words, 2 * ROUNDS, listed) &&
           only(s->waiting, s->words, ROUNDS, waiting) && words_of(s)[*listed] == 0 && words_of(s)[*waiting] == 0;
  if (ok) {                            /* from the start of the block to the main lua_State */
    *listed -= (size_t)((uintptr_t *)(void *)L - words_of(s));
    *waiting -= (size_t)((uintptr_t *)(void *)L - words_of(s));
  }
  lua_close(L);
  return ok;
}

void mr_finaliser_find(void) {
  static port_lock lock;
  if (atomic_load_explicit(&known, memory_order_acquire)) return;
  search *s = calloc(1, sizeof *s);
  if (!s) return;                      /* next time */
  size_t listed, waiting;
  int ok = find_words(s, &listed, &waiting);
  free(s);
  port_acquire(&lock);
  if (!atomic_load_explicit(&known, memory_order_relaxed)) {
    if (ok) {
      word_listed = listed;
      word_waiting = waiting;
    }
    atomic_store_explicit(&known, ok ? 1 : -1, memory_order_release);
  }
  port_unlock(&lock);
}

int mr_finaliser_found(void) { return atomic_load_explicit(&known, memory_order_acquire) == 1; }

int mr_finaliser_has(lua_State *L) {
  const uintptr_t *w = (const uintptr_t *)(void *)L;
  return !mr_finaliser_found() || w[word_listed] != 0 || w[word_waiting] != 0;
}

int mr_finaliser_each(lua_State *L, int (*f)(const void *object)) {
  const uintptr_t *w = (const uintptr_t *)(void *)L;
  if (!mr_finaliser_found() || !mr_layout) return 0;
  for (const raw_object *o = (const raw_object *)w[word_waiting]; o; o = o->next) if (!f(o)) return 0;
  for (const raw_object *o = (const raw_object *)w[word_listed]; o; o = o->next) if (!f(o)) return 0;
  return 1;
}

/* Of the objects in a list, by their metatables. */
static void mute_list(lua_State *L, const raw_object *o) {
  for (; o; o = o->next) {
    raw_push(L, (uint8_t)(o->tt | RAW_COLLECTABLE), (uint64_t)(uintptr_t)o);
    if (lua_getmetatable(L, -1)) {
      lua_pushliteral(L, "__gc");
      lua_rawget(L, -2);
      int stays = lua_isnil(L, -1) || lua_iscfunction(L, -1);
      lua_pop(L, 1);
      if (!stays) {
        lua_pushliteral(L, "__gc");
        lua_pushnil(L);
        lua_rawset(L, -3);
      }
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
  }
}

static int l_mute(lua_State *L) {
  uintptr_t *w = lua_touserdata(L, 1);
  lua_gc(L, LUA_GCSTOP, 0);
  mute_list(L, (const raw_object *)(void *)w[word_listed]);
  mute_list(L, (const raw_object *)(void *)w[word_waiting]);
  return 0;
}

void mr_finaliser_mute(lua_State *L) {
  if (!mr_finaliser_found() || !mr_layout || !lua_checkstack(L, 8)) return;
  lua_pushcfunction(L, l_mute);
  lua_pushlightuserdata(L, L);
  if (lua_pcall(L, 1, 0, 0) != LUA_OK) lua_pop(L, 1);
}
