/*
 * once: atomic.once, what is done once in the program (share/once.h).
 *
 * Who does it has a *guard* on its stack, a to-be-closed userdata: so an end by an error reaches those who wait, and an end without one - killed,
 * cancelled, a coroutine that nobody resumes - lets the next one try. A guard that is never closed is finalised, with its state at the latest.
 */
#include "module/atomic.h"
#include "module/value.h"
#include "process/limit.h"
#include "share/named.h"
#include "share/once.h"

#include <stdio.h>

#define TNAME "once"

static const mr_class class;

/* ---- the guard ---- */

typedef struct guard { mr_once *once; } guard;   /* referenced while it is to be ended; else NULL */
static const char guard_key;

static guard *guard_check(lua_State *L) {
  return lua_rawlen(L, 1) == sizeof(guard) && lua_getmetatable(L, 1) && lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_key) == LUA_TTABLE && lua_rawequal(L, -1, -2)
         ? lua_touserdata(L, 1) : NULL;
}

static void end(lua_State *L, guard *g, int how, mr_cell *cell) {
  mr_once *o = g->once;
  g->once = NULL;
  mr_once_end(o, how, cell, mr_self_fiber(L));
  mr_release(&o->shared);
}

/* error, place for a cell, fiber -> nothing: the error, or its text if it can't be sent */
static int l_pack_error(lua_State *L) {
  mr_cell **c = lua_touserdata(L, 2);
  mr_fiber *f = lua_touserdata(L, 3);
  *c = mr_cell_pack(L, f, 1, 1, "error");
  return 0;
}
static int l_pack_text(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  lua_replace(L, 1);
  return l_pack_error(L);
}

/* NULL: there is no memory for it. */
static mr_cell *pack_error(lua_State *L, int idx, mr_fiber *f) {
  static const lua_CFunction ways[] = { l_pack_error, l_pack_text };
  mr_cell *c = NULL;
  for (int i = 0; i < 2 && !c; i++) {
    lua_pushcfunction(L, ways[i]);
    lua_pushvalue(L, idx);
    lua_pushlightuserdata(L, &c);
    lua_pushlightuserdata(L, f);
    if (lua_pcall(L, 3, 0, 0) != LUA_OK) lua_pop(L, 1);
  }
  return c;
}

/* (guard[, error]): closed, or finalised */
static int l_guard_close(lua_State *L) {
  lua_settop(L, 2);
  guard *g = guard_check(L);
  if (!g || !g->once || mr_forked()) return 0;
  mr_fiber *f = mr_self_fiber(L);
  if (lua_isnil(L, 2) || mr_lua_due(mr_lua_of(f))) end(L, g, ONCE_NEW, NULL);
  else end(L, g, ONCE_FAILED, pack_error(L, 2, f));
  return 0;
}

static guard *guard_push(lua_State *L) {
  guard *g = lua_newuserdatauv(L, sizeof *g, 0);
  g->once = NULL;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &guard_key) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_createtable(L, 0, 2);
    mr_function_push(L, l_guard_close);
    lua_pushvalue(L, -1);
    lua_setfield(L, -3, "__close");
    lua_setfield(L, -2, "__gc");
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &guard_key);
  }
  lua_setmetatable(L, -2);
  return g;
}

/* ---- doing it. Stack: 1 once, 2 guard, 3 function or nil, 4… arguments ---- */

/* Its results from index `first` on are those of all. */
static int done(lua_State *L, int first) {
  guard *g = lua_touserdata(L, 2);
  int n = lua_gettop(L) - first + 1;
  mr_cell *c = n > 0 ? mr_cell_pack(L, mr_self_fiber(L), first, n, "result") : NULL;
  end(L, g, ONCE_DONE, c);
  return n;
}

static int done_k(lua_State *L, int status, lua_KContext first) {
  (void)status;
  return done(L, (int)first);
}

static int run(lua_State *L, mr_once *o) {
  int n = lua_gettop(L) - 3;
  lua_toclose(L, 2);
  if (o->body) mr_cell_push(L, o->body);
  else lua_pushvalue(L, 3);
  for (int i = 4; i <= n + 3; i++) lua_pushvalue(L, i);
  lua_callk(L, n, LUA_MULTRET, n + 4, done_k);
  return done(L, n + 4);
}

/* ---- waiting: the round that is waited for lies in the node's mail ---- */

static int64_t *since(mr_wait *w) { return &w->mail->u.meeting.expected; }

static int wait_link(void *o, mr_wait *w) { return mr_once_link(o, (uint64_t)*since(w), w); }
static void wait_unlink(void *o, mr_wait *w) { mr_once_unlink(o, w); }

static int failed(lua_State *L, mr_cell *failure) {
  mr_dict_value v = { .kind = DICT_OBJECT, .object = (mr_shared *)failure };
  if (!failure) return mr_raise(L, MR_ENOMEM);
  mr_value_push(L, &v);
  return lua_error(L);
}

static int take(lua_State *L, void *object, mr_wait *w, mr_reason why) {
  mr_once *o = object;
  mr_cell *failure;
  uint64_t round = (uint64_t)*since(w);
  (void)why;
  for (;;) {
    int state = mr_once_look(o, w->fiber, &round, &failure);
    switch (state) {
      case ONCE_DONE: return o->outcome ? mr_cell_push(L, o->outcome) : 0;
      case ONCE_FAILED: return failed(L, failure);
      case ONCE_INSIDE: return luaL_error(L, "once: it is called inside its own function");
      case ONCE_RUNNING: *since(w) = (int64_t)round; return -1;
      default: break;
    }
    guard *g = lua_touserdata(L, 2);
    luaL_checkstack(L, lua_gettop(L) + 4, "too many arguments");   /* nothing may fail between beginning and the guard's duty */
    if (!mr_once_begin(o, w->fiber)) continue;
    mr_retain(&o->shared);
    g->once = o;
    return run(L, o);
  }
}

static const mr_waitclass waiting = { .run = { .op = "wait for what is done once", .link = wait_link, .unlink = wait_unlink, .shown = 1 }, .take = take };

static int call(lua_State *L) {
  mr_once *o = (mr_once *)(void *)mr_shared_check(L, 1, &class.share, TNAME);
  mr_fiber *f = mr_self_fiber(L);
  f->wait.mail = &mr_lua_of(f)->mail;
  *since(&f->wait) = 0;
  return mr_await(L, f, &waiting, o, UINT64_MAX);
}

/* once(…) -> results. Stack: once, arguments… */
static int l_call(lua_State *L) {
  mr_shared_check(L, 1, &class.share, TNAME);
  guard_push(L);
  lua_insert(L, 2);
  lua_pushnil(L);
  lua_insert(L, 3);
  return call(L);
}

static int called_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  (void)ctx;
  return lua_gettop(L);
}

/* Functions of a metatable don't know their host. */
static int l_meta_call(lua_State *L) {
  luaL_checkstack(L, 2, NULL);
  mr_function_push(L, l_call);
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 0, called_k);
  return lua_gettop(L);
}

/* once:done() -> boolean */
static int l_done(lua_State *L) {
  mr_once *o = (mr_once *)(void *)mr_shared_check(L, 1, &class.share, TNAME);
  mr_cell *failure;
  uint64_t round = 0;
  lua_pushboolean(L, mr_once_look(o, NULL, &round, &failure) == ONCE_DONE);
  return 1;
}

/* ---- the objects ---- */

static void describe(mr_shared *o, char *buf, size_t size) { snprintf(buf, size, "on once %p", (void *)o); }

static const luaL_Reg meta[] = { { "__call", l_meta_call }, { NULL, NULL } };
static const luaL_Reg methods[] = { { "done", l_done }, { NULL, NULL } };
static void once_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = mr_once_destroy, .push = once_push, .describe = describe }, TNAME, meta, methods, NULL, NULL };

static mr_shared *make_named(void *arg) {
  (void)arg;
  return (mr_shared *)(void *)mr_once_new(&class.share, NULL);
}

static int named(lua_State *L) {
  size_t length;
  const char *name = lua_tolstring(L, 1, &length);
  int made;
  luaL_checktype(L, 2, LUA_TFUNCTION);
  mr_check_forked(L);
  mr_shared *o = mr_named_get(NAMED_ONCE, name, length, make_named, NULL, &made);
  if (!o) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, o);
  lua_replace(L, 1);
  guard_push(L);
  lua_insert(L, 2);
  return call(L);
}

/*
 * atomic.once(name, f, …) -> results of f(…), which is called once in the program for that name
 * atomic.once(f) -> once: calling it calls f, once
 */
int mr_once_l_once(lua_State *L) {
  if (lua_type(L, 1) == LUA_TSTRING) return named(L);
  if (lua_type(L, 1) != LUA_TFUNCTION) return luaL_typeerror(L, 1, "name and function, or function");
  mr_cell *body = mr_cell_pack(L, mr_self_fiber(L), 1, 1, "argument");
  mr_once *o = mr_once_new(&class.share, body);
  if (!o) {
    mr_release(&body->shared);
    return mr_raise(L, MR_ENOMEM);
  }
  mr_shared_push_new(L, &o->shared);
  return 1;
}
