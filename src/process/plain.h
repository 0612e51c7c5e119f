/*
 * plain: the wait of a fiber about which nothing is unusual, inline: in a process, where it can yield, without limits, without a deadline. It is a
 * part of park.h: what it does is what mr_wait_open and mr_park do then.
 */
#ifndef MR_PROCESS_PLAIN_H
#define MR_PROCESS_PLAIN_H

#include "process/process.h"
#include "process/limit.h"

/* In a function that only processes have. Opens f->wait's ticket; 0: not done, mr_wait_open is to be asked. */
static PORT_INLINE int mr_plain_open(mr_fiber *f, lua_State *L) {
  mr_lua *l = mr_lua_of(f);
  if (PORT_UNLIKELY(l->odd & ODD_RELIEF) || PORT_UNLIKELY(f->bounded) || PORT_UNLIKELY(!l->hint) || PORT_UNLIKELY(mr_fiber_asked(f))) return 0;
  if (PORT_UNLIKELY(!mr_can_yield(f, L))) return 0;
  f->masked = 0;
  f->mode = WAIT_YIELD;
  f->wait.mail = &l->mail;
  mr_wait_begin(f);
  return 1;
}

/* As a tail call, f->wait being linked: see mr_park. */
static inline int mr_plain_park(lua_State *L, mr_fiber *f, lua_KFunction k) {
  port_fence_after_lock();
  if (PORT_UNLIKELY(mr_fiber_asked(f))) return mr_park(L, f, UINT64_MAX, (lua_KContext)f, k);
  mr_lua_of(f)->parked_L = L;
  f->sysyield = SYS_PARK;
  return lua_yieldk(L, 0, (lua_KContext)f, k);
}

/* The same for mr_lua_wake, where mr_plain_park began the wait. */
static inline mr_reason mr_plain_wake(mr_fiber *f) {
  mr_assert(!(atomic_load(&f->ticket) & 1));
  if (PORT_UNLIKELY(f->timed | f->outside | f->limited)) return mr_lua_wake(f);
  mr_fiber_in(f, NULL);
  f->on = NULL;
  return (mr_reason)f->reason;
}

#endif
