/*
 * queue: READY fibers in a row, through their `next`. A mere row is its owner's; a queue has a lock and a count that others may read without it.
 *
 * Invariant (lock held): `count` is how many there are. It is raised seq_cst before the lock is given back, for the rule by which no wake-up
 * is lost: see sched.c.
 *
 * In which order fibers are taken is decided here alone: no other file looks inside a row, so that another order (levels, for example) is a
 * matter of this one.
 */
#ifndef MR_QUEUE_H
#define MR_QUEUE_H

#include "run/fiber.h"

typedef struct mr_row { mr_fiber *head, *tail; } mr_row;
typedef struct mr_queue { port_lock lock; atomic_uint count; mr_row row; } mr_queue;

static inline void mr_row_add(mr_row *l, mr_fiber *f) {
  mr_fiber_placed(f);
  f->next = NULL;
  if (l->tail) l->tail->next = f;
  else l->head = f;
  l->tail = f;
}

static inline mr_fiber *mr_row_take(mr_row *l) {
  mr_fiber *f = l->head;
  if (!f) return NULL;
  mr_fiber_taken(f);
  l->head = f->next;
  if (!l->head) l->tail = NULL;
  return f;
}

/* Behind `at`, which is in the row; NULL: it is the first. */
static inline void mr_row_insert(mr_row *l, mr_fiber *at, mr_fiber *f) {
  mr_fiber **link = at ? &at->next : &l->head;
  mr_fiber_placed(f);
  f->next = *link;
  *link = f;
  if (!f->next) l->tail = f;
}

/* Wherever it is; 0: it is not there. */
static inline int mr_row_remove(mr_row *l, mr_fiber *f) {
  mr_fiber *before = NULL, *at = l->head;
  for (; at && at != f; at = at->next) before = at;
  if (!at) return 0;
  mr_fiber_taken(f);
  if (before) before->next = f->next;
  else l->head = f->next;
  if (l->tail == f) l->tail = before;
  return 1;
}

static inline mr_fiber *mr_row_first(const mr_row *l) { return l->head; }
static inline mr_fiber *mr_row_last(const mr_row *l) { return l->tail; }
static inline void mr_row_clear(mr_row *l) { l->head = l->tail = NULL; }

/* The first n of it, in order: 1 <= n, and as many are there. */
static inline mr_row mr_row_cut(mr_row *l, unsigned n) {
  mr_row part = { l->head, l->head };
  while (--n > 0) part.tail = part.tail->next;
  l->head = part.tail->next;
  if (!l->head) l->tail = NULL;
  part.tail->next = NULL;
  return part;
}

/* All of `more`, which is not used again, behind the others. */
static inline void mr_row_join(mr_row *l, const mr_row *more) {
  if (!more->head) return;
  if (l->tail) l->tail->next = more->head;
  else l->head = more->head;
  l->tail = more->tail;
}

#ifdef MR_CHECKS
void mr_queue_check(const mr_queue *q);          /* (lock held) */
#else
#define mr_queue_check(q) ((void)0)
#endif

static inline void mr_queue_add(mr_queue *q, mr_fiber *f, int front) {
  port_acquire(&q->lock);
  if (front) mr_row_insert(&q->row, NULL, f);
  else mr_row_add(&q->row, f);
  atomic_store(&q->count, atomic_load_explicit(&q->count, memory_order_relaxed) + 1);
  MR_CHECK_SOME(32, mr_queue_check(q));
  port_unlock(&q->lock);
}

static inline mr_fiber *mr_queue_take(mr_queue *q) {
  if (atomic_load_explicit(&q->count, memory_order_relaxed) == 0) return NULL;
  port_acquire(&q->lock);
  mr_fiber *f = mr_row_take(&q->row);
  if (f) atomic_store_explicit(&q->count, atomic_load_explicit(&q->count, memory_order_relaxed) - 1, memory_order_relaxed);
  MR_CHECK_SOME(32, mr_queue_check(q));
  port_unlock(&q->lock);
  return f;
}

/* Wherever it is; 0: it is not there. `f` is looked at only if it is. */
static inline int mr_queue_remove(mr_queue *q, mr_fiber *f) {
  if (atomic_load(&q->count) == 0) return 0;
  port_acquire(&q->lock);
  int there = mr_row_remove(&q->row, f);
  if (there) atomic_store_explicit(&q->count, atomic_load_explicit(&q->count, memory_order_relaxed) - 1, memory_order_relaxed);
  MR_CHECK_SOME(32, mr_queue_check(q));
  port_unlock(&q->lock);
  return there;
}

/* Nobody uses it any more: as it was at first. */
static inline void mr_queue_forget(mr_queue *q) {
  mr_row_clear(&q->row);
  atomic_store(&q->count, 0);
}

mr_fiber *mr_queue_steal(mr_queue *q, mr_queue *victim);   /* half of it, in order: the first is returned, the rest goes to q */

#endif
