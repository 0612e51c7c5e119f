/* giop_make: the part of mare.orb.giop.core that makes messages. */
#ifndef MR_GIOP_MAKE_H
#define MR_GIOP_MAKE_H

#include "module/module.h"

extern const luaL_Reg mr_giop_makers[];

#endif
