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
  mr_mail mail;                      /* of channels: what comes or goes; owned */
  struct mr_case *next;              /* in the list of missed nodes of its set */
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
  /* NULL, or once before everything else: the operation is on top of L (mr_operation_values); what goes out is made ready in c->mail. */
  void (*prepare)(lua_State *L, mr_case *c);
  unsigned char stays;               /* its nodes may belong to a set */
} mr_waitclass;

/*
 * set: nodes that stay linked from one wait to the next, so that a wait costs what becomes ready, not what is watched (select's reusable
 * form). A node that its object takes out while nobody waits, or when another was faster, is put on `missed`; the waiter asks those
 * before it waits again.
 *
 * `word` holds the ticket of the open wait, 0 when there is none, and MISSED while `missed` may have nodes that the waiter has not
 * seen: a wait is opened by one compare-and-swap from 0. So whoever adds to `missed` either keeps the wait from opening, or sees it
 * open and claims it.
 */
typedef struct mr_set {
  _Atomic uint64_t word;
  _Atomic(mr_case *) missed;           /* through case->next */
  mr_fiber *fiber;                     /* the only one who ever waits, alive as long as the set; set before the first wait */
} mr_set;
#define MR_MISSED (UINT64_C(1) << 32)
int      mr_set_open(mr_set *s, mr_fiber *f);        /* f's wait is open; 0: nodes were missed, ask them first */
void     mr_set_close(mr_set *s);
mr_case *mr_set_missed(mr_set *s);                   /* takes the list */

typedef struct mr_event { port_lock lock; unsigned char set; mr_wait waiters; } mr_event;
void mr_event_init(mr_event *e);
int  mr_event_is_set(mr_event *e);
void mr_event_set(mr_event *e, mr_fiber *near);       /* idempotent; near: the running fiber, or NULL when called by no fiber */
int  mr_event_wait(mr_event *e, mr_wait *w);          /* 1: it is set, nothing queued; 0: w is queued */
void mr_event_unwait(mr_event *e, mr_wait *w);

#endif
