/* bulk: see bulk.h. */
#include <stdint.h>
#include <stdlib.h>
#include "cdr/bulk.h"
#include "port/port.h"
#include "transfer/transfer.h"

static const char tag, owed_key;               /* owed_key: in the registry, a userdata with the number of bytes this state's messages own */

static void drop_owed(mr_owed **o) {
  if (*o && --(*o)->refs == 0) free(*o);
  *o = NULL;
}

mr_bulk *mr_bulk_at(lua_State *L, int idx) {
  mr_bulk *b = lua_rawlen(L, idx) == sizeof *b ? (mr_bulk *)lua_touserdata(L, idx) : NULL;
  return b && b->tag == ((uintptr_t)&tag ^ (uintptr_t)b) ? b : NULL;
}

static void let_go(mr_bulk *b) {
  char *block = b->block;
  mr_store *store = b->store;
  if (b->owed) b->owed->bytes -= b->len;
  b->block = NULL;
  b->store = NULL;
  b->p = NULL;
  b->len = 0;
  if (store) mr_store_release(store);
  else free(block);
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
  if (!b || (b->uses && !mr_lua_in_finaliser(L))) return 0;   /* the collector calls, or anybody */
  let_go(b);
  drop_owed(&b->owed);
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

typedef struct { uintptr_t tag; mr_owed *owed; } owing;

static owing *owing_at(lua_State *L, int idx) {
  owing *o = lua_rawlen(L, idx) == sizeof *o ? lua_touserdata(L, idx) : NULL;
  return o && o->tag == ((uintptr_t)&owed_key ^ (uintptr_t)o) ? o : NULL;
}

static int l_owed_gc(lua_State *L) {
  owing *o = owing_at(L, 1);
  if (o) drop_owed(&o->owed);
  return 0;
}

static const luaL_Reg counts[] = { { "__gc", l_owed_gc }, { "__metatable", NULL }, { NULL, NULL } };

/* Pushes the userdata, whose count is there. */
static mr_owed *push_owed(lua_State *L) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &owed_key);
  owing *o = owing_at(L, -1);
  if (o && o->owed) return o->owed;
  lua_pop(L, 1);
  o = lua_newuserdatauv(L, sizeof *o, 0);
  *o = (owing){ (uintptr_t)&owed_key ^ (uintptr_t)o, NULL };
  set_metatable(L, "mare.orb.owed", counts);
  o->owed = malloc(sizeof *o->owed);
  if (!o->owed) mr_raise_memory(L);
  *o->owed = (mr_owed){ .refs = 1 };
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &owed_key);
  return o->owed;
}

void mr_bulk_fill(lua_State *L, mr_bulk *b, char *block, const char *p, size_t len) {
  size_t before = b->owed ? b->owed->bytes : 0;
  b->block = block;
  b->p = p;
  b->len = len;
  if (b->owed) b->owed->bytes += len;
  if (PORT_UNLIKELY(before + len > MR_BULK_OWED)) mr_lua_step(L, len);
}

mr_bulk *mr_bulk_push(lua_State *L) {
  mr_bulk *b = lua_newuserdatauv(L, sizeof *b, 0);
  *b = (mr_bulk){ (uintptr_t)&tag ^ (uintptr_t)b, NULL, NULL, 0, NULL, 0, NULL };
  set_metatable(L, "mare.orb.bulk", came);
  b->owed = push_owed(L);
  b->owed->refs++;
  lua_pop(L, 1);
  return b;
}

void mr_bulk_octets(lua_State *L, const char *s, size_t n) {
  mr_bulk *b = n >= MR_BULK_FROM / 4 ? mr_bulk_at(L, 2) : NULL;
  if (!b || !b->p || s < b->p || s + n > b->p + b->len) {
    mr_buffer_push_new(L, mr_buffer_copy(s, n));
    return;
  }
  if (!b->store) b->store = mr_store_adopt(b->block, (void *)(size_t)b->p, b->len, mr_store_free_block, NULL);
  mr_buffer_push_new(L, b->store ? mr_buffer_part(b->store, (const unsigned char *)s, n) : NULL);
}

static int l_list_len(lua_State *L) {
  lua_Unsigned n = 0;
  luaL_checktype(L, 1, LUA_TTABLE);
  for (int i = 1; i <= 3; i++) {
    lua_rawgeti(L, 1, i);
    const mr_buffer *b = mr_buffer_get(L, -1);
    n += b ? b->length : lua_rawlen(L, -1);
    lua_pop(L, 1);
  }
  lua_pushinteger(L, (lua_Integer)n);
  return 1;
}

static int l_list_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  for (int i = 1; i <= 3; i++) {
    lua_rawgeti(L, 1, i);
    const mr_buffer *b = mr_buffer_get(L, -1);
    if (b) lua_pushlstring(L, (const char *)b->bytes, b->length);
    if (b) lua_remove(L, -2);
  }
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
