/* atomic: what the files of mare.atomic share. */
#ifndef MR_MODULE_ATOMIC_H
#define MR_MODULE_ATOMIC_H

#include "module/module.h"

int mr_once_l_once(lua_State *L);    /* once.c: atomic.once */

#endif
