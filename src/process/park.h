/*
 * park: waits in Lua. The protocol is run/park.h's; here a wait begins in a C function of a running coroutine and goes on in a continuation:
 *
 *   e = mr_wait_open(f, L);          decides how the fiber can wait here; nonzero: it can't, raise
 *   lock the object; if it can complete: mr_wait_abandon(f), unlock, done
 *   link f->wait into the object's queue; unlock                         <- from here others can claim
 *   return mr_park(L, f, deadline, ctx, k)
 *   k: mr_lua_wake(f) gives the reason; if it is not MR_WOKEN the node may still be linked: lock, unlink if linked, unlock
 */
#ifndef MR_PROCESS_PARK_H
#define MR_PROCESS_PARK_H

#include "lua/compat.h"
#include "run/fiber.h"

/* Nothing else could run here while f's thread waits in the kernel for a moment: for who would otherwise park for just that. */
int mr_alone(const mr_fiber *f);
void mr_host_bar(mr_fiber *f, lua_State *L);             /* a host's first fiber, before its others may run */
int mr_wait_open(mr_fiber *f, lua_State *L);        /* 0 or an mr_err; opens f->wait's ticket */
/* As a tail call: waits, then runs k(L, status, ctx). deadline in port_now() time, UINT64_MAX = none. */
int mr_park(lua_State *L, mr_fiber *f, uint64_t deadline, lua_KContext ctx, lua_KFunction k);
int mr_yield(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k);  /* to the end of the queue; tail call */
int mr_cede(lua_State *L, mr_fiber *f, lua_KContext ctx, lua_KFunction k);   /* behind its children, if too many of them wait; tail call */

#endif
