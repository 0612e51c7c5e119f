/*
 * hook: how a running fiber is told to give way, and a program's own debug hooks, which must not notice.
 *
 * A coroutine without a hook of the program's: the signal's handler arms a count hook on it, `give_way`, which fires at the next
 * instruction, yields through the whole chain if that can yield, and then disarms itself.
 *
 * With one (debug.sethook of our states, state/debug.c) the hook is mr_hooks.traced, with the program's mask and count. The handler leaves
 * both as they are and only adds line events to the mask; the first of those is where the fiber gives way, in mr_hook_after. The program
 * sees the line events that it asked for and no others, and none is lost:
 *  - lua_sethook sets the count of instructions back to its start. It is read before and written after (lua/count.c). Where that can't be done,
 *    a hook with a count is left alone, and the worker is taken away instead.
 *  - an instruction that was interrupted is counted again when it goes on: one is added before.
 *  - one at which the count ended as well would begin a new count then: another is waited for.
 *  - Lua up to 5.4.6 reports the call of a function once more that goes on at its first instruction: another is waited for.
 *  - an instruction in whose middle a function is interrupted (a metamethod, the iterator of a loop) is traced once more when that has returned: not
 *    there, nor in coroutines that are called there (`keeps`).
 *  - an interrupted call stays marked until the next traced instruction, and loses its event: so what was armed stays until then.
 * A hook that C code has set is not touched at all. What is not interrupted loses its worker, see run/monitor.c.
 *
 * The handler runs on the thread it interrupts and touches only that thread's record, its current fiber's `top`, and lua_sethook, which is
 * made for this. Interrupted in the middle of a lua_sethook it changes nothing that this one does not write after it, or has written.
 * Builds in which a busy loop gets no signal (ThreadSanitizer) keep give_way, or the line events, set all the time instead; so do runs that are
 * replayed (run/replay.h), where no signal comes at all.
 */
#include "process/rt.h"
#include "process/await.h"
#include "process/control.h"
#include "process/limit.h"
#include "process/profile.h"
#include "process/strand.h"

#include "base/embedded.h"
#include "lua/layout.h"
#include "lua/probe.h"

#include <string.h>

enum { EVERY = 1000 };               /* instructions, where give_way is always set */
enum { SOON = 50 };                  /* instructions until mare's own code may have been left */
enum { WATCHED = 20000 };            /* for so many mr_hook_watch holds: coroutines that are made meanwhile inherit it */
enum { LEVELS = 200 };               /* of calls that are looked at before a fiber with a hook gives way; a deeper one keeps its worker */

/* ---- arming ---- */

static void give_way(lua_State *L, lua_Debug *ar);
static void kill_here(lua_State *L, lua_Debug *ar);

void mr_hook_start(lua_State *L) {
  if (PERMANENT_HOOK) lua_sethook(L, give_way, LUA_MASKCOUNT, EVERY);
}

void mr_hook_none(lua_State *L) {
  if (PERMANENT_HOOK) mr_hook_start(L);
  else lua_sethook(L, NULL, 0, 0);
}

void mr_hook_set(lua_State *L, int mask, int count) {
  mr_count_find();
  lua_sethook(L, mr_hooks.traced, PERMANENT_HOOK ? mask | LUA_MASKLINE : mask, count);
}

int mr_hook_is_ours(lua_State *L) {
  lua_Hook now = lua_gethook(L);
  return now == NULL || now == give_way || now == kill_here;
}

/* With other events, the same hook goes on where it is. */
static void change_mask(lua_State *L, int mask) {
  int *at = mr_count_at(L), left = at ? *(volatile int *)at : 0;
  lua_sethook(L, mr_hooks.traced, mask, lua_gethookcount(L));
  if (at) *(volatile int *)at = left;
}

static void add_lines(lua_State *L) {
  int mask = lua_gethookmask(L);
  if ((mask & LUA_MASKLINE) || ((mask & LUA_MASKCOUNT) && !mr_count_at(L))) return;
  change_mask(L, mask | LUA_MASKLINE);
}

/* The program has not asked for lines. */
static void drop_lines(lua_State *L) {
  if (!PERMANENT_HOOK) change_mask(L, lua_gethookmask(L) & ~LUA_MASKLINE);
}

void mr_hook_kick(void) {
  mr_thread *t = mr_this_thread;
  mr_fiber *f = t ? atomic_load_explicit(&t->current, memory_order_relaxed) : NULL;
  lua_State *L = f ? mr_lua_of(f)->top : NULL;
  if (!L || PERMANENT_HOOK) return;
  if (PORT_UNLIKELY(mr_profile_on())) mr_profile_kicked(L);
  lua_Hook now = lua_gethook(L);
  /* give_way may be there without its mask: the handler came in the middle of its being taken away */
  if (now == NULL || now == give_way) lua_sethook(L, give_way, LUA_MASKCOUNT, 1);
  else if (now == mr_hooks.traced) add_lines(L);
}

/* A hook that counts makes Lua write down each instruction. What the handler arms meanwhile takes its place, and stays. */
void mr_hook_watch(lua_State *L, int on) {
  if (PERMANENT_HOOK) return;
  if (on && lua_gethook(L) == NULL) lua_sethook(L, give_way, LUA_MASKCOUNT, WATCHED);
  else if (!on && lua_gethook(L) == give_way && lua_gethookcount(L) == WATCHED) mr_hook_none(L);
}

/* ---- giving way ---- */

static void preempt(lua_State *L, mr_fiber *f) {
  atomic_fetch_and(&f->thread->poke, ~(unsigned)POKE_PREEMPT);
  f->sysyield = SYS_PREEMPTED;
  lua_yield(L, 0);
}

static int take_interrupt(mr_fiber *f, unsigned poke) {
  if (!(poke & POKE_INTERRUPT) || mr_proc_of(f)->kind != PROC_MAIN) return 0;
  atomic_fetch_and(&f->thread->poke, ~(unsigned)POKE_INTERRUPT);
  return !mr_interrupt_held() && mr_interrupt_take();
}

/*
 * Between two steps of mare's own modules the program's data is not always whole - who leads a connection, who has its turn - and what ends a fiber
 * here would leave it so. They don't compute for long: such errors wait until they are left, or wait themselves.
 */
static int in_own_code(lua_State *L) {
  lua_Debug ar;
  return lua_getstack(L, 0, &ar) && lua_getinfo(L, "S", &ar) && mr_own_source(ar.source);
}

enum { LATER = -1 };

/* What is to be raised instead, MR_OK, or LATER: ask again soon. Who has been told that it is to end is left alone until it waits. */
static int error_for(lua_State *L, mr_fiber *f, unsigned poke) {
  if (PORT_UNLIKELY(take_interrupt(f, poke))) return MR_EINTR;
  unsigned ends = mr_job_ends(f->job);
  int killed = ends == JOB_KILLED, crew = f->crew && f->crew->ending && (poke & POKE_PREEMPT);
  if (PORT_LIKELY(!ends && !crew)) return MR_OK;
  if (ends) mr_ending_heard(mr_proc_of(f));
  int told = ends && (!f->told || killed) && mr_lua_due(mr_lua_of(f));
  if (!told && !crew) return MR_OK;
  if (!killed && in_own_code(L)) return LATER;
  if (!told) atomic_fetch_and(&f->thread->poke, ~(unsigned)POKE_PREEMPT);
  return MR_EENDED;
}

static int may_give_way(const mr_fiber *f, lua_State *L, unsigned poke) {
  return (poke & POKE_PREEMPT) && !mr_lua_seen(f)->keeps && mr_can_yield(f, L);
}

static void raise(lua_State *L, mr_fiber *f, int err) {
  if (err == MR_EINTR) luaL_error(L, "%s", mr_err_text(err));
  if (mr_job_ends(f->job) != JOB_KILLED) mr_raise_ended(L, f);          /* not mr_raise: in a hook it is no C function that calls */
  kill_here(L, NULL);
}

/*
 * Every instruction of who is killed ends here: it yields, and is not resumed; where it can't, it gets an error, and another one
 * wherever that is caught, so that not one instruction of a __close runs either. C functions do.
 */
static void kill_here(lua_State *L, lua_Debug *ar) {
  mr_fiber *f = mr_fiber_here(L);
  (void)ar;
  if (f->thread == mr_this_thread && mr_can_yield(f, L)) {
    f->sysyield = SYS_AGAIN;
    lua_yield(L, 0);
  } else {
    mr_hook_kill(L);
    luaL_error(L, "the process was killed");
  }
}

/* No collection either: it could call finalisers of the program's, in which no hook fires. */
void mr_hook_kill(lua_State *L) {
  lua_gc(L, LUA_GCSTOP, 0);
  mr_lua_allow_hooks(L);
  lua_sethook(L, kill_here, LUA_MASKCOUNT, 1);
}

static void give_way(lua_State *L, lua_Debug *ar) {
  mr_fiber *f = mr_fiber_here(L);
  if (PORT_UNLIKELY(mr_job_watched(f->job))) mr_look_running(f, L);
  if (PORT_UNLIKELY(mr_replay_on)) mr_replay_seen();
  if (PORT_UNLIKELY(mr_replay_on) && mr_can_yield(f, L) && mr_replay_tick(f, EVERY)) atomic_fetch_or(&f->thread->poke, POKE_PREEMPT);
  unsigned poke = atomic_load_explicit(&f->thread->poke, memory_order_relaxed);
  int err = error_for(L, f, poke);
  (void)ar;
  if (PORT_UNLIKELY(mr_profile_on())) mr_profile_take(f, L);
  if (err <= 0 && may_give_way(f, L, poke)) {
    preempt(L, f);                   /* it fires once more, after the instruction where it goes on, and then goes */
    return;
  }
  if (err == LATER) {
    lua_sethook(L, give_way, LUA_MASKCOUNT, SOON);
    return;
  }
  mr_hook_none(L);
  if (err) raise(L, f, err);
}

/*
 * Would what L does after its running functions have returned show the program's hook nothing else than if they had not been
 * interrupted? An instruction that has called a metamethod, or a loop's iterator, goes on in pieces then, and a piece is traced once more.
 */
static int goes_on_unseen(lua_State *L, const mr_traced *h) {
  lua_Debug ar;
  if (!(h->mask & (LUA_MASKLINE | LUA_MASKCOUNT))) return 1;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == LEVELS || !lua_getinfo(L, "n", &ar)) return 0;
    if (strcmp(ar.namewhat, "metamethod") == 0 || strcmp(ar.namewhat, "for iterator") == 0) return 0;
  }
  return 1;
}

int mr_hook_keeps(lua_State *L, const mr_traced *h) {
  return lua_gethook(L) == mr_hooks.traced && !goes_on_unseen(L, h);
}

static int is_call(int event) { return event == LUA_HOOKCALL || event == LUA_HOOKTAILCALL; }

/* At a line event: may the fiber stop here, and the next event be the one that it would have been? */
static int exact(lua_State *L, const mr_traced *h) {
  int first = is_call(h->before) || (h->before == LUA_HOOKCOUNT && is_call(h->earlier));
  if ((h->mask & LUA_MASKCALL) && first) return 0;
  if (!goes_on_unseen(L, h)) return 0;
  if (!(h->mask & LUA_MASKCOUNT) || h->count == 1) return 1;
  return h->before != LUA_HOOKCOUNT && mr_count_at(L) != NULL;
}

/*
 * Who is killed, or was told before, ends by yielding, which a hook can do at lines: at others it waits for that event. (At a count, too, but then
 * the hook would be called for the line all the same, by a coroutine that has yielded.)
 */
static int may_raise(lua_State *L, mr_fiber *f, const mr_traced *h, int err) {
  if (h->last == LUA_HOOKLINE || err == MR_EINTR || !mr_can_yield(f, L)) return 1;
  if (mr_job_ends(f->job) == JOB_KILLED) mr_hook_kill(L);
  else if (!f->told) return 1;
  else add_lines(L);
  return 0;
}

void mr_hook_after(lua_State *L, const mr_traced *h) {
  mr_fiber *f = mr_fiber_here(L);
  if (PORT_UNLIKELY(mr_job_watched(f->job))) mr_look_running(f, L);
  if (PORT_UNLIKELY(mr_replay_on)) mr_replay_seen();
  unsigned poke = atomic_load_explicit(&f->thread->poke, memory_order_relaxed);
  int ours = h->last == LUA_HOOKLINE && !(h->mask & LUA_MASKLINE);
  int err = error_for(L, f, poke);
  if (PORT_UNLIKELY(mr_profile_on())) mr_profile_take(f, L);
  if (err > 0 && may_raise(L, f, h, err)) raise(L, f, err);
  if (!may_give_way(f, L, poke)) {
    if (err == LATER) add_lines(L);
    else if (ours) drop_lines(L);    /* the monitor asks again, or takes the worker away */
  } else if (h->last != LUA_HOOKLINE) {
    add_lines(L);
  } else if (exact(L, h)) {
    if ((h->mask & LUA_MASKCOUNT) && h->count != 1) ++*mr_count_at(L);
    preempt(L, f);
  }
}
