/*
 * mare.selector: select for those who wait for the same things again and again.
 *
 * Its cases stay linked from wait to wait (a mr_set, waitable.h), so that a wait costs what became ready, however many cases there are.
 * A case is in one of three places: linked in its object's queue, where nothing has happened since it was asked; in the set's `missed`;
 * or in `doubtful`, to be asked before the next wait. What was ready stays doubtful until it is not.
 *
 * A selector belongs to the fiber that made it, which it keeps. Its objects are kept by user value 1, a table, and counted by the cases, as
 * the state may finalise them first when it closes.
 */
#include "module/module.h"
#include "process/crew.h"

#include <stdlib.h>
#include <string.h>

#define TNAME "selector"

typedef struct node { mr_case c; int key; unsigned char doubtful, removed; } node;

typedef struct selector {
  mr_set set;
  mr_strand *strand;                   /* counted; NULL: the process's first fiber */
  node **doubtful;
  node **all;                          /* by key - 1 */
  int n, size, ndoubtful;
  unsigned rng;
  uint64_t deadline;                   /* of the open wait */
} selector;

static selector *check(lua_State *L) {
  selector *s = luaL_checkudata(L, 1, "mare." TNAME);
  mr_check_forked(L);
  if (!s->all) luaL_error(L, "the selector is closed");
  if (s->set.fiber != mr_self_fiber(L)) luaL_error(L, "a selector belongs to the fiber that made it");
  return s;
}

static void doubt(selector *s, node *k) {
  if (k->doubtful || k->removed) return;
  k->doubtful = 1;
  s->doubtful[s->ndoubtful++] = k;
}

static int l_gc(lua_State *L) {
  selector *s = lua_touserdata(L, 1);
  for (int i = 0; i < s->n; i++) {
    node *k = s->all[i];
    if (!k->removed) {
      k->c.type->unlink(&k->c);
      mr_release(k->c.object);
    }
  }
  for (int i = 0; i < s->n; i++) free(s->all[i]);  /* none is in a queue now, so none can come on the list of missed ones */
  free(s->all);
  free(s->doubtful);
  s->all = s->doubtful = NULL;
  s->n = 0;
  if (s->strand) mr_release(&s->strand->shared);
  s->strand = NULL;
  return 0;
}

/* ---- cases ---- */

static int grow(selector *s) {
  int size = s->size ? 2 * s->size : 8;
  node **all = realloc(s->all, (size_t)size * sizeof *all);
  if (all) s->all = all;
  node **doubtful = all ? realloc(s->doubtful, (size_t)size * sizeof *doubtful) : NULL;
  if (!doubtful) return 0;
  s->doubtful = doubtful;
  s->size = size;
  return 1;
}

/* The value on top becomes a case; returns its key. */
static int add(lua_State *L, selector *s) {
  mr_shared *o = mr_shared_any(L, -1);
  const mr_waitclass *type = o ? ((const mr_class *)(const void *)o->type)->wait : NULL;
  if (!type || !type->stays)
    luaL_error(L, "selector: case %d: a channel, timer, process or fiber expected, got %s; others fit into select", s->n + 1,
               type ? o->type->name : luaL_typename(L, -1));
  node *k = s->n < s->size || grow(s) ? calloc(1, sizeof *k) : NULL;
  if (!k) mr_raise(L, MR_ENOMEM);
  mr_retain(o);
  k->c.type = type;
  k->c.object = o;
  k->c.wait.set = &s->set;
  k->c.wait.fiber = s->set.fiber;
  k->c.wait.mail = &k->c.mail;
  s->all[s->n++] = k;
  k->key = s->n;
  doubt(s, k);
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, -2);
  lua_rawseti(L, -2, k->key);
  lua_pop(L, 2);
  return k->key;
}

/* selector:add(waitable) -> its index */
static int l_add(lua_State *L) {
  selector *s = check(L);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  lua_pushinteger(L, add(L, s));
  return 1;
}

/* selector:remove(index) */
static int l_remove(lua_State *L) {
  selector *s = check(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= s->n && !s->all[i - 1]->removed, 2, "there is no such case");
  node *k = s->all[i - 1];
  k->c.type->unlink(&k->c);
  k->removed = 1;
  mr_release(k->c.object);
  lua_getiuservalue(L, 1, 1);
  lua_pushboolean(L, 0);
  lua_rawseti(L, -2, i);
  return 0;
}

/* ---- waiting ---- */

static void take_missed(selector *s) {
  mr_case *c = mr_set_missed(&s->set);
  while (c) {
    mr_case *next = c->next;
    doubt(s, (node *)(void *)c);
    c = next;
  }
}

static int results(lua_State *L, const node *k, int n) {
  lua_pushinteger(L, k->key);
  lua_insert(L, -n - 1);
  return n + 1;
}

/* Asks the doubtful cases in a random order, and links those that are not ready. -1: none is; *again: one may be. */
static int ask(lua_State *L, selector *s, int *again) {
  *again = 0;
  for (int left = s->ndoubtful; left > 0; left--) {
    s->rng = s->rng * 1664525u + 1013904223u;
    int i = (int)(((uint64_t)s->rng * (uint64_t)left) >> 32);
    node *k = s->doubtful[i];
    int n = k->removed ? -1 : k->c.type->take(L, &k->c, MR_AGAIN);
    if (n >= 0) return results(L, k, n);
    s->doubtful[i] = s->doubtful[left - 1];       /* asked: behind the others, or gone */
    s->doubtful[left - 1] = k;
    if (!k->removed && k->c.type->link(&k->c)) {
      *again = 1;
      continue;
    }
    k->doubtful = 0;
    s->doubtful[left - 1] = s->doubtful[--s->ndoubtful];
  }
  return -1;
}

static int fail(lua_State *L, const char *why) {
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

static int wait_k(lua_State *L, int status, lua_KContext ctx);

static int wait(lua_State *L, selector *s) {
  mr_fiber *f = s->set.fiber;
  int again, n, err;
  for (;;) {
    do {
      take_missed(s);
      if ((n = ask(L, s, &again)) >= 0) return n;
    } while (again);
    if (s->deadline == 0) return fail(L, "timeout");
    if ((err = mr_wait_open(f, L)) != MR_OK) return mr_raise(L, err);
    if (mr_set_open(&s->set, f)) break;
    mr_set_close(&s->set);
    mr_wait_abandon(f);
  }
  f->op = "select";
  f->on = NULL;
  return mr_park(L, f, s->deadline, (lua_KContext)s, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext ctx) {
  selector *s = (selector *)ctx;
  mr_fiber *f = s->set.fiber;
  node *k = (node *)(void *)f->fired;
  mr_reason r = mr_wake(f);
  (void)status;
  mr_set_close(&s->set);
  if (r == MR_TIMEOUT) return fail(L, "timeout");
  if (r == MR_WOKEN || r == MR_CLOSED || r == MR_AGAIN) {
    doubt(s, k);
    int n = k->c.type->take(L, &k->c, r);
    return n >= 0 ? results(L, k, n) : wait(L, s);
  }
  mr_raise_reason(L, f, r);
  return wait(L, s);
}

/* selector:wait([seconds]) -> index, results… | nil, "timeout" */
static int l_wait(lua_State *L) {
  selector *s = check(L);
  s->deadline = mr_deadline(L, 2);
  lua_settop(L, 1);
  if (s->n == 0 && s->deadline == UINT64_MAX) return luaL_error(L, "the selector has nothing to wait for, and no limit was given");
  return wait(L, s);
}

/* ---- making ---- */

static void push_metatable(lua_State *L) {
  static const luaL_Reg methods[] = { { "wait", l_wait }, { "add", l_add }, { "remove", l_remove }, { NULL, NULL } };
  if (!luaL_newmetatable(L, "mare." TNAME)) return;
  lua_pushcfunction(L, l_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, TNAME);
  lua_setfield(L, -2, "__metatable");
  lua_createtable(L, 0, 3);
  mr_set_functions(L, methods);
  lua_setfield(L, -2, "__index");
}

/* mare.selector{ waitable… } -> selector */
static int l_selector(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int n = (int)lua_rawlen(L, 1);
  if (f->proc->kind != PROC_HOST && f->proc->finalisers == 0) f->proc->finalisers = 1;
  selector *s = lua_newuserdatauv(L, sizeof *s, 1);
  memset(s, 0, sizeof *s);
  s->set.fiber = f;
  s->rng = (unsigned)port_entropy();
  push_metatable(L);
  lua_setmetatable(L, 2);
  lua_createtable(L, n, 0);
  lua_setiuservalue(L, 2, 1);
  if (!grow(s)) return mr_raise(L, MR_ENOMEM);
  if (f != &f->proc->main) {
    s->strand = (mr_strand *)(void *)f;
    mr_retain(&s->strand->shared);
  }
  lua_insert(L, 1);
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 2, i);
    add(L, s);
  }
  lua_settop(L, 1);
  return 1;
}

MR_EXPORT int luaopen_mare_selector(lua_State *L) {
  mr_host_ensure(L);
  mr_function_push(L, l_selector);
  return 1;
}
