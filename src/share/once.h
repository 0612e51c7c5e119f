/*
 * once: something that is done once, by whoever comes first; others wait until it is done.
 *
 * It is new, running or done. Each try to do it is a round with a number. A round ends done: the outcome stays for ever. Or it fails: who waited for
 * that round gets its error; it is new again. Or it is left - who did it was killed, say -: it is new again, and one of those who wait tries next.
 */
#ifndef MR_ONCE_H
#define MR_ONCE_H

#include "run/waitable.h"
#include "share/dict.h"

enum { ONCE_NEW, ONCE_RUNNING, ONCE_DONE, ONCE_FAILED, ONCE_INSIDE };   /* the last two only as answers */

typedef struct mr_once {
  mr_shared shared;
  port_lock lock;
  unsigned char state;
  const mr_fiber *runner;              /* while it runs; only to be compared */
  uint64_t round;                      /* the number of the try that runs, or of the last one; the first is 1 */
  uint64_t failed;                     /* of the last one that failed; 0: none has */
  mr_cell *outcome;                    /* of what was done; NULL: nothing came of it. Stays */
  mr_cell *failure;                    /* of the round `failed`; or NULL */
  mr_cell *body;                       /* the function, or NULL: everybody brings one */
  mr_wait waiters;                     /* head */
} mr_once;

mr_once *mr_once_new(const mr_sharetype *type, mr_cell *body);         /* takes the reference to body over, if there is one; NULL: no memory, and not */
void     mr_once_destroy(mr_shared *o);
/*
 * Where it stands, for f, which waits for the round *since, 0: for none. NEW: it may try mr_once_begin. RUNNING: *since is that round now. DONE. FAILED: the
 * round it waited for, or a later one: *failure is a new reference, or NULL. INSIDE: it runs, by f itself.
 */
int      mr_once_look(mr_once *o, const mr_fiber *f, uint64_t *since, mr_cell **failure);
int      mr_once_begin(mr_once *o, const mr_fiber *f);                 /* 1: it is f's to do */
/* By who has begun: ONCE_DONE, ONCE_FAILED with a cell (or NULL), which is taken over; ONCE_NEW: it is left. */
void     mr_once_end(mr_once *o, int how, mr_cell *cell, mr_fiber *near);
int      mr_once_link(mr_once *o, uint64_t since, mr_wait *w);         /* as mr_waitops.link */
void     mr_once_unlink(mr_once *o, mr_wait *w);

#endif
