/*
 * coroutine: the library of a process's state. It behaves as the original does, and keeps the chain of running coroutines.
 *
 * The fiber's `top` is the coroutine that runs, `top_ok` says that every link below it can yield. A blocking call in `top`
 * suspends the whole process: it yields with `sysyield` set, and each level here yields on, down to the scheduler. When the process
 * goes on, each level's continuation resumes the one above it. The program sees neither.
 *
 * `top` is read by a signal handler at any instant, which arms a hook there: it always is a live state, anchored by the stack or the
 * function of the frame that set it.
 *
 * A coroutine above which the process is parked has the status "suspended" for Lua. The lowest bit of the process pointer in its extra
 * space marks it as running meanwhile: others who could look (finalisers that run while the process is parked) must not resume it.
 * Only its own thread of control reads that space otherwise, and it does not run. A fiber's own coroutine is marked unless it runs,
 * by a second bit when it has ended: its results stay on it.
 */
#include "module/state.h"

enum { PARKED = -1 };   /* beside the status codes of Lua, all >= 0 */

static inline uintptr_t *mark_of(lua_State *co) { return (uintptr_t *)lua_getextraspace(co); }
static inline int is_marked(lua_State *co) { return (int)(*mark_of(co) & 1); }
static inline int is_ended_fiber(lua_State *co) { return (int)(*mark_of(co) & 2); }

/* Suspended in Lua's eyes though it is part of the running chain. */
static inline int is_held(lua_State *L, lua_State *co) {
  return is_marked(co) || (co == mr_proc_here(L)->fiber->L && co != L);
}

static lua_State *get_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "thread");
  return co;
}

/* One link of the chain: resumes co and restores the fiber's view. */
static inline int run(lua_State *L, lua_State *co, int narg, int *nres) {
  mr_fiber *f = mr_proc_here(L)->fiber;
  lua_State *top = f->top;
  unsigned char ok = f->top_ok;
  f->top_ok = ok && top == L && lua_isyieldable(L);
  f->top = co;
  int status = lua_resume(co, L, narg, nres);
  f->top = top;
  f->top_ok = ok;
  return PORT_UNLIKELY(status == LUA_YIELD && f->sysyield) ? PARKED : status;
}

/* Runs co with narg values on its stack. Results moved to L, or -1 and an error value there, or PARKED in *parked. */
static inline int transfer(lua_State *L, lua_State *co, int narg, int *parked) {
  int nres;
  int status = run(L, co, narg, &nres);
  if (PORT_LIKELY(status == LUA_OK || status == LUA_YIELD)) {
    if (PORT_UNLIKELY(!lua_checkstack(L, nres + 1))) {
      lua_pop(co, nres);
      lua_pushliteral(L, "too many results to resume");
      return -1;
    }
    lua_xmove(co, L, nres);
    return nres;
  }
  if (status == PARKED) {
    *parked = 1;
    return 0;
  }
  lua_xmove(co, L, 1);
  return -1;
}

/* The first resume: moves the arguments too. */
static inline int start(lua_State *L, lua_State *co, int narg, int *parked) {
  if (PORT_UNLIKELY(is_held(L, co))) {
    lua_pushstring(L, is_ended_fiber(co) ? "cannot resume dead coroutine" : "cannot resume non-suspended coroutine");
    return -1;
  }
  if (PORT_UNLIKELY(!lua_checkstack(co, narg))) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, narg);
  return transfer(L, co, narg, parked);
}

/* The process parks: the coroutine above stays marked until it is resumed from k. */
static int park_below(lua_State *L, lua_State *co, lua_KFunction k) {
  *mark_of(co) |= 1;
  return lua_yieldk(L, 0, 0, k);
}

static inline void unpark(lua_State *co) { *mark_of(co) &= ~(uintptr_t)1; }

/* ---- resume ---- */

static int k_resume(lua_State *L, int status, lua_KContext ctx);

static inline int resume_results(lua_State *L, lua_State *co, int n, int parked) {
  if (PORT_UNLIKELY(parked)) return park_below(L, co, k_resume);
  lua_pushboolean(L, n >= 0);
  if (n < 0) n = 1;
  lua_insert(L, -(n + 1));
  return n + 1;
}

static int k_resume(lua_State *L, int status, lua_KContext ctx) {
  (void)status; (void)ctx;
  int parked = 0;
  lua_State *co = lua_tothread(L, 1);
  unpark(co);
  int n = transfer(L, co, 0, &parked);
  return resume_results(L, co, n, parked);
}

/* coroutine.resume (co, ...) -> true, values... | false, error */
static int l_coroutine_resume(lua_State *L) {
  int parked = 0;
  lua_State *co = get_coroutine(L);
  int n = start(L, co, lua_gettop(L) - 1, &parked);
  return resume_results(L, co, n, parked);
}

/* ---- wrap ---- */

/* Closes co as its resumer: its pending variables run on it. */
static int reset(lua_State *L, lua_State *co) {
  mr_fiber *f = mr_proc_here(L)->fiber;
  lua_State *top = f->top;
  unsigned char ok = f->top_ok;
  f->top_ok = 0;
  f->top = co;
  int status = mr_thread_reset(co, L);
  f->top = top;
  f->top_ok = ok;
  return status;
}

static int PORT_NOINLINE wrap_error(lua_State *L, lua_State *co) {
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    status = reset(L, co);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int k_wrap(lua_State *L, int status, lua_KContext ctx) {
  (void)status; (void)ctx;
  int parked = 0;
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  unpark(co);
  int n = transfer(L, co, 0, &parked);
  if (parked) return park_below(L, co, k_wrap);
  return n >= 0 ? n : wrap_error(L, co);
}

/* function made by wrap (...) -> values... */
static int l_coroutine_wrapped(lua_State *L) {
  int parked = 0;
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  int n = start(L, co, lua_gettop(L), &parked);
  if (PORT_UNLIKELY(parked)) return park_below(L, co, k_wrap);
  return PORT_LIKELY(n >= 0) ? n : wrap_error(L, co);
}

/* coroutine.create (f) -> co */
static int l_coroutine_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  return 1;
}

/* coroutine.wrap (f) -> function */
static int l_coroutine_wrap(lua_State *L) {
  l_coroutine_create(L);
  lua_pushcclosure(L, l_coroutine_wrapped, 1);
  return 1;
}

/* coroutine.yield (...) -> arguments of the next resume */
static int l_coroutine_yield(lua_State *L) {
  if (PORT_UNLIKELY(L == mr_proc_here(L)->fiber->L)) {
    lua_pushliteral(L, "attempt to yield from outside a coroutine");
    return lua_error(L);
  }
  return lua_yield(L, lua_gettop(L));
}

/* ---- status, close ---- */

enum { RUNNING, DEAD, SUSPENDED, NORMAL };
static const char *const statuses[] = { "running", "dead", "suspended", "normal" };

static int status_of(lua_State *L, lua_State *co) {
  lua_Debug ar;
  if (L == co) return RUNNING;
  if (PORT_UNLIKELY(is_marked(co))) return is_ended_fiber(co) ? DEAD : NORMAL;
  switch (lua_status(co)) {
    case LUA_YIELD: return is_held(L, co) ? NORMAL : SUSPENDED;
    case LUA_OK:
      if (lua_getstack(co, 0, &ar)) return NORMAL;
      return lua_gettop(co) == 0 ? DEAD : SUSPENDED;
    default: return DEAD;
  }
}

/* coroutine.status (co) -> string */
static int l_coroutine_status(lua_State *L) {
  lua_State *co = get_coroutine(L);
  lua_pushstring(L, statuses[status_of(L, co)]);
  return 1;
}

/* coroutine.isyieldable ([co]) -> boolean */
static int l_coroutine_isyieldable(lua_State *L) {
  lua_State *co = lua_isnone(L, 1) ? L : get_coroutine(L);
  lua_pushboolean(L, co != mr_proc_here(L)->fiber->L && lua_isyieldable(co));
  return 1;
}

/* coroutine.running () -> co, is it the main one? */
static int l_coroutine_running(lua_State *L) {
  lua_pushboolean(L, lua_pushthread(L));
  return 2;
}

/* coroutine.close (co) -> true | false, error */
static int l_coroutine_close(lua_State *L) {
  lua_State *co = get_coroutine(L);
  int status = status_of(L, co);
  if (status != DEAD && status != SUSPENDED) return luaL_error(L, "cannot close a %s coroutine", statuses[status]);
  if (is_ended_fiber(co) || reset(L, co) == LUA_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_xmove(co, L, 1);
  return 2;
}

int mr_lib_coroutine(lua_State *L) {
  static const luaL_Reg functions[] = {
    { "create", l_coroutine_create }, { "resume", l_coroutine_resume }, { "wrap", l_coroutine_wrap },
    { "yield", l_coroutine_yield }, { "status", l_coroutine_status }, { "close", l_coroutine_close },
    { "running", l_coroutine_running }, { "isyieldable", l_coroutine_isyieldable }, { NULL, NULL }
  };
  luaL_newlib(L, functions);
  return 1;
}
