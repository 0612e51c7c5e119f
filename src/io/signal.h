/*
 * signal: signals of the operating system as something to wait for.
 *
 * Everybody who listens to a signal has a listener of his own, and each is told of each signal; what comes while nobody waits is
 * counted. The program's own disposition is put aside while there is a listener for that signal, and restored when the last has
 * closed.
 *
 * One lock guards all listeners: signals are few.
 */
#ifndef MR_SIGNAL_H
#define MR_SIGNAL_H

#include "run/waitable.h"
#include "transfer/transfer.h"

typedef struct mr_signal {
  mr_shared shared;                    /* first */
  int number;
  unsigned pending;                    /* came, and nobody has taken them */
  unsigned char closed;
  mr_wait waiters;                     /* head */
  struct mr_signal *next;              /* of the same number */
} mr_signal;
extern const mr_sharetype *mr_signal_type;       /* set by module/ */

/* fn is called by the poller each time the signal has come, for as long as the program lives; besides those who listen. 0 or an errno value. */
int mr_signal_tell(int number, void (*fn)(void));
mr_signal *mr_signal_new(int number, int *err);  /* one reference; NULL: *err is an errno value; EINVAL: that one can't be had */
void       mr_signal_destroy(mr_shared *o);
void       mr_signal_close(mr_signal *s, mr_fiber *near);    /* idempotent; waiters are woken with MR_CLOSED */
unsigned   mr_signal_take(mr_signal *s, int *closed);        /* how many have come */
int        mr_signal_wait(mr_signal *s, mr_wait *w);         /* 1: look again; 0: queued */
void       mr_signal_unwait(mr_signal *s, mr_wait *w);

#endif
