/* crew: see crew.h. */
#include "process/rt.h"
#include "process/crew.h"
#include "port/poll.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* See module/coroutine.c. A host's extra space is not ours. */
static void mark(mr_fiber *f, uintptr_t set, uintptr_t clear) {
  uintptr_t *space = lua_getextraspace(f->L);
  if (f->proc->kind != PROC_HOST) *space = (*space & ~clear) | set;
}

/* ---- the list ---- */

static void add(mr_crew *c, mr_fiber *f, int where) {
  if (where == CREW_INTERRUPTED) {
    c->interrupted = f;
  } else if (where == CREW_FIRST) {             /* but behind those that were due before it */
    mr_fiber **at = c->due ? &c->due->next : &c->head;
    f->next = *at;
    *at = f;
    if (!f->next) c->tail = f;
    c->due = f;
  } else {
    f->next = NULL;
    if (c->tail) c->tail->next = f;
    else c->head = f;
    c->tail = f;
  }
}

/* A host's thread is told, not queued. */
static int wake_host(mr_crew *c) {
  if (c->proc->kind != PROC_HOST) return 1;
  if (c->bell >= 0) port_bell_ring(c->bell);
  port_event_set(&c->proc->main.thread->event);
  return 0;
}

int mr_crew_push(mr_fiber *f, int where) {
  mr_crew *c = f->crew;
  port_acquire(&c->lock);
  add(c, f, where);
  int start = c->state == CREW_IDLE;
  if (start) c->state = CREW_QUEUED;
  if (start) start = wake_host(c);
  port_unlock(&c->lock);
  return start;
}

mr_fiber *mr_crew_next(mr_crew *c) {
  port_acquire(&c->lock);
  mr_fiber *f = c->interrupted ? c->interrupted : c->head;
  if (f && f == c->interrupted) {
    c->interrupted = NULL;
  } else if (f) {
    c->head = f->next;
    if (!c->head) c->tail = NULL;
    if (c->due == f) c->due = NULL;
  }
  c->state = f ? CREW_RUNNING : CREW_IDLE;
  port_unlock(&c->lock);
  return f;
}

int mr_crew_leave(mr_crew *c) {
  port_acquire(&c->lock);
  int more = c->head != NULL || c->interrupted != NULL;
  c->state = more ? CREW_QUEUED : CREW_IDLE;
  if (more) more = wake_host(c);
  port_unlock(&c->lock);
  return more;
}

/* ---- birth ---- */

static void set_crew(mr_proc *p, mr_crew *c) {
  port_acquire(&p->lock);
  p->main.crew = c;
  port_unlock(&p->lock);
}

mr_crew *mr_crew_of(mr_proc *p) {
  if (p->main.crew) return p->main.crew;
  mr_crew *c = aligned_alloc(PORT_CACHELINE, (sizeof *c + PORT_CACHELINE - 1) / PORT_CACHELINE * PORT_CACHELINE);
  mr_strand *head = calloc(1, sizeof *head);
  if (!c || !head) {
    free(c);
    free(head);
    return NULL;
  }
  memset(c, 0, sizeof *c);
  c->proc = p;
  c->token.proc = p;
  c->token.crew = c;
  c->token.L = p->main.L;
  c->state = p->kind == PROC_HOST ? CREW_IDLE : CREW_RUNNING;
  c->alive = 1;
  c->bell = -1;
  head->next = head->prev = head;
  c->all = head;
  set_crew(p, c);
  return c;
}

mr_strand *mr_strand_new(mr_crew *c, lua_State *co, const char *name, const mr_sharetype *type) {
  mr_strand *s = aligned_alloc(PORT_CACHELINE, (sizeof *s + PORT_CACHELINE - 1) / PORT_CACHELINE * PORT_CACHELINE);
  if (!s) return NULL;
  memset(s, 0, sizeof *s);
  if (name && (s->name = mr_text_copy(name)) == NULL) {
    free(s);
    return NULL;
  }
  s->id = ++c->next_id;
  s->shared.type = type;
  atomic_init(&s->shared.refs, 1);
  mr_event_init(&s->ended);
  s->fiber.proc = c->proc;
  s->fiber.crew = c;
  s->fiber.L = s->fiber.top = co;
  s->fiber.wait.fiber = &s->fiber;
  s->fiber.thread = c->proc->main.thread;
  return s;
}

void mr_strand_start(mr_strand *s) {
  mr_crew *c = s->fiber.crew;
  mr_retain(&s->shared);
  mark(&s->fiber, 1, 0);
  atomic_store_explicit(&s->fiber.state, FIBER_READY, memory_order_relaxed);
  c->alive++;
  port_acquire(&c->lock);
  s->next = c->all;
  s->prev = c->all->prev;
  s->prev->next = s;
  c->all->prev = s;
  port_unlock(&c->lock);
  mr_crew_push(&s->fiber, CREW_LAST);          /* its process runs: nothing to be queued */
}

/*
 * All are to end, or this one was cancelled. One that waited is resumed to get its error, and may clean up; one that did not
 * begin or waits once more ends here, as coroutine.close does it, and so does one that computes in a process that failed: no pcall can
 * keep it alive.
 */
static int closes(const mr_fiber *f) { return f->crew->ending || (f->cancelled && (f->told || lua_status(f->L) == LUA_OK)); }

static int close_here(mr_fiber *f, int *nres) {
  lua_State *L = f->L;
  f->top_ok = 0;
  f->told = mr_hooks.reset(L) == LUA_OK;         /* an error of a pending variable's __close is its own */
  if (f->told) {
    lua_settop(L, 0);
    lua_pushnil(L);
  }
  *nres = 1;
  return LUA_ERRRUN;
}

/* A coroutine that is a fiber must not be resumed by others: it is marked except while it runs (see module/coroutine.c). */
int mr_crew_resume(mr_fiber *f, int nargs, int *nres) {
  mr_proc *p = f->proc;
  lua_State *L = f->L;
  int parked = f->sysyield == SYS_PARK;
  p->fiber = f;
  f->sysyield = SYS_NONE;
  if (f == &p->main) return lua_resume(L, NULL, nargs, nres);
  mark(f, 0, 1);
  if (PORT_UNLIKELY(f->crew->ending | f->cancelled) && !parked && closes(f)) return close_here(f, nres);
  if (lua_status(L) == LUA_OK) nargs = lua_gettop(L) - 1;
  int status = lua_resume(L, NULL, nargs, nres);
  if (status == LUA_YIELD) mark(f, 1, 0);
  return status;
}

void mr_strand_daemon(mr_strand *s) {
  s->daemon = 1;
  s->fiber.crew->daemons++;
}

/* ---- end ---- */

void mr_strand_free(mr_strand *s) {
  mr_crew *c = s->fiber.crew;
  if (s->next) {
    port_acquire(&c->lock);
    s->next->prev = s->prev;
    s->prev->next = s->next;
    port_unlock(&c->lock);
  }
  free(s->name);
  free(s->trace);
  free(s);
}

/* f may be gone afterwards. */
static void strand_end(mr_fiber *f, int status, int nres) {
  mr_strand *s = (mr_strand *)f;
  lua_State *L = f->L;
  f->top_ok = 0;
  f->top = L;
  if (status == LUA_OK) {
    s->nres = nres;
  } else {
    s->trace = mr_trace(L);
    if (lua_status(L) != LUA_OK) mr_hooks.reset(L);    /* leaves the error value on top */
    s->failed = 1;
    s->nres = 1;
    s->observed = f->told;                       /* who made it end knows */
  }
  if (f->held_from) mr_hooks.mail_back(f);
  mark(f, 3, 0);
  atomic_store_explicit(&f->state, FIBER_DONE, memory_order_relaxed);
  s->done = 1;
  atomic_store_explicit(&f->thread->current, NULL, memory_order_relaxed);   /* a signal's handler would look at it */
  mr_event_set(&s->ended, f);
  mr_release(&s->shared);
}

typedef struct { mr_fiber *first; } claimed;

static void claim(mr_fiber *f, void *ud) {
  claimed *all = ud;
  unsigned ticket = atomic_load(&f->ticket);
  if (!(ticket & 1) || !atomic_compare_exchange_strong(&f->ticket, &ticket, ticket + 1)) return;
  f->next = all->first;                        /* it is in no queue */
  all->first = f;
}

/* The first fiber has failed, or only daemons are left: they get an error where they wait. */
static void end_all(mr_crew *c, int why, mr_fiber *near) {
  claimed all = { NULL };
  c->ending = (unsigned char)why;
  mr_crew_each(c->proc, claim, &all);
  while (all.first) {
    mr_fiber *f = all.first;
    all.first = f->next;
    mr_ready(f, MR_STOPPED, near);
  }
}

int mr_fiber_wake(mr_fiber *f, mr_fiber *near) {
  claimed one = { NULL };
  if (!f->resting) return 0;
  claim(f, &one);
  if (!one.first) return 0;
  f->resting = 0;
  mr_ready(f, MR_WOKEN, near);
  return 1;
}

int mr_fiber_unrelief(mr_fiber *f) {
  mr_fiber *r = f->relief;
  if (!r) return 0;
  f->relief = NULL;
  mr_release(&((mr_strand *)r)->shared);
  return 1;
}

void mr_fiber_relieve(mr_fiber *f) {
  mr_fiber_wake(f->relief, f);
  mr_fiber_unrelief(f);
}

void mr_fiber_cancel(mr_fiber *f, mr_fiber *near) {
  claimed one = { NULL };
  f->cancelled = 1;
  claim(f, &one);
  if (one.first) mr_ready(f, MR_STOPPED, near);
}

static void destroy(mr_crew *c) {
  set_crew(c->proc, NULL);
  while (c->all->next != c->all) mr_strand_free(c->all->next);
  if (c->bell >= 0) port_bell_close(c->bell);
  free(c->all);
  free(c);
}

/* The main process of `mare run` shows its error itself and ends well, with an exit code. */
static int has_failed(const mr_proc *p) {
  if (p->end == PROC_FAILED || p->kind != PROC_MAIN) return p->end == PROC_FAILED;
  return p->result.kind == MAIL_SCALARS && p->result.n > 0 && p->result.u.s[0].u.i != 0;
}

int mr_crew_ended(mr_thread *t, mr_fiber *f, int status, int nres) {
  mr_proc *p = f->proc;
  mr_crew *c = f->crew;
  mr_fiber_unrelief(f);
  if (f == &p->main) {
    p->end = (unsigned char)mr_proc_outcome(p, status, nres);
    atomic_store_explicit(&f->state, FIBER_DONE, memory_order_relaxed);
    if (c->alive > 1 && has_failed(p)) end_all(c, CREW_FAILED, f);
  } else {
    c->daemons -= ((mr_strand *)f)->daemon;
    strand_end(f, status, nres);
  }
  if (--c->alive > 0) {
    if (c->alive == c->daemons && !c->ending) end_all(c, CREW_OVER, NULL);
    return 0;
  }
  p->fiber = &p->main;
  p->main.thread = t;
  mr_proc_close(t, p, destroy);
  return 1;
}

/* ---- hosts ---- */

static mr_fiber *take(mr_crew *c) {
  mr_fiber *f = mr_crew_next(c);
  if (!f && c->bell >= 0) port_bell_clear(c->bell);
  return f;
}

static void run_for_host(mr_thread *t, mr_fiber *f) {
  mr_proc *p = f->proc;
  mr_fiber *before = p->fiber;
  int nres;
  f->thread = t;
  do {
    atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
    f->top = f->L;
    f->top_ok = 1;
    int status = mr_crew_resume(f, 0, &nres);
    if (status != LUA_YIELD) {
      mr_fiber_unrelief(f);
      strand_end(f, status, nres);
      p->main.crew->alive--;
      break;
    }
    if (f->sysyield != SYS_PARK) {
      atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
      mr_crew_push(f, CREW_LAST);
      break;
    }
  } while (!mr_fiber_parked(f));
  p->fiber = before;
}

/* Only the first fiber's thread of control runs the others, and not while one of them is on its stack. */
unsigned mr_crew_step(mr_proc *host) {
  mr_crew *c = host->main.crew;
  unsigned n = 0;
  mr_fiber *f;
  if (!c || host->fiber != &host->main) return 0;
  /* fibers that yield come back: they wait for the next step */
  for (size_t most = c->alive; n < most && (f = take(c)) != NULL; n++) run_for_host(host->main.thread, f);
  mr_crew_leave(c);
  return n;
}

/* What a fiber that never goes on has got, or offers. Whoever has claimed it is about to say so. */
static void forget(mr_fiber *f, void *ud) {
  unsigned state;
  (void)ud;
  if (f == &f->proc->main) return;
  while ((state = atomic_load(&f->state)) == FIBER_PARKING || state == FIBER_PARKED) port_pause();
  if (state != FIBER_READY) return;              /* it is the one that closes the state */
  if (f->set) mr_hooks.unlink(f);
  mr_mail_drop(&f->mail);
}

/* The host's state closes: its fibers never go on. Their memory stays, as who would wake them may have pointers there. */
void mr_crew_abandon(mr_proc *host) {
  static mr_crew *_Atomic abandoned;
  mr_crew *c = host->main.crew;
  claimed all = { NULL };
  if (!c) return;
  mr_crew_each(host, claim, &all);
  for (mr_fiber *f = all.first; f; f = f->next) {
    mr_wake(f);                                  /* its timer would keep a deadlock from being noticed */
    atomic_store(&f->state, FIBER_READY);
  }
  mr_crew_each(host, forget, NULL);
  if (c->alive == 1) {
    destroy(c);
    return;
  }
  set_crew(host, NULL);
  c->token.next = (mr_fiber *)(void *)atomic_load(&abandoned);   /* so that it does not count as lost */
  atomic_store(&abandoned, c);
}

/* ---- others look ---- */

void mr_crew_each(mr_proc *p, void (*fn)(mr_fiber *f, void *ud), void *ud) {
  if (atomic_load(&p->main.state) != FIBER_DONE) fn(&p->main, ud);
  port_acquire(&p->lock);
  mr_crew *c = p->main.crew;
  if (c) {
    port_acquire(&c->lock);
    for (mr_strand *s = c->all->next; s != c->all; s = s->next)
      if (atomic_load(&s->fiber.state) != FIBER_DONE) fn(&s->fiber, ud);
    port_unlock(&c->lock);
  }
  port_unlock(&p->lock);
}

void mr_fiber_describe(const mr_fiber *f, char *buf, size_t size) {
  const mr_strand *s = (const mr_strand *)f;
  if (f == &f->proc->main) buf[0] = 0;
  else if (s->name) snprintf(buf, size, ", fiber #%llu '%.50s'", (unsigned long long)s->id, s->name);
  else snprintf(buf, size, ", fiber #%llu", (unsigned long long)s->id);
}

int mr_crew_state(mr_proc *p) {
  int state = -1;
  port_acquire(&p->lock);
  mr_crew *c = p->main.crew;
  if (c) {
    port_acquire(&c->lock);
    state = c->state;
    port_unlock(&c->lock);
  }
  port_unlock(&p->lock);
  return state;
}

int mr_crew_bell(mr_crew *c) {
  port_acquire(&c->lock);
  if (c->bell < 0) {
    c->bell = port_bell_open();
    if (c->bell >= 0 && (c->head || c->interrupted)) port_bell_ring(c->bell);
  }
  int bell = c->bell;
  port_unlock(&c->lock);
  return bell;
}
