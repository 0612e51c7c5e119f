/* channel: the queue and the two lists of waiters; see channel.h for the invariants. */
#include "base/show.h"
#include "channel/parts.h"
#include "run/waitable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mr_sharetype *mr_channel_type;

#define FIRST_SEGMENT 4u
#define MOST_SEGMENT 128u

#ifdef MR_CHECKS
#define set_starved(c, yes) ((c)->starved = (yes))
#else
#define set_starved(c, yes) ((void)0)
#endif

mr_channel *mr_channel_new(size_t capacity) {
  mr_channel *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->shared.type = mr_channel_type;
  atomic_init(&c->shared.refs, 1);
  c->capacity = capacity;
  mr_waitq_init(&c->senders);
  mr_waitq_init(&c->receivers);
  return c;
}

void mr_channel_destroy(mr_shared *o) {
  mr_channel *c = (mr_channel *)o;
  mr_channel_check_end(c);
  while (c->head) {
    segment *s = c->head;
    c->head = s->next;
    for (unsigned i = s->first; i < s->last; i++) mr_mail_drop(&s->mail[i]);
    free(s);
  }
  free(c->name);
  free(c->meeting);
  free(c);
}

size_t mr_channel_capacity(const mr_channel *c) { return c->capacity; }
uint64_t mr_channel_id(const mr_channel *c) { return (uint64_t)(uintptr_t)c; }
const char *mr_channel_name(const mr_channel *c) { return c->name ? c->name->text : NULL; }

size_t mr_channel_count(mr_channel *c) {
  port_acquire(&c->lock);
  size_t n = c->count;
  mr_channel_leave(c);
  return n;
}

int mr_channel_closed(mr_channel *c) {
  port_acquire(&c->lock);
  int closed = c->closed;
  mr_channel_leave(c);
  return closed;
}

void mr_channel_describe(mr_shared *o, char *buf, size_t size) {
  mr_channel *c = (mr_channel *)o;
  char name[64];
  if (c->name) snprintf(buf, size, "on channel '%s'", mr_show(name, sizeof name, c->name->text));
  else snprintf(buf, size, "on channel %p", (void *)c);
}

/* ---- the queue (lock held) ---- */

static segment *new_segment(unsigned size) {
  segment *s = malloc(sizeof *s + size * sizeof(mr_mail));
  if (!s) return NULL;
  s->next = NULL;
  s->first = s->last = 0;
  s->size = size;
  return s;
}

static int push(mr_channel *c, const mr_mail *m) {
  segment *t = c->tail;
  if (!t || t->last == t->size) {
    if (t && t->first == t->last) {             /* empty: use it again */
      t->first = t->last = 0;
    } else {
      unsigned size = !t ? FIRST_SEGMENT : t->size < MOST_SEGMENT ? t->size * 4 : MOST_SEGMENT;
      segment *s = new_segment(size);
      if (!s) return 0;
      if (t) t->next = s;
      else c->head = s;
      c->tail = t = s;
    }
  }
  t->mail[t->last++] = *m;
  c->count++;
  return 1;
}

static int push_front(mr_channel *c, const mr_mail *m) {
  segment *s = c->head;
  if (!s || s->first == 0) {
    s = new_segment(FIRST_SEGMENT);
    if (!s) return 0;
    s->first = s->last = s->size;
    s->next = c->head;
    c->head = s;
    if (!c->tail) c->tail = s;
  }
  s->mail[--s->first] = *m;
  c->count++;
  mr_channel_tell(c, 1);
  return 1;
}

/* ---- steps ---- */

mr_step mr_channel_take_receiver(mr_channel *c, mr_wait **peer) {
  mr_step s = CH_BLOCKED;
  port_acquire(&c->lock);
  if (c->closed) s = CH_CLOSED;
  else if ((*peer = mr_channel_claim(&c->receivers)) != NULL) s = CH_PEER;
  mr_channel_leave(c);
  return s;
}

mr_step mr_channel_put(mr_channel *c, const mr_mail *m, mr_wait *node, mr_wait **peer) {
  mr_step s;
  port_acquire(&c->lock);
  if (c->closed) {
    s = CH_CLOSED;
  } else if ((*peer = mr_channel_claim(&c->receivers)) != NULL) {
    s = CH_PEER;
  } else if (c->count < c->capacity) {
    s = push(c, m) ? CH_DONE : CH_NOMEM;
  } else if (node) {
    *node->mail = *m;
    mr_channel_queue(c, &c->senders, node);
    s = CH_WAIT;
  } else {
    s = CH_BLOCKED;
  }
  mr_channel_leave(c);
  return s;
}

mr_step mr_channel_take(mr_channel *c, mr_mail *m, mr_wait *node, mr_wait **peer) {
  mr_step s;
  *peer = NULL;
  port_acquire(&c->lock);
  if (c->count > 0) {
    mr_channel_pop(c, m);
    s = CH_DONE;
    /* There is room for the first who waits to send. Done here, under the same lock, or a later sender would overtake it. */
    if (c->capacity && c->count < c->capacity && (*peer = mr_channel_claim(&c->senders)) != NULL) {
      int moved = push(c, (*peer)->mail);
      if (moved) (*peer)->mail->kind = MAIL_NONE;                    /* else it keeps its mail and tries again */
      set_starved(c, !moved);
    }
  } else if ((*peer = mr_channel_claim(&c->senders)) != NULL) {
    s = CH_PEER;
  } else if (c->closed) {
    s = CH_CLOSED;
  } else if (node) {
    mr_channel_queue(c, &c->receivers, node);
    s = CH_WAIT;
  } else {
    s = CH_BLOCKED;
  }
  mr_channel_leave(c);
  return s;
}

/* Does anybody else wait there? Those whose wait is over go. */
static int others_wait(mr_wait *head, const mr_fiber *self) {
  for (mr_wait *w = head->next, *next; w != head; w = next) {
    next = w->next;
    if (w->set) {                                /* also while its wait is not open: it may be about to open it, and won't look here again */
      if (w->set->fiber != self) return 1;
      continue;
    }
    if (w->fiber == self) continue;
    if (atomic_load(&w->fiber->ticket) == w->ticket) return 1;
    mr_waitq_leave(head, w);
  }
  return 0;
}

int mr_channel_link(mr_channel *c, mr_wait *node, int sending) {
  port_acquire(&c->lock);
  /* The look and the link are one step: of two that link at opposite sides, the second sees the first. Nobody links after the close. */
  int possible = c->closed || (sending ? c->count < c->capacity : c->count > 0) ||
                 others_wait(sending ? &c->receivers : &c->senders, node->fiber);
  if (!possible) mr_channel_queue(c, sending ? &c->senders : &c->receivers, node);
  mr_channel_leave(c);
  return possible;
}

void mr_channel_unwait(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  mr_channel_unqueue(c, node);
  mr_channel_leave(c);
}

void mr_channel_put_back(mr_channel *c, mr_mail *m) {
  mr_wait *peer;
  int kept = 1;
  port_acquire(&c->lock);
  if ((peer = mr_channel_claim(&c->receivers)) == NULL) kept = push_front(c, m);
  mr_channel_leave(c);
  if (peer) {                                    /* claimed: its mail is ours to write without the lock */
    *peer->mail = *m;
    mr_ready(peer->fiber, MR_WOKEN, NULL);
  } else if (!kept) {
    mr_mail_drop(m);
  }
  m->kind = MAIL_NONE;
}

/* ---- barriers ---- */

static mr_meeting *new_meeting(void) {
  mr_meeting *m = calloc(1, sizeof *m);
  if (m) mr_waitq_init(&m->waiters);
  return m;
}

/* (lock held) Ends the round: who waits is claimed and put into a list of their own, as such a fiber is in no other. */
static mr_fiber *release(mr_meeting *m) {
  mr_fiber *first = NULL, **end = &first;
  mr_wait *w;
  m->round++;
  m->arrived = 0;
  while ((w = mr_channel_claim(&m->waiters)) != NULL) {
    w->fiber->next = NULL;
    *end = w->fiber;
    end = &w->fiber->next;
  }
  return first;
}

static mr_step arrive(mr_channel *c, lua_Integer n, mr_wait *node, unsigned *round, mr_fiber **woken) {
  mr_meeting *m = c->meeting;
  if (c->closed) return CH_CLOSED;
  if (!m && (m = c->meeting = new_meeting()) == NULL) return CH_NOMEM;
  if (m->arrived == 0) m->expected = n;
  if (m->arrived + 1 >= m->expected) {
    *woken = release(m);
    return CH_DONE;
  }
  if (!node) return CH_BLOCKED;
  m->arrived++;
  *round = m->round;
  mr_channel_queue(c, &m->waiters, node);
  return CH_WAIT;
}

mr_step mr_channel_meet(mr_channel *c, lua_Integer n, mr_wait *node, unsigned *round, mr_fiber *near) {
  mr_fiber *woken = NULL;
  port_acquire(&c->lock);
  mr_step s = arrive(c, n, node, round, &woken);
  mr_channel_leave(c);
  while (woken) {
    mr_fiber *f = woken;
    woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
  return s;
}

void mr_channel_unmeet(mr_channel *c, mr_wait *node, unsigned round) {
  port_acquire(&c->lock);
  if (c->meeting) mr_waitq_leave(&c->meeting->waiters, node);
  if (c->meeting && c->meeting->round == round && c->meeting->arrived > 0) c->meeting->arrived--;
  mr_channel_leave(c);
}

/* ---- the end ---- */

void mr_channel_wake_all(mr_channel *c, mr_fiber *near) {
  mr_wait *w;
  do {
    port_acquire(&c->lock);
    mr_channel_tell(c, c->closed = 1);           /* in the first round: nobody links any more, so the rounds come to an end */
    w = mr_channel_claim(&c->receivers);
    if (!w) w = mr_channel_claim(&c->senders);
    if (!w && c->meeting) w = mr_channel_claim(&c->meeting->waiters);
    mr_channel_leave(c);
    if (w) mr_ready(w->fiber, MR_CLOSED, near);   /* without the lock, which f may take at once to take its nodes out */
  } while (w);
}

void mr_channel_close(mr_channel *c, mr_fiber *near) {
  int named = mr_channel_unname(c);
  mr_channel_wake_all(c, near);
  if (named) mr_release(&c->shared);
}
