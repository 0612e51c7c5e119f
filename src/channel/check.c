/*
 * check: what a channel promises, for builds with checks. The lock is held at every call.
 *
 * A list may hold nodes whose wait is over: whoever ended it (a deadline, another case of a select) takes them out later. Nodes of a set stay
 * where they are from wait to wait. Neither says anything about who waits now, so where it matters only open nodes of single waits count; such
 * a node can close at any time, but never opens again.
 */
#include "channel/parts.h"

#ifdef MR_CHECKS

static void queue_check(const mr_channel *c) {
  size_t n = 0;
  const segment *last = NULL;
  for (const segment *s = c->head; s; last = s, s = s->next) {
    mr_assert(s->first <= s->last && s->last <= s->size);
    mr_assert(s->first < s->last || !s->next || s == c->head);   /* an empty one is only kept to be filled */
    n += s->last - s->first;
  }
  mr_assert(last == c->tail && n == c->count);
}

static size_t list_check(const mr_wait *head) {
  size_t n = 0;
  for (const mr_wait *w = head->next; w != head; w = w->next, n++) mr_assert(w->next->prev == w && (w->fiber || w->set));
  mr_assert(head->prev->next == head && (n > 0 || head->prev == head));   /* (the first's `prev` is not kept) */
  return n;
}

static int is_open(const mr_wait *w) { return !w->set && atomic_load(&w->fiber->ticket) == w->ticket; }

static const mr_fiber *first_open(const mr_wait *head, const mr_fiber *but) {
  for (const mr_wait *w = head->next; w != head; w = w->next)
    if (is_open(w) && w->fiber != but) return w->fiber;
  return NULL;
}

/* One fiber may offer and want at the same channel, in a select; two fibers that could serve each other must not both wait. */
static void waiters_check(const mr_channel *c) {
  const mr_fiber *sender = first_open(&c->senders, NULL);
  mr_assert(!sender || !first_open(&c->receivers, sender));
}

static void meeting_check(const mr_channel *c) {
  const mr_meeting *m = c->meeting;
  if (!m) return;
  mr_assert(m->arrived >= 0 && (m->arrived == 0 || m->arrived < m->expected));
  mr_assert(list_check(&m->waiters) <= (size_t)m->arrived);
}

void mr_channel_check(const mr_channel *c) {
  mr_assert_locked(&c->lock);
  mr_assert(atomic_load_explicit(&c->shared.refs, memory_order_relaxed) > 0);
  queue_check(c);
  size_t receivers = list_check(&c->receivers), senders = list_check(&c->senders);
  mr_assert(c->count == 0 || receivers == 0);
  mr_assert(c->count >= c->capacity || senders == 0 || c->starved);
  waiters_check(c);
  meeting_check(c);
  mr_assert(mr_channel_may_have(c) || (c->count == 0 && senders == 0 && !c->closed));
}

/* Fibers of a host whose state closes never go on: they leave their nodes behind. */
static int abandoned(const mr_wait *head) {
  for (const mr_wait *w = head->next; w != head; w = w->next)
    if (is_open(w) && !w->fiber->job->host) return 0;
  return 1;
}

void mr_channel_check_end(const mr_channel *c) {
  mr_assert(abandoned(&c->senders) && abandoned(&c->receivers) && (!c->meeting || abandoned(&c->meeting->waiters)));
}

#endif
