/*
 * heap: a process's memory.
 *
 * A heap is an arena with one owner at a time, hence no lock and no atomic on the allocation path. Lua tells the
 * size at free, hence no block headers. Small requests come from size classes inside chunks; chunks come from a
 * program-wide pool and go back to it (and from there to the system) when the heap is dropped or rewound.
 *
 * Invariants:
 *  - `used` is the sum of the sizes Lua asked for and has not freed; it never exceeds `limit` (0 = no limit)
 *    because of an allocation that succeeded;
 *  - shrinking and freeing never fail;
 *  - dropping a heap costs O(chunks), whatever lives in it.
 */
#ifndef MR_HEAP_H
#define MR_HEAP_H

#include <stddef.h>
#include "heap/budget.h"
#include "heap/pool.h"
#include "lua/compat.h"

typedef struct mr_heap mr_heap;

/* A new empty arena; NULL when the system has no memory. limit in bytes, 0 = none. */
mr_heap *mr_heap_new(size_t limit);
/* The lua_Alloc of an arena; ud is its mr_heap. */
void    *mr_heap_alloc(void *ud, void *ptr, size_t osize, size_t nsize);
/* Gives every chunk back, the heap's own memory included. Nothing inside is finalised. */
void     mr_heap_drop(mr_heap *h);

void     mr_heap_limit(mr_heap *h, size_t bytes);
/*
 * From now on what it uses is taken from b, of which the caller has taken `taken` bytes, not 0, for it already; `limit` still holds for the heap alone.
 * It takes ahead of its needs and gives back what is too much when large blocks are freed, and when it is told to (settle). 0: b has not enough.
 */
int      mr_heap_budget(mr_heap *h, mr_budget *b, size_t taken, size_t limit);
void     mr_heap_settle(mr_heap *h);
void     mr_heap_unbudget(mr_heap *h);         /* all goes back; the heap has no limit any more */
size_t   mr_heap_used(const mr_heap *h);       /* bytes asked for and alive */
size_t   mr_heap_reserved(const mr_heap *h);   /* bytes of chunks it holds */
/* From now on *shown says to everybody how many bytes it holds - of malloc's blocks, how many are in use -; NULL: no more. */
void     mr_heap_show(mr_heap *h, atomic_size_t *shown);
int      mr_heap_check(const mr_heap *h);      /* walks every structure: 0 = sound, -1: there is no memory to find out */

/* Frees become no-ops until the heap is dropped or rewound: lua_close then runs finalisers and touches little else. */
void     mr_heap_dying(mr_heap *h);

/*
 * heap = "system": malloc with the same counting and the same limit. Its blocks are known to nobody: the state must be
 * closed before the heap is dropped, and mr_heap_dying does nothing to it.
 */
void    *mr_heap_alloc_system(void *ud, void *ptr, size_t osize, size_t nsize);

/*
 * image: the bytes of a state just after it was opened, from which new states are cloned by relocation and to which
 * finished ones are rewound. An image exists only if a start-up self-check showed that it can (see image.c).
 */
typedef struct mr_image mr_image;
typedef lua_State *(*mr_opener)(lua_Alloc f, void *ud);   /* opens the template; NULL on failure; must not depend on addresses */

mr_image  *mr_image_new(mr_opener open);                   /* NULL: images are not possible here */
/*
 * Another one, with what `add` does in a state, twice and alike (0: it can't). If there is no room for that in the chunks of im, its own are larger.
 * NULL: it is too large for those, too, does not move, or no memory.
 */
mr_image  *mr_image_with(const mr_image *im, int (*add)(lua_State *L, void *ud), void *ud);
void       mr_image_free(mr_image *im);
lua_State *mr_image_clone(const mr_image *im, mr_heap **h);/* a new state in a new heap; NULL: no memory */
/*
 * The other way to a new state. h came from mr_image_clone: all chunks but the first go back, and nothing can be done with it any more but to
 * rewind or drop it. Rewound, also to another image of the same line with the same kind of chunk, it is as after clone; its lua_State * is the one
 * it had.
 */
void       mr_image_leave(mr_heap *h);
void       mr_image_rewind(const mr_image *im, mr_heap *h);
void       mr_image_drop(mr_heap *h);
unsigned   mr_image_kind(const mr_image *im);              /* of chunks */
unsigned   mr_image_kind_of(const mr_heap *h);
size_t     mr_image_size(const mr_image *im);
size_t     mr_image_used(const mr_image *im);              /* bytes that are in use in its states, as mr_heap_used says */
/*
 * By an opener: the first n bytes of the block with p are touched by each message, or as often. Such blocks lie side by side in a clone, a few bytes
 * in one cache line. p may be anything: if it is in no block, or L is no template, nothing happens.
 */
void       mr_image_near(lua_State *L, const void *p, size_t n);
/* Asks for the cache lines in which a small process keeps what it made itself. L: that of a clone, or what is asked for is nothing of use. */
void       mr_image_prefetch(const mr_image *im, const lua_State *L);

size_t     mr_pool_reserved(void);                         /* more of the pool: pool.h */

#endif
