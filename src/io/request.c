/*
 * request: pools of threads that run what may block; see request.h.
 *
 * Why not libuv's pool: it is joined when the program exits, which hangs as long as one of its threads blocks, and in a forked child, where
 * these threads don't exist, hangs or aborts (libuv/libuv#4443); and each result would travel through its loop's descriptor and the
 * poller before it wakes a fiber. Ours are never joined, and wake the fiber themselves.
 *
 * Ownership. A pool's lock guards its queue, its list of idle threads and their number. An idle thread is given its request before it is
 * woken, so requests start in the order in which they came. A thread ends when it had nothing to do for a while. Pools know nothing
 * of the runtime: its stop and restart leave them alone. In a forked child none of this is touched (mr_forked).
 */
#include "io/request.h"
#include "observe/trace.h"
#include "run/poll.h"
#include "run/replay.h"

typedef struct helper {
  port_event event;
  mr_request *given;                   /* (lock) what it was woken for */
  struct helper *next;                 /* (lock) in the list of idle threads */
} helper;

typedef struct pool {
  port_lock lock;
  unsigned threads, most;
  helper *idle;
  mr_request *head, *tail;
  const char *name;
} pool;

/* More threads than these make a disk no faster; a resolver's wait for an answer costs nothing but a stack. */
static pool pools[MR_POOLS] = { { .most = 8, .name = "mare-files" }, { .most = 16, .name = "mare-names" } };

#define IDLE 5000000000u               /* ns after which a thread without work ends */

void mr_request_init(mr_request *r, void (*work)(mr_request *), void (*destroy)(mr_request *)) {
  mr_event_init(&r->done);
  r->work = work;
  r->destroy = destroy;
  r->anyway = 0;
  atomic_init(&r->refs, 1);
  r->next = NULL;
}

void mr_request_keep(mr_request *r) {
  mr_assert(atomic_load_explicit(&r->refs, memory_order_relaxed) > 0);
  atomic_fetch_add_explicit(&r->refs, 1, memory_order_relaxed);
}

void mr_request_drop(mr_request *r) {
  mr_assert(atomic_load_explicit(&r->refs, memory_order_relaxed) > 0);
  if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) r->destroy(r);
}

static void run(mr_request *r) {
  mr_trace_begin(TRACE_REQUEST);
  if (r->anyway || atomic_load(&r->refs) > 1) r->work(r);
  mr_event_set(&r->done, NULL);
  mr_trace_finish(0);
  mr_request_drop(r);
  mr_outside(-1);
}

#ifdef MR_CHECKS
/* (lock held) A thread idles only while nothing is queued. */
static void pool_check(const pool *p) {
  unsigned idle = 0;
  mr_assert_locked(&p->lock);
  for (const helper *h = p->idle; h; h = h->next) idle++;
  mr_assert(idle <= p->threads && p->threads <= p->most && (!p->idle || !p->head) && (p->head != NULL) == (p->tail != NULL));
}
#else
#define pool_check(p) ((void)0)
#endif

static mr_request *pop(pool *p) {
  mr_request *r = p->head;
  if (r && (p->head = r->next) == NULL) p->tail = NULL;
  return r;
}

/* Takes h out of the idle list. 0: it is not there, somebody has given it a request. (lock held) */
static int unlist(pool *p, helper *h) {
  for (helper **at = &p->idle; *at; at = &(*at)->next)
    if (*at == h) {
      *at = h->next;
      return 1;
    }
  return 0;
}

/* The next request, or NULL: the thread is not needed any more and is not counted. */
static mr_request *next(pool *p, helper *h) {
  port_acquire(&p->lock);
  mr_request *r = pop(p);
  if (!r) {
    h->given = NULL;
    h->next = p->idle;
    p->idle = h;
  }
  pool_check(p);
  port_unlock(&p->lock);
  if (r) return r;
  int woken = port_event_wait(&h->event, port_now() + IDLE);
  port_acquire(&p->lock);
  if (!woken && unlist(p, h)) {
    p->threads--;
    port_unlock(&p->lock);
    return NULL;
  }
  port_unlock(&p->lock);
  if (!woken) port_event_wait(&h->event, UINT64_MAX);      /* it is about to be set */
  return h->given;
}

static void help(void *arg) {
  pool *p = arg;
  helper h = { .given = NULL };
  mr_request *r;
  mr_trace_thread(p->name);
  while ((r = next(p, &h)) != NULL) run(r);
  mr_trace_leave();
}

/* Queues r, or gives it to an idle thread: that is woken by the caller. *more: a further thread is to be started, and is counted. */
static helper *queue(pool *p, mr_request *r, int *more) {
  port_acquire(&p->lock);
  helper *h = p->idle;
  *more = 0;
  if (h) {
    p->idle = h->next;
    h->given = r;
  } else {
    r->next = NULL;
    if (p->tail) p->tail->next = r;
    else p->head = r;
    p->tail = r;
    *more = p->threads < p->most;
    p->threads += (unsigned)*more;
  }
  pool_check(p);
  port_unlock(&p->lock);
  return h;
}

/* The system refuses a thread. If there is no other, the caller does the work itself: slow is better than never. */
static void do_without(pool *p) {
  mr_request *r;
  port_acquire(&p->lock);
  int alone = --p->threads == 0;
  do {
    r = alone ? pop(p) : NULL;
    port_unlock(&p->lock);
    if (!r) return;
    run(r);
    port_acquire(&p->lock);
  } while (1);
}

void mr_request_submit(mr_request *r, int which) {
  pool *p = &pools[which];
  int more;
  mr_request_keep(r);
  mr_outside(1);
  if (PORT_UNLIKELY(mr_replay_on)) {              /* at once: how long it takes must not be seen */
    run(r);
    return;
  }
  helper *h = queue(p, r, &more);
  if (h) port_event_set(&h->event);
  if (more && port_thread_start(help, p, p->name) != 0) do_without(p);
}
