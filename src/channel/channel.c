/* channel: the queue and the two lists of waiters; see channel.h for the invariants. */
#include "channel/channel.h"
#include "process/waitable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const mr_sharetype *mr_channel_type;

typedef struct segment {
  struct segment *next;
  unsigned first, last, size;        /* used places: first .. last - 1 */
  mr_mail mail[];
} segment;

struct mr_channel {
  mr_shared shared;
  port_lock lock;
  unsigned char closed;
  size_t capacity, count;
  segment *head, *tail;
  mr_wait senders, receivers;        /* heads */
  char *name;                        /* owned; NULL: anonymous */
  mr_channel *named_next;            /* (names' lock) */
};

#define FIRST_SEGMENT 4u
#define MOST_SEGMENT 128u

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
  while (c->head) {
    segment *s = c->head;
    c->head = s->next;
    for (unsigned i = s->first; i < s->last; i++) mr_mail_drop(&s->mail[i]);
    free(s);
  }
  free(c->name);
  free(c);
}

size_t mr_channel_capacity(const mr_channel *c) { return c->capacity; }
uint64_t mr_channel_id(const mr_channel *c) { return (uint64_t)(uintptr_t)c; }
const char *mr_channel_name(const mr_channel *c) { return c->name; }

size_t mr_channel_count(mr_channel *c) {
  port_acquire(&c->lock);
  size_t n = c->count;
  port_unlock(&c->lock);
  return n;
}

int mr_channel_closed(mr_channel *c) {
  port_acquire(&c->lock);
  int closed = c->closed;
  port_unlock(&c->lock);
  return closed;
}

void mr_channel_describe(mr_shared *o, char *buf, size_t size) {
  mr_channel *c = (mr_channel *)o;
  if (c->name) snprintf(buf, size, "on channel '%.60s'", c->name);
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

static void pop(mr_channel *c, mr_mail *m) {
  segment *s = c->head;
  *m = s->mail[s->first++];
  c->count--;
  if (s->first == s->last && s->next) {
    c->head = s->next;
    free(s);
  } else if (s->first == s->last) {
    s->first = s->last = 0;
  }
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
  return 1;
}

/* The first waiter whose wait is still open, claimed; others are only taken out. */
static inline mr_wait *claim_first(mr_wait *head) {
  while (!mr_waitq_empty(head)) {
    mr_wait *w = head->next;
    mr_waitq_del(w);
    if (mr_wait_claim(w)) return w;
  }
  return NULL;
}

/* ---- steps ---- */

mr_step mr_channel_take_receiver(mr_channel *c, mr_wait **peer) {
  mr_step s = CH_BLOCKED;
  port_acquire(&c->lock);
  if (c->closed) s = CH_CLOSED;
  else if ((*peer = claim_first(&c->receivers)) != NULL) s = CH_PEER;
  port_unlock(&c->lock);
  return s;
}

mr_step mr_channel_put(mr_channel *c, const mr_mail *m, mr_wait *node, mr_wait **peer) {
  mr_step s;
  port_acquire(&c->lock);
  if (c->closed) {
    s = CH_CLOSED;
  } else if ((*peer = claim_first(&c->receivers)) != NULL) {
    s = CH_PEER;
  } else if (c->count < c->capacity) {
    s = push(c, m) ? CH_DONE : CH_NOMEM;
  } else if (node) {
    *node->mail = *m;
    mr_waitq_add(&c->senders, node);
    s = CH_WAIT;
  } else {
    s = CH_BLOCKED;
  }
  port_unlock(&c->lock);
  return s;
}

mr_step mr_channel_take(mr_channel *c, mr_mail *m, mr_wait *node, mr_wait **peer) {
  mr_step s;
  *peer = NULL;
  port_acquire(&c->lock);
  if (c->count > 0) {
    pop(c, m);
    s = CH_DONE;
    if (c->capacity && c->count < c->capacity && (*peer = claim_first(&c->senders)) != NULL) {
      if (push(c, (*peer)->mail)) (*peer)->mail->kind = MAIL_NONE;   /* else it keeps its mail and tries again */
    }
  } else if ((*peer = claim_first(&c->senders)) != NULL) {
    s = CH_PEER;
  } else if (c->closed) {
    s = CH_CLOSED;
  } else if (node) {
    mr_waitq_add(&c->receivers, node);
    s = CH_WAIT;
  } else {
    s = CH_BLOCKED;
  }
  port_unlock(&c->lock);
  return s;
}

/* Does anybody else wait there? Those whose wait is over go. */
static int others_wait(mr_wait *head, const mr_fiber *self) {
  for (mr_wait *w = head->next, *next; w != head; w = next) {
    next = w->next;
    if (w->set) {
      if ((unsigned)atomic_load(&w->set->word) && w->set->fiber != self) return 1;
      continue;
    }
    if (w->fiber == self) continue;
    if (atomic_load(&w->fiber->ticket) == w->ticket) return 1;
    mr_waitq_del(w);
  }
  return 0;
}

int mr_channel_link(mr_channel *c, mr_wait *node, int sending) {
  port_acquire(&c->lock);
  int possible = c->closed || (sending ? c->count < c->capacity : c->count > 0) ||
                 others_wait(sending ? &c->receivers : &c->senders, node->fiber);
  if (!possible) mr_waitq_add(sending ? &c->senders : &c->receivers, node);
  port_unlock(&c->lock);
  return possible;
}

void mr_channel_unwait(mr_channel *c, mr_wait *node) {
  port_acquire(&c->lock);
  mr_waitq_del(node);
  port_unlock(&c->lock);
}

void mr_channel_put_back(mr_channel *c, mr_mail *m) {
  mr_wait *peer;
  int kept = 1;
  port_acquire(&c->lock);
  if ((peer = claim_first(&c->receivers)) == NULL) kept = push_front(c, m);
  port_unlock(&c->lock);
  if (peer) {
    *peer->mail = *m;
    mr_ready(peer->fiber, MR_WOKEN, NULL);
  } else if (!kept) {
    mr_mail_drop(m);
  }
  m->kind = MAIL_NONE;
}

/* ---- names ---- */

static port_lock names_lock;
static mr_channel *names[256];

static mr_channel **name_slot(const char *name, size_t len) {
  unsigned h = 5381;
  for (size_t i = 0; i < len; i++) h = h * 33 + (unsigned char)name[i];
  return &names[h % 256];
}

static mr_channel *find_name(mr_channel **slot, const char *name, size_t len) {
  for (mr_channel *c = *slot; c; c = c->named_next)
    if (strlen(c->name) == len && memcmp(c->name, name, len) == 0) return c;
  return NULL;
}

mr_channel *mr_channel_lookup(const char *name, size_t len) {
  port_acquire(&names_lock);
  mr_channel *c = find_name(name_slot(name, len), name, len);
  if (c) mr_retain(&c->shared);
  port_unlock(&names_lock);
  return c;
}

mr_channel *mr_channel_named(const char *name, size_t len, size_t capacity, int *made, int *err) {
  mr_channel *c = mr_channel_lookup(name, len), **slot = name_slot(name, len);
  *made = 0;
  *err = MR_OK;
  if (c) return c;
  mr_channel *fresh = mr_channel_new(capacity);
  if (!fresh || (fresh->name = malloc(len + 1)) == NULL) {
    if (fresh) mr_release(&fresh->shared);
    *err = MR_ENOMEM;
    return NULL;
  }
  memcpy(fresh->name, name, len);
  fresh->name[len] = 0;
  port_acquire(&names_lock);
  c = find_name(slot, name, len);
  if (!c) {
    c = fresh;
    fresh->named_next = *slot;
    *slot = fresh;
    *made = 1;
    mr_retain(&fresh->shared);                  /* the name's own reference */
  } else {
    mr_retain(&c->shared);
  }
  port_unlock(&names_lock);
  if (c != fresh) mr_release(&fresh->shared);
  return c;
}

static int forget_name(mr_channel *c) {          /* 1: the name held a reference */
  int found = 0;
  if (!c->name) return 0;
  port_acquire(&names_lock);
  for (mr_channel **p = name_slot(c->name, strlen(c->name)); *p; p = &(*p)->named_next)
    if (*p == c) {
      *p = c->named_next;
      found = 1;
      break;
    }
  port_unlock(&names_lock);
  return found;
}

void mr_channel_close(mr_channel *c, mr_fiber *near) {
  int named = forget_name(c);
  mr_wait *w;
  do {
    port_acquire(&c->lock);
    c->closed = 1;
    w = claim_first(&c->receivers);
    if (!w) w = claim_first(&c->senders);
    port_unlock(&c->lock);
    if (w) mr_ready(w->fiber, MR_CLOSED, near);
  } while (w);
  if (named) mr_release(&c->shared);
}
