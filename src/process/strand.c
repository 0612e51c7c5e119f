/* strand: see strand.h. How one of several fibers of a process begins, goes on and ends, in Lua's terms. */
#include "process/rt.h"
#include "process/strand.h"
#include "process/happens.h"
#include "process/limit.h"
#include "base/show.h"
#include "run/traced.h"

#include <stdio.h>
#include <stdlib.h>

/* See state/coroutine.c. A host's extra space is not ours. */
static void mark(mr_lua *l, uintptr_t set, uintptr_t clear) {
  uintptr_t *space = mr_lua_word(l->L);
  if (!l->fiber.job->host) *space = (*space & ~clear) | set;
}

/* ---- birth ---- */

mr_strand *mr_strand_new(mr_crew *c, lua_State *co, const char *name, const mr_sharetype *type) {
  mr_strand *s = port_lines_new(sizeof *s);
  if (!s) return NULL;
  if (name && (s->name = mr_text_copy(name)) == NULL) {
    port_lines_free(s);
    return NULL;
  }
  s->id = ++mr_proc_of_job(c->job)->strands;
  s->shared.type = type;
  atomic_init(&s->shared.refs, 1);
  mr_event_init(&s->ended);
  mr_fiber_init(&s->lua.fiber, c->job);
  s->lua.L = s->lua.top = co;
  return s;
}

void mr_strand_start(mr_strand *s) {
  mr_retain(&s->shared);
  mark(&s->lua, 1, 0);
  mr_crew_add(s->lua.fiber.crew, &s->lua.fiber);
}

/* ---- running ---- */

/*
 * A fiber that is to end. One that waited is resumed to get its error, and may clean up; one that did not begin, or that has been told and waits
 * once more, ends here, as coroutine.close does it; no pcall can keep it alive. In a process that failed so does one that computes. One that
 * waited and is killed is resumed as well, so that its wait lets go of what it is linked to; then nothing of it runs any more (raise_ended, mr_hook_kill).
 */
static int closes(const mr_lua *l, int parked) {
  const mr_fiber *f = &l->fiber;
  if (parked) return 0;
  if (mr_job_ends(f->job) == JOB_KILLED || l->fiber.told == TOLD_LAST) return 1;
  if (f != f->job->first && lua_status(l->L) == LUA_OK) return 1;
  return f->crew && f->crew->ending && !f->bounded;       /* what is masked goes on until its next wait */
}

static int close_here(mr_lua *l) {
  mr_fiber *f = &l->fiber;
  lua_State *L = l->L;
  int killed = mr_job_ends(f->job) == JOB_KILLED;
  char **trace = f == f->job->first ? &mr_proc_of(f)->trace : &mr_strand_at(f)->trace;
  l->top_ok = 0;
  if (!*trace) *trace = mr_trace(L);
  if (killed) mr_hook_kill(L);
  int ok = mr_hooks.close_fiber(f) == LUA_OK || killed;
  l->fiber.told = ok ? TOLD_CLOSED : 0;              /* an error of a pending variable's __close is its own */
  if (ok) {
    lua_settop(L, 0);
    lua_pushnil(L);
  }
  l->nres = 1;
  return LUA_ERRRUN;
}

/* A coroutine that is a fiber must not be resumed by others: it is marked except while it runs (see state/coroutine.c). */
int mr_strand_resume(mr_lua *l) {
  mr_fiber *f = &l->fiber;
  lua_State *L = l->L;
  int parked = f->sysyield == SYS_PARK, nargs = 0, first = f == f->job->first;
  f->sysyield = SYS_NONE;
  if (!first) mark(l, 0, 1);
  if (PORT_UNLIKELY(mr_fiber_ending(f)) && closes(l, parked)) return close_here(l);
  /* one that did not wait may be killed just now; the hook will tell it, and it has perhaps never had a parked_L */
  if (parked && PORT_UNLIKELY(mr_job_ends(f->job) == JOB_KILLED)) mr_hook_kill(l->parked_L);
  if (first) return mr_lua_resume(L, NULL, 0, &l->nres);
  if (lua_status(L) == LUA_OK) {
    nargs = lua_gettop(L) - 1;
    if (PORT_UNLIKELY(mr_replay_on)) mr_happens(f, NULL, "begins");
  }
  int status = mr_lua_resume(L, NULL, nargs, &l->nres);
  if (status == LUA_YIELD) mark(l, 1, 0);
  return status;
}

/* ---- relief ---- */

int mr_fiber_unrelief(mr_fiber *f) {
  mr_lua *l = mr_lua_of(f);
  mr_fiber *r = l->relief;
  if (!r) return 0;
  l->relief = NULL;
  l->odd &= (unsigned char)~ODD_RELIEF;
  mr_release(&mr_strand_at(r)->shared);
  return 1;
}

void mr_fiber_relieve(mr_fiber *f) {
  mr_fiber_wake(mr_lua_of(f)->relief, f);
  mr_fiber_unrelief(f);
}

/* ---- end ---- */

void mr_strand_free(mr_strand *s) {
  mr_crew_remove(&s->lua.fiber);
  free(s->name);
  free(s->trace);
  if (!s->lua.fiber.job->host) free(s->lua.set);
  port_lines_free(s);
}

/* f may be gone afterwards. */
static void end_strand(mr_fiber *f, int status) {
  mr_strand *s = mr_strand_at(f);
  mr_lua *l = &s->lua;
  lua_State *L = l->L;
  l->top_ok = 0;
  l->top = L;
  if (status == LUA_OK) {
    s->nres = l->nres;
  } else {
    if (!s->trace) s->trace = mr_trace(L);
    if (lua_status(L) != LUA_OK) {
      if (mr_job_ends(f->job) == JOB_KILLED) mr_hook_kill(L);
      mr_hooks.reset(L);                         /* leaves the error value on top */
    }
    s->failed = 1;
    s->nres = 1;
    s->observed = f->told;                       /* who made it end knows */
  }
  if (l->held_from) mr_hooks.mail_back(f);
  mr_limits_forget(l);
  mark(l, 3, 0);
  /* All of it before the event: who is woken by that may be elsewhere, and read it, at once. */
  atomic_store_explicit(&f->state, FIBER_DONE, memory_order_relaxed);
  s->done = 1;
  atomic_store_explicit(&f->thread->current, NULL, memory_order_relaxed);   /* a signal's handler would look at it */
  mr_event_set(&s->ended, f);
  mr_release(&s->shared);
}

/* The main process of `mare run` shows its error itself and ends well, with an exit code. */
static int has_failed(const mr_proc *p) {
  if (p->end == PROC_FAILED || p->kind != PROC_MAIN) return p->end == PROC_FAILED;
  return p->result.kind == MAIL_SCALARS && p->result.n > 0 && p->result.u.s[0].u.i != 0;
}

int mr_strand_ended(mr_thread *t, mr_fiber *f, int status) {
  mr_proc *p = mr_proc_of(f);
  mr_crew *c = f->crew;
  int daemon = f->daemon;
  mr_fiber_unrelief(f);
  if (f == &p->main.fiber) {
    p->end = (unsigned char)mr_proc_outcome(p, status, p->main.nres);
    if (mr_trace_on()) mr_traced_ended(f, p->end == PROC_FAILED, p->text);
    if (PORT_UNLIKELY(mr_replay_on)) mr_happens_last(f, p->end == PROC_FAILED ? p->text ? p->text : "" : NULL);
    atomic_store_explicit(&f->state, FIBER_DONE, memory_order_relaxed);
    if (c->alive > 1 && has_failed(p)) mr_crew_end_all(c, CREW_FAILED, f);
  } else {
    if (mr_trace_on()) mr_traced_ended(f, status != LUA_OK, NULL);
    if (PORT_UNLIKELY(mr_replay_on)) mr_happens_last(f, status == LUA_OK ? NULL : lua_type(mr_lua_of(f)->L, -1) == LUA_TSTRING ? lua_tostring(mr_lua_of(f)->L, -1) : "");
    end_strand(f, status);
  }
  if (mr_crew_ended(c, daemon) > 0) return 0;
  p->job.fiber = &p->main.fiber;
  p->main.fiber.thread = t;
  mr_proc_close(t, p);
  return 1;
}

void mr_strands_free(mr_crew *c) {
  mr_fiber *f;
  while ((f = mr_crew_other(c)) != NULL) mr_strand_free(mr_strand_at(f));
  mr_crew_destroy(c);
}

/* What a fiber that never goes on has got, or offers. */
static void forget(mr_fiber *f) {
  mr_lua *l = mr_lua_of(f);
  if (l->set) mr_hooks.unlink(f);              /* a host's */
  mr_mail_drop(&l->mail);
}

void mr_strands_abandon(mr_proc *host) {
  mr_crew_abandon(&host->job, forget);
  mr_crew *c = host->main.fiber.crew;
  if (c && c->alive == 1) mr_strands_free(c);    /* all have ended */
}

void mr_fiber_describe(const mr_fiber *f, char *buf, size_t size) {
  const mr_strand *s = (const mr_strand *)(const void *)f;
  char name[52];
  if (f == f->job->first) buf[0] = 0;
  else if (s->name) snprintf(buf, size, ", fiber #%llu '%s'", (unsigned long long)s->id, mr_show(name, sizeof name, s->name));
  else snprintf(buf, size, ", fiber #%llu", (unsigned long long)s->id);
}
