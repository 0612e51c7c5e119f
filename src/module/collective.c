/*
 * mare.collective.core: members of a group as userdata that move, and the operations on them. src/channel/collective.h says how they meet.
 *
 * A contribution that can't be sent, or for which there is no memory, raises before the member has entered: nothing has happened. From then on
 * whatever keeps it from going through makes the group fail. Operations by functions of the program are a loop in Lua, mare.collective.fold, over
 * the functions at the end of this file.
 */
#include "channel/collective.h"
#include "module/buflib.h"
#include "module/given.h"
#include "process/control.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TNAME "member"

static const mr_class class;

static mr_member *member_check(lua_State *L) { return (mr_member *)(void *)mr_shared_check(L, 1, &class.share, TNAME); }

static mr_member *member_enter_check(lua_State *L) {
  mr_member *m = member_check(L);
  if (PORT_UNLIKELY(m->busy)) luaL_error(L, "this member is in %s: another fiber has called that", mr_call_names[m->call.what]);
  if (PORT_UNLIKELY(m->left)) luaL_error(L, "this member has left its group");
  if (PORT_UNLIKELY(mr_lua_in_finaliser(L))) mr_raise(L, MR_EFINAL);
  return m;
}

static PORT_NORETURN void raise_failure(lua_State *L, mr_member *m) {
  char text[300];
  int culprit = mr_comm_failure(m, text, sizeof text);
  mr_cause c = { .kind = "collective", .message = text, .proc = mr_self(L), .raised = 1 };
  mr_hooks.error(L, &c);
  lua_pushinteger(L, culprit + 1);
  lua_setfield(L, -2, "cause_rank");
  lua_error(L);
  abort();
}

/* What this member gets, if it is one value of a place; NULL: it is not. */
static const mr_given *single(mr_member *m) {
  static const mr_given nothing = { .kind = GIVEN_NOTHING };
  switch (m->call.what) {
    case CALL_BROADCAST: return mr_comm_place(m, m->call.root);
    case CALL_SCATTER: return &mr_comm_list(m, m->call.root)[m->rank];
    case CALL_REDUCE: return m->rank == m->call.root ? mr_comm_result(m) : &nothing;
    case CALL_ALLREDUCE: return mr_comm_result(m);
    case CALL_SCAN: return mr_comm_place(m, m->rank);
    case CALL_EXSCAN: return m->rank > 0 ? mr_comm_place(m, m->rank - 1) : &nothing;
    case CALL_GATHER: return m->rank == m->call.root ? NULL : &nothing;
    default: return NULL;
  }
}

/* member, the table to write into or nil: one value */
static int l_results(lua_State *L) {
  mr_member *m = lua_touserdata(L, 1);
  const mr_given *one = single(m);
  if (one) {
    mr_given_push(L, one, lua_isnil(L, 2) ? 0 : 2, m->view);
    return 1;
  }
  int n = mr_comm_size(m);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    mr_given_push(L, m->call.what == CALL_ALLTOALL ? &mr_comm_list(m, i)[m->rank] : mr_comm_place(m, i), 0, 0);
    lua_rawseti(L, 3, i + 1);
  }
  return 1;
}

static int take_results(lua_State *L, mr_member *m) {
  const mr_given *one = single(m);
  if (m->call.what == CALL_BARRIER) {
    mr_comm_took(m);
    return 0;
  }
  if (m->call.what == CALL_BROADCAST && m->rank == m->call.root) {
    mr_comm_took(m);
    lua_pushvalue(L, 2);                         /* its own */
    return 1;
  }
  if (one && one->kind <= GIVEN_SCALAR) {
    if (one->kind) mr_scalar_push(L, &one->u.s);
    else lua_pushnil(L);
    mr_comm_took(m);
    return 1;
  }
  lua_pushcfunction(L, l_results);
  lua_pushlightuserdata(L, m);
  if (m->call.what < CALL_REDUCE) lua_pushnil(L);
  else lua_pushvalue(L, 3);
  int status = lua_pcall(L, 2, 1, 0);
  mr_comm_took(m);                               /* also without memory: the others go on */
  return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- waiting: the member stays at 1, its value at 2, in a reduction the table for the result at 3 ---- */

static int round_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  mr_member *m = o;
  (void)w;
  (void)why;
  switch (mr_comm_look(m, NULL)) {
    case COMM_OVER: return take_results(L, m);
    case COMM_FAILED: raise_failure(L, m);
    default: return -1;
  }
}

static int round_link(void *o, mr_wait *w) { return mr_comm_look(o, w) != COMM_WAIT; }
static void round_unlink(void *o, mr_wait *w) { mr_comm_unwait(o, w); }

static int round_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  (void)L;
  (void)why;
  mr_comm_give_up(o, w->fiber);
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass meeting = { .run = { .op = "wait for the other members of its group", .link = round_link, .unlink = round_unlink },
                                      .take = round_take, .give_up = round_give_up };

/* ---- operations ---- */

static const char *fold_up(mr_member *m, int fold) {
  int left = mr_comm_left(m);
  const char *why = left ? mr_fold(fold, &m->other, &m->mine) : mr_fold(fold, &m->mine, &m->other);
  if (why) return why;
  mr_given used = left ? m->mine : m->other;
  if (left) m->mine = m->other;
  m->other.kind = GIVEN_NOTHING;
  mr_comm_folded(m, &used);
  return NULL;
}

static const char *fold_places(mr_member *m, int fold) {
  for (int i = 1; i < mr_comm_size(m); i++) {
    mr_given prefix;
    if (!mr_given_copy(&prefix, mr_comm_place(m, i - 1))) return "has not enough memory";
    const char *why = mr_fold(fold, &prefix, mr_comm_place(m, i));
    if (why) {
      mr_given_drop(&prefix);
      return why;
    }
    mr_comm_folded(m, mr_comm_place(m, i));
    *mr_comm_place(m, i) = prefix;
  }
  return NULL;
}

static PORT_NORETURN void refuse(lua_State *L, mr_member *m, mr_fiber *f, const char *why) {
  char text[200], *at = text;
  at += snprintf(text, sizeof text, "could not fold: ");
  snprintf(at, sizeof text - (size_t)(at - text), "%s", why);
  mr_comm_fail(m, text, f);
  raise_failure(L, m);
}

static int run(lua_State *L, mr_member *m, const mr_call *call, mr_given *given, mr_given *list) {
  mr_fiber *f = mr_self_fiber(L);
  const char *why = NULL;
  mr_comm_step s = mr_comm_enter(m, call, given, list, f);
  while (s == COMM_FOLD) {
    if ((why = fold_up(m, call->fold)) != NULL) refuse(L, m, f, why);
    s = mr_comm_carry(m, f);
  }
  if (s == COMM_SCAN) {
    if ((why = fold_places(m, call->fold)) != NULL) refuse(L, m, f, why);
    mr_comm_finish(m, f);
  }
  if (PORT_UNLIKELY(s == COMM_FAILED) && !m->busy) {         /* it has not entered */
    mr_given_back(L, given);
    for (int i = 0; list && i < mr_comm_size(m); i++) mr_given_back(L, &list[i]);
    free(list);
  }
  if (PORT_UNLIKELY(s == COMM_FAILED)) raise_failure(L, m);
  return mr_await(L, f, &meeting, m, UINT64_MAX);
}

static int root_arg(lua_State *L, const mr_member *m, int idx) {
  lua_Integer root = luaL_optinteger(L, idx, 1);
  luaL_argcheck(L, root >= 1 && root <= mr_comm_size(m), idx, lua_pushfstring(L, "a rank from 1 to %d expected, got %I", mr_comm_size(m), (LUAI_UACINT)root));
  return (int)root - 1;
}

/* member:barrier() */
static int l_barrier(lua_State *L) {
  mr_given none = { .kind = GIVEN_NOTHING };
  mr_member *m = member_enter_check(L);
  lua_settop(L, 1);
  return run(L, m, &(mr_call){ .what = CALL_BARRIER }, &none, NULL);
}

/* member:broadcast(v [, root]) -> root's v */
static int l_broadcast(lua_State *L) {
  mr_given g = { .kind = GIVEN_NOTHING };
  mr_member *m = member_enter_check(L);
  int root = root_arg(L, m, 3);
  lua_settop(L, 2);
  if (m->rank == root) mr_given_value(L, mr_self_fiber(L), 2, "value", 1, &g);
  return run(L, m, &(mr_call){ .what = CALL_BROADCAST, .root = root }, &g, NULL);
}

/* member:scatter(list [, root]) -> root's list[rank] */
static int l_scatter(lua_State *L) {
  mr_given none = { .kind = GIVEN_NOTHING }, *list = NULL;
  mr_member *m = member_enter_check(L);
  int root = root_arg(L, m, 3);
  lua_settop(L, 2);
  if (m->rank == root) list = mr_given_list(L, mr_self_fiber(L), mr_comm_size(m));
  return run(L, m, &(mr_call){ .what = CALL_SCATTER, .root = root }, &none, list);
}

static int gather(lua_State *L, int what, int several) {
  mr_given g;
  mr_member *m = member_enter_check(L);
  int root = several ? 0 : root_arg(L, m, 3);
  lua_settop(L, 2);
  mr_given_value(L, mr_self_fiber(L), 2, "value", several, &g);
  return run(L, m, &(mr_call){ .what = (unsigned char)what, .root = root }, &g, NULL);
}

/* member:gather(v [, root]) -> list of all v in root, nil elsewhere */
static int l_gather(lua_State *L) { return gather(L, CALL_GATHER, 0); }
/* member:allgather(v) -> list of all v */
static int l_allgather(lua_State *L) { return gather(L, CALL_ALLGATHER, 1); }

/* member:alltoall(list) -> list of what each has for this one */
static int l_alltoall(lua_State *L) {
  mr_given none = { .kind = GIVEN_NOTHING };
  mr_member *m = member_enter_check(L);
  lua_settop(L, 2);
  mr_given *list = mr_given_list(L, mr_self_fiber(L), mr_comm_size(m));
  return run(L, m, &(mr_call){ .what = CALL_ALLTOALL }, &none, list);
}

static int fold_arg(lua_State *L, int idx) {
  if (lua_isfunction(L, idx)) return FOLD_FUNCTION;
  const char *name = luaL_checkstring(L, idx);
  for (int i = FOLD_ADD; i < FOLD_FUNCTION; i++)
    if (strcmp(name, mr_fold_names[i]) == 0) return i;
  return luaL_argerror(L, idx, lua_pushfstring(L, "a function, or one of + * max min band bor bxor and or .. expected, got '%s'", name));
}

static int by_function_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  if (ctx) return lua_gettop(L);
  lua_insert(L, 1);
  lua_callk(L, lua_gettop(L) - 1, LUA_MULTRET, 1, by_function_k);
  return lua_gettop(L);
}

/* member, value, operation: the rest is Lua's */
static int by_function(lua_State *L, const mr_call *call) {
  lua_pushinteger(L, call->what);
  lua_pushinteger(L, call->fold);
  lua_pushinteger(L, call->root);
  if (mr_in_process(L)) lua_pushcfunction(L, mr_require);
  else lua_getglobal(L, "require");
  lua_pushliteral(L, "mare.collective.fold");
  lua_callk(L, 1, 1, 0, by_function_k);
  return by_function_k(L, LUA_OK, 0);
}

/* nil, a table, or a view that may be changed. */
static void check_into(lua_State *L, int idx) {
  if (lua_isnil(L, idx) || lua_istable(L, idx)) return;
  if (!lua_isuserdata(L, idx) || !mr_view_buffer(L, idx)) luaL_typeerror(L, idx, "table or view");
  mr_buffer_edit_all(L, lua_gettop(L));
  lua_pop(L, 1);
}

static int reduce(lua_State *L, int what, int rooted) {
  mr_given g;
  mr_member *m = member_enter_check(L);
  mr_call call = { .what = (unsigned char)what };
  call.fold = (unsigned char)fold_arg(L, 3);
  if (rooted) call.root = root_arg(L, m, 4);
  int into = rooted ? 5 : 4;
  lua_settop(L, into);
  check_into(L, into);
  if (call.fold >= FOLD_CONCAT) {
    luaL_argcheck(L, lua_isnil(L, into), into, "only lists of numbers, folded by an operation with a name, are written into a table");
    lua_settop(L, 3);
    return by_function(L, &call);
  }
  lua_replace(L, 3);
  mr_given_numbers(L, m, 2, call.fold, &g);
  return run(L, m, &call, &g, NULL);
}

/* member:reduce(v, op [, root [, into]]) -> the result in root, nil elsewhere */
static int l_reduce(lua_State *L) { return reduce(L, CALL_REDUCE, 1); }
/* member:allreduce(v, op [, into]) -> the result; scan: of the ranks up to this one; exscan: below it, nil in the first */
static int l_allreduce(lua_State *L) { return reduce(L, CALL_ALLREDUCE, 0); }
static int l_scan(lua_State *L) { return reduce(L, CALL_SCAN, 0); }
static int l_exscan(lua_State *L) { return reduce(L, CALL_EXSCAN, 0); }

/* member:leave() */
static int l_leave(lua_State *L) {
  mr_member *m = member_check(L);
  if (m->busy) return luaL_error(L, "this member is in %s: another fiber has called that", mr_call_names[m->call.what]);
  mr_member_leave(m, mr_self_fiber(L));
  return 0;
}

/* ---- the userdata ---- */

static int l_member_index(lua_State *L) {
  static const char *const fields[] = { "rank", "size", NULL };
  const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
  int rank = strcmp(key, "rank") == 0;
  if (rank || strcmp(key, "size") == 0) {
    mr_member *m = member_check(L);
    lua_pushinteger(L, rank ? m->rank + 1 : mr_comm_size(m));
    return 1;
  }
  member_check(L);
  lua_getmetatable(L, 1);
  lua_pushvalue(L, 2);
  if (lua_rawget(L, -2) == LUA_TNIL) mr_class_method(L, -2, &class, key);
  return lua_isnil(L, -1) ? mr_class_missing(L, &class, fields) : 1;
}

static int l_member_tostring(lua_State *L) {
  if (mr_is_husk(L, 1)) {
    lua_pushliteral(L, TNAME " (moved)");
    return 1;
  }
  mr_member *m = member_check(L);
  lua_pushfstring(L, TNAME " %d of %d", m->rank + 1, mr_comm_size(m));
  return 1;
}

static void member_push(lua_State *L, mr_shared *o) {
  char who[64];
  mr_shared_push(L, o, &class);
  if (!mr_in_process(L)) snprintf(who, sizeof who, "the main script");
  else if (!mr_proc_here(L)->name) snprintf(who, sizeof who, "process #%llu", (unsigned long long)mr_proc_here(L)->job.id);
  else snprintf(who, sizeof who, "process #%llu '%.30s'", (unsigned long long)mr_proc_here(L)->job.id, mr_proc_here(L)->name);
  mr_member_owner((mr_member *)(void *)o, who);
}

static const char *busy(mr_shared *o) {
  return ((mr_member *)(void *)o)->busy ? "member is in an operation of its group. Send it when that is over" : NULL;
}

static const luaL_Reg meta[] = { { "__index", l_member_index }, { "__tostring", l_member_tostring }, { NULL, NULL } };
static const luaL_Reg methods[] = {
  { "barrier", l_barrier }, { "broadcast", l_broadcast }, { "scatter", l_scatter }, { "gather", l_gather }, { "allgather", l_allgather },
  { "alltoall", l_alltoall }, { "reduce", l_reduce }, { "allreduce", l_allreduce }, { "scan", l_scan }, { "exscan", l_exscan },
  { "leave", l_leave }, { NULL, NULL }
};
static const mr_class class = { .share = { .name = TNAME, .destroy = mr_member_destroy, .push = member_push, .moves = 1, .dropped = mr_member_dropped,
                                           .busy = busy }, .tname = TNAME, .meta = meta, .methods = methods };

/* members, n: the list of them. What was not pushed goes with the error. */
static int l_push_members(lua_State *L) {
  mr_member **members = lua_touserdata(L, 1);
  int n = (int)lua_tointeger(L, 2);
  lua_createtable(L, n, 0);
  for (int i = 0; i < n; i++) {
    member_push(L, &members[i]->base.shared);
    lua_rawseti(L, 3, i + 1);
  }
  return 1;
}

/* (n) -> list of n members */
static int l_members(lua_State *L) {
  enum { MOST = 1 << 20 };
  lua_Integer n = luaL_checkinteger(L, 1);
  luaL_argcheck(L, n >= 1 && n <= MOST, 1, "a number of members from 1 to 1048576 expected");
  mr_check_forked(L);
  mr_member **members = malloc((size_t)n * sizeof *members);
  if (!members || mr_comm_new((int)n, members) != MR_OK) {
    free(members);
    return mr_raise(L, MR_ENOMEM);
  }
  lua_pushcfunction(L, l_push_members);
  lua_pushlightuserdata(L, members);
  lua_pushinteger(L, n);
  int status = lua_pcall(L, 2, 1, 0);
  for (int i = 0; i < n; i++) mr_release(&members[i]->base.shared);
  free(members);
  return status == LUA_OK ? 1 : lua_error(L);
}

/* ---- for mare.collective.fold: one step of an operation by a function ---- */

static int step(lua_State *L, mr_member *m, mr_comm_step s) {
  if (s == COMM_FAILED) raise_failure(L, m);
  if (s == COMM_FOLD || s == COMM_SCAN) lua_pushstring(L, s == COMM_FOLD ? "fold" : "scan");
  else lua_pushnil(L);
  return 1;
}

/* (member, value, what, fold, root) -> "fold": take other, then carry; "scan": fold the places, then finish; nil: then result */
static int l_enter(lua_State *L) {
  mr_given g;
  mr_member *m = member_enter_check(L);
  mr_call call = { .what = (unsigned char)luaL_checkinteger(L, 3), .fold = (unsigned char)luaL_checkinteger(L, 4), .root = (int)luaL_checkinteger(L, 5) };
  luaL_argcheck(L, call.what >= CALL_REDUCE && call.what < CALLS && call.fold >= FOLD_CONCAT && call.fold < FOLDS, 3, "no such operation");
  mr_given_value(L, mr_self_fiber(L), 2, "value", call.what != CALL_REDUCE, &g);
  mr_comm_step s = mr_comm_enter(m, &call, &g, NULL, mr_self_fiber(L));
  if (s == COMM_FAILED) mr_given_back(L, &g);
  return step(L, m, s);
}

static mr_member *member_in(lua_State *L) {
  mr_member *m = member_check(L);
  if (!m->busy) luaL_error(L, "this member is in no operation");
  return m;
}

/* (member) -> the neighbour's value, whether it is the left one */
static int l_other(lua_State *L) {
  mr_member *m = member_in(L);
  mr_given_push(L, &m->other, 0, 0);
  mr_given_drop(&m->other);
  lua_pushboolean(L, mr_comm_left(m));
  return 2;
}

/* (member, value) -> as enter */
static int l_carry(lua_State *L) {
  mr_given g;
  mr_member *m = member_in(L);
  mr_given_value(L, mr_self_fiber(L), 2, "result", m->call.what != CALL_REDUCE, &g);
  mr_given_drop(&m->mine);
  m->mine = g;
  return step(L, m, mr_comm_carry(m, mr_self_fiber(L)));
}

static int place_arg(lua_State *L, const mr_member *m) {
  lua_Integer rank = luaL_checkinteger(L, 2);
  luaL_argcheck(L, rank >= 1 && rank <= mr_comm_size(m), 2, "no such rank");
  return (int)rank - 1;
}

/* (member, rank) -> what it gave; (member, rank, value) puts its result there */
static int l_place(lua_State *L) {
  mr_given g, *place;
  mr_member *m = member_in(L);
  place = mr_comm_place(m, place_arg(L, m));
  if (lua_gettop(L) < 3) {
    mr_given_push(L, place, 0, 0);
    return 1;
  }
  mr_given_value(L, mr_self_fiber(L), 3, "result", 1, &g);
  mr_given_drop(place);
  *place = g;
  return 0;
}

/* (member): the scan is folded */
static int l_finish(lua_State *L) {
  mr_comm_finish(member_in(L), mr_self_fiber(L));
  return 0;
}

/* (member, text): it could not be folded */
static int l_fail(lua_State *L) {
  mr_member *m = member_check(L);
  mr_comm_fail(m, luaL_checkstring(L, 2), mr_self_fiber(L));
  return 0;
}

/* (member) -> what the round gives, when it is over */
static int l_result(lua_State *L) {
  mr_member *m = member_in(L);
  lua_settop(L, 3);
  return mr_await(L, mr_self_fiber(L), &meeting, m, UINT64_MAX);
}

static const luaL_Reg functions[] = {
  { "members", l_members }, { "enter", l_enter }, { "other", l_other }, { "carry", l_carry }, { "place", l_place }, { "finish", l_finish },
  { "fail", l_fail }, { "result", l_result }, { NULL, NULL }
};

int luaopen_mare_collective_core(lua_State *L) {
  mr_host_ensure(L);
  lua_createtable(L, 0, 8);
  mr_set_functions(L, functions);
  mr_module_guard(L);
  return 1;
}

void mr_collective_setup(void) { mr_member_type = &class.share; }
