/*
 * debug: the debug library of a process's state. getmetatable and setmetatable keep the laziness of globals and strings unseen; sethook
 * and gethook keep unseen that mare interrupts running code by hooks (process/hook.c): a program's hook gets the events that plain Lua
 * gives it, and gethook shows what the program has set.
 *
 * The registry holds a table with weak keys: coroutine -> a record (mr_traced), whose user value is the program's function. A new coroutine inherits
 * mask and count from its creator but no function, as the stock library has it: its record is silent, and no hook is set. The registry's
 * _HOOKKEY, where the stock library has its functions, is there to be looked at only.
 * Functions that need not be called in plain Lua would show as extra calls, so all lazy names are made when a hook is set.
 */
#include <string.h>
#include "state/state.h"

static const char hooks_key;

/* ---- metatables ---- */

/* debug.getmetatable (value) -> table | nil */
static int l_debug_getmetatable(lua_State *L) {
  luaL_checkany(L, 1);
  if (lua_type(L, 1) == LUA_TSTRING) mr_lazy_open(L, LIB_STRING);
  if (!lua_getmetatable(L, 1) || mr_lazy_is(L, 1)) lua_pushnil(L);
  return 1;
}

/* debug.setmetatable (value, table | nil) -> value */
static int l_debug_setmetatable(lua_State *L) {
  int t = lua_type(L, 2);
  luaL_argexpected(L, t == LUA_TNIL || t == LUA_TTABLE, 2, "nil or table");
  if (lua_type(L, 1) == LUA_TSTRING) mr_lazy_open(L, LIB_STRING);
  else if (mr_lazy_is(L, 1)) mr_lazy_fill(L);
  lua_settop(L, 2);
  lua_setmetatable(L, 1);
  return 1;
}

/* ---- hooks ---- */

/* Pushes the record of co and returns it, or pushes nil and returns NULL. Needs three slots. */
static mr_traced *push_record(lua_State *L, lua_State *co) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &hooks_key) != LUA_TTABLE) return NULL;
  lua_pushthread(co);
  if (co != L) lua_xmove(co, L, 1);
  lua_rawget(L, -2);
  lua_remove(L, -2);
  mr_traced *h = lua_touserdata(L, -1);          /* or what the program has put there, through debug.getregistry */
  return lua_type(L, -1) == LUA_TUSERDATA && lua_rawlen(L, -1) == sizeof *h && h->tag == &hooks_key ? h : NULL;
}

/* Pushes the table with weak keys that the registry has under a key, which is at the top. */
static void push_weak(lua_State *L) {
  lua_pushvalue(L, -1);
  if (lua_rawget(L, LUA_REGISTRYINDEX) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_pushvalue(L, -1);
    lua_setmetatable(L, -2);
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
  }
  lua_remove(L, -2);
}

/* Sets the value at the top for co in the table below it, and takes both away. */
static void set_for(lua_State *L, lua_State *co) {
  lua_pushthread(co);
  if (co != L) lua_xmove(co, L, 1);
  lua_insert(L, -2);
  lua_rawset(L, -3);
  lua_pop(L, 1);
}

static mr_traced *new_record(lua_State *L, lua_State *co) {
  mr_traced *h = lua_newuserdatauv(L, sizeof *h, 1);
  *h = (mr_traced){ .tag = &hooks_key };
  lua_pushlightuserdata(L, (void *)(uintptr_t)&hooks_key);
  push_weak(L);
  lua_pushvalue(L, -2);
  set_for(L, co);
  mr_proc_here(L)->traced = 1;
  return h;
}

/* Where the stock library keeps the functions; nothing of ours reads them there. */
static void show_function(lua_State *L, lua_State *co, int f) {
  lua_pushliteral(L, "_HOOKKEY");
  push_weak(L);
  lua_pushvalue(L, f);
  set_for(L, co);
}

/* The hook itself. The record stays on the stack: its function may replace or drop it. */
static void traced(lua_State *L, lua_Debug *ar) {
  static const char *const names[] = { "call", "return", "line", "count", "tail call" };
  static const int masks[] = { LUA_MASKCALL, LUA_MASKRET, LUA_MASKLINE, LUA_MASKCOUNT, LUA_MASKCALL };
  mr_traced none = { .last = -1, .before = -1, .earlier = -1 }, *h = push_record(L, L);
  if (!h) h = &none;                             /* made by C code in a coroutine that has a hook: inherited, without a function */
  h->earlier = h->before;
  h->before = h->last;
  h->last = ar->event;
  int asked = h != &none && (h->mask & masks[ar->event]), top = lua_gettop(L);
  if (asked && lua_getiuservalue(L, top, 1) == LUA_TFUNCTION) {
    lua_pushstring(L, names[ar->event]);
    if (ar->currentline >= 0) lua_pushinteger(L, ar->currentline);
    else lua_pushnil(L);
    lua_call(L, 2, 0);
    if (h->last < 0 || lua_gethook(L) != mr_hooks.traced) return;    /* it has set another one */
  }
  mr_hook_after(L, h);
}

static int mask_of(const char *s, int count) {
  int mask = count > 0 ? LUA_MASKCOUNT : 0;
  if (strchr(s, 'c')) mask |= LUA_MASKCALL;
  if (strchr(s, 'r')) mask |= LUA_MASKRET;
  if (strchr(s, 'l')) mask |= LUA_MASKLINE;
  return mask;
}

static lua_State *thread_arg(lua_State *L, int *arg) {
  *arg = lua_isthread(L, 1);
  return *arg ? lua_tothread(L, 1) : L;
}

/* co is another one: room for what is moved over it */
static void check_room(lua_State *L, lua_State *co) {
  if (L != co && !lua_checkstack(co, 1)) luaL_error(L, "stack overflow");
}

/* debug.sethook ([co,] function, mask [, count]);  debug.sethook ([co]) */
static int l_debug_sethook(lua_State *L) {
  int arg, mask = 0, count = 0;
  lua_State *co = thread_arg(L, &arg);
  if (lua_isnoneornil(L, arg + 1)) {
    lua_settop(L, arg + 1);
  } else {
    const char *s = luaL_checkstring(L, arg + 2);
    luaL_checktype(L, arg + 1, LUA_TFUNCTION);
    count = (int)luaL_optinteger(L, arg + 3, 0);
    mask = mask_of(s, count);
  }
  luaL_checkstack(L, 8, NULL);
  check_room(L, co);
  if (mask) mr_lazy_fill(L);
  mr_traced *h = push_record(L, co);
  if (!h && mask) {
    lua_pop(L, 1);
    h = new_record(L, co);
  }
  if (h) {
    *h = (mr_traced){ .tag = &hooks_key, .mask = mask, .count = count, .last = -1, .before = -1, .earlier = -1 };
    if (mask) lua_pushvalue(L, arg + 1);
    else lua_pushnil(L);
    lua_setiuservalue(L, -2, 1);
  }
  show_function(L, co, arg + 1);
  if (mask) mr_hook_set(co, mask, count);
  else mr_hook_none(co);
  return 0;
}

static void push_mask(lua_State *L, int mask) {
  char s[4], *at = s;
  if (mask & LUA_MASKCALL) *at++ = 'c';
  if (mask & LUA_MASKRET) *at++ = 'r';
  if (mask & LUA_MASKLINE) *at++ = 'l';
  *at = 0;
  lua_pushstring(L, s);
}

/* debug.gethook ([co]) -> function | nil | "external hook" [, mask, count] */
static int l_debug_gethook(lua_State *L) {
  int arg, none;
  lua_State *co = thread_arg(L, &arg);
  luaL_checkstack(L, 8, NULL);
  check_room(L, co);
  mr_traced *h = push_record(L, co);
  none = mr_hook_is_ours(co);
  if (none && !(h && h->silent)) {
    lua_pushnil(L);
    return 1;
  }
  int known = none || lua_gethook(co) == mr_hooks.traced;
  if (!known) lua_pushliteral(L, "external hook");
  else if (h) lua_getiuservalue(L, -1, 1);
  else lua_pushnil(L);
  push_mask(L, known && h ? h->mask : lua_gethookmask(co));
  lua_pushinteger(L, known && h ? h->count : lua_gethookcount(co));
  return 3;
}

/* co has just been made by L, on whose top it is, and has its hook; the record of L's says what the program sees. */
void mr_hook_inherit(lua_State *L, lua_State *co) {
  luaL_checkstack(L, 8, NULL);
  const mr_traced *from = push_record(L, L);
  if (from && from->mask && (mr_hook_is_ours(co) || lua_gethook(co) == mr_hooks.traced)) {
    mr_traced *h = new_record(L, co);
    *h = (mr_traced){ .tag = &hooks_key, .mask = from->mask, .count = from->count, .last = -1, .before = -1, .earlier = -1, .silent = 1 };
    mr_hook_none(co);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

int mr_hook_resumes(lua_State *L) {
  if (lua_gethook(L) != mr_hooks.traced) return 0;
  luaL_checkstack(L, 4, NULL);
  const mr_traced *h = push_record(L, L);
  int keeps = h && mr_hook_keeps(L, h);
  lua_pop(L, 1);
  return keeps;
}

int mr_lib_debug(lua_State *L) {
  lua_pushcfunction(L, luaopen_debug);
  lua_pushliteral(L, LUA_DBLIBNAME);
  lua_call(L, 1, 1);
  lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);   /* in reach through debug.getregistry */
  mr_lazy_watch(L, -1, 1);
  lua_pop(L, 1);
  mr_lib_set(L, "getmetatable", l_debug_getmetatable);
  mr_lib_set(L, "setmetatable", l_debug_setmetatable);
  mr_lib_set(L, "sethook", l_debug_sethook);
  mr_lib_set(L, "gethook", l_debug_gethook);
  return 1;
}

void mr_debug_setup(void) { mr_hooks.traced = traced; }
