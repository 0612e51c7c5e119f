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
#include "process/strand.h"
#include "run/replay.h"

#include <stdlib.h>
#include <string.h>

#define TNAME "selector"

/*
 * One cache line, the only one of its own that a wake-up touches: with thousands of selectors at the same channels no node is in a near cache. What is
 * received through it comes into the fiber's own mail, which nobody writes while the selector's wait is not open.
 */
typedef struct node {
  mr_knot knot;                        /* its `number` is the case's index, its `what` is DOUBTFUL or 0 */
  mr_shared *object;                   /* counted; NULL: the case was removed */
} node;
enum { DOUBTFUL = 1 };
_Static_assert(sizeof(void *) != 8 || sizeof(node) == PORT_CACHELINE, "a wake-up touches one line of a case");

/* Nodes stay where they are: so they come in blocks, each as large as all before it. */
typedef struct block {
  struct block *before;
  int first, size;                     /* indices first + 1 .. first + size */
  _Alignas(PORT_CACHELINE) node at[];
} block;

typedef struct selector {
  mr_set set;
  mr_strand *strand;                   /* counted; NULL: the process's first fiber */
  node **doubtful;
  block *last;                         /* NULL: it is closed */
  int n, ndoubtful;
  unsigned char waits;                 /* its fiber is parked in wait */
  unsigned rng;
} selector;

static node *node_of(const selector *s, int index) {
  block *b = s->last;
  while (index <= b->first) b = b->before;
  return &b->at[index - b->first - 1];
}

static const mr_waitclass *class_of(const node *k) { return ((const mr_class *)(const void *)k->object->type)->wait; }

static selector *selector_check(lua_State *L) {
  selector *s = luaL_checkudata(L, 1, "mare." TNAME);
  mr_check_forked(L);
  if (!s->last) luaL_error(L, "the selector is closed");
  if (s->set.fiber != mr_self_fiber(L)) luaL_error(L, "a selector belongs to the fiber that made it");
  return s;
}

static void doubt(selector *s, node *k) {
  if (k->knot.wait.what == DOUBTFUL || !k->object) return;
  k->knot.wait.what = DOUBTFUL;
  s->doubtful[s->ndoubtful++] = k;
}

/* Of a case that was not removed: it leaves its queue. */
static void let_go(node *k) {
  class_of(k)->run.unlink(k->object, &k->knot.wait);
  mr_release(k->object);
  k->object = NULL;
}

static int l_gc(lua_State *L) {
  selector *s = mr_gc_own(L, sizeof *s, l_gc);
  if (!s) return mr_forked() ? 0 : luaL_typeerror(L, 1, TNAME);
  if (s->waits && !mr_lua_in_finaliser(L)) return luaL_error(L, "the selector is in use");
  for (int i = 1; i <= s->n; i++) {
    node *k = node_of(s, i);
    if (k->object) let_go(k);
  }
  while (s->last) {                                /* no node is in a queue now, so none can come on the list of missed ones */
    block *b = s->last;
    s->last = b->before;
    port_lines_free(b);
  }
  free(s->doubtful);
  s->doubtful = NULL;
  s->n = 0;
  if (s->strand) mr_release(&s->strand->shared);
  s->strand = NULL;
  return 0;
}

/* ---- cases ---- */

static int size_of(const selector *s) { return s->last ? s->last->first + s->last->size : 0; }

/* Room for `more` more cases. */
static int grow(selector *s, int more) {
  int size = size_of(s);
  node **doubtful = realloc(s->doubtful, ((size_t)size + (size_t)more) * sizeof *doubtful);
  if (doubtful) s->doubtful = doubtful;
  block *b = doubtful ? port_lines_new(sizeof *b + (size_t)more * sizeof *b->at) : NULL;
  if (!b) return 0;
  b->before = s->last;
  b->first = size;
  b->size = more;
  s->last = b;
  return 1;
}

/* Takes the value on top for the case. A program with the debug library may have put something else where the table was. */
static void keep(lua_State *L, lua_Integer key) {
  int type = lua_getiuservalue(L, 1, 1);
  lua_insert(L, -2);
  if (type == LUA_TTABLE) lua_rawseti(L, -2, key);
  else lua_pop(L, 1);
  lua_pop(L, 1);
}

/* The value on top becomes a case; returns its key. */
static int add(lua_State *L, selector *s) {
  mr_shared *o = mr_shared_any(L, -1);
  const mr_waitclass *type = o ? ((const mr_class *)(const void *)o->type)->wait : NULL;
  if (!type || !type->run.stays)
    luaL_error(L, "selector: case %d: a channel, timer, process or fiber expected, got %s; others fit into select", s->n + 1,
               type ? o->type->name : luaL_typename(L, -1));
  if (s->n == size_of(s) && !grow(s, s->n)) mr_raise(L, MR_ENOMEM);
  mr_retain(o);
  node *k = node_of(s, ++s->n);
  k->object = o;
  k->knot.wait.number = (unsigned)s->n;
  k->knot.wait.set = &s->set;
  k->knot.wait.fiber = s->set.fiber;
  k->knot.wait.mail = &mr_lua_of(s->set.fiber)->mail;
  doubt(s, k);
  lua_pushvalue(L, -1);
  keep(L, s->n);
  lua_pop(L, 1);
  return s->n;
}

/* selector:add(waitable) -> its index */
static int l_add(lua_State *L) {
  selector *s = selector_check(L);
  luaL_checkany(L, 2);
  lua_settop(L, 2);
  lua_pushinteger(L, add(L, s));
  return 1;
}

/* selector:remove(index) */
static int l_remove(lua_State *L) {
  selector *s = selector_check(L);
  lua_Integer i = luaL_checkinteger(L, 2);
  luaL_argcheck(L, i >= 1 && i <= s->n && node_of(s, (int)i)->object, 2, "there is no such case");
  let_go(node_of(s, (int)i));
  lua_pushboolean(L, 0);
  keep(L, i);
  return 0;
}

/* ---- waiting ---- */

static void take_missed(selector *s) {
  mr_knot *m = mr_set_missed(&s->set);
  while (m) {
    mr_knot *next = m->missed;
    doubt(s, (node *)(void *)m);
    m = next;
  }
}

static int selector_results(lua_State *L, const node *k, int n) {
  lua_pushinteger(L, k->knot.wait.number);
  lua_insert(L, -n - 1);
  return n + 1;
}

/* Asks the doubtful cases in a random order, and links those that are not ready. -1: none is; *again: one may be. */
static int ask(lua_State *L, selector *s, int *again) {
  *again = 0;
  for (int left = s->ndoubtful; left > 0; left--) {
    s->rng = s->rng * 1664525u + 1013904223u;
    int i = (int)(((uint64_t)s->rng * (uint64_t)left) >> 32);
    if (PORT_UNLIKELY(mr_replay_on)) i = (int)mr_replay_case((unsigned)left);
    node *k = s->doubtful[i];
    int n = k->object ? class_of(k)->take(L, k->object, &k->knot.wait, MR_AGAIN) : -1;
    if (n >= 0) return selector_results(L, k, n);
    s->doubtful[i] = s->doubtful[left - 1];       /* asked: behind the others, or gone */
    s->doubtful[left - 1] = k;
    int r = k->object ? class_of(k)->run.link(k->object, &k->knot.wait) : 0;
    if (r < 0) return mr_raise(L, MR_ENOMEM);     /* it stays doubtful */
    if (r) {
      *again = 1;
      continue;
    }
    k->knot.wait.what = 0;
    s->doubtful[left - 1] = s->doubtful[--s->ndoubtful];
  }
  return -1;
}

static int selector_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  selector *s = o;
  mr_wait *fired = w->fiber->fired;
  int again, n;
  if (why != MR_AGAIN || (fired && fired->set == &s->set)) {
    node *k = (node *)(void *)fired;
    doubt(s, k);
    if ((n = class_of(k)->take(L, k->object, &k->knot.wait, why)) >= 0) return selector_results(L, k, n);
  }
  do {
    take_missed(s);
    n = ask(L, s, &again);
  } while (n < 0 && again);
  return n;
}

static int selector_link(void *o, mr_wait *w) {
  selector *s = o;
  s->waits = 1;
  return !mr_set_open(&s->set, w->fiber);
}

static void selector_unlink(void *o, mr_wait *w) {
  selector *s = o;
  (void)w;
  s->waits = 0;
  mr_set_close(&s->set);
}

static const mr_waitclass selecting = { .run = { .op = "select", .link = selector_link, .unlink = selector_unlink, .each = 1 }, .take = selector_take };

/* selector:wait([seconds]) -> index, results… | nil, "timeout" */
static int l_wait(lua_State *L) {
  selector *s = selector_check(L);
  uint64_t deadline = mr_deadline(L, 2);
  lua_settop(L, 1);
  if (s->n == 0 && deadline == UINT64_MAX) return luaL_error(L, "the selector has nothing to wait for, and no limit was given");
  return mr_await(L, s->set.fiber, &selecting, s, deadline);
}

/* ---- making ---- */

/* (methods, key): what no method is called */
static int l_missing(lua_State *L) {
  lua_settop(L, 2);
  if (mr_may_miss(L, 2)) return 0;
  lua_newtable(L);
  mr_list_keys(L, 1);
  return mr_no_field(L, TNAME, 2);
}

/* It is registered only when it is complete: there may be no memory in between. */
static void push_metatable(lua_State *L) {
  static const luaL_Reg methods[] = { { "wait", l_wait }, { "add", l_add }, { "remove", l_remove }, { NULL, NULL } };
  if (luaL_getmetatable(L, "mare." TNAME) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_createtable(L, 0, 4);
  lua_pushliteral(L, "mare." TNAME);
  lua_setfield(L, -2, "__name");
  lua_pushcfunction(L, l_gc);
  lua_setfield(L, -2, "__gc");
  lua_pushliteral(L, TNAME);
  lua_setfield(L, -2, "__metatable");
  lua_createtable(L, 0, 3);
  mr_set_functions(L, methods);
  lua_createtable(L, 0, 1);
  lua_pushcfunction(L, l_missing);
  lua_setfield(L, -2, "__index");
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "__index");
  lua_pushvalue(L, -1);
  lua_setfield(L, LUA_REGISTRYINDEX, "mare." TNAME);
}

/* mare.selector{ waitable… } -> selector */
static int l_selector(lua_State *L) {
  mr_fiber *f = mr_self_fiber(L);
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  int n = (int)lua_rawlen(L, 1);
  if (mr_proc_of(f)->kind != PROC_HOST && mr_proc_of(f)->finalisers == 0) mr_proc_of(f)->finalisers = 1;
  selector *s = lua_newuserdatauv(L, sizeof *s, 1);
  memset(s, 0, sizeof *s);
  s->set.fiber = f;
  s->rng = (unsigned)port_entropy();
  push_metatable(L);
  lua_setmetatable(L, 2);
  lua_createtable(L, n, 0);
  lua_setiuservalue(L, 2, 1);
  if (!grow(s, n > 4 ? n : 4)) return mr_raise(L, MR_ENOMEM);
  if (f != f->job->first) {
    s->strand = mr_strand_at(f);
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

int luaopen_mare_selector(lua_State *L) {
  mr_host_ensure(L);
  mr_function_push(L, l_selector);
  return 1;
}
