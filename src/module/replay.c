/*
 * replay: what Lua functions do otherwise in a run that can be repeated (run/replay.h).
 *
 * The end of each operation is a point, where others may go on. So in such a run each function of mare's is called through another one, which has it as
 * its upvalue; in any other run it is there itself, and costs nothing more. That is the function that mr_self finds no host in: an upvalue that is a
 * function is no userdata.
 */
#include "base/show.h"
#include "module/module.h"
#include "process/happens.h"
#include "run/replay.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 4 };                     /* arguments, results and elements of lists that are told */

static int k_operation(lua_State *L, int status, lua_KContext n) {
  (void)L;
  (void)status;
  return (int)n;
}

/* "name at file:line" */
static void say_place(lua_State *L, const char *name, char *text) {
  char at[REPLAY_PLACE];
  if (mr_happens_at(L, 1, at, sizeof at)) snprintf(text, REPLAY_PLACE, "%.30s at %.90s", name, at);
  else snprintf(text, REPLAY_PLACE, "%.30s", name);
}

static const char *name_of(lua_State *L) {
  lua_Debug ar;
  return lua_getstack(L, 0, &ar) && lua_getinfo(L, "n", &ar) && ar.name ? ar.name : "?";
}

void mr_place_again(lua_State *L) {
  char *place = mr_replay_place();
  if (place) say_place(L, name_of(L), place);
}

/* ---- what it does it with ---- */

static void say_object(lua_State *L, int idx, mr_replay_event *e, const char *before) {
  mr_shared *o = mr_shared_any(L, idx);
  if (!o) o = mr_operation_object(L, idx);
  if (!o) return;
  mr_happens_add(e, before);
  mr_happens_with(e, o);
}

static void say_value(lua_State *L, int idx, mr_replay_event *e, const char *before) {
  char text[64] = "", shown[40];
  switch (lua_type(L, idx)) {
    case LUA_TNIL: snprintf(text, sizeof text, "%s nil", before); break;
    case LUA_TBOOLEAN: snprintf(text, sizeof text, "%s %s", before, lua_toboolean(L, idx) ? "true" : "false"); break;
    case LUA_TNUMBER:
      if (lua_isinteger(L, idx)) snprintf(text, sizeof text, "%s %lld", before, (long long)lua_tointeger(L, idx));
      else snprintf(text, sizeof text, "%s %.14g", before, (double)lua_tonumber(L, idx));
      break;
    case LUA_TSTRING: snprintf(text, sizeof text, "%s '%s'", before, mr_show(shown, sizeof shown, lua_tostring(L, idx))); break;
    case LUA_TTABLE: snprintf(text, sizeof text, "%s {…}", before); break;
    case LUA_TUSERDATA: say_object(L, idx, e, before); return;
    default: return;
  }
  mr_happens_add(e, text);
}

/* Of the cases of select, and other lists: its objects. Places on the stack are enough, by LUA_MINSTACK. */
static void say_list(lua_State *L, int idx, mr_replay_event *e) {
  const char *before = "";
  for (int i = 1; i <= MOST; i++) {
    if (lua_rawgeti(L, idx, i) == LUA_TUSERDATA) {
      say_object(L, -1, e, before);
      before = ",";
    }
    lua_pop(L, 1);
  }
}

static void say_arguments(lua_State *L, mr_replay_event *e) {
  const char *before = "";
  for (int i = 1, n = lua_gettop(L); i <= n && i <= MOST; i++) {
    size_t was = strlen(e->does);
    if (i == 1 && lua_istable(L, i)) say_list(L, i, e);
    else say_value(L, i, e, before);
    if (strlen(e->does) > was) before = ",";
  }
}

static void say_results(lua_State *L, int n, mr_replay_event *e) {
  const char *before = " \xe2\x86\x92";     /* an arrow */
  for (int i = 0; i < n && i < MOST; i++) {
    say_value(L, i - n, e, before);
    before = ",";
  }
}

/* ---- the operation ---- */

/* One that waits does not come back here: its wait was a point. */
static int l_operation(lua_State *L) {
  char *place = mr_replay_place();
  mr_replay_event *e = NULL;
  if (PORT_UNLIKELY(place != NULL)) {
    const char *name = name_of(L);
    say_place(L, name, place);
    e = mr_happens(mr_fiber_here(L), L, name);
    if (e) say_arguments(L, e);
  }
  int n = lua_tocfunction(L, lua_upvalueindex(1))(L);
  mr_fiber *f = mr_fiber_here(L);
  if (PORT_UNLIKELY(e != NULL)) say_results(L, n, e);
  if (!mr_replay_point(f, mr_can_yield(f, L))) return n;
  f->sysyield = SYS_PREEMPTED;
  return lua_yieldk(L, 0, n, k_operation);
}

void mr_operation_function(lua_State *L, lua_CFunction f) {
  lua_pushcfunction(L, f);
  if (PORT_UNLIKELY(mr_replay_on)) lua_pushcclosure(L, l_operation, 1);
}

void mr_outside_check(lua_State *L, const char *what) {
  if (PORT_UNLIKELY(mr_replay_on))
    luaL_error(L, "--seed: %s: what is outside the program can't be repeated, so it is not to be had in such a run", what);
}
