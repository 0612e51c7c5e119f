/*
 * finaliser: tells whether a state has anything to finalise, without knowing how Lua lays out its state.
 *
 * Lua keeps objects with a finaliser on a list of their own, and those found dead on another until they are called. When
 * the image is made, both heads are found by watching the words of a clone: giving a fresh table a metatable with __gc
 * makes exactly one word of the state point to it; while the first of two dead ones is being finalised, exactly one
 * word points to the other. A state whose first word is as in the image, and whose second is null, has none. If a word
 * isn't found for certain, every state counts as having some.
 */
#include "heap/image.h"
#include "port/port.h"

#include <lauxlib.h>
#include <string.h>

typedef struct probe {
  const mr_image *im;
  const char *state;                /* the clone's first bytes */
  uint64_t *before;
  size_t finobj, tobefnz;           /* found, in words */
  const void *objects[2];
  int calls;
} probe;

static uint64_t word_at(const char *p, size_t i) {
  uint64_t w;
  memcpy(&w, p + i * 8, 8);
  return w;
}

static size_t heap_words(void) { return sizeof(mr_heap) / 8; }

/* The only word of the image's part that points to p, and did not before; 0: none or several. */
static size_t only_word(const probe *p, const void *object, int compare) {
  size_t found = 0, n = p->im->size / 8;
  for (size_t i = heap_words(); i < n; i++) {
    if (word_at(p->state, i) != (uint64_t)(uintptr_t)object) continue;
    if (compare && p->before[i] == (uint64_t)(uintptr_t)object) continue;
    if (found) return 0;
    found = i;
  }
  return found;
}

/* __gc(object): upvalue 1 is the probe */
static int l_gc(lua_State *L) {
  probe *p = lua_touserdata(L, lua_upvalueindex(1));
  const void *me = lua_topointer(L, 1);
  if (p->calls++ == 0) p->tobefnz = only_word(p, p->objects[me == p->objects[0]], 0);
  return 0;
}

/* Pushes a fresh table, and hides it behind a newer object on the list of all. */
static void push_object(lua_State *L, probe *p, int i) {
  lua_newtable(L);
  p->objects[i] = lua_topointer(L, -1);
  lua_newtable(L);
  lua_pop(L, 1);
}

/* (probe), in a coroutine: the main stack is part of the image, and must not hold the objects */
static int l_probe(lua_State *L) {
  probe *p = lua_touserdata(L, 1);
  lua_gc(L, LUA_GCSTOP);
  lua_newtable(L);
  lua_pushlightuserdata(L, p);
  lua_pushcclosure(L, l_gc, 1);
  lua_setfield(L, 2, "__gc");
  push_object(L, p, 0);
  push_object(L, p, 1);
  lua_pushvalue(L, 2);
  memcpy(p->before, p->state, p->im->size);
  lua_setmetatable(L, 3);
  p->finobj = only_word(p, p->objects[0], 1);
  lua_pushvalue(L, 2);
  lua_setmetatable(L, 4);
  if (only_word(p, p->objects[1], 0) != p->finobj) p->finobj = 0;
  lua_settop(L, 2);
  lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

/* (probe) */
static int l_run(lua_State *L) {
  int n;
  lua_State *co = lua_newthread(L);
  lua_pushcfunction(co, l_probe);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  if (lua_resume(co, L, 1, &n) != LUA_OK) return luaL_error(L, "the probe failed");
  return 0;
}

void mr_image_find_finalisers(mr_image *im) {
  mr_heap *h;
  im->finobj = im->tobefnz = 0;
  lua_State *L = mr_image_clone(im, &h);
  if (!L) return;
  uint64_t *before = port_pages_reserve(im->size, 4096);
  if (before) {
    probe p = {.im = im, .state = (const char *)h, .before = before};
    lua_pushcfunction(L, l_run);
    lua_pushlightuserdata(L, &p);
    if (lua_pcall(L, 1, 0, 0) == LUA_OK && p.calls == 2 && p.finobj && p.tobefnz && p.tobefnz != p.finobj) {
      im->finobj = p.finobj;
      im->tobefnz = p.tobefnz;
    }
    port_pages_release(before, im->size);
  }
  mr_heap_drop(h);
}

/* An offset in the image, where it is a pointer; null otherwise. */
static uint64_t head_in_image(const mr_image *im, const char *to) {
  uint64_t w = word_at(im->bytes, im->finobj);
  return w ? w + (uint64_t)(uintptr_t)to : 0;
}

int mr_image_finalisers(const mr_image *im, const mr_heap *h) {
  const char *p = (const char *)h;
  if (!im->finobj) return 1;
  return word_at(p, im->finobj) != head_in_image(im, p) || word_at(p, im->tobefnz) != 0;
}
