/*
 * net: what the modules of sockets share (net.c, address.c, dial.c, conn.c, udp.c, tls.c).
 *
 * Failures are nil, message, code: the system's symbolic code; "closed", "EOF" at the end of a stream; "closed", "EBADF" for what was closed.
 * A time limit that the caller has set gives nil, "timeout".
 */
#ifndef MODULE_NET_H
#define MODULE_NET_H

#include "module/hold.h"
#include "io/conn.h"
#include "io/resolve.h"
#include "io/listener.h"
#include "port/simnet.h"

int mr_net_fail(lua_State *L, const char *message, const char *code);
int mr_net_error(lua_State *L, int err);
int mr_net_fail_at(lua_State *L, int err, const char *what);       /* "what: message" */

/* How long operations may wait that don't say it, in ns; 0: not at all, UINT64_MAX: for ever. Read from the seconds at idx. */
uint64_t mr_patience(lua_State *L, int idx);
uint64_t mr_deadline_after(uint64_t patience);
/* The seconds at idx, or `patience` from now when there are none. */
uint64_t mr_deadline_or(lua_State *L, int idx, uint64_t patience);

/* ---- addresses (address.c) ---- */
/* Where something is: a place in the file system, or a host, perhaps by name, and a port. */
typedef struct mr_where {
  const char *host;                  /* alive on the stack; "" or NULL: none given */
  int port;
  int is_path;
  port_addr path;
} mr_where;
/* Reads a port, "host:port", "[v6]:port", ":port", "unix:/path" or a table with host, port, path at idx. Pushes what it needs to keep. */
void mr_where_get(lua_State *L, int idx, mr_where *w);
/* Raises when the table at idx has a field that is not in the list ("host, port"): a misspelt limit must not be none. */
void mr_options_check(lua_State *L, int idx, const char *list);
/* A host at idx and a port behind it. */
void mr_where_pair(lua_State *L, int idx, mr_where *w);
int  mr_port_get(lua_State *L, int idx);
void mr_path_push(lua_State *L, const port_addr *a);             /* "unix:/path" or "unix:@name", for messages */
int  mr_push_addr(lua_State *L, const port_addr *a);            /* host, port, or path; how many */

void mr_outside_address(lua_State *L, const port_addr *a);      /* raises with --seed, when nobody in the program has it */

/* Likewise: an operation goes on after its wait, and what is cut now is cut there. */
void mr_place_again(lua_State *L);
#define mr_goes_on(L) (PORT_UNLIKELY(port_sim_on) ? mr_place_again(L) : (void)0)

/* Names. push leaves a hold, whose request is a mr_resolve; await ends in its finish, which says that there is none by fail. */
mr_hold *mr_names_push(lua_State *L, const char *host, int datagram, mr_finish finish);
mr_hold *mr_query_push(lua_State *L, const port_query *q, mr_finish finish);    /* anything that the resolver can be asked */
int  mr_names_await(lua_State *L, int idx, uint64_t deadline);                  /* a tail call */
int  mr_names_fail(lua_State *L, const mr_resolve *q);


/* ---- connections (conn.c), in Lua ---- */
int  mr_push_conn(lua_State *L, mr_conn *c);                    /* takes the reference over, also when it raises */
mr_conn *mr_check_conn(lua_State *L, int idx);
int  mr_read_method(lua_State *L);                              /* methods of connections (read.c) */
int  mr_read_fast(lua_State *L);
int  mr_read_buffer_method(lua_State *L);
int  mr_read_until_method(lua_State *L);
/* One message of a protocol, of at most `limit` bytes; `seconds` is an index. The connection is at 1; a tail call. */
int  mr_read_frame(lua_State *L, mr_fiber *f, mr_conn *c, const mr_framing *framing, size_t limit, size_t room, int seconds);
/*
 * For a class of its own that reads: it has the connection from enter (0: not now, or not this one) to leave. look gives bytes that have come, which lie there
 * until anything is read: how many, -EAGAIN for none yet (the wait's link is mr_read_link), 0 for what only a read can tell. Of them `used` go by use, at
 * once after look; what is left over, the next read finds.
 */
int  mr_read_enter(mr_conn *c);
void mr_read_leave(mr_conn *c);
long mr_read_look(mr_fiber *f, mr_conn *c, const char **p);
void mr_read_use(mr_conn *c, const char *p, size_t n, size_t used);
int  mr_read_link(void *o, mr_wait *w);
void mr_read_unlink(void *o, mr_wait *w);
int  mr_conn_handshake(lua_State *L);                           /* methods of connections with TLS (tls.c) */
int  mr_conn_session(lua_State *L);
int  mr_conn_tls(lua_State *L);
int  mr_close_meta(lua_State *L);                               /* __close of what has a method close */
int  mr_dial_connect(lua_State *L);                                   /* net.connect (dial.c) */
int  mr_udp_new(lua_State *L);                                  /* net.udp (udp.c) */
void mr_conn_setup(void);
int  mr_conn_fail(lua_State *L, mr_conn *c, int err);            /* what is wrong with it: nil, message, code */
/* option(name[, value]): read from 2 and 3, which may raise and run finalisers; then done, which calls no Lua; then its results are pushed. */
typedef struct mr_setting { const char *name; int value, set, err; } mr_setting;
mr_setting mr_setting_get(lua_State *L);
void mr_setting_do(mr_setting *s, int fd);
int  mr_setting_push(lua_State *L, const mr_setting *s);


#endif
