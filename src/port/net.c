/* net: thin, no state of its own. In runs that can be repeated sockets are those of simnet.c: each function asks by the descriptor. */
#include <fcntl.h>
#include <net/if.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>
#include "port/child.h"
#include "port/net.h"
#include "port/simnet.h"

/* ---- addresses ---- */

static struct sockaddr *raw(const port_addr *a) { return (struct sockaddr *)(uintptr_t)a->bytes; }

static void fill(port_addr *a, const void *from, size_t len) {
  memset(a, 0, sizeof *a);
  memcpy(a->bytes, from, len);
  a->len = (unsigned)len;
}

static int numeric6(port_addr *a, const char *host, int port) {
  struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
  const char *zone = strchr(host, '%');
  char text[INET6_ADDRSTRLEN];
  if (zone) {
    size_t n = (size_t)(zone - host);
    if (n >= sizeof text) return EINVAL;
    memcpy(text, host, n);
    text[n] = 0;
    host = text;
    in6.sin6_scope_id = if_nametoindex(zone + 1);
    if (!in6.sin6_scope_id) return EINVAL;
  }
  if (inet_pton(AF_INET6, host, &in6.sin6_addr) != 1) return EINVAL;
  fill(a, &in6, sizeof in6);
  return 0;
}

int port_addr_numeric(port_addr *a, const char *host, int port) {
  struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
  if (inet_pton(AF_INET, host, &in.sin_addr) != 1) return numeric6(a, host, port);
  fill(a, &in, sizeof in);
  return 0;
}

int port_addr_any(port_addr *a, int family, int port) { return port_addr_numeric(a, family == PORT_INET6 ? "::" : "0.0.0.0", port); }

int port_addr_unix(port_addr *a, const char *path, size_t len) {
  struct sockaddr_un un = { .sun_family = AF_UNIX };
  if (len == 0) return EINVAL;
  if (len >= sizeof un.sun_path) return ENAMETOOLONG;
  memcpy(un.sun_path, path, len);
  /* An abstract name has no final zero, a path has. */
  fill(a, &un, offsetof(struct sockaddr_un, sun_path) + len + (path[0] != 0));
  return 0;
}

int port_addr_native(port_addr *a, const void *sockaddr, size_t len, int port) {
  if (len > sizeof a->bytes) return EINVAL;
  fill(a, sockaddr, len);
  int family = raw(a)->sa_family;
  if (family == AF_INET) ((struct sockaddr_in *)raw(a))->sin_port = htons((uint16_t)port);
  else if (family == AF_INET6) ((struct sockaddr_in6 *)raw(a))->sin6_port = htons((uint16_t)port);
  else return EAFNOSUPPORT;
  return 0;
}

int port_addr_raw(port_addr *a, const void *sockaddr, size_t len) {
  if (len < sizeof(sa_family_t) || len > sizeof a->bytes) return EINVAL;
  fill(a, sockaddr, len);
  return 0;
}

void port_addr_map(port_addr *a) {
  if (port_addr_family(a) != PORT_INET) return;
  struct sockaddr_in in = *(struct sockaddr_in *)raw(a);
  struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = in.sin_port };
  in6.sin6_addr.s6_addr[10] = in6.sin6_addr.s6_addr[11] = 0xff;
  memcpy(in6.sin6_addr.s6_addr + 12, &in.sin_addr, 4);
  fill(a, &in6, sizeof in6);
}

int port_addr_family(const port_addr *a) {
  if (a->len < sizeof(sa_family_t)) return 0;
  switch (raw(a)->sa_family) {
    case AF_INET: return PORT_INET;
    case AF_INET6: return PORT_INET6;
    case AF_UNIX: return PORT_UNIX;
    default: return 0;
  }
}

int port_addr_port(const port_addr *a) {
  switch (port_addr_family(a)) {
    case PORT_INET: return ntohs(((struct sockaddr_in *)raw(a))->sin_port);
    case PORT_INET6: return ntohs(((struct sockaddr_in6 *)raw(a))->sin6_port);
    default: return -1;
  }
}

static size_t text6(const port_addr *a, char *buf) {
  const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)raw(a);
  char zone[IF_NAMESIZE];
  if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
    inet_ntop(AF_INET, in6->sin6_addr.s6_addr + 12, buf, PORT_ADDR_TEXT);
    return strlen(buf);
  }
  inet_ntop(AF_INET6, &in6->sin6_addr, buf, PORT_ADDR_TEXT);
  size_t n = strlen(buf);
  if (in6->sin6_scope_id && if_indextoname(in6->sin6_scope_id, zone)) n += (size_t)snprintf(buf + n, PORT_ADDR_TEXT - n, "%%%s", zone);
  return n;
}

size_t port_addr_text(const port_addr *a, char buf[PORT_ADDR_TEXT]) {
  size_t n;
  buf[0] = 0;
  switch (port_addr_family(a)) {
    case PORT_INET:
      inet_ntop(AF_INET, &((struct sockaddr_in *)raw(a))->sin_addr, buf, PORT_ADDR_TEXT);
      return strlen(buf);
    case PORT_INET6: return text6(a, buf);
    case PORT_UNIX:
      n = a->len - offsetof(struct sockaddr_un, sun_path);
      if (a->len <= offsetof(struct sockaddr_un, sun_path) || n >= PORT_ADDR_TEXT) return 0;   /* unnamed */
      memcpy(buf, ((struct sockaddr_un *)raw(a))->sun_path, n);
      buf[n] = 0;
      return buf[0] ? strlen(buf) : n;
    default: return 0;
  }
}

/* ---- sockets ---- */

static int result(int r) { return r < 0 ? errno : 0; }

int port_net_socket(int family, int type, int *fd) {
  if (PORT_UNLIKELY(port_sim_on)) return port_sim_socket(family, type, fd);
  int af = family == PORT_INET ? AF_INET : family == PORT_INET6 ? AF_INET6 : AF_UNIX;
  *fd = socket(af, (type == PORT_STREAM ? SOCK_STREAM : SOCK_DGRAM) | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  return *fd < 0 ? errno : 0;
}

void port_net_close(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) port_sim_close(fd);
  else close(fd);
}

int port_net_bind(int fd, const port_addr *a) { return PORT_UNLIKELY(port_is_sim(fd)) ? port_sim_bind(fd, a) : result(bind(fd, raw(a), a->len)); }
int port_net_listen(int fd, int backlog) { return PORT_UNLIKELY(port_is_sim(fd)) ? port_sim_listen(fd) : result(listen(fd, backlog)); }

int port_net_adopt(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return 0;
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? errno : result(fcntl(fd, F_SETFL, flags | O_NONBLOCK));
}

int port_net_duplicate(int fd, int *copy) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_duplicate(fd, copy);
  *copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  return *copy < 0 ? errno : 0;
}

int port_net_hostname(char *buf, size_t size) {
  int err = result(gethostname(buf, size));
  buf[size - 1] = 0;
  return err;
}

static int any_sim(const struct port_want *w, int n) {
  int i = 0;
  while (i < n && !port_is_sim(w[i].fd)) i++;
  return i < n;
}

/* Nothing comes while one waits for it; nor from elsewhere. */
static int sim_any(struct port_want *w, int n) {
  int count = 0;
  for (int i = 0; i < n; i++) {
    unsigned what = port_is_sim(w[i].fd) ? port_sim_ready(w[i].fd) : 0;
    w[i].read = w[i].read && (what & PORT_READ);
    w[i].write = w[i].write && (what & PORT_WRITE);
    count += w[i].read || w[i].write;
  }
  return count;
}

/* As select tells it: an end or an error is something to read, an error lets writes go through, too. */
int port_net_await_any(struct port_want *w, int n, int ms) {
  if (PORT_UNLIKELY(port_sim_on) && any_sim(w, n)) return sim_any(w, n);
  struct pollfd few[64], *p = n > 64 ? malloc((size_t)n * sizeof *p) : few;
  int count = 0;
  if (!p) return -1;
  for (int i = 0; i < n; i++)
    p[i] = (struct pollfd){ .fd = w[i].fd, .events = (short)((w[i].read ? POLLIN | POLLRDBAND : 0) | (w[i].write ? POLLOUT : 0)) };
  int some = poll(p, (nfds_t)n, ms);
  if (some <= 0) {
    for (int i = 0; i < n; i++) w[i].read = w[i].write = 0;
  } else {
    for (int i = 0; i < n; i++) {
      w[i].read = w[i].read && (p[i].revents & (POLLIN | POLLHUP | POLLERR | POLLRDBAND));
      w[i].write = w[i].write && (p[i].revents & (POLLOUT | POLLERR));
      count += w[i].read || w[i].write;
    }
  }
  if (p != few) free(p);
  return count;
}

int port_net_ready(struct port_want *w, int n) { return port_net_await_any(w, n, 0); }

int port_net_accept(int fd, int *conn) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_accept(fd, conn);
  for (;;) {
    *conn = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (*conn >= 0) return 0;
    /* The connection is gone already: not the listener's error. */
    if (errno != EINTR && errno != ECONNABORTED && errno != EPROTO && errno != EPERM) return errno;
  }
}

int port_net_connect(int fd, const port_addr *a) {
  int r;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_connect(fd, a);
  do r = connect(fd, raw(a), a->len);
  while (r < 0 && errno == EINTR);
  return result(r);
}

int port_net_connected(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_connected(fd);
  struct pollfd p = { .fd = fd, .events = POLLOUT };
  int err = 0;
  socklen_t len = sizeof err;
  if (poll(&p, 1, 0) == 0) return EINPROGRESS;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0) return errno;
  return err;
}

long port_net_read(int fd, void *p, size_t n) {
  ssize_t r;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_read(fd, p, n);
  do r = recv(fd, p, n, MSG_DONTWAIT);
  while (r < 0 && errno == EINTR);
  if (r < 0 && errno == ENOTSOCK) return port_pipe_read(fd, p, n);       /* of a subprocess */
  return r < 0 ? -errno : (long)r;
}

/* With a time limit a read is not begun again after a signal, whatever the handler says: signal(7). */
int port_net_patient(int fd) {
  struct timeval second = { .tv_sec = 1 };
  if (port_is_sim(fd)) return EOPNOTSUPP;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second) < 0) return errno;
  int flags = fcntl(fd, F_GETFL);
  return flags < 0 ? errno : result(fcntl(fd, F_SETFL, flags & ~O_NONBLOCK));
}

long port_net_read_patient(int fd, void *p, size_t n) {
  ssize_t r = recv(fd, p, n, 0);
  return r < 0 ? -errno : (long)r;
}

static long write_one(int fd, const void *p, size_t n) {
  ssize_t r;
  do r = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (r < 0 && errno == EINTR);
  return r < 0 ? -errno : (long)r;
}

static long write_some(int fd, const port_slice *s, int n) {
  if (n == 1) return write_one(fd, s[0].p, s[0].len);
  struct iovec v[PORT_SLICES];
  struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
  ssize_t r;
  for (int i = 0; i < n; i++) v[i] = (struct iovec){ .iov_base = (void *)(uintptr_t)s[i].p, .iov_len = s[i].len };
  do r = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
  while (r < 0 && errno == EINTR);
  return r < 0 ? -errno : (long)r;
}

long port_net_write(int fd, const port_slice *s, int n) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_write(fd, s, n);
  long r = write_some(fd, s, n);
  return r == -ENOTSOCK ? port_pipe_write(fd, s[0].p, s[0].len) : r;     /* of a subprocess */
}

long port_net_receive(int fd, void *p, size_t n, port_addr *from) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_receive(fd, p, n, from);
  socklen_t len = sizeof from->bytes;
  ssize_t r;
  do r = recvfrom(fd, p, n, 0, raw(from), &len);
  while (r < 0 && errno == EINTR);
  from->len = r < 0 ? 0 : (unsigned)len;
  return r < 0 ? -errno : (long)r;
}

long port_net_send(int fd, const void *p, size_t n, const port_addr *to) {
  ssize_t r;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_send(fd, p, n, to);
  if (!to) return write_one(fd, p, n);
  do r = sendto(fd, p, n, MSG_NOSIGNAL, raw(to), to->len);
  while (r < 0 && errno == EINTR);
  return r < 0 ? -errno : (long)r;
}

int port_net_wait(int fd, int write, int ms) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return (port_sim_ready(fd) & (write ? PORT_WRITE : PORT_READ)) != 0;
  struct pollfd p = { .fd = fd, .events = write ? POLLOUT : POLLIN };
  return poll(&p, 1, ms) > 0;
}

int port_net_readable(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return (port_sim_ready(fd) & PORT_READ) != 0;
  struct pollfd p = { .fd = fd, .events = POLLIN };
  return poll(&p, 1, 0) > 0;
}

int port_net_writable(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return (port_sim_ready(fd) & PORT_WRITE) != 0;
  struct pollfd p = { .fd = fd, .events = POLLOUT };
  return poll(&p, 1, 0) > 0;
}

int port_net_shutdown(int fd, int read, int write) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_shutdown(fd, read, write);
  return result(shutdown(fd, read && write ? SHUT_RDWR : read ? SHUT_RD : SHUT_WR));
}

int port_net_local(int fd, port_addr *a) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_local(fd, a);
  socklen_t len = sizeof a->bytes;
  memset(a, 0, sizeof *a);
  int r = result(getsockname(fd, raw(a), &len));
  a->len = r ? 0 : (unsigned)len;
  return r;
}

int port_net_peer(int fd, port_addr *a) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_peer(fd, a);
  socklen_t len = sizeof a->bytes;
  memset(a, 0, sizeof *a);
  int r = result(getpeername(fd, raw(a), &len));
  a->len = r ? 0 : (unsigned)len;
  return r;
}

int port_net_disconnect(int fd) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_disconnect(fd);
  struct sockaddr none = { .sa_family = AF_UNSPEC };
  return result(connect(fd, &none, sizeof none));
}

/* A refused connection shows that the file is a left-over. */
int port_net_unlink_stale(const port_addr *a) {
  char path[PORT_ADDR_TEXT];
  struct stat st;
  int fd, err;
  if (port_sim_on || port_addr_family(a) != PORT_UNIX || !port_addr_text(a, path) || !path[0]) return 0;
  if (lstat(path, &st) != 0) return errno == ENOENT ? 0 : errno;
  if (!S_ISSOCK(st.st_mode)) return EEXIST;
  if ((err = port_net_socket(PORT_UNIX, PORT_STREAM, &fd)) != 0) return err;
  err = port_net_connect(fd, a);
  close(fd);
  return err == ECONNREFUSED ? result(unlink(path)) : EADDRINUSE;
}

int port_net_permit(const port_addr *a, unsigned mode) {
  char path[PORT_ADDR_TEXT];
  if (port_sim_on || port_addr_family(a) != PORT_UNIX || !port_addr_text(a, path) || !path[0]) return 0;
  return result(chmod(path, (mode_t)mode));
}

void port_net_unlink_own(const port_addr *a) {
  char path[PORT_ADDR_TEXT];
  if (!port_sim_on && port_addr_family(a) == PORT_UNIX && port_addr_text(a, path) && path[0]) unlink(path);
}

/* ---- options ---- */

static const struct option { const char *name; int level, level6, id, id6; } options[] = {
  { "nodelay", IPPROTO_TCP, 0, TCP_NODELAY, 0 },
  { "keepalive", SOL_SOCKET, 0, SO_KEEPALIVE, 0 },
  { "reuseaddr", SOL_SOCKET, 0, SO_REUSEADDR, 0 },
  { "reuseport", SOL_SOCKET, 0, SO_REUSEPORT, 0 },
  { "rcvbuf", SOL_SOCKET, 0, SO_RCVBUF, 0 },
  { "sndbuf", SOL_SOCKET, 0, SO_SNDBUF, 0 },
  { "broadcast", SOL_SOCKET, 0, SO_BROADCAST, 0 },
  { "v6only", IPPROTO_IPV6, 0, IPV6_V6ONLY, 0 },
  { "ttl", IPPROTO_IP, IPPROTO_IPV6, IP_TTL, IPV6_UNICAST_HOPS },
  { "linger", SOL_SOCKET, 0, SO_LINGER, 0 },
};

static const struct option *find(const char *name) {
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (strcmp(options[i].name, name) == 0) return &options[i];
  return NULL;
}

int port_net_option_known(const char *name) { return find(name) != NULL; }

static int resolve(int fd, const struct option *o, int *level, int *id) {
  port_addr a;
  *level = o->level;
  *id = o->id;
  if (!o->level6) return 0;
  int err = port_net_local(fd, &a);
  if (!err && port_addr_family(&a) == PORT_INET6) {
    *level = o->level6;
    *id = o->id6;
  }
  return err;
}

static int sim_get(int fd, int level, int id, int *value) {
  int on, seconds;
  if (id != SO_LINGER || level != SOL_SOCKET) return port_sim_option_get(fd, level, id, value);
  int err = port_sim_linger_get(fd, &on, &seconds);
  *value = on ? seconds : -1;
  return err;
}

static int sim_set(int fd, int level, int id, int value) {
  if (id != SO_LINGER || level != SOL_SOCKET) return port_sim_option_set(fd, level, id, value);
  return port_sim_linger_set(fd, value >= 0, value >= 0 ? value : 0);
}

int port_net_option_get(int fd, const char *name, int *value) {
  const struct option *o = find(name);
  int level, id, err = resolve(fd, o, &level, &id);
  struct linger l;
  socklen_t len = sizeof *value, llen = sizeof l;
  if (err) return err;
  if (PORT_UNLIKELY(port_is_sim(fd))) return sim_get(fd, level, id, value);
  if (id != SO_LINGER || level != SOL_SOCKET) return result(getsockopt(fd, level, id, value, &len));
  if (getsockopt(fd, level, id, &l, &llen) < 0) return errno;
  *value = l.l_onoff ? l.l_linger : -1;
  return 0;
}

int port_net_option_set(int fd, const char *name, int value) {
  const struct option *o = find(name);
  int level, id, err = resolve(fd, o, &level, &id);
  struct linger l = { .l_onoff = value >= 0, .l_linger = value >= 0 ? value : 0 };
  if (err) return err;
  if (PORT_UNLIKELY(port_is_sim(fd))) return sim_set(fd, level, id, value);
  if (id != SO_LINGER || level != SOL_SOCKET) return result(setsockopt(fd, level, id, &value, sizeof value));
  return result(setsockopt(fd, level, id, &l, sizeof l));
}

void port_net_await(int fd, int bytes) {
  if (PORT_UNLIKELY(port_is_sim(fd))) return;
  setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof bytes);       /* where that is not possible, it wakes more often */
}

int port_net_nodelay(int fd) {
  int one = 1;
  if (PORT_UNLIKELY(port_is_sim(fd))) return port_sim_option_set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ? errno : 0;
}
