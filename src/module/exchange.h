/*
 * exchange: what send and receive do, for whoever has words of its own for how they end.
 *
 * Each function returns the number of results it has pushed, or what `end` returns; or it parks, as a tail call, and `k` is called with the
 * fiber as its context when the wait is over. Then k is to call mr_exchange_received or _sent. The channel must stay alive until then;
 * where the fiber can't yield, k is called before the function returns.
 */
#ifndef MR_EXCHANGE_H
#define MR_EXCHANGE_H

#include "module/module.h"
#include "channel/channel.h"

enum {
  EXCHANGE_CLOSED = -1,
  EXCHANGE_TIMEOUT = -2,
  EXCHANGE_BLOCKED = -3,         /* the deadline was 0, and it would have to wait */
  EXCHANGE_VALUE = -4,           /* a value can't travel: why is on the top of the stack */
  EXCHANGE_NIL = -5              /* the message is empty or begins with nil, which `nils` doesn't allow */
};

typedef struct mr_words {
  lua_KFunction k;
  int (*end)(lua_State *L, int how);   /* EXCHANGE_…; nothing was pushed but what it says there */
  int nils;
} mr_words;

/* A deadline of 0: without waiting. */
int  mr_exchange_receive(lua_State *L, mr_fiber *f, mr_channel *c, uint64_t deadline, const mr_words *w);
int  mr_exchange_received(lua_State *L, mr_fiber *f, const mr_words *w);
/* Parts, for hop.h: f's wait is open, and there is no deadline; a wait has ended so. */
int  mr_exchange_receive_open(lua_State *L, mr_fiber *f, mr_channel *c, const mr_words *w);
int  mr_exchange_sent_so(lua_State *L, mr_fiber *f, mr_channel *c, mr_reason why, const mr_words *w);
int  mr_exchange_received_so(lua_State *L, mr_fiber *f, mr_channel *c, mr_reason why, const mr_words *w);
/* Of the values from `first` to the top, which stay on the stack while the sender waits. */
int  mr_exchange_send(lua_State *L, mr_fiber *f, mr_channel *c, int first, uint64_t deadline, const mr_words *w);
int  mr_exchange_sent(lua_State *L, mr_fiber *f, const mr_words *w);
/* What there is, without waiting, or nil, "closed"; -1: nothing. */
int  mr_exchange_now(lua_State *L, mr_fiber *f, mr_channel *c);
/* For hop.h and pick.c: pushes the values of *m, which then is empty, and has come from c; likewise what a sender has who waited there, and was claimed. */
int  mr_exchange_push(lua_State *L, mr_fiber *f, mr_mail *m, mr_channel *c);
int  mr_exchange_take_from(lua_State *L, mr_fiber *f, mr_channel *c, mr_wait *peer);
void mr_exchange_back(mr_fiber *f);                  /* the message that could not be unpacked goes back to its channel */

extern const mr_waitclass mr_exchange_receiving, mr_exchange_sending;   /* for select */

#endif
