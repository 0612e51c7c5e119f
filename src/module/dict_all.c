/* dict_all: methods of mare.dict that concern all entries. */
#include "module/dict.h"
#include "module/value.h"

/* ---- keys ---- */

/*
 * A userdata with the packed keys of that stripe, left on the stack, with *n of them. Their bytes are counted under the lock, the memory for them is not
 * got there: so it is tried until what was got is enough.
 */
static const char *stripe_keys(lua_State *L, mr_dict *d, unsigned stripe, size_t *n) {
  size_t size = 0;
  for (lua_pushnil(L);;) {
    size_t needed = mr_dict_keys(d, stripe, lua_touserdata(L, -1), size, n);
    if (needed <= size) return lua_touserdata(L, -1);
    lua_pop(L, 1);
    size = needed + needed / 8;
    lua_newuserdatauv(L, size, 0);
  }
}

/* dict:keys([most]) -> list of keys */
int mr_dict_l_keys(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  lua_Integer most = luaL_optinteger(L, 2, LUA_MAXINTEGER), n = 0;
  lua_newtable(L);
  int list = lua_gettop(L);
  for (unsigned i = 0; i < mr_dict_stripes(d) && n < most; i++) {
    size_t left;
    const char *at = stripe_keys(L, d, i, &left);
    for (; left > 0 && n < most; left--) {
      mr_key k;
      at = mr_dict_unpack_key(at, &k);
      mr_key_push(L, &k);
      lua_rawseti(L, list, ++n);
    }
    lua_pop(L, 1);
  }
  return 1;
}

/* ---- each: a userdata keeps where it is; its user values are the dict and the packed keys of a stripe ---- */

typedef struct walk { mr_dict *d; uint64_t tag; unsigned stripe; const char *at; size_t left; } walk;

static uint64_t walk_tag(const walk *w) { return mr_secret ^ (uintptr_t)w ^ (uintptr_t)w->d << 16; }

static walk *walk_check(lua_State *L) {
  walk *w = lua_type(L, 1) == LUA_TUSERDATA && lua_rawlen(L, 1) == sizeof *w ? lua_touserdata(L, 1) : NULL;
  mr_check_forked(L);
  if (!w || w->tag != walk_tag(w)) luaL_typeerror(L, 1, "what dict:each gave");
  return w;
}

/* The next key of the walk, NULL: none. */
static const char *next_key(lua_State *L, walk *w, mr_key *k) {
  while (w->left == 0) {
    if (w->stripe == mr_dict_stripes(w->d)) return NULL;
    const char *at = stripe_keys(L, w->d, w->stripe, &w->left);
    w->at = at;
    w->stripe++;
    lua_setiuservalue(L, 1, 2);
  }
  w->left--;
  return w->at = mr_dict_unpack_key(w->at, k);
}

static void hash_again(mr_key *k) {
  if (k->type == KEY_STRING) mr_key_of_string(k, k->text, k->length);
  else mr_key_of_number(k, k->type, k->number);
}

/* iterator of each: (walk) -> key, value | nil */
static int l_next(lua_State *L) {
  char room[MR_TEXT_MOST];
  walk *w = walk_check(L);
  mr_dict_value v;
  mr_key k;
  lua_settop(L, 1);
  while (next_key(L, w, &k)) {
    mr_key_push(L, &k);
    hash_again(&k);
    if (mr_dict_get(w->d, &k, &v, room, NULL, NULL)) {
      mr_value_push(L, &v);
      return 2;
    }
    lua_settop(L, 1);
  }
  lua_pushnil(L);
  return 1;
}

/* for key, value in dict:each() do … end */
int mr_dict_l_each(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  lua_settop(L, 1);
  mr_function_push(L, l_next);
  walk *w = lua_newuserdatauv(L, sizeof *w, 2);
  *w = (walk){ .d = d };
  w->tag = walk_tag(w);
  lua_pushvalue(L, 1);
  lua_setiuservalue(L, -2, 1);
  return 2;
}

/* ---- numbers ---- */

/* #dict, dict:len() -> entries */
int mr_dict_l_len(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_dict_count(mr_dict_check(L, 1)));
  return 1;
}

/* dict:size() -> bytes */
int mr_dict_l_size(lua_State *L) {
  mr_dict_info i;
  mr_dict_look(mr_dict_check(L, 1), &i);
  lua_pushinteger(L, (lua_Integer)i.bytes);
  return 1;
}

static void field(lua_State *L, const char *name, uint64_t n) {
  lua_pushinteger(L, (lua_Integer)n);
  lua_setfield(L, -2, name);
}

/* dict:info() -> { entries, bytes, limit, hits, misses, evicted, expired, waiting } */
int mr_dict_l_info(lua_State *L) {
  mr_dict_info i;
  mr_dict_look(mr_dict_check(L, 1), &i);
  lua_createtable(L, 0, 8);
  field(L, "entries", i.entries);
  field(L, "bytes", i.bytes);
  if (i.limit) field(L, "limit", i.limit);
  field(L, "hits", i.hits);
  field(L, "misses", i.misses);
  field(L, "evicted", i.evicted);
  field(L, "expired", i.expired);
  field(L, "waiting", i.waiting);
  return 1;
}

/* dict:clear() */
int mr_dict_l_clear(lua_State *L) {
  mr_dict_clear(mr_dict_check(L, 1), mr_self_fiber(L));
  return 0;
}

/* dict:purge() -> how many entries were there whose time is over */
int mr_dict_l_purge(lua_State *L) {
  lua_pushinteger(L, (lua_Integer)mr_dict_purge(mr_dict_check(L, 1)));
  return 1;
}

/* dict:name() -> string | nil */
int mr_dict_l_name(lua_State *L) {
  size_t length;
  const char *name = mr_dict_name(mr_dict_check(L, 1), &length);
  if (name) lua_pushlstring(L, name, length);
  else lua_pushnil(L);
  return 1;
}
