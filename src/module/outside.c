/*
 * outside: waiting for descriptors that are not ours, and mare inside somebody else's event loop. Part of the module mare.
 */
#include "module/module.h"
#include "process/strand.h"
#include "run/poll.h"
#include "port/errors.h"
#include "port/poll.h"
#include "port/simnet.h"

/* ---- wait_fd ---- */

/* What is on the stack while a fiber waits: the nodes lie in it. */
typedef struct waiting { mr_watch *watch; mr_wait write; int fd, copy, dirs; } waiting;

static int push_ready(lua_State *L, unsigned what, int dirs) {
  what &= (unsigned)dirs;
  lua_pushstring(L, what == (MR_READ | MR_WRITE) ? "rw" : what == MR_WRITE ? "w" : "r");
  return 1;
}

static int push_error(lua_State *L, int err) {
  char text[128];
  lua_pushnil(L);
  lua_pushstring(L, port_error_text(err, text, sizeof text));
  lua_pushstring(L, port_error_name(err));
  return 3;
}

/* A descriptor is in the poll set once: where somebody waits for it already, a copy of it is watched. */
static int watch(waiting *w) {
  int err;
  w->copy = -1;
  w->watch = mr_watch_once(w->fd, w->dirs, &err);
  if (w->watch || err != port_error_exists) return err;
  err = port_copy(w->fd, &w->copy);
  if (err) return err;
  w->watch = mr_watch_once(w->copy, w->dirs, &err);
  if (!w->watch) port_close(w->copy);
  return err;
}

/* What is ready, or why it can't be known. -1: nothing is. */
static int descriptor_look(lua_State *L, const waiting *d) {
  unsigned what;
  int err = port_ready_now(d->fd, (unsigned)d->dirs, &what);
  if (err) return push_error(L, err);
  return what ? push_ready(L, what, d->dirs) : -1;
}

static int descriptor_take(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  waiting *d = o;
  int n = descriptor_look(L, d), err;
  (void)why;
  if (n < 0 && w->fiber->deadline && (err = watch(d)) != 0) return push_error(L, err);
  return n;
}

/* The reading half may have been claimed when the writing one is ready. */
static int descriptor_link(void *o, mr_wait *w) {
  waiting *d = o;
  d->write = (mr_wait){ .fiber = w->fiber, .ticket = w->ticket };
  int ready = (d->dirs & MR_READ) && mr_watch_wait(d->watch, MR_READ, w);
  if (!ready && (d->dirs & MR_WRITE)) ready = mr_watch_wait(d->watch, MR_WRITE, &d->write);
  return ready;
}

static void descriptor_end(waiting *d) {
  mr_watch_end(d->watch);
  d->watch = NULL;
  if (d->copy >= 0) port_close(d->copy);
  d->copy = -1;
}

static void descriptor_unlink(void *o, mr_wait *w) {
  waiting *d = o;
  mr_watch_unwait(d->watch, w);
  mr_watch_unwait(d->watch, &d->write);
  descriptor_end(d);
}

/* One last look. */
static int descriptor_give_up(lua_State *L, void *o, mr_wait *w, mr_reason why) {
  waiting *d = o;
  int n = why == MR_TIMEOUT ? descriptor_look(L, d) : 0;
  (void)w;
  if (d->watch) descriptor_end(d);               /* the wait could not be opened */
  return n < 0 ? MR_AWAIT_TIMEOUT : n;
}

static const mr_waitclass waiting_fd = { .run = { .op = "wait_fd", .link = descriptor_link, .unlink = descriptor_unlink, .each = 1 },
                                         .take = descriptor_take, .give_up = descriptor_give_up };

static int directions(lua_State *L, int idx) {
  const char *s = luaL_optstring(L, idx, "r");
  int dirs = 0;
  for (; *s; s++) {
    if (*s == 'r') dirs |= MR_READ;
    else if (*s == 'w') dirs |= MR_WRITE;
    else return luaL_argerror(L, idx, "\"r\", \"w\" or \"rw\" expected");
  }
  luaL_argcheck(L, dirs, idx, "\"r\", \"w\" or \"rw\" expected");
  return dirs;
}

/* Pushes the object's method getfd or fd, or nil. Ours would raise for a name that isn't one. */
static void push_descriptor_method(lua_State *L, int idx) {
  const mr_shared *own = lua_isuserdata(L, idx) ? mr_shared_any(L, idx) : NULL;
  if (own) {
    lua_getmetatable(L, idx);
    mr_class_method(L, -1, (const mr_class *)own->type, "fd");
    lua_remove(L, -2);
  } else if (lua_getfield(L, idx, "getfd") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_getfield(L, idx, "fd");
  }
}

/* The number itself, or what the object says. */
static int descriptor(lua_State *L, int idx) {
  if (!lua_isinteger(L, idx) && (lua_isuserdata(L, idx) || lua_istable(L, idx))) {
    push_descriptor_method(L, idx);
    if (lua_isfunction(L, -1)) {
      lua_pushvalue(L, idx);
      lua_call(L, 1, 1);
    }
    int exact;
    lua_Integer n = lua_tointegerx(L, -1, &exact);       /* LuaSocket's is a float */
    if (exact && lua_type(L, -1) == LUA_TNUMBER) lua_pushinteger(L, n), lua_replace(L, -2);
    lua_replace(L, idx);
  }
  luaL_argcheck(L, lua_isinteger(L, idx), idx, "a descriptor (an integer), or an object with a method getfd or fd, expected");
  return (int)lua_tointeger(L, idx);
}

/* mare.wait_fd(descriptor, "r" | "w" | "rw"[, seconds]) -> what is ready: "r" | "w" | "rw"; nil, message, code; nil, "timeout" */
int mr_wait_fd(lua_State *L) {
  lua_settop(L, 3);
  int fd = descriptor(L, 1), dirs = directions(L, 2);
  if (!port_is_sim(fd)) mr_outside_check(L, "wait_fd");
  uint64_t deadline = mr_deadline(L, 3);
  mr_check_forked(L);
  waiting *w = lua_newuserdatauv(L, sizeof *w, 0);
  *w = (waiting){ .fd = fd, .dirs = dirs, .copy = -1 };
  return mr_await(L, mr_self_fiber(L), &waiting_fd, w, deadline);
}

/* ---- a foreign loop ---- */

static mr_proc *host(lua_State *L) {
  mr_proc *p = mr_self(L);
  if (p->kind != PROC_HOST) luaL_error(L, "only a host (plain Lua, a C program) has a loop of its own; in a process every call just waits");
  return p;
}

/* mare.descriptor() -> a descriptor that is readable while mare.step has something to do */
int mr_host_descriptor(lua_State *L) {
  mr_crew *c = mr_crew_of(&host(L)->job);
  int bell = c ? mr_crew_bell(c) : -1;
  if (bell < 0) return luaL_error(L, "the system has no descriptor left");
  lua_pushinteger(L, bell);
  return 1;
}

/* mare.step() -> how many of this script's fibers ran; never waits */
int mr_host_step(lua_State *L) {
  mr_job *j = &host(L)->job;
  mr_host_bar(j->first, L);
  lua_pushinteger(L, mr_crew_step(j));
  return 1;
}
