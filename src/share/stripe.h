/* stripe: what a dictionary is made of, for its files. */
#ifndef MR_STRIPE_H
#define MR_STRIPE_H

#include "share/dict.h"

/* What looking up reads comes first. */
typedef struct mr_entry {
  struct mr_entry *next;               /* in its place; of one that is taken out: in a list of those */
  uint64_t hash;
  uint64_t expires;                    /* in port_now() time; 0: never */
  uint64_t version;
  union { mr_scalar scalar; mr_shared *object; } u;
  uint64_t number;                     /* of the key */
  uint32_t key_length;
  unsigned char kind, key_type, text_length, room;   /* room: for a text, behind the key's */
  struct mr_entry *older, *newer;      /* in dictionaries with a limit, by use */
  mr_budget *budget;                   /* referenced, or NULL: from which its bytes are */
  char bytes[];                        /* the key's, and a text */
} mr_entry;

/* What each step touches lies in the first cache line, the locks of two stripes never in one. */
typedef struct mr_stripe {
  _Alignas(PORT_CACHELINE) port_lock lock;
#ifndef MR_CHECKS
  unsigned awaited;                    /* there may be waiters */
#endif
  mr_entry **slot;                     /* mask + 1 places; `first` in the beginning */
  size_t mask, count;
  mr_entry **old;                      /* NULL, or the places before: those from `moved` on still hold their entries */
  uint64_t version;                    /* the last one that was given */
  uint64_t hits, misses;
  size_t old_mask, moved;
  size_t bytes;                        /* of all its entries */
  size_t swept;                        /* the place that is looked at next for what is over */
  uint64_t evicted, expired;
  mr_entry *oldest, *newest;
  mr_entry *first[1];
  mr_wait waiters;                     /* head: who waits for a key of this stripe; node->linked tells which, nearly */
#ifdef MR_CHECKS
  unsigned awaited;
#endif
} mr_stripe;
#ifndef MR_CHECKS
_Static_assert(sizeof(void *) != 8 || (offsetof(mr_stripe, old_mask) == PORT_CACHELINE && sizeof(mr_stripe) == 3 * PORT_CACHELINE),
               "a step touches no more lines than it must");
#endif

struct mr_dict {
  mr_shared shared;
  size_t limit;
  unsigned mask, shift;                /* stripes - 1; how far the hash is shifted to choose one */
  size_t name_length;
  char *name;                          /* owned, or NULL */
  mr_budget *budget;                   /* from which mr_dict_own bytes were taken, or NULL */
  _Alignas(PORT_CACHELINE) atomic_size_t used;     /* bytes, kept only with a limit */
  atomic_uint hand;                    /* the stripe that loses an entry next */
  mr_stripe stripe[];                  /* begins with a line of its own */
};

/* What a step has taken out, to be dropped after the lock, and whom it wakes. Zeros in the beginning. */
typedef struct mr_remains {
  mr_entry *entries;
  mr_shared *object;
  mr_entry **slots;
  mr_fiber *woken;
} mr_remains;

static inline mr_stripe *mr_stripe_of(mr_dict *d, uint64_t hash) { return &d->stripe[hash >> d->shift & d->mask]; }
/* Where the entry of that key is linked, or a new one would be: then *at is another one, or NULL. (lock held) */
mr_entry **mr_stripe_find(mr_dict *d, mr_stripe *t, const mr_key *k, mr_entry **found, mr_remains *r);
void mr_stripe_remove(mr_dict *d, mr_stripe *t, mr_entry **at, mr_remains *r);
void mr_stripe_wake(mr_stripe *t, uint64_t hash, mr_remains *r);
static inline void mr_stripe_changed(mr_stripe *t, uint64_t hash, mr_remains *r) {   /* claims those who wait for it */
  if (PORT_UNLIKELY(t->awaited)) mr_stripe_wake(t, hash, r);
}
void mr_stripe_reset(mr_stripe *t, mr_remains *r);                         /* no entry is left in it */
void mr_remains_drop(mr_remains *r, mr_fiber *near);                       /* no lock held */

/* ---- entry.c ---- */
mr_entry *mr_entry_new(const mr_key *k, const mr_dict_value *v, const mr_dict_put *how);   /* NULL: no memory */
void mr_entry_free(mr_entry *e, int charged);                              /* charged: its bytes were taken from its budget */
void mr_entry_store(mr_entry *e, const mr_dict_value *v);                  /* its old object, if it had one, is the caller's to release */
size_t mr_entry_bytes(const mr_entry *e);
void mr_entry_value(const mr_entry *e, mr_dict_value *out, char *room);    /* a new reference to its object; room NULL: text points into e */
int  mr_entry_is(const mr_entry *e, const mr_dict_value *v);              /* e NULL: absent */

#ifdef MR_CHECKS
void mr_stripe_check(mr_dict *d, mr_stripe *t);
#else
#define mr_stripe_check(d, t) ((void)0)
#endif
static inline void mr_stripe_leave(mr_dict *d, mr_stripe *t) {
  (void)d;
  MR_CHECK_SOME(64, mr_stripe_check(d, t));
  port_unlock(&t->lock);
}

#endif
