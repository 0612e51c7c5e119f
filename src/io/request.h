/*
 * request: work that may block - file system, name resolution - done by threads that exist for it, while the fiber waits.
 *
 * A request's `work` runs once, on one of those threads; it sees nothing but the request. When it has returned, `done` is set. Who asked
 * waits for `done` like for any event (mr_event_wait, select), or goes away: a deadline, an interrupt, the end of its process. So a
 * request is counted: one reference is the asker's, one that of the thread, from submission until `done` is set. The last to go
 * calls `destroy`. What work writes into must therefore belong to the request, never to a Lua state.
 *
 *   mr_request_init(r, work, destroy);                           one reference, ours
 *   mr_request_submit(r, MR_FILES);                              once its waiter's ticket is open: that may be refused
 *   mr_event_wait(&r->done, w), mr_event_unwait                  as of any event; module/hold.c does both
 *   mr_request_drop(r)                                           in any case, at the end
 *
 * A request in flight is counted in mr_outside: nothing is a deadlock meanwhile. One that was dropped before its turn is not worked on, unless
 * it says `anyway`.
 */
#ifndef MR_REQUEST_H
#define MR_REQUEST_H

#include "run/waitable.h"

/* Each kind has threads of its own, so that names which nobody answers for don't hold up files. */
enum { MR_FILES, MR_NAMES, MR_POOLS };

typedef struct mr_request mr_request;
struct mr_request {
  mr_event done;
  void (*work)(mr_request *r);
  void (*destroy)(mr_request *r);      /* frees it and what it holds */
  unsigned char anyway;                /* work on it even if nobody waits any more */
  atomic_uint refs;
  mr_request *next;                    /* in a pool's queue (its lock) */
};

void mr_request_init(mr_request *r, void (*work)(mr_request *), void (*destroy)(mr_request *));
void mr_request_submit(mr_request *r, int pool);   /* once; never in a forked child */
void mr_request_keep(mr_request *r);
void mr_request_drop(mr_request *r);

#endif
