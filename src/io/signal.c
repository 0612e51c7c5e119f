/* signal: see signal.h. Handlers only count and ring a bell (port/signals.c); the poller hands out what they counted. */
#include "io/signal.h"
#include "base/rank.h"
#include "port/system.h"
#include "run/poll.h"
#include "run/replay.h"

#include <errno.h>
#include <stdlib.h>

enum { SIGNALS = 65 };

const mr_sharetype *mr_signal_type;

static port_lock lock = PORT_LOCK(MR_RANK_SIGNALS);
static mr_signal *listeners[SIGNALS];  /* (lock) by number */
static void (*told[SIGNALS])(void);    /* (lock) by number; NULL: none. These are never taken back */

#ifdef MR_CHECKS
/* (lock held) Who is closed is in no list and has no waiters; who is not is in the list of its number. */
static void signal_check(const mr_signal *s) {
  const mr_signal *at = listeners[s->number];
  while (at && at != s) at = at->next;
  mr_assert_locked(&lock);
  mr_assert(s->closed ? !at && mr_waitq_empty(&s->waiters) : at == s);
}
#else
#define signal_check(s) ((void)0)
#endif

/* The first waiter that can be claimed goes into `woken`. (lock held) */
static void claim(mr_signal *s, mr_wait *woken) {
  while (!mr_waitq_empty(&s->waiters)) {
    mr_wait *w = s->waiters.next;
    mr_waitq_del(w);
    if (!mr_wait_claim(w)) continue;
    mr_waitq_add(woken, w);
    return;
  }
}

static void ready(mr_wait *woken, mr_reason why, mr_fiber *near) {
  while (!mr_waitq_empty(woken)) {
    mr_wait *w = woken->next;
    mr_waitq_del(w);
    mr_ready(w->fiber, why, near);
  }
}

static void hand_out(void *ud) {
  mr_wait woken;
  void (*call[SIGNALS])(void);
  int calls = 0;
  (void)ud;
  mr_waitq_init(&woken);
  port_signals_clear();                          /* before counting: what comes now rings again */
  port_acquire(&lock);
  for (int n = 1; n < SIGNALS; n++) {
    unsigned count = listeners[n] || told[n] ? port_signal_count(n) : 0;
    if (count && told[n]) call[calls++] = told[n];
    for (mr_signal *s = count ? listeners[n] : NULL; s; s = s->next) {
      s->pending += count;
      claim(s, &woken);
    }
  }
  port_unlock(&lock);
  for (int i = 0; i < calls; i++) call[i]();
  ready(&woken, MR_WOKEN, NULL);
}

/* (lock held) */
static int open_bell(void) {
  static int done;
  int fd, err = done ? 0 : port_signals_bell(&fd);
  if (!err && !done && (err = mr_source_add(fd, hand_out, NULL)) == 0) done = 1;
  return err;
}

int mr_signal_tell(int number, void (*fn)(void)) {
  port_acquire(&lock);
  int err = mr_replay_on || told[number] ? 0 : open_bell();
  if (!err && !mr_replay_on && !listeners[number] && !told[number]) err = port_signal_take(number);
  if (!err && !mr_replay_on) told[number] = fn;
  port_unlock(&lock);
  return err;
}

mr_signal *mr_signal_new(int number, int *err) {
  mr_signal *s = calloc(1, sizeof *s);
  *err = ENOMEM;
  if (!s) return NULL;
  s->shared.type = mr_signal_type;
  atomic_init(&s->shared.refs, 1);
  s->number = number;
  mr_waitq_init(&s->waiters);
  port_acquire(&lock);
  *err = number > 0 && number < SIGNALS ? 0 : EINVAL;
  if (!*err && !mr_replay_on) *err = open_bell();  /* there none is handed out: it does to the program what it always does */
  if (!*err && !mr_replay_on && !listeners[number] && !told[number]) *err = port_signal_take(number);
  if (!*err) {
    s->next = listeners[number];
    listeners[number] = s;
  }
  port_unlock(&lock);
  if (!*err) return s;
  free(s);
  return NULL;
}

void mr_signal_close(mr_signal *s, mr_fiber *near) {
  mr_wait woken;
  mr_waitq_init(&woken);
  port_acquire(&lock);
  if (!s->closed) {
    s->closed = 1;
    mr_signal **at = &listeners[s->number];
    while (*at != s) at = &(*at)->next;
    *at = s->next;
    if (!listeners[s->number] && !told[s->number] && !mr_replay_on) port_signal_give_back(s->number);
  }
  while (!mr_waitq_empty(&s->waiters)) claim(s, &woken);
  signal_check(s);
  port_unlock(&lock);
  ready(&woken, MR_CLOSED, near);
}

void mr_signal_destroy(mr_shared *o) {
  mr_signal_close((mr_signal *)o, NULL);
  free(o);
}

unsigned mr_signal_take(mr_signal *s, int *closed) {
  port_acquire(&lock);
  unsigned n = s->pending;
  s->pending = 0;
  *closed = s->closed;
  signal_check(s);
  port_unlock(&lock);
  return n;
}

int mr_signal_wait(mr_signal *s, mr_wait *w) {
  mr_wait_outside(w->fiber);
  port_acquire(&lock);
  int now = s->pending || s->closed;
  if (!now) mr_waitq_add(&s->waiters, w);
  signal_check(s);
  port_unlock(&lock);
  return now;
}

void mr_signal_unwait(mr_signal *s, mr_wait *w) {
  (void)s;
  port_acquire(&lock);
  mr_waitq_del(w);
  port_unlock(&lock);
}
