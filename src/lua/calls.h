/*
 * calls: the chain of a coroutine's calls, for profiles (process/profile.c): from a call to who called it in one step, where lua_getstack counts from
 * the top each time; and what runs at the instant of a signal.
 *
 * As in layout.h nothing here is used unless a self-check on the running Lua has found it so. Without it profiles are made all the same, at lua_getstack's
 * cost, and the time of a C function is charged to the line where Lua code goes on after it.
 */
#ifndef MR_CALLS_H
#define MR_CALLS_H

#include "lua/layout.h"

typedef struct PORT_ALIAS raw_call {
  void *function, *top;
  struct raw_call *previous, *next;
  const void *saved;                           /* of a Lua function: where it goes on */
  uint64_t more[2];
  uint32_t other;
  int16_t results;
  uint16_t status;
} raw_call;
typedef struct PORT_ALIAS raw_running {        /* a lua_State, as far as it matters here */
  raw_state state;
  uintptr_t stack_last, stack;
} raw_running;
enum { RAW_CALL_C = 2 };

extern atomic_int mr_calls;                    /* 1: the self-check has passed */
static inline int mr_calls_known(void) { return atomic_load_explicit(&mr_calls, memory_order_relaxed); }
void mr_calls_check(void);                     /* before a profile, by one thread at a time */

/* ar, filled by lua_getstack(L, level, ar), becomes that of the next level, `level`; 0: there is none. */
static inline int mr_call_below(lua_State *L, int level, lua_Debug *ar) {
  if (!mr_calls_known()) return lua_getstack(L, level, ar);
  raw_call *below = ((raw_call *)(void *)ar->i_ci)->previous;
  ar->i_ci = (void *)below;
  return below->previous != NULL;              /* the first one of all is no function's */
}

/*
 * The stack that a call is on is just being moved: Lua from 5.4.6 on has offsets in place of pointers meanwhile, and nothing can be read. (Without the
 * layout a stack at a low address may seem to.)
 */
static inline int mr_call_moves(lua_State *L, const lua_Debug *ar) {
  const raw_running *r = (const raw_running *)(const void *)L;
  uintptr_t function = *(const uintptr_t *)(const void *)ar->i_ci;
  if (!mr_calls_known()) return function < (uintptr_t)MR_LUA_MAXSTACK * sizeof(raw_value);
  return function < r->stack || function >= r->stack_last;
}

/*
 * Async-signal-safe, on the thread that runs L. A C function runs, called by a Lua function or by C functions that one has called (a callback in C, the
 * release of a buffer at the end of string.gsub): 1, the call of that Lua function, and where it goes on: mr_call_line tells the line of the call from it.
 * 0: anything else.
 */
static inline int mr_call_in_c(lua_State *L, const void **call, const void **saved) {
  if (!mr_calls_known()) return 0;
  const raw_call *c = (const raw_call *)(const void *)((const raw_state *)L)->call;
  if (!(c->status & RAW_CALL_C)) return 0;
  do c = c->previous; while (c && (c->status & RAW_CALL_C));   /* the first one of all counts as C's */
  if (!c) return 0;
  *call = c;
  *saved = c->saved;
  return 1;
}

/* Async-signal-safe likewise. L runs the Lua function of a call that mr_call_in_c gave, right after that C function, or in a hook before what follows. */
static inline int mr_call_is_after(lua_State *L, const void *call, const void *saved) {
  const raw_call *c = (const raw_call *)(const void *)((const raw_state *)L)->call;
  return c == call && (c->saved == saved || c->saved == (const void *)((const uint32_t *)saved + 1));   /* an instruction has 32 bits */
}

/* The line at which ar's function was when it would have gone on at `saved`. Needs mr_calls. */
static inline int mr_call_line(lua_State *L, lua_Debug *ar, const void *saved) {
  raw_call *c = (raw_call *)(void *)ar->i_ci;
  const void *now = c->saved;
  c->saved = saved;
  lua_getinfo(L, "l", ar);
  c->saved = now;
  return ar->currentline;
}

#endif
