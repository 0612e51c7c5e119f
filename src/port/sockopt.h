/*
 * sockopt: options of sockets by LuaSocket's names. Contract as in net.h: results are 0 or an errno value, nothing waits.
 */
#ifndef PORT_SOCKOPT_H
#define PORT_SOCKOPT_H

#include <stddef.h>

/* What the value of an option is. */
enum { PORT_OPT_FLAG, PORT_OPT_NUMBER, PORT_OPT_LINGER, PORT_OPT_ERROR, PORT_OPT_DEVICE, PORT_OPT_INTERFACE, PORT_OPT_MEMBER, PORT_OPT_MEMBER6 };
/* Which sockets have it, and in which direction. */
enum { PORT_OPT_TCP_GET = 1, PORT_OPT_TCP_SET = 2, PORT_OPT_UDP_GET = 4, PORT_OPT_UDP_SET = 8, PORT_OPT_UNIX_GET = 16, PORT_OPT_UNIX_SET = 32 };

typedef struct port_sockopt { const char *name; int level, id; unsigned char kind, where; } port_sockopt;
#define PORT_OPT_TEXT 64

const port_sockopt *port_sockopt_find(const char *name, int where);   /* NULL: no such sockets have it in this direction */
int port_sockopt_get(int fd, const port_sockopt *o, int *value);      /* flags, numbers, the pending error */
int port_sockopt_set(int fd, const port_sockopt *o, int value);
int port_sockopt_linger_get(int fd, int *on, int *seconds);
int port_sockopt_linger_set(int fd, int on, int seconds);
int port_sockopt_text_get(int fd, const port_sockopt *o, char buf[PORT_OPT_TEXT]);    /* a device's name, an interface's address */
int port_sockopt_text_set(int fd, const port_sockopt *o, const char *text);           /* EINVAL: that is no address */
int port_sockopt_is_group(const port_sockopt *o, const char *group);                  /* it is an address at least */
/* The group, and an interface: its address, or of IPv6 its number. *bad: the interface's text is no address. */
int port_sockopt_member(int fd, const port_sockopt *o, const char *group, const char *address, unsigned number, int *bad);

#endif
