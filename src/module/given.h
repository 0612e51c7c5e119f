/* given: what members of a group (src/channel/collective.h) give and get, as values of Lua. All of them raise. */
#ifndef MR_GIVEN_H
#define MR_GIVEN_H

#include "channel/collective.h"
#include "module/module.h"

/* The value at idx; `root` names it in errors. `several` will get it. */
void      mr_given_value(lua_State *L, mr_fiber *f, int idx, const char *root, int several, mr_given *g);
void      mr_given_back(lua_State *L, mr_given *g);                   /* nobody has seen it */
mr_given *mr_given_list(lua_State *L, mr_fiber *f, int n);            /* of the list at 2, one value for each of n members; by malloc */
/* The value at idx, a number or many of them, for a fold. Sets m->view: it was a view. */
void      mr_given_numbers(lua_State *L, mr_member *m, int idx, int fold, mr_given *g);
/* Pushes it. `into`: a table or a view at that index, which it is written into; 0: a new table, or a new view. */
void      mr_given_push(lua_State *L, const mr_given *g, int into, int view);

#endif
