/* env: what an environment is asked for by both directions: its exceptions, its tables of basic types, whether its lists are as they were. */
#include <stdlib.h>
#include "cdr/type.h"

/* fail(name, minor, text, done) of the environment doesn't return. */
void mr_env_raise(lua_State *L, int fields, const char *exception, int minor, const char *text, int codec) {
  luaL_checkstack(L, 10, NULL);
  lua_pushstring(L, text);
  lua_rawgeti(L, fields, ENV_FAIL);
  lua_pushstring(L, exception);
  lua_pushinteger(L, minor);
  lua_pushvalue(L, -4);
  lua_pushstring(L, codec & CDR_YES ? "COMPLETED_YES" : codec & CDR_MAYBE ? "COMPLETED_MAYBE" : "COMPLETED_NO");
  lua_call(L, 4, 0);
  luaL_error(L, "%s: %s", exception, lua_tostring(L, -1));
  abort();
}

void mr_env_changed(lua_State *L) {
  luaL_error(L, "what marshalling keeps was changed through the debug library");
  abort();
}

uint64_t mr_seal_of(lua_State *L, uint32_t n) {
  uint64_t seal = 1;
  if (mr_layout) return mr_seal_raw((const raw_table *)lua_topointer(L, -1), n);
  for (uint32_t i = ENV_ANY; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    seal = seal * 31 + (uintptr_t)lua_topointer(L, -1);
    lua_pop(L, 1);
  }
  return seal;
}

void mr_push_basic(lua_State *L, int fields, int kind) {
  mr_env_table(L, fields, ENV_BASIC);
  lua_rawgeti(L, -1, kind + 1);
  lua_remove(L, -2);
}
