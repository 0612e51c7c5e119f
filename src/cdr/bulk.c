/* bulk: see bulk.h. */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <lauxlib.h>
#include "cdr/bulk.h"
#include "port/port.h"

static const char tag, owed_key;               /* owed_key: in the registry, a userdata with the number of bytes this state's messages own */

mr_bulk *mr_bulk_at(lua_State *L, int idx) {
  mr_bulk *b = lua_rawlen(L, idx) == sizeof *b ? (mr_bulk *)lua_touserdata(L, idx) : NULL;
  return b && b->tag == ((uintptr_t)&tag ^ (uintptr_t)b) ? b : NULL;
}

static void let_go(mr_bulk *b) {
  char *block = b->block;
  *b->owed -= b->len;
  b->block = NULL;
  b->p = NULL;
  b->len = 0;
  free(block);
}

void mr_bulk_free(mr_bulk *b) {
  if (!b->uses) let_go(b);
}

const char *mr_bulk_bytes(lua_State *L, int idx, size_t *len) {
  if (PORT_LIKELY(lua_type(L, idx) == LUA_TSTRING)) return lua_tolstring(L, idx, len);
  const mr_bulk *b = mr_bulk_at(L, idx);
  if (!b || !b->p) return NULL;
  *len = b->len;
  return b->p;
}

static int l_gc(lua_State *L) {
  mr_bulk *b = mr_bulk_at(L, 1);
  if (b) let_go(b);
  return 0;
}

static int l_len(lua_State *L) {
  const mr_bulk *b = mr_bulk_at(L, 1);
  lua_pushinteger(L, b ? (lua_Integer)b->len : 0);
  return 1;
}

static int l_tostring(lua_State *L) {
  const mr_bulk *b = mr_bulk_at(L, 1);
  lua_pushlstring(L, b && b->p ? b->p : "", b ? b->len : 0);
  return 1;
}

/* No program gets at the metatables: who called __gc would free bytes that are being read. */
static const luaL_Reg came[] = { { "__gc", l_gc }, { "__len", l_len }, { "__tostring", l_tostring }, { "__metatable", NULL }, { NULL, NULL } };

/* The metatable of what is on top. It gets its name when it is complete: there may be no memory in between. */
static void set_metatable(lua_State *L, const char *name, const luaL_Reg *functions) {
  if (luaL_getmetatable(L, name) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 5);
    luaL_setfuncs(L, functions, 0);
    lua_pushstring(L, name);
    lua_setfield(L, -2, "__name");
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, name);
  }
  lua_setmetatable(L, -2);
}

/* Never collected: the registry keeps it, and at the end of a state memory goes after all finalisers. */
static size_t *owed_of(lua_State *L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &owed_key) != LUA_TUSERDATA) {
    lua_pop(L, 1);
    *(size_t *)lua_newuserdatauv(L, sizeof(size_t), 0) = 0;
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &owed_key);
  }
  size_t *owed = lua_touserdata(L, -1);
  lua_pop(L, 1);
  return owed;
}

void mr_bulk_fill(lua_State *L, mr_bulk *b, char *block, const char *p, size_t len) {
  b->block = block;
  b->p = p;
  b->len = len;
  *b->owed += len;
  if (PORT_UNLIKELY(*b->owed > MR_BULK_OWED)) lua_gc(L, LUA_GCSTEP, (int)(len >> 10 < INT_MAX ? len >> 10 : INT_MAX));
}

mr_bulk *mr_bulk_push(lua_State *L) {
  size_t *owed = owed_of(L);
  mr_bulk *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (mr_bulk){ (uintptr_t)&tag ^ (uintptr_t)b, NULL, NULL, 0, owed, 0 };
  set_metatable(L, "mare.orb.bulk", came);
  return b;
}

static int l_list_len(lua_State *L) {
  lua_Unsigned n = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  for (int i = 1; i <= 3; i++) {
    lua_rawgeti(L, 1, i);
    n += lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int l_list_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  for (int i = 1; i <= 3; i++) lua_rawgeti(L, 1, i);
  lua_concat(L, 3);
  return 1;
}

static const luaL_Reg goes[] = { { "__len", l_list_len }, { "__tostring", l_list_tostring }, { "__metatable", NULL }, { NULL, NULL } };

void mr_bulk_list(lua_State *L) {
  lua_createtable(L, 3, 0);
  for (int i = 1; i <= 3; i++) {
    lua_pushvalue(L, i - 5);
    lua_rawseti(L, -2, i);
  }
  set_metatable(L, "mare.orb.bulk list", goes);
}
