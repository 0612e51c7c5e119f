/* listener: see listener.h. */
#include "io/listener.h"
#include "observe/trace.h"

#include <stdlib.h>

#define CLOSED 0x80000000u

const mr_sharetype *mr_listener_type;

/* Takes the descriptor over, also when it fails. */
static mr_listener *new(int fd, int *err) {
  mr_watch *w = mr_watch_open(fd, err);
  mr_listener *l = w ? calloc(1, sizeof *l) : NULL;
  mr_rota *r = l ? mr_rota_new() : NULL;
  if (r) {
    l->shared.type = mr_listener_type;
    atomic_init(&l->shared.refs, 1);
    l->fd = fd;
    l->watch = w;
    l->rota = r;
    l->patience = UINT64_MAX;
    return l;
  }
  free(l);
  if (w) {
    mr_watch_close(w, NULL);
    *err = ENOMEM;
  }
  port_net_close(fd);
  return NULL;
}

static int prepare(int fd, int family, const mr_listening *how) {
  int err = 0;
  if (family == PORT_UNIX) return 0;
  port_net_option_set(fd, "reuseaddr", 1);
  port_net_nodelay(fd);                          /* connections inherit it */
  if (family == PORT_INET6) err = port_net_option_set(fd, "v6only", how->v6only);
  if (!err && how->reuseport) err = port_net_option_set(fd, "reuseport", 1);
  return err;
}

mr_listener *mr_listener_open(const port_addr *at, const mr_listening *how, int *err) {
  int fd, family = port_addr_family(at);
  if (family == PORT_UNIX && (*err = port_net_unlink_stale(at)) != 0) return NULL;
  if ((*err = port_net_socket(family, PORT_STREAM, &fd)) != 0) return NULL;
  *err = prepare(fd, family, how);
  if (!*err) *err = port_net_bind(fd, at);
  if (*err) return port_net_close(fd), NULL;
  if (how->mode >= 0) *err = port_net_permit(at, (unsigned)how->mode);   /* before anybody can connect */
  if (!*err) *err = port_net_listen(fd, how->backlog);
  mr_listener *l = *err ? (port_net_close(fd), NULL) : new(fd, err);
  if (!l) port_net_unlink_own(at);
  else if (family == PORT_UNIX) l->path = *at;
  return l;
}

mr_listener *mr_listener_open_any(int port, const mr_listening *how, int *err) {
  port_addr a;
  port_addr_any(&a, PORT_INET6, port);
  mr_listener *l = mr_listener_open(&a, how, err);
  if (l || (*err != EAFNOSUPPORT && *err != EADDRNOTAVAIL) || how->v6only) return l;
  port_addr_any(&a, PORT_INET, port);
  return mr_listener_open(&a, how, err);
}

int mr_listener_enter(mr_listener *l) {
  unsigned n = atomic_load_explicit(&l->users, memory_order_relaxed);
  do {
    if (n & CLOSED) return 0;
  } while (!atomic_compare_exchange_weak(&l->users, &n, n + 1));
  return 1;
}

void mr_listener_leave(mr_listener *l, mr_fiber *near) {
  mr_assert((atomic_load(&l->users) & ~CLOSED) > 0);
  if (atomic_fetch_sub(&l->users, 1) != (CLOSED | 1)) return;
  mr_watch_close(l->watch, near);
  port_net_close(l->fd);
}

void mr_listener_close(mr_listener *l, mr_fiber *near) {
  if (!mr_listener_enter(l)) return;
  if (!(atomic_fetch_or(&l->users, CLOSED) & CLOSED)) port_net_unlink_own(&l->path);
  mr_listener_leave(l, near);
}

/* Also when it is closed meanwhile: watches are never freed, and only this one can have the node. */
void mr_listener_unwait(mr_listener *l, mr_wait *node) { mr_watch_unwait(l->watch, node); }

void mr_listener_destroy(mr_shared *o) {
  mr_listener *l = (mr_listener *)o;
  mr_listener_close(l, NULL);
  if (l->context) mr_release(l->context);
  mr_rota_close(l->rota);
  free(l);
}

/*
 * One edge may stand for many connections and wakes one fiber. It passes that on before it goes off with its connection for who knows how long.
 */
static void tell(mr_listener *l, mr_fiber *near) {
  if (mr_watch_waited(l->watch, MR_READ) && port_net_readable(l->fd)) mr_watch_edge(l->watch, MR_READ, near);
}

/* 1: what is there is for others, or nothing is. */
static int is_for_others(mr_listener *l, mr_seat *s, uint64_t *until, mr_fiber *near) {
  if (!port_net_readable(l->fd)) {
    s->since = 0;
    return 1;
  }
  uint64_t at = mr_seat_better(s, *until, l->watch, near);
  if (at) *until = at;
  return at != 0;
}

int mr_listener_accept(mr_listener *l, mr_seat *s, int *fd, uint64_t *until, mr_fiber *near) {
  mr_assert((atomic_load(&l->users) & ~CLOSED) > 0);
  if (s && *until && !mr_seat_alone(s) && is_for_others(l, s, until, near)) return EAGAIN;
  mr_trace_begin(TRACE_ACCEPT);
  int err = port_net_accept(l->fd, fd);
  mr_trace_finish(-err);
  if (err == 0) {
    if (s) mr_seat_take(s);
    tell(l, near);
  }
  return err == EWOULDBLOCK ? EAGAIN : err;
}

int mr_listener_wait(mr_listener *l, mr_seat *s, mr_wait *node) {
  mr_assert((atomic_load(&l->users) & ~CLOSED) > 0);
  return mr_watch_wait_seated(l->watch, node, s);
}

int mr_listener_leaves(mr_seat *s) { return s && s->since != 0; }

void mr_listener_pass(mr_listener *l, mr_seat *s, mr_fiber *near) {
  if (!mr_listener_leaves(s)) return;
  s->since = 0;
  if (!mr_listener_enter(l)) return;
  mr_watch_edge(l->watch, MR_READ, near);
  mr_listener_leave(l, near);
}
