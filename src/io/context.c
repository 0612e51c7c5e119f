/* context: see context.h. */
#include "io/context_ssl.h"
#include "port/errors.h"
#include "port/simnet.h"
#include "port/port.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>

const mr_sharetype *mr_context_type;

/* The last reason; where that says no more than "system lib", the system's before it. */
static const char *reason(char *buf, size_t size) {
  unsigned long e, last = 0;
  int err = 0;
  while ((e = ERR_get_error()) != 0) {
    if (ERR_SYSTEM_ERROR(e)) err = (int)ERR_GET_REASON(e);
    last = e;
  }
  if (err && ERR_GET_REASON(last) == ERR_R_SYS_LIB) return port_error_text(err, buf, size);
  return last ? ERR_reason_error_string(last) : NULL;
}

static int fail(char *text, const char *what, const char *name) {
  char where[64] = "", buf[128];
  const char *why = reason(buf, sizeof buf);
  if (name && strncmp(name, "-----BEGIN", 10) != 0) snprintf(where, sizeof where, " '%.56s'", name);
  snprintf(text, MR_TLS_TEXT, "%s%s: %.120s", what, where, why ? why : "the system gives no reason");
  ERR_clear_error();
  return 1;
}

/* ---- chance, in a run that can be repeated: keys and signatures, whose lengths differ, come from the seed. There nobody outside listens. ---- */

static int random_bytes(unsigned char *to, int n) {
  for (int i = 0; i < n; i += (int)sizeof(uint64_t)) {
    uint64_t draw = port_entropy();
    memcpy(to + i, &draw, n - i < (int)sizeof draw ? (size_t)(n - i) : sizeof draw);
  }
  return 1;
}

static int is_seeded(void) { return 1; }

static void use_seed(void) {
  static const RAND_METHOD seeded = { .bytes = random_bytes, .pseudorand = random_bytes, .status = is_seeded };
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  RAND_set_rand_method(&seeded);
#pragma GCC diagnostic pop
}

/* Threads that are left behind at the program's end may be in the middle of it: OpenSSL must not take itself apart then. */
mr_context *mr_context_new(void) {
  OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
  if (PORT_UNLIKELY(port_sim_on)) use_seed();
  mr_context *x = calloc(1, sizeof *x);
  if (!x) return NULL;
  x->shared.type = mr_context_type;
  atomic_init(&x->shared.refs, 1);
  x->ctx = SSL_CTX_new(TLS_method());
  if (!x->ctx) {
    free(x);
    return NULL;
  }
  SSL_CTX_set_min_proto_version(x->ctx, TLS1_2_VERSION);
  SSL_CTX_set_options(x->ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  SSL_CTX_set_mode(x->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(x->ctx, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_SERVER | SSL_SESS_CACHE_NO_INTERNAL_STORE);
  SSL_CTX_set_session_id_context(x->ctx, (const unsigned char *)"mare", 4);
  SSL_CTX_sess_set_new_cb(x->ctx, mr_tls_new_session);
  x->verify_server = MR_TLS_VERIFY;
  return x;
}

void mr_context_destroy(mr_shared *o) {
  mr_context *x = (mr_context *)o;
  SSL_CTX_free(x->ctx);
  free(x->alpn);
  free(x);
}

static int is_pem(const char *s) { return strstr(s, "-----BEGIN") != NULL; }

static int no_password(char *buf, int size, int rw, void *ud) {
  (void)buf;
  (void)size;
  (void)rw;
  (void)ud;
  return -1;
}

static int chain_from(SSL_CTX *ctx, BIO *b) {
  X509 *own = PEM_read_bio_X509(b, NULL, no_password, NULL), *more;
  int ok = own && SSL_CTX_use_certificate(ctx, own) == 1 && SSL_CTX_clear_chain_certs(ctx);
  X509_free(own);
  while (ok && (more = PEM_read_bio_X509(b, NULL, no_password, NULL)) != NULL) ok = SSL_CTX_add0_chain_cert(ctx, more) == 1;
  if (ok) ERR_clear_error();                     /* the end of the file is an error to PEM */
  return ok;
}

static BIO *open_text(const char *s) { return is_pem(s) ? BIO_new_mem_buf(s, -1) : BIO_new_file(s, "r"); }

int mr_context_cert(mr_context *x, const char *cert, const char *key, char text[MR_TLS_TEXT]) {
  BIO *b = open_text(cert);
  int ok = b && chain_from(x->ctx, b);
  BIO_free(b);
  if (!ok) return fail(text, "cannot read the certificate", cert);
  b = open_text(key);
  EVP_PKEY *k = b ? PEM_read_bio_PrivateKey(b, NULL, no_password, NULL) : NULL;
  BIO_free(b);
  if (!k && strcmp(key, cert) == 0) return fail(text, "give 'key': there is no private key that can be read in", cert);
  if (!k) return fail(text, "cannot read the private key", key);
  ok = SSL_CTX_use_PrivateKey(x->ctx, k) == 1 && SSL_CTX_check_private_key(x->ctx) == 1;
  EVP_PKEY_free(k);
  if (!ok) return fail(text, "the private key is not that of the certificate", key);
  x->has_cert = 1;
  return 0;
}

int mr_context_has_cert(const mr_context *x) { return x->has_cert; }

static int trust_pem(SSL_CTX *ctx, const char *pem) {
  BIO *b = BIO_new_mem_buf(pem, -1);
  X509_STORE *store = SSL_CTX_get_cert_store(ctx);
  X509 *c;
  int n = 0;
  while (b && (c = PEM_read_bio_X509(b, NULL, no_password, NULL)) != NULL) {
    n += X509_STORE_add_cert(store, c) == 1;
    SSL_CTX_add_client_CA(ctx, c);
    X509_free(c);
  }
  BIO_free(b);
  return n;
}

int mr_context_trust(mr_context *x, const char *ca, char text[MR_TLS_TEXT]) {
  if (!ca) return SSL_CTX_set_default_verify_paths(x->ctx) == 1 ? 0 : fail(text, "cannot read the system's certificates", NULL);
  if (is_pem(ca)) return trust_pem(x->ctx, ca) ? 0 : fail(text, "cannot read the certificates to trust", ca);
  size_t len = strlen(ca);
  int folder = len && ca[len - 1] == '/';
  if ((folder ? SSL_CTX_load_verify_dir(x->ctx, ca) : SSL_CTX_load_verify_file(x->ctx, ca)) != 1)
    return fail(text, "cannot read the certificates to trust", ca);
  STACK_OF(X509_NAME) *names = folder ? NULL : SSL_load_client_CA_file(ca);
  if (names) SSL_CTX_set_client_CA_list(x->ctx, names);
  return 0;
}

void mr_context_verify(mr_context *x, int client, int server) {
  x->verify_server = (unsigned char)client;
  x->verify_client = (unsigned char)server;
}

static int version_of(const char *s) {
  if (!s) return 0;
  if (strcmp(s, "1.2") == 0) return TLS1_2_VERSION;
  return strcmp(s, "1.3") == 0 ? TLS1_3_VERSION : -1;
}

int mr_context_versions(mr_context *x, const char *min, const char *max) {
  int a = version_of(min), b = version_of(max);
  if (a < 0 || b < 0) return 1;
  if (a) SSL_CTX_set_min_proto_version(x->ctx, a);
  if (b) SSL_CTX_set_max_proto_version(x->ctx, b);
  return 0;
}

static int choose(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in, unsigned n, void *ud) {
  mr_context *x = ud;
  unsigned char *chosen;
  (void)ssl;
  if (SSL_select_next_proto(&chosen, len, x->alpn, (unsigned)x->alpn_len, in, n) != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
  *out = chosen;
  return SSL_TLSEXT_ERR_OK;
}

int mr_context_alpn(mr_context *x, const char *list, size_t len) {
  x->alpn = malloc(len ? len : 1);
  if (!x->alpn) return ENOMEM;
  memcpy(x->alpn, list, len);
  x->alpn_len = len;
  if (SSL_CTX_set_alpn_protos(x->ctx, x->alpn, (unsigned)len) != 0) return EINVAL;
  SSL_CTX_set_alpn_select_cb(x->ctx, choose, x);
  return 0;
}

int mr_context_ciphers(mr_context *x, const char *list, char text[MR_TLS_TEXT]) {
  int tls13 = strncmp(list, "TLS_", 4) == 0;
  int ok = tls13 ? SSL_CTX_set_ciphersuites(x->ctx, list) : SSL_CTX_set_cipher_list(x->ctx, list);
  return ok == 1 ? 0 : fail(text, "no such ciphers", list);
}
