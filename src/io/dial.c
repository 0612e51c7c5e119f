/* dial: see dial.h. */
#include "io/dial.h"
#include "observe/trace.h"

#include <string.h>

#define ATTEMPT_DELAY 250000000u     /* ns; RFC 8305, section 5 */

void mr_dial_init(mr_dial *d) {
  memset(d, 0, sizeof *d);
  d->nodelay = 1;
}

/* ---- addresses ---- */

void mr_dial_add(mr_dial *d, const port_addr *a) {
  if (d->n < MR_ADDRESSES) d->list[d->n++] = *a;
}

static void add_resolved(mr_dial *d, const port_address *a, int port) {
  port_addr to;
  if (port_addr_native(&to, a->u.bytes, a->len, port) == 0) mr_dial_add(d, &to);
}

static int family_of(const port_address *a) {
  port_addr b;
  return port_addr_native(&b, a->u.bytes, a->len, 0) == 0 ? port_addr_family(&b) : 0;
}

/* The resolver's order, but families in turn, beginning with that of its first. */
void mr_dial_names(mr_dial *d, const mr_resolve *q, int port) {
  int first = family_of(&q->list[0]), i = 0, j = 0;
  while (i < q->n || j < q->n) {
    while (i < q->n && family_of(&q->list[i]) != first) i++;
    if (i < q->n) add_resolved(d, &q->list[i++], port);
    while (j < q->n && family_of(&q->list[j]) == first) j++;
    if (j < q->n) add_resolved(d, &q->list[j++], port);
  }
}

/* ---- attempts ---- */

static void attempt_drop(mr_attempt *a) {
  if (a->watch) mr_watch_close(a->watch, NULL);
  if (a->fd >= 0) port_net_close(a->fd);
  a->watch = NULL;
  a->fd = -1;
}

/* 0: connected; EINPROGRESS; or why not. */
static int attempt_open(mr_dial *d, int i) {
  mr_attempt *a = &d->at[i];
  const port_addr *to = &d->list[i];
  int family = port_addr_family(to);
  a->watch = NULL;
  a->fd = -1;
  if (port_addr_family(&d->bind) && port_addr_family(&d->bind) != family) return EAFNOSUPPORT;
  int err = port_net_socket(family, PORT_STREAM, &a->fd);
  if (err) return err;
  if (port_addr_family(&d->bind)) {
    port_net_option_set(a->fd, "reuseaddr", 1);
    if ((err = port_net_bind(a->fd, &d->bind)) != 0) return err;
  }
  if (d->nodelay && family != PORT_UNIX) port_net_nodelay(a->fd);
  mr_trace_begin(TRACE_CONNECT);
  err = port_net_connect(a->fd, to);
  if (err == EINPROGRESS) err = port_net_connected(a->fd);         /* near peers have answered by now */
  mr_trace_finish(-err);
  if (err == EINPROGRESS && (a->watch = mr_watch_open(a->fd, &err)) != NULL) return EINPROGRESS;
  return err;
}

/* Looks at those under way. 1: one is connected. */
static int look(mr_dial *d) {
  for (int i = 0; i < d->next; i++) {
    if (d->at[i].fd < 0) continue;
    int err = port_net_connected(d->at[i].fd);
    d->won = i;
    if (err == 0) return 1;
    if (err == EINPROGRESS) continue;
    d->error = err;
    d->begin_next = 0;
    d->pending--;
    attempt_drop(&d->at[i]);
  }
  return 0;
}

/* Begins the next attempt if it is time. 1: and it is connected. */
static int begin(mr_dial *d) {
  while (d->next < d->n && (!d->pending || port_now() >= d->begin_next)) {
    int i = d->next++, err = attempt_open(d, i);
    d->won = i;
    if (err == 0) return 1;
    if (err == EINPROGRESS) {
      d->pending++;
      d->begin_next = port_now() + ATTEMPT_DELAY;
    } else {
      d->error = err;
      attempt_drop(&d->at[i]);
    }
  }
  return 0;
}

int mr_dial_step(mr_dial *d, uint64_t *until) {
  if (look(d) || begin(d)) return DIAL_DONE;
  if (!d->pending) return DIAL_FAILED;
  if (d->next < d->n && d->begin_next < *until) *until = d->begin_next;
  return DIAL_WAIT;
}

int mr_dial_link(mr_dial *d, mr_wait *w) {
  for (int i = 0; i < d->next; i++) {
    mr_attempt *a = &d->at[i];
    if (!a->watch) continue;
    a->node = (mr_wait){ .fiber = w->fiber, .ticket = w->ticket };
    if (mr_watch_wait(a->watch, MR_WRITE, &a->node)) return 1;
  }
  return 0;
}

void mr_dial_unlink(mr_dial *d) {
  for (int i = 0; i < d->next; i++)
    if (d->at[i].watch) mr_watch_unwait(d->at[i].watch, &d->at[i].node);
}

mr_conn *mr_dial_take(mr_dial *d, int *err) {
  mr_attempt a = d->at[d->won];
  d->at[d->won].fd = -1;
  d->at[d->won].watch = NULL;
  mr_dial_drop(d);
  if (!a.watch) return mr_conn_new(a.fd, err);
  mr_conn *c = mr_conn_adopt(a.fd, a.watch);
  if (!c) attempt_drop(&a);
  *err = ENOMEM;
  return c;
}

void mr_dial_drop(mr_dial *d) {
  for (int i = 0; i < d->next; i++) attempt_drop(&d->at[i]);
  d->pending = 0;
}
