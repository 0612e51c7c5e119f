/*
 * listener: a socket that accepts. Unlike connections it is shared: several processes may accept from it at once.
 *
 * Whoever uses the descriptor or the watch is counted in `users`; the closer sets the CLOSED bit, and whoever leaves last then really closes.
 * So no descriptor is closed under a system call, and none that is used again is touched.
 *
 * Connections are spread by load (seat.h): a connection counts for the process that accepted it until it is closed or moved to another process.
 * Who leaves connections to others has used the edge that told of them up: when it goes on without having looked again, it passes it on
 * (mr_listener_pass).
 */
#ifndef IO_LISTENER_H
#define IO_LISTENER_H

#include "port/net.h"
#include "run/poll.h"
#include "run/seat.h"
#include "process/await.h"

typedef struct mr_listener {
  mr_shared shared;                  /* first */
  int fd;
  mr_watch *watch;
  mr_rota *rota;
  atomic_uint users;
  uint64_t patience;                 /* ns accept waits unless it says otherwise */
  mr_shared *context;                /* of TLS, referenced; or NULL */
  port_addr path;                    /* of a Unix socket: its file goes with it */
} mr_listener;
extern const mr_sharetype *mr_listener_type;      /* set by module/ */

/* How to listen. */
typedef struct mr_listening { int backlog, reuseport, v6only, mode; } mr_listening;   /* mode: of the file of a Unix socket, -1: as it is made */

/* A server at an address, or at a port of every interface, of both families where the system can. NULL: *err, and nothing is left. */
mr_listener *mr_listener_open(const port_addr *at, const mr_listening *how, int *err);
mr_listener *mr_listener_open_any(int port, const mr_listening *how, int *err);
void mr_listener_destroy(mr_shared *o);
int  mr_listener_enter(mr_listener *l);            /* 0: it is closed */
void mr_listener_leave(mr_listener *l, mr_fiber *near);
void mr_listener_close(mr_listener *l, mr_fiber *near);
void mr_listener_unwait(mr_listener *l, mr_wait *node);
/*
 * (entered) One try: 0, EAGAIN or another errno value. Another waiting fiber is told that there may be more. *until is how long the caller could
 * wait, 0: not at all; it becomes less when a connection is there that is left to another process for so long.
 */
int  mr_listener_accept(mr_listener *l, mr_seat *s, int *fd, uint64_t *until, mr_fiber *near);
int  mr_listener_wait(mr_listener *l, mr_seat *s, mr_wait *node);  /* (entered) 1: try again; 0: queued */
int  mr_listener_leaves(mr_seat *s);               /* the caller has left connections to others */
void mr_listener_pass(mr_listener *l, mr_seat *s, mr_fiber *near);

#endif
