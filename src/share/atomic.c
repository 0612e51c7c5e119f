/* atomic: see atomic.h. */
#include "share/atomic.h"

#include <stdlib.h>

mr_atomic *mr_atomic_new(const mr_sharetype *type, int64_t value) {
  mr_atomic *a = port_lines_new(sizeof *a);
  if (!a) return NULL;
  a->shared.type = type;
  atomic_init(&a->shared.refs, 1);
  atomic_init(&a->value, value);
  mr_waitq_init(&a->waiters);
  return a;
}

void mr_atomic_destroy(mr_shared *o) {
  mr_atomic *a = (mr_atomic *)(void *)o;
  mr_assert(mr_waitq_empty(&a->waiters));
  free(a->name);
  port_lines_free(a);
}

void mr_atomic_wake(mr_atomic *a, mr_fiber *near) {
  mr_fiber *woken = NULL;
  port_acquire(&a->lock);
  atomic_store(&a->awaited, 0);
  while (!mr_waitq_empty(&a->waiters)) {
    mr_wait *w = a->waiters.next;
    mr_waitq_del(w);
    if (!mr_wait_claim(w)) continue;
    w->fiber->next = woken;
    woken = w->fiber;
  }
  port_unlock(&a->lock);
  while (woken) {
    mr_fiber *f = woken;
    woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
}

int mr_atomic_link(mr_atomic *a, int64_t old, mr_wait *w) {
  port_acquire(&a->lock);
  atomic_store(&a->awaited, 1);
  port_chaos();
  int changed = atomic_load(&a->value) != old;
  if (!changed) mr_waitq_add(&a->waiters, w);
  port_unlock(&a->lock);
  return changed;
}

void mr_atomic_unlink(mr_atomic *a, mr_wait *w) {
  port_acquire(&a->lock);
  mr_waitq_del(w);
  port_unlock(&a->lock);
}
