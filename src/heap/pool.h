/*
 * pool: where all heaps get their memory from.
 *
 *  chunk  a piece of a slab; arenas are made of chunks. A kind is a size of chunk.
 *  slab   2 MiB, aligned, cut into chunks of one kind.
 *  block  a mapping of its own, for requests too large for chunks; freed ones are kept for a while and handed out again.
 *
 * Any thread may call anything here. Each thread keeps a few chunks at hand; one that ends calls mr_pool_thread_exit.
 */
#ifndef MR_POOL_H
#define MR_POOL_H

#include <stddef.h>
#include <stdint.h>

/* The header of a chunk belongs to its user, except that `size` and `kind` must be unchanged when it is put back. */
typedef struct mr_chunk {
  struct mr_chunk *next;
  uint32_t size;          /* header included */
  uint32_t kind;
} mr_chunk;

enum { MR_CHUNK_MIN = 1024, MR_CHUNK_MAX = 256 * 1024, MR_KIND_STEP = 4 };   /* kinds: 1, 4, 16, 64, 256 KiB */

/* The kind whose chunks have at least `size` bytes (or the largest there is). */
unsigned  mr_pool_kind(size_t size);
/* A kind of exactly `size` bytes (a multiple of 64, 512 at least); -1: there are too many kinds already. Also for what is no heap's. */
int       mr_pool_kind_new(size_t size);
mr_chunk *mr_pool_get(unsigned kind);     /* content undefined; NULL: no memory */
void      mr_pool_put(mr_chunk *c);
void      mr_pool_thread_exit(void);         /* gives the calling thread's cache to the others */
void      mr_pool_trim(void);               /* gives unused chunks back to the system: called when the program goes idle */

/* A block of at least *size bytes, page aligned; *size becomes its true size. NULL: no memory. */
void *mr_block_get(size_t *size);
void  mr_block_put(void *p, size_t size); /* size: what mr_block_get said */
/* A block of at least *newsize bytes with the old content, perhaps elsewhere; NULL: the old one is as it was. */
void *mr_block_resize(void *p, size_t size, size_t *newsize);
size_t mr_block_size(size_t size);        /* what mr_block_get would make of it; 0: more than there can be */
void  mr_block_trim(void);
size_t mr_block_reserved(void);

/* Tests: the n-th request from now on (0 = the next) and all later ones fail; negative: none does. */
void mr_pool_fail(long n);
int  mr_pool_failing(void);

#endif
