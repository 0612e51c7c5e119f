/*
 * An allocator that only counts up: each thread takes 1 MiB pieces of the address space and hands out the next bytes; free does nothing. No
 * allocator can be faster while it gives out cold memory, so it is shown as a floor, with the memory it wastes, and never subtracted. It may be
 * called in a signal handler: the position is moved by one atomic addition.
 *
 * A block's size stands in the 8 bytes before it, for realloc. Blocks of a quarter piece and more have a mapping of their own.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PIECE ((size_t)1 << 20)
#define EXPORT __attribute__((visibility("default")))

static __thread _Atomic uintptr_t next __attribute__((tls_model("initial-exec")));
static __thread _Atomic uintptr_t end __attribute__((tls_model("initial-exec")));

static void *fresh(size_t bytes)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void *sized(uintptr_t block, size_t n)
{
  ((size_t *)block)[-1] = n;
  return (void *)block;
}

static void *take(size_t n, size_t alignment)
{
  if (n > PTRDIFF_MAX - 2 * PIECE - alignment) { errno = ENOMEM; return NULL; }
  if (alignment < 16) alignment = 16;
  size_t bytes = (n + alignment + 15) & ~(size_t)15; /* room for the size and to move up to the alignment */
  if (bytes >= PIECE / 4) {
    void *own = fresh(bytes + 16);
    if (!own) { errno = ENOMEM; return NULL; }
    return sized(((uintptr_t)own + 8 + alignment - 1) & ~(uintptr_t)(alignment - 1), n);
  }
  for (;;) {
    uintptr_t limit = atomic_load_explicit(&end, memory_order_relaxed);
    uintptr_t at = limit ? atomic_fetch_add_explicit(&next, bytes, memory_order_relaxed) : 0;
    if (limit && at + bytes <= limit && at >= limit - PIECE) return sized((at + 8 + alignment - 1) & ~(uintptr_t)(alignment - 1), n);
    uintptr_t piece = (uintptr_t)fresh(PIECE);
    if (!piece) { errno = ENOMEM; return NULL; }
    atomic_store_explicit(&end, 0, memory_order_relaxed); /* a handler in between takes a piece of its own, and its rest is lost */
    atomic_store_explicit(&next, piece, memory_order_relaxed);
    atomic_store_explicit(&end, piece + PIECE, memory_order_relaxed);
  }
}

EXPORT void *malloc(size_t n) { return take(n, 16); }
EXPORT void free(void *p) { (void)p; }

EXPORT void *calloc(size_t k, size_t n)
{
  size_t bytes;
  if (__builtin_mul_overflow(k, n, &bytes)) { errno = ENOMEM; return NULL; }
  return take(bytes, 16); /* fresh from the system: zero */
}

EXPORT void *realloc(void *p, size_t n)
{
  if (!p) return take(n, 16);
  if (n == 0) return NULL;
  size_t had = ((size_t *)p)[-1];
  if (n <= had) return p;
  void *q = take(n, 16);
  return q ? memcpy(q, p, had) : NULL;
}

EXPORT void *memalign(size_t alignment, size_t n) { return take(n, alignment); }
EXPORT void *aligned_alloc(size_t alignment, size_t n) { return take(n, alignment); }
EXPORT void *valloc(size_t n) { return take(n, 4096); }
EXPORT void *pvalloc(size_t n) { return take((n + 4095) & ~(size_t)4095, 4096); }
EXPORT size_t malloc_usable_size(void *p) { return p ? ((size_t *)p)[-1] : 0; }

EXPORT int posix_memalign(void **into, size_t alignment, size_t n)
{
  if (alignment < sizeof(void *) || (alignment & (alignment - 1))) return EINVAL;
  void *p = take(n, alignment);
  if (p) *into = p;
  return p ? 0 : ENOMEM;
}

/* The C++ operators need no names here: libstdc++'s call malloc and free. */
