/* sockopt: see sockopt.h; a table, and the few kinds of values. */
#include "port/sockopt.h"
#include "port/simnet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#define TCP_BOTH (PORT_OPT_TCP_GET | PORT_OPT_TCP_SET)
#define UDP_BOTH (PORT_OPT_UDP_GET | PORT_OPT_UDP_SET)
#define UNIX_BOTH (PORT_OPT_UNIX_GET | PORT_OPT_UNIX_SET)
#define EVERY (TCP_BOTH | UDP_BOTH | UNIX_BOTH)

static const port_sockopt options[] = {
  { "keepalive", SOL_SOCKET, SO_KEEPALIVE, PORT_OPT_FLAG, TCP_BOTH | UNIX_BOTH },
  { "reuseaddr", SOL_SOCKET, SO_REUSEADDR, PORT_OPT_FLAG, EVERY },
  { "reuseport", SOL_SOCKET, SO_REUSEPORT, PORT_OPT_FLAG, TCP_BOTH | UDP_BOTH },
  { "tcp-nodelay", IPPROTO_TCP, TCP_NODELAY, PORT_OPT_FLAG, TCP_BOTH },
  { "tcp-keepidle", IPPROTO_TCP, TCP_KEEPIDLE, PORT_OPT_NUMBER, TCP_BOTH },
  { "tcp-keepcnt", IPPROTO_TCP, TCP_KEEPCNT, PORT_OPT_NUMBER, TCP_BOTH },
  { "tcp-keepintvl", IPPROTO_TCP, TCP_KEEPINTVL, PORT_OPT_NUMBER, TCP_BOTH },
  { "tcp-defer-accept", IPPROTO_TCP, TCP_DEFER_ACCEPT, PORT_OPT_NUMBER, PORT_OPT_TCP_SET },
  { "tcp-fastopen", IPPROTO_TCP, TCP_FASTOPEN, PORT_OPT_NUMBER, PORT_OPT_TCP_SET },
  { "tcp-fastopen-connect", IPPROTO_TCP, TCP_FASTOPEN_CONNECT, PORT_OPT_NUMBER, PORT_OPT_TCP_SET },
  { "linger", SOL_SOCKET, SO_LINGER, PORT_OPT_LINGER, TCP_BOTH | PORT_OPT_UNIX_SET },
  { "error", SOL_SOCKET, SO_ERROR, PORT_OPT_ERROR, PORT_OPT_TCP_GET | PORT_OPT_UDP_GET },
  { "bindtodevice", SOL_SOCKET, SO_BINDTODEVICE, PORT_OPT_DEVICE, TCP_BOTH | UDP_BOTH },
  { "recv-buffer-size", SOL_SOCKET, SO_RCVBUF, PORT_OPT_NUMBER, TCP_BOTH | UDP_BOTH },
  { "send-buffer-size", SOL_SOCKET, SO_SNDBUF, PORT_OPT_NUMBER, TCP_BOTH | UDP_BOTH },
  { "ipv6-v6only", IPPROTO_IPV6, IPV6_V6ONLY, PORT_OPT_FLAG, PORT_OPT_TCP_SET | UDP_BOTH },
  { "dontroute", SOL_SOCKET, SO_DONTROUTE, PORT_OPT_FLAG, UDP_BOTH },
  { "broadcast", SOL_SOCKET, SO_BROADCAST, PORT_OPT_FLAG, UDP_BOTH },
  { "ip-multicast-if", IPPROTO_IP, IP_MULTICAST_IF, PORT_OPT_INTERFACE, UDP_BOTH },
  { "ip-multicast-ttl", IPPROTO_IP, IP_MULTICAST_TTL, PORT_OPT_NUMBER, PORT_OPT_UDP_SET },
  { "ip-multicast-loop", IPPROTO_IP, IP_MULTICAST_LOOP, PORT_OPT_FLAG, UDP_BOTH },
  { "ip-add-membership", IPPROTO_IP, IP_ADD_MEMBERSHIP, PORT_OPT_MEMBER, PORT_OPT_UDP_SET },
  { "ip-drop-membership", IPPROTO_IP, IP_DROP_MEMBERSHIP, PORT_OPT_MEMBER, PORT_OPT_UDP_SET },
  { "ipv6-unicast-hops", IPPROTO_IPV6, IPV6_UNICAST_HOPS, PORT_OPT_NUMBER, UDP_BOTH },
  { "ipv6-multicast-hops", IPPROTO_IPV6, IPV6_MULTICAST_HOPS, PORT_OPT_NUMBER, UDP_BOTH },
  { "ipv6-multicast-loop", IPPROTO_IPV6, IPV6_MULTICAST_LOOP, PORT_OPT_FLAG, UDP_BOTH },
  { "ipv6-add-membership", IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, PORT_OPT_MEMBER6, PORT_OPT_UDP_SET },
  { "ipv6-drop-membership", IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, PORT_OPT_MEMBER6, PORT_OPT_UDP_SET },
};

static int result(int r) { return r < 0 ? errno : 0; }

const port_sockopt *port_sockopt_find(const char *name, int where) {
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if ((options[i].where & where) && strcmp(options[i].name, name) == 0) return &options[i];
  return NULL;
}

int port_sockopt_get(int fd, const port_sockopt *o, int *value) {
  socklen_t len = sizeof *value;
  *value = 0;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_option_get(fd, o->level, o->id, value);
  return result(getsockopt(fd, o->level, o->id, value, &len));
}

int port_sockopt_set(int fd, const port_sockopt *o, int value) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_option_set(fd, o->level, o->id, value);
  return result(setsockopt(fd, o->level, o->id, &value, sizeof value));
}

int port_sockopt_linger_get(int fd, int *on, int *seconds) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_linger_get(fd, on, seconds);
  struct linger l = { 0, 0 };
  socklen_t len = sizeof l;
  int err = result(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len));
  *on = l.l_onoff != 0;
  *seconds = l.l_linger;
  return err;
}

int port_sockopt_linger_set(int fd, int on, int seconds) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_linger_set(fd, on, seconds);
  struct linger l = { on, seconds };
  return result(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
}

int port_sockopt_text_get(int fd, const port_sockopt *o, char buf[PORT_OPT_TEXT]) {
  struct in_addr in = { 0 };
  socklen_t len = PORT_OPT_TEXT - 1, inlen = sizeof in;
  memset(buf, 0, PORT_OPT_TEXT);
  if (o->kind == PORT_OPT_DEVICE) return result(getsockopt(fd, o->level, o->id, buf, &len));
  if (getsockopt(fd, o->level, o->id, &in, &inlen) < 0) return errno;
  return inet_ntop(AF_INET, &in, buf, PORT_OPT_TEXT) ? 0 : errno;
}

int port_sockopt_text_set(int fd, const port_sockopt *o, const char *text) {
  struct in_addr in = { htonl(INADDR_ANY) };
  if (o->kind == PORT_OPT_DEVICE) return result(setsockopt(fd, o->level, o->id, text, (socklen_t)strlen(text) + 1));
  if (strcmp(text, "*") != 0 && !inet_aton(text, &in)) return EINVAL;
  return result(setsockopt(fd, o->level, o->id, &in, sizeof in));
}

int port_sockopt_is_group(const port_sockopt *o, const char *group) {
  struct in6_addr in;
  return o->kind == PORT_OPT_MEMBER ? inet_aton(group, (struct in_addr *)(void *)&in) != 0 : inet_pton(AF_INET6, group, &in) == 1;
}

static int member4(int fd, const port_sockopt *o, const char *group, const char *address, int *bad) {
  struct ip_mreq m = { .imr_interface.s_addr = htonl(INADDR_ANY) };
  *bad = address && strcmp(address, "*") != 0 && !inet_aton(address, &m.imr_interface);
  return *bad || !inet_aton(group, &m.imr_multiaddr) ? EINVAL : result(setsockopt(fd, o->level, o->id, &m, sizeof m));
}

int port_sockopt_member(int fd, const port_sockopt *o, const char *group, const char *address, unsigned number, int *bad) {
  struct ipv6_mreq m = { .ipv6mr_interface = number };
  if (o->kind == PORT_OPT_MEMBER) return member4(fd, o, group, address, bad);
  *bad = 0;
  return inet_pton(AF_INET6, group, &m.ipv6mr_multiaddr) != 1 ? EINVAL : result(setsockopt(fd, o->level, o->id, &m, sizeof m));
}
