/*
 * park: the one way to wait. Channels, timers and process exits (later sockets, fibers, futures) implement it;
 * deadlines, interruption and (later) select know none of them.
 *
 * A wait has a ticket: a number in the fiber that is odd while the wait is open. Whoever wants to end the wait - a
 * sender, a timer, an interrupt - claims the ticket by one compare-and-swap; exactly one succeeds. The claimer owns
 * the fiber's mail and wake-up reason, and if the fiber is PARKED by yielding its whole state, until it calls mr_ready.
 *
 * Protocol of a blocking operation, on the fiber's own thread:
 *   e = mr_wait_open(f, L);          decides how the fiber can wait here; nonzero: it can't, raise
 *   lock the object; if it can complete: mr_wait_abandon(f), unlock, done
 *   link f->wait into the object's queue; unlock                         <- from here others can claim
 *   return mr_park(L, f, deadline, ctx, k)
 *   k: mr_wake(f) gives the reason; if it is not MR_WOKEN the node may still be linked: lock, unlink if linked, unlock
 *
 * States of a fiber: RUNNING on a thread; PARKING, the wait is open and its thread still unwinds; PARKED; READY, woken
 * and queued (or about to be). Only the transition PARKED -> READY puts it in a run queue, so it is queued once.
 */
#ifndef MR_PARK_H
#define MR_PARK_H

#include <lua.h>
#include "port/port.h"
#include "base/error.h"
#include "transfer/transfer.h"

typedef struct mr_fiber mr_fiber;
typedef struct mr_proc mr_proc;
typedef struct mr_worker mr_worker;
typedef struct mr_thread mr_thread;

/* Mail: a message on its way, small ones without any block. */
#define MR_INLINE 2
enum { MAIL_NONE, MAIL_SCALARS, MAIL_MESSAGE, MAIL_AUX, MAIL_STRING };
typedef struct mr_mail {
  unsigned char kind;
  unsigned char n;                  /* values, of MAIL_SCALARS and MAIL_AUX */
  union {
    mr_scalar s[MR_INLINE];
    mr_message *m;                  /* MAIL_MESSAGE: owned */
    struct { const char *p; size_t len; } str;   /* MAIL_STRING: one string, alive on the parked sender's stack */
  } u;
} mr_mail;

/* A place in the queue of whatever is waited for; linked and unlinked under that object's lock. */
typedef struct mr_wait {
  struct mr_wait *next, *prev;      /* circular with a head node; next == NULL: not linked */
  mr_fiber *fiber;
  mr_mail *mail;                    /* of channels: the message that is handed over through this node */
  unsigned ticket;                  /* the odd ticket this node belongs to */
  struct mr_set *set;               /* NULL, or whose node it is: it stays linked from wait to wait (waitable.h) */
} mr_wait;

static inline void mr_waitq_init(mr_wait *head) { head->next = head->prev = head; }
static inline int mr_waitq_empty(const mr_wait *head) { return head->next == head; }
static inline void mr_waitq_add(mr_wait *head, mr_wait *w) {
  w->next = head;
  w->prev = head->prev;
  head->prev->next = w;
  head->prev = w;
}
static inline void mr_waitq_del(mr_wait *w) {
  if (!w->next) return;
  w->next->prev = w->prev;
  w->prev->next = w->next;
  w->next = w->prev = NULL;
}

/* MR_AGAIN: whoever claimed the wait could not deliver; try the operation once more. */
typedef enum { MR_WOKEN = 0, MR_AGAIN, MR_TIMEOUT, MR_CLOSED, MR_INTERRUPTED, MR_DEADLOCK, MR_STOPPED } mr_reason;

int       mr_wait_open(mr_fiber *f, lua_State *L);        /* 0 or an mr_err; opens f->wait's ticket */
void      mr_wait_abandon(mr_fiber *f);                   /* completed at once after all */
/* The same where nodes are linked already. 0: somebody has claimed one and woken f: go on as in k. */
int       mr_wait_cancel(mr_fiber *f);
/* Must follow a successful claim, exactly once, with no lock held; `near`: the running fiber whose worker takes it, or NULL. */
void      mr_ready(mr_fiber *f, mr_reason why, mr_fiber *near);
/* As a tail call: waits, then runs k(L, status, ctx). deadline in port_now() time, UINT64_MAX = none. */
int       mr_park(lua_State *L, mr_fiber *f, uint64_t deadline, lua_KContext ctx, lua_KFunction k);
mr_reason mr_wake(mr_fiber *f);                           /* first call of every k */

#endif
