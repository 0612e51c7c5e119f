/*
 * child: a program that this one has started, and its end as an event.
 *
 * Every child is reaped when it ends, whether or not anybody waits: a child that runs holds a reference to itself, and the poller is
 * told of its end. Whoever must be able to signal its group until the last moment keeps the dead (`keep`): the number of a
 * process group is safe to use only as long as its leader has not been reaped.
 */
#ifndef MR_CHILD_H
#define MR_CHILD_H

#include "run/waitable.h"
#include "port/child.h"
#include "transfer/transfer.h"

typedef struct mr_child {
  mr_shared shared;                    /* first */
  mr_event ended;
  port_lock lock;                      /* guards what follows */
  int pid;                             /* 0: not started */
  unsigned char dead, reaped, keep;
  int code, signal;                    /* once reaped: one is -1; both are if the system has lost the status */
} mr_child;
extern const mr_sharetype *mr_child_type;        /* set by module/ */

mr_child *mr_child_new(int keep);                /* one reference; NULL: no memory */
void      mr_child_destroy(mr_shared *o);
int       mr_child_start(mr_child *c, const port_program *p);    /* blocks; 0 or an errno value */
int       mr_child_kill(mr_child *c, int signal);   /* its group: 0, or an errno value; ESRCH: it has ended */
void      mr_child_let_go(mr_child *c);          /* of one that was kept: it may be reaped, now or when it ends */

#endif
