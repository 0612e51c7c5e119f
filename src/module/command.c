/*
 * command: the argument of subprocess.run and spawn, { "program", "argument"…, cwd =, env =, … }, as a port_program.
 *
 * All strings are copied into one block (run->text), as the program is started by another thread.
 */
#include "module/subprocess.h"
#include "module/buflib.h"

#include <stdlib.h>
#include <string.h>

static const char *const known[] = { "input", "timeout", "cwd", "env", "stdin", "stdout", "stderr", NULL };

static void check_keys(lua_State *L, const char *name, int keys) {
  for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
    int ok = lua_type(L, -2) == LUA_TNUMBER;
    for (int i = 0; known[i] && !ok; i++)
      ok = lua_type(L, -2) == LUA_TSTRING && strcmp(lua_tostring(L, -2), known[i]) == 0 && (keys || i > 1);
    if (!ok) luaL_error(L, "%s: unknown option '%s'; there are %scwd, env, stdin, stdout, stderr", name, luaL_tolstring(L, -2, NULL),
                        keys ? "input, timeout, " : "");
  }
}

/* The string or number on top, without zero bytes; counted in *size. */
static const char *text(lua_State *L, const char *name, const char *what, size_t *size) {
  size_t len = 0;
  int type = lua_type(L, -1);
  const char *s = type == LUA_TSTRING || type == LUA_TNUMBER ? lua_tolstring(L, -1, &len) : NULL;
  if (!s) luaL_error(L, "%s: %s must be a string, got %s", name, what, luaL_typename(L, -1));
  if (strlen(s) != len) luaL_error(L, "%s: %s contains a zero byte", name, what);
  *size += len + 1;
  return s;
}

/* Pushes a table of strings: the arguments, then "NAME=value" and "NAME". *nargs of the first, *nenv of the others. */
static void strings(lua_State *L, const char *name, int *nargs, int *nenv, size_t *size) {
  lua_newtable(L);
  int list = lua_gettop(L), n = 0;
  for (; lua_rawgeti(L, 1, n + 1) != LUA_TNIL; n++) {
    text(L, name, n ? "an argument" : "the program", size);
    lua_rawseti(L, list, n + 1);
  }
  lua_pop(L, 1);
  if (n == 0) luaL_error(L, "%s: a table { \"program\", \"argument\", … } expected, but it names no program", name);
  *nargs = n;
  *nenv = -1;
  int type = lua_getfield(L, 1, "env");
  if (type == LUA_TNIL) return;
  if (type != LUA_TTABLE) luaL_error(L, "%s: 'env' must be a table { NAME = \"value\", OTHER = false }, got %s", name, luaL_typename(L, -1));
  *nenv = 0;
  for (lua_pushnil(L); lua_next(L, list + 1); lua_pop(L, 1)) {
    int remove = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
    if (lua_type(L, -2) != LUA_TSTRING || strchr(lua_tostring(L, -2), '=') || !*lua_tostring(L, -2))
      luaL_error(L, "%s: a name in 'env' must be a string without '='", name);
    lua_pushvalue(L, -2);
    if (!remove) {
      lua_pushliteral(L, "=");
      lua_pushvalue(L, -3);
      text(L, name, "a value in 'env'", &(size_t){ 0 });
      lua_concat(L, 3);
    }
    text(L, name, "a name in 'env'", size);
    lua_rawseti(L, list, n + ++*nenv);
  }
}

static char **place(lua_State *L, int list, int first, int n, char **at, char **to) {
  for (int i = 0; i < n; i++) {
    size_t len;
    lua_rawgeti(L, list, first + i);
    const char *s = lua_tolstring(L, -1, &len);
    *at++ = memcpy(*to, s, len + 1);
    *to += len + 1;
    lua_pop(L, 1);
  }
  *at++ = NULL;
  return at;
}

static void copy(lua_State *L, mr_run *r, int list, int nargs, int nenv, const char *cwd, size_t size) {
  size_t pointers = (size_t)(nargs + 1 + (nenv < 0 ? 0 : nenv + 1)) * sizeof(char *);
  char **block = malloc(pointers + size), **at = block, *to = (char *)block + pointers;
  if (!block) mr_raise(L, MR_ENOMEM);
  r->text = (char *)block;
  r->program.argv = at;
  at = place(L, list, 1, nargs, at, &to);
  if (nenv >= 0) {
    r->program.changes = at;
    place(L, list, nargs + 1, nenv, at, &to);
  }
  if (cwd) r->program.cwd = memcpy(to, cwd, strlen(cwd) + 1);
}

static int stream(lua_State *L, const char *name, const char *field, int usual) {
  int type = lua_getfield(L, 1, field), is_err = strcmp(field, "stderr") == 0;
  const char *s = type == LUA_TSTRING ? lua_tostring(L, -1) : "";
  int fd = type == LUA_TNIL ? usual : strcmp(s, "pipe") == 0 ? PIPE_OWN : strcmp(s, "inherit") == 0 ? PORT_CHILD_INHERIT
           : strcmp(s, "null") == 0 ? PORT_CHILD_NULL : is_err && strcmp(s, "stdout") == 0 ? PORT_CHILD_OUT : 1;
  if (fd == 1) luaL_error(L, "%s: '%s' must be \"pipe\", \"inherit\"%s or \"null\"", name, field, is_err ? ", \"stdout\"" : "");
  lua_pop(L, 1);
  return fd;
}

static void input(lua_State *L, mr_run *r) {
  size_t len;
  if (lua_getfield(L, 1, "input") != LUA_TNIL) {
    const char *s = mr_piece_get(L, -1, &len);
    if (!s) luaL_error(L, "run: 'input' must be a string or buffer, got %s", luaL_typename(L, -1));
    if (r->program.fd[0] != PIPE_OWN) luaL_error(L, "run: 'input' needs 'stdin' to be a pipe");
    mr_flow *p = &r->flow[RUN_IN];
    p->store = mr_piece_store(L, -1);
    if (p->store) p->data = (char *)(size_t)s;   /* it is only read */
    else if (len > 0 && (p->data = malloc(len)) == NULL) mr_raise(L, MR_ENOMEM);
    else if (len > 0) memcpy(p->data, s, len);
    p->len = len;
  }
  lua_pop(L, 1);
}

void mr_command(lua_State *L, mr_run *r, const char *name, int is_run) {
  int nargs, nenv;
  size_t size = 0;
  check_keys(L, name, is_run);
  int given = is_run && lua_getfield(L, 1, "input") != LUA_TNIL;
  if (is_run) lua_pop(L, 1);
  r->program.fd[0] = stream(L, name, "stdin", given || !is_run ? PIPE_OWN : PORT_CHILD_NULL);
  r->program.fd[1] = stream(L, name, "stdout", PIPE_OWN);
  r->program.fd[2] = stream(L, name, "stderr", PIPE_OWN);
  for (int i = 0; i < RUN_PIPES; i++) r->piped[i] = r->program.fd[i] == PIPE_OWN;
  if (is_run) input(L, r);
  int top = lua_gettop(L);
  const char *cwd = lua_getfield(L, 1, "cwd") == LUA_TNIL ? NULL : text(L, name, "'cwd'", &size);
  strings(L, name, &nargs, &nenv, &size);
  copy(L, r, top + 2, nargs, nenv, cwd, size);
  lua_settop(L, top);
}
