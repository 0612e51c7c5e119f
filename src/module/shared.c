/*
 * shared: objects outside all heaps as userdata, one per object and state (module.h tells how they are checked).
 *
 * The state's userdata are found through a weak table in the registry, keyed by address; so a channel that arrives twice is the same
 * value twice.
 */
#include "module/module.h"
#include "module/state.h"

uint64_t mr_secret;

static int is_box(const void *block, size_t size) {
  const mr_box *b = block;
  return size == sizeof *b && (!b->object || b->tag == (mr_secret ^ (uintptr_t)b->object));
}

mr_shared *mr_shared_check(lua_State *L, int idx, const mr_sharetype *type, const char *tname) {
  mr_shared *o = mr_shared_to(L, idx, type);
  if (PORT_UNLIKELY(!o)) {
    luaL_checkudata(L, idx, tname);              /* raises the usual message */
    luaL_argerror(L, idx, "it was finalised already");   /* reached out of another object's finaliser */
  }
  return o;
}

static void push_weak(lua_State *L) {
  if (luaL_getsubtable(L, LUA_REGISTRYINDEX, "mare.shared")) return;
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
}

void mr_shared_push(lua_State *L, mr_shared *o, const char *tname, void (*open)(lua_State *L)) {
  luaL_checkstack(L, 6, NULL);
  push_weak(L);
  if (lua_rawgetp(L, -1, o) == LUA_TUSERDATA) {
    lua_remove(L, -2);
    return;
  }
  lua_pop(L, 1);
  if (mr_in_process(L)) (*(mr_proc **)lua_getextraspace(L))->finalisers = 1;
  mr_box *b = lua_newuserdatauv(L, sizeof *b, 0);
  b->object = NULL;
  b->tag = 0;
  if (lua_getfield(L, LUA_REGISTRYINDEX, tname) == LUA_TNIL) {   /* registered only when it is complete */
    lua_pop(L, 1);
    lua_createtable(L, 0, 16);
    lua_pushstring(L, tname);
    lua_setfield(L, -2, "__name");
    open(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, LUA_REGISTRYINDEX, tname);
  }
  lua_setmetatable(L, -2);
  mr_retain(o);
  b->object = o;
  b->tag = mr_secret ^ (uintptr_t)o;
  lua_pushvalue(L, -1);
  lua_rawsetp(L, -3, o);
  lua_remove(L, -2);
}

static int l_push(lua_State *L) {
  mr_shared *o = lua_touserdata(L, 1);
  o->type->push(L, o);
  return 1;
}

void mr_shared_push_new(lua_State *L, mr_shared *o) {
  lua_pushcfunction(L, l_push);
  lua_pushlightuserdata(L, o);
  int status = lua_pcall(L, 1, 1, 0);
  mr_release(o);
  if (status != LUA_OK) lua_error(L);
}

static int l_gc(lua_State *L) {
  mr_box *b = lua_touserdata(L, 1);
  if (b && lua_rawlen(L, 1) == sizeof *b && b->object && b->tag == (mr_secret ^ (uintptr_t)b->object)) {
    mr_shared *o = b->object;
    b->object = NULL;
    b->tag = 0;
    mr_release(o);
  }
  return 0;
}

static int l_tostring(lua_State *L) {
  mr_box *b = lua_touserdata(L, 1);
  if (!b || lua_rawlen(L, 1) != sizeof *b || !b->object) return luaL_error(L, "bad object");
  lua_pushfstring(L, "%s: %p", b->object->type->name, (void *)b->object);
  return 1;
}

void mr_shared_fields(lua_State *L, const mr_sharetype *type) {
  lua_pushcfunction(L, l_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushcfunction(L, l_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushlightuserdata(L, (void *)type);
  lua_setfield(L, -2, "__share");
  lua_pushstring(L, type->name);
  lua_setfield(L, -2, "__metatable");
}

int mr_in_process(lua_State *L) {
  int in = lua_getfield(L, LUA_REGISTRYINDEX, "mare.require") != LUA_TNIL;
  lua_pop(L, 1);
  return in;
}

void mr_set_functions(lua_State *L, const luaL_Reg *l) {
  if (mr_in_process(L)) {
    luaL_setfuncs(L, l, 0);
    return;
  }
  lua_getfield(L, LUA_REGISTRYINDEX, "mare.host.record");
  luaL_setfuncs(L, l, 1);
}

static void start(lua_State *L, mr_proc *p) {
  mr_module_start(L, p);
  if (p->package) mr_package_take(L, p->package);
}

void mr_setup(void) {
  if (!mr_secret) mr_secret = port_entropy() | 1;
  mr_process_setup();
  mr_channel_setup();
  mr_share_valid = is_box;
  mr_hooks.open = mr_module_open;
  mr_hooks.start = start;
  mr_hooks.finalisers = mr_module_finalisers;
  mr_hooks.reset = lua_resetthread;
}

uint64_t mr_deadline(lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return UINT64_MAX;
  lua_Number s = luaL_checknumber(L, idx);
  luaL_argcheck(L, s == s, idx, "a number of seconds expected, got nan");
  if (s <= 0) return 0;
  if (s > 9e9) return UINT64_MAX;
  return port_now() + (uint64_t)(s * 1e9);
}

int mr_raise(lua_State *L, int err) { return luaL_error(L, "%s", mr_err_text(err)); }

void mr_raise_reason(lua_State *L, mr_fiber *f, mr_reason r) {
  if (r == MR_INTERRUPTED) mr_raise(L, MR_EINTR);
  if (r == MR_STOPPED) mr_raise(L, MR_ESTOPPED);
  if (r == MR_DEADLOCK) luaL_error(L, "%s", f->proc->text ? f->proc->text : mr_err_text(MR_EDEADLOCK));
}
