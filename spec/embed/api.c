/* api: every function of include/mare.h from a C program that is linked with Lua alone. */
#include "mare.h"
#include "check.h"

#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const mare_api *mare;

static int l_processes(lua_State *L) {
  int top = lua_gettop(L);
  lua_pushliteral(L, "return ...");
  lua_pushinteger(L, 41);
  lua_pushliteral(L, "x");
  mare->process_spawn(L, 2);
  CHECK(lua_gettop(L) == top + 1);
  CHECK(mare->process_wait(L, -1, MARE_FOREVER, 0, NULL) == 3);
  CHECK(lua_toboolean(L, -3) && lua_tointeger(L, -2) == 41 && strcmp(lua_tostring(L, -1), "x") == 0);
  lua_settop(L, top);

  luaL_loadstring(L, "error('broken', 0)");
  mare->process_spawn(L, 0);
  int n = mare->process_wait(L, -1, MARE_FOREVER, 0, NULL);
  CHECK(n == 3 && !lua_toboolean(L, -3) && strcmp(lua_tostring(L, -2), "broken") == 0);
  lua_settop(L, top);

  lua_pushliteral(L, "require 'mare'.channel.named('gate'):receive()");
  mare->process_spawn(L, 0);
  n = mare->process_wait(L, -1, 0.01, 0, NULL);
  CHECK(n == 2 && lua_isnil(L, -2) && strcmp(lua_tostring(L, -1), "timeout") == 0);
  CHECK(mare->process_count() == 1);
  mare->channel_named(L, "gate", 0);
  lua_pushboolean(L, 1);
  mare->channel_send(L, -2, 1, MARE_FOREVER, 0, NULL);
  CHECK(lua_toboolean(L, -2) && lua_isnil(L, -1));
  mare->channel_close(L, -3);
  lua_settop(L, top);

  mare->process_self(L);
  mare->process_self(L);
  CHECK(lua_rawequal(L, -1, -2));
  double t = mare->clock_now();
  mare->process_sleep(L, 0.02, 0, NULL);
  CHECK(mare->clock_now() - t >= 0.02);
  lua_settop(L, top);
  return 0;
}

static int l_channels(lua_State *L) {
  mare->channel_new(L, 2);
  for (int i = 0; i < 2; i++) {
    lua_pushinteger(L, i);
    lua_pushliteral(L, "and more");
    mare->channel_send(L, 1, 2, 0, 0, NULL);
    CHECK(lua_toboolean(L, -2));
    lua_settop(L, 1);
  }
  lua_pushinteger(L, 3);
  mare->channel_send(L, 1, 1, 0.01, 0, NULL);
  CHECK(lua_gettop(L) == 3 && lua_isnil(L, -2) && strcmp(lua_tostring(L, -1), "timeout") == 0);
  lua_settop(L, 1);
  for (int i = 0; i < 2; i++) {
    CHECK(mare->channel_receive(L, 1, MARE_FOREVER, 0, NULL) == 2);
    CHECK(lua_tointeger(L, -2) == i);
    lua_settop(L, 1);
  }
  CHECK(mare->channel_receive(L, 1, 0, 0, NULL) == 2 && lua_isnil(L, -2));
  lua_settop(L, 1);
  mare->channel_close(L, 1);
  CHECK(mare->channel_receive(L, 1, MARE_FOREVER, 0, NULL) == 2 && strcmp(lua_tostring(L, -1), "closed") == 0);
  CHECK(!mare->channel_find(L, "nobody's"));
  mare->channel_named(L, "somebody's", MARE_UNBOUNDED);
  CHECK(mare->channel_find(L, "somebody's") && lua_rawequal(L, -1, -2));
  mare->channel_close(L, -1);
  return 0;
}

static int dropped;
static void drop_static(void *ud, void *bytes, size_t n) { dropped += ud == &dropped && bytes && n == 5; }

static int l_buffers(lua_State *L) {
  size_t n;
  mare->buffer_push(L, "a\0b", 3);
  CHECK(memcmp(mare->buffer_bytes(L, -1, &n), "a\0b", 3) == 0 && n == 3);
  lua_pushliteral(L, "abc");
  CHECK(!mare->buffer_bytes(L, -1, &n) && !mare->buffer_bytes(L, lua_gettop(L) + 1, NULL));
  char *p = mare->buffer_new(L, 4);
  CHECK(memcmp(p, "\0\0\0\0", 4) == 0);
  memcpy(p, "wxyz", 4);
  p = mare->buffer_change(L, -1, &n);
  CHECK(n == 4 && p[3] == 'z');
  p[0] = 'W';
  mare->buffer_seal(L, -1);
  lua_setglobal(L, "B");
  run(L, "assert(tostring(B) == 'Wxyz' and B:sealed())");
  CHECK(mare->buffer_new(L, 0) != NULL);
  static char text[] = "given";
  mare->buffer_adopt(L, text, 5, drop_static, &dropped);
  lua_setglobal(L, "B");
  run(L, "assert(select(2, require 'mare'.process.spawn(function(b) return b:slice(2) end, B):wait()) == require 'mare.buffer'.of 'iven')");
  CHECK(!dropped);
  run(L, "B = nil collectgarbage() collectgarbage()");
  CHECK(dropped == 1);
  mare->buffer_adopt(L, strdup("malloc's"), 8, NULL, NULL);
  CHECK(memcmp(mare->buffer_bytes(L, -1, &n), "malloc's", 8) == 0 && n == 8);
  return 0;
}

static int l_mistake(lua_State *L) {
  lua_settop(L, 1);
  mare->channel_send(L, 1, 0, MARE_FOREVER, 0, NULL);
  return 0;
}

/* Lua code may do to its modules what it likes. */
static int l_changed_modules(lua_State *L) {
  run(L, "local mare = require 'mare' for _, t in ipairs { mare, mare.channel, mare.process } do for k in pairs(t) do t[k] = nil end end");
  mare->channel_new(L, 1);
  mare->process_self(L);
  mare->process_sleep(L, 0, 0, NULL);
  return 0;
}

static void protect(lua_State *L, lua_CFunction f) {
  lua_pushcfunction(L, f);
  if (lua_pcall(L, 0, 0, 0) != LUA_OK) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    exit(1);
  }
}

static void mistakes(lua_State *L) {
  lua_pushcfunction(L, l_mistake);
  lua_newtable(L);
  CHECK(lua_pcall(L, 1, 0, 0) == LUA_ERRRUN && strstr(lua_tostring(L, -1), "mare.channel"));
  lua_pop(L, 1);
  run(L, "P = require 'mare'.process.spawn('require [[mare]].channel.new():receive()')");
  CHECK(mare->host_join(L) == LUA_ERRRUN);
  CHECK(strstr(lua_tostring(L, -1), "deadlock") && strstr(lua_tostring(L, -1), "receive"));
  lua_pop(L, 1);
}

/* A descriptor, and the host's fibers in a loop of the program's own. */
static int l_outside(lua_State *L) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  mare->fd_wait(L, ends[0], 'r', 0.01, 0, NULL);
  CHECK(lua_isnil(L, -2) && strcmp(lua_tostring(L, -1), "timeout") == 0);
  CHECK(write(ends[1], "x", 1) == 1);
  mare->fd_wait(L, ends[0], 'b', MARE_FOREVER, 0, NULL);
  CHECK(strcmp(lua_tostring(L, -2), "r") == 0);
  close(ends[0]);
  close(ends[1]);
  struct pollfd p = { .fd = mare->host_descriptor(L), .events = POLLIN };
  CHECK(poll(&p, 1, 0) == 0 && mare->host_step(L) == 0);
  run(L, "require 'mare'.fiber.spawn(function() require 'mare'.sleep(0.01) STEPPED = true end)");
  for (int i = 0; i < 1000 && lua_getglobal(L, "STEPPED") == LUA_TNIL; i++) {
    poll(&p, 1, 1000);
    mare->host_step(L);
    lua_pop(L, 1);
  }
  CHECK(lua_toboolean(L, -1) && poll(&p, 1, 0) == 0);
  return 0;
}

/* A process that waits for ever ends with its program. */
int main(void) {
  lua_State *L = open_state();
  CHECK(mare_api_get(L) == NULL);
  mare = mare_api_require(L);
  CHECK(mare && mare == mare_api_get(L));
  CHECK(mare->version == MARE_API_VERSION && mare->size == sizeof *mare && strlen(mare->release) >= 5);
  protect(L, l_outside);
  CHECK(mare->workers_set(3) == 0 && mare->workers_get() == 3);
  CHECK(strcmp(mare->error_text(1), "not enough memory") == 0);
  protect(L, l_processes);
  protect(L, l_channels);
  protect(L, l_buffers);
  CHECK(mare->host_join(L) == LUA_OK);

  lua_State *other = open_state();               /* no path is needed for a second one */
  CHECK(mare->host_open(other) == LUA_OK && lua_istable(other, -1));
  run(other, "assert(package.loaded.mare.channel)");
  run(other, "P = package.loaded.mare.process.spawn('return 5')");
  run(other, "assert(select(2, P:wait()) == 5)");
  protect(L, l_changed_modules);
  protect(other, l_changed_modules);
  lua_close(other);
  lua_close(L);

  L = open_state();                              /* and again after the last one closed */
  CHECK(mare->host_open(L) == LUA_OK);
  protect(L, l_processes);
  mistakes(L);
  lua_close(L);
  puts("ok");
  return 0;
}
