/*
 * clock: a moment, or moments at equal distances, as something to wait for.
 *
 * A clock counts no ticks: what is due follows from the time. So it costs nothing while nobody waits for it, and an unused one keeps
 * no program alive. All of its fields belong to the timers' lock.
 */
#ifndef MR_CLOCK_H
#define MR_CLOCK_H

#include "run/fiber.h"

typedef struct mr_clock {
  mr_timer timer;                    /* in the heap while there are waiters */
  uint64_t due;                      /* the next moment nobody has taken yet; UINT64_MAX: cancelled, or taken and not repeated */
  uint64_t period;                   /* 0: once */
  mr_wait waiters;                   /* head */
  unsigned char cancelled, over;     /* over: it was due, and is for ever */
} mr_clock;

void      mr_clock_init(mr_clock *c, uint64_t due, uint64_t period);
void      mr_clock_end(mr_clock *c);                 /* nobody waits, its memory goes */
/* How many moments have passed and are taken now; 0: none, *closed tells whether it was cancelled. */
uint64_t  mr_clock_take(mr_clock *c, int *closed);
uint64_t  mr_clock_due(mr_clock *c);                 /* UINT64_MAX: never again */
int       mr_clock_wait(mr_clock *c, mr_wait *w);    /* 1: look again; 0: queued; -1: no memory */
void      mr_clock_unwait(mr_clock *c, mr_wait *w);
void      mr_clock_cancel(mr_clock *c, mr_fiber *near);   /* whoever waits is woken with MR_CLOSED */
mr_fiber *mr_clock_claim(mr_timer *t);               /* (timers' lock) the next waiter, claimed; NULL: no more */

#endif
