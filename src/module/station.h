/* station: luaproc's channels, which are found by their names; the parts of luaproc that use them. */
#ifndef MR_STATION_H
#define MR_STATION_H

#include "module/exchange.h"

/* A name as an argument, also a number; then luaproc's words about it. */
const char *mr_station_name(lua_State *L, size_t *len);
int         mr_station_missing(lua_State *L);                          /* nil, "channel '…' does not exist" */
int         mr_station_says(lua_State *L, const char *before, const char *after);   /* nil, before .. name .. after */

/*
 * The channel of the name at 1, or NULL. It stays alive while the fiber waits: a process with one fiber keeps it in its cache, which changes
 * only outside finalisers; otherwise its userdata is put into the stack, at 2, and *first, where the values are, moves up.
 */
mr_channel *mr_station_find(lua_State *L, mr_fiber *f, const char *name, size_t len, int *first);
void        mr_station_forget(mr_fiber *f, mr_channel *c);             /* it was found closed */

int mr_station_new(lua_State *L);                                      /* luaproc.newchannel */
int mr_station_delete(lua_State *L);
int mr_station_send(lua_State *L);
int mr_station_receive(lua_State *L);
int mr_station_barrier(lua_State *L);

#endif
