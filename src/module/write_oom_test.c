/*
 * Every allocation fails once while a connection is written to and closed, and while a server and a selector are made. Whoever comes next is not kept
 * from its turn, no byte of a write that has succeeded is missing, what was to be closed is closed, a server that was not made leaves no file, and what is
 * made once is made whole.
 */
#define FAILING 2
#include "module/failing.h"
#include "module/net.h"

static const char common[] =
  "local mare, net = require 'mare', require 'mare.net'\n"
  "local server = assert(net.listen '127.0.0.1:0')\n"
  "local host, port = server:address()\n"
  "local a, b, wrote\n"
  "local function pair() a, b = assert(net.connect(host, port)), assert(server:accept(20)) a:timeout(20) end\n"
  "local works = {}\n"
  /* Each: what is there before, what is done without memory, what holds afterwards. */
  "works.broken = { function() pair() a:cut() end, function() return a:write 'x' end,\n"
  "  function() local ok, _, code = a:write 'y' assert(not ok and code == 'ECANCELED', code) end }\n"
  "works.late = { function() pair() a:timeout(0) end, function() return a:write(('x'):rep(1 << 23)) end,\n"
  "  function() local ok, why = a:write(('y'):rep(1 << 23)) assert(not ok and why == 'timeout', why) end }\n"
  "works.close = { function() pair() a:setvbuf('full', 1 << 23) a:write(('x'):rep(1 << 23)) assert(a.close) end, function() a:close(0) end,\n"
  "  function() assert(a:closed()) end }\n"
  "local long = ('x'):rep(1 << 19)\n"
  "works.buffered = { function() pair() a:setvbuf('full', 16) a:write '12345' a:setvbuf('full', 1 << 20) wrote = false end,\n"
  "  function() wrote = a:write(long) end,\n"
  "  function()\n"
  "    local f = mare.fiber.spawn(function() return b:read 'a' end)\n"
  "    assert(a:close())\n"
  "    local _, all = assert(f:wait()) assert(not wrote or #all == 5 + #long, #all)\n"
  "  end }\n"
  "local path, made = os.tmpname() os.remove(path)\n"
  "works.listen = { function() made = nil end, function() made = net.listen { path = path } end,\n"
  "  function() if made then made:close() end collectgarbage() assert(select(3, io.open(path)) == 2) end }\n"
  "works.selector = { function() end, function() mare.selector { mare.channel.new() } end,\n"
  "  function() assert(select(2, mare.selector { mare.channel.new() }:wait(0)) == 'timeout') end }\n"
  "function prepare(what) works[what][1]() end\n"
  "function work(what) works[what][2]() end\n"
  "function after(what)\n"
  "  works[what][3]()\n"
  "  if a then a:close() b:close() a, b = nil end\n"
  "end\n"
  "function finish() server:close() end\n";

static int call(lua_State *L, const char *name, const char *what) {
  lua_settop(L, 0);
  lua_getglobal(L, name);
  lua_pushstring(L, what);
  return lua_pcall(L, 1, 0, 0);
}

static int load(lua_State *L) {
  luaL_openlibs(L);
  luaL_requiref(L, "mare", luaopen_mare, 0);
  luaL_requiref(L, "mare.near", luaopen_mare_near, 0);
  luaL_requiref(L, "mare.net", luaopen_mare_net, 0);
  if (luaL_dostring(L, common)) lua_error(L);
  return 0;
}

static lua_State *open(void) {
  lua_State *L = mr_lua_newstate(allocate, NULL);
  lua_pushcfunction(L, load);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) { fprintf(stderr, "%s\n", lua_tostring(L, -1)); abort(); }
  return L;
}

/* In a state of its own each time, where nothing was made before. */
static void each_allocation(const char *what) {
  long n = 0;
  for (int more = 1; more && failures < 20; n++) {
    lua_State *L = open();
    if (call(L, "prepare", what) != LUA_OK) { fprintf(stderr, "%s: %s\n", what, lua_tostring(L, -1)); abort(); }
    failed = 0;
    left = n;
    active = 1;
    int status = call(L, "work", what);
    active = 0;
    more = failed;
    CHECK(status == LUA_OK || failed);
    if (call(L, "after", what) != LUA_OK) {
      CHECK(!"after");
      fprintf(stderr, "%s, allocation %ld: %s\n", what, n, lua_tostring(L, -1));
    }
    call(L, "finish", what);
    lua_close(L);
  }
  printf("%s: %ld allocations\n", what, n);
}

static void each(const char *what) {
  for (once = 0; once < 2; once++) each_allocation(what);
}

int main(void) {
  mr_setup();
  lua_State *keeper = open();                    /* so that the runtime does not start anew for each of them */
  each("broken");
  each("late");
  each("close");
  each("buffered");
  each("listen");
  each("selector");
  lua_close(keeper);
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
