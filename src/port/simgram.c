/*
 * simgram: datagrams and options of the network inside the program; see simnet.h.
 *
 * Datagrams arrive in the order in which they were sent. When the receiver has no room, those of UDP are lost, as ever; who sends to a Unix socket waits.
 */
#include "port/sim.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LONGEST = 65507, DATAGRAMS = 256, DATAGRAM_BYTES = 212992 };

/* ---- datagrams ---- */

static int is_full(const sim *s, size_t n) {
  return s->ndatagrams && (s->ndatagrams >= DATAGRAMS || s->datagram_bytes + n > DATAGRAM_BYTES);
}

unsigned sim_datagrams_ready(const sim *s) {
  return (s->first_datagram || s->error ? PORT_READ : 0u) | PORT_WRITE;
}

static sim_datagram *take(sim *s) {
  sim_datagram *d = s->first_datagram;
  s->first_datagram = d->next;
  if (!d->next) s->end_of_datagrams = &s->first_datagram;
  s->ndatagrams--;
  s->datagram_bytes -= d->len;
  return d;
}

void sim_datagrams_free(sim *s) {
  while (s->first_datagram) free(take(s));
}

/* Those who wait to send try again. */
static void tell_senders(sim *full) {
  full->starved = 0;
  for (sim *s = sim_all; s; s = s->next)
    if (s->type == PORT_DATAGRAM && s->family == PORT_UNIX) sim_tell(s, PORT_WRITE);
}

static int comes_from(const sim *s, const sim_place *from) {
  if (!s->connected) return 1;
  if (s->family == PORT_UNIX) return s->remote.path.len == from->path.len && memcmp(s->remote.path.bytes, from->path.bytes, from->path.len) == 0;
  return s->remote.port == from->port && memcmp(&s->remote.ip, &from->ip, sizeof from->ip) == 0;
}

/* The closest place; of equal ones that which was made last. */
static sim *receiver_at(const sim_place *p) {
  sim *best = NULL;
  int exact = 0;
  for (sim *s = sim_all; s; s = s->next) {
    if (s->type != PORT_DATAGRAM || !s->bound || !sim_covers(s, p)) continue;
    int closer = memcmp(&s->place.ip, &p->ip, sizeof p->ip) == 0;
    if (best && closer < exact) continue;
    best = s;
    exact = closer;
  }
  return best;
}

int sim_datagrams_connect(sim *s, const sim_place *p) {
  int err = 0;
  if (s->family == PORT_UNIX && !receiver_at(p)) return p->path.bytes[SIM_PATH] ? ENOENT : ECONNREFUSED;
  if ((err = sim_bind_any(s)) != 0) return err;
  s->place = sim_source(s, p);
  s->remote = *p;
  s->connected = 1;
  return 0;
}

int port_sim_disconnect(int fd) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  s->connected = 0;
  memset(&s->remote, 0, sizeof s->remote);
  if (s->chosen) return 0;
  memset(&s->place, 0, sizeof s->place);
  s->bound = 0;
  return 0;
}

static int deliver(sim *to, const sim_place *from, const char *p, size_t n) {
  if (is_full(to, n)) {
    if (to->family != PORT_UNIX) return 0;
    to->starved = 1;
    return EAGAIN;
  }
  sim_datagram *d = malloc(sizeof *d + n);
  if (!d) return ENOBUFS;
  d->next = NULL;
  d->from = *from;
  d->len = n;
  if (n) memcpy(d->data, p, n);
  *to->end_of_datagrams = d;
  to->end_of_datagrams = &d->next;
  to->ndatagrams++;
  to->datagram_bytes += n;
  sim_tell(to, PORT_READ);
  return 0;
}

static int send_to(sim *s, const sim_place *p, const char *data, size_t n) {
  int err = s->error;
  s->error = 0;
  if (err) return err;
  if (n > LONGEST && s->family != PORT_UNIX) return EMSGSIZE;
  if (n > DATAGRAM_BYTES) return EMSGSIZE;
  if (!sim_place_inside(p)) return ENETUNREACH;
  if ((err = sim_bind_any(s)) != 0) return err;
  sim_place from = sim_source(s, p);
  sim *to = receiver_at(p);
  if (to && comes_from(to, &from)) return deliver(to, &from, data, n);
  if (s->family == PORT_UNIX) return to ? EPERM : p->path.bytes[SIM_PATH] ? ENOENT : ECONNREFUSED;
  if (!to && s->connected) {                     /* told to the next call, as the answer comes then */
    s->error = ECONNREFUSED;
    sim_tell(s, PORT_READ);
  }
  return 0;
}

long port_sim_send(int fd, const void *p, size_t n, const port_addr *a) {
  sim *s = sim_of(fd);
  sim_place to;
  if (!s) return -EBADF;
  if (s->type == PORT_STREAM) return port_sim_write(fd, &(port_slice){ p, n }, 1);
  if (!a && !s->connected) return s->family == PORT_UNIX ? -ENOTCONN : -EDESTADDRREQ;
  if (!a) to = s->remote;
  int err = a ? sim_place_of(&to, a) : 0;
  if (!err && (to.family == PORT_UNIX) != (s->family == PORT_UNIX)) err = EAFNOSUPPORT;
  if (!err && s->family == PORT_INET && !IN6_IS_ADDR_V4MAPPED(&to.ip)) err = EAFNOSUPPORT;
  if (err) return -err;
  sim_place_here(&to);
  err = send_to(s, &to, p, n);
  return err ? -err : (long)n;
}

long port_sim_receive(int fd, void *p, size_t n, port_addr *from) {
  sim *s = sim_of(fd);
  if (from) from->len = 0;
  if (!s) return -EBADF;
  if (s->type == PORT_STREAM) return port_sim_read(fd, p, n);
  int err = s->error;
  s->error = 0;
  if (err) return -err;
  if (!s->first_datagram) return -EAGAIN;
  sim_datagram *d = take(s);
  if (n > d->len) n = d->len;
  if (n) memcpy(p, d->data, n);
  if (from) sim_place_text(&d->from, s->family, from);
  free(d);
  if (s->starved) tell_senders(s);
  return (long)n;
}

/* ---- options ---- */

static sim_option *find(sim *s, int level, int id) {
  for (int i = 0; i < s->noptions; i++)
    if (s->option[i].level == level && s->option[i].id == id) return &s->option[i];
  return NULL;
}

static int is_of(const sim *s, int level) {
  if (level == IPPROTO_TCP) return s->type == PORT_STREAM && s->family != PORT_UNIX;
  return level == SOL_SOCKET || (level == IPPROTO_IP ? s->family != PORT_UNIX : s->family == PORT_INET6);
}

static int usual(int level, int id) {
  if (level == SOL_SOCKET) return id == SO_RCVBUF || id == SO_SNDBUF ? 65536 : 0;
  if (level == IPPROTO_IP) return id == IP_TTL ? 64 : id == IP_MULTICAST_TTL || id == IP_MULTICAST_LOOP;
  if (level == IPPROTO_IPV6) return id == IPV6_UNICAST_HOPS ? 64 : id == IPV6_MULTICAST_HOPS || id == IPV6_MULTICAST_LOOP;
  return 0;
}

int port_sim_option_get(int fd, int level, int id, int *value) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  if (!is_of(s, level)) return level == SOL_SOCKET ? ENOPROTOOPT : EOPNOTSUPP;
  const sim_option *o = find(s, level, id);
  *value = o ? o->value : usual(level, id);
  if (level == SOL_SOCKET && id == SO_ERROR) {
    *value = s->error;
    s->error = 0;
  }
  if (level == IPPROTO_IPV6 && id == IPV6_V6ONLY) *value = s->v6only;
  return 0;
}

int port_sim_option_set(int fd, int level, int id, int value) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  if (!is_of(s, level)) return level == SOL_SOCKET ? ENOPROTOOPT : EOPNOTSUPP;
  if (level == IPPROTO_IPV6 && id == IPV6_V6ONLY) {
    if (s->place.family) return EINVAL;
    s->v6only = value != 0;
    return 0;
  }
  sim_option *o = find(s, level, id);
  if (!o && s->noptions == SIM_OPTIONS) return ENOBUFS;
  if (!o) o = &s->option[s->noptions++];
  *o = (sim_option){ level, id, value };
  return 0;
}

int port_sim_linger_get(int fd, int *on, int *seconds) {
  const sim *s = sim_of(fd);
  *on = s ? s->linger_on : 0;
  *seconds = s ? s->linger : 0;
  return s ? 0 : EBADF;
}

int port_sim_linger_set(int fd, int on, int seconds) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  s->linger_on = on != 0;
  s->linger = seconds;
  return 0;
}
