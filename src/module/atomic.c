/* mare.atomic: integers that processes share (share/atomic.h); atomic.once is in once.c. */
#include "module/atomic.h"
#include "share/atomic.h"
#include "share/key.h"
#include "share/named.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TNAME "atomic"

static const mr_class class;

static mr_atomic *atomic_check(lua_State *L) {
  mr_shared *o = mr_shared_to(L, 1, &class.share);
  return (mr_atomic *)(void *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, 1, &class.share, TNAME));
}

static int changed(lua_State *L, mr_fiber *f, mr_atomic *a, int64_t result) {
  mr_atomic_changed(a, f);
  lua_pushinteger(L, (lua_Integer)result);
  return 1;
}

/* ---- reading and changing ---- */

/* atomic:get() -> integer */
static int l_get(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)atomic_load(&atomic_check(L)->value));
  return 1;
}

static inline int add(lua_State *L, mr_fiber *f, int sign) {
  mr_atomic *a = atomic_check(L);
  int64_t n = lua_gettop(L) == 1 ? 1 : (int64_t)luaL_optinteger(L, 2, 1);
  if (sign < 0) n = (int64_t)(0 - (uint64_t)n);
  return changed(L, f, a, (int64_t)((uint64_t)atomic_fetch_add(&a->value, n) + (uint64_t)n));
}

/* atomic:add([n]) -> the sum */
static int l_add(lua_State *L) { return add(L, mr_self_fiber(L), 1); }
static int l_process_add(lua_State *L) { return add(L, mr_fiber_here(L), 1); }
/* atomic:sub([n]) -> the difference */
static int l_sub(lua_State *L) { return add(L, mr_self_fiber(L), -1); }

/* atomic:exchange(n) -> what it was */
static int l_exchange(lua_State *L) {
  mr_atomic *a = atomic_check(L);
  int64_t n = (int64_t)luaL_checkinteger(L, 2);
  return changed(L, mr_self_fiber(L), a, atomic_exchange(&a->value, n));
}

/* atomic:set(n) */
static int l_set(lua_State *L) {
  l_exchange(L);
  return 0;
}

/* atomic:cas(old, new) -> true | false, what it is */
static int l_cas(lua_State *L) {
  mr_atomic *a = atomic_check(L);
  int64_t old = (int64_t)luaL_checkinteger(L, 2), n = (int64_t)luaL_checkinteger(L, 3);
  int done = atomic_compare_exchange_strong(&a->value, &old, n);
  lua_pushboolean(L, done);
  if (!done) lua_pushinteger(L, (lua_Integer)old);
  else if (old != n) mr_atomic_changed(a, mr_self_fiber(L));
  return done ? 1 : 2;
}

static int towards(lua_State *L, int sign) {
  mr_atomic *a = atomic_check(L);
  int64_t n = (int64_t)luaL_checkinteger(L, 2), old = atomic_load(&a->value);
  do {
    if (sign > 0 ? n <= old : n >= old) return lua_pushinteger(L, (lua_Integer)old), 1;
    port_chaos();
  } while (!atomic_compare_exchange_weak(&a->value, &old, n));
  return changed(L, mr_self_fiber(L), a, n);
}

/* atomic:max(n), atomic:min(n) -> the larger, the smaller of n and what it was, which it is now */
static int l_max(lua_State *L) { return towards(L, 1); }
static int l_min(lua_State *L) { return towards(L, -1); }

/* ---- waiting: what it is compared with lies in the node's mail ---- */

static int64_t *compared(mr_wait *w) { return &w->mail->u.meeting.expected; }

static int wait_link(void *o, mr_wait *w) { return mr_atomic_link(o, *compared(w), w); }
static void wait_unlink(void *o, mr_wait *w) { mr_atomic_unlink(o, w); }

static int wait_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  int64_t value = atomic_load(&((mr_atomic *)o)->value);
  (void)why;
  if (value == *compared(w)) return -1;
  lua_pushinteger(L, (lua_Integer)value);
  return 1;
}

static void wait_prepare(lua_State *L, mr_case *c) {
  mr_operation_values(L, lua_gettop(L));
  *compared(&c->wait) = (int64_t)lua_tointeger(L, -1);
}

static const mr_waitclass waiting = { .run = { .op = "wait for an atomic", .link = wait_link, .unlink = wait_unlink, .shown = 1 }, .take = wait_take,
                                      .prepare = wait_prepare };

/* atomic:wait(old[, seconds]) -> the value, which is another one | nil, "timeout" */
static int l_wait(lua_State *L) {
  mr_atomic *a = atomic_check(L);
  mr_fiber *f = mr_self_fiber(L);
  int64_t old = (int64_t)luaL_checkinteger(L, 2);
  uint64_t deadline = mr_deadline(L, 3);
  f->wait.mail = &mr_lua_of(f)->mail;
  *compared(&f->wait) = old;
  return mr_await(L, f, &waiting, a, deadline);
}

/* atomic:changing(old) -> a case for select: it is ready when the value is another one */
static int l_changing(lua_State *L) {
  atomic_check(L);
  luaL_checkinteger(L, 2);
  lua_settop(L, 2);
  mr_operation_push(L, &waiting, 2);
  return 1;
}

/* ---- the objects ---- */

/* atomic:name() -> string | nil */
static int l_name(lua_State *L) {
  const mr_atomic *a = atomic_check(L);
  if (a->name) lua_pushlstring(L, a->name, a->name_length);
  else lua_pushnil(L);
  return 1;
}

static void describe(mr_shared *o, char *buf, size_t size) {
  const mr_atomic *a = (const mr_atomic *)(const void *)o;
  if (a->name) snprintf(buf, size, "on atomic '%.60s'", a->name);
  else snprintf(buf, size, "on atomic %p", (const void *)a);
}

static const luaL_Reg meta[] = { { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "get", l_get }, { "set", l_set }, { "add", l_add }, { "sub", l_sub }, { "exchange", l_exchange }, { "cas", l_cas }, { "max", l_max }, { "min", l_min },
  { "wait", l_wait }, { "changing", l_changing }, { "name", l_name }, { NULL, NULL }
};
static const luaL_Reg fast[] = { { "add", l_process_add }, { NULL, NULL } };
static void atomic_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = mr_atomic_destroy, .push = atomic_push, .describe = describe }, TNAME, meta, methods, fast, NULL };

/* ---- making ---- */

/* atomic.new([n]) -> atomic */
static int l_new(lua_State *L) {
  mr_atomic *a = mr_atomic_new(&class.share, (int64_t)luaL_optinteger(L, 1, 0));
  if (!a) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, &a->shared);
  return 1;
}

typedef struct wanted { const char *name; size_t length; int64_t value; } wanted;

static mr_shared *make_named(void *arg) {
  const wanted *w = arg;
  mr_atomic *a = mr_atomic_new(&class.share, w->value);
  if (!a) return NULL;
  a->name = malloc(w->length + 1);
  a->name_length = w->length;
  if (!a->name) {
    mr_release(&a->shared);
    return NULL;
  }
  memcpy(a->name, w->name, w->length);
  a->name[w->length] = 0;
  return &a->shared;
}

/* atomic.named(name[, n]) -> the atomic of that name, made with n if there is none */
static int l_named(lua_State *L) {
  wanted w;
  int made;
  w.name = luaL_checklstring(L, 1, &w.length);
  w.value = (int64_t)luaL_optinteger(L, 2, 0);
  mr_check_forked(L);
  mr_shared *o = mr_named_get(NAMED_ATOMIC, w.name, w.length, make_named, &w, &made);
  if (!o) return mr_raise(L, MR_ENOMEM);
  mr_shared_push_new(L, o);
  return 1;
}

static int drop(int space, const char *name, size_t length) {
  mr_shared *o = mr_named_drop(space, name, length, NULL);
  if (o) mr_release(o);
  return o != NULL;
}

/* atomic.drop(name) -> boolean: there was an atomic, or a once, of that name */
static int l_drop(lua_State *L) {
  size_t length;
  const char *name = luaL_checklstring(L, 1, &length);
  mr_check_forked(L);
  int dropped = drop(NAMED_ATOMIC, name, length);
  dropped |= drop(NAMED_ONCE, name, length);
  lua_pushboolean(L, dropped);
  return 1;
}

static const luaL_Reg functions[] = { { "new", l_new }, { "named", l_named }, { "drop", l_drop }, { "once", mr_once_l_once }, { NULL, NULL } };

void mr_atomic_setup(void) { mr_key_setup(); }

int luaopen_mare_atomic(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
