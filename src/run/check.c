/*
 * check: what the files of this folder promise, for builds with checks (port/check.h).
 *
 * A fiber counts the rows and slots in which it is. Whoever puts it there or takes it out says so at the step that does it: so a fiber that is queued
 * twice, or was not READY, is found where it happens and not when two threads run it.
 */
#include "run/crew.h"
#include "run/hold.h"
#include "run/rt.h"

#ifdef MR_CHECKS

enum { LONG = 1000 };                /* fibers of a queue that are looked at */

/* ---- fibers ---- */

static int is_token(const mr_fiber *f) { return f->crew && f == &f->crew->token; }
static int is_ready(const mr_fiber *f) { return is_token(f) || atomic_load(&f->state) == FIBER_READY; }

void mr_fiber_placed(mr_fiber *f) {
  mr_assert(is_ready(f));
  mr_assert(atomic_fetch_add(&f->placed, 1) == 0);
}

void mr_fiber_taken(mr_fiber *f) { mr_assert(atomic_fetch_sub(&f->placed, 1) == 1); }

/* A host's thread is none of ours. */
void mr_fiber_check_owner(const mr_fiber *f) { mr_assert(f->job->host || f->thread == mr_this_thread); }

/* ---- queues and crews ---- */

/* How many there are, or LONG. */
static unsigned check_row(const mr_row *l) {
  unsigned n = 0;
  int due = l->due == NULL;
  const mr_fiber *last = NULL;
  for (const mr_fiber *f = mr_row_first(l); f && n < LONG; last = f, f = f->next, n++) {
    mr_assert(atomic_load(&f->placed) == 1);
    due |= f == l->due;
  }
  mr_assert(n == LONG || (last == mr_row_last(l) && due));
  return n;
}

void mr_queue_check(const mr_queue *q) {
  unsigned n = 0, count = atomic_load_explicit(&q->count, memory_order_relaxed);
  mr_assert_locked(&q->lock);
  for (const mr_fiber *f = mr_row_first(&q->row); f && n < LONG; f = f->next, n++) mr_assert(is_ready(f));
  mr_assert(check_row(&q->row) == LONG ? count >= n : n == count);
}

void mr_crew_check(const mr_crew *c) {
  unsigned n = 0;
  mr_assert_locked(&c->lock);
  for (const mr_fiber *f = mr_row_first(&c->ready); f && n < LONG; f = f->next, n++)
    mr_assert(f->crew == c && f != &c->token && f != c->interrupted && atomic_load(&f->state) == FIBER_READY);
  check_row(&c->ready);
  mr_assert(!c->interrupted || atomic_load(&c->interrupted->state) == FIBER_READY);
  mr_assert(c->state != CREW_IDLE || (!mr_row_first(&c->ready) && !c->interrupted));
}

/* ---- workers ---- */

void mr_worker_check(const mr_worker *w, const mr_thread *t) {
  mr_assert(t == mr_this_thread && t->worker == w && mr_worker_thread(w) == t && !atomic_load(&t->runs));
}

void mr_idle_check(void) {
  const mr_runtime *r = &mr_rt;
  unsigned idle = 0, spare = 0;
  mr_assert_locked(&r->ilock);
  for (const mr_thread *t = r->idle; t; t = t->next, idle++) mr_assert(t->listed == LIST_IDLE);
  for (const mr_thread *t = r->spare; t; t = t->next, spare++) mr_assert(t->listed == LIST_SPARE);
  mr_assert(idle == atomic_load(&r->nidle) && spare == r->nspare);
}

/* ---- timers ---- */

void mr_timers_check(void) {
  const mr_runtime *r = &mr_rt;
  mr_assert_locked(&r->tlock);
  for (unsigned i = 1; i <= r->ntimers; i++) {
    mr_assert(r->timer[i]->at == i);
    mr_assert(i == 1 || r->timer[(i - 2) / 4 + 1]->due <= r->timer[i]->due);
  }
  mr_assert(atomic_load(&r->next_due) == (r->ntimers ? r->timer[1]->due : UINT64_MAX));
}

#endif
