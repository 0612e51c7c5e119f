/*
 * dict: entries and the steps on one key; see dict.h.
 *
 * A stripe's places grow twice as many without anybody waiting for it: the old ones stay beside the new, and each insertion moves a few. An entry is in
 * its old place if that has not been moved yet, else in its new one, never in both.
 */
#include "port/virtual.h"
#include "share/stripe.h"

#include <stdlib.h>

enum { FIRST_SLOTS = 8, MOVE = 4, SWEEP = 4, LEAST_STRIPE = 16384, MOST_STRIPES = 256 };

/* Most keys are short: two words that may overlap compare them without a call. */
static inline int same_bytes(const char *a, const char *b, size_t n) {
  if (n > 16) return memcmp(a, b, n) == 0;
  if (n >= 8) return mr_read8(a) == mr_read8(b) && mr_read8(a + n - 8) == mr_read8(b + n - 8);
  if (n >= 4) return mr_read4(a) == mr_read4(b) && mr_read4(a + n - 4) == mr_read4(b + n - 4);
  for (size_t i = 0; i < n; i++)
    if (a[i] != b[i]) return 0;
  return 1;
}

static inline int same_key(const mr_entry *e, const mr_key *k) {
  return e->hash == k->hash && e->key_type == k->type && e->key_length == k->length && e->number == k->number && same_bytes(e->bytes, k->text, k->length);
}

/* ---- what is left of a step ---- */

void mr_remains_drop(mr_remains *r, mr_fiber *near) {
  while (r->woken) {
    mr_fiber *f = r->woken;
    r->woken = f->next;
    mr_ready(f, MR_WOKEN, near);
  }
  while (r->entries) {
    mr_entry *e = r->entries;
    r->entries = e->next;
    mr_entry_free(e, 1);
  }
  if (r->object) mr_release(r->object);
  free(r->slots);
}

static inline void finish(mr_remains *r, mr_fiber *near) {
  if (PORT_UNLIKELY(r->woken || r->entries || r->object || r->slots)) mr_remains_drop(r, near);
}

/* ---- by use: only with a limit ---- */

static void use_link(mr_stripe *t, mr_entry *e) {
  e->newer = NULL;
  e->older = t->newest;
  *(t->newest ? &t->newest->newer : &t->oldest) = e;
  t->newest = e;
}

static void use_unlink(mr_stripe *t, mr_entry *e) {
  *(e->older ? &e->older->newer : &t->oldest) = e->newer;
  *(e->newer ? &e->newer->older : &t->newest) = e->older;
}

static inline void use(mr_dict *d, mr_stripe *t, mr_entry *e) {
  if (!d->limit || t->newest == e) return;
  use_unlink(t, e);
  use_link(t, e);
}

/* ---- places (lock held) ---- */

static inline mr_entry **place(mr_stripe *t, uint64_t hash) {
  if (PORT_UNLIKELY(t->old != NULL) && (hash & t->old_mask) >= t->moved) return &t->old[hash & t->old_mask];
  return &t->slot[hash & t->mask];
}

static void count_bytes(mr_dict *d, mr_stripe *t, size_t more, size_t less) {
  t->bytes += more - less;
  if (d->limit && more != less) atomic_fetch_add_explicit(&d->used, more - less, memory_order_relaxed);
}

void mr_stripe_remove(mr_dict *d, mr_stripe *t, mr_entry **at, mr_remains *r) {
  mr_entry *e = *at;
  *at = e->next;
  t->count--;
  if (d->limit) use_unlink(t, e);
  count_bytes(d, t, 0, mr_entry_bytes(e));
  e->next = r->entries;
  r->entries = e;
}

static int over(const mr_entry *e) { return e->expires && e->expires <= port_now(); }

static PORT_NOINLINE void expire(mr_dict *d, mr_stripe *t, mr_entry **at, mr_entry **found, mr_remains *r) {
  if (!over(*at)) return;
  mr_stripe_remove(d, t, at, r);
  t->expired++;
  *found = NULL;
}

static inline mr_entry **find(mr_dict *d, mr_stripe *t, const mr_key *k, mr_entry **found, mr_remains *r) {
  mr_entry **at = place(t, k->hash), *e;
  while ((e = *at) != NULL && !same_key(e, k)) at = &e->next;
  *found = e;
  if (e && PORT_UNLIKELY(e->expires != 0)) expire(d, t, at, found, r);
  return at;
}

mr_entry **mr_stripe_find(mr_dict *d, mr_stripe *t, const mr_key *k, mr_entry **found, mr_remains *r) { return find(d, t, k, found, r); }

/* Entries of `n` more old places go where they belong now. */
static void move(mr_stripe *t, unsigned n, mr_remains *r) {
  if (PORT_LIKELY(!t->old)) return;
  for (; n > 0 && t->moved <= t->old_mask; n--) {
    mr_entry *e = t->old[t->moved++], *next;
    for (; e; e = next) {
      next = e->next;
      mr_entry **to = &t->slot[e->hash & t->mask];
      e->next = *to;
      *to = e;
    }
  }
  if (t->moved <= t->old_mask) return;
  mr_assert(!r->slots);
  r->slots = t->old == t->first ? NULL : t->old;
  t->old = NULL;
}

static void sweep(mr_dict *d, mr_stripe *t, mr_remains *r) {
  for (int i = 0; i < SWEEP; i++) {
    mr_entry **at = &t->slot[t->swept++ & t->mask];
    while (*at) {
      if (PORT_UNLIKELY((*at)->expires != 0) && over(*at)) {
        mr_stripe_remove(d, t, at, r);
        t->expired++;
      } else {
        at = &(*at)->next;
      }
    }
  }
}

static int is_full(const mr_stripe *t) { return t->count > t->mask && !t->old; }

static void widen(mr_stripe *t, mr_entry **slots, size_t size) {
  t->old = t->slot;
  t->old_mask = t->mask;
  t->moved = 0;
  t->slot = slots;
  t->mask = size - 1;
}

void mr_stripe_reset(mr_stripe *t, mr_remains *r) {
  mr_assert(!r->slots && t->count == 0);
  r->slots = t->slot == t->first ? NULL : t->slot;
  t->first[0] = NULL;
  t->slot = t->first;
  t->mask = 0;
}

#ifdef MR_CHECKS
static size_t check_places(const mr_stripe *t, mr_dict *d, mr_entry **slot, size_t from, size_t mask, size_t *bytes) {
  size_t n = 0;
  for (size_t i = from; i <= mask; i++)
    for (const mr_entry *e = slot[i]; e; e = e->next, n++) {
      mr_assert(mr_stripe_of(d, e->hash) == t && (e->hash & mask) == i && e->kind != DICT_ABSENT && e->version <= t->version && e->version);
      *bytes += mr_entry_bytes(e);
    }
  return n;
}

void mr_stripe_check(mr_dict *d, mr_stripe *t) {
  size_t bytes = 0, used = 0;
  mr_assert_locked(&t->lock);
  size_t n = check_places(t, d, t->slot, 0, t->mask, &bytes);
  if (t->old) n += check_places(t, d, t->old, t->moved, t->old_mask, &bytes);
  mr_assert(n == t->count && bytes == t->bytes);
  for (const mr_entry *e = t->oldest; e; e = e->newer) mr_assert(++used <= n && (e->newer ? e->newer->older == e : t->newest == e));
  mr_assert(used == (d->limit ? n : 0));
}
#endif

/* ---- who waits ---- */

/* Those whose tags are the same are nearly always those of this key; others look again, in vain. */
void mr_stripe_wake(mr_stripe *t, uint64_t hash, mr_remains *r) {
  for (mr_wait *w = t->waiters.next, *next; w != &t->waiters; w = next) {
    next = w->next;
    if (w->linked != ((unsigned short)hash | 1)) continue;
    mr_waitq_del(w);
    if (!mr_wait_claim(w)) continue;
    w->fiber->next = r->woken;
    r->woken = w->fiber;
  }
  t->awaited = !mr_waitq_empty(&t->waiters);
}

static inline void changed(mr_stripe *t, mr_entry *e, mr_remains *r) {
  e->version = ++t->version;
  mr_stripe_changed(t, e->hash, r);
}

/* ---- steps ---- */

int mr_dict_get(mr_dict *d, const mr_key *k, mr_dict_value *out, char room[MR_TEXT_MOST], uint64_t *version, uint64_t *expires) {
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  out->kind = DICT_ABSENT;
  port_acquire(&t->lock);
  find(d, t, k, &e, &r);
  if (e) {
    mr_entry_value(e, out, room);
    use(d, t, e);
    t->hits++;
  } else {
    t->misses++;
  }
  if (version) *version = e ? e->version : 0;
  if (expires) *expires = e ? e->expires : 0;
  mr_stripe_leave(d, t);
  finish(&r, NULL);
  return out->kind != DICT_ABSENT;
}

int mr_dict_take(mr_dict *d, const mr_key *k, mr_dict_value *out, char room[MR_TEXT_MOST], mr_fiber *near) {
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  out->kind = DICT_ABSENT;
  port_acquire(&t->lock);
  mr_entry **at = find(d, t, k, &e, &r);
  if (e) {
    mr_entry_value(e, out, room);
    mr_stripe_remove(d, t, at, &r);
    mr_stripe_changed(t, k->hash, &r);
  }
  mr_stripe_leave(d, t);
  finish(&r, near);
  return out->kind != DICT_ABSENT;
}

static int may(const mr_entry *e, const mr_dict_put *how) {
  switch (how->when) {
    case PUT_ADD: return !e;
    case PUT_REPLACE: return e != NULL;
    case PUT_SAME: return mr_entry_is(e, how->old);
    case PUT_VERSION: return (e ? e->version : 0) == how->version;
    default: return 1;
  }
}

/* The entry stays, and gets the value: where nobody pays for its bytes, and they are enough. */
static int fits(const mr_entry *e, const mr_dict_value *v, const mr_dict_put *how) {
  if (!e || how->budget || e->budget) return 0;
  return v->kind != DICT_TEXT || v->length <= e->room;
}

/* A scalar in place of a scalar: most of what is set. */
static inline void overwrite_scalar(mr_dict *d, mr_stripe *t, mr_entry *e, const mr_scalar *s, mr_remains *r) {
  int same = e->u.scalar.type == s->type && e->u.scalar.u.i == s->u.i && s->type == (0x10 | LUA_TNUMBER);
  e->u.scalar = *s;
  use(d, t, e);
  if (!same) changed(t, e, r);
}

static PORT_NOINLINE void overwrite(mr_dict *d, mr_stripe *t, mr_entry *e, const mr_dict_value *v, const mr_dict_put *how, mr_remains *r) {
  int same = mr_entry_is(e, v);
  if (how->expires != MR_DICT_KEEP && e->expires != how->expires) {
    e->expires = how->expires;
    if (same) mr_stripe_changed(t, e->hash, r);  /* who waits learns that it waits for another moment */
  }
  use(d, t, e);
  if (same && e->kind != DICT_SCALAR) return;    /* 1 and 1.0 are equal, but not the same */
  size_t before = mr_entry_bytes(e);
  if (e->kind == DICT_OBJECT) r->object = e->u.object;
  mr_entry_store(e, v);
  count_bytes(d, t, mr_entry_bytes(e), before);
  if (!same) changed(t, e, r);
}

/* In place of the entry that is there, if there is one. */
static void insert(mr_dict *d, mr_stripe *t, mr_entry **at, mr_entry *old, mr_entry *e, const mr_dict_put *how, mr_remains *r) {
  e->expires = how->expires != MR_DICT_KEEP ? how->expires : old ? old->expires : 0;
  if (old) mr_stripe_remove(d, t, at, r);
  e->next = *at;
  *at = e;
  t->count++;
  if (d->limit) use_link(t, e);
  count_bytes(d, t, mr_entry_bytes(e), 0);
  changed(t, e, r);
  move(t, MOVE, r);
  sweep(d, t, r);
}

/*
 * Takes out what was not used for longest until what is left fits; `keep` is what was just put. (It may be gone, and another entry in its place: then
 * that stays for once.) Gives up after a round in which nothing was found: others are about it.
 */
static void evict(mr_dict *d, const mr_entry *keep, mr_fiber *near) {
  unsigned vain = 0;
  while (atomic_load_explicit(&d->used, memory_order_relaxed) > d->limit && vain <= d->mask) {
    mr_stripe *t = &d->stripe[atomic_fetch_add_explicit(&d->hand, 1, memory_order_relaxed) & d->mask];
    mr_remains r = { 0 };
    port_acquire(&t->lock);
    mr_entry *e = t->oldest;
    if (e == keep && e) e = e->newer;
    if (e) {
      mr_entry **at = place(t, e->hash);
      while (*at != e) at = &(*at)->next;
      uint64_t hash = e->hash;
      mr_stripe_remove(d, t, at, &r);
      t->evicted++;
      mr_stripe_changed(t, hash, &r);
    }
    mr_stripe_leave(d, t);
    vain = e ? 0 : vain + 1;
    finish(&r, near);
  }
}

/*
 * What a put brings along: an entry and new places, if it has them; both are NULL when they were taken. `wanted`: so many places should be brought.
 * `kept`: the entry that has the value now.
 */
typedef struct put { mr_entry *fresh, **slots; size_t size, wanted; const mr_entry *kept; } put;

/* One try. DICT_NOMEM: it needs a fresh entry. */
static mr_dict_result try_put(mr_dict *d, const mr_key *k, const mr_dict_value *v, mr_dict_put *how, put *p, mr_fiber *near) {
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  mr_dict_result result = DICT_DONE;
  port_acquire(&t->lock);
  mr_entry **at = find(d, t, k, &e, &r);
  if (!may(e, how)) {
    result = DICT_NOT;
  } else if (v->kind == DICT_ABSENT) {
    if (e) {
      mr_stripe_remove(d, t, at, &r);
      mr_stripe_changed(t, k->hash, &r);
    } else if (how->when == PUT_SET) {
      result = DICT_NOT;                         /* for who wants to know whether something was deleted */
    }
  } else if (PORT_LIKELY(e && v->kind == DICT_SCALAR && e->kind == DICT_SCALAR && e->expires == how->expires && !how->budget)) {
    overwrite_scalar(d, t, e, &v->scalar, &r);
    p->kept = e;
  } else if (fits(e, v, how)) {
    overwrite(d, t, e, v, how, &r);
    p->kept = e;
  } else if (p->fresh) {
    p->kept = p->fresh;
    insert(d, t, at, e, p->fresh, how, &r);
    p->fresh = NULL;
    if (p->slots && is_full(t) && p->size > t->mask + 1) {
      widen(t, p->slots, p->size);
      p->slots = NULL;
    }
    how->charged = how->budget != NULL;
  } else {
    p->wanted = is_full(t) ? (t->mask ? 2 * (t->mask + 1) : FIRST_SLOTS) : 0;
    result = DICT_NOMEM;
  }
  mr_stripe_leave(d, t);
  finish(&r, near);
  return result;
}

mr_dict_result mr_dict_set(mr_dict *d, const mr_key *k, const mr_dict_value *v, mr_dict_put *how, mr_fiber *near) {
  put p = { 0 };
  how->charged = 0;
  if (d->limit && v->kind != DICT_ABSENT && mr_dict_cost(k, v) > d->limit) return DICT_LARGE;
  mr_dict_result r = try_put(d, k, v, how, &p, near);
  if (r == DICT_NOMEM) {
    if ((p.fresh = mr_entry_new(k, v, how)) == NULL) return DICT_NOMEM;
    p.size = p.wanted;
    if (p.size) p.slots = calloc(p.size, sizeof(mr_entry *));   /* without memory the chains get longer */
    r = try_put(d, k, v, how, &p, near);
    if (p.fresh) mr_entry_free(p.fresh, 0);
    free(p.slots);
  }
  if (d->limit && r == DICT_DONE) evict(d, p.kept, near);
  return r;
}

/* ---- numbers ---- */

static int is_number(const mr_scalar *s) { return (s->type & 0xf) == LUA_TNUMBER; }
static lua_Number float_of(const mr_scalar *s) { return s->type == LUA_TNUMBER ? s->u.n : (lua_Number)s->u.i; }

static void sum(const mr_scalar *a, const mr_scalar *b, mr_scalar *out) {
  if (a->type == (0x10 | LUA_TNUMBER) && b->type == (0x10 | LUA_TNUMBER)) {
    out->u.i = (lua_Integer)((lua_Unsigned)a->u.i + (lua_Unsigned)b->u.i);
    out->type = 0x10 | LUA_TNUMBER;
  } else {
    out->u.n = float_of(a) + float_of(b);
    out->type = LUA_TNUMBER;
  }
}

/* DICT_NOT: absent. */
static mr_dict_result add(mr_dict *d, const mr_key *k, const mr_scalar *by, mr_scalar *out, mr_fiber *near) {
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  mr_dict_result result = DICT_DONE;
  port_acquire(&t->lock);
  find(d, t, k, &e, &r);
  if (!e) {
    result = DICT_NOT;
  } else if (e->kind != DICT_SCALAR || !is_number(&e->u.scalar)) {
    result = DICT_NO_NUMBER;
  } else {
    sum(&e->u.scalar, by, out);
    e->u.scalar = *out;
    use(d, t, e);
    changed(t, e, &r);
  }
  mr_stripe_leave(d, t);
  finish(&r, near);
  return result;
}

mr_dict_result mr_dict_incr(mr_dict *d, const mr_key *k, const mr_scalar *by, const mr_scalar *initial, mr_dict_put *how, mr_scalar *out, mr_fiber *near) {
  mr_dict_value v = { .kind = DICT_SCALAR };
  mr_dict_result r = add(d, k, by, out, near);
  while (r == DICT_NOT && initial) {
    sum(initial, by, &v.scalar);
    *out = v.scalar;
    how->when = PUT_ADD;
    r = mr_dict_set(d, k, &v, how, near);
    if (r == DICT_NOT) r = add(d, k, by, out, near);        /* somebody was faster; and if it has gone again, then again */
  }
  return r;
}

int mr_dict_expire(mr_dict *d, const mr_key *k, uint64_t expires, mr_fiber *near) {
  mr_stripe *t = mr_stripe_of(d, k->hash);
  mr_remains r = { 0 };
  mr_entry *e;
  port_acquire(&t->lock);
  find(d, t, k, &e, &r);
  if (e) {
    e->expires = expires;
    use(d, t, e);
    mr_stripe_changed(t, k->hash, &r);           /* they learn that they wait for another moment */
  }
  mr_stripe_leave(d, t);
  finish(&r, near);
  return e != NULL;
}

/* ---- beginning and end ---- */

/* Enough that two threads seldom meet in one, and with a small limit one alone. */
static unsigned stripes_for(size_t limit) {
  unsigned most = port_is_virtual() ? 16 : 16 * (unsigned)port_cpus(), n = 1;
  if (most > MOST_STRIPES) most = MOST_STRIPES;
  while (n < most && (!limit || limit / (2 * n) >= LEAST_STRIPE)) n *= 2;
  return n;
}

mr_dict *mr_dict_new(const mr_sharetype *type, size_t limit) {
  unsigned n = stripes_for(limit);
  mr_dict *d = port_lines_new(sizeof *d + n * sizeof(mr_stripe));
  if (!d) return NULL;
  d->shared.type = type;
  atomic_init(&d->shared.refs, 1);
  d->limit = limit;
  d->mask = n - 1;
  d->shift = 48;                                 /* places are chosen by the low bits, a node's tag by the lowest 16 */
  for (unsigned i = 0; i < n; i++) {
    d->stripe[i].slot = d->stripe[i].first;
    mr_waitq_init(&d->stripe[i].waiters);
  }
  return d;
}

void mr_dict_destroy(mr_shared *o) {
  mr_dict *d = (mr_dict *)(void *)o;
  mr_dict_clear(d, NULL);
  for (unsigned i = 0; i <= d->mask; i++) mr_assert(mr_waitq_empty(&d->stripe[i].waiters));
  if (d->budget) {
    mr_budget_give(d->budget, mr_dict_own(d));
    mr_budget_release(d->budget);
  }
  free(d->name);
  port_lines_free(d);
}

size_t mr_dict_own(const mr_dict *d) { return sizeof *d + ((size_t)d->mask + 1) * sizeof(mr_stripe) + 2 * d->name_length; }

void mr_dict_charge(mr_dict *d, mr_budget *b) {
  mr_budget_retain(b);
  d->budget = b;
}

size_t mr_dict_limit(const mr_dict *d) { return d->limit; }

int mr_dict_call(mr_dict *d, const char *name, size_t length) {
  d->name = malloc(length + 1);
  if (!d->name) return 0;
  memcpy(d->name, name, length);
  d->name[length] = 0;
  d->name_length = length;
  return 1;
}

const char *mr_dict_name(const mr_dict *d, size_t *length) {
  *length = d->name_length;
  return d->name;
}
