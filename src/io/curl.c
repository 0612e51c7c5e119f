/* curl: see curl.h. What it calls of libcurl is in curl_library.h, addresses are in curl_url.c. */
#include "io/curl.h"
#include "io/curl_library.h"
#include "port/port.h"
#include "port/system.h"
#include "port/errors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifdef MR_CURL

/* ---- objects ---- */

typedef struct bytes { char *p; size_t at, len, room; } bytes;       /* at: what is before was taken */

/*
 * Invariants: a transfer is in its client's list while it has an easy handle; that is in the multi handle exactly while `added`. `listed`: it is in the
 * client's list of those that have changed.
 */
struct mr_transfer {
  mr_curl *client;                             /* NULL: closed */
  mr_transfer *next, **at;
  mr_transfer *next_changed;
  CURL *easy;
  struct curl_slist *fields;
  int64_t id, length;
  bytes head, in, out;
  uint64_t moved;
  CURLcode result;
  unsigned char added, listed, over, headed, held, uploads, starves, full;     /* held: paused as `in` is full; starves: as `out` is empty */
  unsigned char no_memory, too_long;
  char text[CURL_ERROR_SIZE];
};

struct mr_curl {
  CURLM *multi;
  CURLSH *share;
  port_nest nest;
  mr_transfer *all, *changed, **changed_end;
  int64_t last_id;
  unsigned running;
};

enum { IN_MOST = 256 << 10, HEAD_MOST = 256 << 10, READ_SIZE = 32 << 10 };

static int add(bytes *b, const char *p, size_t n) {
  if (b->at == b->len) b->at = b->len = 0;
  if (n > b->room - b->len && b->at > 0) {
    memmove(b->p, b->p + b->at, b->len - b->at);
    b->len -= b->at;
    b->at = 0;
  }
  if (n > b->room - b->len) {
    size_t room = b->len + n < 2 * b->room ? 2 * b->room : b->len + n;
    char *q = realloc(b->p, room);
    if (!q) return 0;
    b->p = q;
    b->room = room;
  }
  memcpy(b->p + b->len, p, n);
  b->len += n;
  return 1;
}

static void changed(mr_transfer *t) {
  mr_curl *c = t->client;
  if (t->listed) return;
  t->listed = 1;
  t->next_changed = NULL;
  *c->changed_end = t;
  c->changed_end = &t->next_changed;
}

static void forget_change(mr_curl *c, mr_transfer *t) {
  mr_transfer **at = &c->changed;
  while (*at != t) at = &(*at)->next_changed;
  *at = t->next_changed;
  if (!*at) c->changed_end = at;
  t->listed = 0;
}

/* What libcurl writes by OpenSSL must not end the program. */
static void begin(port_pipe_hold *h) { if (mr_libcurl.raises) port_signals_hold_pipe(h); }
static void end(port_pipe_hold *h) { if (mr_libcurl.raises) port_signals_drop_pipe(h, 1); }

/* ---- what libcurl calls ---- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ud, void *socket) {
  mr_curl *c = ud;
  (void)easy, (void)socket;
  unsigned dirs = what == CURL_POLL_IN ? PORT_READ : what == CURL_POLL_OUT ? PORT_WRITE : what == CURL_POLL_INOUT ? PORT_READ | PORT_WRITE : 0;
  return port_nest_watch(&c->nest, fd, dirs) ? -1 : 0;
}

static int on_timer(CURLM *multi, long ms, void *ud) {
  mr_curl *c = ud;
  (void)multi;
  port_nest_timer(&c->nest, ms);
  return 0;
}

static int on_opened(void *ud, curl_socket_t fd, curlsocktype purpose) {
  (void)ud, (void)purpose;
  port_close_on_exec(fd);
  return CURL_SOCKOPT_OK;
}

/* A head follows another: of an interim answer, or when libcurl asks again. What comes behind the last one are fields after the last chunk. */
static size_t on_head(char *p, size_t size, size_t n, void *ud) {
  mr_transfer *t = ud;
  n *= size;
  t->moved += n;
  if (n >= 5 && memcmp(p, "HTTP/", 5) == 0) t->head.len = t->head.at = 0, t->headed = 0;
  if (t->headed) return n;
  if (t->head.len + n > HEAD_MOST) return t->too_long = 1, 0;
  if (!add(&t->head, p, n)) return t->no_memory = 1, 0;
  if (n > 2 || (p[0] != '\r' && p[0] != '\n')) return n;
  long status = 0;
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 || status == 101) t->headed = 1, changed(t);
  return n;
}

static size_t on_data(char *p, size_t size, size_t n, void *ud) {
  mr_transfer *t = ud;
  n *= size;
  if (t->in.len - t->in.at >= IN_MOST) return t->held = 1, CURL_WRITEFUNC_PAUSE;
  if (!add(&t->in, p, n)) return t->no_memory = 1, 0;
  t->moved += n;
  changed(t);
  return n;
}

static size_t on_hunger(char *to, size_t size, size_t n, void *ud) {
  mr_transfer *t = ud;
  size_t there = t->out.len - t->out.at;
  n *= size;
  if (there == 0) {
    if (t->full) return 0;
    t->starves = 1;
    changed(t);
    return CURL_READFUNC_PAUSE;
  }
  if (n > there) n = there;
  memcpy(to, t->out.p + t->out.at, n);
  t->out.at += n;
  t->moved += n;
  return n;
}

/* ---- clients ---- */

static int share_cookies(mr_curl *c) {
  c->share = mr_libcurl.share_init();
  return c->share && mr_libcurl.share_setopt(c->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_COOKIE) == CURLSHE_OK;
}

mr_curl *mr_curl_open(const mr_curl_limits *limits, int *err) {
  mr_curl *c = calloc(1, sizeof *c);
  *err = ENOMEM;
  if (!c) return NULL;
  c->changed_end = &c->changed;
  if ((*err = port_nest_open(&c->nest)) != 0) return free(c), NULL;
  *err = ENOMEM;
  if ((limits->cookies && !share_cookies(c)) || (c->multi = mr_libcurl.multi_init()) == NULL) return mr_curl_close(c), NULL;
  mr_libcurl.multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
  mr_libcurl.multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
  mr_libcurl.multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timer);
  mr_libcurl.multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
  if (limits->per_host) mr_libcurl.multi_setopt(c->multi, CURLMOPT_MAX_HOST_CONNECTIONS, limits->per_host);
  if (limits->total) mr_libcurl.multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, limits->total);
  if (limits->kept) mr_libcurl.multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, limits->kept);
  return c;
}

static void part(mr_transfer *t) {
  mr_curl *c = t->client;
  if (t->listed) forget_change(c, t);
  if (t->added) mr_libcurl.multi_remove_handle(c->multi, t->easy), c->running--;
  mr_libcurl.easy_cleanup(t->easy);
  mr_libcurl.slist_free_all(t->fields);
  *t->at = t->next;
  if (t->next) t->next->at = t->at;
  t->client = NULL;
  t->easy = NULL;
  t->fields = NULL;
  t->added = 0;
}

void mr_curl_close(mr_curl *c) {
  port_pipe_hold h;
  begin(&h);
  while (c->all) part(c->all);
  if (c->multi) mr_libcurl.multi_cleanup(c->multi);
  if (c->share) mr_libcurl.share_cleanup(c->share);
  end(&h);
  port_nest_close(&c->nest);
  free(c);
}

void mr_curl_finish(mr_curl *c) {
  port_pipe_hold h;
  begin(&h);
  while (c->all) part(c->all);
  end(&h);
  port_nest_timer(&c->nest, 0);
}

int mr_curl_descriptor(const mr_curl *c) { return c->nest.set; }
unsigned mr_curl_running(const mr_curl *c) { return c->running; }

static void take_ends(mr_curl *c) {
  const CURLMsg *m;
  int more;
  while ((m = mr_libcurl.multi_info_read(c->multi, &more)) != NULL) {
    char *ud = NULL;
    if (m->msg != CURLMSG_DONE || mr_libcurl.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &ud) != CURLE_OK) continue;
    mr_transfer *t = (mr_transfer *)(void *)ud;
    t->result = m->data.result;
    t->over = 1;
    mr_libcurl.multi_remove_handle(c->multi, t->easy);
    t->added = 0;
    c->running--;
    changed(t);
  }
}

int mr_curl_step(mr_curl *c) {
  enum { MOST = 64 };
  int fds[MOST], running, timer = 0;
  unsigned what[MOST];
  port_pipe_hold h;
  begin(&h);
  CURLMcode code = CURLM_OK;
  int n = port_nest_ready(&c->nest, fds, what, MOST);
  for (int i = 0; i < n && code != CURLM_OUT_OF_MEMORY; i++) {
    if (fds[i] == PORT_NEST_TIMER) { timer = 1; continue; }
    int dirs = (what[i] & PORT_READ ? CURL_CSELECT_IN : 0) | (what[i] & PORT_WRITE ? CURL_CSELECT_OUT : 0) | (what[i] & PORT_HUP ? CURL_CSELECT_ERR : 0);
    code = mr_libcurl.multi_socket_action(c->multi, fds[i], dirs, &running);
  }
  if (timer && code != CURLM_OUT_OF_MEMORY) code = mr_libcurl.multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running);
  take_ends(c);
  end(&h);
  return code == CURLM_OUT_OF_MEMORY ? ENOMEM : 0;
}

int64_t mr_curl_changed(mr_curl *c) {
  mr_transfer *t = c->changed;
  if (!t) return 0;
  forget_change(c, t);
  return t->id;
}

int mr_curl_cookies(mr_curl *c, int (*each)(void *ud, const char *line), void *ud) {
  struct curl_slist *list = NULL;
  CURL *easy = c->share ? mr_libcurl.easy_init() : NULL;
  int err = 0;
  if (!c->share) return 0;
  if (!easy) return ENOMEM;
  if (mr_libcurl.easy_setopt(easy, CURLOPT_SHARE, c->share) != CURLE_OK || mr_libcurl.easy_setopt(easy, CURLOPT_COOKIEFILE, "") != CURLE_OK ||
      mr_libcurl.easy_getinfo(easy, CURLINFO_COOKIELIST, &list) != CURLE_OK) err = ENOMEM;
  for (const struct curl_slist *l = list; l && !err; l = l->next) err = each(ud, l->data);
  mr_libcurl.slist_free_all(list);
  mr_libcurl.easy_cleanup(easy);
  return err;
}

/* ---- transfers ---- */

static int accepted(CURLcode code) { return code == CURLE_OK; }
#define SET(option, value) accepted(mr_libcurl.easy_setopt(t->easy, option, value))

static int prepare(mr_transfer *t) {
  CURLSH *share = t->client->share;
#if LIBCURL_VERSION_NUM >= 0x075700
  SET(CURLOPT_QUICK_EXIT, 1L);                 /* who gives up does not wait for a name that is looked up; older libraries don't know this */
#endif
  return SET(CURLOPT_PRIVATE, (void *)t) && SET(CURLOPT_ERRORBUFFER, t->text) && SET(CURLOPT_NOSIGNAL, 1L) &&
         SET(CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS)) && SET(CURLOPT_BUFFERSIZE, (long)READ_SIZE) &&
         SET(CURLOPT_HEADERFUNCTION, on_head) && SET(CURLOPT_HEADERDATA, (void *)t) && SET(CURLOPT_WRITEFUNCTION, on_data) &&
         SET(CURLOPT_WRITEDATA, (void *)t) && SET(CURLOPT_SOCKOPTFUNCTION, on_opened) && SET(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L) &&
         (!share || (SET(CURLOPT_SHARE, share) && SET(CURLOPT_COOKIEFILE, "")));
}

mr_transfer *mr_transfer_open(mr_curl *c, int *err) {
  mr_transfer *t = calloc(1, sizeof *t);
  *err = ENOMEM;
  if (!t) return NULL;
  if ((t->easy = mr_libcurl.easy_init()) == NULL) return free(t), NULL;
  t->client = c;
  t->next = c->all;
  if (t->next) t->next->at = &t->next;
  t->at = &c->all;
  c->all = t;
  t->id = ++c->last_id;
  if (!prepare(t)) return mr_transfer_close(t), NULL;
  *err = 0;
  return t;
}

void mr_transfer_close(mr_transfer *t) {
  port_pipe_hold h;
  if (t->client) {
    mr_curl *c = t->client;
    begin(&h);
    part(t);
    end(&h);
    if (!c->running) port_nest_timer(&c->nest, 0);       /* who waits for the client has nothing to wait for any more */
  }
  free(t->head.p);
  free(t->in.p);
  free(t->out.p);
  free(t);
}

enum { AUTHORITIES = -1 };

static const struct { const char *name; int option; } texts[] = {
  { "url", CURLOPT_URL }, { "method", CURLOPT_CUSTOMREQUEST }, { "user", CURLOPT_USERNAME }, { "password", CURLOPT_PASSWORD },
  { "proxy", CURLOPT_PROXY }, { "no_proxy", CURLOPT_NOPROXY }, { "encodings", CURLOPT_ACCEPT_ENCODING }, { "cert", CURLOPT_SSLCERT },
  { "key", CURLOPT_SSLKEY }, { "path", CURLOPT_UNIX_SOCKET_PATH }, { "ca", AUTHORITIES } };

static const struct { const char *name; int option; } numbers[] = {
  { "connect", CURLOPT_CONNECTTIMEOUT_MS }, { "total", CURLOPT_TIMEOUT_MS }, { "version", CURLOPT_HTTP_VERSION }, { "nobody", CURLOPT_NOBODY },
  { "verify", CURLOPT_SSL_VERIFYPEER }, { "verify_host", CURLOPT_SSL_VERIFYHOST } };

static int error_of(CURLcode code) {
  return code == CURLE_OK ? 0 : code == CURLE_OUT_OF_MEMORY ? ENOMEM : ENOTSUP;
}

static int set_authorities(mr_transfer *t, const char *value, size_t len) {
  if (strncmp(value, "-----BEGIN", 10) != 0) {
    int folder = len > 0 && value[len - 1] == '/';
    CURLcode code = mr_libcurl.easy_setopt(t->easy, folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, value);
    if (code == CURLE_OK && folder) code = mr_libcurl.easy_setopt(t->easy, CURLOPT_CAINFO, NULL);
    return error_of(code);
  }
#if LIBCURL_VERSION_NUM >= 0x074d00
  struct curl_blob blob = { (void *)(uintptr_t)value, len, CURL_BLOB_COPY };
  return error_of(mr_libcurl.easy_setopt(t->easy, CURLOPT_CAINFO_BLOB, &blob));
#else
  return ENOTSUP;
#endif
}

int mr_transfer_text(mr_transfer *t, const char *option, const char *value, size_t len) {
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    if (strcmp(texts[i].name, option) != 0) continue;
    if (texts[i].option == AUTHORITIES) return set_authorities(t, value, len);
    return error_of(mr_libcurl.easy_setopt(t->easy, (CURLoption)texts[i].option, value));
  }
  return ENOENT;
}

int mr_transfer_number(mr_transfer *t, const char *option, int64_t value) {
  if (strcmp(option, "version") == 0)
    value = value == 1 ? CURL_HTTP_VERSION_1_1 : value == 2 ? CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE : CURL_HTTP_VERSION_2TLS;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(numbers[i].name, option) == 0) return error_of(mr_libcurl.easy_setopt(t->easy, (CURLoption)numbers[i].option, (long)value));
  return ENOENT;
}

int mr_transfer_field(mr_transfer *t, const char *line) {
  struct curl_slist *l = mr_libcurl.slist_append(t->fields, line);
  if (!l) return ENOMEM;
  t->fields = l;
  return 0;
}

void mr_transfer_body(mr_transfer *t, const char *p, size_t len) {
  SET(CURLOPT_POST, 1L);
  SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
  SET(CURLOPT_POSTFIELDS, p);
}

void mr_transfer_upload(mr_transfer *t, int64_t length) {
  t->uploads = 1;
  SET(CURLOPT_UPLOAD, 1L);
  SET(CURLOPT_READFUNCTION, on_hunger);
  SET(CURLOPT_READDATA, (void *)t);
  SET(CURLOPT_INFILESIZE_LARGE, (curl_off_t)length);
}

int mr_transfer_begin(mr_transfer *t) {
  port_pipe_hold h;
  if (t->fields && !SET(CURLOPT_HTTPHEADER, t->fields)) return ENOMEM;
  begin(&h);
  CURLMcode code = mr_libcurl.multi_add_handle(t->client->multi, t->easy);
  end(&h);
  if (code != CURLM_OK) return ENOMEM;
  t->added = 1;
  t->client->running++;
  return 0;
}

int64_t mr_transfer_id(const mr_transfer *t) { return t->id; }

const char *mr_transfer_head(const mr_transfer *t, size_t *len) {
  if (!t->headed) return NULL;
  *len = t->head.len;
  return t->head.p;
}

const char *mr_transfer_bytes(const mr_transfer *t, size_t *len) {
  *len = t->in.len - t->in.at;
  return t->in.p + t->in.at;
}

/* libcurl may call back at once, with what it has kept. */
static void go_on(mr_transfer *t) {
  port_pipe_hold h;
  if (!t->added) return;
  begin(&h);
  mr_libcurl.easy_pause(t->easy, (t->held ? CURLPAUSE_RECV : 0) | (t->starves ? CURLPAUSE_SEND : 0));
  end(&h);
}

void mr_transfer_taken(mr_transfer *t, size_t n) {
  t->in.at += n;
  if (t->held && t->in.len - t->in.at <= IN_MOST / 2) {
    t->held = 0;
    go_on(t);
  }
}

int mr_transfer_hungry(const mr_transfer *t) {
  if (!t->client || t->over || t->full || !t->uploads) return -1;
  return t->starves && t->out.at == t->out.len;
}

int mr_transfer_feed(mr_transfer *t, const char *p, size_t len) {
  if (!add(&t->out, p, len)) return ENOMEM;
  t->starves = 0;
  go_on(t);
  return 0;
}

void mr_transfer_fed(mr_transfer *t) {
  t->full = 1;
  t->starves = 0;
  go_on(t);
}

uint64_t mr_transfer_moved(const mr_transfer *t) { return t->moved; }

void mr_transfer_info_of(mr_transfer *t, mr_transfer_info *i) {
  char *address = NULL;
  *i = (mr_transfer_info){ .address = "" };
  if (!t->easy) return;
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_PRIMARY_IP, &address);
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_PRIMARY_PORT, &i->port);
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &i->connections);
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_TOTAL_TIME, &i->total);
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_CONNECT_TIME, &i->connected);
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_STARTTRANSFER_TIME, &i->first);
  if (address) i->address = address;
}

/* ---- failures ---- */

/* Numbers of X509_V_ERR_…, which libcurl passes on as they are. */
static const char *certificate_code(const mr_transfer *t) {
  long why = 0;
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_SSL_VERIFYRESULT, &why);
  switch (why) {
    case 0: case 62: case 64: return "CERT_WRONG_HOST";
    case 9: return "CERT_NOT_YET_VALID";
    case 10: return "CERT_EXPIRED";
    case 2: case 18: case 19: case 20: case 21: return "CERT_UNKNOWN_CA";
    case 23: return "CERT_REVOKED";
    default: return "CERT_INVALID";
  }
}

static int system_error(const mr_transfer *t) {
  long err = 0;
  mr_libcurl.easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &err);
  return (int)err;
}

/* One that was refused may have been another of the host's addresses. */
static const char *system_code(const mr_transfer *t, const char *usual) {
  int err = system_error(t);
  return err && (err != ECONNREFUSED || t->result == CURLE_COULDNT_CONNECT) ? port_error_name(err) : usual;
}

/* The system's words where it has some, as everywhere in mare; else libcurl's. */
static const char *text_of(mr_transfer *t) {
  int err = t->result == CURLE_COULDNT_CONNECT ? system_error(t) : 0;
  if (t->no_memory) return "not enough memory";
  if (t->too_long) return "the head of the answer is longer than 256 KiB";
  if (err) return port_error_text(err, t->text, sizeof t->text);
  return t->text[0] ? t->text : mr_libcurl.easy_strerror(t->result);
}

static const char *code_of(const mr_transfer *t) {
  if (t->no_memory) return "ENOMEM";
  if (t->too_long) return "EMSGSIZE";
  switch ((int)t->result) {
    case CURLE_OPERATION_TIMEDOUT: return NULL;
    case CURLE_COULDNT_RESOLVE_HOST: case CURLE_COULDNT_RESOLVE_PROXY: return "EAI_NONAME";
    case CURLE_COULDNT_CONNECT: return system_code(t, "ECONNREFUSED");
    case CURLE_SEND_ERROR: return system_code(t, "ECONNRESET");
    case CURLE_RECV_ERROR: return system_code(t, "EPROTO");          /* also of chunks that are none */
    case CURLE_GOT_NOTHING: case CURLE_PARTIAL_FILE: return "EOF";
    case CURLE_OUT_OF_MEMORY: return "ENOMEM";
    case CURLE_PEER_FAILED_VERIFICATION: return certificate_code(t);
    case CURLE_SSL_CONNECT_ERROR: case CURLE_SSL_CIPHER: case CURLE_SSL_ENGINE_SETFAILED: return "TLS";
    case CURLE_SSL_CERTPROBLEM: case CURLE_SSL_CACERT_BADFILE: return "TLS_SETUP";
    default: return "EPROTO";
  }
}

int mr_transfer_over(mr_transfer *t, mr_failure *f) {
  if (!t->client) return *f = (mr_failure){ "EBADF", "closed" }, -1;
  if (!t->over) return 0;
  if (t->result == CURLE_OK) return 1;
  f->code = code_of(t);
  f->text = f->code ? text_of(t) : "timeout";
  return -1;
}

#endif
