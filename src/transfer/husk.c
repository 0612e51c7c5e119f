/*
 * husk: what is left at the sender of a userdata that has left (cargo.h). Its block is zero and its metatable one of these, one for each type and
 * state: every use raises an error that says who has it now, C functions that ask for the type's metatable do not find it, and nothing is
 * finalised. To be shown, to be compared, and to go out of scope is no use.
 */
#include <stdio.h>
#include <string.h>
#include "transfer/cargo.h"
#include "transfer/packet.h"

static const char husk_marks = 0;

void mr_cargo_words(const mr_cargo *c, char text[MR_CARGO_WORDS]) {
  switch (atomic_load(&c->state)) {
    case CARGO_GONE: snprintf(text, MR_CARGO_WORDS, "was moved to %.100s", *c->where ? c->where : "another process"); break;
    case CARGO_LOST: snprintf(text, MR_CARGO_WORDS, "was moved to another process, but nobody has received it"); break;
    default: snprintf(text, MR_CARGO_WORDS, "was moved to another process, which has not received it yet"); break;
  }
}

static const mr_cargo *husk_at(lua_State *L, int idx) {
  if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx)) return NULL;
  int husk = lua_rawgetp(L, -1, &husk_marks) != LUA_TNIL;
  lua_pop(L, 2);
  return husk ? mr_cargo_of(L, idx) : NULL;
}

static int l_use(lua_State *L) {
  char text[MR_CARGO_WORDS];
  const mr_cargo *c = husk_at(L, 1);
  if (!c) c = husk_at(L, 2);
  if (!c) return luaL_error(L, "userdata was moved to another process");
  mr_cargo_words(c, text);
  return luaL_error(L, "%s %s", c->type->name, text);
}

static int l_show(lua_State *L) {
  char text[MR_CARGO_WORDS];
  const mr_cargo *c = husk_at(L, 1);
  if (!c) return luaL_error(L, "a userdata that was moved expected");
  mr_cargo_words(c, text);
  lua_pushfstring(L, "%s (%s)", c->type->name, text + (strncmp(text, "was ", 4) == 0 ? 4 : 0));
  return 1;
}

static int l_nothing(lua_State *L) {
  (void)L;
  return 0;
}

/* A second address for each type. */
static const void *husk_key(const mr_cargotype *t) { return &t->name; }

void mr_husk_prepare(lua_State *L, const mr_cargotype *t) {
  static const char *const uses[] = {
    "__index", "__newindex", "__call", "__add", "__sub", "__mul", "__div", "__mod", "__pow", "__unm", "__idiv", "__band", "__bor", "__bxor",
    "__bnot", "__shl", "__shr", "__concat", "__len", "__lt", "__le", "__pairs"
  };
  int known = mr_type_metatable_push(L, husk_key(t));
  lua_pop(L, 1);
  if (known) return;
  lua_createtable(L, 0, 28);
  for (size_t i = 0; i < sizeof uses / sizeof *uses; i++) {
    lua_pushcfunction(L, l_use);
    lua_setfield(L, -2, uses[i]);
  }
  lua_pushcfunction(L, l_nothing);
  lua_setfield(L, -2, "__close");
  lua_pushcfunction(L, l_show);
  lua_setfield(L, -2, "__tostring");
  lua_pushfstring(L, "%s that was moved to another process", t->name);
  lua_setfield(L, -2, "__name");
  lua_pushliteral(L, "moved");
  lua_setfield(L, -2, "__metatable");
  lua_pushboolean(L, 1);
  lua_rawsetp(L, -2, &husk_marks);
  mr_type_metatable_keep(L, husk_key(t));
}

void mr_husk_set(lua_State *L, int ud, const mr_cargotype *t) {
  ud = lua_absindex(L, ud);
  mr_type_metatable_push(L, husk_key(t));
  lua_setmetatable(L, ud);
}

int mr_is_husk_of(lua_State *L, int meta, const mr_cargotype *t) {
  meta = lua_absindex(L, meta);
  mr_type_metatable_push(L, husk_key(t));
  int husk = !lua_isnil(L, -1) && lua_rawequal(L, meta, -1);
  lua_pop(L, 1);
  return husk;
}
