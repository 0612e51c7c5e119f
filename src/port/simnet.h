/*
 * simnet: a network inside the program, for runs that can be repeated (run/replay.h).
 *
 * Once it is on, each new socket is one of these: two of them can speak to each other, and nothing leaves the program. They have descriptors from PORT_SIM_FD
 * on, which the kernel knows nothing of; net.c, sockopt.c and poll.c hand calls with such a descriptor to the functions here, whose results are
 * those of their namesakes there. So what is above works as ever.
 *
 * What the kernel decides by chance is decided here by the order of calls, or by who runs the program:
 *  - A connection is there when connect returns, bytes and datagrams arrive when they are sent. Ports are given out in a row.
 *  - Who watches a descriptor is told in the order in which things happened.
 *  - A read or a write may be *cut* short: how much of it goes through is asked (`cut`). What a read leaves, and the room for what is left of a write, is there
 *    at the next port_sim_poll: as if it came a moment later.
 *
 * Addresses: the program is alone on its machine, and has all addresses. *Inside* are the machine's own - 127.x.x.x, ::1 - and those that a socket of the program
 * is bound to just now; all others are not to be reached.
 *
 * Only one thread of the program runs at a time in such a run; there are no locks.
 */
#ifndef PORT_SIMNET_H
#define PORT_SIMNET_H

#include "port/net.h"
#include "port/poll.h"
#include "port/resolve.h"

#define PORT_SIM_FD 0x40000000                 /* more than a system gives */
extern int port_sim_on;
extern int port_sim_news;                      /* port_sim_poll has something to say */
static inline int port_is_sim(int fd) { return fd >= PORT_SIM_FD; }

/* For good; in this OS process. cut: how many of n > 1 bytes go through, 1 … n. */
void port_sim_begin(size_t (*cut)(size_t n));
int  port_sim_inside(const port_addr *a);      /* 1: or this is no address of a network, and nobody outside is there */
int  port_sim_knows(const char *host);         /* a name of this machine, or NULL */
int  port_sim_resolve(const port_query *q, port_address *out, int max);   /* its addresses; 0: it is not known, or the service has to be looked up */

int  port_sim_socket(int family, int type, int *fd);
void port_sim_close(int fd);
int  port_sim_bind(int fd, const port_addr *a);
int  port_sim_listen(int fd);
int  port_sim_duplicate(int fd, int *copy);
int  port_sim_accept(int fd, int *conn);
int  port_sim_connect(int fd, const port_addr *a);
int  port_sim_connected(int fd);
long port_sim_read(int fd, void *p, size_t n);
long port_sim_write(int fd, const port_slice *s, int n);
long port_sim_receive(int fd, void *p, size_t n, port_addr *from);
long port_sim_send(int fd, const void *p, size_t n, const port_addr *to);
int  port_sim_shutdown(int fd, int read, int write);
int  port_sim_local(int fd, port_addr *a);
int  port_sim_peer(int fd, port_addr *a);
int  port_sim_disconnect(int fd);
int  port_sim_has(int fd);                     /* there is such a descriptor */
unsigned port_sim_ready(int fd);               /* PORT_READ | PORT_WRITE | PORT_HUP */

/* By the system's numbers. Most are only kept. */
int  port_sim_option_get(int fd, int level, int id, int *value);
int  port_sim_option_set(int fd, int level, int id, int value);
int  port_sim_linger_get(int fd, int *on, int *seconds);
int  port_sim_linger_set(int fd, int on, int seconds);

int  port_sim_poll_add(int fd, uint64_t tag, unsigned what, int how);
int  port_sim_poll_remove(int fd);
int  port_sim_poll(port_ready *r, int n);

#endif
