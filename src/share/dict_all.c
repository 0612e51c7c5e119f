/* dict_all: what concerns all entries of a dictionary, one stripe after the other; see dict.h. */
#include "share/stripe.h"

#include <stdlib.h>

size_t mr_dict_count(mr_dict *d) {
  size_t n = 0;
  for (unsigned i = 0; i <= d->mask; i++) {
    mr_stripe *t = &d->stripe[i];
    port_acquire(&t->lock);
    n += t->count;
    mr_stripe_leave(d, t);
  }
  return n;
}

unsigned mr_dict_stripes(const mr_dict *d) { return d->mask + 1; }

void mr_dict_look(mr_dict *d, mr_dict_info *out) {
  *out = (mr_dict_info){ .limit = d->limit };
  for (unsigned i = 0; i <= d->mask; i++) {
    mr_stripe *t = &d->stripe[i];
    port_acquire(&t->lock);
    out->entries += t->count;
    out->bytes += t->bytes;
    out->hits += t->hits;
    out->misses += t->misses;
    out->evicted += t->evicted;
    out->expired += t->expired;
    for (const mr_wait *w = t->waiters.next; w != &t->waiters && out->waiting < 1000; w = w->next) out->waiting++;
    mr_stripe_leave(d, t);
  }
}

/* (lock held) Removes all entries, or those that are over; how many. */
static size_t remove_from(mr_dict *d, mr_stripe *t, mr_entry **at, uint64_t now, mr_remains *r) {
  size_t n = 0;
  while (*at) {
    if (now && ((*at)->expires == 0 || (*at)->expires > now)) {
      at = &(*at)->next;
      continue;
    }
    uint64_t hash = (*at)->hash;
    mr_stripe_remove(d, t, at, r);
    if (!now) mr_stripe_changed(t, hash, r);
    n++;
  }
  return n;
}

static size_t remove_places(mr_dict *d, mr_stripe *t, uint64_t now, mr_remains *r) {
  size_t n = 0;
  for (size_t i = 0; i <= t->mask; i++) n += remove_from(d, t, &t->slot[i], now, r);
  if (t->old)
    for (size_t i = t->moved; i <= t->old_mask; i++) n += remove_from(d, t, &t->old[i], now, r);
  return n;
}

void mr_dict_clear(mr_dict *d, mr_fiber *near) {
  for (unsigned i = 0; i <= d->mask; i++) {
    mr_stripe *t = &d->stripe[i];
    mr_remains r = { 0 };
    port_acquire(&t->lock);
    remove_places(d, t, 0, &r);
    mr_entry **old = t->old == t->first ? NULL : t->old;
    t->old = NULL;
    mr_stripe_reset(t, &r);
    mr_stripe_leave(d, t);
    mr_remains_drop(&r, near);
    free(old);
  }
}

size_t mr_dict_purge(mr_dict *d) {
  size_t all = 0;
  for (unsigned i = 0; i <= d->mask; i++) {
    mr_stripe *t = &d->stripe[i];
    mr_remains r = { 0 };
    uint64_t now = port_now();
    port_acquire(&t->lock);
    size_t n = remove_places(d, t, now ? now : 1, &r);
    t->expired += n;
    mr_stripe_leave(d, t);
    mr_remains_drop(&r, NULL);
    all += n;
  }
  return all;
}

/* ---- keys: a byte for the type, then the bits of a number, or a text's length and bytes ---- */

static size_t packed_size(const mr_entry *e) { return 1 + (e->key_type == KEY_STRING ? sizeof(uint32_t) + e->key_length : sizeof(uint64_t)); }

static char *pack_key(char *to, const mr_entry *e) {
  *to++ = (char)e->key_type;
  if (e->key_type != KEY_STRING) return (char *)memcpy(to, &e->number, sizeof e->number) + sizeof e->number;
  memcpy(to, &e->key_length, sizeof e->key_length);
  to += sizeof e->key_length;
  return (char *)memcpy(to, e->bytes, e->key_length) + e->key_length;
}

const char *mr_dict_unpack_key(const char *at, mr_key *k) {
  memset(k, 0, sizeof *k);
  k->type = (unsigned char)*at++;
  if (k->type != KEY_STRING) {
    memcpy(&k->number, at, sizeof k->number);
    return at + sizeof k->number;
  }
  memcpy(&k->length, at, sizeof k->length);
  k->text = at + sizeof k->length;
  return k->text + k->length;
}

/* (lock held) Those of the places from `from` on; where the next one would go. `to` NULL: only their size is counted. */
static char *pack_places(mr_entry **slot, size_t from, size_t mask, uint64_t now, char *to, size_t *size, size_t *n) {
  for (size_t i = from; i <= mask; i++)
    for (const mr_entry *e = slot[i]; e; e = e->next) {
      if (e->expires && e->expires <= now) continue;
      if (to) to = pack_key(to, e);
      *size += packed_size(e);
      ++*n;
    }
  return to;
}

static char *pack_stripe(mr_stripe *t, uint64_t now, char *to, size_t *size, size_t *n) {
  *size = *n = 0;
  to = pack_places(t->slot, 0, t->mask, now, to, size, n);
  return t->old ? pack_places(t->old, t->moved, t->old_mask, now, to, size, n) : to;
}

size_t mr_dict_keys(mr_dict *d, unsigned stripe, char *buffer, size_t size, size_t *n) {
  mr_stripe *t = &d->stripe[stripe];
  uint64_t now = port_now();
  size_t needed;
  port_acquire(&t->lock);
  pack_stripe(t, now, NULL, &needed, n);
  if (needed <= size && needed) pack_stripe(t, now, buffer, &needed, n);
  mr_stripe_leave(d, t);
  return needed;
}
