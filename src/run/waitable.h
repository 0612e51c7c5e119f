/*
 * waitable: how a fiber waits for a thing, and the simplest of things, an event. What a thing gives to Lua is said in process/await.h.
 *
 * Every function locks its own object; none is called with a lock held. Between a link and its unlink the node is the thing's: whoever takes
 * it out of the queue, under the thing's lock, may claim its ticket, and who has claimed it calls mr_ready.
 *
 * An event is set once and stays set: the end of a fiber, a future, a finished request. Its waiters are woken in order.
 */
#ifndef MR_WAITABLE_H
#define MR_WAITABLE_H

#include "run/fiber.h"

typedef struct mr_waitops {
  const char *op;                    /* what the fiber does in it, for reports: "read"; NULL: link says so in the fiber */
  /* Queues w, whose fiber and ticket are set: 0. 1: not, o may be ready now: look again; -1: not, there is no memory. */
  int  (*link)(void *o, mr_wait *w);  /* takes a lock, or calls mr_wait_fence */
  /* Takes w out, if it is still in; no harm if it never was. Then nobody can claim w any more. */
  void (*unlink)(void *o, mr_wait *w);
  unsigned char each;                /* unlink follows each link, whatever became of it; else only where w may still be in the queue */
  unsigned char stays;               /* nodes may belong to a set */
  unsigned char shown;               /* o is a mr_shared, which reports name */
} mr_waitops;

/*
 * set: nodes that stay linked from one wait to the next, so that a wait costs what becomes ready, not what is watched (select's reusable
 * form). A node that its object takes out while nobody waits, or when another was faster, is put on `missed`; the waiter asks those
 * before it waits again. The node that woke it may be on that list, too: who took it out had put it there before the wait was open.
 *
 * `word` holds the ticket of the open wait, 0 when there is none, and MISSED while `missed` may have nodes that the waiter has not
 * seen: a wait is opened by one compare-and-swap from 0. So whoever adds to `missed` either keeps the wait from opening, or sees it
 * open and claims it.
 */
typedef struct mr_knot {
  mr_wait wait;                        /* first */
  struct mr_knot *missed;            /* the next one in that list */
} mr_knot;

typedef struct mr_set {
  _Atomic uint64_t word;
  _Atomic(mr_knot *) missed;
  mr_fiber *fiber;                     /* the only one who ever waits, alive as long as the set; set before the first wait */
} mr_set;
#define MR_MISSED (UINT64_C(1) << 32)
int        mr_set_open(mr_set *s, mr_fiber *f);      /* f's wait is open; 0: nodes were missed, ask them first */
void       mr_set_close(mr_set *s);
mr_knot *mr_set_missed(mr_set *s);                 /* takes the list */

typedef struct mr_event { port_lock lock; unsigned char set; mr_wait waiters; } mr_event;
void mr_event_init(mr_event *e);
int  mr_event_is_set(mr_event *e);
void mr_event_set(mr_event *e, mr_fiber *near);       /* idempotent; near: the running fiber, or NULL when called by no fiber */
int  mr_event_wait(mr_event *e, mr_wait *w);          /* 1: it is set, nothing queued; 0: w is queued */
void mr_event_unwait(mr_event *e, mr_wait *w);

#endif
