/* hash: how keys of frozen tables are found. Private to frozen.c and freezing.c. */
#ifndef MR_FROZEN_HASH_H
#define MR_FROZEN_HASH_H

#include <string.h>
#include "share/frozen.h"

/*
 * The keys of a table: open addressing, one slot in three empty. Where the search begins is told by the high bits of a hash; `mark` is its low
 * 24 bits above the key's tag, so that nearly always only the key that is looked for is compared. 0: empty, as no key is nil.
 */
typedef struct mr_slot { uint64_t key; uint32_t mark, at; } mr_slot;       /* at: which of the table's values is its */
struct mr_keys { uint32_t n, nslots; mr_slot slots[]; };

/* A whole. Its parts, strings and functions lie behind it, in order of discovery; keys in chunks of their own. */
typedef struct mr_chunk { struct mr_chunk *next; size_t size, used; char bytes[]; } mr_chunk;
struct mr_frozen {
  atomic_size_t refs;                          /* parts that somebody refers to */
  uint64_t serial;
  size_t size;
  mr_budget *budget;
  mr_chunk *chunks;
  mr_shared **held;
  size_t nheld;
  struct mr_frozen *next;                      /* of those that are being freed */
};

extern uint64_t mr_frozen_seed;                /* drawn before the first whole is made */

#define MR_MIX(h) ((h) * UINT64_C(0x9E3779B97F4A7C15))

static inline uint32_t mr_hash_end(uint64_t h) {
  h = MR_MIX(h);
  return (uint32_t)(MR_MIX(h ^ h >> 32) >> 32);
}

static inline uint32_t mr_hash_text(const char *s, size_t n) {
  uint64_t h = mr_frozen_seed ^ MR_MIX(n), word = 0;
  uint32_t first, last;
  for (; n > 8; s += 8, n -= 8) {
    memcpy(&word, s, 8);
    h = MR_MIX(h ^ word);
    h ^= h >> 32;
  }
  if (n >= 4) {
    memcpy(&first, s, 4);
    memcpy(&last, s + n - 4, 4);
    word = PAIR(first, last);
  } else {
    word = n ? (uint64_t)(unsigned char)s[0] | (uint64_t)(unsigned char)s[n / 2] << 8 | (uint64_t)(unsigned char)s[n - 1] << 16 : 0;
  }
  return mr_hash_end(h ^ word);
}

static inline uint32_t mr_hash_other(mr_frozen_value v) { return mr_hash_end(mr_frozen_seed ^ v.word ^ (uint64_t)v.tag << 56); }

static inline uint32_t mr_slot_mark(uint8_t tag, uint32_t hash) { return hash << 8 | tag; }
static inline uint32_t mr_slot_first(const mr_keys *k, uint32_t hash) { return (uint32_t)((uint64_t)hash * k->nslots >> 32); }
static inline uint32_t mr_slot_next(const mr_keys *k, uint32_t i) { return ++i == k->nslots ? 0 : i; }

/* The slot of a key whose strings all are the whole's own: equal ones have one address. NULL: it isn't there; *empty is where it would be. */
static inline const mr_slot *mr_keys_find(const mr_keys *k, mr_frozen_value key, uint32_t hash, uint32_t *empty) {
  uint32_t mark = mr_slot_mark(key.tag, hash), i = mr_slot_first(k, hash);
  for (; k->slots[i].mark; i = mr_slot_next(k, i))
    if (k->slots[i].mark == mark && k->slots[i].key == key.word) return &k->slots[i];
  *empty = i;
  return NULL;
}

static inline uint8_t *mr_part_tags(const mr_part *p) {
  return (uint8_t *)(uintptr_t)(p->words + p->narr + (p->keys ? p->keys->n : 0));
}

#endif
