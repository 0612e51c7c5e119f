/* control: parts of mare.process and its handles that stand in control.c. */
#ifndef MR_MODULE_CONTROL_H
#define MR_MODULE_CONTROL_H

#include "module/module.h"

int mr_process_cancel(lua_State *L);           /* methods of handles */
int mr_process_kill(lua_State *L);
int mr_process_link(lua_State *L);
int mr_process_unlink(lua_State *L);
int mr_process_give(lua_State *L);
int mr_process_owner(lua_State *L);
int mr_process_trap(lua_State *L);             /* functions */
int mr_process_masked(lua_State *L);
int mr_process_deadline(lua_State *L);
int mr_process_remaining(lua_State *L);
int mr_process_on_exit(lua_State *L);
unsigned mr_ties_field(lua_State *L, int idx); /* the options linked and owned of spawn, at idx: TIE_* */
void mr_control_hooks(void);

#endif
