/*
 * quick: the two steps of a channel that most messages are made of, inline. Each does the whole of it or nothing: then mr_channel_put and
 * mr_channel_take find out what there is to do.
 */
#ifndef MR_CHANNEL_QUICK_H
#define MR_CHANNEL_QUICK_H

#include "channel/parts.h"

/* As mr_channel_take_receiver. NULL: none waits, or the channel is closed. */
static inline mr_wait *mr_channel_quick_receiver(mr_channel *c) {
  mr_wait *peer = NULL;
  port_acquire(&c->lock);
  if (PORT_LIKELY(!c->closed)) peer = mr_channel_claim(&c->receivers);
  mr_channel_leave(c);
  return peer;
}

/* Queues node, whose wait is open, as a receiver. 0: there is a message, or the channel is closed. */
static inline int mr_channel_quick_wait(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  int waits = c->count == 0 && mr_waitq_empty(&c->senders) && !c->closed;
  if (PORT_LIKELY(waits)) mr_channel_queue(c, &c->receivers, node);
  mr_channel_leave(c);
  return waits;
}

#endif
