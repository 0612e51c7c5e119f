/* rules: by which rule a userdata of another library travels (rules.c). */
#ifndef MR_RULES_H
#define MR_RULES_H

#include "module/module.h"
#include "mare.h"

void mr_rules_register(lua_State *L, const char *name, const mare_transfer *rule);     /* of mare.h: raises */
int  mr_rules_regudata(lua_State *L);            /* luaproc.regudata */
int  mr_rules_transffuncs(lua_State *L);         /* luaproc.transffuncs */

#endif
