/*
 * output: print, io.write and file:write, each call whole however many processes write at once.
 *
 * Everything that can fail or run Lua code comes first: arguments are converted or checked, only then is the FILE locked, written
 * and unlocked. Under the lock no Lua function is called.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "state/state.h"
#include "port/system.h"

/* print (...) */
int mr_output_print(lua_State *L) {
  int n = lua_gettop(L);
  luaL_checkstack(L, 4, "too many arguments");
  for (int i = 1; i <= n; i++) {
    if (lua_type(L, i) == LUA_TSTRING && !luaL_getmetafield(L, i, "__tostring")) continue;
    lua_settop(L, n);
    luaL_tolstring(L, i, NULL);
    lua_replace(L, i);
  }
  port_file_lock(stdout);
  for (int i = 1; i <= n; i++) {
    size_t len;
    const char *s = lua_tolstring(L, i, &len);
    if (i > 1) port_file_write("\t", 1, stdout);
    port_file_write(s, len, stdout);
  }
  port_file_write("\n", 1, stdout);
  fflush(stdout);
  port_file_unlock(stdout);
  return 0;
}

static size_t integer_text(lua_Integer i, char *end) {
  lua_Unsigned u = i < 0 ? 0 - (lua_Unsigned)i : (lua_Unsigned)i;
  char *p = end;
  do *--p = (char)('0' + u % 10); while ((u /= 10) != 0);
  if (i < 0) *--p = '-';
  return (size_t)(end - p);
}

static int write_number(lua_State *L, int i, FILE *f) {
  char text[MR_LUA_FLOAT_SIZE];
  if (lua_isinteger(L, i)) {
    size_t n = integer_text(lua_tointeger(L, i), text + sizeof text);
    return port_file_write(text + sizeof text - n, n, f) == n;
  }
  size_t n = mr_lua_float_text(L, i, text);
  return port_file_write(text, n, f) == n;
}

/* Writes the arguments from `first` to `last`; the file's userdata, to be returned, is at the top. */
static int write_all(lua_State *L, FILE *f, int first, int last) {
  int ok = 1, err;
  for (int i = first; i <= last; i++)
    if (lua_type(L, i) != LUA_TNUMBER) luaL_checklstring(L, i, NULL);
  port_file_lock(f);
  errno = 0;
  for (int i = first; i <= last; i++) {
    if (lua_type(L, i) == LUA_TNUMBER) {
      ok = write_number(L, i, f) && ok;
    } else {
      size_t len;
      const char *s = lua_tolstring(L, i, &len);
      ok = port_file_write(s, len, f) == len && ok;
    }
  }
  err = errno;
  port_file_unlock(f);
  if (PORT_LIKELY(ok)) return 1;
  errno = err;
  return luaL_fileresult(L, 0, NULL);
}

/* io.write (...) -> file | nil, message, number */
static int l_io_write(lua_State *L) {
  int n = lua_gettop(L);
  lua_getfield(L, LUA_REGISTRYINDEX, "_IO_output");
  luaL_Stream *s = (luaL_Stream *)lua_touserdata(L, -1);
  if (!s->closef) return luaL_error(L, "default output file is closed");
  return write_all(L, s->f, 1, n);
}

/* file:write (...) -> file | nil, message, number */
static int l_file_write(lua_State *L) {
  luaL_Stream *s = (luaL_Stream *)luaL_checkudata(L, 1, LUA_FILEHANDLE);
  int n = lua_gettop(L);
  if (!s->closef) return luaL_error(L, "attempt to use a closed file");
  lua_pushvalue(L, 1);
  return write_all(L, s->f, 2, n);
}

void mr_output_patch(lua_State *L) {
  lua_pushcfunction(L, l_io_write);
  lua_setfield(L, -2, "write");
  luaL_getmetatable(L, LUA_FILEHANDLE);
  lua_getfield(L, -1, "__index");
  lua_pushcfunction(L, l_file_write);
  lua_setfield(L, -2, "write");
  lua_pop(L, 2);
}

/* ---- warnings ---- */

/*
 * The pieces of the message under way. They come one after the other on one thread, with no Lua code in between. Memory of the state
 * is not used: warnings tell of errors in finalisers, too.
 */
static PORT_TLS struct { char *text; size_t len, size; } warning;

static void write_warning(void) {
  if (warning.len > 0) fwrite(warning.text, 1, warning.len, stderr);
  fflush(stderr);
  warning.len = 0;
}

static void add_warning(const char *s, size_t len) {
  if (len > warning.size - warning.len) {
    size_t size = 2 * warning.size + len + 80;
    char *text = (char *)realloc(warning.text, size);
    if (!text) {                                /* in pieces, then */
      write_warning();
      fwrite(s, 1, len, stderr);
      return;
    }
    warning.text = text;
    warning.size = size;
  }
  memcpy(warning.text + warning.len, s, len);
  warning.len += len;
}

static void end_warning(void) {
  add_warning("\n", 1);
  write_warning();
  free(warning.text);
  warning.text = NULL;
  warning.size = 0;
}

static int control(lua_State *L, const char *msg) {
  if (strcmp(msg, "@on") == 0) lua_setwarnf(L, mr_warn_on, L);
  else if (strcmp(msg, "@off") == 0) lua_setwarnf(L, mr_warn_off, L);
  return *msg == '@';
}

static void warn_more(void *ud, const char *msg, int tocont) {
  lua_State *L = (lua_State *)ud;
  add_warning(msg, strlen(msg));
  if (tocont) {
    lua_setwarnf(L, warn_more, L);
    return;
  }
  end_warning();
  lua_setwarnf(L, mr_warn_on, L);
}

void mr_warn_on(void *ud, const char *msg, int tocont) {
  if (!tocont && control((lua_State *)ud, msg)) return;
  add_warning("Lua warning: ", 13);
  warn_more(ud, msg, tocont);
}

void mr_warn_off(void *ud, const char *msg, int tocont) {
  if (!tocont) control((lua_State *)ud, msg);
}
