/*
 * await: the one way to wait in a Lua function.
 *
 *   return mr_await(L, f, &class, object, deadline);          a tail call; f is the running fiber
 *
 * A class says how its things are waited for (run, waitable.h) and what they give to Lua (take). What an operation is and how far it has come
 * is in its object and in the Lua stack, never in C variables: where the fiber yields, the C stack is gone meanwhile. mr_await owns nothing:
 * the object lives as long as the Lua value that the function's stack keeps.
 *
 * What happens, in this order, all on the fiber's own thread but the claim:
 *
 *   1 take     asks without waiting. A thing that was ready before costs no ticket, no queue and no system call.
 *   2 open     (mr_wait_open) the ticket becomes odd. It may refuse: nothing is queued yet, so nothing is to be undone. With a deadline of 0
 *              it doesn't come to this: the time is over.
 *   3 link     the nodes go into queues. From here on others can claim the ticket, from any thread. Each thing is looked at again under its
 *              lock as its node is queued: what came between 1 and 3 is seen here (link gives 1), what comes later finds the node. Nothing
 *              is missed between. No Lua function is called while a ticket is open: a finaliser could want to wait.
 *   4 park     until somebody has claimed the ticket: through a node, or as the time is over, or to end or interrupt the fiber.
 *   5 wake     exactly one has claimed it; the reason is fixed.
 *   6 unlink   nodes that were not claimed may still be in queues. After this none is, so none meets the next ticket, and the memory in which
 *              they lie may go. The fiber's own node needs no unlink when it was the one that woke it: who claims takes it out first.
 *   7 again    woken, closed, or the wait was cancelled: from 1. take is told the reason: after MR_WOKEN what was handed over through the
 *              node is its own. A thing that was closed says so itself, in its own words.
 *              The time is over: give_up, or nil, "timeout". Anything else is an error, raised after give_up has cleaned up.
 *
 * take and give_up run as any Lua function: they may raise, allocate, run finalisers, and may themselves end in another mr_await (a name is
 * resolved, then connected to), as a tail call. link and unlink call no Lua. All run with no lock held.
 *
 * Waits in places that can't yield, and those of hosts, are loops in here: the functions of a class see no difference.
 */
#ifndef MR_AWAIT_H
#define MR_AWAIT_H

#include "lua/compat.h"
#include "process/process.h"
#include "run/waitable.h"

/* One of several things that are waited for at once. */
typedef struct mr_case {
  union {
    mr_wait wait;                      /* first: the node in the object's queue */
    mr_knot knot;                      /* the same, in the list of missed nodes of its set */
  };
  const struct mr_waitclass *type;
  void *object;                        /* kept alive by its Lua value */
  mr_mail mail;                        /* of channels: what comes or goes; owned */
} mr_case;

typedef struct mr_waitclass {
  mr_waitops run;                    /* first */
  /*
   * Asks o without waiting (why == MR_AGAIN), or after w was the node that woke the fiber (MR_WOKEN, MR_CLOSED). Pushes what the operation
   * gives and returns how many values; -1, nothing pushed: not ready, or not any more. The fiber is w->fiber. Its `deadline` is until when it
   * may wait, 0: not at all; take may lower it, to be asked again then.
   */
  int  (*take)(lua_State *L, void *o, mr_wait *w, mr_reason why);
  /*
   * NULL, or: the operation ends without having got what it waited for; nothing is linked. MR_TIMEOUT: pushes the results and returns how
   * many, or one of MR_AWAIT_*. Other reasons: an error follows, what it returns doesn't count.
   */
  int  (*give_up)(lua_State *L, void *o, mr_wait *w, mr_reason why);
  /* NULL, or for select, once before everything else: the operation is on top of L (mr_operation_values); makes ready in c->mail what goes out. */
  void (*prepare)(lua_State *L, mr_case *c);
} mr_waitclass;

/* From give_up: nil, "timeout"; or: it is not over, the fiber's `deadline` is the new one, take is asked again. */
enum { MR_AWAIT_TIMEOUT = -1, MR_AWAIT_ON = -2 };

int mr_await_on(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, unsigned short what, uint64_t deadline);   /* from 2 */

/* `what` is w->what in all functions of the class. Inline, so that a thing that is ready costs no call through a pointer. */
static inline int mr_await_as(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, unsigned short what, uint64_t deadline) {
  f->wait.fiber = f;
  f->wait.what = what;
  f->wait.linked = 0;
  f->fired = NULL;                   /* of an earlier wait, whose nodes may be gone */
  f->deadline = deadline;
  int n = k->take(L, o, &f->wait, MR_AGAIN);
  return PORT_LIKELY(n >= 0) ? n : mr_await_on(L, f, k, o, what, deadline);
}
static inline int mr_await(lua_State *L, mr_fiber *f, const mr_waitclass *k, void *o, uint64_t deadline) {
  return mr_await_as(L, f, k, o, 0, deadline);
}

int  mr_timed_out(lua_State *L);     /* nil, "timeout" */
int  mr_raise(lua_State *L, int err);
int  mr_raise_ended(lua_State *L, mr_fiber *f);      /* from hooks too, where no C function of ours calls */
/* For reasons that are not the operation's own: raises MR_INTERRUPTED, MR_STOPPED and MR_DEADLOCK as errors; else returns. */
void mr_raise_reason(lua_State *L, mr_fiber *f, mr_reason r);

#endif
