/*
 * poll: descriptors as things to wait for. Polling is a role, not a thread: whichever worker has nothing to run waits in the kernel,
 * busy ones look in now and then, the monitor does if nobody else did.
 *
 * A *watch* stands for a descriptor for as long as that is open. It is registered once, for both directions, edge-triggered; an
 * edge wakes who waits in that direction, or is remembered. So an operation tries its system call first and waits only when that would
 * block:
 *
 *   again: n = read(fd…); if it would block: open a wait (park.h)
 *     if (mr_watch_wait(w, MR_READ, &f->wait)) { mr_wait_abandon(f); goto again; }      an edge came in between
 *     mr_fiber_in(f, "read"); wait
 *     r = mr_wake(f); if (r != MR_WOKEN) mr_watch_unwait(w, &f->wait);
 *     MR_WOKEN: again; MR_CLOSED: the watch was closed; others: as for any wait
 *
 * A stream that gave less than was asked for is empty until the next edge, unless mr_watch_hup says that its end is near: the
 * next read may wait at once, without a system call that only says so.
 *
 * Ownership. Watches are never freed but used again: a poller may hold an old event. One waiter per direction is the rule (callers
 * enforce it: mr_watch_waited); several are woken one per edge, the first first. Readers who wait with a seat (seat.h) are woken by load: the
 * one whose job has least to do; if all of them compute, two, as one alone could go on for long before it looks.
 */
#ifndef MR_POLL_H
#define MR_POLL_H

#include "run/fiber.h"

enum { MR_READ = 1, MR_WRITE = 2 };

typedef struct mr_watch mr_watch;
mr_watch *mr_watch_open(int fd, int *error);          /* NULL: *error is an errno value; EPERM: always ready (a file) */
void      mr_watch_close(mr_watch *w, mr_fiber *near);/* before the descriptor is closed; wakes waiters with MR_CLOSED */
int       mr_watch_wait(mr_watch *w, int dir, mr_wait *node);    /* 1: an edge came, try again; 0: queued */
int       mr_watch_wait_seated(mr_watch *w, mr_wait *node, mr_seat *s);   /* the same, to read; s may be NULL */
int       mr_watch_wake(mr_watch *w, const mr_seat *s, mr_fiber *near);   /* one who waits with s; 0: nobody does */
void      mr_watch_unwait(mr_watch *w, mr_wait *node);
void      mr_watch_edge(mr_watch *w, int dir, mr_fiber *near);   /* as if an edge had come: for who took only a part of what one stood for */
int       mr_watch_hup(mr_watch *w);                  /* the peer has closed, or an error is pending */
int       mr_watch_waited(mr_watch *w, int dir);      /* somebody waits in that direction */

/* A foreign descriptor for one wait: level-triggered, deregistered by mr_watch_end, which must follow. */
mr_watch *mr_watch_once(int fd, int dirs, int *error);
void      mr_watch_end(mr_watch *w);

/*
 * Sources: descriptors of libraries that have their own loop. When one is readable the poller calls fn, outside all locks,
 * from any thread, never twice at the same time.
 */
int       mr_source_add(int fd, void (*fn)(void *ud), void *ud); /* 0 or an errno value; for ever */

/* Something outside may wake fibers (a request in flight, a signal that is waited for): +1, -1. As long as the sum is not 0 nothing is a deadlock. */
void      mr_outside(int change);
void      mr_wait_outside(mr_fiber *f);               /* f's open wait is for such a thing: counted until it ends */
void      mr_wait_inside(mr_fiber *f);                /* it is over, if it was for such a thing */

#endif
