/*
 * What an allocator of this folder defines. standard.c makes the C library's names of it; tests call these names themselves, so that a sanitizer's
 * malloc stays in its place.
 *
 * All of them may be called by any thread at any time, also before main and while a thread ends. Where there is no memory they give NULL and set
 * errno to ENOMEM; then nothing has changed. Blocks are aligned to 16 bytes, those of less than 16 bytes to 8.
 */
#ifndef LAB_HEAP_H
#define LAB_HEAP_H

#include <stddef.h>

void *heap_allocate(size_t size);
void *heap_zeroed(size_t size);
void *heap_aligned(size_t alignment, size_t size); /* alignment: a power of two */
void *heap_resize(void *block, size_t size);       /* block: not NULL; size: not 0 */
void heap_release(void *block);                    /* block: not NULL; leaves errno as it is */
size_t heap_usable(void *block);                   /* block: not NULL */

#endif
