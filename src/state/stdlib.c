/*
 * stdlib: the libraries of a process's state that differ from the stock ones in a function or two. Each opener leaves the library's
 * table, as the stock opener does.
 *
 *   io      print-like whole writes (output.c); popen gives the child the program's signal mask and no descriptor of ours
 *   os      execute likewise; exit ends the whole program through mr_exit
 *   math    seeded from the system: states are copies of one template, and all would draw the same numbers
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state/state.h"
#include "port/system.h"

/* ---- io ---- */

static int close_pipe(lua_State *L) {
  luaL_Stream *s = (luaL_Stream *)luaL_checkudata(L, 1, LUA_FILEHANDLE);
  errno = 0;
  return luaL_execresult(L, port_pipe_close(s->f));
}

/* What was written before the command starts comes out before what the command writes. Other files may be locked by a read. */
static void flush_output(lua_State *L) {
  fflush(stdout);
  lua_getfield(L, LUA_REGISTRYINDEX, "_IO_output");
  luaL_Stream *s = (luaL_Stream *)luaL_testudata(L, -1, LUA_FILEHANDLE);
  if (s && s->closef && s->f && s->f != stdout) fflush(s->f);
  lua_pop(L, 1);
}

/* io.popen (command [, mode]) -> file | nil, message, number */
static int l_io_popen(lua_State *L) {
  const char *cmd = luaL_checkstring(L, 1);
  const char *mode = luaL_optstring(L, 2, "r");
  luaL_Stream *s = (luaL_Stream *)lua_newuserdatauv(L, sizeof *s, 0);
  s->closef = NULL;
  luaL_setmetatable(L, LUA_FILEHANDLE);
  luaL_argcheck(L, (mode[0] == 'r' || mode[0] == 'w') && mode[1] == 0, 2, "invalid mode");
  flush_output(L);
  s->f = port_pipe_open(cmd, mode);
  s->closef = close_pipe;
  return s->f ? 1 : luaL_fileresult(L, 0, cmd);
}

int mr_lib_io(lua_State *L) {
  lua_pushcfunction(L, luaopen_io);
  lua_pushliteral(L, LUA_IOLIBNAME);
  lua_call(L, 1, 1);
  mr_output_patch(L);
  mr_lib_set(L, "popen", l_io_popen);
  return 1;
}

/* ---- os ---- */

/* os.execute ([command]) -> true | nil, "exit" | "signal", number; or is there a shell? */
static int l_os_execute(lua_State *L) {
  const char *cmd = luaL_optstring(L, 1, NULL);
  errno = 0;
  int status = port_command(cmd);
  if (cmd) return luaL_execresult(L, status);
  lua_pushboolean(L, status);
  return 1;
}

/* The finalisers of this process run, as they would at the end of a script; others end as they stand. */
static void close_state(lua_State *L, int code) {
  mr_lua *l = mr_lua_of(mr_fiber_here(L));
  mr_exit_within_limit(code);
  l->top_ok = 0;
  l->top = NULL;
  lua_close(L);
}

/* os.exit ([code [, close]]) */
static int l_os_exit(lua_State *L) {
  int code = lua_isboolean(L, 1) ? (lua_toboolean(L, 1) ? EXIT_SUCCESS : EXIT_FAILURE)
                                 : (int)luaL_optinteger(L, 1, EXIT_SUCCESS);
  if (lua_toboolean(L, 2)) close_state(L, code);
  mr_exit(code);
}

int mr_lib_os(lua_State *L) {
  lua_pushcfunction(L, luaopen_os);
  lua_pushliteral(L, LUA_OSLIBNAME);
  lua_call(L, 1, 1);
  mr_lib_set(L, "execute", l_os_execute);
  mr_lib_set(L, "exit", l_os_exit);
  return 1;
}

/* ---- math ---- */

static void push_seed(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)port_entropy());
  lua_pushinteger(L, (lua_Integer)port_entropy());
}

/* math.randomseed ([x [, y]]) -> the seed; upvalues: those of the stock function (one), and it */
static int l_math_randomseed(lua_State *L) {
  if (lua_gettop(L) == 0) push_seed(L);
  return lua_tocfunction(L, lua_upvalueindex(2))(L);
}

int mr_lib_math(lua_State *L) {
  lua_pushcfunction(L, luaopen_math);
  lua_pushliteral(L, LUA_MATHLIBNAME);
  lua_call(L, 1, 1);
  lua_getfield(L, -1, "randomseed");
  lua_pushvalue(L, -1);
  push_seed(L);
  lua_call(L, 2, 0);
  lua_getupvalue(L, -1, 1);
  lua_insert(L, -2);
  lua_pushcclosure(L, l_math_randomseed, 2);
  lua_setfield(L, -2, "randomseed");
  return 1;
}
