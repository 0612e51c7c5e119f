/* resolve: getaddrinfo, with symbolic codes ("EAI_NONAME", or errno's for EAI_SYSTEM). */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "port/errors.h"
#include "port/resolve.h"
#include "port/simnet.h"

_Static_assert(sizeof(struct sockaddr_storage) <= PORT_ADDRESS_MAX, "an address fits");

static const char *code_of(int e) {
  static const struct { int e; const char *name; } known[] = {
    { EAI_AGAIN, "EAI_AGAIN" },   { EAI_BADFLAGS, "EAI_BADFLAGS" }, { EAI_FAIL, "EAI_FAIL" },       { EAI_FAMILY, "EAI_FAMILY" },
    { EAI_MEMORY, "ENOMEM" },     { EAI_NODATA, "EAI_NODATA" },     { EAI_NONAME, "EAI_NONAME" },   { EAI_SERVICE, "EAI_SERVICE" },
    { EAI_OVERFLOW, "EAI_OVERFLOW" }, { EAI_SOCKTYPE, "EAI_SOCKTYPE" }, { EAI_ADDRFAMILY, "EAI_ADDRFAMILY" },
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].e == e) return known[i].name;
  return "EAI_FAIL";
}

/* Without a descriptor for its files and sockets getaddrinfo takes every name for unknown. */
static int out_of_descriptors(void) {
  int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0), err = errno;
  if (fd >= 0) close(fd);
  return fd < 0 && err == EMFILE;
}

static int failed(const port_query *q, int e, int err, const char **code, char *text, size_t size) {
  char buf[128];
  *code = e == EAI_SYSTEM ? port_error_name(err) : code_of(e);
  snprintf(text, size, "%s: %s", q->host ? q->host : "any address", e == EAI_SYSTEM ? port_error_text(err, buf, sizeof buf) : gai_strerror(e));
  return 0;
}

int port_resolve(const port_query *q, port_address *out, int max, const char **code, char *text, size_t size) {
  static const int families[] = { AF_UNSPEC, AF_INET, AF_INET6 };
  struct addrinfo hints, *list;
  int n = 0;
  if (PORT_UNLIKELY(port_sim_on) && (n = port_sim_resolve(q, out, max)) > 0) return n;
  memset(&hints, 0, sizeof hints);
  hints.ai_family = families[q->family];
  hints.ai_socktype = q->datagram ? SOCK_DGRAM : SOCK_STREAM;
  hints.ai_flags = (q->passive ? AI_PASSIVE : 0) | (q->numeric ? AI_NUMERICHOST | AI_NUMERICSERV : 0);
  int e = getaddrinfo(q->host, q->service || q->host ? q->service : "0", &hints, &list);
  if (e && e != EAI_SYSTEM && out_of_descriptors()) {
    e = EAI_SYSTEM;
    errno = EMFILE;
  }
  if (e) return failed(q, e, errno, code, text, size);
  for (struct addrinfo *a = list; a && n < max; a = a->ai_next) {
    if (a->ai_addrlen > PORT_ADDRESS_MAX) continue;
    out[n].len = (unsigned)a->ai_addrlen;
    memcpy(out[n++].u.bytes, a->ai_addr, a->ai_addrlen);
  }
  freeaddrinfo(list);
  return n > 0 ? n : failed(q, EAI_NONAME, 0, code, text, size);
}
