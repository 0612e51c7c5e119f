/*
 * body: what the scheduler asks of Lua; see run/body.h.
 *
 * A fresh fiber is the first one of a process that has a message (its function and arguments) but no state yet. All others have a
 * coroutine, which is resumed. That this ends with LUA_YIELD means that mare has yielded, down through the whole chain of coroutines.
 */
#include "process/rt.h"
#include "process/strand.h"
#include "process/control.h"
#include "process/happens.h"
#include "process/profile.h"
#include "run/traced.h"

#include <stdlib.h>

_Static_assert(BODY_YIELDS == LUA_YIELD, "the scheduler tells this one result of mr_lua_resume from all others");

static int equip(mr_thread *t) {
  mr_kit *k = mr_kit_of(t);
  if (!k->packer) k->packer = mr_packer_new();
  if (!k->gc_packer) k->gc_packer = mr_packer_new();
  if (PORT_UNLIKELY(mr_profile_on()) && !k->own) k->own = mr_own_new();
  return k->packer && k->gc_packer;
}

static void get(mr_worker *w, mr_fiber *f) { mr_state_get(w->id, mr_proc_of(f)); }

/* The first turn: unpacks what is to be called. */
static PORT_NOINLINE int begin(mr_lua *l) {
  mr_fiber *f = &l->fiber;
  int nargs, status;
  f->fresh = 0;
  mr_job_begun(f->job);
  l->nres = 0;
  if (PORT_UNLIKELY(mr_job_ends(f->job))) {
    l->fiber.told = TOLD_CLOSED;
    return LUA_ERRRUN;
  }
  if (PORT_UNLIKELY(mr_replay_on)) mr_happens(f, NULL, "begins");
  if ((status = mr_proc_begin(mr_proc_of(f), &nargs)) != LUA_OK) return status;
  f->sysyield = SYS_NONE;
  l->top_ok = 1;
  return mr_lua_resume(l->L, NULL, nargs, &l->nres);
}

/*
 * Results of the body that this thread has resumed, if it went on as nearly all do; -1: else, then `nres` of its mr_lua tells. Not in there at once: a hop
 * need not touch that line; and nothing is left to be done after the resume, so that this is a tail call: a yield is a jump out of several calls, after
 * which the processor guesses each return wrong.
 */
static PORT_TLS int results;

static inline int go_on(mr_fiber *f) {
  mr_lua *l = mr_lua_of(f);
  l->top_ok = 1;
  l->top = l->L;
  results = -1;
  if (PORT_UNLIKELY(f->fresh)) return begin(l);
  if (PORT_UNLIKELY(f->crew != NULL) || PORT_UNLIKELY(atomic_load_explicit(&f->ends, memory_order_relaxed))) {
    if (PORT_UNLIKELY(mr_job_watched(f->job))) mr_look_answer(f);
    return mr_strand_resume(l);
  }
  f->sysyield = SYS_NONE;
  return mr_lua_resume(l->L, NULL, 0, &results);
}

static PORT_NOINLINE int go_on_profiled(mr_fiber *f) {
  int how = go_on(f);
  mr_profile_stopped(f, how == BODY_YIELDS);
  return how;
}

static int resume(mr_fiber *f) { return PORT_UNLIKELY(mr_profile_on()) ? go_on_profiled(f) : go_on(f); }

static int end(mr_thread *t, mr_fiber *f, int status) {
  mr_proc *p = mr_proc_of(f);
  if (results >= 0) mr_lua_of(f)->nres = results;
  if (f->crew) return mr_strand_ended(t, f, status);
  p->end = (unsigned char)mr_proc_outcome(p, status, p->main.nres);
  if (mr_trace_on()) mr_traced_ended(f, p->end == PROC_FAILED, p->text);
  if (PORT_UNLIKELY(mr_replay_on)) mr_happens_last(f, p->end == PROC_FAILED ? p->text ? p->text : "" : NULL);
  mr_proc_close(t, p);
  return 1;
}

static void recycle(mr_worker *w, mr_thread *t) {
  mr_kit *k = mr_kit_of(t);
  t->left = 0;
  if (w) mr_state_keep(w->id, &k->ended);
  else mr_state_drop(&k->ended);
}

static void flush(mr_worker *w) { mr_state_flush(w->id); }

/*
 * A hand-over touches some 28 cache lines of the receiver. With thousands of processes none of them is in a near cache; asked for
 * when the receiver becomes ready, they come together while the sender goes on, instead of one by one afterwards.
 */
static void prefetch(const mr_fiber *f) { mr_state_prefetch(mr_lua_seen(f)); }

static void knocked(void) {
  if (mr_hooks.knocked) mr_hooks.knocked();
}

static unsigned describe(const mr_fiber *f, const char **name) {
  const mr_strand *s = (const mr_strand *)(const void *)f;
  int first = f == f->job->first;
  *name = first ? mr_proc_of(f)->name : s->name;
  return first ? 0 : (unsigned)s->id;
}

const mr_body mr_run_body = {
  .thread_size = sizeof(mr_kit), .equip = equip, .get = get, .resume = resume, .end = end, .recycle = recycle, .flush = flush,
  .prefetch = prefetch, .describe = describe, .describe_on = mr_name_on, .kick = mr_hook_kick, .interrupt = mr_interrupt_main, .knocked = knocked,
  .report = mr_dump_print, .ending = mr_ending_report, .deadlock = mr_deadlock,
};
