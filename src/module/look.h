/* look: parts of mare.process and its handles that stand in look.c. */
#ifndef MR_MODULE_LOOK_H
#define MR_MODULE_LOOK_H

#include "module/module.h"

int mr_process_list(lua_State *L);             /* functions */
int mr_process_totals(lua_State *L);
int mr_process_info(lua_State *L);             /* methods of handles */
int mr_process_traceback(lua_State *L);

extern const char *const mr_level_names[];     /* process.c: of LEVEL_* */

#endif
