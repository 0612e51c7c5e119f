/* value: see value.h. */
#include "module/value.h"

#include <stdlib.h>

static const char moves[] = "it would move to the first who reads it, so it cannot be kept for many; keep what it is made from";

static PORT_NORETURN void no_room(lua_State *L, mr_budget *over) {
  char text[200];
  luaL_error(L, "%s", mr_proc_over(over, text));
  abort();
}

static mr_cell *pack(lua_State *L, mr_fiber *f, int first, int n, const char *root, int counted) {
  mr_packer *p = mr_packer_for(L, f);
  mr_budget *over = NULL;
  if (mr_pack_still(p, L, first, n, root, moves) != 0) lua_error(L);
  mr_message *m = counted ? mr_proc_seal(L, mr_proc_of(f), p, &over) : mr_packer_seal(p);
  mr_cell *c = m ? mr_cell_of_message(m) : NULL;
  if (c) return c;
  mr_message_free(m);
  no_room(L, over);
}

mr_cell *mr_cell_pack(lua_State *L, mr_fiber *f, int first, int n, const char *root) { return pack(L, f, first, n, root, 1); }

void mr_value_get(lua_State *L, int idx, const char *root, mr_dict_value *v) {
  if (mr_scalar_get(L, idx, &v->scalar)) {
    v->kind = v->scalar.type == LUA_TNIL ? DICT_ABSENT : DICT_SCALAR;
    return;
  }
  if (lua_type(L, idx) == LUA_TSTRING) {
    v->text = lua_tolstring(L, idx, &v->length);
    v->kind = DICT_TEXT;
    if (v->length <= MR_TEXT_MOST) return;
    v->object = (mr_shared *)mr_cell_of_text(v->text, v->length);
    if (!v->object) no_room(L, NULL);
  } else {
    mr_shared *o = lua_type(L, idx) == LUA_TUSERDATA ? mr_shared_or_wide(L, idx) : NULL;
    if (o && !o->type->moves && !o->type->stays) mr_retain(v->object = o);
    else v->object = (mr_shared *)pack(L, mr_self_fiber(L), idx, 1, root, 0);        /* the entry is counted */
  }
  v->kind = DICT_OBJECT;
}

void mr_value_compare(lua_State *L, int idx, mr_dict_value *v) {
  if (lua_isnoneornil(L, idx)) {
    v->kind = DICT_ABSENT;
  } else if (mr_scalar_get(L, idx, &v->scalar)) {
    v->kind = DICT_SCALAR;
  } else if (lua_type(L, idx) == LUA_TSTRING) {
    v->kind = DICT_TEXT;
    v->text = lua_tolstring(L, idx, &v->length);
  } else {
    v->object = lua_type(L, idx) == LUA_TUSERDATA ? mr_shared_or_wide(L, idx) : NULL;
    v->kind = DICT_OBJECT;
    if (!v->object)
      luaL_argerror(L, idx, lua_pushfstring(L, "%s cannot be compared, as it was copied; strings, numbers, booleans and shared objects can", luaL_typename(L, idx)));
  }
}

int mr_cell_push(lua_State *L, mr_cell *c) {
  if (c->message) return mr_unpack(L, c->message);
  lua_pushlstring(L, c->bytes, c->length);
  return 1;
}

static int l_push(lua_State *L) {
  mr_shared *o = lua_touserdata(L, 1);
  lua_settop(L, 0);
  if (o->type == &mr_cell_type) return mr_cell_push(L, (mr_cell *)(void *)o);
  o->type->push(L, o);
  return 1;
}

void mr_value_push(lua_State *L, mr_dict_value *v) {
  switch (v->kind) {
    case DICT_ABSENT: lua_pushnil(L); return;
    case DICT_SCALAR: mr_scalar_push(L, &v->scalar); return;
    case DICT_TEXT: lua_pushlstring(L, v->text, v->length); return;
    default: break;
  }
  mr_shared *o = v->object;
  if (PORT_UNLIKELY(!lua_checkstack(L, 4))) {
    mr_release(o);
    mr_raise_memory(L);
  }
  lua_pushcfunction(L, l_push);
  lua_pushlightuserdata(L, o);
  int status = lua_pcall(L, 1, 1, 0);
  mr_release(o);
  if (status != LUA_OK) lua_error(L);
}
