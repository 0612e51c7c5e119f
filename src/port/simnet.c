/*
 * simnet: descriptors, connections, streams; see simnet.h. Places and names are in simplace.c, datagrams and options in simgram.c.
 *
 * A stream is two sockets that know each other (`peer`). Each has a ring of bytes for what comes to it: of these `seen` have arrived, the others lie behind a cut.
 * The ring grows up to ROOM; then the peer's writes wait. A socket that goes away leaves its peer with what is in the peer's ring.
 */
#include "port/sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ROOM = 65536, FIRST_ROOM = 1024, BLOCK = 64, MOST = 65536 };

int port_sim_on, port_sim_news;
sim *sim_all;
static sim *newest;
static sim_fd **fds;                   /* by number; free ones NULL */
static int nfds;
static sim_fd *news, **end_of_news = &news;
static sim *later;
static size_t (*cut)(size_t n);

void port_sim_begin(size_t (*how)(size_t n)) {
  port_sim_on = 1;
  cut = how;
}

static size_t let_through(size_t n) { return n > 1 && cut ? cut(n) : n; }

/* ---- descriptors ---- */

static sim_fd *desc_of(int fd) {
  int i = fd - PORT_SIM_FD;
  return i >= 0 && i < nfds ? fds[i] : NULL;
}

sim *sim_of(int fd) {
  sim_fd *d = desc_of(fd);
  return d ? d->socket : NULL;
}

int port_sim_has(int fd) { return desc_of(fd) != NULL; }

static int free_number(void) {
  int i = 0;
  while (i < nfds && fds[i]) i++;
  if (i < nfds) return i;
  sim_fd **more = nfds < MOST ? realloc(fds, (size_t)(nfds + BLOCK) * sizeof *more) : NULL;
  if (!more) return -1;
  memset(more + nfds, 0, BLOCK * sizeof *more);
  fds = more;
  nfds += BLOCK;
  return i;
}

/* The socket gets one more descriptor. */
static int give_fd(sim *s, int *fd) {
  int i = free_number();
  sim_fd *d = i < 0 ? NULL : calloc(1, sizeof *d);
  if (!d) return i < 0 && nfds >= MOST ? EMFILE : ENOMEM;
  d->socket = s;
  *fd = d->fd = PORT_SIM_FD + i;
  d->more = s->fds;
  s->fds = fds[i] = d;
  return 0;
}

static sim *socket_new(int family, int type) {
  sim *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  s->family = (unsigned char)family;
  s->type = (unsigned char)type;
  s->end_of_datagrams = &s->first_datagram;
  s->before = newest;
  if (newest) newest->next = s;
  else sim_all = s;
  return newest = s;
}

static void socket_free(sim *s) {
  sim **at = &later;
  while (*at && *at != s) at = &(*at)->delayed;
  if (*at) *at = s->delayed;
  if (s->before) s->before->next = s->next;
  else sim_all = s->next;
  if (s->next) s->next->before = s->before;
  else newest = s->before;
  sim_datagrams_free(s);
  free(s->data);
  free(s);
}

int port_sim_socket(int family, int type, int *fd) {
  sim *s = socket_new(family, type);
  int err = s ? give_fd(s, fd) : ENOMEM;
  if (s && err) socket_free(s);
  if (err) *fd = -1;
  return err;
}

int port_sim_duplicate(int fd, int *copy) {
  sim *s = sim_of(fd);
  int err = s ? give_fd(s, copy) : EBADF;
  if (err) *copy = -1;
  return err;
}

/* ---- news ---- */

static void announce(sim_fd *d, unsigned what) {
  what &= d->what | PORT_HUP;
  if (!d->watched || !what) return;
  d->pending |= what;
  if (d->queued) return;
  d->queued = 1;
  d->next = NULL;
  *end_of_news = d;
  end_of_news = &d->next;
  port_sim_news = 1;
}

void sim_tell(sim *s, unsigned what) {
  for (sim_fd *d = s->fds; d; d = d->more) announce(d, what);
}

static void forget_news(sim_fd *d) {
  sim_fd **at = &news;
  d->watched = 0;
  if (!d->queued) return;
  while (*at != d) at = &(*at)->next;
  *at = d->next;
  if (!d->next) end_of_news = at;
  d->queued = 0;
}

static void change_later(sim *s) {
  port_sim_news = 1;
  if (s->later) return;
  s->later = 1;
  s->delayed = NULL;
  sim **at = &later;
  while (*at) at = &(*at)->delayed;
  *at = s;
}

static void arrive(void) {
  for (sim *s; (s = later) != NULL;) {
    later = s->delayed;
    s->later = 0;
    if (s->held) s->held = 0, sim_tell(s, PORT_WRITE);
    if (s->seen < s->len) s->seen = s->len, sim_tell(s, PORT_READ);
  }
}

static unsigned stream_ready(const sim *s) {
  unsigned what = 0;
  if (s->listening) return s->waiting ? PORT_READ : 0;
  if (!s->connected) return PORT_READ | PORT_WRITE | PORT_HUP;
  if (s->seen || s->error || s->reading_ended || (s->eof && !s->len)) what |= PORT_READ;
  if (s->error || !s->peer || s->writing_ended || (!s->held && (ROOM - s->peer->len) * 3 >= ROOM)) what |= PORT_WRITE;
  if (s->error || !s->peer || (s->eof && s->seen == s->len)) what |= PORT_HUP;
  return what;
}

unsigned port_sim_ready(int fd) {
  const sim *s = sim_of(fd);
  return !s ? 0 : s->type == PORT_STREAM ? stream_ready(s) : sim_datagrams_ready(s);
}

int port_sim_poll_add(int fd, uint64_t tag, unsigned what, int how) {
  sim_fd *d = desc_of(fd);
  if (!d) return EBADF;
  if (d->watched) return EEXIST;
  d->watched = 1;
  d->tag = tag;
  d->what = (unsigned char)what;
  d->how = (unsigned char)how;
  d->pending = 0;
  announce(d, port_sim_ready(fd));
  return 0;
}

int port_sim_poll_remove(int fd) {
  sim_fd *d = desc_of(fd);
  if (!d || !d->watched) return ENOENT;
  forget_news(d);
  return 0;
}

int port_sim_poll(port_ready *r, int n) {
  int got = 0;
  arrive();
  while (got < n && news) {
    sim_fd *d = news;
    news = d->next;
    d->queued = 0;
    unsigned what = d->pending & port_sim_ready(d->fd);          /* if it still is so */
    d->pending = 0;
    if (!what) continue;
    r[got++] = (port_ready){ d->tag, what };
    if (d->how == PORT_ONCE) d->watched = 0;
  }
  if (!news) end_of_news = &news;
  port_sim_news = news != NULL;
  return got;
}

/* ---- connections ---- */

int port_sim_listen(int fd) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  if (s->type != PORT_STREAM) return EOPNOTSUPP;
  if (s->connected || (s->family == PORT_UNIX && !s->bound)) return EINVAL;
  int err = sim_bind_any(s);
  s->listening = 1;
  if (!err && sim_is_taken(s)) err = EADDRINUSE;
  s->listening = !err;
  return err;
}

/* Who answers there: of several that share the place the one that has had the fewest connections. */
static sim *listener_at(const sim_place *p) {
  sim *best = NULL;
  int exact = 0;
  for (sim *s = sim_all; s; s = s->next) {
    if (!s->listening || !sim_covers(s, p)) continue;
    int closer = s->family == PORT_UNIX || sim_same_ip(&s->place.ip, &p->ip);
    if (best && (closer < exact || (closer == exact && s->served >= best->served))) continue;
    best = s;
    exact = closer;
  }
  return best;
}

static int nobody(const sim_place *p) {
  if (p->family != PORT_UNIX) return ECONNREFUSED;
  for (const sim *s = sim_all; s; s = s->next)
    if (s->bound && sim_covers(s, p)) return s->type == PORT_STREAM ? ECONNREFUSED : EPROTOTYPE;
  return p->path.bytes[SIM_PATH] ? ENOENT : ECONNREFUSED;
}

static int connect_stream(sim *s, const sim_place *p) {
  sim *l = listener_at(p), *other;
  int err;
  if (s->connected || s->listening) return EISCONN;
  if (!l) return nobody(p);
  if ((err = sim_bind_any(s)) != 0) return err;
  if ((other = socket_new(l->family, PORT_STREAM)) == NULL) return ENOMEM;
  s->place = sim_source(s, p);
  s->remote = *p;
  other->place = *p;
  other->remote = s->place;
  other->remote.family = PORT_INET6;             /* there is one, with a name or without */
  memcpy(other->option, l->option, sizeof l->option);
  other->noptions = l->noptions;
  s->peer = other;
  other->peer = s;
  s->connected = other->connected = 1;
  if (l->last) l->last->behind = other;
  else l->waiting = other;
  l->last = other;
  l->served++;
  sim_tell(l, PORT_READ);
  sim_tell(s, PORT_WRITE);
  return 0;
}

int port_sim_connect(int fd, const port_addr *a) {
  sim *s = sim_of(fd);
  sim_place p;
  int err = s ? sim_place_of(&p, a) : EBADF;
  if (err) return err;
  if ((p.family == PORT_UNIX) != (s->family == PORT_UNIX)) return EAFNOSUPPORT;
  if (s->family == PORT_INET && !sim_is_mapped(&p.ip)) return EAFNOSUPPORT;
  if (s->family == PORT_INET6 && s->v6only && sim_is_mapped(&p.ip)) return ENETUNREACH;
  sim_place_here(&p);
  if (!sim_place_inside(&p)) return ENETUNREACH;
  return s->type == PORT_STREAM ? connect_stream(s, &p) : sim_datagrams_connect(s, &p);
}

int port_sim_connected(int fd) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  int err = s->error;
  s->error = 0;
  return err;
}

int port_sim_accept(int fd, int *conn) {
  sim *l = sim_of(fd), *s = l ? l->waiting : NULL;
  *conn = -1;
  if (!l) return EBADF;
  if (!l->listening) return EINVAL;
  if (!s) return EAGAIN;
  int err = give_fd(s, conn);
  if (err) return err;
  l->waiting = s->behind;
  if (!l->waiting) l->last = NULL;
  s->behind = NULL;
  return 0;
}

/* Of TCP the peer hears at once that what it sent was thrown away; of what it had sent us it may learn at its next write only. */
static void end_stream(sim *s) {
  sim *peer = s->peer;
  if (!peer) return;
  peer->peer = NULL;
  if (s->len || (s->linger_on && s->linger == 0)) peer->error = ECONNRESET;
  peer->eof = 1;
  sim_tell(peer, PORT_READ | PORT_WRITE | PORT_HUP);
}

static void end_listener(sim *l) {
  for (sim *s; (s = l->waiting) != NULL;) {
    l->waiting = s->behind;
    s->linger_on = 1, s->linger = 0;
    end_stream(s);
    socket_free(s);
  }
}

void port_sim_close(int fd) {
  sim_fd *d = desc_of(fd), **at;
  if (!d) return;
  sim *s = d->socket;
  forget_news(d);
  for (at = &s->fds; *at != d;) at = &(*at)->more;
  *at = d->more;
  fds[fd - PORT_SIM_FD] = NULL;
  free(d);
  if (s->fds) return;
  end_stream(s);
  end_listener(s);
  socket_free(s);
}

int port_sim_shutdown(int fd, int read, int write) {
  sim *s = sim_of(fd);
  if (!s) return EBADF;
  if (!s->connected) return ENOTCONN;
  if (read) s->reading_ended = 1;
  if (write) s->writing_ended = 1;
  if (write && s->peer) {
    s->peer->eof = 1;
    sim_tell(s->peer, PORT_READ | PORT_HUP);
  }
  sim_tell(s, (read ? PORT_READ : 0u) | (write ? PORT_WRITE : 0u));
  return 0;
}

/* ---- bytes ---- */

static int grow(sim *s, size_t least) {
  size_t room = s->room ? s->room : FIRST_ROOM;
  while (room < least) room *= 2;
  if (room == s->room) return 1;
  char *data = malloc(room);
  if (!data) return 0;
  size_t first = s->room - s->head < s->len ? s->room - s->head : s->len;
  if (first) memcpy(data, s->data + s->head, first);
  if (s->len > first) memcpy(data + first, s->data, s->len - first);
  free(s->data);
  s->data = data;
  s->room = room;
  s->head = 0;
  return 1;
}

static void put(sim *s, const char *p, size_t n) {
  while (n) {
    size_t at = (s->head + s->len) % s->room, k = s->room - at < n ? s->room - at : n;
    memcpy(s->data + at, p, k);
    s->len += k;
    p += k;
    n -= k;
  }
}

static void get(sim *s, char *p, size_t n) {
  while (n) {
    size_t k = s->room - s->head < n ? s->room - s->head : n;
    memcpy(p, s->data + s->head, k);
    s->head = (s->head + k) % s->room;
    s->len -= k;
    s->seen -= k;
    p += k;
    n -= k;
  }
}

static long nothing_to_read(sim *s) {
  int err = s->error;
  if (s->seen < s->len) return -EAGAIN;
  s->error = 0;
  if (err) return -err;
  return s->eof || s->reading_ended ? 0 : -EAGAIN;
}

static long read_stream(sim *s, char *p, size_t n) {
  if (!s->connected) return -ENOTCONN;
  if (!s->seen) return nothing_to_read(s);
  if (n > s->seen) n = s->seen;
  size_t k = let_through(n), before = ROOM - s->len;
  get(s, p, k);
  if (k < n) s->seen = 0, change_later(s);
  if (s->peer && before * 3 < ROOM && (ROOM - s->len) * 3 >= ROOM) sim_tell(s->peer, PORT_WRITE);
  return (long)k;
}

long port_sim_read(int fd, void *p, size_t n) {
  sim *s = sim_of(fd);
  if (!s) return -EBADF;
  return s->type == PORT_STREAM ? read_stream(s, p, n) : port_sim_receive(fd, p, n, NULL);
}

/* With TCP the first bytes to somebody who is gone are lost without a word. */
static long write_to_nobody(sim *s, size_t n) {
  int err = s->error;
  s->error = 0;
  if (err) return s->told = 1, -err;
  if (s->family == PORT_UNIX || s->told) return -EPIPE;
  s->told = 1;
  return (long)n;
}

static long write_stream(sim *s, const port_slice *v, int n) {
  size_t all = 0, done = 0;
  for (int i = 0; i < n; i++) all += v[i].len;
  if (!s->connected) return s->family == PORT_UNIX ? -ENOTCONN : -EPIPE;
  if (s->writing_ended) return -EPIPE;
  sim *to = s->peer;
  if (!to) return write_to_nobody(s, all);
  if (to->reading_ended && s->family == PORT_UNIX) return -EPIPE;
  size_t room = ROOM - to->len, most = all < room ? all : room;
  if (all && (!room || s->held)) return -EAGAIN;
  size_t k = let_through(most);
  if (!grow(to, to->len + k)) return -ENOMEM;
  if (k < most) s->held = 1, change_later(s);
  int late = to->seen < to->len;                 /* what comes behind them comes later, too */
  for (int i = 0; i < n && done < k; i++) {
    size_t part = v[i].len < k - done ? v[i].len : k - done;
    put(to, v[i].p, part);
    done += part;
  }
  if (!late) to->seen = to->len;
  if (k && !late) sim_tell(to, PORT_READ);
  return (long)k;
}

long port_sim_write(int fd, const port_slice *v, int n) {
  sim *s = sim_of(fd);
  if (!s) return -EBADF;
  if (s->type == PORT_STREAM) return write_stream(s, v, n);
  return port_sim_send(fd, v[0].p, v[0].len, NULL);
}
