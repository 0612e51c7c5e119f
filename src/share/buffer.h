/*
 * buffer: bytes outside all heaps.
 *
 * A *store* is the block that holds them, counted. A *buffer* is a part of a store, and what Lua has as a userdata. A *sealed* buffer never changes:
 * it is shared between processes, and slices of it share its store. An *open* one belongs to one process at a time - sent, it moves - and may change
 * and grow.
 *
 * Invariants:
 *  - the bytes of a store that two buffers (or an operation that works on it) refer to never change: an open buffer that does not have its store for
 *    itself gets a copy before it is changed (mr_buffer_grow). So a slice of an open buffer keeps what it saw, in whatever process it is;
 *  - only who has the one reference to a store can make it two, so `alone` may be asked without a lock;
 *  - what a store has taken from a budget goes back with it.
 *
 * Nothing here calls Lua, but mr_buffer_get and mr_buffer_push.
 */
#ifndef SHARE_BUFFER_H
#define SHARE_BUFFER_H

#include "transfer/transfer.h"

typedef struct mr_store mr_store;
struct mr_store {
  atomic_size_t refs;
  unsigned char *bytes;
  size_t size;                                 /* of the room at bytes */
  void (*drop)(mr_store *s);                   /* frees what is at bytes; NULL: it lies behind this record */
  void *block, *ud;                            /* for drop */
  mr_budget *budget;                           /* referenced, or NULL */
  size_t taken;
};

typedef struct mr_buffer {
  mr_movable base;                             /* first */
  const unsigned char *bytes;                  /* never NULL */
  size_t length;
  mr_store *store;                             /* referenced; NULL: there is none yet, and no bytes */
} mr_buffer;

#define MR_BUFFER_MOST ((size_t)1 << 46)       /* bytes of a buffer: sums of a few such numbers don't overflow */

extern const mr_sharetype *mr_buffer_sealed, *mr_buffer_open;    /* set by module/ */
static inline int mr_buffer_is_open(const mr_buffer *b) { return b->base.shared.type == mr_buffer_open; }

/* ---- stores: one reference, the caller's; NULL: no memory ---- */
mr_store *mr_store_new(size_t size, int zeroed);
mr_store *mr_store_adopt(void *block, void *bytes, size_t size, void (*drop)(mr_store *s), void *ud);   /* NULL: the block is the caller's still */
void      mr_store_free_block(mr_store *s);    /* a drop: free(block) */
void      mr_store_charge(mr_store *s, mr_budget *b, size_t n);   /* n bytes were taken from b for it; what it had taken goes back */
void      mr_store_retain(mr_store *s);
void      mr_store_release(mr_store *s);       /* s may be NULL */
/* What a store of so many bytes is in a budget. */
static inline size_t mr_store_cost(size_t size) { return size + sizeof(mr_store); }

/* ---- buffers: one reference, the caller's; NULL: no memory ---- */
mr_buffer *mr_buffer_new(void);                /* open, empty */
mr_buffer *mr_buffer_part(mr_store *s, const unsigned char *bytes, size_t length);   /* sealed; refers to s, too, which may be NULL if it is empty */
mr_buffer *mr_buffer_copy(const void *bytes, size_t length);                         /* sealed */
/* What the open b has becomes that of a sealed, empty one, and b is empty; room that is not needed is given back. */
void       mr_buffer_hand_over(mr_buffer *b, mr_buffer *sealed);
void       mr_buffer_destroy(mr_shared *o);
void       mr_buffer_dropped(mr_shared *o);    /* of open ones: nobody will use it any more */

/* Open ones. It has room for so many bytes, and nobody else has its store: it may be written to. What was adopted may be read-only, or a slice. */
static inline int mr_buffer_alone(const mr_buffer *b, size_t total) {
  const mr_store *s = b->store;
  return s && s->size >= total && b->bytes == s->bytes && !s->drop && atomic_load_explicit(&s->refs, memory_order_acquire) == 1;
}
size_t mr_buffer_growth(const mr_buffer *b, size_t total);       /* the size of store to make for that, so that many steps cost little */
int    mr_buffer_grow(mr_buffer *b, size_t size);                /* a store of that size, for itself; the content stays. 0: no memory, nothing changed */
void   mr_buffer_clear(mr_buffer *b);
/* Where to write; only while it is alone. */
static inline unsigned char *mr_buffer_at(const mr_buffer *b, size_t offset) {
  mr_assert(mr_buffer_alone(b, offset));
  return b->store->bytes + offset;
}

/* ---- in Lua ---- */
mr_buffer *mr_buffer_get(lua_State *L, int idx);                 /* NULL: there is none at idx, or one that was moved away */
void       mr_buffer_push(lua_State *L, mr_buffer *b);           /* as the push of its type: may raise, the caller keeps its reference */

void       mr_buffer_push_new(lua_State *L, mr_buffer *b);       /* its only reference becomes the userdata's; also when this raises. NULL: no memory */

/* What string.sub(s, i, j) would take of n bytes: from *from, counted from 0, so many. */
size_t mr_buffer_range(lua_Integer i, lua_Integer j, size_t n, size_t *from);
/* The place of what in p, or NULL. */
const unsigned char *mr_buffer_find(const unsigned char *p, size_t n, const char *what, size_t len);

#ifdef MR_CHECKS
void mr_buffer_check(const mr_buffer *b);
#else
#define mr_buffer_check(b) ((void)0)
#endif

#endif
