/*
 * park: the one way to wait. Channels, timers, descriptors, events, ends of processes and fibers implement it; deadlines, interruption
 * and select know none of them. Where a wait in Lua begins and ends stands in process/park.h.
 *
 * A wait has a ticket: a number in the fiber that is odd while the wait is open. Whoever wants to end the wait - a
 * sender, a timer, an interrupt - claims the ticket by one compare-and-swap; exactly one succeeds. The claimer owns
 * the fiber's mail and wake-up reason, and if the fiber is PARKED by yielding all that its process has, until it calls mr_ready.
 *
 * Protocol of a blocking operation, on the fiber's own thread:
 *   choose f->mode, WAIT_*; for WAIT_HANDOVER mr_wait_reserve(f), which may fail: nothing may, from here on
 *   mr_wait_begin(f);                opens the ticket
 *   lock the object; if it can complete: mr_wait_abandon(f), unlock, done
 *   link f->wait into the object's queue; unlock                         <- from here others can claim
 *   mr_wait_until(f, deadline) if there is one; then by mode:
 *     WAIT_YIELD: f->sysyield = SYS_PARK, and the body yields to whoever resumed it
 *     else: mr_wait_block(f, deadline) returns when the wait is over
 *   mr_wake(f) gives the reason; if it is not MR_WOKEN the node may still be linked: lock, unlink if linked, unlock
 *
 * States of a fiber: RUNNING on a thread; PARKING, the wait is open and its thread still unwinds; PARKED; READY, woken
 * and queued (or about to be); DONE. Only the transition PARKED -> READY puts it in a run queue, so it is queued once.
 */
#ifndef MR_PARK_H
#define MR_PARK_H

#include "port/port.h"
#include "base/error.h"

typedef struct mr_fiber mr_fiber;
typedef struct mr_job mr_job;
typedef struct mr_worker mr_worker;
typedef struct mr_thread mr_thread;
typedef struct mr_seat mr_seat;

/* A place in the queue of whatever is waited for; linked and unlinked under that object's lock. */
typedef struct mr_wait {
  struct mr_wait *next, *prev;      /* circular with a head node; next == NULL: not linked */
  mr_fiber *fiber;
  union {                           /* the object's own: */
    struct mr_mail *mail;           /* of channels: the message that is handed over through this node */
    mr_seat *seat;                  /* of a watch's readers: who waits with a seat, or NULL; see poll.h */
  };
  union {
    unsigned ticket;                /* the odd ticket this node belongs to */
    unsigned number;                /* of a set's node, which belongs to no ticket: the set's owner says of what */
  };
  unsigned short what;              /* of the operation: constant while it lasts; of a set's node: its owner's */
  unsigned short linked;            /* of the waitable: 0 before link, the same in unlink as link has left it */
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

/*
 * For queues whose first is taken again and again while many wait: what is first then is not written to, since it has waited for longest and lies in no
 * near cache; it is only asked for, in time for the next one that takes it. So of such a queue the first's `prev` is not kept, and nothing leaves
 * it but by these two.
 */
static inline void mr_waitq_shift(mr_wait *head) {
  mr_wait *w = head->next;
  head->next = w->next;
  if (PORT_LIKELY(w->next == head)) head->prev = head;
  else PORT_PREFETCH(w->next);
  w->next = w->prev = NULL;
}
static inline void mr_waitq_leave(mr_wait *head, mr_wait *w) {
  if (w == head->next) mr_waitq_shift(head);
  else mr_waitq_del(w);
}

/* MR_AGAIN: whoever claimed the wait could not deliver; try the operation once more. */
typedef enum { MR_WOKEN = 0, MR_AGAIN, MR_TIMEOUT, MR_CLOSED, MR_INTERRUPTED, MR_DEADLOCK, MR_STOPPED } mr_reason;

int       mr_wait_reserve(mr_fiber *f);                   /* a spare that will take over: 0 or an mr_err */
void      mr_wait_abandon(mr_fiber *f);                   /* completed at once after all */
/* The same where nodes are linked already. 0: somebody has claimed one and woken f: go on as after the wait. */
int       mr_wait_cancel(mr_fiber *f);
void      mr_wait_until(mr_fiber *f, uint64_t deadline);  /* in port_now() time; not for WAIT_HOST */
void      mr_wait_block(mr_fiber *f, uint64_t deadline);  /* WAIT_HANDOVER, WAIT_HOST: the thread keeps the fiber */
/* Must follow a successful claim, exactly once, with no lock held; `near`: the running fiber whose worker takes it, or NULL. */
void      mr_ready(mr_fiber *f, mr_reason why, mr_fiber *near);
mr_reason mr_wake(mr_fiber *f);                           /* the wait is over: the first thing its fiber does */
/* Nobody but one fiber is there, and nothing outside could wake another: to wait in the kernel for a moment costs nobody anything. */
int       mr_run_alone(void);
int       mr_run_single(void);                            /* there is one worker, so nobody polls while its fiber waits in the kernel */
/*
 * Around one system call in which f, which is alone, keeps its worker although the call has no limit: in its second round at the latest the
 * monitor ends it by the preemption signal, so it must stop with EINTR. A signal may come just before the call; the next round sends
 * another. 0: not in this build, the call needs a limit.
 */
int       mr_linger_begin(const mr_fiber *f);
void      mr_linger_end(const mr_fiber *f);

#endif
