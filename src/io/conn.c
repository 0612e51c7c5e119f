/* conn: one try of each operation; waiting is the caller's. See conn.h. */
#include "io/conn.h"
#include "io/tls.h"
#include "observe/trace.h"
#include "run/seat.h"

const mr_sharetype *mr_conn_type;

char *mr_scratch(mr_fiber *f) {
  mr_kit *k = mr_kit_of(f->thread);
  if (PORT_UNLIKELY(!k->scratch)) k->scratch = malloc(MR_SCRATCH);
  return k->scratch;
}

/* ---- life ---- */

mr_conn *mr_conn_adopt(int fd, mr_watch *w) {
  mr_conn *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->base.shared.type = mr_conn_type;
  atomic_init(&c->base.shared.refs, 1);
  c->fd = fd;
  c->watch = w;
  c->patience = UINT64_MAX;
  return c;
}

mr_conn *mr_conn_new(int fd, int *err) {
  mr_watch *w = mr_watch_open(fd, err);
  mr_conn *c = w ? mr_conn_adopt(fd, w) : NULL;
  if (c) return c;
  if (w) {
    mr_watch_close(w, NULL);
    *err = ENOMEM;
  }
  port_net_close(fd);
  return NULL;
}

#ifdef MR_CHECKS
void mr_conn_check(const mr_conn *c) {
  mr_assert((c->fd < 0) == (c->watch == NULL));
  mr_assert(c->fd >= 0 || (!c->tls && !c->in.cap && !c->out.cap && !c->seat));
  mr_assert(c->selects_read <= c->selected);
  mr_bytes_check(&c->in);
  mr_bytes_check(&c->out);
  for (const mr_wait *w = c->turns; w; w = w->next == c->turns ? NULL : w->next) mr_assert(w->next->prev == w && w->prev->next == w);
}
#endif

void mr_conn_turn_add(mr_conn *c, mr_wait *w) {
  mr_conn_check(c);
  mr_assert(!w->next);
  if (c->turns) {
    mr_waitq_add(c->turns, w);                   /* before the first: the last */
  } else {
    mr_waitq_init(w);
    c->turns = w;
  }
}

void mr_conn_turn_del(mr_conn *c, mr_wait *w) {
  if (!w->next) return;
  if (c->turns == w) c->turns = w->next == w ? NULL : w->next;
  mr_waitq_del(w);
  mr_conn_check(c);
}

static void refuse_turns(mr_conn *c, mr_fiber *near) {
  mr_wait *n;
  while ((n = c->turns) != NULL) {
    mr_conn_turn_del(c, n);
    if (mr_wait_claim(n)) mr_ready(n->fiber, MR_CLOSED, near);
  }
}

void mr_conn_unseat(mr_conn *c) {
  if (c->seat) mr_seat_done(c->seat);
  c->seat = NULL;
}

void mr_conn_drop(mr_conn *c, mr_fiber *near) {
  if (c->fd < 0) return;
  int fd = c->fd;
  mr_watch *w = c->watch;
  c->fd = -1;
  c->watch = NULL;
  if (c->tls) mr_tls_free(c->tls);
  c->tls = NULL;
  mr_bytes_free(&c->in);
  mr_bytes_free(&c->out);
  mr_watch_close(w, near);
  port_net_close(fd);
  mr_conn_unseat(c);
  refuse_turns(c, near);
  mr_conn_check(c);
}

/* What could not be sent without waiting is lost: who wants to be sure closes by himself. */
static void last_words(mr_conn *c) {
  if (c->out.len && !c->werr && !c->sent) {
    port_slice s = { mr_bytes_at(&c->out), c->out.len };
    mr_conn_write(c, &s, 1);
  }
  if (c->tls && !c->werr) mr_tls_end(c);
}

void mr_conn_dropped(mr_shared *o) {
  mr_conn *c = (mr_conn *)o;
  if (c->fd >= 0) last_words(c);
  mr_conn_drop(c, NULL);
}

void mr_conn_destroy(mr_shared *o) {
  mr_conn_dropped(o);
  free(o);
}

const char *mr_conn_busy(mr_shared *o) {
  mr_conn *c = (mr_conn *)o;
  if (c->reading || c->writing || c->selected) return "connection is in use: another fiber reads, writes or selects it. Send it when that is over";
  if (c->lost) return "connection has lost bytes, there was no memory for them: it can only be closed";
  return NULL;
}

/* ---- one try ---- */

enum { PATIENT = 16, NEVER = 255 };

int mr_conn_stay(mr_conn *c, mr_fiber *f) {
  if ((c->tls && !mr_tls_settled(c->tls)) || c->alone == NEVER || mr_proc_of(f)->kind == PROC_HOST || !mr_run_single() || !mr_alone(f)) return 0;
  if (PORT_UNLIKELY(c->alone < PATIENT)) {
    if (++c->alone == PATIENT && port_net_patient(c->fd) != 0) mr_conn_hasty(c);
    return 0;
  }
  c->stays = f;
  return 1;
}

void mr_conn_hasty(mr_conn *c) {
  if (c->alone == PATIENT) port_net_adopt(c->fd);
  c->alone = NEVER;
}

/* What ends it without bytes, a signal, says nothing about them. */
static long read_patient(mr_conn *c, void *p, size_t n) {
  mr_fiber *f = c->stays;
  c->stays = NULL;
  if (!mr_linger_begin(f)) return -EAGAIN;
  long r = port_net_read_patient(c->fd, p, n);
  mr_linger_end(f);
  c->dry = r > 0 && (size_t)r < n;
  return r == -EINTR || r == -EWOULDBLOCK ? -EAGAIN : r;
}

long mr_conn_raw_read(mr_conn *c, void *p, size_t n) {
  if (PORT_UNLIKELY(c->stays)) return read_patient(c, p, n);
  if (c->dry && !mr_watch_hup(c->watch)) return -EAGAIN;
  long r = port_net_read(c->fd, p, n);
  c->dry = r > 0 ? (size_t)r < n : r != 0;
  return PORT_UNLIKELY(r == -EWOULDBLOCK) ? -EAGAIN : r;
}

long mr_conn_read(mr_conn *c, void *p, size_t n) {
  mr_conn_check(c);
  mr_trace_begin(TRACE_READ);
  long r = PORT_UNLIKELY(c->tls != NULL) ? mr_tls_read(c, p, n) : mr_conn_raw_read(c, p, n);
  mr_trace_finish(r);
  if (r > 0) c->moved += (uint64_t)r;
  else if (r == 0) c->eof = 1;
  else if (r != -EAGAIN) c->rerr = (int)-r;
  return r;
}

long mr_conn_write(mr_conn *c, const port_slice *s, int n) {
  mr_conn_check(c);
  mr_trace_begin(TRACE_WRITE);
  long r = PORT_UNLIKELY(c->tls != NULL) ? mr_tls_write(c, s, n) : port_net_write(c->fd, s, n);
  mr_trace_finish(r);
  if (r == -EWOULDBLOCK) r = -EAGAIN;
  if (r > 0) c->moved += (uint64_t)r;
  else if (r < 0 && r != -EAGAIN) c->werr = (int)-r;
  return r;
}

int mr_conn_settled(const mr_conn *c) { return !c->tls || mr_tls_settled(c->tls); }
int mr_conn_direction(mr_conn *c, int usual) { return c->tls ? mr_tls_direction(c->tls, usual) : usual; }

/*
 * The kernel resets a connection that is closed with unread bytes, and the reset destroys what the peer has not read yet. So what is there
 * is taken first, within bounds.
 */
void mr_conn_linger(mr_conn *c, mr_fiber *f) {
  if (c->fd < 0 || c->eof || c->rerr) return;
  char *s = mr_scratch(f);
  for (int i = 0; s && i < 16; i++)
    if (port_net_read(c->fd, s, MR_SCRATCH) < MR_SCRATCH) return;
}

/* ---- what a read wants ---- */

static const char *find(const char *p, size_t len, const char *what, size_t n) {
  if (n == 0) return p;
  while (len >= n) {
    const char *q = memchr(p, what[0], len - n + 1);
    if (!q) return NULL;
    if (memcmp(q, what, n) == 0) return q;
    len -= (size_t)(q + 1 - p);
    p = q + 1;
  }
  return NULL;
}

static long match_line(mr_conn *c, const char *p, size_t len, size_t *give) {
  const char *q = memchr(p + c->want.seen, '\n', len - c->want.seen);
  if (!q) {
    c->want.seen = len;
    return 0;
  }
  size_t used = (size_t)(q - p) + 1;
  *give = c->want.kind == WANT_KEPT_LINE ? used : used - 1 - (q > p && q[-1] == '\r');
  return (long)used;
}

static long match_pattern(mr_conn *c, const char *p, size_t len, const mr_pattern *pattern, size_t *give) {
  size_t n = pattern->len, limit = len < c->want.n ? len : c->want.n;
  const char *q = limit >= c->want.seen ? find(p + c->want.seen, limit - c->want.seen, pattern->p, n) : NULL;
  if (!q) {
    c->want.seen = limit >= n ? limit - n + 1 : 0;
    return len >= c->want.n ? -1 : 0;
  }
  *give = (size_t)(q - p) + n;
  return (long)*give;
}

/* What it is once its beginning was seen is remembered: later looks cost nothing. */
static long match_frame(mr_conn *c, const char *p, size_t len, size_t *give) {
  const char *why;
  if (!c->want.n) {
    int64_t n = c->want.framing->length(p, len, &why);
    if (n <= 0) return n < 0 || len >= c->want.limit ? -1 : 0;   /* so long, and its length is not known yet: it is longer than the limit */
    if ((uint64_t)n > c->want.limit || (uint64_t)n > c->want.room) return -1;
    c->want.n = (size_t)n;
  }
  if (len < c->want.n) return 0;
  *give = c->want.n;
  return (long)c->want.n;
}

long mr_conn_match(mr_conn *c, const char *p, size_t len, const mr_pattern *pattern, size_t *give) {
  switch (c->want.kind) {
    case WANT_SOME: *give = len; return (long)len;
    case WANT_COUNT:
      if (len < c->want.n) return 0;
      *give = c->want.n;
      return (long)c->want.n;
    case WANT_ALL: return 0;
    case WANT_UNTIL: return match_pattern(c, p, len, pattern, give);
    case WANT_FRAME: return match_frame(c, p, len, give);
    default: return match_line(c, p, len, give);
  }
}

/* ---- select ---- */

/* Fetches what there is. 1: a read would not wait now. */
int mr_conn_ready(mr_conn *c, mr_fiber *f) {
  if (c->fd < 0 || c->in.len || c->eof || c->rerr) return 1;
  char *s = mr_scratch(f);
  if (!s) return 0;
  long r = mr_conn_read(c, s, MR_SCRATCH);
  if (r > 0 && !mr_bytes_add(&c->in, s, (size_t)r)) c->rerr = ENOMEM;
  return r != -EAGAIN;
}

/* In `linked` of a node: it counts in the connection. */
enum { LINKED_READ = 1, LINKED_WRITE };

/* Bytes that come wake one fiber: a second one would wait beside them for ever. */
int mr_conn_selected_by_other(const mr_conn *c, const mr_fiber *f) { return c->fd >= 0 && c->selects_read && c->selector != f; }

int mr_conn_reading_link(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (mr_conn_selected_by_other(c, w->fiber)) return 1;
  if (c->fd < 0 || c->in.len || c->eof || c->rerr) return 1;
  if (mr_watch_wait(c->watch, mr_conn_direction(c, MR_READ), w)) {
    c->dry = 0;
    return 1;
  }
  c->selected++;
  c->selects_read++;
  c->selector = w->fiber;
  w->linked = LINKED_READ;
  return 0;
}

int mr_conn_writing_link(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (c->fd < 0 || c->werr || mr_watch_wait(c->watch, MR_WRITE, w)) return 1;
  c->selected++;
  w->linked = LINKED_WRITE;
  return 0;
}

void mr_conn_unlink(void *o, mr_wait *w) {
  mr_conn *c = o;
  if (!w->linked) return;
  mr_assert(c->selected > 0 && (w->linked != LINKED_READ || c->selects_read > 0));
  c->selected--;
  if (w->linked == LINKED_READ) c->selects_read--;
  w->linked = 0;
  if (c->watch) mr_watch_unwait(c->watch, w);
}
