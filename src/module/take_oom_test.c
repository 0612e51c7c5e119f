/*
 * Every allocation fails once while messages are taken from a connection, small ones and those that are userdata. What comes is the message or the
 * memory error; afterwards the connection says what became of it, and nothing leaks (the sanitizer build sees that).
 */
#define FAILING 0
#include "module/failing.h"
#include "module/net.h"

static const char script[] =
  "local net, core = require 'mare.net', require 'mare.orb.giop.core'\n"
  "local server = assert(net.listen '127.0.0.1:0')\n"
  "local host, port = server:address()\n"
  "local a, b, message\n"
  "function prepare(size)\n"
  "  message = core.request(2, true, 3, 'key', 'op', { { 1, 'context' } }, 1, ('x'):rep(size))\n"
  "  a = assert(net.connect(host, port))\n"
  "  b = assert(server:accept(20))\n"
  "  assert(a:write(message))\n"
  "end\n"
  "function take()\n"
  "  local m, kind = core.take(b, 1 << 20, 20)\n"
  "  assert(m and kind == 0, kind)\n"
  "end\n"
  /* The message came, or was lost behind its end, or the stream has a hole: then the connection says so, and whoever reads it next learns it. */
  "function after(size)\n"
  "  local got, why, code = core.take(b, 1 << 20, 0)\n"
  "  if got then assert(#got == #message) else assert(why == 'timeout' or code == 'ENOMEM', why) end\n"
  "  assert(a:close()) assert(b:close())\n"
  "  a, b, message = nil\n"
  "  return code\n"
  "end\n";

static int call(lua_State *L, const char *name, long size, int results) {
  lua_settop(L, 0);
  lua_getglobal(L, name);
  lua_pushinteger(L, size);
  return lua_pcall(L, 1, results, 0);
}

static void each_allocation(lua_State *L, long size) {
  int lost = 0;
  for (long n = 0, more = 1; more; n++) {
    if (call(L, "prepare", size, 0) != LUA_OK) { fprintf(stderr, "prepare: %s\n", lua_tostring(L, -1)); abort(); }
    failed = 0;
    left = n;
    active = 1;
    int status = call(L, "take", size, 0);
    active = 0;
    more = failed;
    CHECK(status == LUA_OK || (failed && strcmp(lua_tostring(L, -1), "not enough memory") == 0));
    if (call(L, "after", size, 1) != LUA_OK) {
      CHECK(!"after");
      fprintf(stderr, "%ld bytes, %ld: %s\n", size, n, lua_tostring(L, -1));
    } else if (lua_isstring(L, -1) && strcmp(lua_tostring(L, -1), "ENOMEM") == 0) lost++;
    lua_gc(L, LUA_GCCOLLECT);
  }
  CHECK(lost > 0);
}

int main(void) {
  lua_State *L = mr_lua_newstate(allocate, NULL);
  luaL_openlibs(L);
  luaL_requiref(L, "mare.net", luaopen_mare_net, 0);
  luaL_requiref(L, "mare.orb.giop.core", luaopen_mare_orb_giop_core, 0);
  if (luaL_dostring(L, script)) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); abort(); }
  each_allocation(L, 100);
  each_allocation(L, 100000);
  lua_close(L);
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
