/*
 * dial: connecting to one of several addresses, as in RFC 8305 (Happy Eyeballs): families alternate, the next attempt begins 250 ms after the
 * last one or as soon as one fails, the first that succeeds wins and the others are dropped.
 *
 *   mr_dial_init(&d); mr_dial_add(&d, …) or mr_dial_names(&d, …);
 *   mr_dial_step(&d, &until):  DIAL_DONE: mr_dial_take; DIAL_FAILED: d.error; DIAL_WAIT: link, wait until `until`, unlink, step again
 *   mr_dial_drop(&d);                                  in any case, at the end
 *
 * It owns the descriptors of its attempts, and their nodes lie in it: it may go only when nothing is linked.
 */
#ifndef IO_DIAL_H
#define IO_DIAL_H

#include "io/conn.h"
#include "io/resolve.h"

typedef struct mr_attempt { int fd; mr_watch *watch; mr_wait node; } mr_attempt;

typedef struct mr_dial {
  int n, next;                       /* addresses; the next to try */
  int pending;                       /* attempts [0, next) that are under way */
  int won;                           /* after DIAL_DONE: which one */
  int error;                         /* why the last one failed */
  int nodelay;
  uint64_t begin_next;               /* when the next attempt begins, if none has failed until then */
  port_addr bind;                    /* family 0: any */
  port_addr list[MR_ADDRESSES];
  mr_attempt at[MR_ADDRESSES];
} mr_dial;

enum { DIAL_WAIT, DIAL_DONE, DIAL_FAILED };

void     mr_dial_init(mr_dial *d);
void     mr_dial_add(mr_dial *d, const port_addr *a);
void     mr_dial_names(mr_dial *d, const mr_resolve *q, int port);
int      mr_dial_step(mr_dial *d, uint64_t *until);  /* lowers *until to when it is to be called again */
int      mr_dial_link(mr_dial *d, mr_wait *w);       /* into the queues of all attempts, with w's ticket. 1: one of them has news */
void     mr_dial_unlink(mr_dial *d);
mr_conn *mr_dial_take(mr_dial *d, int *err);         /* the connection; the other attempts are dropped. NULL: *err */
void     mr_dial_drop(mr_dial *d);

#endif
