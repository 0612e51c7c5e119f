/*
 * format: the formats of string.pack and string.unpack, for bytes that are no string. What they mean and the errors they raise are Lua's.
 *
 * Numbers of one type in a row are the same letters without their options: mr_number.
 */
#ifndef SHARE_FORMAT_H
#define SHARE_FORMAT_H

#include <stddef.h>
#include "lua/compat.h"

/* Values out of len bytes at p, from offset `at` on: pushed, and then the position behind them, from 1; how many that is in all. [raises] */
int  mr_format_unpack(lua_State *L, const char *format, const unsigned char *p, size_t len, size_t at);

/* The arguments from idx on. `room` gives a place for n bytes behind the `done` there are already; it is written to at once. [raises] */
typedef unsigned char *(*mr_format_room)(lua_State *L, void *ud, size_t done, size_t n);
size_t mr_format_pack(lua_State *L, const char *format, int idx, mr_format_room room, void *ud);   /* how many bytes */

/* ---- numbers of this machine, by letter: b B h H i I l L j J f d n ---- */
size_t mr_number_size(char type);                                          /* 0: there is no such type */
void   mr_number_push(lua_State *L, char type, const unsigned char *p);
/* The number at idx; raises if it is none, or does not fit into the type. */
typedef struct mr_number { unsigned char bytes[8]; } mr_number;
void   mr_number_check(lua_State *L, int idx, char type, mr_number *n);

#endif
