/* waitable: sets and events; see waitable.h. */
#include "run/rt.h"
#include "run/waitable.h"

/* ---- sets ---- */

static int try_claim(mr_set *s, mr_wait *w, uint64_t word) {
  unsigned t = (unsigned)word;
  if (!t) return 0;
  mr_fiber *f = s->fiber;
  port_chaos();
  if (!atomic_compare_exchange_strong(&f->ticket, &t, t + 1)) return 0;
  w->fiber = f;
  f->fired = w;
  return 1;
}

int mr_set_claim(mr_wait *w) {
  mr_set *s = w->set;
  mr_knot *m = (mr_knot *)(void *)w;
  if (try_claim(s, w, atomic_load(&s->word))) return 1;
  mr_knot *first = atomic_load(&s->missed);
  do m->missed = first;
  while (!atomic_compare_exchange_weak(&s->missed, &first, m));
  port_chaos();
  /* a wait that opened since the first try is seen here; one that opens later sees the bit, and does not open */
  return try_claim(s, w, atomic_fetch_or(&s->word, MR_MISSED));
}

int mr_set_open(mr_set *s, mr_fiber *f) {
  uint64_t none = 0;
  port_chaos();
  return atomic_compare_exchange_strong(&s->word, &none, f->wait.ticket);
}

void mr_set_close(mr_set *s) { atomic_store(&s->word, 0); }
mr_knot *mr_set_missed(mr_set *s) { return atomic_exchange(&s->missed, NULL); }

/* ---- events ---- */

void mr_event_init(mr_event *e) {
  atomic_init(&e->lock.word, 0);
  e->set = 0;
  mr_waitq_init(&e->waiters);
}

int mr_event_is_set(mr_event *e) {
  port_acquire(&e->lock);
  int set = e->set;
  port_unlock(&e->lock);
  return set;
}

/* The object that holds e may be gone once its last waiter runs: then it is not touched again. */
void mr_event_set(mr_event *e, mr_fiber *near) {
  mr_wait woken;
  if (!near) mr_moving();
  mr_waitq_init(&woken);
  port_acquire(&e->lock);
  e->set = 1;
  while (!mr_waitq_empty(&e->waiters)) {
    mr_wait *w = e->waiters.next;
    mr_waitq_del(w);
    if (mr_wait_claim(w)) mr_waitq_add(&woken, w);   /* claimed: the node is ours until mr_ready */
  }
  port_unlock(&e->lock);
  while (!mr_waitq_empty(&woken)) {
    mr_wait *w = woken.next;
    mr_waitq_del(w);
    mr_ready(w->fiber, MR_WOKEN, near);
  }
  if (!near) mr_settled();
}

int mr_event_wait(mr_event *e, mr_wait *w) {
  port_acquire(&e->lock);
  int set = e->set;
  if (!set) mr_waitq_add(&e->waiters, w);
  port_unlock(&e->lock);
  return set;
}

void mr_event_unwait(mr_event *e, mr_wait *w) {
  port_acquire(&e->lock);
  mr_waitq_del(w);
  port_unlock(&e->lock);
}
