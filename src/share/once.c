/* once: see once.h. */
#include "share/once.h"

#include <stdlib.h>

mr_once *mr_once_new(const mr_sharetype *type, mr_cell *body) {
  mr_once *o = calloc(1, sizeof *o);
  if (!o) return NULL;
  o->shared.type = type;
  atomic_init(&o->shared.refs, 1);
  o->body = body;
  mr_waitq_init(&o->waiters);
  return o;
}

static void drop(mr_cell *c) {
  if (c) mr_release(&c->shared);
}

void mr_once_destroy(mr_shared *shared) {
  mr_once *o = (mr_once *)(void *)shared;
  mr_assert(mr_waitq_empty(&o->waiters) && o->state != ONCE_RUNNING);
  drop(o->outcome);
  drop(o->failure);
  drop(o->body);
  free(o);
}

int mr_once_look(mr_once *o, const mr_fiber *f, uint64_t *since, mr_cell **failure) {
  *failure = NULL;
  port_acquire(&o->lock);
  int state = o->state;
  if (state != ONCE_DONE && *since && o->failed >= *since) {
    state = ONCE_FAILED;
    if ((*failure = o->failure) != NULL) mr_retain(&o->failure->shared);
  } else if (state == ONCE_RUNNING) {
    if (o->runner == f) state = ONCE_INSIDE;
    else *since = o->round;
  }
  port_unlock(&o->lock);
  return state;
}

int mr_once_begin(mr_once *o, const mr_fiber *f) {
  port_acquire(&o->lock);
  int mine = o->state == ONCE_NEW;
  if (mine) {
    o->state = ONCE_RUNNING;
    o->runner = f;
    o->round++;
  }
  port_unlock(&o->lock);
  return mine;
}

void mr_once_end(mr_once *o, int how, mr_cell *cell, mr_fiber *near) {
  mr_fiber *woken = NULL;
  mr_cell *before = NULL;
  port_acquire(&o->lock);
  mr_assert(o->state == ONCE_RUNNING);
  o->state = how == ONCE_DONE ? ONCE_DONE : ONCE_NEW;
  o->runner = NULL;
  if (how == ONCE_DONE) o->outcome = cell;
  if (how == ONCE_FAILED) {
    before = o->failure;
    o->failure = cell;
    o->failed = o->round;
  }
  while (!mr_waitq_empty(&o->waiters)) {
    mr_wait *w = o->waiters.next;
    mr_waitq_del(w);
    if (!mr_wait_claim(w)) continue;
    w->fiber->next = woken;
    woken = w->fiber;
  }
  port_unlock(&o->lock);
  drop(before);
  while (woken) {
    mr_fiber *f = woken;
    woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
}

int mr_once_link(mr_once *o, uint64_t since, mr_wait *w) {
  port_acquire(&o->lock);
  int over = o->state != ONCE_RUNNING || o->round != since;
  if (!over) mr_waitq_add(&o->waiters, w);
  port_unlock(&o->lock);
  return over;
}

void mr_once_unlink(mr_once *o, mr_wait *w) {
  port_acquire(&o->lock);
  mr_waitq_del(w);
  port_unlock(&o->lock);
}
