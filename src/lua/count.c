/*
 * count: the instructions that are left to the next count event. lua_sethook sets them back to its start, which a program's own hook would notice
 * (process/hook.c); so they are read before and written after, by their place in the lua_State. It is looked for once: some instructions run with a
 * known count, and it is where a little less is found then, three times.
 */
#include <stdlib.h>
#include <string.h>
#include "lua/probe.h"
#include "port/port.h"

static atomic_size_t count_place;    /* offset in a lua_State; 0: not known */

int *mr_count_at(lua_State *L) {
  size_t at = atomic_load_explicit(&count_place, memory_order_relaxed);
  return at ? (int *)(void *)((char *)(void *)L + at) : NULL;
}

static void no_hook(lua_State *L, lua_Debug *ar) {
  (void)L;
  (void)ar;
}

/* Runs some instructions with `count` to go, and stays with the places that then hold a little less; how many there are. */
static int narrow(mr_probe *p, lua_State *L, int count, unsigned char *places, size_t *place) {
  int n = 0;
  lua_sethook(L, no_hook, LUA_MASKCOUNT, count);
  if (luaL_dostring(L, "local x = 0 for i = 1, 20 do x = x + i end") != LUA_OK) return 0;
  for (size_t at = (size_t)((char *)(void *)L - p->block); at + sizeof(int) <= p->size; at += sizeof(int)) {
    int left;
    memcpy(&left, p->block + at, sizeof left);
    if (left >= count || left < count - 200) places[at / sizeof(int)] = 0;
    if (!places[at / sizeof(int)]) continue;
    *place = at - (size_t)((char *)(void *)L - p->block);
    n++;
  }
  return n;
}

void mr_count_find(void) {
  static atomic_int tried;
  mr_probe p = { NULL, 0 };
  size_t place = 0;
  if (atomic_load_explicit(&tried, memory_order_acquire)) return;
  lua_State *L = mr_lua_newstate(mr_probe_alloc, &p);
  unsigned char *places = L && p.block ? malloc(p.size / sizeof(int) + 1) : NULL;
  if (places) {                      /* else there is no memory: next time */
    memset(places, 1, p.size / sizeof(int) + 1);
    narrow(&p, L, 0x5bad5e1, places, &place);
    narrow(&p, L, 0x23456789, places, &place);
    if (narrow(&p, L, 0x70707070, places, &place) == 1) atomic_store(&count_place, place);
    atomic_store_explicit(&tried, 1, memory_order_release);
  }
  free(places);
  if (L) lua_close(L);
}
