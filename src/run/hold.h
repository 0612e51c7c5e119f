/*
 * hold: who may touch a worker's slot, and say who holds the worker.
 *
 * The holder may, as long as it runs no fiber: `runs` of its record is 0. A thread that runs a fiber makes it so for the moment in which it fills its
 * slot (mr_hold, mr_hold_end), and when it is back from the fiber. Who wants to act in its place meanwhile - take a fiber that is left in its slot,
 * or give its worker to another thread - marks w->thread by | 1 first, and then looks at `runs`: only if that is 1 he goes on. Until he
 * takes the mark away (mr_worker_pass) the holder waits in its next mr_hold.
 *
 * So each side stores, and then loads what the other has stored: the holder `runs` and then w->thread, the others w->thread and then `runs`. If
 * neither saw the other, both would act; see port_store_often. The holder does it several times for each message, so that is the cheap side.
 */
#ifndef MR_HOLD_H
#define MR_HOLD_H

#include "run/worker.h"

int mr_hold_on(mr_thread *t, mr_worker *w);      /* somebody acts in t's place, or has done so. 0: another thread holds w */

/* By t, which holds w or has held it when it began to run its fiber: w is its own from now on. 0: mr_hold_on must follow. */
static PORT_INLINE int mr_hold_now(mr_thread *t, mr_worker *w) {
  port_store_often(&t->runs, 0);
  port_chaos();
  return PORT_LIKELY(atomic_load(&w->thread) == (uintptr_t)t);
}
/* 0: another thread holds it. */
static PORT_INLINE int mr_hold(mr_thread *t, mr_worker *w) { return mr_hold_now(t, w) || mr_hold_on(t, w); }

/* It runs a fiber, or goes on with it. */
static inline void mr_hold_end(mr_thread *t) { atomic_store_explicit(&t->runs, 1, memory_order_release); }

/* By others: 1: t, which holds w, runs a fiber, and the caller acts in its place until mr_worker_pass. t's record may have changed hands. */
int mr_worker_seize(mr_worker *w, mr_thread *t);
static inline void mr_worker_pass(mr_worker *w, mr_thread *t) { atomic_store(&w->thread, (uintptr_t)t); }
/* By its holder t, which runs none: from now on `next` holds it; NULL: nobody. */
void mr_worker_leave(mr_worker *w, mr_thread *t, mr_thread *next);
/* By others: f out of w's slot, if it is still there and w's holder runs a fiber. */
int mr_slot_take(mr_worker *w, mr_fiber *f);

static inline mr_thread *mr_worker_thread(const mr_worker *w) { return (mr_thread *)(atomic_load(&w->thread) & ~(uintptr_t)1); }
/* Who runs a fiber with it; NULL: nobody. */
static inline mr_thread *mr_worker_runner(const mr_worker *w) {
  mr_thread *t = mr_worker_thread(w);
  return t && atomic_load(&t->runs) ? t : NULL;
}

#endif
