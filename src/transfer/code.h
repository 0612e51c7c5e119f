/*
 * code: the bytecode of a Lua function, dumped once and referenced by messages. Private to src/transfer.
 */
#ifndef MR_CODE_H
#define MR_CODE_H

#include "transfer/packet.h"

/* The code of the function on top of the sender's stack (it is object `number`); the packer holds a reference. */
int  mr_code_get(mr_packer *p, uint32_t number, mr_shared **code);
void mr_code_prepare(lua_State *L);            /* makes the cache of a state that sends functions */
/* Pushes a new function of that code; its upvalues are nil, but the first is the globals. Raises what loading raises. */
void mr_code_load(lua_State *L, const mr_shared *code);

#endif
