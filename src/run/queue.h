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

/* `due`: the last of those at its front whose time was due; NULL: none. They go in front of all others, in the order in which they came. */
typedef struct mr_row { mr_fiber *head, *tail, *due; } mr_row;
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
  if (l->due == f) l->due = NULL;
  return f;
}

static inline void mr_row_add_due(mr_row *l, mr_fiber *f) {
  mr_fiber **link = l->due ? &l->due->next : &l->head;
  mr_fiber_placed(f);
  f->next = *link;
  *link = f;
  if (!f->next) l->tail = f;
  l->due = f;
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
  if (l->due == f) l->due = before;
  return 1;
}

static inline mr_fiber *mr_row_first(const mr_row *l) { return l->head; }
static inline mr_fiber *mr_row_last(const mr_row *l) { return l->tail; }
static inline void mr_row_clear(mr_row *l) { *l = (mr_row){ NULL, NULL, NULL }; }

/* The first n of it, in order: 1 <= n, and as many are there. */
static inline mr_row mr_row_cut(mr_row *l, unsigned n) {
  mr_row part = { l->head, l->head, l->due };
  int all = l->due != NULL && l->due != part.tail;               /* all that is cut was due, and perhaps more */
  while (--n > 0) {
    part.tail = part.tail->next;
    if (part.tail == l->due) all = 0;
  }
  if (all) part.due = part.tail;
  else l->due = NULL;
  l->head = part.tail->next;
  if (!l->head) l->tail = NULL;
  part.tail->next = NULL;
  return part;
}

/* All of `more`, which is not used again, behind the others, if there are any. */
static inline void mr_row_join(mr_row *l, const mr_row *more) {
  if (!more->head) return;
  if (!l->head) {
    *l = *more;
    return;
  }
  l->tail->next = more->head;
  l->tail = more->tail;
}

#ifdef MR_CHECKS
void mr_queue_check(const mr_queue *q);          /* (lock held) */
#else
#define mr_queue_check(q) ((void)0)
#endif

static inline void mr_queue_add(mr_queue *q, mr_fiber *f, int due) {
  port_acquire(&q->lock);
  if (due) mr_row_add_due(&q->row, f);
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
