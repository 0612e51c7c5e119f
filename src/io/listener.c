/* listener: see listener.h. */
#include "io/listener.h"

#include <stdlib.h>

#define CLOSED 0x80000000u

const mr_sharetype *mr_listener_type;

mr_listener *mr_listener_new(int fd, int *err) {
  mr_watch *w = mr_watch_open(fd, err);
  mr_listener *l = w ? calloc(1, sizeof *l) : NULL;
  if (l) {
    l->shared.type = mr_listener_type;
    atomic_init(&l->shared.refs, 1);
    l->fd = fd;
    l->watch = w;
    l->patience = UINT64_MAX;
    return l;
  }
  if (w) {
    mr_watch_close(w, NULL);
    *err = ENOMEM;
  }
  port_net_close(fd);
  return NULL;
}

int mr_listener_enter(mr_listener *l) {
  unsigned n = atomic_load_explicit(&l->users, memory_order_relaxed);
  do {
    if (n & CLOSED) return 0;
  } while (!atomic_compare_exchange_weak(&l->users, &n, n + 1));
  return 1;
}

void mr_listener_leave(mr_listener *l, mr_fiber *near) {
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
  free(l);
}

/*
 * One edge may stand for many connections and wakes one fiber. It passes that on before it goes off with its connection for who knows how long.
 */
int mr_listener_accept(mr_listener *l, int *fd, mr_fiber *near) {
  int err = port_net_accept(l->fd, fd);
  if (err == 0 && mr_watch_waited(l->watch, MR_READ)) mr_watch_edge(l->watch, MR_READ, near);
  return err == EWOULDBLOCK ? EAGAIN : err;
}
