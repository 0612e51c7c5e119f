/* pick: mare.select{ channel… } in a process: of channels that are received from, and nothing else; see pick.c. */
#ifndef MR_PICK_H
#define MR_PICK_H

#include "module/module.h"

int mr_pick(lua_State *L);                       /* the same as mr_select_any, shorter where that is possible */
int mr_select_any(lua_State *L);                 /* select.c: mare.select */

#endif
