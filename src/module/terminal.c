/* mare.cli.terminal: a terminal to draw on, and the doors of other programs, for `mare top`. */
#include "module/module.h"
#include "port/door.h"
#include "port/errors.h"
#include "port/screen.h"
#include "port/self.h"

enum { PROGRAMS = 256 };

static int fail(lua_State *L, int err) {
  char text[128];
  lua_pushnil(L);
  lua_pushstring(L, port_error_text(err, text, sizeof text));
  lua_pushstring(L, port_error_name(err));
  return 3;
}

static int result(lua_State *L, int err) {
  if (err) return fail(L, err);
  lua_pushboolean(L, 1);
  return 1;
}

/* ---- the screen ---- */

static int l_open(lua_State *L) { return result(L, port_screen_open()); }

static int l_close(lua_State *L) {
  (void)L;
  port_screen_close();
  return 0;
}

static int l_stop(lua_State *L) {
  (void)L;
  port_screen_stop();
  return 0;
}

/* () -> rows, columns; nil if that is not known */
static int l_size(lua_State *L) {
  int rows, columns, err = port_screen_size(&rows, &columns);
  if (err) return fail(L, err);
  lua_pushinteger(L, rows);
  lua_pushinteger(L, columns);
  return 2;
}

/* () -> what has been typed, perhaps ""; nil: the terminal is gone */
static int l_keys(lua_State *L) {
  char buf[256];
  long n = port_screen_keys(buf, sizeof buf);
  if (n < 0) lua_pushnil(L);
  else lua_pushlstring(L, buf, (size_t)n);
  return 1;
}

/* (0 or 1) -> boolean: is stdin, stdout a terminal? */
static int l_is(lua_State *L) {
  lua_pushboolean(L, port_screen_is((int)luaL_checkinteger(L, 1)));
  return 1;
}

/* ---- programs ---- */

/* (pid) -> true | nil, text, code: asks it to open its door */
static int l_knock(lua_State *L) { return result(L, port_door_knock((int)luaL_checkinteger(L, 1))); }

/* (pid) -> the paths at which its door may be */
static int l_doors(lua_State *L) {
  int pid = (int)luaL_checkinteger(L, 1);
  char folder[PORT_DOOR_PATH];
  lua_newtable(L);
  for (int i = 0, n = 0; port_door_folder(i, pid, folder); i++) {
    if (!*folder) continue;
    lua_pushfstring(L, "%s/%d", folder, pid);
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

/* () -> { { pid =, command = }, … } */
static int l_programs(lua_State *L) {
  int pid[PROGRAMS], n = port_door_programs(pid, PROGRAMS);
  char command[1024];
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    lua_createtable(L, 0, 2);
    lua_pushinteger(L, pid[i]);
    lua_setfield(L, -2, "pid");
    lua_pushlstring(L, command, port_command_of(pid[i], command, sizeof command));
    lua_setfield(L, -2, "command");
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

static int l_sweep(lua_State *L) {
  lua_pushinteger(L, port_door_sweep());
  return 1;
}

int luaopen_mare_cli_terminal(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "open", l_open }, { "close", l_close }, { "stop", l_stop }, { "size", l_size }, { "keys", l_keys }, { "is", l_is },
    { "knock", l_knock }, { "doors", l_doors }, { "programs", l_programs }, { "sweep", l_sweep }, { NULL, NULL }
  };
  mr_lua_check(L);
  luaL_newlib(L, functions);
  return 1;
}
