/*
 * trace: mare.trace.core - what Lua code says to a trace, and what makes JSON of one. What is recorded elsewhere: run/traced.h, src/io.
 *
 * The functions that record are there only while a trace is on: who calls them asks once, when it is loaded, and pays a test of an upvalue then.
 */
#include "module/module.h"
#include "observe/cut.h"
#include "observe/trace.h"
#include "port/errors.h"
#include "port/map.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define SIZE (UINT64_C(256) << 20)               /* as the command line has it */

/* A host's, from its environment. There is nobody to give an error to. A file in use is its parent's, which has left it the variable. */
void mr_trace_ask(void) {
  static atomic_int asked;
  const char *file = getenv("MARE_TRACE"), *what;
  char reason[128];
  if (mr_trace_file() || !file || !*file || atomic_exchange(&asked, 1)) return;
  int err = mr_trace_start(file, SIZE, "a host", &what);
  if (err == EBUSY) return;
  if (err) fprintf(stderr, "mare: MARE_TRACE: can't write %s: %s\n", what, port_error_text(err, reason, sizeof reason));
  else atexit(mr_trace_end);                     /* it may end without closing its state */
}

/* ---- calls: an object that only one side of a connection has, and the id of the request there ---- */

static uint64_t id_of(lua_State *L) {
  uint64_t p = (uint64_t)(uintptr_t)lua_topointer(L, 1) * 0x9e3779b97f4a7c15u;
  return (p & 0xffffffff00000000u) | ((uint64_t)lua_tointeger(L, 2) & 0xffffffffu);
}

static int began(lua_State *L, int side) {
  const char *operation = lua_tostring(L, 3);
  if (mr_trace_on()) mr_trace_call(side, id_of(L), operation ? operation : "?");
  return 0;
}

static int ended(lua_State *L, int side) {
  if (mr_trace_on()) mr_trace_reply(side, id_of(L));
  return 0;
}

static int l_call(lua_State *L) { return began(L, TRACE_CALL); }
static int l_replied(lua_State *L) { return ended(L, TRACE_CALL); }
static int l_serve(lua_State *L) { return began(L, TRACE_SERVE); }
static int l_served(lua_State *L) { return ended(L, TRACE_SERVE); }

/* ---- JSON ---- */

static int fail(lua_State *L, int err) {
  char reason[128];
  lua_pushnil(L);
  lua_pushstring(L, err == EBADMSG ? "it has no records of a trace" : port_error_text(err, reason, sizeof reason));
  return 2;
}

static void field(lua_State *L, const char *name, lua_Number value) {
  lua_pushnumber(L, value);
  lua_setfield(L, -2, name);
}

/* (rings, to) -> { events, bytes, dropped, missing, covered } | nil, message */
static int l_convert(lua_State *L) {
  mr_trace_report r;
  int err = mr_trace_convert(luaL_checkstring(L, 1), luaL_checkstring(L, 2), &r);
  if (err) return fail(L, err);
  lua_createtable(L, 0, 5);
  field(L, "events", (lua_Number)r.events);
  field(L, "bytes", (lua_Number)r.bytes);
  field(L, "dropped", (lua_Number)r.dropped);
  field(L, "missing", r.missing);
  field(L, "covered", r.covered);
  return 1;
}

/* (pid) -> the path of the records of a running program | nil, message */
static int l_find(lua_State *L) {
  char path[4096];
  int err = port_map_find((long)luaL_checkinteger(L, 1), ".rings", path, sizeof path);
  if (err == ESRCH) return lua_pushnil(L), lua_pushliteral(L, "there is no such program, or it makes no trace"), 2;
  if (err) return fail(L, err);
  lua_pushstring(L, path);
  return 1;
}

int luaopen_mare_trace_core(lua_State *L) {
  static const luaL_Reg always[] = { { "convert", l_convert }, { "find", l_find }, { NULL, NULL } };
  static const luaL_Reg traced[] = { { "call", l_call }, { "replied", l_replied }, { "serve", l_serve }, { "served", l_served }, { NULL, NULL } };
  mr_host_ensure(L);
  luaL_newlib(L, always);
  if (mr_trace_on()) luaL_setfuncs(L, traced, 0);
  return 1;
}
