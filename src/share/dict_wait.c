/*
 * dict_wait: waiting for a key to change; see dict.h.
 *
 * A node lies in the list of its key's stripe and has a tag from the key's hash: who changes a key takes out and wakes all nodes with its tag. Each of
 * them looks again. That an entry's moment comes is no step of anybody's: who waits, waits no longer than until then.
 */
#include "share/stripe.h"

#include <stdlib.h>

static size_t kept_text(const mr_dict_value *v) { return v && v->kind == DICT_TEXT ? v->length : 0; }

static void keep_old(mr_watch *w, const mr_dict_value *old) {
  w->by_value = 1;
  w->old = *old;
  if (old->kind == DICT_TEXT) w->old.text = memcpy(w->bytes + w->key.length, old->text, old->length);
  if (old->kind == DICT_OBJECT) mr_retain(old->object);
}

/* (lock held) */
static uint64_t version_of(mr_watch *w, mr_entry **e, mr_remains *r) {
  mr_stripe_find(w->dict, mr_stripe_of(w->dict, w->key.hash), &w->key, e, r);
  return *e ? (*e)->version : 0;
}

static int is_changed(const mr_watch *w, const mr_entry *e) { return w->by_value ? !mr_entry_is(e, &w->old) : (e ? e->version : 0) != w->seen; }

static uint64_t until_of(const mr_entry *e) { return e && e->expires ? e->expires : UINT64_MAX; }

mr_watch *mr_watch_new(const mr_sharetype *type, mr_dict *d, const mr_key *k, const mr_dict_value *old) {
  mr_watch *w = malloc(sizeof *w + k->length + kept_text(old));
  if (!w) return NULL;
  memset(w, 0, sizeof *w);
  w->shared.type = type;
  atomic_init(&w->shared.refs, 1);
  w->dict = d;
  mr_retain(&d->shared);
  w->key = *k;
  w->key.text = memcpy(w->bytes, k->text, k->length);
  if (old) {
    keep_old(w, old);
    return w;
  }
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  port_acquire(&t->lock);
  w->seen = version_of(w, &e, &r);
  mr_stripe_leave(d, t);
  mr_remains_drop(&r, NULL);
  return w;
}

void mr_watch_destroy(mr_shared *o) {
  mr_watch *w = (mr_watch *)(void *)o;
  if (w->by_value && w->old.kind == DICT_OBJECT) mr_release(w->old.object);
  mr_release(&w->dict->shared);
  free(w);
}

int mr_watch_take(mr_watch *w, mr_dict_value *out, char room[MR_TEXT_MOST], uint64_t *until) {
  mr_stripe *t = mr_stripe_of(w->dict, w->key.hash);
  mr_remains r = { 0 };
  mr_entry *e;
  out->kind = DICT_ABSENT;
  port_acquire(&t->lock);
  uint64_t version = version_of(w, &e, &r);
  int changed = is_changed(w, e);
  if (changed) {
    w->seen = version;
    if (e) mr_entry_value(e, out, room);
  } else {
    *until = w->until = until_of(e);
  }
  mr_stripe_leave(w->dict, t);
  mr_remains_drop(&r, NULL);
  return changed;
}

int mr_watch_link(mr_watch *w, mr_wait *node) {
  mr_stripe *t = mr_stripe_of(w->dict, w->key.hash);
  mr_remains r = { 0 };
  mr_entry *e;
  port_acquire(&t->lock);
  version_of(w, &e, &r);
  int changed = is_changed(w, e) || until_of(e) != w->until;
  if (!changed) {
    node->linked = (unsigned short)w->key.hash | 1;
    mr_waitq_add(&t->waiters, node);
    t->awaited = 1;
  }
  mr_stripe_leave(w->dict, t);
  mr_remains_drop(&r, NULL);
  return changed;
}

void mr_watch_unlink(mr_watch *w, mr_wait *node) {
  mr_stripe *t = mr_stripe_of(w->dict, w->key.hash);
  port_acquire(&t->lock);
  mr_waitq_del(node);
  mr_stripe_leave(w->dict, t);
}
