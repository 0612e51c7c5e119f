/*
 * timer: deadlines in a heap of arity four, so that setting and cancelling cost O(log n) with few cache misses.
 *
 * Invariants (tlock held): timer[0] is unused; f->timer is f's place, 0 = none; next_due is the earliest deadline.
 * A fiber waits for one thing, so it has one timer. Firing claims the fiber's ticket like any other waker; a fiber
 * that lost the race cancels its timer itself in mr_wake.
 */
#include "process/rt.h"

#include <stdlib.h>

static unsigned parent(unsigned i) { return (i - 2) / 4 + 1; }
static unsigned first_child(unsigned i) { return (i - 1) * 4 + 2; }

static void place(mr_runtime *r, mr_fiber *f, unsigned i) {
  r->timer[i] = f;
  f->timer = i;
}

static void up(mr_runtime *r, mr_fiber *f, unsigned i) {
  while (i > 1 && r->timer[parent(i)]->due > f->due) {
    place(r, r->timer[parent(i)], i);
    i = parent(i);
  }
  place(r, f, i);
}

static void down(mr_runtime *r, mr_fiber *f, unsigned i) {
  for (;;) {
    unsigned c = first_child(i), best = 0;
    for (unsigned k = c; k < c + 4 && k <= r->ntimers; k++)
      if (!best || r->timer[k]->due < r->timer[best]->due) best = k;
    if (!best || r->timer[best]->due >= f->due) break;
    place(r, r->timer[best], i);
    i = best;
  }
  place(r, f, i);
}

static void publish(mr_runtime *r) { atomic_store(&r->next_due, r->ntimers ? r->timer[1]->due : UINT64_MAX); }

static void take_out(mr_runtime *r, mr_fiber *f) {
  unsigned i = f->timer;
  mr_fiber *last = r->timer[r->ntimers--];
  f->timer = 0;
  if (last != f) {
    if (i > 1 && r->timer[parent(i)]->due > last->due) up(r, last, i);
    else down(r, last, i);
  }
}

static int grow(mr_runtime *r) {
  unsigned size = r->timer_size ? r->timer_size * 2 : 64;
  mr_fiber **heap = realloc(r->timer, size * sizeof *heap);
  if (!heap) return MR_ENOMEM;
  r->timer = heap;
  r->timer_size = size;
  return MR_OK;
}

int mr_timer_set(mr_fiber *f, uint64_t due) {
  mr_runtime *r = &mr_rt;
  port_acquire(&r->tlock);
  if (r->ntimers + 2 > r->timer_size && grow(r) != MR_OK) {
    port_unlock(&r->tlock);
    return MR_ENOMEM;
  }
  f->due = due;
  f->timed = 1;
  f->timer_ticket = f->wait.ticket;
  up(r, f, ++r->ntimers);
  int first = r->timer[1] == f;
  publish(r);
  port_unlock(&r->tlock);
  if (first) mr_monitor_poke(due);
  return MR_OK;
}

void mr_timer_cancel(mr_fiber *f) {
  mr_runtime *r = &mr_rt;
  f->timed = 0;
  port_acquire(&r->tlock);
  if (f->timer) {
    take_out(r, f);
    publish(r);
  }
  port_unlock(&r->tlock);
}

unsigned mr_timers_fire(uint64_t now, mr_worker *w) {
  mr_runtime *r = &mr_rt;
  unsigned fired = 0;
  for (;;) {
    int claimed = 0;
    port_acquire(&r->tlock);
    mr_fiber *f = r->ntimers && r->timer[1]->due <= now ? r->timer[1] : NULL;
    if (f) {
      unsigned t = f->timer_ticket;
      take_out(r, f);
      publish(r);
      claimed = atomic_compare_exchange_strong(&f->ticket, &t, t + 1);
    }
    port_unlock(&r->tlock);
    if (!f) return fired;
    if (!claimed) continue;
    fired++;
    f->reason = MR_TIMEOUT;
    port_chaos();
    if (atomic_exchange(&f->state, FIBER_READY) == FIBER_PARKED) mr_enqueue(w, f, 1);
  }
}
