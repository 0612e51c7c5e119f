/*
 * quick: the steps of a channel that most messages are made of, inline. Each does the whole of it or nothing: then mr_channel_put and
 * mr_channel_take find out what there is to do.
 */
#ifndef MR_CHANNEL_QUICK_H
#define MR_CHANNEL_QUICK_H

#include "channel/parts.h"

/* (lock held) A place for one more message that has been used before; NULL: there is no room, or mr_channel_put is to make it. */
static inline mr_mail *mr_channel_quick_room(mr_channel *c) {
  segment *t = c->tail;
  if (c->count >= c->capacity || !t || t->last == t->size) return NULL;
  c->count++;
  return &t->mail[t->last++];
}

static inline void mr_mail_scalar(mr_mail *m, const mr_scalar *s) {
  m->kind = MAIL_SCALARS;
  m->n = 1;
  m->u.s[0] = *s;
}

/* One scalar: queued (CH_DONE), or *peer is the receiver who is to have it (CH_PEER). CH_BLOCKED: neither; the channel may be closed. */
static inline mr_step mr_channel_quick_put(mr_channel *c, const mr_scalar *s, mr_wait **peer) {
  mr_step step = CH_BLOCKED;
  mr_mail *room;
  port_acquire(&c->lock);
  if (PORT_LIKELY(!c->closed)) {
    if ((*peer = mr_channel_claim(&c->receivers)) != NULL) {
      step = CH_PEER;
    } else if ((room = mr_channel_quick_room(c)) != NULL) {
      mr_mail_scalar(room, s);
      step = CH_DONE;
    }
  }
  mr_channel_leave(c);
  return step;
}

/* Queues node, whose wait is open and whose mail is written, as a sender. 0: the message can go, or the channel is closed. */
static inline int mr_channel_quick_offer(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  int waits = c->count >= c->capacity && mr_waitq_empty(&c->receivers) && !c->closed;
  if (PORT_LIKELY(waits)) mr_channel_queue(c, &c->senders, node);
  mr_channel_leave(c);
  return waits;
}

/* CH_DONE: *m is the oldest message that is queued; CH_BLOCKED: none is; CH_PEER: a sender waits for its place, which mr_channel_take gives to it. */
static inline mr_step mr_channel_quick_take(mr_channel *c, mr_mail *m) {
  mr_step step = CH_BLOCKED;
  port_acquire(&c->lock);
  if (!mr_waitq_empty(&c->senders)) {
    step = CH_PEER;
  } else if (c->count > 0) {
    mr_channel_pop(c, m);
    step = CH_DONE;
  }
  mr_channel_leave(c);
  return step;
}

/* Queues node, whose wait is open, as a receiver. 0: there is a message, or the channel is closed. Where there is no news, `senders` is not touched. */
static inline int mr_channel_quick_wait(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  int waits = c->count == 0 && !c->closed &&
              (PORT_LIKELY(!atomic_load_explicit(&c->news, memory_order_relaxed)) || mr_waitq_empty(&c->senders));
  if (PORT_LIKELY(waits)) mr_channel_queue(c, &c->receivers, node);
  mr_channel_leave(c);
  return waits;
}

/* CH_PEER: *peer is a sender that waited, claimed; CH_BLOCKED: none does. CH_DONE: there is something else: ask mr_channel_take. */
static inline mr_step mr_channel_quick_sender(mr_channel *c, mr_wait **peer) {
  mr_step step = CH_DONE;
  port_acquire(&c->lock);
  if (PORT_LIKELY(c->count == 0 && !c->closed)) {
    *peer = mr_channel_claim(&c->senders);
    step = *peer ? CH_PEER : CH_BLOCKED;
    if (mr_waitq_empty(&c->senders)) mr_channel_tell(c, 0);
  }
  mr_channel_leave(c);
  return step;
}

static inline void mr_channel_quick_unwait(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  mr_channel_unqueue(c, node);
  mr_channel_leave(c);
}

#endif
