/*
 * await: waiting for a request of src/io in a Lua function.
 *
 *   mr_hold *h = mr_hold_push(L);           first: may raise, and drops the request when an error comes
 *   h->request = …; h->finish = finish;     the hold takes over the reference
 *   return mr_await(L, index, pool, deadline, "read");
 *
 * `finish` pushes the results when the request is done. It is not called if the wait ends otherwise: then the results are nil,
 * "timeout", "ETIMEDOUT" and what `late` pushes, or an error is raised.
 */
#ifndef MR_AWAIT_H
#define MR_AWAIT_H

#include "module/module.h"
#include "io/request.h"

typedef int (*mr_finish)(lua_State *L, mr_request *r);
typedef struct mr_hold { mr_request *request; mr_finish finish, late; } mr_hold;   /* late: or NULL */

mr_hold *mr_hold_push(lua_State *L);
void     mr_hold_drop(mr_hold *h);
int      mr_await(lua_State *L, int idx, int pool, uint64_t deadline, const char *op);   /* as a tail call; idx: the hold */

int mr_fail_timeout(lua_State *L);                                   /* nil, "timeout", "ETIMEDOUT" */
int mr_fail_path(lua_State *L, const char *what, int err);          /* nil, "what: text", "ECODE" */
const char *mr_check_name(lua_State *L, int idx);                    /* a string without zero bytes */

#endif
