/*
 * timer: what will be due, in a heap of arity four, so that setting and cancelling cost O(log n) with few cache misses.
 *
 * Who is due first goes first; of two at one time, who began to wait first.
 *
 * Invariants (tlock held): timer[0] is unused; t->at is t's place, 0 = not in the heap; next_due is the earliest deadline.
 * A fiber waits for one thing, so it has one timer. Firing claims the fiber's ticket like any other waker; a fiber
 * that lost the race cancels its timer itself in mr_wake. A clock (clock.h) is in the heap only while somebody waits for it.
 */
#include "run/rt.h"
#include "run/clock.h"

#include <stdlib.h>

/* Turns begin anew after 16 million: two of one time are not so far apart. */
static int before(const mr_timer *a, const mr_timer *b) {
  return a->due != b->due ? a->due < b->due : ((b->turn - a->turn) & 0xffffffu) - 1 < 0x7fffffu;
}

static unsigned parent(unsigned i) { return (i - 2) / 4 + 1; }
static unsigned first_child(unsigned i) { return (i - 1) * 4 + 2; }

static void place(mr_runtime *r, mr_timer *t, unsigned i) {
  r->timer[i] = t;
  t->at = i;
}

static void up(mr_runtime *r, mr_timer *t, unsigned i) {
  while (i > 1 && before(t, r->timer[parent(i)])) {
    place(r, r->timer[parent(i)], i);
    i = parent(i);
  }
  place(r, t, i);
}

static void down(mr_runtime *r, mr_timer *t, unsigned i) {
  for (;;) {
    unsigned c = first_child(i), best = 0;
    for (unsigned k = c; k < c + 4 && k <= r->ntimers; k++)
      if (!best || before(r->timer[k], r->timer[best])) best = k;
    if (!best || !before(r->timer[best], t)) break;
    place(r, r->timer[best], i);
    i = best;
  }
  place(r, t, i);
}

static void publish(mr_runtime *r) {
  atomic_store(&r->next_due, r->ntimers ? r->timer[1]->due : UINT64_MAX);
  MR_CHECK_SOME(64, mr_timers_check());
}

void mr_timer_out(mr_timer *t) {
  mr_runtime *r = &mr_rt;
  unsigned i = t->at;
  if (!i) return;
  mr_timer *last = r->timer[r->ntimers--];
  t->at = 0;
  if (last != t) {
    if (i > 1 && before(last, r->timer[parent(i)])) up(r, last, i);
    else down(r, last, i);
  }
  publish(r);
}

static int grow(mr_runtime *r) {
  unsigned size = r->timer_size ? r->timer_size * 2 : 64;
  mr_timer **heap = realloc(r->timer, size * sizeof *heap);
  if (!heap) return MR_ENOMEM;
  r->timer = heap;
  r->timer_size = size;
  return MR_OK;
}

int mr_timer_in(mr_timer *t, uint64_t due, int *first) {
  mr_runtime *r = &mr_rt;
  if (r->ntimers + 2 > r->timer_size && grow(r) != MR_OK) return MR_ENOMEM;
  mr_assert(t->at == 0);                         /* one timer, one wait */
  t->due = due;
  t->turn = r->timer_turn++ & 0xffffffu;
  up(r, t, ++r->ntimers);
  *first = r->timer[1] == t;
  publish(r);
  return MR_OK;
}

int mr_timer_set(mr_fiber *f, uint64_t due) {
  mr_runtime *r = &mr_rt;
  int first = 0;
  port_acquire(&r->tlock);
  int err = mr_timer_in(&f->timer, due, &first);
  if (!err) {
    f->timed = 1;
    f->timer_ticket = f->wait.ticket;
  }
  port_unlock(&r->tlock);
  if (first) mr_monitor_poke(due);
  return err;
}

void mr_timer_cancel(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  f->timed = 0;
  port_acquire(&r->tlock);
  mr_timer_out(&f->timer);
  port_unlock(&r->tlock);
}

/* The fiber to be woken for t, which has been taken out, claimed; NULL: none, or the last one was it. *why: the reason. (tlock held) */
static mr_fiber *claim(mr_timer *t, mr_reason *why) {
  if (t->kind == TIMER_CLOCK) {
    *why = MR_WOKEN;
    return mr_clock_claim(t);
  }
  mr_fiber *f = (mr_fiber *)(void *)((char *)t - offsetof(mr_fiber, timer));
  unsigned ticket = f->timer_ticket;
  *why = MR_TIMEOUT;
  return atomic_compare_exchange_strong(&f->ticket, &ticket, ticket + 1) ? f : NULL;
}

/* One that is due, claimed; NULL: nobody was left to be woken. 0: nothing is due any more. */
static int next_due(uint64_t now, mr_fiber **f, mr_reason *why) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->tlock);
  mr_timer *t = r->ntimers && r->timer[1]->due <= now ? r->timer[1] : NULL;
  if (t) {
    *f = claim(t, why);
    if (!*f || t->kind == TIMER_FIBER) mr_timer_out(t);   /* a clock stays until all who wait for it are woken */
  }
  port_unlock(&r->tlock);
  return t != NULL;
}

/* To the front of the queue, so that they are not late, in the order in which they were due. */
unsigned mr_timers_fire(uint64_t now, mr_worker *w) {
  mr_fiber *f;
  mr_reason why;
  unsigned fired = 0;
  while (next_due(now, &f, &why)) {
    if (!f) continue;
    fired++;
    if ((f = mr_ready_due(f, why)) != NULL) mr_enqueue(w, f, 1);
  }
  return fired;
}
