/*
 * sampler: a thread that looks, so many times a second, how much CPU time each thread has had that runs a fiber, and asks those that had some to account
 * for it (process/profile.c). A thread that blocks, and all who wait, owe nothing and are not disturbed.
 *
 * t->owed is raised here and taken, by exchange, by t itself: nothing is lost while a fiber stays in C for long, nor counted twice.
 */
#ifndef MR_SAMPLER_H
#define MR_SAMPLER_H

#include "run/fiber.h"
#include "run/worker.h"

/*
 * hz 0: it asks nobody, and only waits for mr_sampler_end. Then it calls `ending`, which ends the program. 0 or an mr_err.
 */
int  mr_sampler_start(unsigned hz, void (*ending)(int how));
void mr_sampler_end(int how);                    /* async-signal-safe; how is not 0 */
/* ns of CPU time that t has had while it ran fibers, since the last call. By t itself. */
static inline uint64_t mr_sampler_take(mr_thread *t) {
  if (!atomic_load_explicit(&t->owed, memory_order_relaxed)) return 0;
  return atomic_exchange_explicit(&t->owed, 0, memory_order_relaxed);
}

#endif
