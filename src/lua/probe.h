/*
 * probe: what the API does not tell about a state is found by trying, once a program, on scratch states; where it can't be told for certain,
 * the answer is the careful one. Any thread may ask, several at once: they find the same.
 *
 *   finaliser.c   has a state finalisers to run?
 *   count.c       the instructions left to the next count event
 */
#ifndef MR_PROBE_H
#define MR_PROBE_H

#include "lua/compat.h"

/* ---- probe.c: the block in which Lua keeps the main lua_State and what belongs to the whole state ---- */
typedef struct mr_probe { char *block; size_t size; } mr_probe;
void *mr_probe_alloc(void *probe, void *ptr, size_t osize, size_t nsize);   /* lua_Alloc; notes the block */

/* ---- finaliser.c ---- */
void mr_finaliser_find(void);                  /* before the first state whose finalisers are asked for */
int  mr_finaliser_found(void);                 /* for tests: 1, else every state counts as having some */
int  mr_finaliser_has(lua_State *L);           /* something in L, a main thread, has a finaliser still to run; or it can't be told */
/*
 * Calls f for every object of L, a main thread, that has a finaliser still to run, in the order in which lua_close would run them, as long as f gives
 * not 0. 1: it has been called for all; 0: not, or Lua's lists can't be read.
 */
int  mr_finaliser_each(lua_State *L, int (*f)(const void *object));
/*
 * L, a main thread, is about to be closed: finalisers that are not C functions are taken away. Where Lua's lists can't be read (mr_layout is 0, or
 * they were not found) nothing is done.
 */
void mr_finaliser_mute(lua_State *L);

/* ---- count.c ---- */
void mr_count_find(void);                      /* before the first use of mr_count_at */
int *mr_count_at(lua_State *L);                /* the instructions that L, with a count hook, has left; NULL: can't be told */

#endif
