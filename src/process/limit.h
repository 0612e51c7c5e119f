/*
 * limit: deadlines and masks of a fiber: stretches of its program that every wait inside them asks.
 *
 * A deadline ends each wait at its time, by an error. A mask keeps what ends the fiber - cancelling, the end of its process, the deadlines
 * around the mask - from its waits, but only for its grace, counted from when that came. The list (mr_bounds) runs from the innermost outwards.
 *
 * A limit belongs to a coroutine: while that is suspended by coroutine.yield, the limit is not in force, though it is in the list. Its record
 * is a userdata on that coroutine's stack, closed when the stretch is left in whatever way, or collected with the coroutine.
 */
#ifndef MR_LIMIT_H
#define MR_LIMIT_H

#include "process/process.h"
#include "run/crew.h"

#define MR_GRACE 5000000000u         /* ns, where nothing else is said */

typedef struct mr_limit {
  struct mr_limit *outer, *inner;
  mr_lua *of;                        /* NULL: not in a list any more */
  lua_State *on;                     /* the coroutine that is in it */
  uint64_t until;                    /* a deadline's, in port_now() time; UINT64_MAX: it is a mask */
  uint64_t grace;                    /* a mask's, in ns */
} mr_limit;

void mr_limit_enter(mr_limit *l, mr_lua *of, lua_State *on);
void mr_limit_leave(mr_limit *l);    /* idempotent */
void mr_limits_forget(mr_lua *l);    /* the fiber has ended; a coroutine that others have may still be in one of its limits */

/* ---- for waits; only where the fiber is `bounded`, on the fiber's own thread ---- */
/* Until when it may wait now: the earliest of what is in force, UINT64_MAX: no limit. */
uint64_t mr_limit_until(mr_lua *l);
int      mr_limit_open(mr_lua *l);   /* a wait is about to be opened: 0: its time is over. Sets `masked`, which others read from then on */
uint64_t mr_limit_end(mr_lua *l);    /* it is to end: until when masks keep that from it; in the past: they don't */
int      mr_limit_noticed(mr_lua *l);    /* being masked it has learnt that it is to end: its grace runs */
uint64_t mr_limit_deadline(mr_lua *l);   /* the earliest deadline in force, whether masked or not; UINT64_MAX: none */

/* It is to end, and no mask in force keeps that from it. */
static inline int mr_lua_due(mr_lua *l) {
  if (!mr_fiber_ending(&l->fiber)) return 0;
  if (PORT_LIKELY(!l->fiber.bounded) || mr_job_ends(l->fiber.job) == JOB_KILLED) return 1;
  return mr_limit_end(l) <= port_now();
}

/* mr_wake, for every wait in which mr_park may have been: but a time that is over because of a limit is none of the operation's. */
static inline mr_reason mr_lua_wake(mr_fiber *f) {
  mr_reason why = mr_wake(f);
  if (PORT_UNLIKELY(f->limited)) {
    f->limited = 0;
    if (why == MR_TIMEOUT) return MR_STOPPED;
  }
  return why;
}

#endif
