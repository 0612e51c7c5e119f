/* context_ssl: what context.c and tls.c share of OpenSSL. */
#ifndef IO_CONTEXT_SSL_H
#define IO_CONTEXT_SSL_H

#include <openssl/ssl.h>
#include "io/context.h"

struct mr_context {
  mr_shared shared;                  /* first */
  SSL_CTX *ctx;
  unsigned char verify_server;       /* MR_TLS_VERIFY*: what clients ask of servers */
  unsigned char verify_client;       /* and servers of clients */
  unsigned char has_cert;
  unsigned char *alpn;               /* owned, or NULL */
  size_t alpn_len;
};

int mr_tls_new_session(SSL *ssl, SSL_SESSION *s);

#endif
