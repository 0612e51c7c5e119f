/*
 * debt: when the collector learns of what a long message became.
 *
 * What decoding makes is alive until all of it is there, and mostly for as long as one call. A collector that works meanwhile visits it in vain: the
 * generational one, a process's usual, each time the heap has grown by a fifth, and after two visits it takes it for old. So the collector is told
 * before a long message that less has been allocated than was, by as much as decoding will take, but at most half of what the heap holds; and of what
 * it took the collector is told (`owed`, KiB) before the next message of the environment is decoded, when the last value is garbage as a rule.
 *
 * An error leaves the estimate owed, which is told then, too. So at any time at most half of the heap is unknown to the collector; and any collection
 * meanwhile finds whatever is garbage, and begins to count anew.
 */
#include "cdr/type.h"

enum { LONG = 2048, GROWS = 8 };                 /* bytes of a message; what a byte of it becomes, about: the rest is told at once */

/* Does nothing in a finaliser, where the collector doesn't listen, nor when the program has stopped it. */
static int tell(lua_State *L, int kib) {
  if (kib == 0) return 1;
  return lua_gc(L, LUA_GCISRUNNING) == 1 && mr_lua_owe(L, kib);
}

int mr_debt_begin(lua_State *L, mr_cdr_env *env, size_t n) {
  if (PORT_LIKELY(n < LONG && !env->owed)) return -1;
  int owed = env->owed;
  env->owed = 0;                                 /* a finaliser may decode now */
  tell(L, owed);
  if (n < LONG || env->owed) return -1;
  int held = lua_gc(L, LUA_GCCOUNT), kib = held / 2;
  if ((size_t)kib > n * GROWS >> 10) kib = (int)(n * GROWS >> 10);
  if (kib <= 0 || !tell(L, -kib)) return -1;
  env->owed = kib;
  return held;
}

void mr_debt_end(lua_State *L, mr_cdr_env *env, int held) {
  int more = lua_gc(L, LUA_GCCOUNT) - held, rest = more > 0 ? env->owed - more : env->owed;
  if (rest <= 0) return;
  env->owed -= rest;
  tell(L, rest);
}
