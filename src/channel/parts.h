/* parts: what a channel is made of, for the files of this folder. */
#ifndef MR_CHANNEL_PARTS_H
#define MR_CHANNEL_PARTS_H

#include "channel/channel.h"

#include <stdlib.h>

typedef struct segment {
  struct segment *next;
  unsigned first, last, size;        /* used places: first .. last - 1 */
  mr_mail mail[];
} segment;

/* A channel's name. It stays with the channel when the table has forgotten it. */
typedef struct mr_name_entry {
  mr_channel *channel;               /* the names' reference, while it is in the table */
  struct mr_name_entry *next;        /* (its stripe's lock) */
  uint64_t hash;
  size_t len;
  unsigned char space, listed;       /* listed: (its stripe's lock) it is in the table */
  char text[];                       /* ends with a zero */
} mr_name_entry;

/* Those who wait for each other at a channel's barrier, in rounds. */
typedef struct mr_meeting {
  unsigned round;
  lua_Integer arrived, expected;     /* in this round; who comes first decides how many are expected */
  mr_wait waiters;                   /* head */
} mr_meeting;

struct mr_channel {
  mr_shared shared;
  port_lock lock;
  unsigned char closed;
  atomic_uchar news;                 /* (lock for writing) 0: it is open, nothing is queued, and no sender waits; a hint for those without the lock */
  size_t capacity, count;
  mr_wait receivers, senders;        /* heads */
  segment *head, *tail;
#ifdef MR_CHECKS
  unsigned char starved;             /* a free place stayed free, for want of memory, though senders wait */
#endif
  mr_name_entry *name;               /* owned; NULL: anonymous */
  mr_meeting *meeting;               /* owned; NULL until somebody is at the barrier */
};

void mr_channel_wake_all(mr_channel *c, mr_fiber *near);   /* closes it: every waiter learns of it */
int  mr_channel_unname(mr_channel *c);                     /* 1: it was in the table, whose reference is the caller's now */

#ifdef MR_CHECKS
void mr_channel_check(const mr_channel *c);                /* (lock held) what channel.h promises */
void mr_channel_check_end(const mr_channel *c);            /* nobody has a reference any more, so nobody waits */
#else
#define mr_channel_check(c) ((void)0)
#define mr_channel_check_end(c) ((void)0)
#endif

static inline void mr_channel_leave(mr_channel *c) {
  MR_CHECK_SOME(16, mr_channel_check(c));
  port_unlock(&c->lock);
}

static inline void mr_channel_tell(mr_channel *c, int news) { atomic_store_explicit(&c->news, (unsigned char)news, memory_order_relaxed); }

/*
 * 0: for who asks without waiting there is nothing. What comes at the same time, and is not seen, was not there yet: who waits looks once more under
 * the lock. (What is queued is not told, where that is more than an exception: then the lock is to be taken in any case.)
 */
static inline int mr_channel_may_have(const mr_channel *c) {
  return c->capacity > 0 || atomic_load_explicit(&c->news, memory_order_relaxed);
}

/* (lock held) Who queues here will be woken: a closed channel has nobody who would. */
static inline void mr_channel_queue(mr_channel *c, mr_wait *head, mr_wait *node) {
  mr_assert(!c->closed && !node->next);
  if (head == &c->senders) mr_channel_tell(c, 1);
  mr_waitq_add(head, node);
}

/* (lock held) What no longer waits to send or to receive leaves its queue, if it is still in one. */
static inline void mr_channel_unqueue(mr_channel *c, mr_wait *node) {
  mr_waitq_leave(PORT_UNLIKELY(node == c->senders.next) ? &c->senders : &c->receivers, node);
}

/* (lock held) The oldest of the messages that are queued, of which there is one. */
static inline void mr_channel_pop(mr_channel *c, mr_mail *m) {
  segment *s = c->head;
  *m = s->mail[s->first++];
  c->count--;
  if (s->first == s->last && s->next) {
    c->head = s->next;
    free(s);
  } else if (s->first == s->last) {
    s->first = s->last = 0;
  }
}

/*
 * (lock held) The first waiter whose wait is still open, claimed; others are only taken out. Under the lock a node in the queue is alive: who
 * woke for another reason takes it out, under this lock, before it goes on. What is claimed stays as it is until mr_ready, so mail and node may be
 * used after the lock.
 */
static inline mr_wait *mr_channel_claim(mr_wait *head) {
  while (!mr_waitq_empty(head)) {
    mr_wait *w = head->next;
    mr_waitq_shift(head);
    if (mr_wait_claim(w)) return w;
  }
  return NULL;
}

#endif
