/*
 * resolve: names to socket addresses, by the system's resolver. Blocks, so it is called on threads that may.
 * An address is the system's own structure, whatever its family, in a place that is large enough for every one.
 */
#ifndef PORT_RESOLVE_H
#define PORT_RESOLVE_H

#include <stddef.h>
#include <stdint.h>

enum { PORT_ADDRESS_MAX = 128 };
typedef struct port_address {
  unsigned len;                        /* bytes in use */
  union { uint64_t align; unsigned char bytes[PORT_ADDRESS_MAX]; } u;   /* a struct sockaddr */
} port_address;

enum { PORT_RESOLVE_ANY, PORT_RESOLVE_4, PORT_RESOLVE_6 };    /* which family */
typedef struct port_query {
  const char *host;                    /* name or address; NULL: all interfaces (passive), or this machine */
  const char *service;                 /* port as digits, or a service's name; NULL: 0 */
  unsigned char family;                /* PORT_RESOLVE_* */
  unsigned char datagram;              /* for UDP; else TCP */
  unsigned char passive;               /* to listen on */
  unsigned char numeric;               /* only addresses: asks nobody, never blocks */
} port_query;

/* Up to `max` addresses in the order in which to try them. How many (at least 1), or 0 with *code and text. */
int port_resolve(const port_query *q, port_address *out, int max, const char **code, char *text, size_t size);

#endif
