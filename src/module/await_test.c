/*
 * The contract of process/await.h, step by step, with a waitable of its own: an event that counts what is asked of it. In places that wait in
 * each of the three ways: a host, a fiber of it, and a process, there also in a comparator.
 */
#include <stdio.h>
#include <string.h>
#include "lua/compat.h"
#include "module/module.h"

static int failures;

/* ---- the waitable: what it says is set from Lua ---- */

static struct {
  mr_event event;
  int take, link, unlink, give_up;         /* calls */
  int refuse;                              /* link gives that instead of queueing, `refusals` times */
  int refusals;
  int extend;                              /* so many times give_up goes on, for another moment */
  int hasty;                               /* take wants to be asked again at once, so many times */
  int linked_open;                         /* nodes in the queue that were linked and not unlinked: 0 or 1 */
  int bad;                                 /* what must not happen has happened */
  mr_reason last;
} t;

static int tried_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  t.take++;
  t.last = why;
  if (o != &t || w != &w->fiber->wait || w->what != 7 || (t.linked_open && why != MR_WOKEN)) t.bad++;
  t.linked_open = 0;
  if (mr_event_is_set(&t.event)) return lua_pushinteger(L, t.take), 1;
  if (t.hasty > 0 && t.hasty--) w->fiber->deadline = port_now();
  return -1;
}

static int tried_link(void *o, mr_wait *w) {
  t.link++;
  if (o != &t || w->what != 7 || t.linked_open) t.bad++;
  if (t.refusals > 0 && t.refusals--) return t.refuse;
  if (mr_event_wait(&t.event, w)) return 1;
  t.linked_open = 1;
  return 0;
}

static void tried_unlink(void *o, mr_wait *w) {
  t.unlink++;
  if (o != &t || !t.linked_open) t.bad++;
  t.linked_open = 0;
  mr_event_unwait(&t.event, w);
}

static int tried_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  t.give_up++;
  t.last = why;
  if (o != &t || t.linked_open || w->what != 7) t.bad++;
  if (why != MR_TIMEOUT || t.extend == 0) return MR_AWAIT_TIMEOUT;
  t.extend--;
  w->fiber->deadline = port_now() + 1000000;
  return MR_AWAIT_ON;
}

static const mr_waitclass tried = { .run = { .op = "try", .link = tried_link, .unlink = tried_unlink }, .take = tried_take, .give_up = tried_give_up };

static int l_wait(lua_State *L) { return mr_await_as(L, mr_self_fiber(L), &tried, &t, 7, mr_deadline(L, 1)); }

static int l_set(lua_State *L) {
  mr_event_set(&t.event, mr_self_fiber(L));
  return 0;
}

static int l_reset(lua_State *L) {
  memset(&t, 0, sizeof t);
  mr_event_init(&t.event);
  t.refuse = (int)luaL_optinteger(L, 1, 0);
  t.refusals = (int)luaL_optinteger(L, 2, 0);
  t.extend = (int)luaL_optinteger(L, 3, 0);
  t.hasty = (int)luaL_optinteger(L, 4, 0);
  return 0;
}

/* -> take, link, unlink, give_up, bad */
static int l_calls(lua_State *L) {
  int n[] = { t.take, t.link, t.unlink, t.give_up, t.bad };
  for (int i = 0; i < 5; i++) lua_pushinteger(L, n[i]);
  return 5;
}

static int luaopen_tried(lua_State *L) {
  static const luaL_Reg functions[] = { { "wait", l_wait }, { "set", l_set }, { "reset", l_reset }, { "calls", l_calls }, { NULL, NULL } };
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  return 1;
}

static const char script[] =
  "local mare = require 'mare'\n"
  "local body = [[\n"
  "  local where, cancelled = ...\n"
  "  local mare, tried = require 'mare', require 'tried'\n"
  "  local function calls(take, link, unlink, give_up, what)\n"
  "    local n = { tried.calls() }\n"
  "    local want = { take, link, unlink, give_up, 0 }\n"
  "    for i = 1, 5 do\n"
  "      if want[i] and n[i] ~= want[i] then error(('%s, %s: call %d: %d, not %d'):format(where, what, i, n[i], want[i]), 0) end\n"
  "    end\n"
  "  end\n"
  "  local function late(what, ...) assert(select('#', ...) == 2 and (...) == nil and select(2, ...) == 'timeout', what) end\n"
  "  tried.reset() tried.set()\n"
  "  assert(tried.wait() == 1) calls(1, 0, 0, 0, 'ready: no ticket, no queue')\n"
  "  tried.reset() late('at once', tried.wait(0)) calls(1, 0, 0, 1, 'no time: nothing is queued')\n"
  "  tried.reset() late('later', tried.wait(0.005)) calls(1, 1, 1, 1, 'the time is over: out of the queue, then given up')\n"
  "  tried.reset(1, 3) late('again', tried.wait(0.005)) calls(4, 4, 1, 1, 'link finds news: asked again, nothing to take out')\n"
  "  tried.reset(0, 0, 2) late('extended', tried.wait(0.001)) calls(3, 3, 3, 3, 'it goes on twice')\n"
  "  tried.reset(0, 0, 0, 2) late('hasty', tried.wait(0.5)) calls(3, 3, 3, 1, 'asked again before its time, not given up')\n"
  "  tried.reset(-1, 1)\n"
  "  local ok, err = pcall(tried.wait, 1)\n"
  "  assert(not ok and err == 'not enough memory', err) calls(1, 1, 0, 1, 'no memory to be queued: an error, after it was given up')\n"
  "  tried.reset()\n"
  "  mare.fiber.spawn(function() tried.set() end)\n"
  "  assert(tried.wait(20) == 2) calls(2, 1, 0, 0, 'woken by its own node: that is out already')\n"
  "  if cancelled then\n"
  "    tried.reset()\n"
  "    local f = mare.fiber.spawn(function() tried.wait() end)\n"
  "    mare.fiber.yield()\n"
  "    f:cancel()\n"
  "    assert(f:wait(20) == false) calls(1, 1, 1, 1, 'cancelled: out of the queue, given up, an error')\n"
  "  end\n"
  "]]\n"
  "local run = assert(load(body))\n"
  "run('a host', true)\n"
  "local ok, err = mare.fiber.spawn(run, 'a fiber of a host', true):wait() assert(ok, err)\n"
  "ok, err = mare.process.spawn(body, 'a process', true):wait() assert(ok, err)\n"
  "local source = 'local body = ...; table.sort({ 2, 1 }, function(a, b) assert(load(body))(\"a comparator\") return a < b end)'\n"
  "ok, err = mare.process.spawn(source, body):wait() assert(ok, err)\n";

int main(void) {
  mr_modules_add("tried", luaopen_tried);
  mr_setup();
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  luaL_requiref(L, "mare", luaopen_mare, 0);
  luaL_requiref(L, "tried", luaopen_tried, 0);
  if (luaL_dostring(L, script)) {
    fprintf(stderr, "%s\n", lua_tostring(L, -1));
    failures++;
  }
  lua_close(L);
  return failures != 0;
}
