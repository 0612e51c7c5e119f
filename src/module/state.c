/*
 * state: opens the state that all processes start with, and tells what has to happen at its end.
 *
 * The template holds the lazy metatables (lazy.c), registry._LOADED with _G, and registry["mare.require"]; nothing else.
 *
 * Whether a state has finalisers to run is read off it: Lua keeps the objects that have one, and those whose turn has come, in two lists
 * whose heads lie in the block that also holds the main lua_State. At the first opening these two words are found by watching
 * which words of that block become the address of an object when it gets a finaliser, and when it waits for its
 * turn. If they can't be told for certain, every state counts as having finalisers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "module/state.h"

atomic_int mr_noenv, mr_warnings;

static int panic(lua_State *L) {
  const char *msg = lua_tostring(L, -1);
  fprintf(stderr, "PANIC: unprotected error in call to Lua API (%s)\n", msg ? msg : "error object is not a string");
  fflush(stderr);
  return 0;
}

static int l_install(lua_State *L) {
  luaL_checkversion(L);
  mr_lazy_install(L);
  lua_pushcfunction(L, mr_require);
  lua_setfield(L, LUA_REGISTRYINDEX, "mare.require");
  mr_gc_default(L);
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

static void probe(void);

lua_State *mr_module_open(lua_Alloc f, void *ud) {
  if (!mr_names_init()) return NULL;
  probe();
  lua_State *L = lua_newstate(f, ud);
  if (!L) return NULL;
  *(mr_proc **)lua_getextraspace(L) = NULL;
  lua_atpanic(L, panic);
  lua_setwarnf(L, mr_warn_off, L);
  lua_pushcfunction(L, l_install);
  if (lua_pcall(L, 0, 0, 0) == LUA_OK) return L;
  lua_close(L);
  return NULL;
}

void mr_module_start(lua_State *L, mr_proc *p) {
  lua_pushglobaltable(L);
  p->lazy[0] = lua_topointer(L, -1);
  p->lazy[1] = NULL;
  lua_pop(L, 1);
  if (PORT_UNLIKELY(atomic_load_explicit(&mr_warnings, memory_order_relaxed) && p->kind != PROC_MAIN)) lua_setwarnf(L, mr_warn_on, L);
}

/* ---- has it finalisers? ---- */

enum { MAXWORDS = 512 };
typedef struct prober {
  uintptr_t *block;                    /* the block with the main lua_State */
  size_t words;
  uintptr_t before[MAXWORDS];
  unsigned char listed[MAXWORDS];      /* how often this word became the object that got a finaliser */
  unsigned char waiting[MAXWORDS];     /* how often it was the one whose turn is next */
  uintptr_t next;                      /* address of the object that must wait */
} prober;

static atomic_int known;               /* 0 not tried, 1 found, -1 can't be told */
static size_t word_listed, word_waiting;

static void *probe_alloc(void *ud, void *ptr, size_t osize, size_t nsize) {
  prober *p = (prober *)ud;
  if (nsize == 0) {
    free(ptr);
    return NULL;
  }
  void *q = realloc(ptr, nsize);
  if (q && !ptr && osize == LUA_TTHREAD && !p->block) {
    p->block = (uintptr_t *)q;
    p->words = nsize / sizeof(uintptr_t);
    if (p->words > MAXWORDS) p->words = MAXWORDS;
  }
  return q;
}

static int l_probe_gc(lua_State *L) {
  prober *p = (prober *)lua_touserdata(L, lua_upvalueindex(1));
  if ((uintptr_t)lua_topointer(L, 1) != p->next && p->next) {
    for (size_t i = 0; i < p->words; i++) p->waiting[i] += p->block[i] == p->next;
    p->next = 0;
  }
  return 0;
}

/* Two new objects get a finaliser one after the other, then both become garbage: the last made is finalised first. */
static int l_probe(lua_State *L) {
  prober *p = (prober *)lua_touserdata(L, 1);
  lua_createtable(L, 0, 1);
  lua_pushlightuserdata(L, p);
  lua_pushcclosure(L, l_probe_gc, 1);
  lua_setfield(L, 2, "__gc");
  for (int i = 0; i < 2; i++) {
    lua_newtable(L);
    lua_newtable(L);                   /* so that the other one is not the newest object */
    lua_pop(L, 1);
    uintptr_t object = (uintptr_t)lua_topointer(L, -1);
    memcpy(p->before, p->block, p->words * sizeof *p->block);
    lua_pushvalue(L, 2);
    lua_setmetatable(L, -2);
    for (size_t k = 0; k < p->words; k++) p->listed[k] += p->block[k] == object && p->before[k] != object;
    if (i == 0) p->next = object;
  }
  lua_settop(L, 2);
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

static int only(const unsigned char *count, size_t words, unsigned char times, size_t *word) {
  int n = 0;
  for (size_t i = 0; i < words; i++)
    if (count[i] == times) {
      *word = i;
      n++;
    }
  return n == 1;
}

enum { ROUNDS = 4 };

static int probe_rounds(prober *p, size_t *listed, size_t *waiting) {
  lua_State *L = lua_newstate(probe_alloc, p);
  int ok = L != NULL && p->block != NULL;
  for (int round = 0; ok && round < ROUNDS; round++) {
    if (round == ROUNDS / 2) mr_gc_default(L);
    lua_pushcfunction(L, l_probe);
    lua_pushlightuserdata(L, p);
    ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
  }
  ok = ok && only(p->listed, p->words, 2 * ROUNDS, listed) && only(p->waiting, p->words, ROUNDS, waiting) &&
       p->block[*listed] == 0 && p->block[*waiting] == 0;
  if (ok) {                            /* from the start of the block to the main lua_State */
    *listed -= (size_t)((uintptr_t *)(void *)L - p->block);
    *waiting -= (size_t)((uintptr_t *)(void *)L - p->block);
  }
  if (L) lua_close(L);
  return ok;
}

static void probe(void) {
  static port_lock lock;
  if (atomic_load_explicit(&known, memory_order_acquire)) return;
  prober *p = (prober *)calloc(1, sizeof *p);
  if (!p) return;                      /* next time */
  size_t listed, waiting;
  int ok = probe_rounds(p, &listed, &waiting);
  free(p);
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

int mr_module_finalisers(lua_State *L) {
  const uintptr_t *w = (const uintptr_t *)(void *)L;
  if (atomic_load_explicit(&known, memory_order_acquire) != 1) return 1;
  return w[word_listed] != 0 || w[word_waiting] != 0;
}
