/* message: what src/module/cdr.c and giop_make.c call. The program is at stack index 1; arguments are checked already. */
#ifndef MR_CDR_MESSAGE_H
#define MR_CDR_MESSAGE_H

#include "cdr/type.h"

/*
 * Each pushes the bytes; the values begin at the stack index `first`.
 * With CDR_BULK a message whose last value is a large string or sequence of octets is a list of three strings (bulk.h), the second of which may be a buffer.
 */
void mr_program_encode(lua_State *L, const mr_program *p, int codec, int first, int nvalues);
void mr_program_request(lua_State *L, const mr_program *p, const char *head, size_t length, size_t idat, uint32_t id, int codec, int first,
                        int nvalues);
void mr_program_reply(lua_State *L, const mr_program *p, uint32_t id, int codec, uint32_t status, int contexts, int first, int nvalues);

/* Pushes the values and returns how many. `at` counts from 0. */
int mr_program_decode(lua_State *L, const mr_program *p, int codec, const char *s, size_t n, size_t at);

/* Service contexts: those of the list { { id, data }, … } at idx, or none. Raises when it is no such list; runs no Lua code else. */
void mr_out_contexts(lua_State *L, mr_out *o, int idx);

#endif
