/*
 * profiler: a thread that looks, so many times a second, how much CPU time each thread has had that runs a fiber, and asks those that had some to account
 * for it (process/profile.c). A thread that blocks, and all who wait, owe nothing and are not disturbed.
 *
 * t->owed is raised here and taken, by exchange, by t itself: nothing is lost while a fiber stays in C for long, nor counted twice.
 */
#ifndef MR_PROFILER_H
#define MR_PROFILER_H

#include "run/fiber.h"
#include "run/worker.h"

int  mr_profiler_start(unsigned hz);               /* to the end; 0 or an mr_err */
/* Until then, 200 times a second: what was used before is not owed. 0 or an mr_err. By who sees to it that nobody else profiles. */
int  mr_profiler_begin(uint64_t until);
void mr_profiler_end(void);
uint64_t mr_profiler_left(void);                 /* takes, at the end, what threads owe that have not accounted for more than two periods */
/* ns of CPU time that t has had while it ran fibers, since the last call. By t itself. */
static inline uint64_t mr_profiler_take(mr_thread *t) {
  if (!atomic_load_explicit(&t->owed, memory_order_relaxed)) return 0;
  return atomic_exchange_explicit(&t->owed, 0, memory_order_relaxed);
}

#endif
