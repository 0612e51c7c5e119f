/* What a channel promises is checked: each broken promise ends the program, and says which it was. */
#include "channel/test.h"

static mr_channel *broken;
static actor somebody, other;

static void look(void) {
#ifdef MR_CHECKS
  port_acquire(&broken->lock);
  mr_channel_check(broken);
  port_unlock(&broken->lock);
#endif
}

/* Two numbers in a queue for three. */
static void prepare(void) {
  mr_fiber *f = actor_init(&somebody);
  actor_init(&other);
  broken = test_channel(3);
  CHECK(test_send(f, broken, 1, 0) == DONE && test_send(f, broken, 2, 0) == DONE);
  look();
}

static mr_wait *linked(actor *a, mr_wait *head) {
  CHECK(mr_wait_open(&a->proc.main.fiber, NULL) == MR_OK);
  mr_waitq_add(head, &a->proc.main.fiber.wait);
  return &a->proc.main.fiber.wait;
}

static void count_is_wrong(void) { broken->count++; look(); }
static void places_are_wrong(void) { broken->head->first = broken->head->last + 1; look(); }
static void receiver_waits_beside_messages(void) { linked(&somebody, &broken->receivers); look(); }
static void sender_waits_beside_room(void) { linked(&somebody, &broken->senders); look(); }
static void list_is_torn(void) {
  linked(&somebody, &broken->receivers);
  mr_wait *w = linked(&other, &broken->receivers);
  broken->count = 0;
  broken->head->last = broken->head->first;
  look();
  w->prev = w;
  look();
}

static void both_sides_wait(void) {
  broken->capacity = broken->count = 0;
  broken->head->last = broken->head->first;
  linked(&somebody, &broken->receivers);
  linked(&other, &broken->senders);
  look();
}

static void offer_is_not_told(void) {
  broken->capacity = broken->count = 0;
  broken->head->last = broken->head->first;
  linked(&somebody, &broken->senders);
  look();
}

static void too_many_have_come(void) {
  static mr_meeting m;
  mr_waitq_init(&m.waiters);
  m.arrived = m.expected = 2;
  broken->meeting = &m;
  look();
}

static void waits_at_a_closed_one(void) {
  mr_wait *peer;
  mr_mail m;
  broken->capacity = broken->count = 0;
  broken->head->last = broken->head->first;
  somebody.proc.main.fiber.wait.next = &somebody.proc.main.fiber.wait;    /* linked elsewhere */
  mr_channel_take(broken, &m, &somebody.proc.main.fiber.wait, &peer);
}

static void comes_back_to_life(void) {
  atomic_store(&broken->shared.refs, 0);
  mr_retain(&broken->shared);
}

static void dies_with_waiters(void) {
  linked(&somebody, &broken->senders);
  somebody.proc.job.host = 0;                    /* a host's may be left behind */
  mr_release(&broken->shared);
}

static void woken_under_a_lock(void) {
  mr_wait *w = linked(&somebody, &broken->senders);
  port_acquire(&broken->lock);
  mr_waitq_del(w);
  if (mr_wait_claim(w)) mr_ready(w->fiber, MR_WOKEN, NULL);
}

static void lua_under_a_lock(void) {
  mr_heap *h = mr_heap_new(0);
  port_acquire(&broken->lock);
  mr_heap_alloc(h, NULL, 0, 100);
}

int main(void) {
  prepare();
  CHECK_DIES(count_is_wrong, "n == c->count");
  CHECK_DIES(places_are_wrong, "s->first <= s->last");
  CHECK_DIES(receiver_waits_beside_messages, "c->count == 0 || receivers == 0");
  CHECK_DIES(sender_waits_beside_room, "c->count >= c->capacity || senders == 0");
  CHECK_DIES(list_is_torn, "w->next->prev == w");
  CHECK_DIES(both_sides_wait, "!sender || !first_open(&c->receivers, sender)");
  CHECK_DIES(offer_is_not_told, "mr_channel_may_have(c)");
  CHECK_DIES(too_many_have_come, "m->arrived < m->expected");
  CHECK_DIES(waits_at_a_closed_one, "!c->closed && !node->next");
  CHECK_DIES(comes_back_to_life, "refs");
  CHECK_DIES(dies_with_waiters, "abandoned(&c->senders)");
  CHECK_DIES(woken_under_a_lock, "under a lock");
  CHECK_DIES(lua_under_a_lock, "it may sleep, or run Lua, under a lock");
  mr_release(&broken->shared);
  return CHECK_RESULT();
}
