/*
 * run: a program from its start to its end: fed, and what it writes collected. As a request it is started by a thread of MR_FILES; then the
 * fiber that asked does the rest in steps, waiting between them for three pipes and the end at once.
 *
 * The request's last reference kills what still runs, closes the pipes and frees everything. What a pipe gives is kept outside all heaps.
 */
#ifndef MR_RUN_H
#define MR_RUN_H

#include "io/child.h"
#include "io/request.h"
#include "run/poll.h"
#include "share/buffer.h"

enum { RUN_IN, RUN_OUT, RUN_ERR, RUN_PIPES };
enum { PIPE_OWN = -10 };                         /* in program.fd: a pipe to us */

typedef struct mr_flow {
  int fd;                                        /* our end, -1: none, or done */
  mr_watch *watch;
  char *data;                                    /* malloc'd, or in `store`: to feed, or collected */
  mr_store *store;                               /* referenced, or NULL */
  size_t len, size, done;
  mr_wait node;
} mr_flow;

typedef struct mr_run {
  mr_request request;                            /* first */
  port_program program;                          /* its strings are in `text` */
  mr_child *child;                               /* referenced */
  unsigned char piped[RUN_PIPES];                /* which are pipes to us; constant */
  int error;                                     /* errno value of the start */
  int stays;                                     /* nobody kills it when the request goes */
  int over;                                      /* the last step saw that it has ended: only the pipes are waited for */
  int killed;                                    /* the end will do, whoever still holds the pipes */
  uint64_t deadline;
  mr_flow flow[RUN_PIPES];
  mr_wait end;
  char *text;                                    /* malloc'd */
} mr_run;

mr_run *mr_run_new(int keep);                    /* keep: to be collected to its end by steps; NULL: no memory */
/* Some I/O without waiting: 1: all is over; 0: wait for more; 2: there is more, but others should run too; -1: no memory. */
int     mr_run_step(mr_run *r);
int     mr_run_link(mr_run *r, mr_fiber *f);     /* into all queues. 1: look again */
void    mr_run_unlink(mr_run *r);                /* after the wait has ended */
void    mr_run_kill(mr_run *r);
int     mr_run_take(mr_run *r, int which);       /* our end of a pipe, the caller's from now on; -1: none */

#endif
