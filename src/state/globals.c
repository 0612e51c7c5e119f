/*
 * globals: the names of globals that a Lua state starts with, and where their C functions are.
 *
 * The functions of the base library and the arithmetic of strings are found once, in a scratch state opened the ordinary way, so that
 * a process's state can be given them one at a time. The tables below are written once, under the lock, and constant afterwards.
 */
#include <string.h>
#include "state/state.h"

mr_global mr_globals[MR_NGLOBALS] = {
  { "_G", NAME_VALUE, 0, NULL },
  { "_VERSION", NAME_VALUE, 0, NULL },
  { "assert", NAME_FUNCTION, 0, NULL },
  { "collectgarbage", NAME_FUNCTION, 0, NULL },
  { "coroutine", NAME_LIBRARY, LIB_COROUTINE, mr_lib_coroutine },
  { "debug", NAME_LIBRARY, LIB_DEBUG, mr_lib_debug },
  { "dofile", NAME_FUNCTION, 0, NULL },
  { "error", NAME_FUNCTION, 0, NULL },
  { "getmetatable", NAME_FUNCTION, 0, mr_base_getmetatable },
  { "io", NAME_LIBRARY, LIB_IO, mr_lib_io },
  { "ipairs", NAME_FUNCTION, 0, NULL },
  { "load", NAME_FUNCTION, 0, NULL },
  { "loadfile", NAME_FUNCTION, 0, NULL },
  { "math", NAME_LIBRARY, LIB_MATH, mr_lib_math },
  { "next", NAME_FUNCTION, 0, mr_base_next },
  { "os", NAME_LIBRARY, LIB_OS, mr_lib_os },
  { "package", NAME_LIBRARY, LIB_PACKAGE, mr_lib_package },
  { "pairs", NAME_FUNCTION, 0, mr_base_pairs },
  { "pcall", NAME_FUNCTION, 0, NULL },
  { "print", NAME_FUNCTION, 0, mr_output_print },
  { "rawequal", NAME_FUNCTION, 0, NULL },
  { "rawget", NAME_FUNCTION, 0, mr_base_rawget },
  { "rawlen", NAME_FUNCTION, 0, NULL },
  { "rawset", NAME_FUNCTION, 0, mr_base_rawset },
  { "require", NAME_FUNCTION, 0, mr_require },
  { "select", NAME_FUNCTION, 0, NULL },
  { "setmetatable", NAME_FUNCTION, 0, mr_base_setmetatable },
  { "string", NAME_LIBRARY, LIB_STRING, luaopen_string },
  { "table", NAME_LIBRARY, LIB_TABLE, luaopen_table },
  { "tonumber", NAME_FUNCTION, 0, NULL },
  { "tostring", NAME_FUNCTION, 0, mr_base_tostring },
  { "type", NAME_FUNCTION, 0, NULL },
  { "utf8", NAME_LIBRARY, LIB_UTF8, luaopen_utf8 },
  { "warn", NAME_FUNCTION, 0, NULL },
  { "xpcall", NAME_FUNCTION, 0, NULL },
};

luaL_Reg mr_string_arith[] = {
  { "__add", NULL }, { "__sub", NULL }, { "__mul", NULL }, { "__mod", NULL }, { "__pow", NULL },
  { "__div", NULL }, { "__idiv", NULL }, { "__unm", NULL }, { NULL, NULL }
};

int mr_globals_find(const char *name) {
  int lo = 0, hi = MR_NGLOBALS - 1;
  while (lo <= hi) {
    int mid = (lo + hi) / 2;
    int c = strcmp(name, mr_globals[mid].name);
    if (c == 0) return mid;
    if (c < 0) hi = mid - 1; else lo = mid + 1;
  }
  return -1;
}

enum { NARITH = sizeof mr_string_arith / sizeof *mr_string_arith - 1 };
typedef struct found { lua_CFunction base[MR_NGLOBALS], arith[NARITH]; } found;

static int collect(lua_State *L) {
  found *out = (found *)lua_touserdata(L, 1);
  luaL_requiref(L, LUA_GNAME, luaopen_base, 0);
  for (int i = 0; i < MR_NGLOBALS; i++) {
    lua_getfield(L, -1, mr_globals[i].name);
    out->base[i] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  }
  luaL_requiref(L, LUA_STRLIBNAME, luaopen_string, 0);
  lua_pushliteral(L, "");
  lua_getmetatable(L, -1);
  for (int i = 0; i < NARITH; i++) {
    lua_getfield(L, -1, mr_string_arith[i].name);
    out->arith[i] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  }
  return 0;
}

static port_lock lock;
static atomic_int ready;

static void publish(const found *got) {
  port_acquire(&lock);
  if (!atomic_load_explicit(&ready, memory_order_relaxed)) {
    for (int i = 0; i < MR_NGLOBALS; i++)
      if (mr_globals[i].kind == NAME_FUNCTION && !mr_globals[i].f) mr_globals[i].f = got->base[i];
    for (int i = 0; i < NARITH; i++) mr_string_arith[i].func = got->arith[i];
    atomic_store_explicit(&ready, 1, memory_order_release);
  }
  port_unlock(&lock);
}

int mr_globals_init(void) {
  if (atomic_load_explicit(&ready, memory_order_acquire)) return 1;
  found got;
  lua_State *L = luaL_newstate();
  if (!L) return 0;
  lua_pushcfunction(L, collect);
  lua_pushlightuserdata(L, &got);
  int ok = lua_pcall(L, 1, 0, 0) == LUA_OK;
  lua_close(L);
  if (ok) publish(&got);
  return ok;
}
