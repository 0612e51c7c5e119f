/*
 * forks: when an allocator's handlers of forks are registered; for a source that defines before_fork, which takes its locks, and after_fork, which
 * releases them.
 *
 * A program's own handlers may allocate, and may wait for its threads. So the allocator's must be the last to run before a fork and the first after it,
 * which is what those get that were registered first. The constructor runs before those of other libraries, as the library is linked with
 * -z initfirst; where another one asks for the same, the first allocation registers them.
 */
#ifndef LAB_FORKS_H
#define LAB_FORKS_H

#include <pthread.h>
#include <stdatomic.h>

static void before_fork(void);
static void after_fork(void);

/* Not with a lock held: pthread_atfork may allocate. */
static inline void watch_forks(void)
{
  static _Atomic int watched;
  if (atomic_load_explicit(&watched, memory_order_relaxed) || atomic_exchange(&watched, 1)) return;
  pthread_atfork(before_fork, after_fork, after_fork);
}

__attribute__((constructor)) static void watch_forks_at_once(void) { watch_forks(); }

#endif
