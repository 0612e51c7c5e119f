/*
 * dict: a dictionary that processes share: keys (key.h) to values, each with a moment at which it ends, if it has one.
 *
 * Values. A scalar and a short text lie in the entry: to get and to set them touches no other memory. What is longer or is no text is a counted
 * object: something shared (a channel, a frozen table), or a *cell*, which holds the bytes of a text, or a packed message. A value in the
 * dictionary never changes: who has got an object has a reference, and unpacks it with no lock held.
 *
 * Locks. The dictionary is cut into stripes by the hash of the key, each with a lock of its own, innermost, and on cache lines of its own. Under it no Lua
 * is called, nothing is allocated, and nothing is freed: an entry is made before, and what is taken out is dropped after. So each
 * function here is one step, seen whole or not at all; only mr_dict_clear, _purge, _keys and _info are a step for each stripe.
 *
 * Versions. Each change of an entry's value gives it another number, never used before in its stripe; an absent entry has 0. So "nothing has
 * changed meanwhile" is a comparison, whatever the value is.
 *
 * Time. An entry whose moment has passed is as good as absent, and is taken out by whoever meets it. Each insertion looks at a few more places of its
 * stripe, so that what nobody asks for again goes, too.
 *
 * A limit counts the bytes of all entries. Who puts more takes out what was not used for longest, stripe after stripe in turn; with a small limit there
 * is one stripe, and the order is exact. What is alone larger than the limit is refused.
 */
#ifndef MR_DICT_H
#define MR_DICT_H

#include "heap/budget.h"
#include "run/waitable.h"
#include "share/key.h"
#include "transfer/transfer.h"

#define MR_TEXT_MOST 120u              /* bytes of a text that lies in its entry */

/* ---- cells ---- */
typedef struct mr_cell {
  mr_shared shared;
  mr_message *message;                 /* owned; NULL: it is a text */
  size_t length;
  char bytes[];
} mr_cell;
extern const mr_sharetype mr_cell_type;
mr_cell *mr_cell_of_text(const char *text, size_t length);    /* one reference; NULL: no memory */
mr_cell *mr_cell_of_message(mr_message *m);                   /* owns m from now on, unless it gives NULL: no memory */
size_t   mr_cell_size(const mr_cell *c);

/* ---- values ---- */
enum { DICT_ABSENT, DICT_SCALAR, DICT_TEXT, DICT_OBJECT };
typedef struct mr_dict_value {
  unsigned char kind;
  mr_scalar scalar;
  const char *text;                    /* not owned; at most MR_TEXT_MOST bytes, but what is only compared may be longer */
  size_t length;
  mr_shared *object;                   /* going in: the caller keeps its reference; coming out: a new one */
} mr_dict_value;

/* ---- dictionaries ---- */
typedef struct mr_dict mr_dict;
typedef enum { DICT_DONE, DICT_NOT, DICT_NOMEM, DICT_LARGE, DICT_NO_NUMBER } mr_dict_result;

mr_dict *mr_dict_new(const mr_sharetype *type, size_t limit);  /* one reference; limit 0: none. NULL: no memory */
void     mr_dict_destroy(mr_shared *o);
size_t   mr_dict_limit(const mr_dict *d);
/* Its name, for reports: before anybody else knows it. 0: no memory. */
int      mr_dict_call(mr_dict *d, const char *name, size_t length);
const char *mr_dict_name(const mr_dict *d, size_t *length);    /* NULL: none */
size_t   mr_dict_own(const mr_dict *d);                        /* bytes that it takes without entries, once it has its name */
void     mr_dict_charge(mr_dict *d, mr_budget *b);             /* they were taken from b: before anybody else knows it */

/* 0: absent. A text is copied to room. `version`, `expires` (0: never): NULL, or where to say so. */
int mr_dict_get(mr_dict *d, const mr_key *k, mr_dict_value *out, char room[MR_TEXT_MOST], uint64_t *version, uint64_t *expires);
int mr_dict_take(mr_dict *d, const mr_key *k, mr_dict_value *out, char room[MR_TEXT_MOST], mr_fiber *near);   /* and deletes it */

enum { PUT_SET, PUT_ADD, PUT_REPLACE, PUT_SAME, PUT_VERSION };   /* any; only if absent; if present; if it is `old`; if its version is `version` */
#define MR_DICT_KEEP UINT64_MAX        /* its moment stays what it is */
typedef struct mr_dict_put {
  unsigned char when;
  const mr_dict_value *old;
  uint64_t version;
  uint64_t expires;                    /* 0: never */
  mr_budget *budget;                   /* or NULL; from which mr_dict_cost bytes were taken. They are the entry's if `charged` comes back as 1 */
  unsigned char charged;
} mr_dict_put;
/* DICT_DONE; DICT_NOT: the condition does not hold; DICT_NOMEM; DICT_LARGE. A value that is absent deletes. */
mr_dict_result mr_dict_set(mr_dict *d, const mr_key *k, const mr_dict_value *v, mr_dict_put *how, mr_fiber *near);
size_t         mr_dict_cost(const mr_key *k, const mr_dict_value *v);

/*
 * Adds to a number, as Lua does: *out is the sum. DICT_NOT: absent, and `initial` is NULL; else it is put there as if it had been initial. how: of an
 * entry that is put there.
 */
mr_dict_result mr_dict_incr(mr_dict *d, const mr_key *k, const mr_scalar *by, const mr_scalar *initial, mr_dict_put *how, mr_scalar *out, mr_fiber *near);
int  mr_dict_expire(mr_dict *d, const mr_key *k, uint64_t expires, mr_fiber *near);   /* 0: absent */

/* ---- all of it (dict_all.c) ---- */
typedef struct mr_dict_info { size_t entries, bytes, limit; uint64_t hits, misses, evicted, expired; unsigned waiting; } mr_dict_info;
void     mr_dict_look(mr_dict *d, mr_dict_info *out);
size_t   mr_dict_count(mr_dict *d);              /* those too whose moment has passed and that nobody has met since */
void     mr_dict_clear(mr_dict *d, mr_fiber *near);
size_t   mr_dict_purge(mr_dict *d);              /* takes out what is over; how many */
unsigned mr_dict_stripes(const mr_dict *d);
/* The keys of one stripe, packed, with *n of them. Gives the bytes that are needed; if they are more than `size` nothing was written. */
size_t   mr_dict_keys(mr_dict *d, unsigned stripe, char *buffer, size_t size, size_t *n);
const char *mr_dict_unpack_key(const char *at, mr_key *k);     /* the next one begins where this ends; its hash is not set */

/* ---- waiting (dict_wait.c) ---- */
/*
 * watch: waits for a key to have another value than `old`, or, without one, another version than was last seen. It belongs to one process.
 */
typedef struct mr_watch {
  mr_shared shared;
  mr_dict *dict;                       /* referenced */
  mr_key key;                          /* its text is `bytes` */
  unsigned char by_value;
  mr_dict_value old;                   /* its text is in `bytes`, behind the key's; its object is referenced */
  uint64_t seen, until;                /* the version, and when the entry ends, when it was last asked */
  char bytes[];
} mr_watch;
mr_watch *mr_watch_new(const mr_sharetype *type, mr_dict *d, const mr_key *k, const mr_dict_value *old);   /* old or NULL. NULL: no memory */
void mr_watch_destroy(mr_shared *o);
/* 1: it has changed, *out is it; 0: *until is when it ends if nobody changes it (UINT64_MAX: never). */
int  mr_watch_take(mr_watch *w, mr_dict_value *out, char room[MR_TEXT_MOST], uint64_t *until);
int  mr_watch_link(mr_watch *w, mr_wait *node);  /* as mr_waitops.link */
void mr_watch_unlink(mr_watch *w, mr_wait *node);

#endif
