/*
 * socket: what the files of mare.socket.core share (socket.c objects, addresses, options; socket_io.c what waits; socket_select.c).
 * Lua files on top of them make LuaSocket's interface: lua/mare/socket.lua.
 *
 * An object is a userdata of its state alone. Its class is its metatable and changes as LuaSocket's: a master becomes a client or a server.
 * The descriptor is made when it is first needed; the watch when an operation first has to wait: many sockets never do.
 */
#ifndef MODULE_SOCKET_H
#define MODULE_SOCKET_H

#include "module/net.h"
#include "io/bytes.h"

/* One operation of a kind at a time; the others wait for their turn, first come first served. */
typedef struct mr_turn {
  int busy;
  uint64_t progress;                 /* of whose turn it is: bytes sent; or received, and looked at in vain */
  mr_wait waiting;
} mr_turn;

typedef struct mr_sock {
  uint64_t tag;                      /* tells it from other libraries' userdata */
  int class;                         /* SOCK_* */
  int fd;                            /* -1: none yet, or closed */
  mr_watch *watch;                   /* NULL: nothing has waited for it so far */
  unsigned char family;              /* PORT_INET, PORT_INET6, PORT_UNIX; 0: as the first address says */
  unsigned char slow;                /* so many reads wait first: the peer answers later than it is asked for */
  int lost;                          /* an errno value: bytes were lost, there was no memory for their string */
  double block, total;               /* seconds; negative: none */
  uint64_t taken;                    /* how often bytes were taken out of `in`, and the socket was closed */
  uint64_t received, sent;           /* bytes */
  double born;                       /* seconds since 1970 */
  mr_bytes in;                       /* received, not asked for yet */
  mr_turn reading, writing;
} mr_sock;

enum { SOCK_MASTER, SOCK_CLIENT, SOCK_SERVER, SOCK_UNCONNECTED, SOCK_CONNECTED, SOCK_UNIX_MASTER, SOCK_UNIX_CLIENT, SOCK_UNIX_SERVER,
       SOCK_UNIX_UNCONNECTED, SOCK_UNIX_CONNECTED, SOCK_CLASSES };
extern const char *const mr_sock_class[SOCK_CLASSES + 1];    /* "tcp{master}" …, NULL */
#define SOCK_IS(class) (1u << (class))
#define SOCK_ANY_TCP (SOCK_IS(SOCK_MASTER) | SOCK_IS(SOCK_CLIENT) | SOCK_IS(SOCK_SERVER))
#define SOCK_ANY_UDP (SOCK_IS(SOCK_UNCONNECTED) | SOCK_IS(SOCK_CONNECTED))
#define SOCK_ANY_STREAM (SOCK_IS(SOCK_UNIX_MASTER) | SOCK_IS(SOCK_UNIX_CLIENT) | SOCK_IS(SOCK_UNIX_SERVER))
#define SOCK_ANY_DGRAM (SOCK_IS(SOCK_UNIX_UNCONNECTED) | SOCK_IS(SOCK_UNIX_CONNECTED))
#define SOCK_ANY 0xffffu

mr_sock *mr_sock_to(lua_State *L, int idx);                  /* NULL: it is none */
/* The object at 1, of one of those classes; or an error that names what is expected, as LuaSocket's. */
mr_sock *mr_sock_check(lua_State *L, unsigned classes);
mr_sock *mr_sock_push(lua_State *L, int class, int family);
void     mr_sock_become(lua_State *L, int idx, int class);
int      mr_sock_watch(mr_sock *s);                          /* 0 or an errno value: it has one now */
int      mr_sock_fail(lua_State *L, int err);                /* nil, and LuaSocket's word for it */
const char *mr_sock_text(int err, char *buf, size_t size);
uint64_t mr_sock_deadline(const mr_sock *s);
double   mr_sock_now(void);

int mr_sock_accept(lua_State *L);                            /* methods that wait (socket_io.c) */
int mr_sock_connect(lua_State *L);
int mr_sock_receive(lua_State *L);
int mr_sock_send(lua_State *L);
int mr_sock_dgram_receive(lua_State *L);
int mr_sock_receivefrom(lua_State *L);
int mr_sock_dgram_send(lua_State *L);
int mr_sock_sendto(lua_State *L);
void mr_turn_refuse(mr_turn *t, mr_fiber *near);             /* who waits for it is told that the socket was closed */
int mr_sock_select(lua_State *L);                            /* socket_select.c */
int mr_sock_option(lua_State *L, int set);                   /* socket_option.c */


#endif
