/*
 * http: what http.c and http_answer.c share.
 *
 * A shape is what all requests of a process have alike: where their fields lie (slots.h), and the nodes that a new one's table begins with. Lua's side
 * of a request is lua/mare/http/request.lua.
 */
#ifndef MODULE_HTTP_H
#define MODULE_HTTP_H

#include "module/slots.h"
#include "module/net.h"
#include "io/httphead.h"

#define MR_HTTP_FIELDS(F) \
  F(connection) F(method) F(target) F(raw_path) F(head) F(bits) F(length) F(status) F(_began) F(_sent) F(_done) F(_broken)
enum { MR_HTTP_FIELDS(MR_F_NUMBER) MR_HTTP_NFIELDS, MR_HTTP_NEW = F__broken, MR_HTTP_NODES = 16 };   /* a new one has those before NEW */

typedef struct mr_moment { int64_t second; char text[40]; } mr_moment;    /* the text of a second, made anew when it is over */

typedef struct mr_httpshape {
  uint64_t tag;
  mr_slot slots[MR_HTTP_NFIELDS];
  const raw_table *first, *class;      /* an empty request, the metatable of all; its user values keep them */
  mr_moment moment;
} mr_httpshape;

static inline uint64_t mr_httpshape_tag(const mr_httpshape *s) { return mr_secret ^ (uintptr_t)s ^ 0x68747470; }

/* http_answer.c */
const char *mr_http_phrase(lua_Integer status);                  /* "" for a status that nobody has given a meaning */
void mr_http_date(char *to, size_t room, int64_t t);
int  mr_http_reply(lua_State *L);      /* a closure over a shape */
void mr_http_head_push(lua_State *L);  /* core.head */

#endif
