/*
 * context: what TLS connections have in common - certificates, whom to trust, what is spoken. Constant once it was made; shared by reference among
 * processes. Functions that fail leave the reason in `text`.
 */
#ifndef IO_CONTEXT_H
#define IO_CONTEXT_H

#include "io/tls.h"

enum { MR_TLS_VERIFY_NONE, MR_TLS_VERIFY_OPTIONAL, MR_TLS_VERIFY };
enum { MR_TLS_TEXT = 240, MR_TLS_CODE = 24 };

mr_context *mr_context_new(void);                              /* one reference; NULL: no memory */
void mr_context_destroy(mr_shared *o);
/* Files in PEM, or PEM itself where the text begins so. 0 = done. */
int  mr_context_cert(mr_context *x, const char *cert, const char *key, char text[MR_TLS_TEXT]);
int  mr_context_trust(mr_context *x, const char *ca, char text[MR_TLS_TEXT]);     /* a file, a folder/, PEM; NULL: the system's */
void mr_context_verify(mr_context *x, int client, int server);  /* what clients ask of servers, and servers of clients */
int  mr_context_versions(mr_context *x, const char *min, const char *max);        /* "1.2", "1.3", NULL */
int  mr_context_alpn(mr_context *x, const char *list, size_t len);                /* as on the wire: length, name, … */
int  mr_context_ciphers(mr_context *x, const char *list, char text[MR_TLS_TEXT]);
int  mr_context_has_cert(const mr_context *x);

/*
 * The connection speaks TLS from now on, as soon as both sides have anything to say. `host`: which server is meant, for SNI and the check of
 * its certificate, NULL: none. `session`: of an earlier connection, or NULL. 0, ENOMEM or EINVAL (the host's name).
 */
int  mr_tls_client(mr_conn *c, mr_context *x, const char *host, const char *session, size_t len);
int  mr_tls_serve(mr_conn *c, mr_shared *context);
int  mr_tls_handshake(mr_conn *c);                 /* 0, EAGAIN, or an errno value */
/* The session to resume: its bytes, if there is room for them; how many they are. 0: there is none (yet). */
size_t mr_tls_session(mr_conn *c, unsigned char *to, size_t room);

typedef struct mr_tls_info {
  const char *version, *cipher;                                /* live for ever; the rest lives in here, whatever becomes of the connection */
  char server_name[256], alpn[255];                            /* "" = none */
  size_t alpn_len;
  int resumed, server, verified;
  char subject[256], issuer[256], until[32];                   /* of the peer's certificate; "" = none */
  char fingerprint[65];                                        /* its SHA-256, in hexadecimal */
} mr_tls_info;
void mr_tls_describe(mr_conn *c, mr_tls_info *i);

#endif
