/*
 * rank: the order in which locks may be taken, in one place. A thread that holds one takes no other of the same or a higher line.
 *
 * A lock that is not named here is innermost: no other is taken under it. Most are: a channel's, an event's, a crew's, the timers', the queues',
 * those of the pool and of every cache.
 */
#ifndef MR_RANK_H
#define MR_RANK_H

#include "port/port.h"

enum {
  MR_RANK_ONCE = 1,                  /* what is made once: of module/, of child processes. Held as long as that takes */
  MR_RANK_LIFE,                      /* a start or a stop of the runtime: for as long as that takes */
  MR_RANK_OBSERVE,                   /* likewise, inside it: of the observer's thread */
  MR_RANK_START,                     /* likewise, inside it: the first start */
  MR_RANK_WORKERS,                   /* likewise: a change of how many workers there are */

  MR_RANK_SIGNALS = PORT_RANK_SHORT, /* the list of those who listen to signals */
  MR_RANK_NAMES,                     /* a stripe of the channels' names: over a channel's lock */
  MR_RANK_ROTA,                      /* who shares a server's connections: over a process's */
  MR_RANK_IDLE,                      /* the idle lock; the deadlock report, over all that follow, is written under it */
  MR_RANK_SHARD,                     /* a part of the list of processes */
  MR_RANK_OBJECT                     /* a process's, a watch's: over the lock of a crew */
};

#endif
