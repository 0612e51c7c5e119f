/*
 * explore: a program's runs that can be repeated: one of them (`mare run --seed`), or many, in search of one that fails (`mare explore`). For main.c.
 */
#ifndef MR_EXPLORE_H
#define MR_EXPLORE_H

#include "lua/compat.h"

/* From here on the program's run is that of this schedule's text. NULL, or what is wrong with it. Before the start. */
const char *mr_replay_open(const char *schedule);
/*
 * Copies of the program are made from here on; each calls `run`, which starts it and returns its exit code, or EXPLORE_DEADLOCK. Returns the exit code of
 * the search, which lua/mare/cli/explore.lua does. options: its options, a table of L's.
 */
enum { EXPLORE_DEADLOCK = -1 };
int mr_explore(lua_State *L, int options, int (*run)(void));

#endif
