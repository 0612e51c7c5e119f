/*
 * look: the stacks of a process, read while it lives. docs/internals/look.md argues each step.
 *
 * A process is asked (mr_ask): the request goes into its list, JOB_LOOK is set (mr_job_look). Whatever thread runs one of its fibers next answers
 * before that goes on: as it is resumed (body.c), as a blocking wait is over (park.c), or at the next instruction, where the monitor has sent its
 * signal (hook.c). So a stack is read only by the thread to which the state belongs. That also reads the stacks of the process's other fibers,
 * as none of them runs.
 *
 * Invariants.
 *  - A request has two references: of who asks, and of the list, or of who has taken it out of there to answer.
 *  - `out` is the answerer's until `answered`, then the asker's.
 *  - (p->lock) requests are added only while p has not ended; its end takes all of them.
 *  - Each request counts as a look (mr_looks_begin) until it leaves the list.
 * No lock is held while a stack is read: only the thread that runs a process changes the circle of its fibers.
 */
#include "process/info.h"
#include "base/embedded.h"
#include "process/control.h"
#include "process/names.h"
#include "process/rt.h"
#include "process/strand.h"
#include "process/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mr_asked {
  mr_asked *next;                      /* (p->lock) */
  atomic_uint refs;
  atomic_uchar answered;
  int what;
  mr_look out;
  mr_event done;
  port_event woken;                    /* the same for a thread */
};

/* ---- what a fiber does ---- */

int mr_describe_on(const mr_fiber *f, char *buf, size_t size) {
  buf[0] = 0;
  if (!f->on || !f->on->type) return 0;
  if (f->on->type == mr_proc_type) mr_proc_describe((const mr_proc *)(const void *)f->on, buf, size);
  else if (f->on->type->describe) f->on->type->describe(f->on, buf, size);
  else if (mr_hooks.describe) mr_hooks.describe(f->on, buf, size);
  return buf[0] != 0;
}


static int begun(const mr_fiber *f) {
  lua_State *L = mr_lua_seen(f)->L;
  lua_Debug ar;
  return f == f->job->first || lua_status(L) != LUA_OK || lua_getstack(L, 0, &ar);
}

/* mr_hooks.describe begins with a preposition. */
int mr_name_on(const mr_fiber *f, char *buf, size_t size) {
  if (!mr_describe_on(f, buf, size)) return 0;
  if (strncmp(buf, "on ", 3) == 0) memmove(buf, buf + 3, strlen(buf + 3) + 1);
  return 1;
}

enum { RUNS, READY, WAITS };

static void say_doing(mr_text *t, const mr_fiber *f, int does) {
  char on[MR_LOOK_ON];
  const char *op = mr_fiber_op(f);
  if (does == RUNS) mr_say(t, "running");
  else if (!begun(f)) mr_say(t, "has not begun");
  else if (does == READY) mr_say(t, "ready");
  else if (mr_name_on(f, on, sizeof on)) mr_say(t, "waiting (%s, %s)", op ? op : "?", on);
  else mr_say(t, op ? "waiting (%s)" : "waiting", op);
}

/* ---- its coroutines ---- */

enum { CHAIN = 64 };
typedef struct { lua_State *at[CHAIN]; int n; } chain;         /* from the outermost; more than so many are left out */

/* `inner`: where its thread is, NULL: it has yielded. Where C code has resumed coroutines by itself there is a gap, but the innermost is known. */
static void find_chain(chain *c, mr_fiber *f, lua_State *inner) {
  const mr_lua *l = mr_lua_seen(f);
  lua_State *co = l->L;
  c->n = 0;
  if (!inner && f->mode != WAIT_YIELD) inner = l->parked_L;   /* it waits where it can't yield */
  while (co && c->n < CHAIN - 1) {
    c->at[c->n++] = co;
    co = co == inner || f->job->host || !mr_hooks.resumed ? NULL : mr_hooks.resumed(co, inner != NULL);
  }
  if (inner && c->at[c->n - 1] != inner) c->at[c->n++] = inner;
}

/* The innermost line of the program's own code; of mare's, if there is no other. */
static void find_where(char *buf, size_t size, const chain *c) {
  lua_Debug ar;
  buf[0] = 0;
  for (int i = c->n - 1; i >= 0; i--) {
    for (int level = 0; level < 200 && lua_getstack(c->at[i], level, &ar); level++) {
      lua_getinfo(c->at[i], "Sl", &ar);
      if (ar.currentline <= 0 || (mr_own_source(ar.source) && buf[0])) continue;
      snprintf(buf, size, "%s:%d", ar.short_src, ar.currentline);
      if (!mr_own_source(ar.source)) return;
    }
  }
}

static void say_stacks(mr_text *t, const chain *c) {
  mr_say(t, "\nstack traceback:");
  for (int i = c->n - 1; i >= 0; i--) {
    mr_trace_levels(t, c->at[i]);
    if (i > 0) mr_say(t, "\n\t(this coroutine was resumed by:)");
  }
}

/* ---- the answer ---- */

/* `own`: the fiber that answers; L: where its thread is, NULL: it has yielded, and is about to go on. */
typedef struct { mr_look *out; mr_text text; mr_fiber *own; lua_State *L; int does, many, still; } view;

static int does(const view *v, const mr_fiber *f) {
  unsigned state = atomic_load_explicit(&f->state, memory_order_relaxed);
  if (f == v->own && v->L) return v->does;
  if (v->still) return state == FIBER_PARKED || state == FIBER_PARKING ? WAITS : READY;   /* nobody was woken to answer */
  return f->mode != WAIT_YIELD || f->sysyield == SYS_PARK ? WAITS : READY;
}

static void see_fiber(view *v, mr_fiber *f) {
  chain c = { .n = 0 };
  char name[96];
  mr_fiber_describe(f, name, sizeof name);
  if (v->many || name[0]) mr_say(&v->text, "\n%s", name[0] ? name + 2 : "main fiber");
  mr_say(&v->text, ": ");
  say_doing(&v->text, f, does(v, f));
  find_chain(&c, f, f == v->own ? v->L : NULL);
  if (begun(f)) say_stacks(&v->text, &c);
}

static void see_place(view *v, mr_fiber *f) {
  chain c = { .n = 0 };
  find_chain(&c, f, f == v->own ? v->L : NULL);
  find_where(v->out->where, sizeof v->out->where, &c);
  int what = does(v, f);
  v->out->status = what == RUNS ? "running" : what == READY ? "ready" : "waiting";
  if (what != WAITS) return;
  v->out->waits = mr_fiber_op(f);
  mr_name_on(f, v->out->on, sizeof v->out->on);
}

static int lives(const mr_fiber *f);

/* ---- where most of its fibers are ---- */

enum { SPOTS = 16, FIBERS = 1000 };    /* places that are told apart, fibers that are looked at */
typedef struct { char where[MR_LOOK_WHERE]; mr_fiber *one; unsigned n; } spot;
typedef struct { spot at[SPOTS]; unsigned n; } spots;

static void count_at(spots *s, const view *v, mr_fiber *f) {
  chain c = { .n = 0 };
  char where[MR_LOOK_WHERE];
  find_chain(&c, f, f == v->own ? v->L : NULL);
  find_where(where, sizeof where, &c);
  unsigned i = 0;
  while (i < s->n && strcmp(s->at[i].where, where) != 0) i++;
  if (i == SPOTS) return;
  if (i == s->n) {
    memcpy(s->at[i].where, where, sizeof where);
    s->at[i].one = f;
    s->at[s->n++].n = 0;
  }
  s->at[i].n++;
}

/* One that stands in C code only has no line: that is the answer if nobody has one. */
static int beats(const spot *a, const spot *b) {
  if (!a->where[0] != !b->where[0]) return a->where[0] != 0;
  return a->n > b->n;
}

/* The first one is counted last: of a server with one connection it is that one's place, not that of its accept. */
static mr_fiber *find_most(const view *v, mr_proc *p, unsigned *there) {
  mr_crew *c = p->main.fiber.crew;
  spots s;
  unsigned best = 0, left = FIBERS;
  s.n = 0;
  for (mr_fiber *f = c->token.all.next; f != &c->token && left > 0; f = f->all.next)
    if (lives(f) && begun(f)) count_at(&s, v, f), left--;
  if (lives(&p->main.fiber)) count_at(&s, v, &p->main.fiber);
  for (unsigned i = 1; i < s.n; i++)
    if (beats(&s.at[i], &s.at[best])) best = i;
  *there = s.n ? s.at[best].n : 0;
  return s.n ? s.at[best].one : v->own;
}

/* The one that runs; else one of those that stand where most do. */
static mr_fiber *whose_place(const view *v, mr_proc *p) {
  const mr_crew *c = p->main.fiber.crew;
  if (v->L && v->does == RUNS) return v->own;
  if (c && c->alive > 1) return find_most(v, p, &v->out->there);
  return lives(&p->main.fiber) ? &p->main.fiber : v->own;
}

static int lives(const mr_fiber *f) { return atomic_load_explicit(&f->state, memory_order_relaxed) != FIBER_DONE; }

static void see_all(view *v, mr_proc *p) {
  char who[160];
  mr_crew *c = p->main.fiber.crew;
  mr_proc_describe(p, who, sizeof who);
  mr_say(&v->text, "%s", who);
  v->many = c != NULL && c->alive > 1;
  if (lives(&p->main.fiber)) see_fiber(v, &p->main.fiber);
  for (mr_fiber *f = c ? c->token.all.next : NULL; f && f != &c->token; f = f->all.next)
    if (lives(f)) see_fiber(v, f);
}

/* By the thread that runs f; or `still`: nothing of the process runs. */
static void see(mr_look *out, int what, mr_fiber *f, lua_State *L, int does, int still) {
  view v = { .out = out, .own = f, .L = L, .does = does, .still = still };
  mr_proc *p = mr_proc_of(f);
  lua_State *any = mr_lua_of(f)->L;
  int kib = lua_gc(any, LUA_GCCOUNT, 0);         /* -1 while a finaliser runs */
  out->state = LOOK_DONE;
  out->used = kib < 0 ? 0 : (size_t)kib * 1024 + (size_t)lua_gc(any, LUA_GCCOUNTB, 0);
  if (what & LOOK_WHERE) see_place(&v, whose_place(&v, p));
  if (!(what & LOOK_TRACE)) return;
  see_all(&v, p);
  if (v.text.failed) {
    out->state = LOOK_NOMEM;
    free(v.text.at);
    v.text.at = NULL;
  }
  out->text = v.text.at;
}

/* ---- requests ---- */

static void let_go(mr_asked *a) {
  if (atomic_fetch_sub(&a->refs, 1) != 1) return;
  free(a->out.text);
  free(a);
}

static void finish(mr_asked *a, mr_fiber *near) {
  atomic_store(&a->answered, 1);
  mr_event_set(&a->done, near);
  port_event_set(&a->woken);           /* after it: a thread that wakes looks at the other one */
  mr_looks_end();
  let_go(a);
}

mr_asked *mr_looks_take(mr_proc *p) {
  mr_asked *all = p->looks;
  p->looks = NULL;
  return all;
}

static void answer(mr_fiber *f, lua_State *L, int does) {
  mr_proc *p = mr_proc_of(f);
  port_acquire(&p->lock);
  mr_job_looked(&p->job);              /* who asks from now on sets it again */
  mr_asked *all = mr_looks_take(p);
  port_unlock(&p->lock);
  while (all) {
    mr_asked *a = all;
    all = a->next;
    see(&a->out, a->what, f, L, does, 0);
    finish(a, p->job.host ? NULL : f);
  }
}

void mr_look_forget(mr_proc *p) {
  mr_job_looked(&p->job);
  p->looks = NULL;
}

void mr_look_answer(mr_fiber *f) { answer(f, NULL, WAITS); }
void mr_look_blocked(mr_fiber *f) { answer(f, mr_lua_of(f)->parked_L, WAITS); }
void mr_look_running(mr_fiber *f, lua_State *L) { answer(f, L, RUNS); }

static void say_over(mr_proc *p, mr_look *out) {
  out->state = LOOK_OVER;
  if (!p->trace) return;
  out->text = mr_text_copy(p->trace);
  if (!out->text) out->state = LOOK_NOMEM;
}

static void say_missing(mr_proc *p, int what, mr_look *out) {
  mr_text t = { .at = NULL };
  char who[160];
  int busy = mr_job_busy(&p->job), begins = atomic_load(&p->status) == PROC_NEW;
  out->state = begins ? LOOK_NEW : LOOK_BUSY;
  if (!(what & LOOK_TRACE)) return;
  mr_proc_describe(p, who, sizeof who);
  if (begins) mr_say(&t, "%s: has not begun", who);
  else if (busy == JOB_RUNS) mr_say(&t, "%s: running, in a C function, a finaliser or another place where it can't be asked", who);
  else mr_say(&t, busy == JOB_READY ? "%s: ready, it waits for a worker" : "%s: waiting", who);
  out->text = t.at;
  if (!t.at) out->state = LOOK_NOMEM;
}

/* The end has published what it leaves before the status. */
void mr_looks_over(mr_asked *all, mr_proc *p) {
  while (all) {
    mr_asked *a = all;
    all = a->next;
    say_over(p, &a->out);
    finish(a, p->job.host ? NULL : &p->main.fiber);
  }
}

mr_asked *mr_ask(mr_proc *p, int what, mr_fiber *near) {
  mr_asked *a = mr_pool_failing() ? NULL : calloc(1, sizeof *a);
  if (!a) return NULL;
  a->what = what;
  mr_event_init(&a->done);
  atomic_init(&a->refs, 1);
  port_acquire(&p->lock);
  unsigned status = atomic_load(&p->status);
  int asks = status == PROC_ALIVE;
  if (asks) {
    a->next = p->looks;
    p->looks = a;
    atomic_store(&a->refs, 2);
    mr_looks_begin();
  }
  port_unlock(&p->lock);
  if (asks) mr_job_look(&p->job, near);
  else mr_event_set(&a->done, near);
  return a;
}

mr_event *mr_asked_event(mr_asked *a) { return &a->done; }

/* 1: it is in nobody's hands any more. */
static int withdraw(mr_asked *a, mr_proc *p) {
  port_acquire(&p->lock);
  mr_asked **at = &p->looks;
  while (*at && *at != a) at = &(*at)->next;
  int found = *at != NULL;
  if (found) *at = a->next;
  port_unlock(&p->lock);
  if (found) mr_looks_end();
  return found;
}

void mr_asked_wait(mr_asked *a, uint64_t deadline) {
  while (!mr_event_is_set(&a->done) && port_now() < deadline) port_event_wait(&a->woken, deadline);
}

void mr_asked_end(mr_asked *a, mr_proc *p, mr_look *out) {
  if (withdraw(a, p)) let_go(a);
  memset(out, 0, sizeof *out);
  if (atomic_load(&a->answered)) {
    *out = a->out;
    a->out.text = NULL;
  } else if (atomic_load(&p->status) >= PROC_DONE) {
    say_over(p, out);
  } else {
    say_missing(p, a->what, out);
  }
  let_go(a);
}

void mr_look_own(lua_State *L, mr_proc *p, int what, mr_look *out) {
  memset(out, 0, sizeof *out);
  see(out, what, p->job.fiber, L, RUNS, 0);
}

void mr_look_still(mr_proc *p, int what, const mr_fiber *running, mr_look *out) {
  mr_fiber *f = p->job.fiber;
  lua_State *top = mr_lua_of(f)->top;
  memset(out, 0, sizeof *out);
  if (atomic_load(&p->status) >= PROC_DONE) say_over(p, out);
  else if (!p->main.L) say_missing(p, what, out);
  else if (f != running) see(out, what, f, NULL, READY, 1);
  else see(out, what, f, top ? top : mr_lua_of(f)->L, RUNS, 1);
}

/* A fiber that is claimed here is in no queue until it is ready: see quiet.c. */
int mr_look_at(mr_proc *p, int what, uint64_t deadline, mr_look *out) {
  mr_moving();
  mr_asked *a = mr_ask(p, what, NULL);
  mr_settled();
  memset(out, 0, sizeof *out);
  out->state = LOOK_NOMEM;
  if (!a) return LOOK_NOMEM;
  mr_asked_wait(a, deadline);
  mr_asked_end(a, p, out);
  return out->state;
}
