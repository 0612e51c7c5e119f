/*
 * outside: waiting for descriptors that are not ours, and mare inside somebody else's event loop. Part of the module mare.
 */
#include "module/module.h"
#include "process/crew.h"
#include "process/poll.h"
#include "port/errors.h"
#include "port/poll.h"

/* ---- wait_fd ---- */

/* What is on the stack while a fiber waits: the nodes lie in it. */
typedef struct waiting { mr_watch *watch; mr_wait write; int fd, copy, dirs; uint64_t deadline; } waiting;

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

static int push_timeout(lua_State *L) {
  lua_pushnil(L);
  lua_pushliteral(L, "timeout");
  lua_pushliteral(L, "ETIMEDOUT");
  return 3;
}

static void end(waiting *w, mr_fiber *f) {
  mr_watch_unwait(w->watch, &f->wait);
  mr_watch_unwait(w->watch, &w->write);
  mr_watch_end(w->watch);
  if (w->copy >= 0) port_close(w->copy);
}

static int wait_k(lua_State *L, int status, lua_KContext ctx);

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

static int wait_ready(lua_State *L, mr_fiber *f, waiting *w) {
  unsigned what;
  int err = port_ready_now(w->fd, (unsigned)w->dirs, &what);
  if (err) return push_error(L, err);
  if (what) return push_ready(L, what, w->dirs);
  if (w->deadline == 0) return push_timeout(L);
  if ((err = watch(w)) != 0) return push_error(L, err);
  if ((err = mr_wait_open(f, L)) != MR_OK) {
    mr_watch_end(w->watch);
    if (w->copy >= 0) port_close(w->copy);
    return mr_raise(L, err);
  }
  w->write = (mr_wait){ .fiber = f, .ticket = f->wait.ticket };
  int ready = (w->dirs & MR_READ) && mr_watch_wait(w->watch, MR_READ, &f->wait);
  if (!ready && (w->dirs & MR_WRITE)) ready = mr_watch_wait(w->watch, MR_WRITE, &w->write);
  f->op = "wait_fd";
  if (ready) {
    mr_wait_cancel(f);                           /* the reading half may have been claimed: then it has been woken, too */
    return wait_k(L, LUA_OK, (lua_KContext)w);
  }
  return mr_park(L, f, w->deadline, (lua_KContext)w, wait_k);
}

static int wait_k(lua_State *L, int status, lua_KContext ctx) {
  waiting *w = (waiting *)ctx;
  mr_fiber *f = mr_self_fiber(L);
  mr_reason r = mr_wake(f);
  (void)status;
  end(w, f);
  mr_raise_reason(L, f, r);
  if (r == MR_TIMEOUT) w->deadline = 0;          /* one last look */
  return wait_ready(L, f, w);
}

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

/* The number itself, or what the object's method getfd or fd says. */
static int descriptor(lua_State *L, int idx) {
  if (!lua_isinteger(L, idx) && (lua_isuserdata(L, idx) || lua_istable(L, idx))) {
    lua_getfield(L, idx, "getfd");
    if (lua_isnil(L, -1)) {
      lua_pop(L, 1);
      lua_getfield(L, idx, "fd");
    }
    if (lua_isfunction(L, -1)) {
      lua_pushvalue(L, idx);
      lua_call(L, 1, 1);
    }
    lua_replace(L, idx);
  }
  luaL_argcheck(L, lua_isinteger(L, idx), idx, "a descriptor (an integer), or an object with a method getfd or fd, expected");
  return (int)lua_tointeger(L, idx);
}

/* mare.wait_fd(descriptor, "r" | "w" | "rw"[, seconds]) -> what is ready: "r" | "w" | "rw"; nil, message, code */
int mr_wait_fd(lua_State *L) {
  lua_settop(L, 3);
  int fd = descriptor(L, 1), dirs = directions(L, 2);
  uint64_t deadline = mr_deadline(L, 3);
  mr_check_forked(L);
  waiting *w = lua_newuserdatauv(L, sizeof *w, 0);
  *w = (waiting){ .fd = fd, .dirs = dirs, .deadline = deadline, .copy = -1 };
  return wait_ready(L, mr_self_fiber(L), w);
}

/* ---- a foreign loop ---- */

static mr_proc *host(lua_State *L) {
  mr_proc *p = mr_self(L);
  if (p->kind != PROC_HOST) luaL_error(L, "only a host (plain Lua, a C program) has a loop of its own; in a process every call just waits");
  return p;
}

/* mare.descriptor() -> a descriptor that is readable while mare.step has something to do */
int mr_host_descriptor(lua_State *L) {
  mr_crew *c = mr_crew_of(host(L));
  int bell = c ? mr_crew_bell(c) : -1;
  if (bell < 0) return luaL_error(L, "the system has no descriptor left");
  lua_pushinteger(L, bell);
  return 1;
}

/* mare.step() -> how many of this script's fibers ran; never waits */
int mr_host_step(lua_State *L) {
  lua_pushinteger(L, mr_crew_step(host(L)));
  return 1;
}
