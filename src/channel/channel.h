/*
 * channel: where values meet. Capacity 0 is a rendezvous, n a bounded queue, unbounded has no limit.
 *
 * Invariants (lock held):
 *  - senders wait only when the queue is full (or capacity is 0) and no receiver waits;
 *  - receivers wait only when the queue is empty and no sender waits;
 *  - a closed channel has no waiters; what was queued can still be received.
 * No Lua API is called while the lock is held. A waiter's ticket is claimed under the lock, its mail is written or read after it.
 */
#ifndef MR_CHANNEL_H
#define MR_CHANNEL_H

#include "process/process.h"

typedef struct mr_channel mr_channel;
#define MR_UNBOUNDED SIZE_MAX

extern const mr_sharetype *mr_channel_type;      /* set by module/ */
mr_channel *mr_channel_new(size_t capacity);     /* one reference; NULL: no memory */
void        mr_channel_destroy(mr_shared *o);
mr_channel *mr_channel_named(const char *name, size_t len, size_t capacity, int create);  /* a new reference, or NULL */
void        mr_channel_close(mr_channel *c, mr_fiber *near);
int         mr_channel_closed(mr_channel *c);
size_t      mr_channel_count(mr_channel *c);
size_t      mr_channel_capacity(const mr_channel *c);
uint64_t    mr_channel_id(const mr_channel *c);

#endif
