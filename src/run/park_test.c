/*
 * park: a wait ends once, for one reason, whoever comes first; nobody is lost; what is shared between waits (sets) loses nothing either. What
 * lingers in the kernel is ended.
 */
#include "run/test.h"
#include "port/net.h"
#include "port/poll.h"

enum { WAITERS = 24, ROUNDS = 300 / SLOW, BACK = 20000 / SLOW };

/* A thing to wait for: nothing but its queue. */
typedef struct place { port_lock lock; mr_wait waiters; atomic_int inside; } place;

static void place_wait(place *p, mr_wait *w) {
  port_acquire(&p->lock);
  mr_waitq_add(&p->waiters, w);
  port_unlock(&p->lock);
}

static void place_unwait(place *p, mr_wait *w) {
  port_acquire(&p->lock);
  mr_waitq_del(w);
  port_unlock(&p->lock);
}

/* Wakes one; 0: nobody was there. */
static int place_wake(place *p, mr_reason why) {
  mr_fiber *f = NULL;
  port_acquire(&p->lock);
  while (!f && !mr_waitq_empty(&p->waiters)) {
    mr_wait *w = p->waiters.next;
    mr_waitq_del(w);
    if (mr_wait_claim(w)) f = w->fiber;
  }
  port_unlock(&p->lock);
  if (f) mr_ready(f, why, NULL);
  return f != NULL;
}

static place where;
static atomic_int by[MR_STOPPED + 1], waits, wakes;

/* Waits again and again, with a deadline that often comes at the same time as a waker. */
static int waiter(task *t) {
  mr_fiber *f = &t->fiber;
  if (t->at == 1) {
    mr_reason r = mr_wake(f);
    CHECK(atomic_fetch_sub(&where.inside, 1) > 0);
    CHECK(!(atomic_load(&f->ticket) & 1));           /* closed, and nobody opens it but we */
    if (r != MR_WOKEN) place_unwait(&where, &f->wait);
    CHECK(f->wait.next == NULL);
    atomic_fetch_add(&by[r], 1);
  }
  if (t->count++ == ROUNDS) return ENDS;
  t->at = 1;
  atomic_fetch_add(&waits, 1);
  atomic_fetch_add(&where.inside, 1);
  opens(t, WAIT_YIELD);
  place_wait(&where, &f->wait);                      /* from here on it can be claimed */
  return parks(t, port_now() + (uint64_t)(t->count % 7) * 20000);
}

static void wakers(void *arg) {
  (void)arg;
  while (mr_job_count() > 0) {
    atomic_fetch_add(&wakes, place_wake(&where, MR_WOKEN));
    port_yield();
  }
}

static void test_each_wait_ends_once(void) {
  port_thread a, b;
  mr_waitq_init(&where.waiters);
  start(3);
  for (int i = 0; i < WAITERS; i++) spawn(waiter, NULL, NULL);
  CHECK(port_thread_fork(&a, wakers, NULL, "waker") == 0 && port_thread_fork(&b, wakers, NULL, "waker") == 0);
  wait_for_all();
  port_thread_join(&a);
  port_thread_join(&b);
  int sum = 0;
  for (int i = 0; i <= MR_STOPPED; i++) sum += atomic_load(&by[i]);
  CHECK(sum == atomic_load(&waits) && atomic_load(&waits) == WAITERS * ROUNDS);
  CHECK(atomic_load(&by[MR_WOKEN]) == atomic_load(&wakes));
  CHECK(atomic_load(&ended) == WAITERS && atomic_load(&where.inside) == 0);
  CHECK(mr_waitq_empty(&where.waiters));
  printf("%d waits: %d woken, %d timed out\n", sum, atomic_load(&by[MR_WOKEN]), atomic_load(&by[MR_TIMEOUT]));
  stop();
}

/* ---- claimed while it takes its wait back ---- */

static atomic_int lost, kept, claiming, over;

/* The ticket may be claimed by who knows only the fiber (an interrupt), between opening and taking back: that is found, and waited for. */
static int abandoner(task *t) {
  while (t->count++ < BACK) {
    opens(t, WAIT_YIELD);
    atomic_fetch_add(mr_wait_cancel(&t->fiber) ? &kept : &lost, 1);
    CHECK(atomic_load(&t->fiber.state) == FIBER_RUNNING);
    if (t->count % 100 == 0) return yields(t);
  }
  atomic_store(&over, 1);
  return atomic_load(&claiming) ? yields(t) : ENDS;   /* the other one may be about to look at our record */
}

static void claimer(void *fiber) {
  mr_fiber *f = fiber;
  while (!atomic_load(&over))
    if (mr_fiber_claim(f)) mr_ready(f, MR_INTERRUPTED, NULL);
  atomic_store(&claiming, 0);
}

static void test_a_wait_that_is_taken_back(void) {
  port_thread a;
  start(2);
  atomic_store(&claiming, 1);
  mr_fiber *f = &spawn(abandoner, NULL, NULL)->fiber;
  CHECK(port_thread_fork(&a, claimer, f, "claimer") == 0);
  wait_for_all();
  port_thread_join(&a);
  CHECK(atomic_load(&kept) + atomic_load(&lost) == BACK);
  printf("%d waits taken back, %d were claimed before\n", atomic_load(&kept), atomic_load(&lost));
  stop();
}

/* ---- sets ---- */

enum { KNOTS = 6, EVENTS = 2000 / SLOW };
typedef struct source { mr_knot knot; place place; atomic_int sent; int got, out; } source;   /* knot: first */
static source sources[KNOTS];
static mr_set set;

/* What has come is taken; when there is no more the node, which is out of all lists, is linked again. */
static void take_and_link(source *s) {
  for (;;) {
    port_acquire(&s->place.lock);
    int more = atomic_load(&s->sent) != s->got;
    if (!more) mr_waitq_add(&s->place.waiters, &s->knot.wait);
    port_unlock(&s->place.lock);
    if (!more) return;
    s->got++;
  }
}

static int total(void) {
  int n = 0;
  for (int i = 0; i < KNOTS; i++) n += sources[i].got;
  return n;
}

/* Those that were taken out of their queues. One that has woken us may be among the missed ones, too. */
static void note_missed(void) {
  for (mr_knot *k = mr_set_missed(&set); k; k = k->missed) ((source *)(void *)k)->out = 1;
}

static int collector(task *t) {
  mr_fiber *f = &t->fiber;
  if (t->at++ > 0) {
    ((source *)(void *)f->fired)->out = 1;
    CHECK(mr_wake(f) == MR_WOKEN);
    mr_set_close(&set);
  }
  for (;;) {
    note_missed();
    for (int i = 0; i < KNOTS; i++) {
      if (sources[i].out) take_and_link(&sources[i]);
      sources[i].out = 0;
    }
    if (total() == KNOTS * EVENTS) return ENDS;
    opens(t, WAIT_YIELD);
    if (mr_set_open(&set, f)) return parks(t, UINT64_MAX);
    mr_wait_abandon(f);                        /* nodes were missed: they are looked at first */
    mr_set_close(&set);
  }
}

static void sender(void *arg) {
  source *s = arg;
  for (int n = 0; n < EVENTS; n++) {
    port_acquire(&s->place.lock);
    atomic_fetch_add(&s->sent, 1);
    port_unlock(&s->place.lock);
    place_wake(&s->place, MR_WOKEN);
    if (n % 16 == 0) port_yield();
  }
}

static void test_a_set_misses_nothing(void) {
  port_thread threads[KNOTS];
  start(2);
  task *t = task_new(collector, NULL);
  set.fiber = &t->fiber;
  for (int i = 0; i < KNOTS; i++) {
    mr_waitq_init(&sources[i].place.waiters);
    sources[i].out = 1;
    sources[i].knot.wait.set = &set;
    sources[i].knot.wait.fiber = &t->fiber;
  }
  mr_outside(1);                               /* the senders are none of ours: as long as they live nothing is a deadlock */
  mr_job_init(&t->job, &t->fiber, 1, 0);
  mr_job_start(&t->job, NULL);
  for (int i = 0; i < KNOTS; i++) CHECK(port_thread_fork(&threads[i], sender, &sources[i], "sender") == 0);
  for (int i = 0; i < KNOTS; i++) port_thread_join(&threads[i]);
  wait_for_all();
  mr_outside(-1);
  CHECK(total() == KNOTS * EVENTS);
  stop();
}

/* ---- lingering ---- */

enum { LINGERS = 20 };

/* Alone, in a call without a limit for which nothing ever comes: that it comes back is the test. */
static int lingerer(task *t) {
  int bell = (int)(intptr_t)t->arg;
  for (int i = 0; i < LINGERS; i++) {
    CHECK(mr_run_alone());
    int limit = mr_linger_begin(&t->fiber) ? -1 : 1;
    CHECK(port_net_wait(bell, 0, limit) == 0);
    if (limit < 0) mr_linger_end(&t->fiber);
  }
  return ENDS;
}

static void test_the_monitor_ends_a_call_without_a_limit(void) {
  int bell = port_bell_open();
  CHECK(bell >= 0);
  for (int workers = 1; workers <= 3; workers++) {
    start(workers);
    spawn(lingerer, (void *)(intptr_t)bell, NULL);
    wait_for_all();
    stop();
  }
  port_bell_close(bell);
}

int main(void) {
  test_each_wait_ends_once();
  test_a_wait_that_is_taken_back();
  test_a_set_misses_nothing();
  test_the_monitor_ends_a_call_without_a_limit();
  return 0;
}
