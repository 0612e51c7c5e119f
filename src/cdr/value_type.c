/* value_type: what is known of valuetypes, by their tables. See value.h. */
#include "cdr/value.h"
#include "cdr/put.h"

/* ---- the table at an index ---- */

static int flag(lua_State *L, int at, const char *name) {
  lua_getfield(L, at, name);
  int yes = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return yes;
}

/* Pushes the base whose state it has, too; 0: there is none, and nothing is pushed. Only the first may be one that is not abstract. */
static int push_base(lua_State *L, int at) {
  if (lua_getfield(L, at, "bases") == LUA_TTABLE && lua_rawgeti(L, -1, 1) == LUA_TTABLE && !flag(L, at + 2, "abstract")) {
    lua_remove(L, -2);
    return 1;
  }
  lua_settop(L, at);
  return 0;
}

static void append(lua_State *L, int list) { lua_rawseti(L, list, (lua_Integer)lua_rawlen(L, list) + 1); }

/* ---- what its list has ---- */

static const char *add_state(lua_State *L, int at, int members) {
  if (lua_getfield(L, at, "state") != LUA_TTABLE) return "is only declared: its members are not known";
  lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
  for (lua_Integer i = 1; i <= n; i++) {
    lua_rawgeti(L, -1, i);
    append(L, members);
  }
  lua_pop(L, 1);
  return NULL;
}

/* The ids of the tables from `first` to `last`, as long as each says that it can be truncated to the next one. */
static const char *add_ids(lua_State *L, int first, int last, int refs, mr_shape *shape) {
  for (int at = first; at <= last; at++) {
    if (lua_getfield(L, at, "id") != LUA_TSTRING) return "has no repository id";
    append(L, refs);
    shape->nids++;
    if (!flag(L, at, "truncatable")) break;
  }
  return NULL;
}

/* Appends what the table on top has in its list of that name. */
static void add_parents(lua_State *L, const char *name, int queue) {
  if (lua_getfield(L, -1, name) == LUA_TTABLE) {
    lua_Integer n = (lua_Integer)lua_rawlen(L, -1);
    for (lua_Integer i = 1; i <= n; i++)
      if (lua_rawgeti(L, -1, i) == LUA_TTABLE) append(L, queue);
      else lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

/* The ids of all bases, interfaces and their bases become keys. */
static void add_kin(lua_State *L, int at, int refs) {
  lua_createtable(L, 4, 0);
  int queue = lua_gettop(L);
  lua_pushvalue(L, at);
  append(L, queue);
  for (lua_Integer i = 1; i <= (lua_Integer)lua_rawlen(L, queue); i++) {
    lua_rawgeti(L, queue, i);
    if (lua_getfield(L, -1, "id") == LUA_TSTRING && (lua_pushvalue(L, -1), lua_rawget(L, refs) == LUA_TNIL)) {
      lua_pop(L, 1);
      lua_pushboolean(L, 1);
      lua_rawset(L, refs);
      add_parents(L, "bases", queue);
      add_parents(L, "supports", queue);
    }
    lua_settop(L, queue);
  }
  lua_settop(L, queue - 1);
}

/* The chain of bases lies on the stack, from `at` on, the last base on top. */
static const char *add_members(lua_State *L, int first, int last, int members, mr_shape *shape) {
  const char *problem = NULL;
  for (int at = last; at >= first && !problem; at--) {
    if (at == first) shape->inherited = (uint32_t)lua_rawlen(L, members);
    problem = add_state(L, at, members);
    if (lua_rawlen(L, members) > MR_MOST_INHERITED) problem = "has too many members";
  }
  shape->n = (uint32_t)lua_rawlen(L, members);
  return problem;
}

const char *mr_value_shape(lua_State *L, int at, int kind, mr_shape *shape) {
  const char *problem = NULL;
  *shape = (mr_shape){ 0 };
  luaL_checkstack(L, MR_MOST_BASES + 20, "a type nested too deeply");
  lua_createtable(L, 4, 4);
  int refs = lua_gettop(L), members = refs + 1, first = refs + 2;
  lua_createtable(L, 4, 0);
  lua_pushvalue(L, members);
  append(L, refs);
  lua_pushvalue(L, at);
  while (kind == TK_VALUE && push_base(L, lua_gettop(L)))
    if (lua_gettop(L) - first > MR_MOST_BASES) return "inherits from too many valuetypes";
  int last = lua_gettop(L);
  if (kind == TK_VALUE) problem = add_members(L, first, last, members, shape);
  if (!problem) problem = add_ids(L, first, last, refs, shape);
  if (!problem) add_kin(L, at, refs);
  shape->custom = kind == TK_VALUE && flag(L, at, "custom");
  shape->abstract = kind == TK_VALUE && flag(L, at, "abstract");
  lua_settop(L, refs);
  return problem;
}

void mr_value_make(lua_State *L, int refs, mr_value *v, const mr_shape *shape) {
  v->custom = (uint8_t)shape->custom;
  v->abstract = (uint8_t)shape->abstract;
  v->nids = shape->nids;
  for (uint32_t i = 0; i < v->nids; i++) {
    lua_rawgeti(L, refs, (lua_Integer)i + 2);
    v->ids[i].s = lua_tolstring(L, -1, &v->ids[i].n);
    lua_pop(L, 1);
  }
  v->any = strcmp(v->ids[0].s, MR_VALUEBASE_ID) == 0;
}

/* ---- what may stand where ---- */

static const char *id_of(const mr_type *t) { return t->value ? t->value->ids[0].s : mr_itself(t)->id; }

/* Pushes the list of what a type refers to, and in it the string that begins at s; nil, if that is not among its first. */
static void push_own(lua_State *L, int fields, const mr_type *t, const char *s) {
  mr_env_table(L, fields, ENV_ADDRESSES);
  lua_rawgetp(L, -1, mr_itself(t));
  if (!mr_type_at(L, -1) || lua_getiuservalue(L, -1, 2) != LUA_TTABLE) mr_env_changed(L);
  lua_replace(L, -3);
  lua_pop(L, 1);
  for (int i = 1; i <= 3; i++, lua_pop(L, 1))
    if (lua_rawgeti(L, -1, i) == LUA_TSTRING && lua_tostring(L, -1) == s) return;
  lua_pushnil(L);
}

/* No string is made here: while something is written that could collect garbage. */
static int has_kin(lua_State *L, int fields, const mr_type *t, const mr_type *formal) {
  int top = lua_gettop(L);
  if (!lua_checkstack(L, 10)) return 0;
  push_own(L, fields, t, t->value->ids[0].s);
  lua_pop(L, 1);
  push_own(L, fields, formal, id_of(formal));
  int is = lua_type(L, -1) == LUA_TSTRING && (lua_rawget(L, top + 1), lua_toboolean(L, -1));
  lua_settop(L, top);
  return is;
}

int mr_value_is(lua_State *L, int fields, const mr_type *t, const mr_type *formal, uint32_t *last) {
  if (t->number == formal->number || (last[0] == t->number && last[1] == formal->number)) return 1;
  if (!(formal->value && formal->value->any) && !has_kin(L, fields, t, formal)) return 0;
  last[0] = t->number;
  last[1] = formal->number;
  return 1;
}

const mr_type *mr_value_find(lua_State *L, mr_cdr_env *env, int fields, const char *id, size_t n) {
  luaL_checkstack(L, 12, NULL);
  lua_pushnil(L);
  int at = lua_gettop(L);
  const mr_type *t = NULL;
  if (lua_rawgeti(L, fields, ENV_RESOLVE) == LUA_TFUNCTION) {
    lua_pushlstring(L, id, n);
    lua_call(L, 1, 1);
    if (lua_istable(L, -1) && lua_getfield(L, -1, "id") == LUA_TSTRING && lua_rawlen(L, -1) == n && memcmp(lua_tostring(L, -1), id, n) == 0) {
      lua_pop(L, 1);
      t = mr_type_get(L, env, fields, -1);
      lua_copy(L, -1, at);
    }
  }
  lua_settop(L, at);
  if (t && mr_is_value(t)) return t;
  lua_pushnil(L);
  lua_replace(L, at);
  return NULL;
}
