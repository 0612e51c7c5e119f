/*
 * mare.select: waiting for several things at once.
 *
 * A call makes one case per waitable (await.h) and asks each, in a random order, so that among ready ones none is preferred. If none
 * is ready it opens one wait, links all cases, and parks; whoever claims the ticket first decides which case it is, the others are
 * unlinked. The cases live in a userdata on the caller's stack, as long as the call; a case owns the message that it offers.
 *
 * In a process a mere list of channels is a matter of pick.c.
 *
 * Stack of a call: 1 the table of cases, 2 the userdata (set), then the waitables themselves - the program may change the table
 * meanwhile -, above them what take pushes.
 */
#include "module/module.h"
#include "module/pick.h"
#include "run/replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct case_ { mr_case c; int key; } case_;   /* key: index in the table */

typedef struct set {
  mr_fiber *f;
  uint64_t deadline;
  unsigned rng;
  int n;
  unsigned char linked, packed, has_default;
  unsigned char no_memory;             /* for a case to be linked */
  case_ *order[1];                     /* n of them, shuffled; behind them the cases themselves */
} set;

/* ---- operations ---- */

/* A userdata, so that no program can make one up; the object and the values are its user values. */
typedef struct operation { const mr_waitclass *type; mr_shared *object; uint64_t tag; int n; } operation;

static uint64_t operation_tag(const operation *o) { return mr_secret ^ (uintptr_t)o->type ^ (uintptr_t)o->object << 17; }

static operation *to_operation(lua_State *L, int idx) {
  operation *o = lua_rawlen(L, idx) == sizeof *o ? lua_touserdata(L, idx) : NULL;
  return o && o->tag == operation_tag(o) ? o : NULL;
}

void mr_operation_push(lua_State *L, const mr_waitclass *type, int n) {
  if (n > 60000) luaL_error(L, "too many values for a case of select: %d", n - 1);
  mr_shared *object = mr_shared_any(L, -n);
  operation *o = lua_newuserdatauv(L, sizeof *o, n);
  *o = (operation){ .type = type, .object = object, .n = n };
  o->tag = operation_tag(o);
  lua_insert(L, -n - 1);
  for (int i = n; i >= 1; i--) lua_setiuservalue(L, -i - 1, i);
}

mr_shared *mr_operation_object(lua_State *L, int idx) {
  const operation *o = to_operation(L, idx);
  return o ? o->object : NULL;
}

int mr_operation_values(lua_State *L, int idx) {
  const operation *o = to_operation(L, idx);
  luaL_checkstack(L, o->n + 4, "too many values");
  for (int i = 2; i <= o->n; i++) lua_getiuservalue(L, idx, i);
  return o->n - 1;
}

/* ---- the set ---- */

static void hold(set *s, int yes) {
  mr_lua_of(s->f)->set = yes ? s : NULL;
  for (int i = 0; i < s->n; i++) {
    if (yes) mr_retain(s->order[i]->c.object);
    else mr_release(s->order[i]->c.object);
  }
}

static void unlink_all(set *s) {
  if (!s->linked) return;
  s->linked = 0;
  for (int i = 0; i < s->n; i++) s->order[i]->c.type->run.unlink(s->order[i]->c.object, &s->order[i]->c.wait);
  if (PORT_UNLIKELY(mr_lua_of(s->f)->set == s)) hold(s, 0);
}

/* A host's fiber that never goes on (its state closes): the objects may have been finalised already. */
static void unlink_fiber(mr_fiber *f) {
  set *s = mr_lua_of(f)->set;
  unlink_all(s);
  for (int i = 0; i < s->n; i++) mr_mail_drop(&s->order[i]->c.mail);
}

static void take_back(lua_State *L, set *s) {
  for (int i = 0; i < s->n; i++) mr_mail_back(L, &s->order[i]->c.mail);
}

static int l_set_gc(lua_State *L) {
  set *s = mr_gc_own(L, sizeof *s, l_set_gc);
  if (s) take_back(L, s);
  return 0;
}

static int before(const void *a, const void *b) { return (*(case_ *const *)a)->key - (*(case_ *const *)b)->key; }

/* In their own order, but from another one on. */
static PORT_NOINLINE void turn(set *s) {
  qsort(s->order, (size_t)s->n, sizeof *s->order, before);
  for (unsigned i = mr_replay_case((unsigned)s->n); i > 0; i--) {
    case_ *first = s->order[0];
    memmove(s->order, s->order + 1, (size_t)(s->n - 1) * sizeof *s->order);
    s->order[s->n - 1] = first;
  }
}

static void shuffle(set *s) {
  if (PORT_UNLIKELY(mr_replay_on)) {
    turn(s);
    return;
  }
  for (int i = s->n - 1; i > 0; i--) {
    s->rng = s->rng * 1664525u + 1013904223u;
    int k = (int)(((uint64_t)s->rng * (uint64_t)(i + 1)) >> 32);
    case_ *t = s->order[i];
    s->order[i] = s->order[k];
    s->order[k] = t;
  }
}

static set *set_new(lua_State *L, int n) {
  set *s = lua_newuserdatauv(L, sizeof *s + (size_t)n * (sizeof(case_ *) + sizeof(case_)) + 16, 0);
  memset(s, 0, sizeof *s);
  s->f = mr_self_fiber(L);
  s->rng = (unsigned)port_entropy();
  case_ *cases = (case_ *)(void *)(((uintptr_t)&s->order[n] + 15) & ~(uintptr_t)15);
  for (int i = 0; i < n; i++) s->order[i] = &cases[i];
  memset(cases, 0, (size_t)n * sizeof *cases);
  return s;
}

/* The value on top is a case: an object of ours, or an operation on one, which keeps it alive. */
static void add_case(lua_State *L, set *s, int key) {
  const operation *op = to_operation(L, -1);
  const mr_waitclass *type = NULL;
  mr_shared *o;
  if (op) {
    lua_getiuservalue(L, -1, 1);
    o = mr_shared_any(L, -1);
    if (o == op->object) type = op->type;
    lua_pop(L, 1);
  } else {
    o = mr_shared_any(L, -1);
    type = o ? ((const mr_class *)(const void *)o->type)->wait : NULL;
  }
  if (!o || !type)
    luaL_error(L, "select: case %d: a channel, timer, process, fiber or other waitable expected, got %s", key, luaL_typename(L, -1));
  case_ *k = s->order[s->n++];
  k->c.type = type;
  k->c.object = o;
  k->c.mail.kind = MAIL_NONE;
  k->c.wait.fiber = s->f;
  k->c.wait.mail = &k->c.mail;
  k->key = key;
}

/* Values that go out are packed before anything waits. */
static void prepare(lua_State *L, set *s) {
  static const char key;
  int packs = 0;
  for (int i = 0; i < s->n; i++) packs |= s->order[i]->c.type->prepare != NULL;
  if (!packs) return;
  s->packed = 1;
  int top = lua_gettop(L);
  lua_pushvalue(L, 2);
  mr_meta_set(L, &key, "__gc", l_set_gc);
  lua_settop(L, top);
  for (int i = 0; i < s->n; i++) {
    mr_case *c = &s->order[i]->c;
    if (!c->type->prepare) continue;
    lua_pushvalue(L, 2 + s->order[i]->key);
    c->type->prepare(L, c);
    lua_settop(L, top);
  }
}

/* Behind the last case there are only options: who writes timout would wait for ever. */
static void check_fields(lua_State *L, int n) {
  if (n > 0) lua_pushinteger(L, n);
  else lua_pushnil(L);
  while (lua_next(L, 1)) {
    const char *key = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    if (lua_isinteger(L, -2) && lua_tointeger(L, -2) > n)
      luaL_error(L, "select: case %d is nil, but there is a case %d", n + 1, (int)lua_tointeger(L, -2));
    if (!lua_isinteger(L, -2) && strcmp(key, "default") != 0 && strcmp(key, "timeout") != 0)
      luaL_error(L, "select: unknown field '%s'; there are default, timeout", luaL_tolstring(L, -2, NULL));
    lua_pop(L, 1);
  }
}

static set *collect(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_Unsigned len = lua_rawlen(L, 1);
  int n = len < 100000 ? (int)len : luaL_error(L, "select: too many cases");
  set *s = set_new(L, n);
  luaL_checkstack(L, n + 16, "too many cases");
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    add_case(L, s, i);
  }
  check_fields(L, n);
  s->has_default = lua_getfield(L, 1, "default") != LUA_TNIL;
  lua_pop(L, 1);
  s->deadline = mr_deadline_field(L, 1, "select", "timeout");
  prepare(L, s);
  return s;
}

/* ---- waiting ---- */

static int select_results(lua_State *L, set *s, const case_ *k, int n) {
  if (s->packed) take_back(L, s);                   /* what the other cases offered */
  lua_pushinteger(L, k->key);
  lua_insert(L, -n - 1);
  return n + 1;
}

/* Asks the cases in order; how long one may wait before it asks again it says by the fiber's deadline. -1: none is ready. */
static int ask(lua_State *L, set *s) {
  shuffle(s);
  s->f->deadline = s->has_default ? 0 : s->deadline;
  for (int i = 0; i < s->n; i++) {
    mr_case *c = &s->order[i]->c;
    int n = c->type->take(L, c->object, &c->wait, MR_AGAIN);
    if (n >= 0) return select_results(L, s, s->order[i], n);
  }
  return -1;
}

/* The case through which the wait was claimed. -1: it had nothing to give after all. */
static int ask_fired(lua_State *L, set *s, mr_reason why) {
  const mr_wait *fired = s->f->fired;
  for (int i = 0; i < s->n; i++) {
    mr_case *c = &s->order[i]->c;
    if (&c->wait != fired) continue;
    int n = c->type->take(L, c->object, &c->wait, why);
    return n >= 0 ? select_results(L, s, s->order[i], n) : -1;
  }
  return -1;
}

/* ---- the call, itself something that is waited for ---- */

static int select_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  set *s = o;
  int n = why == MR_AGAIN ? -1 : ask_fired(L, s, why);
  (void)w;
  if (n >= 0) return n;
  if (s->no_memory) return mr_raise(L, MR_ENOMEM);
  if ((n = ask(L, s)) >= 0 || !s->has_default) return n;
  if (s->packed) take_back(L, s);
  lua_pushliteral(L, "default");
  lua_getfield(L, 1, "default");
  return 2;
}

static int select_link(void *o, mr_wait *w) {
  set *s = o;
  int r = 0;
  s->linked = 1;
  if (PORT_UNLIKELY(s->n == 0)) mr_wait_fence(w->fiber);
  if (PORT_UNLIKELY(w->fiber->job->host && w->fiber != w->fiber->job->first)) hold(s, 1);
  for (int i = 0; i < s->n; i++) {                 /* all: those behind a ready one are unlinked too */
    mr_case *c = &s->order[i]->c;
    c->wait.ticket = w->ticket;
    c->wait.linked = 0;
  }
  for (int i = 0; i < s->n && !r; i++) r = s->order[i]->c.type->run.link(s->order[i]->c.object, &s->order[i]->c.wait);
  s->no_memory = r < 0;                            /* the other nodes may have been claimed: that comes first */
  return r != 0;
}

static void select_unlink(void *o, mr_wait *w) {
  (void)w;
  unlink_all(o);
}

static int select_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  set *s = o;
  (void)L;
  (void)w;
  (void)why;
  if (s->packed) take_back(L, s);
  return MR_AWAIT_TIMEOUT;
}

static const mr_waitclass selecting = { .run = { .op = "select", .link = select_link, .unlink = select_unlink, .each = 1 }, .take = select_take,
                                        .give_up = select_give_up };

/* select{ case…, default = value, timeout = seconds } -> index, results… | "default", value | nil, "timeout" */
int mr_select_any(lua_State *L) {
  set *s = collect(L);
  if (s->n == 0 && !s->has_default && s->deadline == UINT64_MAX)
    return luaL_error(L, "select: nothing to wait for: the table has no cases, no default and no timeout");
  return mr_await(L, s->f, &selecting, s, s->deadline);
}

void mr_select_setup(void) { mr_hooks.unlink = unlink_fiber; }

int luaopen_mare_select(lua_State *L) {
  mr_host_ensure(L);
  mr_function_push(L, mr_in_process(L) ? mr_pick : mr_select_any);
  return 1;
}
