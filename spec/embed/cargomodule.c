/*
 * cargomodule: userdata that are sent, in each of the ways of include/mare.h. Everything is counted, so that a test sees what was finalised twice or
 * never.
 */
#include "mare.h"

#include <lauxlib.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_int made, ended, packed, back;

/* ---- box: what it stands for is taken out ---- */

typedef struct thing { int value; atomic_int refs; } thing;
typedef struct box { thing *thing; } box;

static thing *thing_new(int value) {
  thing *t = malloc(sizeof *t);
  if (!t) return NULL;
  t->value = value;
  atomic_init(&t->refs, 1);
  made++;
  return t;
}

static void thing_end(void *object) {
  free(object);
  ended++;
}

static const char *box_busy(lua_State *L, int idx) {
  box *b = lua_touserdata(L, idx);
  return !b->thing ? "it is closed" : b->thing->value < 0 ? "it is negative" : NULL;
}

static int box_pack(lua_State *L, int idx, void **object) {
  box *b = lua_touserdata(L, idx);
  *object = b->thing;
  b->thing = NULL;
  packed++;
  return 0;
}

static void box_unpack(lua_State *L, int idx, void *object) { ((box *)lua_touserdata(L, idx))->thing = object; }

static void box_back(lua_State *L, int idx, void *object) {
  if (((box *)lua_touserdata(L, idx))->thing == object) back++;
}

static const mare_transfer box_rule = {
  .version = MARE_TRANSFER_VERSION, .way = MARE_MOVE, .module = "cargomodule", .size = sizeof(box),
  .busy = box_busy, .pack = box_pack, .unpack = box_unpack, .back = box_back, .drop = thing_end,
};

static int l_box_gc(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "cargo.box");
  if (b->thing) thing_end(b->thing);
  b->thing = NULL;
  return 0;
}

static int l_box_get(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "cargo.box");
  lua_pushinteger(L, b->thing ? b->thing->value : 0);
  return 1;
}

/* ---- plain: a block with a pointer into itself, finalised by the library ---- */

typedef struct plain { int value, *own; } plain;

static void plain_unpack(lua_State *L, int idx, void *object) {
  plain *p = lua_touserdata(L, idx);
  (void)object;
  p->own = &p->value;
}

static const mare_transfer plain_rule = { .version = MARE_TRANSFER_VERSION, .way = MARE_MOVE, .module = "cargomodule", .unpack = plain_unpack };

static int l_plain_gc(lua_State *L) {
  plain *p = lua_touserdata(L, 1);
  lua_getmetatable(L, 1);
  lua_getfield(L, -1, "marked");
  if (p->own == &p->value && lua_toboolean(L, -1) && luaL_testudata(L, 1, "cargo.plain")) ended++;
  p->own = NULL;
  return 0;
}

static int l_plain_get(lua_State *L) {
  plain *p = lua_touserdata(L, 1);
  luaL_argcheck(L, p && lua_rawlen(L, 1) == sizeof *p, 1, "a plain expected");
  lua_pushinteger(L, p->own == &p->value ? p->value : -1);
  return 1;
}

/* ---- shared: all have it ---- */

static void thing_release(void *object) {
  thing *t = object;
  if (atomic_fetch_sub(&t->refs, 1) == 1) thing_end(t);
}

static int shared_pack(lua_State *L, int idx, void **object) {
  thing *t = ((box *)lua_touserdata(L, idx))->thing;
  atomic_fetch_add(&t->refs, 1);
  *object = t;
  return 0;
}

static void shared_unpack(lua_State *L, int idx, void *object) {
  atomic_fetch_add(&((thing *)object)->refs, 1);
  ((box *)lua_touserdata(L, idx))->thing = object;
}

static const mare_transfer shared_rule = {
  .version = MARE_TRANSFER_VERSION, .way = MARE_SHARE, .module = "cargomodule", .pack = shared_pack, .unpack = shared_unpack, .drop = thing_release,
};

static int l_shared_gc(lua_State *L) {
  box *b = luaL_checkudata(L, 1, "cargo.shared");
  if (b->thing) thing_release(b->thing);
  b->thing = NULL;
  return 0;
}

static int l_shared_get(lua_State *L) {
  lua_pushinteger(L, ((box *)luaL_checkudata(L, 1, "cargo.shared"))->thing->value);
  return 1;
}

/* ---- making ---- */

static int new_box(lua_State *L, const char *type, int values) {
  int value = (int)luaL_optinteger(L, 1, 1);
  box *b = lua_newuserdatauv(L, sizeof *b, values);
  b->thing = NULL;
  luaL_setmetatable(L, type);
  if ((b->thing = thing_new(value)) == NULL) return luaL_error(L, "not enough memory");
  return 1;
}

static int l_box(lua_State *L) { return new_box(L, "cargo.box", 2); }
static int l_shared(lua_State *L) { return new_box(L, "cargo.shared", 0); }

static int l_plain(lua_State *L) {
  const char *type = luaL_optstring(L, 2, "cargo.plain");
  plain *p = lua_newuserdatauv(L, sizeof *p, 0);
  p->value = (int)luaL_optinteger(L, 1, 1);
  p->own = &p->value;
  luaL_setmetatable(L, type);
  if (strcmp(type, "cargo.plain") == 0) made++;
  return 1;
}

/* rule(name): from now on such userdata can be sent */
static int l_rule(lua_State *L) {
  mare_api_require(L)->transfer_register(L, luaL_checkstring(L, 1), &plain_rule);
  return 0;
}

/* old(): a metatable whose rule is of another version */
static int l_future(lua_State *L) {
  static const mare_transfer future = { .version = 99 };
  mare_api_require(L)->transfer_register(L, "cargo.future", &future);
  return 0;
}

static int l_counts(lua_State *L) {
  lua_pushinteger(L, made);
  lua_pushinteger(L, ended);
  lua_pushinteger(L, packed);
  lua_pushinteger(L, back);
  return 4;
}

static void new_type(lua_State *L, const char *name, const mare_transfer *rule, lua_CFunction gc, lua_CFunction get) {
  luaL_newmetatable(L, name);
  if (rule) {
    lua_pushlightuserdata(L, (void *)rule);
    lua_setfield(L, -2, MARE_TRANSFER_FIELD);
  }
  if (gc) {
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_pushboolean(L, 1);
  lua_setfield(L, -2, "marked");
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, get);
  lua_setfield(L, -2, "get");
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
}

int luaopen_cargomodule(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "box", l_box }, { "plain", l_plain }, { "shared", l_shared }, { "rule", l_rule }, { "future", l_future }, { "counts", l_counts },
    { "get", l_box_get }, { NULL, NULL }
  };
  mare_api_require(L);
  new_type(L, "cargo.box", &box_rule, l_box_gc, l_box_get);
  new_type(L, "cargo.plain", &plain_rule, l_plain_gc, l_plain_get);
  new_type(L, "cargo.shared", &shared_rule, l_shared_gc, l_shared_get);
  new_type(L, "cargo.foreign", NULL, NULL, l_plain_get);
  new_type(L, "cargo.unknown", NULL, l_plain_gc, l_plain_get);
  luaL_newlib(L, functions);
  return 1;
}
