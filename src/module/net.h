/*
 * net: what the modules of sockets share (net.c, address.c, dial.c, conn.c, udp.c, tls.c).
 *
 * Failures are nil, message, code: the system's symbolic code; "timeout", "ETIMEDOUT"; "closed", "EOF" at the end of a stream; "closed",
 * "EBADF" for what was closed.
 */
#ifndef MODULE_NET_H
#define MODULE_NET_H

#include "module/module.h"
#include "io/conn.h"
#include "io/resolve.h"
#include "io/listener.h"

int mr_net_fail(lua_State *L, const char *message, const char *code);
int mr_net_error(lua_State *L, int err);
int mr_net_fail_at(lua_State *L, int err, const char *what);       /* "what: message" */

/*
 * After a successful mr_wait_open and queueing. Where the fiber waits by yielding this doesn't return, k is called instead; elsewhere it
 * returns the reason. So an operation that waits many times is a loop, not a recursion.
 */
mr_reason mr_park_here(lua_State *L, mr_fiber *f, uint64_t deadline, lua_KContext ctx, lua_KFunction k);
/* What a wait that did not end by MR_WOKEN means: raises, or gives nil, message, code. */
int mr_net_fail_wait(lua_State *L, mr_fiber *f, mr_reason r);
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
int  mr_push_addr(lua_State *L, const port_addr *a);            /* host, port, or path; how many */

/*
 * Names. push leaves a userdata that owns the request; wait returns 0 when the result is there (k may run instead of its return), or pushes a
 * failure and returns how many values; ended does the same in k, with the reason of the wake-up.
 */
mr_resolve *mr_names_push(lua_State *L, const char *host, int datagram);
mr_resolve *mr_names_at(lua_State *L, int idx);
int  mr_names_wait(lua_State *L, mr_resolve *q, uint64_t deadline, lua_KContext ctx, lua_KFunction k);
int  mr_names_ended(lua_State *L, mr_resolve *q, mr_reason r);

/* The running fiber, for functions that are only in processes' states. */
static inline mr_fiber *mr_proc_fiber(lua_State *L) { return (*(mr_proc **)lua_getextraspace(L))->fiber; }

/* ---- connections (conn.c), in Lua ---- */
int  mr_push_conn(lua_State *L, mr_conn *c);                    /* takes the reference over, also when it raises */
mr_conn *mr_check_conn(lua_State *L, int idx);
int  mr_read_method(lua_State *L);                              /* methods of connections (read.c) */
int  mr_read_fast(lua_State *L);
int  mr_read_until_method(lua_State *L);
/* One message of a protocol, of at most `limit` bytes; `seconds` is an index. The connection is at 1; a tail call. */
int  mr_read_frame(lua_State *L, mr_fiber *f, mr_conn *c, const mr_framing *framing, size_t limit, int seconds);
int  mr_conn_handshake(lua_State *L);                           /* methods of connections with TLS (tls.c) */
int  mr_conn_session(lua_State *L);
int  mr_conn_tls(lua_State *L);
int  mr_close_meta(lua_State *L);                               /* __close of what has a method close */
int  mr_dial(lua_State *L);                                     /* net.connect (dial.c) */
int  mr_udp_new(lua_State *L);                                  /* net.udp (udp.c) */
void mr_conn_setup(void);
int  mr_conn_fail(lua_State *L, mr_conn *c, int err);            /* what is wrong with it: nil, message, code */
void mr_net_setup(void);
void mr_tls_setup(void);
int  mr_option(lua_State *L, int fd);                           /* name[, value] at 2 and 3 */

int  luaopen_mare_net(lua_State *L);
int  luaopen_mare_tls_core(lua_State *L);

#endif
