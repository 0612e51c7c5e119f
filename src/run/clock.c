/* clock: see clock.h. */
#include "run/rt.h"
#include "run/clock.h"

void mr_clock_init(mr_clock *c, uint64_t due, uint64_t period) {
  *c = (mr_clock){ .timer.kind = TIMER_CLOCK, .due = due, .period = period };
  mr_waitq_init(&c->waiters);
}

/* Who waits keeps it alive, so nobody does; but it may be in the heap until it fires for the last time. */
void mr_clock_end(mr_clock *c) {
  port_acquire(&mr_rt.tlock);
  mr_timer_out(&c->timer);
  port_unlock(&mr_rt.tlock);
}

uint64_t mr_clock_take(mr_clock *c, int *closed) {
  uint64_t now = port_now(), n = 0;
  port_acquire(&mr_rt.tlock);
  *closed = c->cancelled;
  if (c->over) {
    n = 1;
  } else if (!c->cancelled && c->due <= now) {
    n = c->period ? (now - c->due) / c->period + 1 : 1;
    if (c->period) c->due += n * c->period;
    else c->over = 1;
  }
  port_unlock(&mr_rt.tlock);
  return n;
}

uint64_t mr_clock_due(mr_clock *c) {
  port_acquire(&mr_rt.tlock);
  uint64_t due = c->cancelled ? UINT64_MAX : c->due;
  port_unlock(&mr_rt.tlock);
  return due;
}

int mr_clock_wait(mr_clock *c, mr_wait *w) {
  int first = 0, outcome = 0;
  uint64_t now = port_now();
  port_acquire(&mr_rt.tlock);
  uint64_t due = c->due;
  if (c->over || c->cancelled || due <= now) outcome = 1;
  else if (!c->timer.at && mr_timer_in(&c->timer, due, &first) != MR_OK) outcome = -1;
  else mr_waitq_add(&c->waiters, w);
  port_unlock(&mr_rt.tlock);
  if (first) mr_monitor_poke(due);
  return outcome;
}

void mr_clock_unwait(mr_clock *c, mr_wait *w) {
  port_acquire(&mr_rt.tlock);
  mr_waitq_del(w);
  if (mr_waitq_empty(&c->waiters)) mr_timer_out(&c->timer);
  port_unlock(&mr_rt.tlock);
}

static mr_fiber *claim(mr_clock *c) {
  while (!mr_waitq_empty(&c->waiters)) {
    mr_wait *w = c->waiters.next;
    mr_waitq_del(w);
    if (mr_wait_claim(w)) return w->fiber;
  }
  return NULL;
}

mr_fiber *mr_clock_claim(mr_timer *t) { return claim((mr_clock *)(void *)((char *)t - offsetof(mr_clock, timer))); }

void mr_clock_cancel(mr_clock *c, mr_fiber *near) {
  mr_fiber *f;
  do {
    port_acquire(&mr_rt.tlock);
    c->cancelled = !c->over;
    f = c->over ? NULL : claim(c);
    /* it was due first: who still waits is woken for that, by whoever fires it */
    if (mr_waitq_empty(&c->waiters)) mr_timer_out(&c->timer);
    port_unlock(&mr_rt.tlock);
    if (f) mr_ready(f, MR_CLOSED, near);
  } while (f);
}
