/* queue: stealing; see queue.h. */
#include "run/queue.h"

/*
 * The two locks are never held together: between them the stolen fibers are in no queue, but their thief is awake and counts as busy. The
 * victim's lock is only tried: who is just working there finds its own way.
 */
mr_fiber *mr_queue_steal(mr_queue *q, mr_queue *victim) {
  unsigned n = atomic_load_explicit(&victim->count, memory_order_relaxed);
  if (n == 0 || !port_trylock(&victim->lock)) return NULL;   /* somebody pushes or steals there: the thief doesn't sleep while it counts any */
  n = atomic_load_explicit(&victim->count, memory_order_relaxed);
  if (n == 0) {
    port_unlock(&victim->lock);
    return NULL;
  }
  unsigned take = (n + 1) / 2;
  mr_row stolen = mr_row_cut(&victim->row, take);
  atomic_store_explicit(&victim->count, n - take, memory_order_relaxed);
  mr_queue_check(victim);
  port_unlock(&victim->lock);
  /* The rest is in no queue for a moment. The thief is awake and comes to it; the watcher's next look finds what others should have seen. */
  mr_fiber *first = mr_row_take(&stolen);
  if (take > 1) {
    port_acquire(&q->lock);
    mr_row_join(&q->row, &stolen);
    atomic_store(&q->count, atomic_load_explicit(&q->count, memory_order_relaxed) + take - 1);
    port_unlock(&q->lock);
  }
  return first;
}
