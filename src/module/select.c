/*
 * mare.select: waiting for several things at once.
 *
 * A call makes one case per waitable (waitable.h) and asks each, in a random order, so that among ready ones none is preferred. If none
 * is ready it opens one wait, links all cases, and parks; whoever claims the ticket first decides which case it is, the others are
 * unlinked. The cases live in a userdata on the caller's stack, as long as the call; a case owns the message that it offers.
 *
 * Stack of a call: 1 the table of cases, 2 the userdata (set), then the waitables themselves - the program may change the table
 * meanwhile -, above them what take pushes.
 */
#include "module/module.h"

#include <string.h>

typedef struct case_ { mr_case c; int key; } case_;   /* key: index in the table */

typedef struct set {
  mr_fiber *f;
  uint64_t deadline;
  unsigned rng;
  int n;
  unsigned char linked, packed, has_default;
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

int mr_operation_values(lua_State *L, int idx) {
  const operation *o = to_operation(L, idx);
  luaL_checkstack(L, o->n + 4, "too many values");
  for (int i = 2; i <= o->n; i++) lua_getiuservalue(L, idx, i);
  return o->n - 1;
}

/* ---- the set ---- */

static void hold(set *s, int yes) {
  s->f->set = yes ? s : NULL;
  for (int i = 0; i < s->n; i++) {
    if (yes) mr_retain(s->order[i]->c.object);
    else mr_release(s->order[i]->c.object);
  }
}

static void unlink_all(set *s) {
  if (!s->linked) return;
  s->linked = 0;
  for (int i = 0; i < s->n; i++) s->order[i]->c.type->unlink(&s->order[i]->c);
  if (PORT_UNLIKELY(s->f->set != NULL)) hold(s, 0);
}

/* A host's fiber that never goes on (its state closes): the objects may have been finalised already. */
static void unlink_fiber(mr_fiber *f) {
  set *s = f->set;
  unlink_all(s);
  for (int i = 0; i < s->n; i++) mr_mail_drop(&s->order[i]->c.mail);
}

static void take_back(set *s) {
  for (int i = 0; i < s->n; i++) mr_mail_back(&s->order[i]->c.mail);
}

static int l_set_gc(lua_State *L) {
  set *s = lua_touserdata(L, 1);
  take_back(s);
  return 0;
}

static void shuffle(set *s) {
  for (int i = s->n - 1; i > 0; i--) {
    s->rng = s->rng * 1664525u + 1013904223u;
    int k = (int)(((uint64_t)s->rng * (uint64_t)(i + 1)) >> 32);
    case_ *t = s->order[i];
    s->order[i] = s->order[k];
    s->order[k] = t;
  }
}

static set *new_set(lua_State *L, int n) {
  set *s = lua_newuserdatauv(L, sizeof *s + (size_t)n * (sizeof(case_ *) + sizeof(case_)) + 16, 0);
  memset(s, 0, sizeof *s);
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
  k->key = key;
}

/* Values that go out are packed before anything waits. */
static void prepare(lua_State *L, set *s) {
  int packs = 0;
  for (int i = 0; i < s->n; i++) packs |= s->order[i]->c.type->prepare != NULL;
  if (!packs) return;
  s->packed = 1;
  if (luaL_newmetatable(L, "mare.select.set")) {
    lua_pushcfunction(L, l_set_gc);
    lua_setfield(L, -2, "__gc");
  }
  lua_setmetatable(L, 2);
  int top = lua_gettop(L);
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

static uint64_t timeout(lua_State *L) {
  int type = lua_getfield(L, 1, "timeout");
  lua_Number s = lua_tonumber(L, -1);
  if (type != LUA_TNIL && (!lua_isnumber(L, -1) || s != s)) luaL_error(L, "select: 'timeout' must be a number of seconds");
  uint64_t deadline = mr_deadline(L, -1);
  lua_pop(L, 1);
  return deadline;
}

static set *collect(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_Unsigned len = lua_rawlen(L, 1);
  int n = len < 100000 ? (int)len : luaL_error(L, "select: too many cases");
  set *s = new_set(L, n);
  luaL_checkstack(L, n + 16, "too many cases");
  for (int i = 1; i <= n; i++) {
    lua_rawgeti(L, 1, i);
    add_case(L, s, i);
  }
  check_fields(L, n);
  s->has_default = lua_getfield(L, 1, "default") != LUA_TNIL;
  lua_pop(L, 1);
  s->deadline = timeout(L);
  prepare(L, s);
  return s;
}

/* ---- waiting ---- */

static int results(lua_State *L, set *s, const case_ *k, int n) {
  if (s->packed) take_back(s);                   /* what the other cases offered */
  lua_pushinteger(L, k->key);
  lua_insert(L, -n - 1);
  return n + 1;
}

static int fail(lua_State *L, set *s, const char *why) {
  if (s->packed) take_back(s);
  lua_pushnil(L);
  lua_pushstring(L, why);
  return 2;
}

/* Asks the cases in order. -1: none is ready. */
static int ask(lua_State *L, set *s) {
  shuffle(s);
  for (int i = 0; i < s->n; i++) {
    int n = s->order[i]->c.type->take(L, &s->order[i]->c, MR_AGAIN);
    if (n >= 0) return results(L, s, s->order[i], n);
  }
  return -1;
}

/* 1: some case may be ready now, and nothing is linked any more. */
static int link_all(set *s, mr_fiber *f) {
  int ready = 0;
  s->linked = 1;
  if (PORT_UNLIKELY(f->proc->kind == PROC_HOST && f != &f->proc->main)) hold(s, 1);
  for (int i = 0; i < s->n && !ready; i++) {
    mr_case *c = &s->order[i]->c;
    c->wait = (mr_wait){ .fiber = f, .ticket = f->wait.ticket, .mail = &c->mail };
    ready = c->type->link(c);
  }
  return ready;
}

static int woken(lua_State *L, set *s);
static int select_k(lua_State *L, int status, lua_KContext ctx);

static int wait(lua_State *L, set *s) {
  mr_fiber *f = s->f = mr_self_fiber(L);
  for (;;) {
    int n = ask(L, s);
    if (n >= 0) return n;
    if (s->has_default) {
      if (s->packed) take_back(s);
      lua_pushliteral(L, "default");
      lua_getfield(L, 1, "default");
      return 2;
    }
    if (s->deadline == 0) return fail(L, s, "timeout");
    int err = mr_wait_open(f, L);
    if (err) return mr_raise(L, err);
    for (int i = 0; i < s->n; i++) s->order[i]->c.wait.next = NULL;
    if (!link_all(s, f)) break;
    int mine = mr_wait_cancel(f);
    unlink_all(s);
    if (!mine) return woken(L, s);
    mr_wake(f);
  }
  f->op = "select";
  f->on = NULL;
  return mr_park(L, f, s->deadline, (lua_KContext)s, select_k);
}

/* Somebody has claimed the wait, through a case or otherwise. */
static int woken(lua_State *L, set *s) {
  mr_fiber *f = s->f;
  mr_wait *fired = f->fired;
  mr_reason r = mr_wake(f);
  unlink_all(s);
  if (r == MR_TIMEOUT) return fail(L, s, "timeout");
  mr_raise_reason(L, f, r);
  for (int i = 0; i < s->n; i++) {
    if (&s->order[i]->c.wait != fired) continue;
    int n = s->order[i]->c.type->take(L, &s->order[i]->c, r);
    return n >= 0 ? results(L, s, s->order[i], n) : wait(L, s);
  }
  return wait(L, s);
}

static int select_k(lua_State *L, int status, lua_KContext ctx) {
  (void)status;
  return woken(L, (set *)ctx);
}

/* select{ case…, default = value, timeout = seconds } -> index, results… | "default", value | nil, "timeout" */
static int l_select(lua_State *L) {
  set *s = collect(L);
  if (s->n == 0 && !s->has_default && s->deadline == UINT64_MAX)
    return luaL_error(L, "select: nothing to wait for: the table has no cases, no default and no timeout");
  return wait(L, s);
}

void mr_select_setup(void) { mr_hooks.unlink = unlink_fiber; }

MR_EXPORT int luaopen_mare_select(lua_State *L) {
  mr_host_ensure(L);
  mr_function_push(L, l_select);
  return 1;
}
