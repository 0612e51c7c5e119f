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
#include "state/state.h"
#include "process/strand.h"

enum { PARKED = -1 };   /* beside the status codes of Lua, all >= 0 */

static inline int is_marked(lua_State *co) { return (int)(*mr_lua_word(co) & 1); }
static inline int is_ended_fiber(lua_State *co) { return (int)(*mr_lua_word(co) & 2); }

/* Suspended in Lua's eyes though it is part of the running chain. */
static inline int is_held(lua_State *L, lua_State *co) {
  return is_marked(co) || (co == mr_lua_of(mr_fiber_here(L))->L && co != L);
}

static lua_State *get_coroutine(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "thread");
  return co;
}

static int PORT_NOINLINE run_traced(lua_State *L, lua_State *co, int narg, int *nres);

/* One link of the chain: resumes co and restores the fiber's view. */
static inline int run(lua_State *L, lua_State *co, int narg, int *nres) {
  mr_lua *l = mr_lua_of(mr_fiber_here(L));
  lua_State *top = l->top;
  unsigned char ok = l->top_ok;
  if (PORT_UNLIKELY(mr_proc_of(&l->fiber)->traced)) return run_traced(L, co, narg, nres);
  l->top_ok = ok && top == L && lua_isyieldable(L);
  l->top = co;
  int status = mr_lua_resume(co, L, narg, nres);
  l->top = top;
  l->top_ok = ok;
  return PORT_UNLIKELY(status == LUA_YIELD && l->fiber.sysyield) ? PARKED : status;
}

/* The same where debug hooks are about. */
static int run_traced(lua_State *L, lua_State *co, int narg, int *nres) {
  mr_lua *l = mr_lua_of(mr_fiber_here(L));
  lua_State *top = l->top;
  unsigned char ok = l->top_ok, keeps = l->keeps;
  if (!keeps && mr_hook_resumes(L)) l->keeps = 1;
  l->top_ok = ok && top == L && lua_isyieldable(L);
  l->top = co;
  int status = mr_lua_resume(co, L, narg, nres);
  l->top = top;
  l->top_ok = ok;
  l->keeps = keeps;
  return status == LUA_YIELD && l->fiber.sysyield ? PARKED : status;
}

/* Closes co as its resumer: its pending variables run on it. */
static int reset(mr_fiber *f, lua_State *L, lua_State *co) {
  mr_lua *l = mr_lua_of(f);
  lua_State *top = l->top;
  unsigned char ok = l->top_ok;
  l->top_ok = 0;
  l->top = co;
  if (PORT_UNLIKELY(mr_job_ends(f->job) == JOB_KILLED)) mr_hook_kill(co);
  int status = mr_lua_closethread(co, L);
  l->top = top;
  l->top_ok = ok;
  return status;
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
  /* nobody will close a coroutine of a fiber that ends: what is pending there is done as for wrap */
  mr_fiber *f = mr_fiber_here(L);
  if (PORT_UNLIKELY(mr_fiber_ending(f))) reset(f, L, co);
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
  *mr_lua_word(co) |= 1;
  return lua_yieldk(L, 0, 0, k);
}

static inline void unpark(lua_State *co) { *mr_lua_word(co) &= ~(uintptr_t)1; }

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

static int PORT_NOINLINE wrap_error(lua_State *L, lua_State *co) {
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {
    status = reset(mr_fiber_here(L), L, co);
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
  if (PORT_UNLIKELY(!co)) return luaL_error(L, "the coroutine is gone");
  unpark(co);
  int n = transfer(L, co, 0, &parked);
  if (parked) return park_below(L, co, k_wrap);
  return n >= 0 ? n : wrap_error(L, co);
}

/* function made by wrap (...) -> values... */
static int l_coroutine_wrapped(lua_State *L) {
  int parked = 0;
  lua_State *co = lua_tothread(L, lua_upvalueindex(1));
  if (PORT_UNLIKELY(!co)) return luaL_error(L, "the coroutine is gone");       /* debug.setupvalue */
  int n = start(L, co, lua_gettop(L), &parked);
  if (PORT_UNLIKELY(parked)) return park_below(L, co, k_wrap);
  return PORT_LIKELY(n >= 0) ? n : wrap_error(L, co);
}

/* coroutine.create (f) -> co */
static int l_coroutine_create(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  if (PORT_UNLIKELY(mr_proc_here(L)->traced)) mr_hook_inherit(L, co);
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

static int yielded(lua_State *L, int status, lua_KContext ctx) {
  (void)L; (void)status; (void)ctx;
  return 0;
}

/* coroutine.yield (...) -> arguments of the next resume. In luaproc's processes it also lets others run. */
static int l_coroutine_yield(lua_State *L) {
  mr_proc *p = mr_proc_here(L);
  if (PORT_UNLIKELY(L == mr_lua_of(p->job.fiber)->L)) {
    if (p->group && L == p->main.L) {
      lua_settop(L, 0);
      return mr_yield(L, p->job.fiber, 0, yielded);
    }
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
  lua_pushboolean(L, co != mr_lua_of(mr_fiber_here(L))->L && lua_isyieldable(co));
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
  if (is_ended_fiber(co) || reset(mr_fiber_here(L), L, co) == LUA_OK) {
    lua_pushboolean(L, 1);
    return 1;
  }
  lua_pushboolean(L, 0);
  lua_xmove(co, L, 1);
  return 2;
}

/* ---- the end of a fiber ---- */

/* The coroutine that L, which mare has suspended, has resumed; NULL: it was itself the one that ran. While the fiber runs none is marked. */
static lua_State *resumed_in(lua_State *L, int running) {
  lua_Debug ar;
  lua_State *co = NULL;
  if (!lua_getstack(L, 0, &ar) || !lua_getinfo(L, "S", &ar) || *ar.what != 'C' || !lua_checkstack(L, 2)) return NULL;
  lua_getinfo(L, "f", &ar);
  lua_CFunction f = lua_tocfunction(L, -1);
  if (f == l_coroutine_resume) {
    co = lua_tothread(L, 1);
  } else if (f == l_coroutine_wrapped && lua_getupvalue(L, -1, 1)) {
    co = lua_tothread(L, -1);
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
  return co && co != L && (running || is_marked(co)) ? co : NULL;
}

static lua_State *resumed_by(lua_State *L) { return resumed_in(L, 0); }

static const char error_key;

/* error -> kept in the registry */
static int l_keep(lua_State *L) {
  lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  return 0;
}

/*
 * Closes the coroutines above L, the inner ones first. 1: an error is kept in the registry, the last one. Those below stay marked as running
 * meanwhile, L too: what is closed must not resume them.
 */
static int close_above(mr_fiber *f, lua_State *L) {
  lua_State *co = resumed_by(L);
  if (!co) return 0;
  int kept = close_above(f, co);
  unpark(co);
  if (reset(f, L, co) == LUA_OK || !lua_checkstack(co, 2)) return kept;
  lua_pushcfunction(co, l_keep);
  lua_insert(co, -2);
  return lua_pcall(co, 1, 0, 0) == LUA_OK || kept;
}

/*
 * A suspended fiber never goes on: its coroutine and those that it was in when it stopped are closed, each as coroutine.close does it.
 * If a __close has raised an error, that is its result, and on top.
 */
static int close_fiber(mr_fiber *f) {
  lua_State *L = mr_lua_of(f)->L;
  int kept = close_above(f, L), status = mr_lua_closethread(L, NULL);
  if (!kept) return status;
  if (status == LUA_OK && lua_checkstack(L, 1)) {
    lua_rawgetp(L, LUA_REGISTRYINDEX, &error_key);
    status = LUA_ERRRUN;
  }
  if (lua_checkstack(L, 1)) {
    lua_pushnil(L);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &error_key);
  }
  return status;
}

void mr_coroutine_setup(void) {
  mr_hooks.close_fiber = close_fiber;
  mr_hooks.resumed = resumed_in;
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
