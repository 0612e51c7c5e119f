/*
 * lazy: the globals of a process's state appear when they are first used; until then they cost nothing.
 *
 * The table of globals and the table of loaded modules (registry._LOADED) share one metatable, mt: __index makes what is missing
 * and stores it raw, __newindex notes that the program set a name by itself. mt[1] is a tag (the address of a static) by which
 * it is known, mt[2] an integer of bits:
 *   GLOBAL + i    global i was made, or set by the program: it is not made again
 *   LOADED + lib  the same for loaded modules
 *   OPEN + lib    the library was opened (once; then it is in both tables unless the program had set them)
 *   MISSES…       a counter of accesses to names that aren't ours
 * Strings have a metatable with the true arithmetic functions and an __index that opens the string library, which brings its own.
 *
 * The program must not see this: basic.c keeps mt from getmetatable, rawget, next, which know the two tables by their addresses in the
 * process record (mr_proc.lazy, NULL when mt has gone); whoever sets a metatable on these tables or walks
 * through them gets everything made first, and mt goes away. So it does after MAX_MISSES, when each further miss would cost a call.
 * After an error of memory at any point the bits say what was done, and the next use goes on from there.
 *
 * A member of a group (process/group.h) finds its group's library in the same way; mr_proc.offered tells that it was not made yet.
 */
#include <string.h>
#include "state/state.h"
#include "process/group.h"

enum { GLOBAL = 0, LOADED = GLOBAL + MR_NGLOBALS, OPEN = LOADED + MR_NLIBS, MISSES = OPEN + MR_NLIBS };
enum { MAX_MISSES = 1000 };
#define BIT(n) ((lua_Unsigned)1 << (n))
_Static_assert(MISSES + 10 < 64, "the bits fit into an integer");

static char tag;

/* mt is at the top; leaves the bits' value */
static lua_Unsigned get_bits(lua_State *L, int mt) {
  lua_rawgeti(L, mt, 2);
  lua_Unsigned bits = (lua_Unsigned)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return bits;
}

static void set_bits(lua_State *L, int mt, lua_Unsigned bits) {
  mt = lua_absindex(L, mt);
  lua_pushinteger(L, (lua_Integer)bits);
  lua_rawseti(L, mt, 2);
}

static void add_bits(lua_State *L, int mt, lua_Unsigned bits) { set_bits(L, mt, get_bits(L, mt) | bits); }

/* As mr_lazy_is, for states that have no process yet, too. */
static int has_mt(lua_State *L, int idx) {
  if (!lua_getmetatable(L, idx)) return 0;
  lua_rawgeti(L, -1, 1);
  int yes = lua_touserdata(L, -1) == (void *)&tag;
  lua_pop(L, 2);
  return yes;
}

/* Pushes mt, or nothing and returns 0 when everything has been made. */
static int push_mt(lua_State *L) {
  lua_pushglobaltable(L);
  int yes = has_mt(L, -1);
  if (yes) lua_getmetatable(L, -1);
  lua_remove(L, yes ? -2 : -1);
  return yes;
}

/* Pushes registry._LOADED; it may have been made by others, without mt. */
static void push_loaded(lua_State *L, int mt) {
  mt = lua_absindex(L, mt);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  if (lua_getmetatable(L, -1)) {
    lua_pop(L, 1);
  } else {
    lua_pushvalue(L, mt);
    lua_setmetatable(L, -2);
  }
}

static int name_of_lib(int lib) {
  for (int i = 0; i < MR_NGLOBALS; i++)
    if (mr_globals[i].kind == NAME_LIBRARY && mr_globals[i].lib == lib) return i;
  return -1;
}

/* Opens library number `lib`, global number i, and pushes it; puts it wherever the program has not set something else. */
static void open_lib(lua_State *L, int mt, int i) {
  const mr_global *n = &mr_globals[i];
  luaL_checkstack(L, 10, NULL);
  mt = lua_absindex(L, mt);
  push_loaded(L, mt);
  lua_pushcfunction(L, n->f);
  lua_pushstring(L, n->name);
  lua_call(L, 1, 1);
  lua_pushglobaltable(L);                       /* loaded lib G */
  lua_Unsigned bits = get_bits(L, mt);
  if (!(bits & BIT(GLOBAL + i))) {
    lua_pushstring(L, n->name);
    lua_pushvalue(L, -3);
    lua_rawset(L, -3);
  }
  if (!(bits & BIT(LOADED + n->lib))) {
    lua_pushstring(L, n->name);
    lua_pushvalue(L, -3);
    lua_rawset(L, -5);
  }
  set_bits(L, mt, bits | BIT(GLOBAL + i) | BIT(LOADED + n->lib) | BIT(OPEN + n->lib));
  mr_proc *p = mr_proc_here(L);
  if (p && n->lib == LIB_PACKAGE) p->packages = 1;
  lua_pop(L, 1);
  lua_remove(L, -2);
}


void mr_lazy_open(lua_State *L, int lib) {
  luaL_checkstack(L, 10, NULL);
  if (!push_mt(L)) return;
  if (!(get_bits(L, -1) & BIT(OPEN + lib))) {
    open_lib(L, -1, name_of_lib(lib));
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Makes global i, which was neither made nor set so far, and pushes it; globals are at index g. */
static void make(lua_State *L, int g, int mt, int i) {
  const mr_global *n = &mr_globals[i];
  if (n->kind == NAME_LIBRARY) {
    open_lib(L, mt, i);
    return;
  }
  lua_pushstring(L, n->name);
  if (n->kind == NAME_FUNCTION) lua_pushcfunction(L, n->f);
  else if (n->name[1] == 'G') lua_pushvalue(L, g);
  else lua_pushliteral(L, LUA_VERSION);
  lua_pushvalue(L, -1);
  lua_insert(L, -3);                            /* value name value */
  lua_rawset(L, g);
  add_bits(L, mt, BIT(GLOBAL + i));
}

/* Is the key at index 2 the library that this process's group has, and not made or set so far? */
static int is_offered(lua_State *L) {
  const mr_proc *p = mr_proc_here(L);
  return p && p->offered && lua_type(L, 2) == LUA_TSTRING && strcmp(lua_tostring(L, 2), p->group->library.name) == 0;
}

/* Makes it and pushes it; its opener puts it where it belongs and says so. */
static void make_offered(lua_State *L) {
  const luaL_Reg *library = &mr_proc_here(L)->group->library;
  luaL_checkstack(L, 10, NULL);
  lua_pushcfunction(L, library->func);
  lua_pushstring(L, library->name);
  lua_call(L, 1, 1);
}

void mr_lazy_watch(lua_State *L, int idx, int which) {
  mr_proc *p = mr_proc_here(L);
  if (p && has_mt(L, idx)) p->lazy[which] = lua_topointer(L, idx);
}

static void leave(lua_State *L, int idx, int which) {
  mr_proc *p = mr_proc_here(L);
  if (has_mt(L, idx)) {
    idx = lua_absindex(L, idx);
    lua_pushnil(L);
    lua_setmetatable(L, idx);
  }
  if (p) p->lazy[which] = NULL;
}

/* A state without a process is one of those with which an image is proved. */
int mr_package_opened(lua_State *L) {
  const mr_proc *p = mr_proc_here(L);
  if (PORT_LIKELY(p != NULL)) return p->packages || !p->lazy[0];
  if (!push_mt(L)) return 1;
  int yes = (get_bits(L, -1) & BIT(OPEN + LIB_PACKAGE)) != 0;
  lua_pop(L, 1);
  return yes;
}

void mr_lazy_fill(lua_State *L) {
  luaL_checkstack(L, 20, NULL);
  lua_pushglobaltable(L);
  int g = lua_gettop(L);
  if (!has_mt(L, g)) { lua_pop(L, 1); return; }
  lua_getmetatable(L, g);
  for (int i = 0; i < MR_NGLOBALS; i++) {
    const mr_global *n = &mr_globals[i];
    lua_Unsigned bits = get_bits(L, g + 1);
    if (!(bits & BIT(GLOBAL + i))) make(L, g, g + 1, i);
    else if (n->kind == NAME_LIBRARY && !(bits & (BIT(OPEN + n->lib) | BIT(LOADED + n->lib)))) open_lib(L, g + 1, i);
    lua_settop(L, g + 1);
  }
  const mr_proc *p = mr_proc_here(L);
  if (p && p->offered) make_offered(L);
  lua_settop(L, g + 1);
  push_loaded(L, g + 1);
  leave(L, -1, 1);
  leave(L, g, 0);
  lua_settop(L, g - 1);
}

static int l_fill(lua_State *L) {
  mr_lazy_fill(L);
  return 0;
}

/* A name that isn't ours, or not any more. Without memory for everything, the state stays lazy for as many misses again. */
static int missed(lua_State *L, int mt, lua_Unsigned bits) {
  if (bits >> MISSES < MAX_MISSES) {
    set_bits(L, mt, bits + BIT(MISSES));
    return 0;
  }
  set_bits(L, mt, bits & (BIT(MISSES) - 1));
  lua_pushcfunction(L, l_fill);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) lua_pop(L, 1);
  return 0;
}

/* The bit in mt for key `name` of the table at index 1, or -1; *i becomes its number among the names. */
static int bit_of(lua_State *L, const char *name, int *i) {
  *i = mr_globals_find(name);
  if (*i < 0) return -1;
  lua_pushglobaltable(L);
  int global = lua_rawequal(L, 1, -1);
  lua_pop(L, 1);
  if (global) return GLOBAL + *i;
  return mr_globals[*i].kind == NAME_LIBRARY ? LOADED + mr_globals[*i].lib : -1;
}

/* mt.__index (table, key) -> value */
static int l_lazy_index(lua_State *L) {
  lua_settop(L, 2);
  if (!lua_getmetatable(L, 1)) return 0;
  lua_Unsigned bits = get_bits(L, 3);
  int i, bit = lua_type(L, 2) == LUA_TSTRING ? bit_of(L, lua_tostring(L, 2), &i) : -1;
  if (bit < 0 && is_offered(L)) {
    make_offered(L);
    return 1;
  }
  if (bit < 0 || bits & BIT(bit)) return missed(L, 3, bits);
  if (bit < LOADED) make(L, 1, 3, i);
  else open_lib(L, 3, i);
  return 1;
}

/* The program gives table 1 the key at index 2 by itself, maybe nil; mt at index `mt`. */
static void note(lua_State *L, int mt) {
  lua_Unsigned bits = get_bits(L, mt);
  int i, bit = lua_type(L, 2) == LUA_TSTRING ? bit_of(L, lua_tostring(L, 2), &i) : -1;
  if (bit >= 0) set_bits(L, mt, bits | BIT(bit));
  else if (is_offered(L)) mr_proc_here(L)->offered = 0;
  else missed(L, mt, bits);
}

/* mt.__newindex (table, key, value) */
static int l_lazy_newindex(lua_State *L) {
  lua_settop(L, 3);
  if (lua_isnil(L, 2)) return luaL_error(L, "table index is nil");
  if (lua_type(L, 2) == LUA_TNUMBER && !lua_rawequal(L, 2, 2)) return luaL_error(L, "table index is NaN");
  if (lua_getmetatable(L, 1)) {
    note(L, 4);
    lua_pop(L, 1);
  }
  lua_rawset(L, 1);
  return 0;
}

void mr_lazy_note(lua_State *L) {
  lua_getmetatable(L, 1);
  note(L, lua_gettop(L));
  lua_pop(L, 1);
}

/* __index of strings (string, key) -> value */
static int l_lazy_method(lua_State *L) {
  lua_settop(L, 2);
  mr_lazy_open(L, LIB_STRING);
  if (!luaL_getmetafield(L, 1, "__index") || !lua_istable(L, -1)) return 0;
  lua_pushvalue(L, 2);
  lua_gettable(L, -2);
  return 1;
}

static void install_strings(lua_State *L) {
  lua_pushliteral(L, "");
  lua_createtable(L, 0, 9);
  luaL_setfuncs(L, mr_string_arith, 0);
  lua_pushcfunction(L, l_lazy_method);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
}

void mr_lazy_install(lua_State *L) {
  lua_createtable(L, 2, 2);
  lua_pushlightuserdata(L, &tag);
  lua_rawseti(L, -2, 1);
  lua_pushinteger(L, 0);
  lua_rawseti(L, -2, 2);
  lua_pushcfunction(L, l_lazy_index);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, l_lazy_newindex);
  lua_setfield(L, -2, "__newindex");
  /* Messages and tracebacks look for the names of functions in loaded._G. */
  lua_createtable(L, 0, 1);
  lua_pushglobaltable(L);
  lua_setfield(L, -2, LUA_GNAME);
  lua_pushvalue(L, -2);
  lua_setmetatable(L, -2);
  lua_setfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushglobaltable(L);
  lua_insert(L, -2);
  lua_setmetatable(L, -2);
  lua_pop(L, 1);
  install_strings(L);
}
