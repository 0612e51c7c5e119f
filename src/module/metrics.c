/* metrics: where numbers for Prometheus are served. What is served there is the observer's matter (observe.c). */
#include "module/net.h"
#include "module/observe.h"
#include "port/door.h"
#include "port/errors.h"
#include "port/resolve.h"

#include <errno.h>

static int listen_on(const port_addr *a, int v6only, int *fd) {
  int family = port_addr_family(a), err = port_net_socket(family, PORT_STREAM, fd);
  if (err) return err;
  if (family != PORT_UNIX) port_net_option_set(*fd, "reuseaddr", 1);
  if (family == PORT_INET6) port_net_option_set(*fd, "v6only", v6only);
  err = port_net_bind(*fd, a);
  if (err == EADDRINUSE && family == PORT_UNIX && port_net_unlink_stale(a) == 0) err = port_net_bind(*fd, a);
  if (!err) err = port_net_listen(*fd, 16);
  if (err) port_net_close(*fd);
  return err;
}

/* Every interface: one socket for IPv6 and IPv4, or where there is no IPv6 one for IPv4. */
static int listen_everywhere(int port, int *fd) {
  port_addr a;
  int err = port_addr_any(&a, PORT_INET6, port);
  if (!err) err = listen_on(&a, 0, fd);
  if (!err || err == EADDRINUSE || err == EACCES) return err;
  err = port_addr_any(&a, PORT_INET, port);
  return err ? err : listen_on(&a, 0, fd);
}

typedef struct sockets { int *fd, n; } sockets;

/* All of a name's addresses that can be had. 0, or the first error; text: what a resolver says. */
static int listen_at_name(const char *host, int port, sockets *s, char *text, size_t size) {
  port_address found[MR_METRICS];
  port_query q = { .host = host, .passive = 1 };
  const char *code;
  int n = port_resolve(&q, found, MR_METRICS, &code, text, size), first = n > 0 ? 0 : ENOENT;
  for (int i = 0; i < n; i++) {
    port_addr a;
    int err = port_addr_native(&a, found[i].u.bytes, found[i].len, port);
    if (!err) err = listen_on(&a, 1, &s->fd[s->n]);
    if (!err) s->n++;
    else if (!first) first = err;
  }
  return s->n > 0 ? 0 : first;
}

int mr_metrics_listen(lua_State *L, int idx, int *fd) {
  mr_where w;
  char text[200] = "";
  sockets s = { fd, 0 };
  int err;
  mr_where_get(L, idx, &w);
  if (!w.is_path && w.host && *w.host) {
    err = listen_at_name(w.host, w.port, &s, text, sizeof text);
  } else {
    err = w.is_path ? listen_on(&w.path, 0, fd) : listen_everywhere(w.port, fd);
    s.n = 1;
  }
  if (!err && w.is_path) port_door_keep(&w.path);
  if (err) luaL_error(L, "can't serve metrics at %s: %s", lua_tostring(L, idx), *text ? text : port_error_text(err, text, sizeof text));
  return s.n;
}
