/* log: what the log (log.c) keeps in the storage of fibers (fiber.c). */
#ifndef MODULE_LOG_H
#define MODULE_LOG_H

#include "module/module.h"

#define MR_LOG_FIELDS "mare.log"                 /* the key in a fiber's storage; its value is a table that is never changed */

/* Pushes f's, or nil; its type. */
int mr_fiber_log_fields(lua_State *L, const mr_fiber *f);

#endif
