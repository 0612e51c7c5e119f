/*
 * channel: where values meet. Capacity 0 is a rendezvous, n a bounded queue, unbounded has no limit.
 *
 * Invariants (lock held):
 *  - senders wait only when the queue is full (capacity 0: always full) and no receiver waits;
 *  - receivers wait only when the queue is empty and no sender waits;
 *  - a closed channel gets no more waiters, and those that it had are being woken; what was queued can still be received.
 * No Lua API is called while the lock is held. A waiter's ticket is claimed under the lock; its mail (node->mail) is written or
 * read after the unlock and before mr_ready, by the claimer alone. One fiber may wait in several places at once (select).
 *
 * Builds with checks walk all this now and then (check.c). The one exception: without memory for the queue a place can stay free though
 * senders wait, until the next receiver comes.
 *
 * The queue is a list of segments, so that pushing and popping cost the same at any depth.
 */
#ifndef MR_CHANNEL_H
#define MR_CHANNEL_H

#include "process/process.h"

#include <string.h>

typedef struct mr_channel mr_channel;
#define MR_UNBOUNDED SIZE_MAX

extern const mr_sharetype *mr_channel_type;      /* set by module/ */

mr_channel *mr_channel_new(size_t capacity);     /* one reference; NULL: no memory */
void        mr_channel_destroy(mr_shared *o);
void        mr_channel_close(mr_channel *c, mr_fiber *near);
int         mr_channel_closed(mr_channel *c);
size_t      mr_channel_count(mr_channel *c);     /* messages queued */
size_t      mr_channel_capacity(const mr_channel *c);
uint64_t    mr_channel_id(const mr_channel *c);
const char *mr_channel_name(const mr_channel *c);/* NULL: none */
void        mr_channel_describe(mr_shared *o, char *buf, size_t size);

/* Outcomes of one step of an operation. */
typedef enum {
  CH_DONE,        /* it happened */
  CH_PEER,        /* a waiting fiber was claimed through its node *peer: exchange mail with it, then mr_ready it */
  CH_WAIT,        /* the node is queued: park */
  CH_BLOCKED,     /* it would have to wait */
  CH_CLOSED,
  CH_NOMEM
} mr_step;

/* A waiting receiver, claimed (CH_PEER), or CH_BLOCKED when there is none; CH_CLOSED. */
mr_step mr_channel_take_receiver(mr_channel *c, mr_wait **peer);
/* Queues *m (taken over on CH_DONE), or claims a receiver (CH_PEER), or queues node as a sender with *node->mail = *m (CH_WAIT, if node). */
mr_step mr_channel_put(mr_channel *c, const mr_mail *m, mr_wait *node, mr_wait **peer);
/*
 * CH_DONE: *m is the oldest message, owned by the caller, and *peer, if not NULL, a sender whose message took the free place: ready it.
 * CH_PEER: a sender waits with its mail: take it, then ready it. CH_WAIT, if node: that is queued as a receiver.
 */
mr_step mr_channel_take(mr_channel *c, mr_mail *m, mr_wait *node, mr_wait **peer);
/* For select, which has asked before: queues node unless something may be possible now (1). Its own other nodes don't count. */
int     mr_channel_link(mr_channel *c, mr_wait *node, int sending);
void    mr_channel_unwait(mr_channel *c, mr_wait *node);         /* takes it out of whatever queue */
/* Puts a message back as the oldest; takes *m over in any case. */
void    mr_channel_put_back(mr_channel *c, mr_mail *m);

/*
 * A barrier of n fibers, in rounds; the first of a round decides n. CH_DONE: the last has come, all go on. CH_WAIT: the node is queued, in
 * round *round; CH_BLOCKED: it would be, without node. CH_CLOSED, CH_NOMEM.
 */
mr_step mr_channel_meet(mr_channel *c, lua_Integer n, mr_wait *node, unsigned *round, mr_fiber *near);
void    mr_channel_unmeet(mr_channel *c, mr_wait *node, unsigned round);   /* it will not wait any longer */

/* ---- names (names.c): there are two spaces of them ---- */
enum { CH_SPACE_MARE, CH_SPACE_LUAPROC };
/*
 * Named channels live until closed. A new reference, or NULL with *err MR_ENOMEM. Made with `capacity` if there is none;
 * *made tells.
 */
mr_channel *mr_channel_named(int space, const char *name, size_t len, size_t capacity, int *made, int *err);
mr_channel *mr_channel_lookup(int space, const char *name, size_t len, uint64_t hash);   /* a new reference, or NULL: there is none */
int         mr_channel_named_so(const mr_channel *c, const char *name, size_t len);      /* of a channel that has a name */
/* Closes the channel of that name: CH_DONE; CH_BLOCKED: it stores messages, so it stays; CH_CLOSED: there is none. */
mr_step     mr_channel_delete(int space, const char *name, size_t len, mr_fiber *near);
/* The fullest of mare's space, that first, `most` at most; n: how many are in `out`. For who looks: they change meanwhile. MR_OK or MR_ENOMEM. */
typedef struct mr_channel_info {
  char name[64];                               /* cut if it is longer */
  size_t length, capacity;
  unsigned senders, receivers;                 /* how many wait there; a thousand counts for more, too */
} mr_channel_info;
int         mr_channel_infos(mr_channel_info *out, unsigned most, unsigned *n);
/* Eight bytes at a time, as names are short and looked up at every message. */
static inline uint64_t mr_channel_hash(const char *name, size_t len) {
  const uint64_t k = UINT64_C(0x9E3779B97F4A7C15);
  uint64_t h = (uint64_t)len * k, w = 0;
  for (; len > 8; name += 8, len -= 8) {
    memcpy(&w, name, 8);
    h = (h ^ w) * k;
    h ^= h >> 32;
  }
  if (len >= 4) {                                /* the first four and the last four */
    uint32_t low, high;
    memcpy(&low, name, 4);
    memcpy(&high, name + len - 4, 4);
    w = (uint64_t)high << 32 | low;
  } else {
    for (w = 0; len > 0; len--) w = w << 8 | (unsigned char)name[len - 1];
  }
  h = (h ^ w) * k;
  h ^= h >> 29;
  return h * UINT64_C(0xBF58476D1CE4E5B9);
}

#endif
