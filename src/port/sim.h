/* sim: what simnet.c, simplace.c and simgram.c share. A *socket* has descriptors, usually one; a connection that nobody has accepted yet has none. */
#ifndef PORT_SIM_H
#define PORT_SIM_H

#include "port/simnet.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define SIM_PATH offsetof(struct sockaddr_un, sun_path)    /* in an address: a zero there begins a name that is no file's */

/* Where a socket is: IPv4 addresses are mapped. Nowhere: family 0. */
typedef struct sim_place {
  unsigned char family;                /* PORT_INET, PORT_INET6, PORT_UNIX */
  uint16_t port;
  struct in6_addr ip;
  port_addr path;                      /* of PORT_UNIX; without a name: len 0 */
} sim_place;

typedef struct sim sim;
typedef struct sim_fd {
  sim *socket;
  int fd;
  unsigned char watched, how, what;
  unsigned char queued;                /* in the list of news */
  unsigned pending;                    /* what it is to be told */
  uint64_t tag;
  struct sim_fd *more;                 /* of the same socket */
  struct sim_fd *next;                 /* news */
} sim_fd;

typedef struct sim_datagram { struct sim_datagram *next; sim_place from; size_t len; char data[]; } sim_datagram;
typedef struct sim_option { int level, id, value; } sim_option;
enum { SIM_OPTIONS = 16 };

struct sim {
  sim *next, *before;                  /* all of them, in the order in which they were made */
  sim_fd *fds;
  unsigned char type, family;
  unsigned char bound;                 /* its place is its own: not that of an accepted connection */
  unsigned char chosen;                /* the place was asked for */
  unsigned char listening, connected;  /* connected: and stays so when the peer is gone */
  unsigned char eof, reading_ended, writing_ended;      /* the peer writes no more; shutdown of ours */
  unsigned char told;                  /* a write was lost, as the peer is gone */
  unsigned char held;                  /* a write was cut: no room until the next poll */
  unsigned char later;                 /* in the list of those for whom the next poll changes something */
  unsigned char starved;               /* of Unix datagrams: somebody found it full */
  unsigned char v6only, linger_on;
  int linger;
  int error;                           /* to be told once */
  sim_place place, remote;
  sim *peer;                           /* the other end of a stream; NULL: none, or gone */
  sim *delayed;                        /* the list `later` */
  sim *waiting, *last, *behind;        /* of a listener: connections not accepted; in that list */
  unsigned served;                     /* of a listener: how many */
  char *data;                          /* of a stream: what has come; a ring */
  size_t head, len, room;
  size_t seen;                         /* so many of them have arrived */
  sim_datagram *first_datagram, **end_of_datagrams;
  unsigned ndatagrams;
  size_t datagram_bytes;
  int noptions;
  sim_option option[SIM_OPTIONS];
};

static inline int sim_is_mapped(const struct in6_addr *ip) { return IN6_IS_ADDR_V4MAPPED(ip); }
static inline int sim_same_ip(const struct in6_addr *a, const struct in6_addr *b) { return memcmp(a, b, sizeof *a) == 0; }

extern sim *sim_all;
sim *sim_of(int fd);                   /* NULL: no such descriptor */
void sim_tell(sim *s, unsigned what);  /* those who watch it: this is so now */
int  sim_place_of(sim_place *p, const port_addr *a);             /* or an errno value */
void sim_place_text(const sim_place *p, int family, port_addr *a);    /* as a socket of that family knows it */
int  sim_place_inside(const sim_place *p);
void sim_place_here(sim_place *p);     /* an address of all interfaces stands for this machine, where somebody is spoken to */
int  sim_covers(const sim *s, const sim_place *p);               /* what is sent there comes to s, as far as its place is concerned */
int  sim_is_taken(const sim *s);       /* another has its place, and does not share it */
int  sim_bind_any(sim *s);             /* to the next port, unless it has a place */
sim_place sim_source(const sim *s, const sim_place *to);         /* what a peer there sees of s */
unsigned sim_datagrams_ready(const sim *s);
void sim_datagrams_free(sim *s);
int  sim_datagrams_connect(sim *s, const sim_place *p);

#endif
