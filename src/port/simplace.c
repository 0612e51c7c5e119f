/* simplace: addresses, who has which, and names of hosts, in the network of simnet.h. IPv4 addresses are mapped, so that there is one kind of them. */
#include "port/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { FIRST_PORT = 49152, PORTS = 65536 };

static int next_port = FIRST_PORT;

static int is_all4(const struct in6_addr *ip) { return sim_is_mapped(ip) && memcmp(ip->s6_addr + 12, "\0\0\0\0", 4) == 0; }
static int is_all(const struct in6_addr *ip) { return IN6_IS_ADDR_UNSPECIFIED(ip) || is_all4(ip); }
static int is_loopback(const struct in6_addr *ip) { return IN6_IS_ADDR_LOOPBACK(ip) || (sim_is_mapped(ip) && ip->s6_addr[12] == 127); }

static void ip4(struct in6_addr *ip, uint32_t host) {
  static const unsigned char prefix[12] = { [10] = 0xff, [11] = 0xff };
  uint32_t net = htonl(host);
  memcpy(ip->s6_addr, prefix, 12);
  memcpy(ip->s6_addr + 12, &net, 4);
}

int sim_place_of(sim_place *p, const port_addr *a) {
  memset(p, 0, sizeof *p);
  p->family = (unsigned char)port_addr_family(a);
  if (p->family == PORT_UNIX) {
    p->path = *a;
    return a->len > SIM_PATH ? 0 : EINVAL;
  }
  if (!p->family) return EAFNOSUPPORT;
  port_addr b = *a;
  port_addr_map(&b);
  const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)b.bytes;
  p->ip = in6->sin6_addr;
  p->port = ntohs(in6->sin6_port);
  return 0;
}

void sim_place_text(const sim_place *p, int family, port_addr *a) {
  struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(p->port) };
  struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(p->port), .sin6_addr = p->ip };
  sa_family_t nameless = AF_UNIX;
  memcpy(&in.sin_addr, p->ip.s6_addr + 12, 4);   /* of no place: zeros */
  memset(a, 0, sizeof *a);
  if (family == PORT_INET) port_addr_raw(a, &in, sizeof in);
  else if (family == PORT_INET6) port_addr_raw(a, &in6, sizeof in6);
  else if (p->path.len) *a = p->path;
  else port_addr_raw(a, &nameless, sizeof nameless);
}

static int same_path(const sim_place *a, const sim_place *b) {
  return a->path.len && a->path.len == b->path.len && memcmp(a->path.bytes, b->path.bytes, a->path.len) == 0;
}

int sim_covers(const sim *s, const sim_place *p) {
  const sim_place *own = &s->place;
  if ((own->family == PORT_UNIX) != (p->family == PORT_UNIX)) return 0;
  if (own->family == PORT_UNIX) return same_path(own, p);
  if (own->port != p->port) return 0;
  if (sim_same_ip(&own->ip, &p->ip)) return 1;
  if (is_all4(&own->ip)) return sim_is_mapped(&p->ip);
  return IN6_IS_ADDR_UNSPECIFIED(&own->ip) && (!sim_is_mapped(&p->ip) || !s->v6only);
}

void sim_place_here(sim_place *p) {
  if (p->family == PORT_UNIX || !is_all(&p->ip)) return;
  if (sim_is_mapped(&p->ip)) ip4(&p->ip, INADDR_LOOPBACK);
  else p->ip = in6addr_loopback;
}

/* Nothing of the network: or a socket that a program outside has. */
static int path_inside(const sim_place *p) {
  char path[PORT_ADDR_TEXT];
  struct stat st;
  for (const sim *s = sim_all; s; s = s->next)
    if (s->bound && sim_covers(s, p)) return 1;
  return !port_addr_text(&p->path, path) || !path[0] || stat(path, &st) != 0 || !S_ISSOCK(st.st_mode);
}

int sim_place_inside(const sim_place *p) {
  if (p->family == PORT_UNIX) return path_inside(p);
  if (is_loopback(&p->ip) || is_all(&p->ip)) return 1;
  for (const sim *s = sim_all; s; s = s->next)
    if (s->bound && s->place.family != PORT_UNIX && sim_same_ip(&s->place.ip, &p->ip)) return 1;
  return 0;
}

int port_sim_inside(const port_addr *a) {
  sim_place p;
  return sim_place_of(&p, a) != 0 || sim_place_inside(&p);
}

static int option(const sim *s, int id) {
  for (int i = 0; i < s->noptions; i++)
    if (s->option[i].level == SOL_SOCKET && s->option[i].id == id) return s->option[i].value;
  return 0;
}

static int overlap(const sim *a, const sim *b) { return sim_covers(a, &b->place) || sim_covers(b, &a->place); }

/* 1: both may have that place. */
static int may_share(const sim *a, const sim *b) {
  if (a->family == PORT_UNIX) return 0;
  if (option(a, SO_REUSEPORT) && option(b, SO_REUSEPORT)) return 1;
  return option(a, SO_REUSEADDR) && option(b, SO_REUSEADDR) && !(a->listening && b->listening);
}

int sim_is_taken(const sim *s) {
  for (const sim *o = sim_all; o; o = o->next)
    if (o != s && o->bound && o->type == s->type && overlap(o, s) && !may_share(o, s)) return 1;
  return 0;
}

static int take_port(sim *s) {
  for (int tries = FIRST_PORT; tries < PORTS; tries++) {
    s->place.port = (uint16_t)next_port++;
    if (next_port == PORTS) next_port = FIRST_PORT;
    int used = 0;
    for (const sim *o = sim_all; o && !used; o = o->next) used = o != s && o->bound && o->type == s->type && overlap(o, s);
    if (!used) return 0;
  }
  return EADDRINUSE;
}

static int bind_to(sim *s, const sim_place *p) {
  int err = 0;
  if (s->place.family) return EINVAL;
  if ((p->family == PORT_UNIX) != (s->family == PORT_UNIX)) return EAFNOSUPPORT;
  if (s->family == PORT_INET && !sim_is_mapped(&p->ip)) return EAFNOSUPPORT;
  s->place = *p;
  s->place.family = s->family;
  if (s->family != PORT_UNIX && p->port == 0) err = take_port(s);
  else if (sim_is_taken(s)) err = EADDRINUSE;
  s->bound = !err;
  if (err) memset(&s->place, 0, sizeof s->place);
  return err;
}

int port_sim_bind(int fd, const port_addr *a) {
  sim *s = sim_of(fd);
  sim_place p;
  int err = s ? sim_place_of(&p, a) : EBADF;
  if (!err) err = bind_to(s, &p);
  if (!err) s->chosen = 1;
  return err;
}

int sim_bind_any(sim *s) {
  sim_place p = { .family = s->family };
  if (s->place.family || s->family == PORT_UNIX) return 0;
  if (s->family == PORT_INET) ip4(&p.ip, INADDR_ANY);
  return bind_to(s, &p);
}

sim_place sim_source(const sim *s, const sim_place *to) {
  sim_place p = s->place;
  if (s->family == PORT_UNIX || !is_all(&p.ip)) return p;
  p.ip = to->ip;
  if (sim_is_mapped(&p.ip) && is_loopback(&p.ip)) ip4(&p.ip, INADDR_LOOPBACK);
  return p;
}

static int name_of(int fd, port_addr *a, int remote) {
  const sim *s = sim_of(fd);
  memset(a, 0, sizeof *a);
  if (!s) return EBADF;
  if (remote && !s->remote.family) return ENOTCONN;
  sim_place p = remote ? s->remote : s->place;
  if (!p.family && s->family == PORT_INET) ip4(&p.ip, INADDR_ANY);
  sim_place_text(&p, s->family, a);
  return 0;
}

int port_sim_local(int fd, port_addr *a) { return name_of(fd, a, 0); }
int port_sim_peer(int fd, port_addr *a) { return name_of(fd, a, 1); }

/* ---- names ---- */

enum { NAME = 256 };

int port_sim_knows(const char *host) {
  char own[NAME];
  size_t n = host ? strlen(host) : 0, tail = sizeof ".localhost" - 1;
  if (!host || strcmp(host, "localhost") == 0 || (n > tail && strcmp(host + n - tail, ".localhost") == 0)) return 1;
  return port_net_hostname(own, sizeof own) == 0 && strcmp(host, own) == 0;
}

static void add_address(port_address *to, const struct in6_addr *ip, int family, int port) {
  sim_place p = { .family = (unsigned char)family, .ip = *ip, .port = (uint16_t)port };
  port_addr a;
  sim_place_text(&p, family, &a);
  to->len = a.len;
  memcpy(to->u.bytes, a.bytes, a.len);
}

int port_sim_resolve(const port_query *q, port_address *out, int max) {
  struct in6_addr four, six;
  char *end;
  long port = q->service ? strtol(q->service, &end, 10) : 0;
  int n = 0;
  if ((q->numeric && q->host) || !port_sim_knows(q->host) || (q->service && (!*q->service || *end)) || port < 0 || port >= PORTS) return 0;
  int all = !q->host && q->passive;
  ip4(&four, all ? INADDR_ANY : INADDR_LOOPBACK);
  six = all ? in6addr_any : in6addr_loopback;
  if (q->family != PORT_RESOLVE_6 && n < max) add_address(&out[n++], &four, PORT_INET, (int)port);
  if (q->family != PORT_RESOLVE_4 && n < max) add_address(&out[n++], &six, PORT_INET6, (int)port);
  return n;
}
