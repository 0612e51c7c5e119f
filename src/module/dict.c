/*
 * mare.dict: dictionaries that processes share (share/dict.h). Here is what happens to one key; all of them, and waiting, are in dict_all.c.
 *
 * Bytes count in the budget of the process that puts the entry there, if it has one, until the entry goes or is replaced.
 */
#include "module/dict.h"
#include "module/value.h"
#include "share/named.h"

#include <math.h>
#include <string.h>

#define TNAME "dict"

static const mr_class class;

mr_dict *mr_dict_check(lua_State *L, int idx) {
  mr_shared *o = mr_shared_to(L, idx, &class.share);
  return (mr_dict *)(void *)(PORT_LIKELY(o != NULL) ? o : mr_shared_check(L, idx, &class.share, TNAME));
}

static void no_key(lua_State *L, int idx) {
  const char *what = lua_type(L, idx) == LUA_TNUMBER ? "nan" : lua_type(L, idx) == LUA_TSTRING ? "a string of more than 2^30 bytes" : luaL_typename(L, idx);
  luaL_argerror(L, idx, lua_pushfstring(L, "a string, number or boolean expected as key, got %s", what));
}

void mr_dict_key(lua_State *L, int idx, mr_key *k) {
  if (PORT_UNLIKELY(!mr_key_get(L, idx, k))) no_key(L, idx);
}

/* Seconds at idx as the moment at which an entry ends; absent or nil: `none`. */
static uint64_t moment(lua_State *L, int idx, uint64_t none) {
  if (PORT_LIKELY(lua_isnoneornil(L, idx))) return none;
  lua_Number s = luaL_checknumber(L, idx);
  luaL_argcheck(L, s > 0, idx, "a time to live of more than 0 seconds expected");
  return s > 9e9 ? 0 : port_now() + (uint64_t)(s * 1e9);
}

static int fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* ---- putting ---- */

static PORT_NOINLINE mr_dict_result put_in_budget(lua_State *L, mr_proc *p, mr_dict *d, const mr_key *k, mr_dict_value *v, mr_dict_put *how) {
  size_t bytes = mr_dict_cost(k, v);
  mr_budget *over = mr_proc_take(L, p, p->budget, bytes);
  if (over) {
    char text[200];
    mr_value_drop(v);
    luaL_error(L, "%s", mr_proc_over(over, text));
  }
  how->budget = p->budget;
  mr_dict_result r = mr_dict_set(d, k, v, how, p->job.fiber);
  if (!how->charged) mr_budget_give(p->budget, bytes);
  return r;
}

/* Puts the value, which is dropped; memory errors are raised. */
static inline mr_dict_result put(lua_State *L, mr_fiber *f, mr_dict *d, const mr_key *k, mr_dict_value *v, mr_dict_put *how) {
  mr_dict_result r = PORT_UNLIKELY(mr_proc_of(f)->budget != NULL) && v->kind != DICT_ABSENT ? put_in_budget(L, mr_proc_of(f), d, k, v, how)
                                                                                           : mr_dict_set(d, k, v, how, f);
  mr_value_drop(v);
  if (PORT_UNLIKELY(r == DICT_NOMEM)) mr_raise(L, MR_ENOMEM);
  return r;
}

/* What they give to Lua; `why`: DICT_NOT. */
static int result(lua_State *L, mr_dict_result r, const char *why) {
  if (PORT_UNLIKELY(r != DICT_DONE)) return fail(L, r == DICT_LARGE ? "too large" : why);
  lua_pushboolean(L, 1);
  return 1;
}

/* For values that may be nil: that deletes. */
static inline int set(lua_State *L, mr_fiber *f) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v;
  mr_key k;
  mr_dict_key(L, 2, &k);
  luaL_checkany(L, 3);
  mr_dict_put how = { .when = PUT_SET, .expires = lua_gettop(L) > 3 ? moment(L, 4, 0) : 0 };
  mr_value_get(L, 3, "value", &v);
  mr_dict_result r = put(L, f, d, &k, &v, &how);
  return result(L, r == DICT_NOT ? DICT_DONE : r, NULL);
}

/* dict:set(key, value[, ttl]) -> true | nil, "too large" */
static int l_set(lua_State *L) { return set(L, mr_self_fiber(L)); }
static int l_process_set(lua_State *L) { return set(L, mr_fiber_here(L)); }

static int put_if(lua_State *L, int when, const char *why) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v;
  mr_key k;
  mr_dict_key(L, 2, &k);
  luaL_argcheck(L, !lua_isnoneornil(L, 3), 3, "a value other than nil expected");
  mr_dict_put how = { .when = (unsigned char)when, .expires = moment(L, 4, 0) };
  mr_value_get(L, 3, "value", &v);
  return result(L, put(L, mr_self_fiber(L), d, &k, &v, &how), why);
}

/* dict:add(key, value[, ttl]) -> true | nil, "exists" | nil, "too large" */
static int l_add(lua_State *L) { return put_if(L, PUT_ADD, "exists"); }
/* dict:replace(key, value[, ttl]) -> true | nil, "absent" | nil, "too large" */
static int l_replace(lua_State *L) { return put_if(L, PUT_REPLACE, "absent"); }

/* dict:cas(key, old, new[, ttl]) -> true | nil, "changed" | nil, "too large" */
static int l_cas(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value old, v;
  mr_key k;
  mr_dict_key(L, 2, &k);
  luaL_checkany(L, 4);
  mr_value_compare(L, 3, &old);
  mr_dict_put how = { .when = PUT_SAME, .old = &old, .expires = moment(L, 5, 0) };
  mr_value_get(L, 4, "value", &v);
  return result(L, put(L, mr_self_fiber(L), d, &k, &v, &how), "changed");
}

/* dict:delete(key) -> boolean: it was there */
static int l_delete(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v = { .kind = DICT_ABSENT };
  mr_dict_put how = { .when = PUT_SET };
  mr_key k;
  mr_dict_key(L, 2, &k);
  lua_pushboolean(L, mr_dict_set(d, &k, &v, &how, mr_self_fiber(L)) == DICT_DONE);
  return 1;
}

/* ---- numbers ---- */

static int no_number(lua_State *L, const mr_key *k) {
  mr_key_push(L, k);
  return luaL_error(L, "incr: the value of '%s' is no number", luaL_tolstring(L, -1, NULL));
}

/* Absent or nil: *s stays. */
static void number_arg(lua_State *L, int idx, mr_scalar *s) {
  if (lua_type(L, idx) == LUA_TNUMBER) mr_scalar_get(L, idx, s);
  else if (!lua_isnoneornil(L, idx)) luaL_typeerror(L, idx, "number");
}

static PORT_NOINLINE mr_dict_result incr_in_budget(lua_State *L, mr_proc *p, mr_dict *d, const mr_key *k, const mr_scalar *by, const mr_scalar *initial,
                                                   mr_dict_put *how, mr_scalar *out) {
  const mr_dict_value v = { .kind = DICT_SCALAR };
  char text[200];
  size_t bytes = mr_dict_cost(k, &v);
  mr_dict_result r = mr_dict_incr(d, k, by, NULL, how, out, p->job.fiber);   /* one that is there costs nothing */
  if (r != DICT_NOT || !initial) return r;
  mr_budget *over = mr_proc_take(L, p, p->budget, bytes);
  if (over) luaL_error(L, "%s", mr_proc_over(over, text));
  how->budget = p->budget;
  r = mr_dict_incr(d, k, by, initial, how, out, p->job.fiber);
  if (!how->charged) mr_budget_give(p->budget, bytes);
  return r;
}

static inline int incr(lua_State *L, mr_fiber *f) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_scalar by, initial, out;
  mr_key k;
  mr_dict_put how;
  mr_dict_key(L, 2, &k);
  how.budget = NULL;
  how.expires = 0;
  int absent = 0, n = lua_gettop(L);
  initial.type = by.type = 0x10 | LUA_TNUMBER;
  initial.u.i = 0;
  by.u.i = 1;
  if (n > 2) number_arg(L, 3, &by);
  if (n > 3) {
    absent = lua_type(L, 4) == LUA_TBOOLEAN && !lua_toboolean(L, 4);
    if (!absent) number_arg(L, 4, &initial);
    how.expires = moment(L, 5, 0);
  }
  mr_dict_result r = PORT_UNLIKELY(mr_proc_of(f)->budget != NULL) ? incr_in_budget(L, mr_proc_of(f), d, &k, &by, absent ? NULL : &initial, &how, &out)
                                                                  : mr_dict_incr(d, &k, &by, absent ? NULL : &initial, &how, &out, f);
  switch (r) {
    case DICT_DONE: mr_scalar_push(L, &out); return 1;
    case DICT_NOMEM: return mr_raise(L, MR_ENOMEM);
    case DICT_NO_NUMBER: return no_number(L, &k);
    default: return result(L, r, "absent");
  }
}

/* dict:incr(key[, n[, initial[, ttl]]]) -> the sum | nil, "absent" (initial is false) | nil, "too large" */
static int l_incr(lua_State *L) { return incr(L, mr_self_fiber(L)); }
static int l_process_incr(lua_State *L) { return incr(L, mr_fiber_here(L)); }

/* ---- getting ---- */

/* dict:get(key) -> value | nil */
static int l_get(lua_State *L) {
  char room[MR_TEXT_MOST];
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v;
  mr_key k;
  mr_dict_key(L, 2, &k);
  mr_dict_get(d, &k, &v, room, NULL, NULL);
  mr_value_push(L, &v);
  return 1;
}

/* dict:take(key) -> value | nil: deletes it, too */
static int l_take(lua_State *L) {
  char room[MR_TEXT_MOST];
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v;
  mr_key k;
  mr_dict_key(L, 2, &k);
  mr_dict_take(d, &k, &v, room, mr_self_fiber(L));
  mr_value_push(L, &v);
  return 1;
}

/* dict:ttl(key) -> seconds until it ends, math.huge: never | nil */
static int l_ttl(lua_State *L) {
  char room[MR_TEXT_MOST];
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_value v;
  uint64_t expires;
  mr_key k;
  mr_dict_key(L, 2, &k);
  int there = mr_dict_get(d, &k, &v, room, NULL, &expires);
  if (there) mr_value_drop(&v);
  uint64_t now = there && expires ? port_now() : 0;
  if (!there) lua_pushnil(L);
  else if (!expires) lua_pushnumber(L, (lua_Number)HUGE_VAL);
  else lua_pushnumber(L, expires > now ? (lua_Number)(expires - now) * 1e-9 : 0);
  return 1;
}

/* dict:expire(key[, ttl]) -> boolean: it is there; without ttl it stays for ever */
static int l_expire(lua_State *L) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_key k;
  mr_dict_key(L, 2, &k);
  lua_pushboolean(L, mr_dict_expire(d, &k, moment(L, 3, 0), mr_self_fiber(L)));
  return 1;
}

/* ---- update. Stack: 1 dict, 2 key, 3 function, 4 ttl or nil, 5 how often it was called, then its results ---- */

enum { UPDATES = 10000 };

static int update_k(lua_State *L, int status, lua_KContext version);

/* -1: somebody was faster. */
static int update_store(lua_State *L, uint64_t version) {
  mr_dict *d = mr_dict_check(L, 1);
  mr_dict_put how = { .when = PUT_VERSION, .version = version };
  mr_dict_value v;
  mr_key k;
  int n = lua_gettop(L) - 5;
  if (n == 0) return luaL_error(L, "update: the function gave nothing; the new value is what it returns, nil deletes");
  mr_dict_key(L, 2, &k);
  how.expires = moment(L, 4, MR_DICT_KEEP);
  mr_value_get(L, 6, "value", &v);
  mr_dict_result r = put(L, mr_self_fiber(L), d, &k, &v, &how);
  if (r == DICT_LARGE) return fail(L, "too large");
  return r == DICT_DONE ? n : -1;
}

/* The version goes through the call as its context, cut to what fits in there. */
static int update_loop(lua_State *L) {
  for (int n = -1; ; ) {
    char room[MR_TEXT_MOST];
    mr_dict_value v;
    uint64_t version;
    mr_key k;
    lua_Integer tries = lua_tointeger(L, 5);
    if (tries == UPDATES) return luaL_error(L, "update: the entry has changed each time; does the function change it itself?");
    lua_settop(L, 4);
    lua_pushinteger(L, tries + 1);
    mr_dict_key(L, 2, &k);
    lua_pushvalue(L, 3);
    mr_dict_get(mr_dict_check(L, 1), &k, &v, room, &version, NULL);
    mr_value_push(L, &v);
    lua_callk(L, 1, LUA_MULTRET, (lua_KContext)version, update_k);
    if ((n = update_store(L, version)) >= 0) return n;
  }
}

static int update_k(lua_State *L, int status, lua_KContext version) {
  (void)status;
  int n = update_store(L, (uint64_t)version);
  return n >= 0 ? n : update_loop(L);
}

/* dict:update(key, f[, ttl]) -> what f(value) gave: the new value, … */
static int l_update(lua_State *L) {
  mr_key k;
  mr_dict_check(L, 1);
  mr_dict_key(L, 2, &k);
  luaL_checktype(L, 3, LUA_TFUNCTION);
  moment(L, 4, 0);
  lua_settop(L, 4);
  lua_pushinteger(L, 0);
  return update_loop(L);
}

/* ---- the objects ---- */

static int l_newindex(lua_State *L) {
  return luaL_error(L, "attempt to assign to field '%s' of a dict: d:set(key, value) stores", luaL_tolstring(L, 2, NULL));
}

static const luaL_Reg meta[] = { { "__newindex", l_newindex }, { "__len", mr_dict_l_len }, { "__pairs", mr_dict_l_each }, { NULL, NULL } };

static const luaL_Reg methods[] = {
  { "get", l_get }, { "set", l_set }, { "add", l_add }, { "replace", l_replace }, { "cas", l_cas }, { "incr", l_incr }, { "delete", l_delete },
  { "take", l_take }, { "update", l_update }, { "ttl", l_ttl }, { "expire", l_expire }, { "wait", mr_dict_l_wait }, { "watch", mr_dict_l_watch },
  { "keys", mr_dict_l_keys }, { "each", mr_dict_l_each }, { "len", mr_dict_l_len }, { "size", mr_dict_l_size }, { "info", mr_dict_l_info },
  { "clear", mr_dict_l_clear }, { "purge", mr_dict_l_purge }, { "name", mr_dict_l_name }, { NULL, NULL }
};
static const luaL_Reg fast[] = { { "set", l_process_set }, { "incr", l_process_incr }, { NULL, NULL } };

static void dict_push(lua_State *L, mr_shared *o) { mr_shared_push(L, o, &class); }
static const mr_class class = { { .name = TNAME, .destroy = mr_dict_destroy, .push = dict_push }, TNAME, meta, methods, fast, NULL };

/* ---- making ---- */

/* Bytes, 0: no limit. Of the options at idx, if there are any. */
static size_t limit_option(lua_State *L, int idx) {
  if (lua_isnoneornil(L, idx)) return 0;
  luaL_checktype(L, idx, LUA_TTABLE);
  for (lua_pushnil(L); lua_next(L, idx); lua_pop(L, 1))
    if (lua_type(L, -2) != LUA_TSTRING || strcmp(lua_tostring(L, -2), "limit") != 0)
      luaL_error(L, "dict: unknown option '%s'; there is limit", luaL_tolstring(L, -2, NULL));
  int whole, type = lua_getfield(L, idx, "limit");
  lua_Integer n = lua_tointegerx(L, -1, &whole);
  if (type == LUA_TNIL) n = 0;
  else if (type == LUA_TSTRING) luaL_error(L, "dict: 'limit' must be a whole number of bytes, got string '%s'", lua_tostring(L, -1));
  else if (type != LUA_TNUMBER || !whole || n < 1) luaL_error(L, "dict: 'limit' must be a whole number of bytes, got %s", luaL_tolstring(L, -1, NULL));
  lua_pop(L, 1);
  return (size_t)n;
}

/* In the budget of the process; may collect garbage. What has no room is dropped: NULL, and *over. */
static mr_dict *charged(lua_State *L, mr_dict *d, mr_budget **over) {
  mr_proc *p = mr_proc_of(mr_self_fiber(L));
  *over = NULL;
  if (PORT_LIKELY(!d || !p->budget)) return d;
  if ((*over = mr_proc_take(L, p, p->budget, mr_dict_own(d))) == NULL) {
    mr_dict_charge(d, p->budget);
    return d;
  }
  mr_release((mr_shared *)(void *)d);
  return NULL;
}

static int no_room(lua_State *L, mr_budget *over) {
  char text[200];
  return over ? luaL_error(L, "%s", mr_proc_over(over, text)) : mr_raise(L, MR_ENOMEM);
}

/* dict.new([options]) -> dict, without a name */
static int l_new(lua_State *L) {
  mr_budget *over;
  mr_dict *d = charged(L, mr_dict_new(&class.share, limit_option(L, 1)), &over);
  if (!d) return no_room(L, over);
  mr_shared_push_new(L, (mr_shared *)(void *)d);
  return 1;
}

typedef struct wanted { lua_State *L; const char *name; size_t length, limit; mr_budget *over; } wanted;

static mr_shared *make_named(void *arg) {
  wanted *w = arg;
  mr_dict *d = mr_dict_new(&class.share, w->limit);
  if (d && !mr_dict_call(d, w->name, w->length)) {
    mr_release((mr_shared *)(void *)d);
    return NULL;
  }
  return (mr_shared *)(void *)charged(w->L, d, &w->over);
}

static const char *name_arg(lua_State *L, size_t *length) {
  const char *name = luaL_checklstring(L, 1, length);
  mr_check_forked(L);
  return name;
}

/* dict.open(name[, options]) -> the dict of that name, made if there is none */
static int l_open(lua_State *L) {
  wanted w = { .L = L };
  int made;
  w.name = name_arg(L, &w.length);
  w.limit = limit_option(L, 2);
  mr_shared *o = mr_named_get(NAMED_DICT, w.name, w.length, make_named, &w, &made);
  if (!o) return no_room(L, w.over);
  size_t limit = mr_dict_limit((mr_dict *)(void *)o);
  mr_shared_push_new(L, o);
  if (!made && w.limit && w.limit != limit)
    return luaL_error(L, limit ? "dict: '%s' is there already, with a limit of %I bytes" : "dict: '%s' is there already, without a limit", w.name,
                      (LUAI_UACINT)limit);
  return 1;
}

/* dict.find(name) -> dict | nil */
static int l_find(lua_State *L) {
  size_t length;
  const char *name = name_arg(L, &length);
  mr_shared *o = mr_named_find(NAMED_DICT, name, length);
  if (o) mr_shared_push_new(L, o);
  else lua_pushnil(L);
  return 1;
}

/* dict.drop(name) -> boolean: there was one; who has it goes on using it */
static int l_drop(lua_State *L) {
  size_t length;
  const char *name = name_arg(L, &length);
  mr_shared *o = mr_named_drop(NAMED_DICT, name, length, NULL);
  lua_pushboolean(L, o != NULL);
  if (o) mr_release(o);
  return 1;
}

static const luaL_Reg functions[] = { { "new", l_new }, { "open", l_open }, { "find", l_find }, { "drop", l_drop }, { NULL, NULL } };

void mr_dict_setup(void) { mr_key_setup(); }

int luaopen_mare_dict(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 4);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}
