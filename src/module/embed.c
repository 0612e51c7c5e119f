/*
 * embed: the table of include/mare.h.
 *
 * Every function stands on the Lua function of the same meaning, found in the registry and called with the caller's continuation; so a C
 * module parks, yields and fails as Lua code does.
 */
#include "module/module.h"
#include "module/rules.h"
#include "channel/channel.h"
#include "module/buflib.h"

#include <math.h>
#include <stdlib.h>

#include "mare.h"

#define CHANNEL "mare.channel"
#define PROCESS "mare.process"

/* ---- finding functions ---- */

/* Pushes function `name` that `open` puts into its table: a table of our own, as the program may change what it required. */
static void push_function(lua_State *L, lua_CFunction open, const char *name) {
  luaL_checkstack(L, 8, NULL);
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, (void *)(size_t)open) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_pushcfunction(L, open);
    lua_call(L, 0, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, (void *)(size_t)open);
  }
  lua_getfield(L, -1, name);
  lua_replace(L, -2);
}

/* Pushes the method and the object at idx, which it checks. */
static void push_method(lua_State *L, int idx, const mr_sharetype *type, const char *tname, const char *name) {
  idx = lua_absindex(L, idx);
  luaL_checkstack(L, 8, NULL);
  mr_shared_check(L, idx, type, tname);
  lua_getmetatable(L, idx);
  lua_getfield(L, -1, name);
  lua_replace(L, -2);
  lua_pushvalue(L, idx);
}

static int push_seconds(lua_State *L, double seconds) {
  if (seconds < 0) return 0;
  lua_pushnumber(L, seconds);
  return 1;
}

static void push_capacity(lua_State *L, double capacity) {
  lua_pushnumber(L, capacity < 0 ? (lua_Number)HUGE_VAL : (lua_Number)capacity);
}

/* ---- hosts ---- */

static int l_open(lua_State *L) {
  luaL_requiref(L, "mare", luaopen_mare, 0);
  return 1;
}

static int host_open(lua_State *L) {
  if (!lua_checkstack(L, 4)) return LUA_ERRMEM;
  lua_pushcfunction(L, l_open);
  return lua_pcall(L, 0, 1, 0);
}

static int l_join(lua_State *L) {
  mr_proc *h = mr_in_process(L) ? NULL : mr_host_of(L);
  if (!h) return luaL_error(L, "only a host can wait for the end of all processes");
  int err = mr_host_join(h);
  if (err == MR_EDEADLOCK && h->text) return luaL_error(L, "%s", h->text);
  return err ? mr_raise(L, err) : 0;
}

static int host_join(lua_State *L) {
  if (!lua_checkstack(L, 4)) return LUA_ERRMEM;
  lua_pushcfunction(L, l_join);
  return lua_pcall(L, 0, 0, 0);
}

/* ---- processes ---- */

static void process_spawn(lua_State *L, int n) {
  push_function(L, luaopen_mare_process, "spawn");
  lua_insert(L, -n - 2);
  lua_call(L, n + 1, 1);
}

static int process_wait(lua_State *L, int handle, double seconds, lua_KContext ctx, lua_KFunction k) {
  int top = lua_gettop(L);
  push_method(L, handle, mr_proc_type, PROCESS, "wait");
  lua_callk(L, 1 + push_seconds(L, seconds), LUA_MULTRET, ctx, k);
  return lua_gettop(L) - top;
}

static void process_self(lua_State *L) {
  push_function(L, luaopen_mare_process, "self");
  lua_call(L, 0, 1);
}

static void process_sleep(lua_State *L, double seconds, lua_KContext ctx, lua_KFunction k) {
  push_function(L, luaopen_mare, "sleep");
  lua_pushnumber(L, seconds < 0 ? (lua_Number)HUGE_VAL : (lua_Number)seconds);
  lua_callk(L, 1, 0, ctx, k);
}

/* ---- channels ---- */

static void channel_new(lua_State *L, double capacity) {
  push_function(L, luaopen_mare_channel, "new");
  push_capacity(L, capacity);
  lua_call(L, 1, 1);
}

static void channel_named(lua_State *L, const char *name, double capacity) {
  push_function(L, luaopen_mare_channel, "named");
  lua_pushstring(L, name);
  push_capacity(L, capacity);
  lua_call(L, 2, 1);
}

static int channel_find(lua_State *L, const char *name) {
  push_function(L, luaopen_mare_channel, "find");
  lua_pushstring(L, name);
  lua_call(L, 1, 1);
  return !lua_isnil(L, -1);
}

static void channel_close(lua_State *L, int channel) {
  push_method(L, channel, mr_channel_type, CHANNEL, "close");
  lua_call(L, 1, 0);
}

static void channel_send(lua_State *L, int channel, int n, double seconds, lua_KContext ctx, lua_KFunction k) {
  int timed = seconds >= 0;
  push_method(L, channel, mr_channel_type, CHANNEL, timed ? "send_within" : "send");
  int pushed = 2 + (timed ? push_seconds(L, seconds) : 0);
  lua_rotate(L, -n - pushed, pushed);
  lua_callk(L, n + pushed - 1, 2, ctx, k);
}

static int channel_receive(lua_State *L, int channel, double seconds, lua_KContext ctx, lua_KFunction k) {
  int top = lua_gettop(L);
  push_method(L, channel, mr_channel_type, CHANNEL, "receive");
  lua_callk(L, 1 + push_seconds(L, seconds), LUA_MULTRET, ctx, k);
  return lua_gettop(L) - top;
}

/* ---- the world outside ---- */

static void fd_wait(lua_State *L, int fd, char how, double seconds, lua_KContext ctx, lua_KFunction k) {
  push_function(L, luaopen_mare, "wait_fd");
  lua_pushinteger(L, fd);
  lua_pushstring(L, how == 'b' ? "rw" : how == 'w' ? "w" : "r");
  lua_callk(L, 2 + push_seconds(L, seconds), 2, ctx, k);
}

static int call_integer(lua_State *L, const char *name) {
  push_function(L, luaopen_mare, name);
  lua_call(L, 0, 1);
  int n = (int)lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n;
}

static int host_descriptor(lua_State *L) { return call_integer(L, "descriptor"); }
static int host_step(lua_State *L) { return call_integer(L, "step"); }

/* ---- buffers ---- */

static void *buffer_new(lua_State *L, size_t n) {
  luaL_checkstack(L, 10, NULL);
  mr_buffer_push_open(L, n);
  return (void *)(size_t)mr_buffer_here(L, -1)->bytes;
}

static void buffer_push(lua_State *L, const void *bytes, size_t n) {
  luaL_checkstack(L, 10, NULL);
  mr_buffer_push_copy(L, bytes, n);
}

/* What a module gave, to be dropped by its function. */
typedef struct lent { void (*drop)(void *ud, void *bytes, size_t n); void *ud, *bytes; size_t n; } lent;

static void drop_lent(mr_store *s) {
  lent *l = s->block;
  if (l->drop) l->drop(l->ud, l->bytes, l->n);
  else free(l->bytes);
  free(l);
}

static void buffer_adopt(lua_State *L, void *bytes, size_t n, void (*drop)(void *ud, void *bytes, size_t n), void *ud) {
  lent *l = lua_checkstack(L, 10) ? malloc(sizeof *l) : NULL;
  if (!l) {
    if (drop) drop(ud, bytes, n);
    else free(bytes);
    mr_raise(L, MR_ENOMEM);
  }
  *l = (lent){ drop, ud, bytes, n };
  mr_buffer_adopt_by(L, l, bytes, n, drop_lent, NULL);
}

static const void *buffer_bytes(lua_State *L, int idx, size_t *n) {
  const mr_buffer *b = mr_buffer_here(L, idx);
  if (!b) return NULL;
  if (n) *n = b->length;
  return b->bytes;
}

static void *buffer_change(lua_State *L, int idx, size_t *n) {
  luaL_checkstack(L, 10, NULL);
  mr_buffer *b = mr_buffer_edit_all(L, lua_absindex(L, idx));
  if (n) *n = b->length;
  return mr_buffer_at(b, 0);
}

static void buffer_seal(lua_State *L, int idx) {
  luaL_checkstack(L, 10, NULL);
  lua_pushvalue(L, idx);
  mr_buffer_seal_at(L, lua_gettop(L));
  lua_pop(L, 1);
}

/* ---- the table ---- */

static double clock_now(void) { return (double)port_now() * 1e-9; }
static int workers_set(int n) { return mr_forked() ? MR_EFORK : mr_workers_set(n); }

static const mare_api api = {
  .version = MARE_API_VERSION,
  .size = sizeof(mare_api),
  .release = MARE_RELEASE,
  .host_open = host_open,
  .host_join = host_join,
  .process_spawn = process_spawn,
  .process_wait = process_wait,
  .process_self = process_self,
  .process_sleep = process_sleep,
  .process_count = mr_proc_count,
  .channel_new = channel_new,
  .channel_named = channel_named,
  .channel_find = channel_find,
  .channel_close = channel_close,
  .channel_send = channel_send,
  .channel_receive = channel_receive,
  .workers_get = mr_workers_get,
  .workers_set = workers_set,
  .clock_now = clock_now,
  .error_text = mr_err_text,
  .fd_wait = fd_wait,
  .host_descriptor = host_descriptor,
  .host_step = host_step,
  .buffer_push = buffer_push,
  .buffer_new = buffer_new,
  .buffer_adopt = buffer_adopt,
  .buffer_bytes = buffer_bytes,
  .buffer_change = buffer_change,
  .buffer_seal = buffer_seal,
  .transfer_register = mr_rules_register,
};

void mr_embed_open(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&api);
  lua_setfield(L, LUA_REGISTRYINDEX, MARE_API_FIELD);
}
