/*
 * waitable: how things that can be waited for look to select, and the simplest of them, an event.
 *
 * A waitable implements four functions (mr_waitclass). `select` links one case per waitable into their queues; whoever claims the
 * fiber's ticket through one of them wins, and select unlinks the others. Every function locks its own object; none is called
 * with a lock held.
 *
 * An event is set once and stays set: the end of a fiber, a future, a finished request. Its waiters are woken in order.
 */
#ifndef MR_WAITABLE_H
#define MR_WAITABLE_H

#include "process/park.h"

typedef struct mr_case {
  mr_wait wait;                      /* first: the node in the object's queue */
  const struct mr_waitclass *type;
  void *object;                      /* kept alive by its Lua value */
  int what;                          /* the object's own: which direction, which operation */
  int value;                         /* index in L's stack of the Lua value, for take */
} mr_case;

typedef struct mr_waitclass {
  const char *op;                    /* what the fiber does in it, for reports: "read" */
  /* Queues c->wait, whose fiber and ticket are set; 1: not queued, it may be ready now - look with take. */
  int  (*link)(mr_case *c);
  void (*unlink)(mr_case *c);        /* takes c->wait out, if it is still in */
  /*
   * Asks without waiting (why == MR_AGAIN), or after c->wait was the one that woke the fiber (other reasons). Pushes what the case gives
   * and returns how many; -1, nothing pushed: not ready (or not any more). May raise errors.
   */
  int  (*take)(lua_State *L, mr_case *c, mr_reason why);
} mr_waitclass;

typedef struct mr_event { port_lock lock; unsigned char set; mr_wait waiters; } mr_event;
void mr_event_init(mr_event *e);
int  mr_event_is_set(mr_event *e);
void mr_event_set(mr_event *e, mr_fiber *near);       /* idempotent; near: the running fiber, or NULL when called by no fiber */
int  mr_event_wait(mr_event *e, mr_wait *w);          /* 1: it is set, nothing queued; 0: w is queued */
void mr_event_unwait(mr_event *e, mr_wait *w);

#endif
