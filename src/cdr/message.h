/* message: what src/module/cdr.c, giop_make.c and orb_*.c call. The program is at stack index 1 unless it is said; arguments are checked already. */
#ifndef MR_CDR_MESSAGE_H
#define MR_CDR_MESSAGE_H

#include "cdr/type.h"
#include "cdr/giop.h"

/* A request without a body, and where its id is. */
typedef struct mr_head { mr_slice bytes; size_t idat; } mr_head;

/*
 * Each pushes the bytes; the values begin at the stack index `first`.
 * With CDR_BULK a message whose last value is a large string or sequence of octets is a list of three strings (bulk.h), the second of which may be a buffer.
 */
void mr_program_encode(lua_State *L, const mr_program *p, int codec, int first, int nvalues);
void mr_program_request(lua_State *L, const mr_program *p, const mr_head *head, uint32_t id, int codec, int first, int nvalues);
void mr_program_reply(lua_State *L, const mr_program *p, uint32_t id, int codec, uint32_t status, int contexts, int first, int nvalues);

/* Pushes the values and returns how many. `at` counts from 0. */
int mr_program_decode(lua_State *L, const mr_program *p, int codec, const char *s, size_t n, size_t at);

/* ---- without strings, for orb_call.c and orb_serve.c ---- */

/*
 * The same as mr_program_request, and as mr_program_reply without an exception, but the message stays in the thread's scratch buffer until the next one
 * is written (MR_HERE; MR_HERE_AFTER_ALL: code of the program's has run meanwhile). MR_PUSHED: it is long, and was pushed as by those. The program is at idx;
 * a reply's service contexts are at the index `contexts`, 0: there are none.
 */
enum { MR_PUSHED, MR_HERE, MR_HERE_AFTER_ALL };
int mr_program_ask(lua_State *L, const mr_program *p, int idx, const mr_head *head, uint32_t id, int codec, int first, int nvalues, mr_slice *message);
int mr_program_answer(lua_State *L, const mr_program *p, int idx, uint32_t id, int codec, int first, int nvalues, int contexts, mr_slice *message);
/* What mr_program_decode does in two steps: open pushes two values for a program at idx, and returns the index `fields` that read wants. */
int mr_program_open(lua_State *L, const mr_program *p, int idx);
int mr_program_read(lua_State *L, const mr_program *p, int fields, int codec, const char *s, size_t n, size_t at);

/* Service contexts: those of the list { { id, data }, … } at idx, or none. Raises when it is no such list; runs no Lua code else. */
void mr_out_contexts(lua_State *L, mr_out *o, int idx);

#endif
