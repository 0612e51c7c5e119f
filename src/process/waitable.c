/* waitable: the event; see waitable.h. */
#include "process/rt.h"
#include "process/waitable.h"

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
  if (!near) atomic_fetch_add(&mr_rt.nmoving, 1);
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
