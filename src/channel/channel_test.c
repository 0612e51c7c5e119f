/*
 * Channels, from threads that wait as hosts do: messages come out in their order, none is lost and none comes twice, whatever deadlines pass and
 * whoever closes meanwhile; a full queue makes senders wait, an empty one receivers; a closed channel still gives what it holds.
 */
#include "channel/test.h"

#define MS UINT64_C(1000000)

/* ---- one thread ---- */

static void test_a_queue_gives_what_it_got_in_its_order(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  for (size_t capacity = 1; capacity < 2000; capacity = capacity * 3 + 1) {
    mr_channel *c = test_channel(capacity);
    CHECK(test_receive(f, c, &n, 0) == LATE);
    lua_Integer in = 0, out = 0;
    for (int round = 0; round < 5; round++) {
      while (mr_channel_count(c) < capacity) CHECK(test_send(f, c, in++, 0) == DONE);
      CHECK(test_send(f, c, -1, 0) == LATE);
      for (size_t k = capacity / 3 + 1; k > 0; k--) CHECK(test_receive(f, c, &n, 0) == DONE && n == out++);
    }
    while (test_receive(f, c, &n, 0) == DONE) CHECK(n == out++);
    CHECK(in == out && mr_channel_count(c) == 0);
    mr_release(&c->shared);
  }
}

static void test_without_capacity_nothing_is_kept(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  mr_channel *c = test_channel(0);
  CHECK(test_send(f, c, 1, 0) == LATE && test_receive(f, c, &n, 0) == LATE && mr_channel_count(c) == 0);
  CHECK(test_send(f, c, 1, port_now() + 2 * MS) == LATE && test_receive(f, c, &n, port_now() + 2 * MS) == LATE);
  mr_wait *peer;
  CHECK(mr_channel_take_receiver(c, &peer) == CH_BLOCKED);
  mr_release(&c->shared);
}

static void test_what_is_put_back_is_the_oldest(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  mr_channel *c = test_channel(MR_UNBOUNDED);
  for (int i = 100; i < 200; i++) CHECK(test_send(f, c, i, 0) == DONE);
  for (int i = 99; i >= 0; i--) {
    mr_mail m = number(i);
    mr_channel_put_back(c, &m);
    CHECK(m.kind == MAIL_NONE);
  }
  for (int i = 0; i < 200; i++) CHECK(test_receive(f, c, &n, 0) == DONE && n == i);
  mr_release(&c->shared);
}

static void test_a_closed_channel_gives_what_it_holds(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  mr_channel *c = test_channel(4);
  CHECK(test_send(f, c, 1, 0) == DONE && test_send(f, c, 2, 0) == DONE);
  mr_channel_close(c, NULL);
  mr_channel_close(c, NULL);
  CHECK(mr_channel_closed(c) && test_send(f, c, 3, UINT64_MAX) == CLOSED);
  CHECK(test_receive(f, c, &n, UINT64_MAX) == DONE && n == 1 && test_receive(f, c, &n, UINT64_MAX) == DONE && n == 2);
  CHECK(test_receive(f, c, &n, UINT64_MAX) == CLOSED);
  mr_release(&c->shared);
}

/* ---- waiting ---- */

typedef struct job { mr_channel *c; lua_Integer n, got; uint64_t deadline; outcome how; atomic_int begun; } job;

static void receive_one(void *arg) {
  job *j = arg;
  actor a;
  j->how = test_receive(actor_init(&a), j->c, &j->got, j->deadline);
}

static void send_one(void *arg) {
  job *j = arg;
  actor a;
  j->how = test_send(actor_init(&a), j->c, j->n, j->deadline);
}

static size_t waiting(mr_channel *c) {
  size_t n = 0;
  port_acquire(&c->lock);
  for (mr_wait *w = c->senders.next; w != &c->senders; w = w->next) n++;
  for (mr_wait *w = c->receivers.next; w != &c->receivers; w = w->next) n++;
  port_unlock(&c->lock);
  return n;
}

static void until_waiting(mr_channel *c, size_t n) { while (waiting(c) < n) port_yield(); }

static void test_senders_wait_for_room_and_come_in_their_order(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  port_thread t[5];
  job j[5];
  for (size_t capacity = 0; capacity <= 2; capacity++) {
    mr_channel *c = test_channel(capacity);
    for (size_t i = 0; i < 5; i++) {
      j[i] = (job){ .c = c, .n = (lua_Integer)i, .deadline = UINT64_MAX };
      CHECK(port_thread_fork(&t[i], send_one, &j[i], "send") == 0);
      if (i >= capacity) until_waiting(c, i + 1 - capacity);
      else while (mr_channel_count(c) <= i) port_yield();
    }
    CHECK(mr_channel_count(c) == capacity);
    for (int i = 0; i < 5; i++) CHECK(test_receive(f, c, &n, UINT64_MAX) == DONE && n == i);
    for (int i = 0; i < 5; i++) {
      port_thread_join(&t[i]);
      CHECK(j[i].how == DONE);
    }
    CHECK(mr_channel_count(c) == 0 && waiting(c) == 0);
    mr_release(&c->shared);
  }
}

static void test_receivers_are_served_in_their_order(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  port_thread t[4];
  job j[4];
  mr_channel *c = test_channel(2);
  for (size_t i = 0; i < 4; i++) {
    j[i] = (job){ .c = c, .deadline = UINT64_MAX };
    CHECK(port_thread_fork(&t[i], receive_one, &j[i], "receive") == 0);
    until_waiting(c, i + 1);
  }
  for (int i = 0; i < 4; i++) CHECK(test_send(f, c, 10 + i, 0) == DONE);
  for (int i = 0; i < 4; i++) {
    port_thread_join(&t[i]);
    CHECK(j[i].how == DONE && j[i].got == 10 + i);
  }
  mr_release(&c->shared);
}

static void test_closing_wakes_all_who_wait(void) {
  port_thread t[6];
  job j[6];
  for (int sending = 0; sending <= 1; sending++) {
    mr_channel *c = test_channel(0);
    for (int i = 0; i < 6; i++) {
      j[i] = (job){ .c = c, .deadline = UINT64_MAX };
      CHECK(port_thread_fork(&t[i], sending ? send_one : receive_one, &j[i], "wait") == 0);
    }
    until_waiting(c, 6);
    mr_channel_close(c, NULL);
    for (int i = 0; i < 6; i++) {
      port_thread_join(&t[i]);
      CHECK(j[i].how == CLOSED);
    }
    mr_release(&c->shared);
  }
}

static void test_a_deadline_leaves_no_trace(void) {
  actor a;
  mr_fiber *f = actor_init(&a);
  lua_Integer n;
  mr_channel *c = test_channel(1);
  CHECK(test_receive(f, c, &n, port_now() + MS) == LATE && waiting(c) == 0);
  CHECK(test_send(f, c, 1, 0) == DONE);
  CHECK(test_send(f, c, 2, port_now() + MS) == LATE && waiting(c) == 0);
  CHECK(test_receive(f, c, &n, 0) == DONE && n == 1 && test_receive(f, c, &n, 0) == LATE);
  mr_release(&c->shared);
}

/* ---- many at once ---- */

enum { SENDERS = 4, RECEIVERS = 4, EACH = 1500 };
typedef struct crowd {
  mr_channel *c;
  atomic_uchar seen[SENDERS * EACH];
  atomic_uint sent, received, next, gone;
} crowd;

static uint64_t some_deadline(uint64_t *seed) {
  switch (test_random(seed) % 4) {
    case 0: return 0;
    case 1: return port_now() + test_random(seed) % 50000;
    default: return UINT64_MAX;
  }
}

/* The last sender closes: what is in the queue then still comes out. */
static void send_all(void *arg) {
  crowd *w = arg;
  unsigned who = atomic_fetch_add(&w->next, 1);
  uint64_t seed = who + 1;
  actor a;
  mr_fiber *f = actor_init(&a);
  for (unsigned i = 0; i < EACH;) {
    outcome how = test_send(f, w->c, who * EACH + i, some_deadline(&seed));
    CHECK(how != CLOSED);
    i += how == DONE;
  }
  atomic_fetch_add(&w->sent, EACH);
  if (atomic_fetch_add(&w->gone, 1) + 1 == SENDERS) mr_channel_close(w->c, NULL);
}

static void receive_all(void *arg) {
  crowd *w = arg;
  lua_Integer last[SENDERS], n;
  uint64_t seed = 99 + atomic_load(&w->received);
  actor a;
  mr_fiber *f = actor_init(&a);
  for (int i = 0; i < SENDERS; i++) last[i] = -1;
  for (outcome how; (how = test_receive(f, w->c, &n, some_deadline(&seed))) != CLOSED;) {
    if (how == LATE) continue;
    CHECK(n >= 0 && n < SENDERS * EACH && atomic_fetch_add(&w->seen[n], 1) == 0);
    CHECK(n > last[n / EACH]);                   /* of one sender in the order in which they were sent */
    last[n / EACH] = n;
    atomic_fetch_add(&w->received, 1);
  }
}

static void test_no_message_is_lost_and_none_comes_twice(void) {
  static const size_t capacities[] = { 0, 1, 7, MR_UNBOUNDED };
  for (size_t k = 0; k < sizeof capacities / sizeof *capacities; k++) {
    port_thread t[SENDERS + RECEIVERS];
    crowd *w = calloc(1, sizeof *w);
    w->c = test_channel(capacities[k]);
    for (int i = 0; i < SENDERS + RECEIVERS; i++)
      CHECK(port_thread_fork(&t[i], i < SENDERS ? send_all : receive_all, w, "crowd") == 0);
    for (int i = 0; i < SENDERS + RECEIVERS; i++) port_thread_join(&t[i]);
    CHECK(atomic_load(&w->sent) == SENDERS * EACH && atomic_load(&w->received) == SENDERS * EACH);
    CHECK(mr_channel_count(w->c) == 0 && waiting(w->c) == 0);
    mr_release(&w->c->shared);
    free(w);
  }
}

/* ---- barriers ---- */

enum { MEMBERS = 4, MEETINGS = 500 };
typedef struct party { mr_channel *c; atomic_int round[MEMBERS]; atomic_int next; } party;

static void meet_often(void *arg) {
  party *p = arg;
  int who = atomic_fetch_add(&p->next, 1);
  actor a;
  mr_fiber *f = actor_init(&a);
  for (int i = 1; i <= MEETINGS; i++) {
    unsigned round;
    atomic_store(&p->round[who], i);
    CHECK(mr_wait_open(f, NULL) == MR_OK);
    mr_step s = mr_channel_meet(p->c, MEMBERS, &f->wait, &round, NULL);
    if (s == CH_WAIT) CHECK(test_park(f, UINT64_MAX) == MR_WOKEN);
    else mr_wait_abandon(f);
    CHECK(s == CH_WAIT || s == CH_DONE);
    for (int k = 0; k < MEMBERS; k++) {          /* all have come, and nobody is more than one round ahead */
      int at = atomic_load(&p->round[k]);
      CHECK(at == i || at == i + 1);
    }
  }
}

static void test_who_meets_goes_on_together(void) {
  port_thread t[MEMBERS];
  party p = { .c = test_channel(0) };
  for (int i = 0; i < MEMBERS; i++) CHECK(port_thread_fork(&t[i], meet_often, &p, "meet") == 0);
  for (int i = 0; i < MEMBERS; i++) port_thread_join(&t[i]);
  mr_release(&p.c->shared);
}

static void test_who_leaves_a_barrier_does_not_count(void) {
  actor a, b;
  mr_fiber *f = actor_init(&a), *g = actor_init(&b);
  unsigned round, other = 0;
  mr_channel *c = test_channel(0);
  CHECK(mr_channel_meet(c, 2, NULL, &round, NULL) == CH_BLOCKED);
  CHECK(mr_wait_open(f, NULL) == MR_OK && mr_channel_meet(c, 2, &f->wait, &round, NULL) == CH_WAIT);
  CHECK(test_park(f, port_now() + MS) == MR_TIMEOUT);
  mr_channel_unmeet(c, &f->wait, round);
  CHECK(mr_wait_open(g, NULL) == MR_OK && mr_channel_meet(c, 2, &g->wait, &other, NULL) == CH_WAIT);      /* it is the first again */
  mr_channel_close(c, NULL);
  CHECK(test_park(g, UINT64_MAX) == MR_CLOSED);
  mr_channel_unmeet(c, &g->wait, other);
  CHECK(mr_channel_meet(c, 1, NULL, &round, NULL) == CH_CLOSED);
  mr_release(&c->shared);
}

int main(void) {
  test_a_queue_gives_what_it_got_in_its_order();
  test_without_capacity_nothing_is_kept();
  test_what_is_put_back_is_the_oldest();
  test_a_closed_channel_gives_what_it_holds();
  test_senders_wait_for_room_and_come_in_their_order();
  test_receivers_are_served_in_their_order();
  test_closing_wakes_all_who_wait();
  test_a_deadline_leaves_no_trace();
  test_no_message_is_lost_and_none_comes_twice();
  test_who_meets_goes_on_together();
  test_who_leaves_a_barrier_does_not_count();
  return CHECK_RESULT();
}
