/*
 * tls: OpenSSL on a connection.
 *
 * OpenSSL reads and writes through a BIO of ours that ends in the connection's descriptor, so SIGPIPE is neither raised nor redefined. What the
 * kernel doesn't take is kept in `out`: so OpenSSL never waits to write, and a fiber that reads needs no turn of those that write.
 * It is kept short: a write waits until `out` is empty before it gives OpenSSL more.
 */
#ifndef IO_TLS_H
#define IO_TLS_H

#include "io/conn.h"

typedef struct mr_context mr_context;              /* shared: what many connections have in common */
extern const mr_sharetype *mr_context_type;        /* set by module/ */

long mr_tls_read(mr_conn *c, void *p, size_t n);
long mr_tls_write(mr_conn *c, const port_slice *s, int n);
int  mr_tls_flush(mr_conn *c);                     /* what the kernel did not take: 0, EAGAIN or another errno value */
int  mr_tls_direction(mr_tls *t, int usual);       /* what the last -EAGAIN waits for */
int  mr_tls_settled(const mr_tls *t);              /* the handshake is over, nothing went wrong, and all that was sealed is with the kernel */
void mr_tls_end(mr_conn *c);                       /* says goodbye, without waiting */
void mr_tls_free(mr_tls *t);
int  mr_tls_failed(mr_tls *t);
const char *mr_tls_text(mr_tls *t);
const char *mr_tls_code(mr_tls *t);

#endif
