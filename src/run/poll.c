/*
 * poll: watches, and handing out what the kernel says is ready; see poll.h.
 *
 * Invariants.
 *  - Watches live in blocks that are never freed. A tag holds a watch's number and its generation, which changes when the watch is
 *    closed; so an event of a descriptor that is gone finds nobody.
 *  - (watch's lock) `ready` has a direction's bit only while nobody waits there: an edge either wakes or is remembered.
 *  - A fiber that waits for a descriptor is counted in noutside from before it can be claimed until it runs again (mr_wake).
 *
 * Locks: a watch's lock is taken like a channel's; `slots` and `sources` with no other.
 */
#include "base/rank.h"
#include "run/rt.h"
#include "run/replay.h"
#include "run/poll.h"
#include "run/crew.h"
#include "run/seat.h"
#include "port/poll.h"
#include "port/simnet.h"

#include <errno.h>
#include <stdlib.h>

struct mr_watch {
  port_lock lock;
  unsigned generation;
  unsigned number;
  int fd;
  unsigned char ready;                 /* MR_READ | MR_WRITE */
  unsigned char hup, closed;
  unsigned char seated;                /* readers have seats */
  mr_wait readers, writers;            /* heads */
  mr_watch *next;                      /* free list (slots) */
};

enum { BLOCK = 256, BLOCKS = 65536 };
#define SOURCE_TAG (UINT64_C(1) << 63)

static port_lock slots;
static _Atomic(mr_watch *) blocks[BLOCKS];   /* written once each (slots), before any tag that leads there */
static unsigned nblocks;
static mr_watch *unused;

typedef struct source { int fd; atomic_int busy; void (*fn)(void *ud); void *ud; } source;
static port_lock sources_lock;
static source sources[8];
static atomic_uint nsources;

/* ---- watches ---- */

static int grow(void) {
  mr_watch *b = nblocks < BLOCKS ? calloc(BLOCK, sizeof *b) : NULL;
  if (!b) return 0;
  for (unsigned i = 0; i < BLOCK; i++) {
    b[i].number = nblocks * BLOCK + i;
    b[i].generation = 1;
    port_lock_rank(&b[i].lock, MR_RANK_OBJECT);
    mr_waitq_init(&b[i].readers);
    mr_waitq_init(&b[i].writers);
    b[i].next = unused;
    unused = &b[i];
  }
  atomic_store(&blocks[nblocks++], b);
  return 1;
}

static mr_watch *slot_get(void) {
  port_acquire(&slots);
  mr_watch *w = unused || grow() ? unused : NULL;
  if (w) unused = w->next;
  port_unlock(&slots);
  return w;
}

static void slot_put(mr_watch *w) {
  port_acquire(&slots);
  w->next = unused;
  unused = w;
  port_unlock(&slots);
}

static uint64_t tag_of(const mr_watch *w) { return (uint64_t)(w->generation & 0x7fffffffu) << 32 | w->number; }

static mr_watch *find(uint64_t tag) {
  unsigned number = (unsigned)tag;
  mr_watch *b = number / BLOCK < BLOCKS ? atomic_load_explicit(&blocks[number / BLOCK], memory_order_acquire) : NULL;
  return b ? &b[number % BLOCK] : NULL;
}

/* The idle worker that only sleeps begins to poll. */
static void first_watch(void) {
  mr_runtime *r = &mr_rt;
  if (atomic_exchange(&r->polling, 1)) return;
  port_acquire(&r->ilock);
  if (r->watcher) port_event_set(&r->watcher->event);
  port_unlock(&r->ilock);
}

static mr_watch *watch(int fd, unsigned what, int how, int *error) {
  int inside = port_is_sim(fd);        /* nothing of the kernel's */
  *error = inside ? 0 : port_poll_open();
  mr_watch *w = *error ? NULL : slot_get();
  if (!w) {
    if (!*error) *error = ENOMEM;
    return NULL;
  }
  port_acquire(&w->lock);
  w->fd = fd;
  w->ready = w->hup = w->closed = w->seated = 0;
  uint64_t tag = tag_of(w);
  port_unlock(&w->lock);
  if (!inside) first_watch();
  *error = port_poll_add(fd, tag, what, how);
  if (*error == 0) return w;
  slot_put(w);
  return NULL;
}

mr_watch *mr_watch_open(int fd, int *error) { return watch(fd, PORT_READ | PORT_WRITE, PORT_EDGE, error); }
mr_watch *mr_watch_once(int fd, int dirs, int *error) { return watch(fd, (unsigned)dirs, PORT_ONCE, error); }

/* One waiter of either direction, claimed; NULL: nobody is left. (lock held) */
static mr_wait *claim(mr_wait *head) {
  while (!mr_waitq_empty(head)) {
    mr_wait *n = head->next;
    mr_waitq_del(n);
    if (mr_wait_claim(n)) return n;
  }
  return NULL;
}

/* ---- by load ---- */

enum { LOOK = 32 };                    /* so many waiters are compared, those that wait for longest */
#define BUSY 0x80000000u

static int is_open(const mr_wait *n) { return atomic_load(&n->fiber->ticket) == n->ticket; }

/* How much the waiter's job has to do; BUSY: something of it runs, or is about to. */
static unsigned rank(const mr_wait *n) {
  mr_crew *c = n->fiber->crew;
  unsigned load = n->seat ? mr_seat_load(n->seat) : 0, busy = 0;
  if (!c || n->fiber->mode == WAIT_HOST) return load;
  port_acquire(&c->lock);
  if (c->state != CREW_IDLE) busy = BUSY;
  port_unlock(&c->lock);
  return load | busy;
}

static mr_wait *least(mr_wait *head, unsigned *its_rank) {
  mr_wait *best = NULL, *n = head->next;
  for (int i = 0; i < LOOK && n != head; i++, n = n->next) {
    unsigned r = is_open(n) ? rank(n) : UINT32_MAX;
    if (best && r >= *its_rank) continue;
    best = n;
    *its_rank = r;
  }
  return best;
}

/* Who is to be told of an edge, claimed: added to `woken`. 0: nobody is left. (lock held) */
static int claim_readers(mr_watch *w, mr_wait *woken) {
  unsigned r = 0;
  int claimed = 0;
  mr_wait *n;
  if (!w->seated) {
    if ((n = claim(&w->readers)) != NULL) mr_waitq_add(woken, n);
    return n != NULL;
  }
  while (claimed < 2 && (n = least(&w->readers, &r)) != NULL) {
    mr_waitq_del(n);
    if (!mr_wait_claim(n)) continue;
    mr_waitq_add(woken, n);
    claimed++;
    if (!(r & BUSY)) break;
  }
  return claimed;
}

static int claim_for(mr_watch *w, int dir, mr_wait *woken) {
  if (dir == MR_READ) return claim_readers(w, woken);
  mr_wait *n = claim(&w->writers);
  if (n) mr_waitq_add(woken, n);
  return n != NULL;
}

int mr_watch_wake(mr_watch *w, const mr_seat *s, mr_fiber *near) {
  mr_wait *found = NULL;
  port_acquire(&w->lock);
  for (mr_wait *n = w->readers.next; n != &w->readers && !found; n = n->next)
    if (is_open(n) && n->seat == s) found = n;
  if (found) mr_waitq_del(found);
  if (found && !mr_wait_claim(found)) found = NULL;
  port_unlock(&w->lock);
  if (found) mr_ready(found->fiber, MR_WOKEN, near);
  return found != NULL;
}

static void retire(mr_watch *w) {
  w->generation++;
  w->closed = 1;
  w->ready = 0;
}

void mr_watch_close(mr_watch *w, mr_fiber *near) {
  mr_wait *n;
  port_poll_remove(w->fd);
  do {
    port_acquire(&w->lock);
    if (!w->closed) retire(w);
    if ((n = claim(&w->readers)) == NULL) n = claim(&w->writers);
    port_unlock(&w->lock);
    if (n) mr_ready(n->fiber, MR_CLOSED, near);
  } while (n);
  slot_put(w);
}

void mr_watch_end(mr_watch *w) {
  port_poll_remove(w->fd);
  port_acquire(&w->lock);
  retire(w);
  port_unlock(&w->lock);
  slot_put(w);
}

void mr_wait_outside(mr_fiber *f) {
  if (f->outside || mr_replay_on) return;        /* there nothing comes from outside: who waits for it waits for ever */
  f->outside = 1;
  atomic_fetch_add(&mr_rt.noutside, 1);
}

static int wait(mr_watch *w, int dir, mr_wait *node, mr_seat *s) {
  mr_wait_outside(node->fiber);
  node->seat = s;
  port_acquire(&w->lock);
  int now = (w->ready & dir) || w->closed;
  w->ready &= (unsigned char)~dir;
  if (!now) mr_waitq_add(dir & MR_READ ? &w->readers : &w->writers, node);
  port_unlock(&w->lock);
  return now;
}

int mr_watch_wait(mr_watch *w, int dir, mr_wait *node) { return wait(w, dir, node, NULL); }

int mr_watch_wait_seated(mr_watch *w, mr_wait *node, mr_seat *s) {
  port_acquire(&w->lock);
  w->seated = 1;
  port_unlock(&w->lock);
  return wait(w, MR_READ, node, s);
}

void mr_watch_unwait(mr_watch *w, mr_wait *node) {
  port_acquire(&w->lock);
  mr_waitq_del(node);
  port_unlock(&w->lock);
}

void mr_watch_edge(mr_watch *w, int dir, mr_fiber *near) {
  mr_wait woken, *n;
  mr_waitq_init(&woken);
  port_acquire(&w->lock);
  if (!claim_for(w, dir, &woken) && !w->closed) w->ready |= (unsigned char)dir;
  port_unlock(&w->lock);
  while (!mr_waitq_empty(&woken)) {
    n = woken.next;
    mr_waitq_del(n);
    mr_ready(n->fiber, MR_WOKEN, near);
  }
}

int mr_watch_hup(mr_watch *w) {
  port_acquire(&w->lock);
  int hup = w->hup;
  port_unlock(&w->lock);
  return hup;
}

int mr_watch_waited(mr_watch *w, int dir) {
  port_acquire(&w->lock);
  mr_wait *head = dir == MR_READ ? &w->readers : &w->writers;
  int waited = 0;
  for (mr_wait *n = head->next; n != head && !waited; n = n->next) waited = is_open(n);
  port_unlock(&w->lock);
  return waited;
}

/* ---- sources ---- */

int mr_source_add(int fd, void (*fn)(void *ud), void *ud) {
  int err = port_poll_open();
  if (err) return err;
  port_acquire(&sources_lock);
  unsigned n = atomic_load(&nsources);
  if (n < sizeof sources / sizeof *sources) {
    sources[n].fd = fd;
    sources[n].fn = fn;
    sources[n].ud = ud;
    atomic_store(&nsources, n + 1);
  } else {
    err = ENOMEM;
  }
  port_unlock(&sources_lock);
  if (!err) first_watch();
  return err ? err : port_poll_add(fd, SOURCE_TAG | n, PORT_READ, PORT_LEVEL);
}

/* Level-triggered: whoever finds it busy leaves it; what it does not see it is told again. */
static void run_source(source *s) {
  int idle = 0;
  if (!atomic_compare_exchange_strong(&s->busy, &idle, 1)) return;
  s->fn(s->ud);
  atomic_store(&s->busy, 0);
}

void mr_outside(int change) {
  if (change > 0) atomic_fetch_add(&mr_rt.noutside, (unsigned)change);
  else if (atomic_fetch_sub(&mr_rt.noutside, (unsigned)-change) == (unsigned)-change) mr_quiet_check();
}

/* ---- handing out ---- */

/* Claims who waits for what is ready now; they are added to `woken`, or the edge is remembered. */
static void deliver(const port_ready *r, mr_wait *woken) {
  mr_watch *w = find(r->tag);
  if (!w) return;
  port_acquire(&w->lock);
  if (tag_of(w) == r->tag) {
    if (r->what & PORT_HUP) w->hup = 1;
    for (int dir = MR_READ; dir <= MR_WRITE; dir <<= 1) {
      if (!(r->what & (unsigned)dir)) continue;
      if (!claim_for(w, dir, woken)) w->ready |= (unsigned char)dir;
    }
  }
  port_unlock(&w->lock);
}

static void hand_out(const port_ready *r, int n, mr_wait *woken) {
  mr_waitq_init(woken);
  for (int i = 0; i < n; i++) {
    if (r[i].tag & SOURCE_TAG) {
      unsigned at = (unsigned)(r[i].tag & ~SOURCE_TAG);
      if (at < atomic_load(&nsources)) run_source(&sources[at]);
    } else {
      deliver(&r[i], woken);
    }
  }
}

/* Readies all; the first without waking another worker, as the caller is about to look at w's queue (if it is idle). */
static unsigned ready_all(mr_wait *woken, mr_worker *w, int idle) {
  unsigned count = 0;
  while (!mr_waitq_empty(woken)) {
    mr_wait *n = woken->next;
    mr_waitq_del(n);
    mr_ready_polled(n->fiber, w);
    count++;
  }
  if (count > (idle ? 1u : 0u)) mr_wake_idle();
  return count;
}

enum { BATCH = 64 };

unsigned mr_poll(mr_worker *w, int idle) {
  port_ready r[BATCH];
  mr_wait woken;
  int n = port_poll(r, BATCH);
  if (n <= 0) return 0;
  hand_out(r, n, &woken);
  return ready_all(&woken, w, idle);
}

int mr_poll_wait(port_event *e, uint64_t deadline, mr_worker *w, unsigned *count) {
  port_ready r[BATCH];
  mr_wait woken;
  int set;
  int n = port_poll_wait(e, deadline, r, BATCH, &set);
  atomic_fetch_add(&mr_rt.nmoving, 1);           /* the caller lowers it */
  hand_out(r, n, &woken);
  *count = ready_all(&woken, w, w != NULL);      /* a host runs no fibers of others: some worker must be woken for the first, too */
  return set;
}
