/*
 * port/poll: readiness of descriptors from the kernel, for the whole program one set.
 *
 * A descriptor is in the set with a tag, which comes back with its events. Closing a descriptor takes it out only if no copy of it is
 * open elsewhere: remove it first. Results are 0 or an errno value unless said otherwise.
 */
#ifndef PORT_POLL_H
#define PORT_POLL_H

#include "port/port.h"

enum { PORT_READ = 1, PORT_WRITE = 2, PORT_HUP = 4 };  /* HUP: the peer has closed its side, or an error is pending */
/* EDGE: both directions, told once for each change. LEVEL: told as long as it is so. ONCE: like level, but only the first time. */
enum { PORT_EDGE, PORT_LEVEL, PORT_ONCE };

typedef struct port_ready { uint64_t tag; unsigned what; } port_ready;

int  port_poll_open(void);                            /* idempotent; before everything else */
int  port_poll_add(int fd, uint64_t tag, unsigned what, int how);   /* EPERM: nothing to wait for (a regular file) */
int  port_poll_remove(int fd);
int  port_ready_now(int fd, unsigned what, unsigned *ready);         /* asks for one descriptor, without the set */
int  port_copy(int fd, int *copy);                    /* another descriptor for the same thing */
void port_close(int fd);
extern const int port_error_exists;                   /* what port_poll_add says of a descriptor that is in the set */
int  port_poll(port_ready *r, int n);                 /* how many are ready now */
/*
 * Waits until something is ready, e is set (and consumed: *set = 1) or the deadline. How many are ready. One thread at a time is meant;
 * more do no harm.
 */
int  port_poll_wait(port_event *e, uint64_t deadline, port_ready *r, int n, int *set);

/* A descriptor for a foreign event loop: readable from ring to clear. */
int  port_bell_open(void);                            /* -1: none to be had */
void port_bell_ring(int bell);
void port_bell_clear(int bell);
void port_bell_close(int bell);

void port_poll_wake(void);                            /* by port_event_set: whoever waits in the set looks at its event */

#endif
