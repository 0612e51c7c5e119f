/* entries: with MA_PRIVATE the allocator stands beside the C library's, under other names, so that a program can hold both and sanitizers see it. */
#ifndef MA_ENTRIES_H
#define MA_ENTRIES_H

#ifdef MA_PRIVATE
#define malloc ma_malloc
#define free ma_free
#define calloc ma_calloc
#define realloc ma_realloc
#define reallocarray ma_reallocarray
#define memalign ma_memalign
#define posix_memalign ma_posix_memalign
#define aligned_alloc ma_aligned_alloc
#define valloc ma_valloc
#define pvalloc ma_pvalloc
#define malloc_usable_size ma_malloc_usable_size
#define malloc_trim ma_malloc_trim
#define cfree ma_cfree
#define free_sized ma_free_sized
#define free_aligned_sized ma_free_aligned_sized
#endif

#include <stddef.h>

void *malloc(size_t n);
void free(void *p);
void *calloc(size_t count, size_t size);
void *realloc(void *p, size_t n);
void *reallocarray(void *p, size_t count, size_t size);
void *memalign(size_t align, size_t n);
int posix_memalign(void **p, size_t align, size_t n);
void *aligned_alloc(size_t align, size_t n);
void *valloc(size_t n);
void *pvalloc(size_t n);
size_t malloc_usable_size(void *p);
int malloc_trim(size_t pad);
void cfree(void *p);
void free_sized(void *p, size_t n);
void free_aligned_sized(void *p, size_t align, size_t n);
const char *mare_malloc_version(void);

#endif
