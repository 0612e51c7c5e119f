/*
 * tls: a connection's OpenSSL object; see tls.h.
 *
 * The first fiber that reads or writes also does the handshake; all that come meanwhile wait for the same bytes. An edge wakes one of
 * them, so whoever completes the handshake, or fails in it, tells the others.
 */
#include "io/context_ssl.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>

struct mr_tls {
  SSL *ssl;
  mr_conn *conn;
  mr_bytes out;                      /* sealed, the kernel did not take it yet */
  mr_bytes early;                    /* read before the connection began to speak TLS */
  SSL_SESSION *session;              /* owned: the latest the server gave */
  mr_context *context;               /* referenced */
  int error;                         /* errno value of the descriptor */
  unsigned char ready;               /* the handshake is over */
  unsigned char failed, ended;       /* ended: our goodbye was said */
  unsigned char direction;           /* what the last EAGAIN waits for */
  unsigned char raw_eof;
  char text[MR_TLS_TEXT], code[MR_TLS_CODE];
};

/* ---- the BIO ---- */

static int bio_write(BIO *b, const char *p, size_t n, size_t *written) {
  mr_tls *t = BIO_get_data(b);
  port_slice s = { p, n };
  BIO_clear_retry_flags(b);
  long r = t->out.len ? 0 : port_net_write(t->conn->fd, &s, 1);
  if (r < 0 && !PORT_WOULD_BLOCK(-r)) {
    t->error = (int)-r;
    return 0;
  }
  if (r < 0) r = 0;
  if ((size_t)r < n && !mr_bytes_add(&t->out, p + r, n - (size_t)r)) {
    t->error = ENOMEM;
    return 0;
  }
  *written = n;
  return 1;
}

static int bio_read(BIO *b, char *p, size_t n, size_t *got) {
  mr_tls *t = BIO_get_data(b);
  BIO_clear_retry_flags(b);
  if (t->early.len) {
    *got = n < t->early.len ? n : t->early.len;
    memcpy(p, mr_bytes_at(&t->early), *got);
    mr_bytes_drop(&t->early, *got);
    return 1;
  }
  long r = mr_conn_raw_read(t->conn, p, n);
  if (r > 0) {
    *got = (size_t)r;
    return 1;
  }
  if (r == 0) t->raw_eof = 1;
  else if (r == -EAGAIN) BIO_set_retry_read(b);
  else t->error = (int)-r;
  return 0;
}

static long bio_ctrl(BIO *b, int what, long n, void *p) {
  (void)n;
  (void)p;
  if (what == BIO_CTRL_EOF) return ((mr_tls *)BIO_get_data(b))->raw_eof;
  return what == BIO_CTRL_FLUSH || what == BIO_CTRL_DUP;
}

static BIO_METHOD *method(void) {
  static port_lock lock;
  static BIO_METHOD *m;
  port_acquire(&lock);
  if (!m && (m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "mare")) != NULL) {
    BIO_meth_set_write_ex(m, bio_write);
    BIO_meth_set_read_ex(m, bio_read);
    BIO_meth_set_ctrl(m, bio_ctrl);
  }
  port_unlock(&lock);
  return m;
}

/* ---- failures ---- */

static const char *verify_code(long v) {
  switch (v) {
    case X509_V_ERR_CERT_HAS_EXPIRED: return "CERT_EXPIRED";
    case X509_V_ERR_CERT_NOT_YET_VALID: return "CERT_NOT_YET_VALID";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH: return "CERT_WRONG_HOST";
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE: return "CERT_UNKNOWN_CA";
    case X509_V_ERR_CERT_REVOKED: return "CERT_REVOKED";
    default: return "CERT_INVALID";
  }
}

static void tell(mr_tls *t) {
  mr_conn *c = t->conn;
  for (int i = 0; i < 2 && c->watch && mr_watch_waited(c->watch, MR_READ); i++) mr_watch_edge(c->watch, MR_READ, NULL);
}

static void describe_failure(mr_tls *t, unsigned long e) {
  long v = SSL_get_verify_result(t->ssl);
  const char *host = SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name), *why = e ? ERR_reason_error_string(e) : NULL;
  int reason = ERR_GET_REASON(e);
  if (v != X509_V_OK && !t->ready && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    const char *peer = SSL_is_server(t->ssl) ? "the client" : host ? host : "the server";
    snprintf(t->text, sizeof t->text, "the certificate of %.100s is refused: %.100s", peer, X509_verify_cert_error_string(v));
    snprintf(t->code, sizeof t->code, "%s", verify_code(v));
  } else if (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING || (t->raw_eof && !e)) {
    snprintf(t->text, sizeof t->text, t->ready ? "the peer ended the connection without the goodbye of TLS: something may be missing"
                                               : "the peer ended the connection during the handshake of TLS");
    snprintf(t->code, sizeof t->code, "TLS_TRUNCATED");
  } else if (reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST) {
    snprintf(t->text, sizeof t->text, "the peer does not speak TLS");
    snprintf(t->code, sizeof t->code, "TLS");
  } else if (reason >= SSL_AD_REASON_OFFSET) {
    snprintf(t->text, sizeof t->text, "the peer refuses: %.100s", SSL_alert_desc_string_long(reason - SSL_AD_REASON_OFFSET));
    snprintf(t->code, sizeof t->code, "TLS_ALERT");
  } else {
    snprintf(t->text, sizeof t->text, "TLS: %.150s", why ? why : "unknown error");
    snprintf(t->code, sizeof t->code, "TLS");
  }
}

/* After an OpenSSL call that did not succeed: 0 at the end of the stream, or minus an errno value. */
static long outcome(mr_tls *t, int r) {
  switch (SSL_get_error(t->ssl, r)) {
    case SSL_ERROR_WANT_READ:
      mr_tls_flush(t->conn);
      t->direction = t->out.len && !t->ready ? MR_WRITE : MR_READ;
      return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN: return 0;
    default: break;
  }
  mr_tls_flush(t->conn);                         /* the alert that tells the peer */
  if (t->error) return -t->error;
  unsigned long e = ERR_get_error();
  describe_failure(t, e);
  ERR_clear_error();
  t->failed = 1;
  t->conn->rerr = t->conn->werr = EPROTO;
  tell(t);
  return -EPROTO;
}

int mr_tls_failed(mr_tls *t) { return t->failed; }
const char *mr_tls_text(mr_tls *t) { return t->text; }
const char *mr_tls_code(mr_tls *t) { return t->code; }
int mr_tls_direction(mr_tls *t, int usual) { return t->direction ? t->direction : usual; }

/* ---- one try ---- */

int mr_tls_flush(mr_conn *c) {
  mr_tls *t = c->tls;
  if (t->out.len == 0) return 0;
  port_slice s = { mr_bytes_at(&t->out), t->out.len };
  long r = port_net_write(c->fd, &s, 1);
  t->direction = MR_WRITE;
  if (r < 0) return PORT_WOULD_BLOCK(-r) ? EAGAIN : (t->error = (int)-r);
  mr_bytes_drop(&t->out, (size_t)r);
  return t->out.len ? EAGAIN : 0;
}

int mr_tls_handshake(mr_conn *c) {
  mr_tls *t = c->tls;
  if (t->ready) return 0;
  if (t->failed) return EPROTO;
  ERR_clear_error();
  int r = SSL_do_handshake(t->ssl);
  if (r != 1) {
    long e = outcome(t, r);
    return e == 0 ? ECONNRESET : (int)-e;
  }
  t->ready = 1;
  tell(t);
  return mr_tls_flush(c);
}

int mr_tls_settled(const mr_tls *t) { return t->ready && !t->failed && !t->ended && !t->out.len; }

/* Neither OpenSSL nor the kernel has bytes: asking them costs as much as a short message. */
static int is_dry(const mr_conn *c) {
  return c->dry && !c->stays && !c->tls->early.len && !SSL_has_pending(c->tls->ssl) && !mr_watch_hup(c->watch);
}

long mr_tls_read(mr_conn *c, void *p, size_t n) {
  mr_tls *t = c->tls;
  size_t got, total = 0;
  int err = t->ready ? 0 : mr_tls_handshake(c);
  if (err) return -err;
  if (t->failed) return -EPROTO;
  if (is_dry(c)) {
    mr_tls_flush(c);
    t->direction = MR_READ;
    return -EAGAIN;
  }
  ERR_clear_error();
  while (total < n) {
    int r = SSL_read_ex(t->ssl, (char *)p + total, n - total, &got);
    if (r != 1) {
      long e = outcome(t, r);
      return total ? (long)total : e;
    }
    total += got;
    if (is_dry(c)) break;
  }
  return (long)total;
}

enum { RECORD = 16384 };

/* Small pieces become one record. */
static size_t join(const port_slice *s, int n, char *buf) {
  size_t len = 0;
  for (int i = 0; i < n && s[i].len <= RECORD - len; i++) {
    memcpy(buf + len, s[i].p, s[i].len);
    len += s[i].len;
  }
  return len;
}

/* How much of it OpenSSL took; it stops when the kernel takes no more. */
static long seal(mr_tls *t, const char *p, size_t n) {
  size_t total = 0, got;
  while (total < n && t->out.len == 0) {
    int r = SSL_write_ex(t->ssl, p + total, n - total < RECORD ? n - total : RECORD, &got);
    if (r != 1) {
      long e = outcome(t, r);
      return total ? (long)total : e == 0 ? -EPIPE : e;
    }
    total += got;
  }
  return (long)total;
}

long mr_tls_write(mr_conn *c, const port_slice *s, int n) {
  mr_tls *t = c->tls;
  char buf[RECORD];
  int err = mr_tls_flush(c);
  if (!err && !t->ready) err = mr_tls_handshake(c);
  if (err) return -err;
  if (t->failed) return -EPROTO;
  t->direction = MR_WRITE;
  ERR_clear_error();
  size_t len = n > 1 ? join(s, n, buf) : 0;
  return len > s[0].len ? seal(t, buf, len) : seal(t, s[0].p, s[0].len);
}

void mr_tls_end(mr_conn *c) {
  mr_tls *t = c->tls;
  if (!t->ready || t->failed || t->ended) return;
  t->ended = 1;
  ERR_clear_error();
  SSL_shutdown(t->ssl);
  ERR_clear_error();
  mr_tls_flush(c);
}

/* ---- life ---- */

void mr_tls_free(mr_tls *t) {
  SSL_free(t->ssl);
  SSL_SESSION_free(t->session);
  mr_bytes_free(&t->out);
  mr_bytes_free(&t->early);
  mr_release(&t->context->shared);
  free(t);
}

static mr_tls *attach(mr_conn *c, mr_context *x) {
  mr_tls *t = calloc(1, sizeof *t);
  BIO_METHOD *m = method();
  BIO *b = m ? BIO_new(m) : NULL;
  if (t) t->ssl = SSL_new(x->ctx);
  if (!t || !b || !t->ssl) {
    if (t) SSL_free(t->ssl);
    BIO_free(b);
    free(t);
    ERR_clear_error();
    return NULL;
  }
  BIO_set_data(b, t);
  BIO_set_init(b, 1);
  SSL_set_bio(t->ssl, b, b);
  SSL_set_app_data(t->ssl, t);
  SSL_set_read_ahead(t->ssl, 1);
  t->conn = c;
  t->context = x;
  mr_retain(&x->shared);
  t->early = c->in;
  memset(&c->in, 0, sizeof c->in);
  c->tls = t;
  return t;
}

int mr_tls_serve(mr_conn *c, mr_shared *context) {
  mr_context *x = (mr_context *)context;
  mr_tls *t = attach(c, x);
  if (!t) return ENOMEM;
  SSL_set_accept_state(t->ssl);
  if (x->verify_client == MR_TLS_VERIFY_NONE) SSL_set_verify(t->ssl, SSL_VERIFY_NONE, NULL);
  else SSL_set_verify(t->ssl, SSL_VERIFY_PEER | (x->verify_client == MR_TLS_VERIFY ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
  return 0;
}

/* An address has no SNI, and is compared with the addresses in the certificate. */
static int expect_host(mr_tls *t, const char *host, int verify) {
  X509_VERIFY_PARAM *p = SSL_get0_param(t->ssl);
  ASN1_OCTET_STRING *address = a2i_IPADDRESS(host);
  ERR_clear_error();
  int ok = 1;
  if (address) {
    if (verify) ok = X509_VERIFY_PARAM_set1_ip_asc(p, host);
  } else {
    ok = SSL_set_tlsext_host_name(t->ssl, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(p, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (ok && verify) ok = X509_VERIFY_PARAM_set1_host(p, host, 0);
  }
  ASN1_OCTET_STRING_free(address);
  return ok ? 0 : EINVAL;
}

int mr_tls_client(mr_conn *c, mr_context *x, const char *host, const char *session, size_t len) {
  mr_tls *t = attach(c, x);
  if (!t) return ENOMEM;
  SSL_set_connect_state(t->ssl);
  SSL_set_verify(t->ssl, x->verify_server ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
  int err = host ? expect_host(t, host, x->verify_server != MR_TLS_VERIFY_NONE) : 0;
  if (session && !err) {
    const unsigned char *p = (const unsigned char *)session;
    SSL_SESSION *s = d2i_SSL_SESSION(NULL, &p, (long)len);
    if (!s) err = EINVAL;
    else SSL_set_session(t->ssl, s);
    SSL_SESSION_free(s);
  }
  ERR_clear_error();
  return err;
}

/* ---- sessions, and what is known of the peer ---- */

int mr_tls_new_session(SSL *ssl, SSL_SESSION *s) {
  mr_tls *t = SSL_get_app_data(ssl);
  if (!t || SSL_is_server(ssl)) return 0;
  SSL_SESSION_free(t->session);
  t->session = s;
  return 1;                                      /* the reference is ours now */
}

size_t mr_tls_session(mr_conn *c, unsigned char *to, size_t room) {
  SSL_SESSION *s = c->tls->session;
  int n = s && SSL_SESSION_is_resumable(s) ? i2d_SSL_SESSION(s, NULL) : 0;
  if (n > 0 && (size_t)n <= room) n = i2d_SSL_SESSION(s, &to);
  return n > 0 ? (size_t)n : 0;
}

static void fingerprint(mr_tls_info *i, X509 *cert) {
  unsigned char sum[32];
  unsigned n = 0;
  if (X509_digest(cert, EVP_sha256(), sum, &n) != 1 || n != sizeof sum) return ERR_clear_error();
  for (n = 0; n < sizeof sum; n++) snprintf(i->fingerprint + 2 * n, 3, "%02x", sum[n]);
}

static void describe_peer(mr_tls_info *i, X509 *cert) {
  struct tm tm;
  fingerprint(i, cert);
  X509_NAME_oneline(X509_get_subject_name(cert), i->subject, sizeof i->subject);
  X509_NAME_oneline(X509_get_issuer_name(cert), i->issuer, sizeof i->issuer);
  if (ASN1_TIME_to_tm(X509_get0_notAfter(cert), &tm) == 1) strftime(i->until, sizeof i->until, "%Y-%m-%dT%H:%M:%SZ", &tm);
}

void mr_tls_describe(mr_conn *c, mr_tls_info *i) {
  mr_tls *t = c->tls;
  const unsigned char *alpn;
  const char *name = SSL_get_servername(t->ssl, TLSEXT_NAMETYPE_host_name);
  unsigned len;
  memset(i, 0, sizeof *i);
  i->version = SSL_get_version(t->ssl);
  i->cipher = SSL_get_cipher_name(t->ssl);
  snprintf(i->server_name, sizeof i->server_name, "%s", name ? name : "");
  i->resumed = SSL_session_reused(t->ssl);
  i->server = SSL_is_server(t->ssl);
  SSL_get0_alpn_selected(t->ssl, &alpn, &len);
  i->alpn_len = len < sizeof i->alpn ? len : sizeof i->alpn;
  if (len) memcpy(i->alpn, alpn, i->alpn_len);
  X509 *cert = SSL_get0_peer_certificate(t->ssl);
  i->verified = cert && SSL_get_verify_result(t->ssl) == X509_V_OK && SSL_get_verify_mode(t->ssl) != SSL_VERIFY_NONE;
  if (cert) describe_peer(i, cert);
}
