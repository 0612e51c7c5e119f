/*
 * net: sockets and their addresses. Every descriptor made here is non-blocking and closed on exec; nothing here waits (but
 * port_net_wait) or raises SIGPIPE. Contract as in port.h: results are 0 or an errno value; counts of bytes are >= 0, or minus an errno value.
 * PORT_EAGAIN and its like are the errno values that callers tell apart.
 */
#ifndef PORT_NET_H
#define PORT_NET_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>

#define PORT_WOULD_BLOCK(e) ((e) == EAGAIN || (e) == EWOULDBLOCK)

/* ---- addresses ---- */
typedef struct port_addr { unsigned len; _Alignas(8) unsigned char bytes[128]; } port_addr;
enum { PORT_INET = 4, PORT_INET6 = 6, PORT_UNIX = 1 };
#define PORT_ADDR_TEXT 112                   /* room for any host or path, and the final 0 */

int port_addr_numeric(port_addr *a, const char *host, int port);  /* EINVAL: it is a name, or nonsense; "fe80::1%eth0" works */
int port_addr_any(port_addr *a, int family, int port);            /* every interface */
int port_addr_unix(port_addr *a, const char *path, size_t len);   /* "\0name": abstract; ENAMETOOLONG */
int port_addr_native(port_addr *a, const void *sockaddr, size_t len, int port);   /* as resolvers give it */
int port_addr_raw(port_addr *a, const void *sockaddr, size_t len);               /* with whatever port it has; EINVAL: it is none */
void port_addr_map(port_addr *a);                                 /* an IPv4 address as sockets of IPv6 know it */
int port_addr_family(const port_addr *a);                         /* 0: none */
int port_addr_port(const port_addr *a);                           /* -1: it has none */
/* Host or path; its length. A mapped IPv4 address is shown as what it is. */
size_t port_addr_text(const port_addr *a, char buf[PORT_ADDR_TEXT]);

/* ---- sockets ---- */
enum { PORT_STREAM, PORT_DATAGRAM };
typedef struct port_slice { const char *p; size_t len; } port_slice;
#define PORT_SLICES 16                       /* at most so many in one call */

int  port_net_socket(int family, int type, int *fd);
void port_net_close(int fd);
int  port_net_bind(int fd, const port_addr *a);
int  port_net_listen(int fd, int backlog);
int  port_net_adopt(int fd);                 /* of somebody else's making: it never blocks from now on */
int  port_net_duplicate(int fd, int *copy);
int  port_net_hostname(char *buf, size_t size);
struct port_want { int fd; unsigned char read, write; };
int  port_net_ready(struct port_want *w, int n);   /* leaves what is so now; how many entries have something. -1: no memory */
int  port_net_await_any(struct port_want *w, int n, int ms);   /* the same, but waits until one has something; -1 ms: for ever. 0 also at a signal */
int  port_net_accept(int fd, int *conn);
int  port_net_connect(int fd, const port_addr *a);   /* EINPROGRESS: under way */
int  port_net_connected(int fd);             /* after EINPROGRESS: 0, EINPROGRESS, or why it failed */
long port_net_read(int fd, void *p, size_t n);     /* this and port_net_write never block */
int  port_net_patient(int fd);               /* a connected stream socket, for the next: errno. port_net_adopt takes it back */
long port_net_read_patient(int fd, void *p, size_t n);   /* waits for bytes: up to a second (-EAGAIN), or to a signal (-EINTR) */
long port_net_write(int fd, const port_slice *s, int n);
long port_net_receive(int fd, void *p, size_t n, port_addr *from);
long port_net_send(int fd, const void *p, size_t n, const port_addr *to);   /* to NULL: where it is connected to */
int  port_net_wait(int fd, int write, int ms);   /* waits, with -1 for ever. 1: it is ready; 0: not within that time, or a signal came */
int  port_net_readable(int fd);              /* 1: a read would not block */
int  port_net_writable(int fd);
int  port_net_shutdown(int fd, int read, int write);
int  port_net_local(int fd, port_addr *a);
int  port_net_peer(int fd, port_addr *a);
int  port_net_disconnect(int fd);            /* of a datagram socket */
int  port_net_unlink_stale(const port_addr *a);   /* the file of a Unix socket that nobody listens on any more; else nothing */
int  port_net_permit(const port_addr *a, unsigned mode);   /* permission bits of the file of a Unix socket; of others nothing */
void port_net_unlink_own(const port_addr *a);     /* the file of a Unix socket; of others nothing */

/* ---- options ---- */
/* Names: nodelay keepalive reuseaddr reuseport rcvbuf sndbuf broadcast v6only ttl (flags are 0 and 1), linger (seconds, -1 = off). */
void port_net_await(int fd, int bytes);        /* so many are worth being woken for; 1: any */
int  port_net_option_known(const char *name);
int  port_net_option_get(int fd, const char *name, int *value);   /* ENOPROTOOPT: not of this kind of socket */
int  port_net_option_set(int fd, const char *name, int value);
int  port_net_nodelay(int fd);               /* sent at once; no error where it means nothing */

#endif
