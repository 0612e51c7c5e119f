/*
 * mare.error: the errors that mare itself raises where a program may want to know which it is: cancelled, killed, over a deadline.
 *
 * Such an error is a table; its metatable is the module, so it is the same class in every process. It is made in the state of who gets it,
 * from what is known of the process or fiber that is to end (process/control.h).
 */
#include "module/module.h"
#include "base/embedded.h"
#include "process/control.h"
#include "process/strand.h"

#include <stdio.h>
#include <string.h>

#define NAME "mare.error"

static int open_class(lua_State *L);

/* Pushes the class; package.loaded has it from then on. */
static void push_class(lua_State *L) {
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushliteral(L, NAME);
  if (lua_rawget(L, -2) != LUA_TTABLE) {
    lua_pop(L, 1);
    open_class(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, NAME);
  }
  lua_remove(L, -2);
}

static int is_error(lua_State *L, int idx) {
  if (lua_type(L, idx) != LUA_TTABLE || !lua_getmetatable(L, idx)) return 0;
  push_class(L);
  int yes = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return yes;
}

/* ---- texts ---- */

static void push_name(lua_State *L, const mr_proc *p) {
  if (p->kind == PROC_HOST) lua_pushliteral(L, "the main script");
  else if (p->name) lua_pushfstring(L, "process #%I '%s'", (LUAI_UACINT)p->job.id, p->name);
  else lua_pushfstring(L, "process #%I", (LUAI_UACINT)p->job.id);
}

/* "file:line" of the innermost Lua function of the program that runs, else of mare's own, or nil. */
static void push_where(lua_State *L) {
  lua_Debug ar;
  lua_pushnil(L);
  for (int level = 0, own = 0; lua_getstack(L, level, &ar); level++) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || (own && mr_own_source(ar.source))) continue;
    lua_pop(L, 1);
    lua_pushfstring(L, "%s:%d", ar.short_src, ar.currentline);
    if (!mr_own_source(ar.source)) return;
    own = 1;
  }
}

/* tostring(error) -> "file:line: message: reason" */
static int l_tostring(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int n = 0;
  if (lua_getfield(L, 1, "where") == LUA_TSTRING) lua_pushliteral(L, ": "), n = 2;
  else lua_pop(L, 1);
  if (lua_getfield(L, 1, "message") == LUA_TNIL) lua_pop(L, 1), lua_getfield(L, 1, "kind");
  luaL_tolstring(L, -1, NULL);
  lua_remove(L, -2);
  n++;
  if (lua_getfield(L, 1, "reason") == LUA_TNIL) {
    lua_pop(L, 1);
  } else {
    lua_pushliteral(L, ": ");
    lua_insert(L, -2);
    luaL_tolstring(L, -1, NULL);
    lua_remove(L, -2);
    n += 2;
  }
  lua_concat(L, n);
  return 1;
}

/* As with errors that are texts: "it failed: " .. err */
static int l_concat(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  luaL_tolstring(L, 2, NULL);
  lua_concat(L, 2);
  return 1;
}

/* ---- made by mare ---- */

static void push_mail_copy(lua_State *L, const mr_mail *m) {
  int n = 0;
  if (m->kind == MAIL_SCALARS && m->n) mr_scalar_push(L, &m->u.s[0]), n = 1;
  if (m->kind == MAIL_MESSAGE) n = mr_unpack(L, m->u.m);
  if (n == 0) lua_pushnil(L);
  else lua_pop(L, n - 1);
}

/*
 * Leaves the error of a linked process. Where several are linked in a row, each would wrap the one before: the first is the reason of all.
 */
static void push_first(lua_State *L, mr_proc *dead) {
  mr_process_error_push(L, dead);
  if (!is_error(L, -1)) return;
  lua_getfield(L, -1, "kind");
  int linked = lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "linked") == 0;
  lua_pop(L, 1);
  if (!linked) return;
  lua_getfield(L, -1, "reason");
  lua_remove(L, -2);
}

static void push_reason(lua_State *L, const mr_cause *c) {
  if (c->fiber && c->fiber->cancelled && c->fiber != c->fiber->job->first) mr_fiber_reason_push(L, c->fiber);
  else if (!c->why) lua_pushnil(L);
  else if (c->why->kind == WHY_LINKED && c->why->dead) push_first(L, c->why->dead);
  else push_mail_copy(L, &c->why->reason);
}

static void push_error(lua_State *L, const mr_cause *c) {
  luaL_checkstack(L, 12, NULL);
  lua_createtable(L, 0, 6);
  lua_pushstring(L, c->kind);
  lua_setfield(L, -2, "kind");
  if (c->why && c->why->kind == WHY_LINKED && c->why->dead) {
    lua_pushliteral(L, "linked ");
    push_name(L, c->why->dead);
    lua_pushliteral(L, " failed");
    lua_concat(L, 3);
  } else {
    lua_pushstring(L, c->message);
  }
  lua_setfield(L, -2, "message");
  push_reason(L, c);
  lua_setfield(L, -2, "reason");
  if (c->raised) push_where(L);
  else lua_pushnil(L);
  lua_setfield(L, -2, "where");
  push_name(L, c->proc);
  lua_setfield(L, -2, "process");
  if (c->proc->parent) lua_pushfstring(L, "process #%I", (LUAI_UACINT)c->proc->parent);
  else lua_pushnil(L);
  lua_setfield(L, -2, "spawned_by");
  push_class(L);
  lua_setmetatable(L, -2);
}

/* ---- for programs ---- */

/* error.new{ kind =, message =, … } -> error */
static int l_new(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_newtable(L);
  for (lua_pushnil(L); lua_next(L, 1);) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, 2);
  }
  if (lua_getfield(L, 2, "kind") != LUA_TSTRING) return luaL_error(L, "new: 'kind' must be a string, got %s", luaL_typename(L, -1));
  if (lua_getfield(L, 2, "where") == LUA_TNIL) push_where(L), lua_setfield(L, 2, "where");
  if (lua_getfield(L, 2, "process") == LUA_TNIL) push_name(L, mr_self(L)), lua_setfield(L, 2, "process");
  lua_settop(L, 2);
  push_class(L);
  lua_setmetatable(L, 2);
  return 1;
}

/* error.is(value [, kind]) -> boolean */
static int l_is(lua_State *L) {
  luaL_checkany(L, 1);
  int yes = is_error(L, 1);
  if (yes && !lua_isnoneornil(L, 2)) {
    luaL_checktype(L, 2, LUA_TSTRING);
    lua_getfield(L, 1, "kind");
    yes = lua_rawequal(L, -1, 2);
  }
  lua_pushboolean(L, yes);
  return 1;
}

static const luaL_Reg functions[] = { { "new", l_new }, { "is", l_is }, { NULL, NULL } };

/* No __index: a field that an error does not have is nil. */
static int open_class(lua_State *L) {
  lua_createtable(L, 0, 5);
  mr_set_functions(L, functions);
  lua_pushliteral(L, NAME);
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushcfunction(L, l_concat);
  lua_setfield(L, -2, "__concat");
  return 1;
}

int luaopen_mare_error(lua_State *L) {
  mr_host_ensure(L);
  push_class(L);
  return 1;
}

void mr_error_setup(void) { mr_hooks.error = push_error; }
