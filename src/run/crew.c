/* crew: see crew.h. */
#include "run/rt.h"
#include "run/crew.h"
#include "run/traced.h"
#include "port/poll.h"

#include <stdlib.h>

/* ---- the list ---- */

static void add(mr_crew *c, mr_fiber *f, int where) {
  if (where == CREW_INTERRUPTED) {
    mr_assert(!c->interrupted);
    mr_fiber_placed(f);
    c->interrupted = f;
  } else if (where == CREW_DUE) {
    mr_row_add_due(&c->ready, f);
  } else {
    mr_row_add(&c->ready, f);
  }
}

/* A host's thread is told, not queued. */
static int wake_host(mr_crew *c) {
  if (!c->job->host) return 1;
  if (c->bell >= 0) port_bell_ring(c->bell);
  port_event_set(&c->job->first->thread->event);
  return 0;
}

/* Whoever finds the crew idle, and he alone, queues the token. */
int mr_crew_push(mr_fiber *f, int where) {
  mr_crew *c = f->crew;
  port_acquire(&c->lock);
  add(c, f, where);
  /* RUNNING: who runs the crew looks at the list, under this lock, before it leaves. QUEUED: who takes the token will. */
  int start = c->state == CREW_IDLE;
  if (start) c->state = CREW_QUEUED;
  if (start) start = wake_host(c);
  MR_CHECK_SOME(8, mr_crew_check(c));
  port_unlock(&c->lock);
  return start;
}

/* That there is none is found, and the crew made idle, under one lock: a push comes before, and is seen, or after, and queues the token. */
mr_fiber *mr_crew_next(mr_crew *c) {
  port_acquire(&c->lock);
  mr_fiber *f = c->interrupted;
  if (f) {
    mr_fiber_taken(f);
    c->interrupted = NULL;
  } else {
    f = mr_row_take(&c->ready);
  }
  /* Only who has taken the token, or runs the crew, takes out; so after the token there is a fiber, and IDLE follows only a run. */
  mr_assert(c->job->host || c->state != CREW_IDLE);            /* the token, or the run, is the caller's */
  c->state = f ? CREW_RUNNING : CREW_IDLE;
  MR_CHECK_SOME(8, mr_crew_check(c));
  port_unlock(&c->lock);
  return f;
}

int mr_crew_leave(mr_crew *c) {
  port_acquire(&c->lock);
  int more = mr_row_first(&c->ready) != NULL || c->interrupted != NULL;
  c->state = more ? CREW_QUEUED : CREW_IDLE;
  if (more) more = wake_host(c);
  MR_CHECK_SOME(8, mr_crew_check(c));
  port_unlock(&c->lock);
  return more;
}

/* ---- who belongs to it ---- */

static void set_crew(mr_job *j, mr_crew *c) {
  port_acquire(&j->lock);
  if (c && (mr_fiber_heed(j->first) & HEED_LEVEL)) atomic_fetch_or(&c->token.heed, HEED_LEVEL);
  j->first->crew = c;
  port_unlock(&j->lock);
}

mr_crew *mr_crew_of(mr_job *j) {
  if (j->first->crew) return j->first->crew;
  mr_crew *c = port_lines_new(sizeof *c);
  if (!c) return NULL;
  c->job = j;
  c->token.job = j;
  c->token.crew = c;
  c->token.all.next = c->token.all.prev = &c->token;
  c->state = j->host ? CREW_IDLE : CREW_RUNNING;
  c->alive = 1;
  c->bell = -1;
  set_crew(j, c);
  return c;
}

void mr_crew_add(mr_crew *c, mr_fiber *f) {
  f->thread = c->job->first->thread;
  atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
  c->alive++;
  if (mr_trace_on()) mr_traced_born(f);
  port_acquire(&c->lock);
  f->all.next = &c->token;
  f->all.prev = c->token.all.prev;
  f->all.prev->all.next = f;
  c->token.all.prev = f;
  port_unlock(&c->lock);
  mr_crew_push(f, CREW_LAST);                  /* its job runs: nothing to be queued */
}

void mr_crew_daemon(mr_fiber *f) {
  f->daemon = 1;
  f->crew->daemons++;
}

void mr_crew_remove(mr_fiber *f) {
  mr_crew *c = f->crew;
  if (!f->all.next) return;
  port_acquire(&c->lock);
  f->all.next->all.prev = f->all.prev;
  f->all.prev->all.next = f->all.next;
  f->all.next = f->all.prev = NULL;
  port_unlock(&c->lock);
}

int mr_crew_waits(mr_crew *c) {
  port_acquire(&c->lock);
  int none = !c->interrupted && !mr_row_first(&c->ready);
  port_unlock(&c->lock);
  return none;
}

mr_fiber *mr_crew_other(mr_crew *c) { return c->token.all.next == &c->token ? NULL : c->token.all.next; }

void mr_crew_destroy(mr_crew *c) {
  set_crew(c->job, NULL);
  if (c->bell >= 0) port_bell_close(c->bell);
  port_lines_free(c);
}

/* ---- ends ---- */

typedef struct { mr_fiber *first; } claimed;

static void claim(mr_fiber *f, void *ud) {
  claimed *all = ud;
  if (!mr_fiber_claim(f)) return;
  f->next = all->first;                        /* it is in no queue */
  all->first = f;
}

/* Claimed under the crew's lock, woken after it: mr_ready takes that lock itself. */
void mr_crew_end_all(mr_crew *c, int why, mr_fiber *near) {
  claimed all = { NULL };
  c->ending = (unsigned char)why;              /* first: whose wait is not open yet sees it when it opens one */
  mr_crew_each(c->job, claim, &all);
  while (all.first) {
    mr_fiber *f = all.first;
    all.first = f->next;
    mr_ready(f, f->masked ? MR_AGAIN : MR_STOPPED, near);
  }
}

size_t mr_crew_ended(mr_crew *c, int daemon) {
  c->daemons -= (size_t)daemon;
  if (--c->alive > 0 && c->alive == c->daemons && !c->ending) mr_crew_end_all(c, CREW_OVER, NULL);
  return c->alive;
}

int mr_fiber_wake(mr_fiber *f, mr_fiber *near) {
  if (f->resting != FIBER_RESTS) return 0;         /* it may be RESTED: then it was woken already */
  if (mr_fiber_claim(f)) {
    f->resting = 0;
    mr_ready(f, MR_WOKEN, near);
    return 1;
  }
  while (atomic_load(&f->state) == FIBER_PARKING || atomic_load(&f->state) == FIBER_PARKED) port_pause();   /* who was faster is about to say why */
  if (f->reason != MR_AGAIN) return 0;
  f->resting = FIBER_RESTED;                     /* it would rest again */
  return 1;
}

void mr_fiber_cancel(mr_fiber *f, mr_fiber *near) {
  f->cancelled = 1;
  if (mr_fiber_claim(f)) mr_ready(f, f->masked ? MR_AGAIN : MR_STOPPED, near);
}

/* ---- hosts ---- */

static mr_fiber *take(mr_crew *c) {
  mr_fiber *f = mr_crew_next(c);
  if (!f && c->bell >= 0) port_bell_clear(c->bell);
  return f;
}

static void run_for_host(mr_thread *t, mr_fiber *f) {
  mr_job *j = f->job;
  mr_fiber *before = j->fiber;
  f->thread = t;
  do {
    atomic_store_explicit(&f->state, FIBER_RUNNING, memory_order_relaxed);
    j->fiber = f;
    int how = mr_trace_on() ? mr_traced_resume(f) : mr_run_body.resume(f);
    if (how != BODY_YIELDS) {
      mr_run_body.end(t, f, how);
      break;
    }
    if (f->sysyield != SYS_PARK) {
      atomic_store_explicit(&f->state, FIBER_READY, memory_order_relaxed);
      mr_crew_push(f, CREW_LAST);
      break;
    }
  } while (!mr_fiber_parked(f));
  j->fiber = before;
}

/* Only the first fiber's thread of control runs the others, and not while one of them is on its stack. */
unsigned mr_crew_step(mr_job *host) {
  mr_crew *c = host->first->crew;
  unsigned n = 0;
  mr_fiber *f;
  if (!c || host->barred || host->fiber != host->first) return 0;
  /* fibers that yield come back: they wait for the next step */
  for (size_t most = c->alive; n < most && (f = take(c)) != NULL; n++) run_for_host(host->first->thread, f);
  mr_crew_leave(c);
  return n;
}

/* Whoever has claimed it is about to call mr_ready, and may touch it until then. One that runs is the one that closes all. */
static int has_settled(mr_fiber *f) {
  unsigned state;
  while ((state = atomic_load(&f->state)) == FIBER_PARKING || state == FIBER_PARKED) port_pause();
  return state == FIBER_READY;
}

/* Who has claimed a fiber may push it when the host's record is freed: nobody is to be told any more. */
static void silence(mr_crew *c) {
  port_acquire(&c->lock);
  c->state = CREW_RUNNING;
  port_unlock(&c->lock);
}

/* The host's state closes: its fibers never go on. Their memory stays, as who would wake them may have pointers there. */
void mr_crew_abandon(mr_job *host, void (*fn)(mr_fiber *f)) {
  static mr_crew *_Atomic abandoned;
  mr_crew *c = host->first->crew;
  claimed all = { NULL };
  if (!c) return;
  mr_crew_each(host, claim, &all);
  for (mr_fiber *f = all.first; f; f = f->next) {
    mr_wake(f);                                  /* its timer would keep a deadlock from being noticed */
    atomic_store(&f->state, FIBER_READY);
  }
  /* no lock: the circle is ours, and what fn lets go of has locks that come before the crew's */
  for (mr_fiber *f = c->token.all.next; f != &c->token; f = f->all.next)
    if (atomic_load(&f->state) != FIBER_DONE && has_settled(f)) fn(f);
  silence(c);
  if (c->alive == 1) return;
  set_crew(host, NULL);
  c->token.next = (mr_fiber *)(void *)atomic_load(&abandoned);   /* so that it does not count as lost */
  atomic_store(&abandoned, c);
}

/* ---- others look ---- */

int mr_crew_each(mr_job *j, void (*fn)(mr_fiber *f, void *ud), void *ud) {
  if (atomic_load(&j->first->state) != FIBER_DONE) fn(j->first, ud);
  int state = -1;
  port_acquire(&j->lock);
  mr_crew *c = j->first->crew;
  if (c) {
    port_acquire(&c->lock);
    state = c->state;
    for (mr_fiber *f = c->token.all.next; f != &c->token; f = f->all.next)
      if (atomic_load(&f->state) != FIBER_DONE) fn(f, ud);
    port_unlock(&c->lock);
  }
  port_unlock(&j->lock);
  return state;
}

int mr_crew_state(mr_job *j) {
  int state = -1;
  port_acquire(&j->lock);
  mr_crew *c = j->first->crew;
  if (c) {
    port_acquire(&c->lock);
    state = c->state;
    port_unlock(&c->lock);
  }
  port_unlock(&j->lock);
  return state;
}

int mr_crew_bell(mr_crew *c) {
  port_acquire(&c->lock);
  if (c->bell < 0) {
    c->bell = port_bell_open();
    if (c->bell >= 0 && (mr_row_first(&c->ready) || c->interrupted)) port_bell_ring(c->bell);
  }
  int bell = c->bell;
  port_unlock(&c->lock);
  return bell;
}
