/*
 * pages: memory from the system, in whole pages.
 *
 * Every mapping is private, anonymous and not counted against swap in advance; errno is left as it was found, so that
 * an allocation inside a system call's error path hides nothing.
 *
 * And records that begin with a cache line. aligned_alloc would do, but glibc keeps nothing of it at hand: it cuts each such block out of a larger
 * one, which takes some 650 instructions more than a malloc. So the first line of ours is found by hand, and the byte before it says how far that
 * is from the beginning.
 */
#define _GNU_SOURCE
#include "port/virtual.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <sys/mman.h>

#define PROT (PROT_READ | PROT_WRITE)
#define FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

static void *map(void *hint, size_t len, int flags) {
  int e = errno;
  void *p = mmap(hint, len, PROT, flags, -1, 0);
  errno = e;
  return p == MAP_FAILED ? NULL : p;
}

static void *map_aligned(size_t len, size_t align) {
  if (len + align < len) return NULL;
  char *p = map(NULL, len + align, FLAGS);
  if (!p) return NULL;
  size_t head = (align - (uintptr_t)p % align) % align;
  if (head) port_pages_release(p, head);
  port_pages_release(p + head + len, align - head);
  return p + head;
}

void *port_pages_reserve(size_t len, size_t align) {
  void *place = PORT_UNLIKELY(port_is_virtual()) ? port_virtual_place(len, align) : NULL;
  if (place) return place;
  /* The kernel stacks mappings of one length below each other: after the first, the plain one is mostly aligned. */
  void *p = map(NULL, len, FLAGS);
  if (!p || (uintptr_t)p % align == 0) return p;
  port_pages_release(p, len);
  return map_aligned(len, align);
}

/* ThreadSanitizer ends the program when memory lies where it has no shadow; below 512 GiB it has. */
static int place_allowed(const void *at) {
#ifdef PORT_TSAN
  return (uintptr_t)at < (uintptr_t)1 << 39;
#else
  (void)at;
  return 1;
#endif
}

void *port_pages_reserve_at(void *at, size_t len) {
  if (!place_allowed(at)) return NULL;
#ifdef MAP_FIXED_NOREPLACE
  void *p = map(at, len, FLAGS | MAP_FIXED_NOREPLACE);
#else
  void *p = map(at, len, FLAGS);
#endif
  if (!p || p == at) return p;
  port_pages_release(p, len);   /* an older kernel takes the address as a mere hint */
  return NULL;
}

void port_pages_release(void *p, size_t len) {
  int e = errno;
  /* munmap in the middle of a mapping can fail when there are too many of them: at least the memory goes. */
  if (munmap(p, len) != 0) madvise(p, len, MADV_DONTNEED);
  errno = e;
}

void port_pages_discard(void *p, size_t len) {
  int e = errno;
  madvise(p, len, MADV_DONTNEED);
  errno = e;
}

void port_pages_huge(void *p, size_t len) {
#ifdef MADV_HUGEPAGE
  int e = errno;
  madvise(p, len, MADV_HUGEPAGE);
  errno = e;
#else
  (void)p; (void)len;
#endif
}

void *port_pages_remap(void *p, size_t len, size_t newlen, size_t align) {
#ifdef MREMAP_MAYMOVE
  int e = errno;
  void *q = mremap(p, len, newlen, 0);
  if (q == MAP_FAILED) {
    void *to = port_pages_reserve(newlen, align);
    if (to) {
      q = mremap(p, len, newlen, MREMAP_MAYMOVE | MREMAP_FIXED, to);
      if (q == MAP_FAILED) port_pages_release(to, newlen);
    }
  }
  errno = e;
  return q == MAP_FAILED ? NULL : q;
#else
  (void)p; (void)len; (void)newlen; (void)align;
  return NULL;
#endif
}

void *port_lines_new(size_t size) {
  char *block = size <= SIZE_MAX - PORT_CACHELINE ? malloc(size + PORT_CACHELINE) : NULL;
  if (!block) return NULL;
  unsigned char past = (unsigned char)(PORT_CACHELINE - (uintptr_t)block % PORT_CACHELINE);   /* 1 … PORT_CACHELINE */
  char *p = block + past;
  p[-1] = (char)past;
  return memset(p, 0, size);
}

void port_lines_free(void *p) {
  if (p) free((char *)p - ((unsigned char *)p)[-1]);
}

void port_malloc_trim(void) {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}
