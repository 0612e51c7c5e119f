/*
 * near: names that don't exist. Which was meant, and the error that says so: for fields of mare's modules and handles, and, as the module
 * "mare.near", for what is written in Lua (the broker, the command line).
 *
 * Only a miss comes here: what exists is found in the table or the metatable before. Names that begin with "__" and keys that are no strings
 * are nil without an error, because what shows, copies or compares values of any kind asks for them.
 */
#include "module/module.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 255, BEST = 3, LISTED = 24 };

typedef struct word { size_t len; char s[LONGEST + 1]; } word;
typedef struct found { const char *name; int distance; } found;

/* In lower case; 0: too long to be compared. */
static int to_word(word *w, const char *s, size_t len) {
  if (len > LONGEST) return 0;
  for (size_t i = 0; i < len; i++) w->s[i] = (char)tolower((unsigned char)s[i]);
  w->s[w->len = len] = '\0';
  return 1;
}

static int least(int a, int b) { return a < b ? a : b; }

/* Edits between two words, of which exchanging two neighbours is one; beyond `most` it doesn't matter how many. */
static int distance(const word *a, const word *b, int most) {
  int rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2];
  if (abs((int)a->len - (int)b->len) > most) return most + 1;
  for (size_t j = 0; j <= b->len; j++) row[j] = (int)j;
  for (size_t i = 1; i <= a->len; i++) {
    int *free = before;
    before = above, above = row, row = free;
    row[0] = (int)i;
    for (size_t j = 1; j <= b->len; j++) {
      int d = above[j - 1] + (a->s[i - 1] != b->s[j - 1]);
      if (i > 1 && j > 1 && a->s[i - 1] == b->s[j - 2] && a->s[i - 2] == b->s[j - 1]) d = least(d, before[j - 2] + 1);
      row[j] = least(d, least(above[j], row[j - 1]) + 1);
    }
  }
  return row[b->len];
}

/* How far the candidate is from what was asked for, or most + 1. One that holds the other counts as just near enough. */
static int far(const word *asked, const word *candidate, int most) {
  int d = distance(asked, candidate, most);
  if (d > most && asked->len >= 4 && candidate->len >= 3 && (strstr(candidate->s, asked->s) || strstr(asked->s, candidate->s))) d = most;
  return d;
}

static void insert(found *best, const char *name, int d) {
  int i = BEST;
  for (int j = 0; j < BEST; j++)                       /* the same name may be listed twice */
    if (best[j].name && strcmp(best[j].name, name) == 0) return;
  while (i > 0 && (!best[i - 1].name || d < best[i - 1].distance || (d == best[i - 1].distance && strcmp(name, best[i - 1].name) < 0))) i--;
  if (i == BEST) return;
  memmove(&best[i + 1], &best[i], (size_t)(BEST - 1 - i) * sizeof *best);
  best[i] = (found){ name, d };
}

static void search(lua_State *L, int names, const word *asked, found *best) {
  int most = asked->len <= 4 ? 1 : asked->len < 12 ? 2 : (int)asked->len / 4;
  word w;
  for (lua_Integer i = 1; lua_rawgeti(L, names, i) == LUA_TSTRING; i++) {
    size_t len;
    const char *s = lua_tolstring(L, -1, &len);
    int d = to_word(&w, s, len) ? far(asked, &w, most) : most + 1;
    if (d <= most) insert(best, s, d);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* Pushes "'say', 'stay'", at most three of the list at `names`, the nearest first; or nil. */
static void push_near(lua_State *L, const char *name, size_t len, int names) {
  found best[BEST] = { { NULL, 0 } };
  word asked;
  luaL_Buffer b;
  names = lua_absindex(L, names);
  if (to_word(&asked, name, len)) search(L, names, &asked, best);
  if (!best[0].name) {
    lua_pushnil(L);
    return;
  }
  luaL_buffinit(L, &b);
  for (int i = 0; i < BEST && best[i].name; i++) {
    luaL_addstring(&b, i ? ", '" : "'");
    luaL_addstring(&b, best[i].name);
    luaL_addchar(&b, '\'');
  }
  luaL_pushresult(&b);
}

/* near.near(name, names) -> "'say', 'stay'" | nil: case doesn't count */
static int l_near(lua_State *L) {
  size_t len;
  const char *name = luaL_checklstring(L, 1, &len);
  luaL_checktype(L, 2, LUA_TTABLE);
  lua_settop(L, 2);
  push_near(L, name, len, 2);
  return 1;
}

/* ---- what does not exist ---- */

static int by_name(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* Pushes "a, b, c": the list at `names`, sorted, if it isn't long; else "". */
static void push_all(lua_State *L, int names) {
  const char *all[LISTED];
  int n = (int)lua_rawlen(L, names);
  luaL_Buffer b;
  for (int i = 0; i < n && n <= LISTED; i++) {
    lua_rawgeti(L, names, i + 1);
    all[i] = lua_tostring(L, -1);                      /* the list keeps it */
    lua_pop(L, 1);
  }
  if (n <= LISTED) qsort(all, (size_t)n, sizeof *all, by_name);
  luaL_buffinit(L, &b);
  for (int i = 0; i < n && n <= LISTED; i++) {
    if (i) luaL_addstring(&b, ", ");
    luaL_addstring(&b, all[i]);
  }
  luaL_pushresult(&b);
}

int mr_may_miss(lua_State *L, int key) {
  if (lua_type(L, key) != LUA_TSTRING) return 1;
  const char *s = lua_tostring(L, key);
  return s[0] == '_' && s[1] == '_';
}

int mr_no_field(lua_State *L, const char *what, int key) {
  int names = lua_gettop(L);
  size_t len;
  const char *s = lua_tolstring(L, key, &len);
  push_near(L, s, len, names);
  if (!lua_isnil(L, -1)) return luaL_error(L, "%s has no field '%s'; did you mean %s?", what, s, lua_tostring(L, -1));
  push_all(L, names);
  if (*lua_tostring(L, -1)) return luaL_error(L, "%s has no field '%s'; there are %s", what, s, lua_tostring(L, -1));
  return luaL_error(L, "%s has no field '%s'", what, s);
}

void mr_list_add(lua_State *L, const char *name) {
  lua_pushstring(L, name);
  lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

void mr_list_functions(lua_State *L, const luaL_Reg *l) {
  for (; l && l->name; l++)
    if (strncmp(l->name, "__", 2) != 0) mr_list_add(L, l->name);
}

void mr_list_keys(lua_State *L, int table) {
  if (!lua_istable(L, table)) return;            /* a program has called the metamethod by itself */
  table = lua_absindex(L, table);
  int list = lua_gettop(L);
  if (!lua_istable(L, table)) return;            /* called by anybody, through the debug library */
  for (lua_pushnil(L); lua_next(L, table); lua_pop(L, 1)) {
    if (mr_may_miss(L, -2)) continue;            /* no name, or a metamethod's */
    lua_pushvalue(L, -2);
    lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1);
  }
}

/* ---- modules ---- */

const char *mr_module_name(lua_State *L, int module) {
  module = lua_absindex(L, module);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
    if (!lua_rawequal(L, -1, module) || lua_type(L, -2) != LUA_TSTRING) continue;
    lua_pop(L, 1);
    lua_remove(L, -2);
    return lua_tostring(L, -1);
  }
  lua_pop(L, 1);
  return lua_pushliteral(L, "this module");
}

/* __index of modules (module, key) */
static int l_module_index(lua_State *L) {
  lua_settop(L, 2);
  if (mr_may_miss(L, 2) || lua_type(L, 1) != LUA_TTABLE) return 0;
  const char *name = mr_module_name(L, 1);
  lua_newtable(L);
  mr_list_keys(L, 1);
  return mr_no_field(L, name, 2);
}

void mr_module_guard(lua_State *L) {
  static const char key;
  mr_meta_set(L, &key, "__index", l_module_index);
}

/* __index of a class (methods, key), whose objects are called as upvalue 1 says */
static int l_class_index(lua_State *L) {
  lua_settop(L, 2);
  if (mr_may_miss(L, 2) || lua_type(L, 1) != LUA_TTABLE) return 0;
  lua_newtable(L);
  mr_list_keys(L, 1);
  return mr_no_field(L, lua_tostring(L, lua_upvalueindex(1)), 2);
}

/* near.guard(module[, what]) -> module: reading a field that it doesn't have raises from now on. `what`: it is a class of such objects */
static int l_guard(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  luaL_optstring(L, 2, NULL);
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) {
    lua_settop(L, 1);
    mr_module_guard(L);
    return 1;
  }
  lua_createtable(L, 0, 1);
  lua_pushvalue(L, 2);
  lua_pushcclosure(L, l_class_index, 1);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, 1);
  lua_settop(L, 1);
  return 1;
}

int luaopen_mare_near(lua_State *L) {
  static const luaL_Reg functions[] = { { "near", l_near }, { "guard", l_guard }, { NULL, NULL } };
  luaL_newlib(L, functions);
  return 1;
}
