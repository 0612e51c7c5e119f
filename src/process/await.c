/* await: see await.h, whose steps the numbers name. */
#include "process/await.h"
#include "process/control.h"
#include "process/limit.h"
#include "process/rt.h"
#include "process/strand.h"

#include "lua/compat.h"

#include <stdlib.h>

/* ---- errors ---- */

/*
 * What ends f: it is told once, by an error that it may catch. At its next wait it ends where it is, past every pcall: it yields for the last time
 * (strand.c); where it can't, it gets another error. Who is killed is not told. A finaliser's error reaches nobody: it tells nothing.
 */
int mr_raise_ended(lua_State *L, mr_fiber *f) {
  mr_lua *l = mr_lua_of(f);
  int killed = mr_job_ends(f->job) == JOB_KILLED;
  mr_cause c;
  if ((l->fiber.told || killed) && mr_can_yield(f, L)) {
    l->fiber.told = TOLD_LAST;
    f->sysyield = SYS_AGAIN;
    return lua_yield(L, 0);
  }
  if (killed) mr_hook_kill(L);
  if (!mr_lua_in_finaliser(L)) l->fiber.told = TOLD;
  mr_cause_of_fiber(f, &c);
  mr_hooks.error(L, &c);
  return lua_error(L);
}

static int raise_deadline(lua_State *L, mr_fiber *f) {
  mr_cause c = { .kind = "deadline", .message = mr_err_text(MR_EDEADLINE), .proc = mr_proc_of(f), .fiber = f, .raised = 1 };
  mr_hooks.error(L, &c);
  return lua_error(L);
}

int mr_raise(lua_State *L, int err) {
  if (PORT_UNLIKELY(err == MR_EENDED)) return mr_raise_ended(L, mr_self_fiber(L));
  if (PORT_UNLIKELY(err == MR_EDEADLINE)) return raise_deadline(L, mr_self_fiber(L));
  return luaL_error(L, "%s", mr_err_text(err));
}

/* The report is used up, or it would pass for the text of a later failure. */
static void raise_deadlock(lua_State *L, mr_proc *p) {
  luaL_where(L, 1);
  lua_pushstring(L, p->text ? p->text : mr_err_text(MR_EDEADLOCK));
  free(p->text);
  p->text = NULL;
  lua_concat(L, 2);
  lua_error(L);
}

/* MR_STOPPED: it is to end, or a limit is over, or the program ends. */
void mr_raise_reason(lua_State *L, mr_fiber *f, mr_reason r) {
  if (r == MR_INTERRUPTED) mr_raise(L, MR_EINTR);
  if (r == MR_STOPPED && mr_lua_due(mr_lua_of(f))) mr_raise_ended(L, f);
  if (r == MR_STOPPED && f->bounded && mr_limit_until(mr_lua_of(f)) <= port_now()) raise_deadline(L, f);
  if (r == MR_STOPPED) mr_raise(L, MR_ESTOPPED);
  if (r == MR_DEADLOCK) raise_deadlock(L, mr_proc_of(f));
}

int mr_timed_out(lua_State *L) {
  lua_pushnil(L);
  lua_pushliteral(L, "timeout");
  return 2;
}

/* ---- the wait ---- */

static int await_k(lua_State *L, int status, lua_KContext ctx);

static int await_stay(lua_State *L, int status, lua_KContext ctx) {
  (void)L;
  (void)status;
  (void)ctx;
  return 0;
}

/* 5, 6. */
static mr_reason await_ended(mr_fiber *f, const mr_waitclass *k, void *o) {
  mr_reason why = mr_lua_wake(f);
  if (why != MR_WOKEN || k->run.each) k->run.unlink(o, &f->wait);
  return why == MR_TIMEOUT && mr_lua_of(f)->early ? MR_AGAIN : why;
}

/* 3 gave 1. Our own claim loses where another node was queued before, or somebody interrupts us: then that is how the wait has ended. */
static mr_reason await_cancel(mr_fiber *f, const mr_waitclass *k, void *o) {
  mr_wait_cancel(f);
  mr_reason why = mr_lua_wake(f);
  if (k->run.each) k->run.unlink(o, &f->wait);
  return why;
}

/* 2 or 3 have failed. */
static void await_refused(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, int err) {
  if (k->give_up) k->give_up(L, o, &f->wait, MR_STOPPED);
  mr_raise(L, err);
}

static int await_give_up(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, mr_reason why) {
  int n = k->give_up ? k->give_up(L, o, &f->wait, why) : MR_AWAIT_TIMEOUT;
  if (why != MR_TIMEOUT) mr_raise_reason(L, f, why);
  return n == MR_AWAIT_TIMEOUT ? mr_timed_out(L) : n;
}

/* 2 to 6, once. Where the fiber yields this doesn't return, await_k goes on. `until`: how long this wait may be. */
static mr_reason await_once(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, unsigned short what, uint64_t deadline, uint64_t until) {
  int err = mr_wait_open(f, L), r;
  if (PORT_UNLIKELY(err != MR_OK)) await_refused(L, f, k, o, err);
  f->wait.what = what;
  f->wait.linked = 0;
  if (PORT_UNLIKELY((r = k->run.link(o, &f->wait)) != 0)) {
    if (r > 0) return await_cancel(f, k, o);
    mr_wait_abandon(f);
    if (k->run.each) k->run.unlink(o, &f->wait);
    await_refused(L, f, k, o, MR_ENOMEM);
  }
  if (k->run.op) mr_fiber_in(f, k->run.op);
  f->on = k->run.shown ? o : NULL;
  mr_lua_of(f)->awaits = k;
  mr_lua_of(f)->object = o;
  f->deadline = deadline;
  mr_lua_of(f)->early = until < deadline;
  mr_park(L, f, mr_lua_of(f)->early ? until : deadline, (lua_KContext)f, f->mode == WAIT_YIELD ? await_k : await_stay);
  return await_ended(f, k, o);
}

/* 7 and 1. -1: it has nothing to give now. */
static int await_again(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, unsigned short what, uint64_t *deadline, mr_reason why) {
  f->wait.fiber = f;
  f->wait.what = what;
  f->deadline = *deadline;
  if (PORT_UNLIKELY(why != MR_WOKEN && why != MR_AGAIN && why != MR_CLOSED)) {
    int n = await_give_up(L, f, k, o, why);
    if (n != MR_AWAIT_ON) return n;
    *deadline = f->deadline;
    f->wait.what = what;
    why = MR_AGAIN;
  }
  return k->take(L, o, &f->wait, why);
}

/*
 * The loop, entered when take has said no. Its variables are in the fiber only while that is parked: what take calls may run a finaliser of a
 * host, which waits on the same fiber.
 */
int mr_await_on(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, unsigned short what, uint64_t deadline) {
  int n;
  do {
    mr_reason why = deadline == 0 ? MR_TIMEOUT : await_once(L, f, k, o, what, deadline, f->deadline);
    n = await_again(L, f, k, o, what, &deadline, why);
  } while (n < 0);
  return n;
}

static int await_k(lua_State *L, int status, lua_KContext ctx) {
  mr_fiber *f = (mr_fiber *)ctx;
  const mr_waitclass *k = mr_lua_of(f)->awaits;
  void *o = mr_lua_of(f)->object;
  uint64_t deadline = f->deadline;
  unsigned short what = f->wait.what;
  (void)status;
  mr_reason why = await_ended(f, k, o);
  int n = PORT_LIKELY(why == MR_WOKEN) ? k->take(L, o, &f->wait, why) : await_again(L, f, k, o, what, &deadline, why);
  return n >= 0 ? n : mr_await_on(L, f, k, o, what, deadline);
}
