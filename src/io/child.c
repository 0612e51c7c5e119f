/* child: see child.h. */
#include "io/child.h"
#include "base/rank.h"
#include "run/poll.h"

#include <errno.h>
#include <stdlib.h>

const mr_sharetype *mr_child_type;

mr_child *mr_child_new(int keep) {
  mr_child *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->shared.type = mr_child_type;
  atomic_init(&c->shared.refs, 1);
  mr_event_init(&c->ended);
  c->keep = (unsigned char)keep;
  return c;
}

void mr_child_destroy(mr_shared *o) { free(o); }

static void reap(mr_child *c) {
  mr_assert_locked(&c->lock);
  mr_assert(c->dead && !c->reaped);
  if (port_child_reap(c->pid, &c->code, &c->signal) == 0) c->reaped = 1;
}

/* Called once for each, by whoever polls. */
static void on_end(void *tag) {
  mr_child *c = tag;
  port_acquire(&c->lock);
  c->dead = 1;
  if (!c->keep) reap(c);
  port_unlock(&c->lock);
  mr_event_set(&c->ended, NULL);
  mr_release(&c->shared);
}

static void poll_children(void *ud) {
  (void)ud;
  port_children_ready();
}

static int open_set(void) {
  static port_lock lock = PORT_LOCK(MR_RANK_ONCE);
  static atomic_int done;
  int fd, err = 0;
  if (atomic_load(&done)) return 0;
  port_acquire(&lock);
  if (!atomic_load(&done)) {
    err = port_children_open(on_end, &fd);
    if (!err && fd >= 0) err = mr_source_add(fd, poll_children, NULL);
    if (!err) atomic_store(&done, 1);
  }
  port_unlock(&lock);
  return err;
}

/* The system refuses to tell of its end: it is not left behind. */
static void undo(mr_child *c) {
  port_child_kill(c->pid, PORT_KILL, 1);
  while (port_child_reap(c->pid, &c->code, &c->signal) == EAGAIN) port_sleep(1000000);
  c->pid = 0;
}

int mr_child_start(mr_child *c, const port_program *p) {
  int err = open_set();
  if (err || (err = port_child_spawn(p, &c->pid)) != 0) return err;
  mr_retain(&c->shared);
  if ((err = port_children_add(c->pid, c)) == 0) return 0;
  undo(c);
  mr_release(&c->shared);
  return err;
}

int mr_child_kill(mr_child *c, int signal) {
  port_acquire(&c->lock);
  int err = c->pid == 0 || c->reaped ? ESRCH : port_child_kill(c->pid, signal, 1);
  port_unlock(&c->lock);
  return err;
}

void mr_child_let_go(mr_child *c) {
  port_acquire(&c->lock);
  c->keep = 0;
  if (c->dead && !c->reaped) reap(c);
  port_unlock(&c->lock);
}
