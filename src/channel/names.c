/*
 * names: the channels that have one, in a table of the program.
 *
 * There are two spaces of names, mare's own and luaproc's; a name of one says nothing in the other. The table is cut into stripes by the
 * name's hash, each with a lock of its own, so that looking up hardly ever waits, and growing alone, so that it costs the same however
 * many there are. A stripe's lock may be held while a channel's is taken, not the other way round.
 *
 * A named channel is open as long as its name is in the table, seen from outside: deleting takes the name away and closes under both
 * locks, and mr_channel_close takes it away first. So who finds a closed channel through a name that it had kept looks again.
 */
#include "base/rank.h"
#include "channel/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STRIPES = 64, FIRST_SLOTS = 8 };

typedef struct stripe {
  _Alignas(PORT_CACHELINE) port_lock lock;
  size_t count, size;                /* size: 0 or a power of two */
  mr_name_entry **slot;
} stripe;

#define ONE     { .lock = PORT_LOCK(MR_RANK_NAMES) }
#define FOUR    ONE, ONE, ONE, ONE
#define SIXTEEN FOUR, FOUR, FOUR, FOUR
static stripe stripes[STRIPES] = { SIXTEEN, SIXTEEN, SIXTEEN, SIXTEEN };

static stripe *stripe_of(uint64_t hash) { return &stripes[hash >> 58]; }
_Static_assert(STRIPES == 1 << (64 - 58), "a hash's upper bits choose the stripe");

/* (lock held) */
static mr_name_entry **find(stripe *t, int space, const char *name, size_t len, uint64_t hash) {
  if (!t->size) return NULL;
  for (mr_name_entry **e = &t->slot[hash & (t->size - 1)]; *e; e = &(*e)->next)
    if ((*e)->hash == hash && (*e)->space == space && (*e)->len == len && memcmp((*e)->text, name, len) == 0) return e;
  return NULL;
}

#ifdef MR_CHECKS
/* (lock held) */
static void stripe_check(const stripe *t) {
  size_t n = 0;
  mr_assert_locked(&t->lock);
  for (size_t i = 0; i < t->size; i++)
    for (const mr_name_entry *e = t->slot[i]; e; e = e->next, n++)
      mr_assert(stripe_of(e->hash) == t && (e->hash & (t->size - 1)) == i && e->listed && e->channel->name == e);
  mr_assert(n == t->count);
}
#endif

/* (lock held) Without memory for more slots the chains get longer. 0: there are none at all. */
static int grow(stripe *t) {
  size_t size = t->size ? t->size * 2 : FIRST_SLOTS;
  mr_name_entry **slot = calloc(size, sizeof *slot);
  if (!slot) return t->size != 0;
  for (size_t i = 0; i < t->size; i++)
    for (mr_name_entry *e = t->slot[i], *next; e; e = next) {
      next = e->next;
      e->next = slot[e->hash & (size - 1)];
      slot[e->hash & (size - 1)] = e;
    }
  free(t->slot);
  t->slot = slot;
  t->size = size;
  return 1;
}

/* (lock held) */
static int insert(stripe *t, mr_name_entry *e) {
  if (t->count >= t->size && !grow(t)) return 0;
  mr_name_entry **slot = &t->slot[e->hash & (t->size - 1)];
  e->next = *slot;
  *slot = e;
  e->listed = 1;
  t->count++;
  mr_retain(&e->channel->shared);    /* the name's own reference */
  MR_CHECK_SOME(64, stripe_check(t));
  return 1;
}

/* (lock held) */
static void take_out(stripe *t, mr_name_entry **at) {
  mr_name_entry *e = *at;
  *at = e->next;
  mr_assert(e->listed);
  e->listed = 0;
  t->count--;
  MR_CHECK_SOME(64, stripe_check(t));
}

int mr_channel_named_so(const mr_channel *c, const char *name, size_t len) {
  return c->name->len == len && memcmp(c->name->text, name, len) == 0;
}

mr_channel *mr_channel_lookup(int space, const char *name, size_t len, uint64_t hash) {
  stripe *t = stripe_of(hash);
  port_acquire(&t->lock);
  mr_name_entry **e = find(t, space, name, len, hash);
  mr_channel *c = e ? (*e)->channel : NULL;
  if (c) mr_retain(&c->shared);
  port_unlock(&t->lock);
  return c;
}

static mr_channel *new_named(int space, const char *name, size_t len, uint64_t hash, size_t capacity) {
  mr_channel *c = mr_channel_new(capacity);
  mr_name_entry *e = c ? malloc(sizeof *e + len + 1) : NULL;
  if (!e) {
    if (c) mr_release(&c->shared);
    return NULL;
  }
  *e = (mr_name_entry){ .channel = c, .hash = hash, .len = len, .space = (unsigned char)space };
  memcpy(e->text, name, len);
  e->text[len] = 0;
  c->name = e;
  return c;
}

mr_channel *mr_channel_named(int space, const char *name, size_t len, size_t capacity, int *made, int *err) {
  uint64_t hash = mr_channel_hash(name, len);
  stripe *t = stripe_of(hash);
  mr_channel *c = mr_channel_lookup(space, name, len, hash);
  *made = 0;
  *err = MR_OK;
  if (c) return c;
  mr_channel *fresh = new_named(space, name, len, hash, capacity);
  if (fresh) {
    port_acquire(&t->lock);
    mr_name_entry **e = find(t, space, name, len, hash);
    if (e) mr_retain(&(c = (*e)->channel)->shared);
    else if (insert(t, fresh->name)) c = fresh;
    port_unlock(&t->lock);
    *made = c == fresh;
    if (c != fresh) mr_release(&fresh->shared);
  }
  if (!c) *err = MR_ENOMEM;
  return c;
}

int mr_channel_unname(mr_channel *c) {
  mr_name_entry *e = c->name;
  if (!e) return 0;
  stripe *t = stripe_of(e->hash);
  port_acquire(&t->lock);
  int listed = e->listed;
  if (listed) take_out(t, find(t, e->space, e->text, e->len, e->hash));
  port_unlock(&t->lock);
  return listed;
}

mr_step mr_channel_delete(int space, const char *name, size_t len, mr_fiber *near) {
  uint64_t hash = mr_channel_hash(name, len);
  stripe *t = stripe_of(hash);
  mr_channel *c = NULL;
  mr_step s = CH_CLOSED;
  port_acquire(&t->lock);
  mr_name_entry **e = find(t, space, name, len, hash);
  if (e) {
    c = (*e)->channel;
    port_acquire(&c->lock);
    s = c->count > 0 ? CH_BLOCKED : CH_DONE;
    if (s == CH_DONE) mr_channel_tell(c, c->closed = 1);
    port_unlock(&c->lock);
    if (s == CH_DONE) take_out(t, e);
  }
  port_unlock(&t->lock);
  if (s == CH_DONE) {
    mr_channel_wake_all(c, near);
    mr_release(&c->shared);
  }
  return s;
}

/* ---- for who looks ---- */

enum { COUNTED = 1000 };

static unsigned waiting(const mr_wait *head) {
  unsigned n = 0;
  for (const mr_wait *w = head->next; w != head && n < COUNTED; w = w->next) n++;
  return n;
}

static mr_channel_info describe(mr_channel *c) {
  mr_channel_info i = { .capacity = c->capacity };
  snprintf(i.name, sizeof i.name, "%s", c->name->text);   /* it lives as long as the channel */
  port_acquire(&c->lock);
  i.length = c->count;
  i.senders = waiting(&c->senders);
  i.receivers = waiting(&c->receivers);
  port_unlock(&c->lock);
  return i;
}

/* More to be done there: messages that lie, and those that could not be put there yet; then those who wait for some. */
static int fuller(const mr_channel_info *a, const mr_channel_info *b) {
  size_t x = a->length + a->senders, y = b->length + b->senders;
  return x != y ? x > y : a->receivers > b->receivers;
}

static unsigned place(mr_channel_info *out, unsigned n, unsigned most, mr_channel_info i) {
  unsigned at = n < most ? n : most;
  while (at > 0 && fuller(&i, &out[at - 1])) {
    if (at < most) out[at] = out[at - 1];
    at--;
  }
  if (at < most) out[at] = i;
  return n < most ? n + 1 : n;
}

typedef struct { mr_channel **at; size_t n, size; } found;

/* Under no lock; what it had is not kept. */
static int make_room(found *f, size_t n) {
  free(f->at);
  f->size = n + n / 8 + 16;
  f->at = malloc(f->size * sizeof(mr_channel *));
  return f->at != NULL;
}

/* Those of a stripe, each with a reference, so that its lock is held for that only. 0: no memory. */
static int collect(stripe *t, found *f) {
  f->n = 0;
  port_acquire(&t->lock);
  for (size_t n; (n = t->count) > f->size; port_acquire(&t->lock)) {
    port_unlock(&t->lock);
    if (!make_room(f, n)) return 0;
  }
  for (size_t k = 0; k < t->size; k++)
    for (mr_name_entry *e = t->slot[k]; e; e = e->next) {
      if (e->space != CH_SPACE_MARE) continue;
      mr_retain(&e->channel->shared);
      f->at[f->n++] = e->channel;
    }
  port_unlock(&t->lock);
  return 1;
}

int mr_channel_infos(mr_channel_info *out, unsigned most, unsigned *n) {
  found f = { NULL, 0, 0 };
  int ok = 1;
  *n = 0;
  for (int i = 0; ok && i < STRIPES; i++) {
    ok = collect(&stripes[i], &f);
    for (size_t k = 0; k < f.n; k++) {
      *n = place(out, *n, most, describe(f.at[k]));
      mr_release(&f.at[k]->shared);
    }
  }
  free(f.at);
  return ok ? MR_OK : MR_ENOMEM;
}
