/*
 * value_custom: values that their classes write and read themselves.
 *
 * The functions of the environment call write and read of the class; a text that they return is why that failed. What write writes is collected as a list of types and values, which are
 * encoded when it has returned, so nothing it does can disturb the message. read gets a *cursor*, a userdata that reads the next value of a type where
 * the message is. It has a copy of the decoder, which goes back when read returns; its user values keep the bytes, or a copy of those that lie in C's stack, and
 * what the decoder needs. So a cursor that is used later, or in a coroutine, or after an error, reads what is there or raises, and nobody else notices.
 */
#include "cdr/value.h"
#include "cdr/put.h"
#include "cdr/get.h"
#include "cdr/bulk.h"
#include "transfer/transfer.h"

/* ---- writing ---- */

/* write(f, value, fields, light userdata type): f(value, the type's table) */
static int l_write(lua_State *L) {
  mr_push_type(L, 3, (const mr_type *)lua_touserdata(L, 4));
  lua_replace(L, 3);
  lua_settop(L, 3);
  lua_call(L, 2, 1);
  return 1;
}

int mr_custom_begin(mr_enc *e, const mr_type *t, mr_val v, uint64_t *n) {
  lua_State *L = e->L;
  if (lua_rawgeti(L, e->fields, ENV_WRITE) != LUA_TFUNCTION) return mr_refuse(e, "NO_IMPLEMENT", 0, "custom values can't be sent here");
  mr_push_val(e, v);
  lua_pushvalue(L, e->fields);
  lua_pushlightuserdata(L, (void *)(uintptr_t)t);
  if (mr_foreign(e, l_write, 4)) return -1;
  if (lua_type(L, -1) == LUA_TSTRING) return mr_refuse(e, "BAD_PARAM", 0, "%s", lua_tostring(L, -1));
  if (!lua_istable(L, -1)) return mr_refuse(e, "BAD_PARAM", 0, "what a custom value wrote is no list");
  lua_rawgeti(L, e->fields, ENV_N);
  lua_rawget(L, -2);
  *n = lua_isinteger(L, -1) && lua_tointeger(L, -1) > 0 ? (uint64_t)lua_tointeger(L, -1) : 0;
  lua_pop(L, 1);
  return 0;
}

/* ---- reading ---- */

enum { MESSAGE = 1, FIELDS, MET, USER_VALUES = MET };

typedef struct cursor {
  uintptr_t tag;
  const void *own[USER_VALUES];                /* the addresses of its user values */
  int closed;
  mr_dec d;
} cursor;

static const char cursor_tag;

static cursor *cursor_at(lua_State *L, int idx) {
  cursor *c = lua_rawlen(L, idx) >= sizeof *c ? lua_touserdata(L, idx) : NULL;
  if (!c || c->tag != ((uintptr_t)&cursor_tag ^ (uintptr_t)c)) luaL_argerror(L, idx, "the reader of a custom value expected");
  return c;
}

/* The decoder of the cursor in this call: its lists lie where it looks for them. */
static mr_dec decoder(lua_State *L, const cursor *c) {
  mr_dec d = c->d;
  for (int i = 1; i <= USER_VALUES; i++) {
    lua_getiuservalue(L, 1, i);
    if (lua_topointer(L, -1) != c->own[i - 1]) mr_env_changed(L);
  }
  d.L = L;
  lua_copy(L, -USER_VALUES, 2);                /* the message is where it always is */
  d.fields = lua_gettop(L) - 1;
  lua_pushvalue(L, d.fields);
  if (mr_seal_of(L, ENV_FIELDS) != d.env->seal) mr_env_changed(L);
  lua_pop(L, 1);
  return d;
}

/* cursor(type) -> value */
static int l_next(lua_State *L) {
  cursor *c = cursor_at(L, 1);
  if (c->closed) return luaL_error(L, "a custom value reads only inside its method 'read'");
  lua_settop(L, 2);
  luaL_checkstack(L, 30, NULL);
  lua_pushvalue(L, 2);
  mr_dec d = decoder(L, c);
  lua_pushvalue(L, 3);
  const mr_type *t = mr_type_get(L, d.env, d.fields, -1);
  int depth = d.depth;
  uint64_t reserved = d.reserved;
  mr_get(&d, t);
  mr_assert(d.depth == depth && d.reserved == reserved);
  (void)depth;
  (void)reserved;
  c->d.in = d.in;
  c->d.budget = d.budget;
  c->d.values = d.values;
  return 1;
}

/* The same place in the same bytes, which begin elsewhere. */
static mr_in moved(const mr_in *in, const char *origin) {
  mr_in to = *in;
#define MOVE(p) to.p = origin + (in->p - in->origin)
  MOVE(at); MOVE(end); MOVE(stop); MOVE(base);
  if (in->level) { MOVE(chunk); MOVE(edge); }
  to.origin = origin;
  return to;
#undef MOVE
}

/* Pushes what keeps the message: a string or a long message that is at index 2, else a copy. Where it begins then. */
static const char *push_message(mr_dec *d) {
  size_t n;
  const char *s = mr_bulk_bytes(d->L, 2, &n);
  if (s && s <= d->in.origin && d->in.end <= s + n) { lua_pushvalue(d->L, 2); return d->in.origin; }
  return lua_pushlstring(d->L, d->in.origin, (size_t)(d->in.end - d->in.origin));
}

static void push_cursor(mr_dec *d) {
  lua_State *L = d->L;
  const char *origin = push_message(d);
  int message = lua_gettop(L);
  cursor *c = lua_newuserdatauv(L, sizeof *c, USER_VALUES);
  c->tag = 0;
  c->closed = 0;
  c->d = *d;
  c->d.in = moved(&d->in, origin);
  int from[USER_VALUES] = { message, d->fields, d->fields + 1 };
  for (int i = 0; i < USER_VALUES; i++) {
    lua_pushvalue(L, from[i]);
    c->own[i] = lua_topointer(L, -1);
    lua_setiuservalue(L, -2, i + 1);
  }
  c->tag = (uintptr_t)&cursor_tag ^ (uintptr_t)c;
  if (luaL_newmetatable(L, "mare.orb.cdr.cursor")) {
    lua_pushcfunction(L, l_next);
    lua_setfield(L, -2, "__call");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
  }
  lua_setmetatable(L, -2);
  lua_remove(L, message);
}

void mr_custom_read(mr_dec *d, const mr_type *t) {
  lua_State *L = d->L;
  int object = lua_gettop(L);
  luaL_checkstack(L, 30, NULL);
  if (lua_rawgeti(L, d->fields, ENV_READER) != LUA_TFUNCTION) mr_dec_raise(d, "NO_IMPLEMENT", 0, "custom values can't be received here");
  push_cursor(d);
  lua_insert(L, object + 1);
  lua_pushvalue(L, object);
  lua_pushvalue(L, object + 1);
  mr_push_type(L, d->fields, t);
  lua_call(L, 3, 1);
  cursor *c = cursor_at(L, object + 1);
  c->closed = 1;
  d->in = moved(&c->d.in, d->in.origin);
  d->budget = c->d.budget;
  d->values = c->d.values;
  if (lua_type(L, -1) == LUA_TSTRING) mr_dec_raise(d, "MARSHAL", 0, lua_tostring(L, -1));
  lua_settop(L, object);
}
