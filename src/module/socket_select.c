/*
 * socket_select: LuaSocket's select. The system is asked what is ready; only if nothing is, the fiber waits for all of them at once and asks
 * again. So nothing is taken from a socket, and a descriptor of somebody else's object (its method getfd) can be among them.
 *
 * Stack: the three arguments; OBJECTS, a list of the objects; PLAN, whose userdata owns what a wait needs: whatever ends the wait, its
 * finaliser takes the nodes out of the queues.
 */
#include "module/socket.h"

#include <string.h>

enum { OBJECTS = 4, PLAN = 5 };

typedef struct entry {
  mr_sock *sock;                     /* ours, anchored in OBJECTS; or NULL */
  int fd;                            /* of somebody else's object */
  int copy;                          /* its duplicate, watched for one wait: the original may be watched already; -1: none */
  mr_watch *watch;                   /* of the wait that is open; NULL: none */
  unsigned char direction, dirty, ready;
  mr_wait node;
} entry;

typedef struct plan {
  int n, readers;                    /* entries; the first of them are to be read */
  entry at[];
} plan;

static int fd_of(const entry *e) { return e->sock ? e->sock->fd : e->fd; }

/* ---- collecting ---- */

static void gather(lua_State *L, int list, int *n) {
  if (lua_isnoneornil(L, list)) return;
  luaL_checktype(L, list, LUA_TTABLE);
  for (lua_Integer i = 1; lua_geti(L, list, i) != LUA_TNIL; i++) lua_rawseti(L, OBJECTS, ++*n);
  lua_pop(L, 1);
}

/* Calls a method of the object on top; leaves its result, nil when there is no such method. */
static void ask(lua_State *L, const char *method) {
  if (lua_getfield(L, -1, method) == LUA_TNIL) return;
  lua_pushvalue(L, -2);
  lua_call(L, 1, 1);
}

static void fill(lua_State *L, plan *p, int i) {
  entry *e = &p->at[i];
  lua_rawgeti(L, OBJECTS, i + 1);
  e->sock = mr_sock_to(L, -1);
  e->direction = i < p->readers ? MR_READ : MR_WRITE;
  e->fd = e->copy = -1;
  if (e->sock) {
    e->dirty = e->sock->in.len > 0 && i < p->readers;
  } else {
    ask(L, "getfd");
    lua_Number fd = lua_isnumber(L, -1) ? lua_tonumber(L, -1) : -1;
    e->fd = fd >= 0 && fd <= 0x7fffffff ? (int)fd : -1;
    if (e->fd >= 0 && !port_is_sim(e->fd)) mr_outside_check(L, "select");
    lua_pop(L, 1);
    if (e->fd >= 0 && i < p->readers) {
      ask(L, "dirty");
      e->dirty = (unsigned char)lua_toboolean(L, -1);
      lua_pop(L, 1);
    }
  }
  lua_pop(L, 1);
}

/* ---- looking ---- */

/* How many are ready; -1: no memory. */
static int look(lua_State *L, plan *p) {
  struct port_want few[64], *w = p->n > 64 ? lua_newuserdatauv(L, (size_t)p->n * sizeof *w, 0) : few;
  int count = 0;
  for (int i = 0; i < p->n; i++) w[i] = (struct port_want){ fd_of(&p->at[i]), p->at[i].direction == MR_READ, p->at[i].direction == MR_WRITE };
  int r = p->n ? port_net_ready(w, p->n) : 0;
  for (int i = 0; r >= 0 && i < p->n; i++) {
    entry *e = &p->at[i];
    if (e->sock && e->sock->in.len && e->direction == MR_READ && e->sock->fd >= 0) e->dirty = 1;
    e->ready = e->dirty || (r > 0 && fd_of(e) >= 0 && (w[i].read || w[i].write));
    count += e->ready;
  }
  lua_settop(L, PLAN);
  return r < 0 ? -1 : count;
}

/* An edge wakes one fiber: others who wait for the same are told what we only looked at. */
static void tell_others(const entry *e, mr_fiber *f) {
  if (!e->sock || !e->sock->watch) return;
  if (mr_watch_waited(e->sock->watch, e->direction)) mr_watch_edge(e->sock->watch, e->direction, f);
}

/* The ready ones of [from, to) in a list, and the place of each in it by itself. */
static void push_ready(lua_State *L, const plan *p, int from, int to) {
  lua_Integer n = 0;
  lua_newtable(L);
  for (int i = from; i < to; i++) {
    if (!p->at[i].ready) continue;
    lua_rawgeti(L, OBJECTS, i + 1);
    lua_pushvalue(L, -1);
    if (lua_rawget(L, -3) == LUA_TNIL) {
      lua_pushvalue(L, -2);
      lua_rawseti(L, -4, ++n);
      lua_pushvalue(L, -2);
      lua_pushinteger(L, n);
      lua_rawset(L, -5);
    }
    lua_pop(L, 2);
  }
}

static int sock_select_results(lua_State *L, mr_fiber *f, plan *p, int timeout) {
  for (int i = 0; i < p->n; i++)
    if (p->at[i].ready) tell_others(&p->at[i], f);
  push_ready(L, p, 0, p->readers);
  push_ready(L, p, p->readers, p->n);
  if (!timeout) return 2;
  lua_pushliteral(L, "timeout");
  return 3;
}

/* ---- waiting ---- */

static void unlink_all(plan *p) {
  for (int i = 0; i < p->n; i++) {
    entry *e = &p->at[i];
    if (e->watch) mr_watch_unwait(e->watch, &e->node);
    if (e->watch && e->copy >= 0) mr_watch_end(e->watch);
    if (e->copy >= 0) port_net_close(e->copy);
    e->watch = NULL;
    e->copy = -1;
  }
}

/* The watch to wait with. 0, or why there is none. */
static int watch_of(entry *e) {
  int err = 0;
  if (e->sock) {
    if ((err = mr_sock_watch(e->sock)) == 0) e->watch = e->sock->watch;
    return err;
  }
  if ((err = port_net_duplicate(e->fd, &e->copy)) != 0) return err;
  e->watch = mr_watch_once(e->copy, e->direction, &err);
  return err;
}

static int prepare(plan *p) {
  int err = 0;
  for (int i = 0; i < p->n && !err; i++)
    if (fd_of(&p->at[i]) >= 0) err = watch_of(&p->at[i]);
  return err;
}

static int sock_select_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  plan *p = o;
  int n = look(L, p);
  (void)why;
  if (n > 0) return sock_select_results(L, w->fiber, p, 0);
  if (n == 0 && (w->fiber->deadline == 0 || prepare(p) == 0)) return -1;
  unlink_all(p);
  return luaL_error(L, "select failed");
}

/* Queued at every one, or: one has news, others may be claimed by now. */
static int sock_select_link(void *o, mr_wait *w) {
  plan *p = o;
  for (int i = 0; i < p->n; i++) {
    entry *e = &p->at[i];
    if (!e->watch) continue;
    e->node = (mr_wait){ .fiber = w->fiber, .ticket = w->ticket };
    if (mr_watch_wait(e->watch, e->direction, &e->node)) return 1;
  }
  return 0;
}

static void sock_select_unlink(void *o, mr_wait *w) {
  (void)w;
  unlink_all(o);
}

/* The time is over: what is ready now counts. */
static int sock_select_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  plan *p = o;
  unlink_all(p);
  return why == MR_TIMEOUT ? sock_select_results(L, w->fiber, p, look(L, p) <= 0) : 0;
}

static const mr_waitclass selecting = { .run = { .op = "select", .link = sock_select_link, .unlink = sock_select_unlink, .each = 1 }, .take = sock_select_take,
                                        .give_up = sock_select_give_up };

static int l_plan_gc(lua_State *L) {
  plan *p = mr_gc_own(L, sizeof *p, l_plan_gc);
  if (p) unlink_all(p);
  return 0;
}

static plan *plan_push(lua_State *L, int n) {
  static const char key;
  mr_proc *self = mr_self(L);
  if (self->finalisers == 0) self->finalisers = 1;
  size_t size = sizeof(plan) + (size_t)n * sizeof(entry);
  plan *p = memset(lua_newuserdatauv(L, size, 0), 0, size);
  mr_meta_set(L, &key, "__gc", l_plan_gc);
  return p;
}

/* core.select(readers | nil, writers | nil[, seconds]) -> readable, writable[, "timeout"] */
int mr_sock_select(lua_State *L) {
  lua_Number seconds = luaL_optnumber(L, 3, -1);
  int readers = 0, n = 0;
  lua_settop(L, 3);
  lua_newtable(L);
  gather(L, 1, &n);
  readers = n;
  gather(L, 2, &n);
  plan *p = plan_push(L, n);
  p->readers = readers;
  for (int i = 0; i < n; i++) {
    fill(L, p, i);
    p->n = i + 1;
  }
  uint64_t deadline = !(seconds >= 0) || seconds > 9e9 ? UINT64_MAX : seconds == 0 ? 0 : port_now() + (uint64_t)(seconds * 1e9);
  return mr_await(L, mr_self_fiber(L), &selecting, p, deadline);
}
