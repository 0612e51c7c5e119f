/* subprocess: what command.c (the argument) and subprocess.c share. */
#ifndef MR_SUBPROCESS_H
#define MR_SUBPROCESS_H

#include "module/hold.h"
#include "io/run.h"

/* Reads the table at 1 into r; raises what is wrong with it in the name of run or spawn. */
void mr_command(lua_State *L, mr_run *r, const char *name, int is_run);

#endif
