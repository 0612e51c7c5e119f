/*
 * atomic: an integer that processes share, on a cache line of its own. Each change is one atomic operation; sums wrap around, as Lua's do.
 *
 * Waiting. Who waits sets `awaited` and then looks at the value again; who changes the value looks at `awaited` afterwards. All of this in one order that
 * all threads see, so one of the two sees the other. A change wakes all who wait; they look whether it was the one they wait for.
 */
#ifndef MR_ATOMIC_H
#define MR_ATOMIC_H

#include "run/waitable.h"
#include "transfer/transfer.h"

typedef struct mr_atomic {
  mr_shared shared;
  port_lock lock;
  mr_wait waiters;                     /* head (lock) */
  char *name;                          /* owned, or NULL */
  size_t name_length;
  _Alignas(PORT_CACHELINE) _Atomic int64_t value;
  atomic_uint awaited;                 /* there may be waiters */
} mr_atomic;

mr_atomic *mr_atomic_new(const mr_sharetype *type, int64_t value);     /* one reference; NULL: no memory */
void       mr_atomic_destroy(mr_shared *o);
void       mr_atomic_wake(mr_atomic *a, mr_fiber *near);
static inline void mr_atomic_changed(mr_atomic *a, mr_fiber *near) {   /* after each change */
  if (PORT_UNLIKELY(atomic_load(&a->awaited))) mr_atomic_wake(a, near);
}
int        mr_atomic_link(mr_atomic *a, int64_t old, mr_wait *w);      /* as mr_waitops.link; 1: the value is not `old` */
void       mr_atomic_unlink(mr_atomic *a, mr_wait *w);

#endif
