/*
 * hold: a request of src/io - a file operation, a name to resolve, a program to start - that a Lua function waits for.
 *
 *   mr_hold *h = mr_hold_push(L);           first: may raise, and drops the request when an error comes
 *   h->request = …; h->finish = finish;     the hold takes over the reference
 *   return mr_hold_await(L, index, pool, deadline, "read");
 *
 * `finish` pushes the results when the request is done, or goes on to wait for something else (mr_await, a tail call). It is not called if the
 * wait ends otherwise: then the results are nil, "timeout", or nil, "timeout", nil and what `late` pushes, or an error is raised.
 */
#ifndef MR_HOLD_H
#define MR_HOLD_H

#include "module/module.h"
#include "io/request.h"

typedef int (*mr_finish)(lua_State *L, mr_request *r);
typedef struct mr_hold {
  mr_request *request;
  mr_finish finish, late;              /* late: or NULL */
  const char *op;
  unsigned char pool, submitted;
} mr_hold;

mr_hold *mr_hold_push(lua_State *L);
void     mr_hold_drop(mr_hold *h);
int      mr_hold_await(lua_State *L, int idx, int pool, uint64_t deadline, const char *op);   /* as a tail call; idx: the hold */

int mr_fail_path(lua_State *L, const char *what, int err);          /* nil, "what: text", "ECODE" */
const char *mr_check_name(lua_State *L, int idx);                    /* a string without zero bytes */

#endif
