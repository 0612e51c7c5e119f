/*
 * port/nest: a set of descriptors that is itself a descriptor, with one timer. It is for a library that has sockets and time limits of its own:
 * who waits until `set` is readable waits for all of them.
 *
 * It belongs to one process at a time; nothing here is locked. Results are 0 or an errno value unless said otherwise.
 */
#ifndef PORT_NEST_H
#define PORT_NEST_H

#include "port/poll.h"

typedef struct port_nest { int set, timer; } port_nest;

enum { PORT_NEST_TIMER = -1 };                        /* what port_nest_ready says in place of a descriptor */

int  port_nest_open(port_nest *n);
void port_nest_close(port_nest *n);
int  port_nest_watch(port_nest *n, int fd, unsigned what);    /* from now on for that; 0: it leaves, which never fails */
void port_nest_timer(port_nest *n, int64_t ms);       /* -1: none. 0: at once */
int  port_nest_ready(port_nest *n, int *fds, unsigned *what, int most);      /* how many are ready now; a timer is told once */
void port_close_on_exec(int fd);

#endif
