/* park: see park.h. All that Lua has to do with waiting. */
#include "process/rt.h"
#include "process/strand.h"
#include "process/control.h"
#include "process/limit.h"
#include "lua/layout.h"
#include "run/traced.h"

#include <string.h>

/*
 * A host's thread is its own: in the kernel or computing is the same to all others. A process is alone if it is the only one, its other fibers
 * wait for nothing but each other, and nothing outside but what it is about to ask for could wake anybody.
 */
int mr_alone(const mr_fiber *f) {
  if (f->crew && (f->job->host || mr_lua_seen(f)->relief || !mr_crew_waits(f->crew))) return 0;
  return f->job->host ? !mr_host_closed(mr_proc_of(f)) && !mr_run_dead() : mr_run_alone();
}

/*
 * Is the state being closed? Then the finaliser that runs stands at the bottom of the main thread's stack, and what its frame is called tells. One that
 * has made a tail call has lost its name; then no frame above has it.
 */
static int state_closes(lua_State *L) {
  lua_Debug ar;
  int level = 0, finaliser = -1, tail = 0;
  if (!mr_lua_in_finaliser(L)) return 0;
  lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
  lua_State *main = lua_tothread(L, -1);
  lua_pop(L, 1);
  for (; lua_getstack(main, level, &ar); level++) {
    lua_getinfo(main, "nt", &ar);
    tail = ar.istailcall && !ar.name;
    if (ar.name && strcmp(ar.name, "__gc") == 0) finaliser = level;
  }
  return finaliser < 0 ? tail : finaliser == level - 1;
}

/*
 * At the end of a host's state finalisers run in the reverse order of creation, the host's own among the last. One of them that waits must not let the
 * host's other fibers run: what these wait for may have been finalised, and freed, before.
 */
void mr_host_bar(mr_fiber *f, lua_State *L) { f->job->barred = f->job->first->crew && state_closes(L); }

/* A host's first fiber keeps its thread. Others yield if the whole chain of coroutines can, else their thread hands its worker over. */
static inline int choose_mode(mr_fiber *f, lua_State *L) {
  if (f->job->host && !(f->crew && f != f->job->first && mr_can_yield(f, L))) {
    if (mr_run_dead()) return MR_EFORK;
    if (mr_host_closed(mr_proc_of(f))) return MR_ECLOSING;
    mr_host_bar(f, L);
    f->mode = WAIT_HOST;
  } else if (PORT_LIKELY(mr_can_yield(f, L))) {
    f->mode = WAIT_YIELD;
  } else {
    if (mr_lua_in_finaliser(L)) return MR_EFINAL;
    int err = mr_wait_reserve(f);
    if (err) return err;
    f->mode = WAIT_HANDOVER;
  }
  return MR_OK;
}

int mr_wait_open(mr_fiber *f, lua_State *L) {
  mr_lua *l = mr_lua_of(f);
  if (PORT_UNLIKELY(l->odd & ODD_RELIEF)) mr_fiber_relieve(f);
  if (PORT_UNLIKELY(mr_lua_due(l))) return MR_EENDED;
  if (PORT_UNLIKELY(f->bounded)) {
    mr_ending_heard(mr_proc_of(f));
    if (!mr_limit_open(l)) return MR_EDEADLINE;
  } else {
    f->masked = 0;                               /* not where the last mask is left: a collector may do that, while the fiber waits */
  }
  int err = choose_mode(f, L);
  if (PORT_UNLIKELY(err)) return err;
  f->wait.mail = &l->mail;
  mr_wait_begin(f);
  return MR_OK;
}

/* With a budget it is the first each time: others may need what the process does not use while it waits. */
static PORT_NOINLINE void first_park(mr_lua *l, lua_State *L) {
  mr_proc *p = mr_proc_of(&l->fiber);
  if (p->budget) mr_heap_settle(p->heap);
  else l->hint = mr_lua_stack_hint(L);
}

/*
 * Somebody on another thread may have asked the process to end after mr_wait_open had looked, and not yet have found the ticket open: then he
 * relies on us to look once more. The ticket was opened before an object was locked (waitable.h), and a lock taken is a full barrier, or we
 * make one. A masked wait goes on, but it has to know until when.
 */
static PORT_NOINLINE void end_seen(mr_fiber *f) {
  if (mr_job_watched(f->job) && mr_fiber_claim(f)) mr_ready(f, MR_AGAIN, NULL);   /* it goes on, and then its stack is looked at */
  if (!mr_fiber_ending(f)) return;
  int masked = f->masked && mr_job_ends(f->job) != JOB_KILLED;
  if (masked && mr_limit_noticed(mr_lua_of(f))) return;  /* `limited` has seen it, too */
  if (mr_fiber_claim(f)) mr_ready(f, masked ? MR_AGAIN : MR_STOPPED, NULL);   /* it is PARKING: it will find that it is READY, and go on */
}

static inline void see_end(mr_fiber *f) {
  port_fence_after_lock();
  if (PORT_UNLIKELY(mr_fiber_asked(f))) end_seen(f);
}

/* Its deadline, or the time when a limit is over. */
static PORT_NOINLINE uint64_t limited(mr_lua *l, uint64_t deadline) {
  uint64_t until = mr_limit_until(l);
  l->fiber.limited = until < deadline;
  return l->fiber.limited ? until : deadline;
}

/* For who looks: nobody else may ask its state. Not in a finaliser. */
static void weigh_host(mr_fiber *f, lua_State *L) {
  int kib = lua_gc(L, LUA_GCCOUNT, 0);
  if (kib >= 0) atomic_store_explicit(&mr_proc_of(f)->held, (size_t)kib * 1024, memory_order_relaxed);
}

int mr_park(lua_State *L, mr_fiber *f, uint64_t deadline, lua_KContext ctx, lua_KFunction k) {
  mr_lua *l = mr_lua_of(f);
  l->parked_L = L;
  if (PORT_UNLIKELY(f->bounded)) deadline = limited(l, deadline);
  if (deadline != UINT64_MAX && f->mode != WAIT_HOST) mr_wait_until(f, deadline);
  see_end(f);
  if (PORT_LIKELY(f->mode == WAIT_YIELD)) {
    if (PORT_UNLIKELY(!l->hint)) first_park(l, L);
    f->sysyield = SYS_PARK;                     /* it parks when its thread is out of the state: mr_fiber_parked */
    return lua_yieldk(L, 0, ctx, k);
  }
  if (f->mode == WAIT_HOST && L) weigh_host(f, L);          /* tests in C park without a state */
  mr_wait_block(f, deadline);
  if (PORT_UNLIKELY(mr_job_watched(f->job))) mr_look_blocked(f);
  return k(L, LUA_OK, ctx);
}

/* To the end of the queue. In places that can't yield there is nothing to do: others have workers of their own. */
int mr_yield(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k) {
  if (PORT_UNLIKELY(mr_lua_of(f)->odd & ODD_RELIEF)) mr_fiber_relieve(f);         /* siblings run, as when it waits */
  if ((f->job->host && f == f->job->first) || !mr_can_yield(f, L)) {
    if (f->job->host) mr_host_bar(f, L);
    if (!mr_crew_step(f->job)) port_yield();
    else if (mr_trace_on()) mr_traced_run(f);
    return k(L, LUA_OK, ctx);
  }
  f->sysyield = SYS_AGAIN;
  if (PORT_UNLIKELY(mr_replay_on)) mr_replay_yields();
  return lua_yieldk(L, 0, ctx, k);
}

/*
 * A parent that makes children faster than they run would fill the memory with them: a birth counts against its turn. It does not wait, so in
 * a process with fibers it goes on before its siblings; a host, and places that can't yield, go on at once.
 */
int mr_cede(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k) {
  if (PORT_LIKELY(!mr_job_crowded(f->job)) || f->job->host || !mr_can_yield(f, L)) return k(L, LUA_OK, ctx);
  f->sysyield = SYS_CEDED;
  return lua_yieldk(L, 0, ctx, k);
}
