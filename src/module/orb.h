/*
 * orb: what the straight functions of calls share (orb_call.c, orb_serve.c).
 *
 * They do what lua/mare/orb does, for the call about which nothing is unusual, and keep no records of their own: what they know of links, peers and
 * budgets they read from those modules' tables, and they write there what those modules would. So each may stop before its first change and leave the
 * call to Lua, and what Lua does meanwhile is seen. A field is found where the last table had it: some ten instructions. Only numbers and booleans are
 * written so, which need no barrier. All of it needs Lua's layouts (lua/layout.h); without them there are no straight functions.
 */
#ifndef MODULE_ORB_H
#define MODULE_ORB_H

#include "module/slots.h"
#include "cdr/message.h"
#include "cdr/put.h"

mr_program *mr_program_at(lua_State *L, int idx);   /* the program there, or NULL (cdr.c) */

extern const luaL_Reg mr_orb_serving[], mr_orb_telling[];    /* functions of mare.orb.core */

enum { MR_ORB_MOST = 16384 };                    /* bytes of a message that the straight functions read: it lies in the C stack meanwhile */

/* A message of this type has come whole and is no longer than that; its parts. 0: not so, or its parts can't be read. */
static inline int mr_short_message(const char *p, size_t n, int type, mr_giop *g, size_t *length) {
  const char *why;
  size_t offset;
  int64_t size = mr_giop_length(p, n, &why);
  if (PORT_UNLIKELY(size <= 0 || (uint64_t)size > n || size > MR_ORB_MOST || p[GIOP_TYPE_AT] != type)) return 0;
  *length = (size_t)size;
  return PORT_LIKELY(mr_giop_parse(g, p, *length, &why, &offset));
}

#endif
