/*
 * entries: what programs call. The two paths that nearly all calls take stand here whole, malloc of up to MA_DIRECT bytes and free by the block's
 * owner: some fifteen instructions each, without a call, a lock or an atomic.
 *
 * errno is ENOMEM where NULL means failure, and is left alone by free.
 */
#define _GNU_SOURCE
#include "entries.h"
#include "large.h"
#include "pool.h"
#include "threads.h"
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

enum { RUN_MOST = 1 << 20 };

/* ---- blocks of any size ---- */

static void *of_class(ma_heap *h, unsigned c, int *zero)
{
  ma_span *s = h->first[c];
  return s->free ? ma_pop(s) : ma_heap_more(h, c, zero);
}

/* The smallest class of at least n bytes whose size is a multiple of `align`; MA_CLASSES: none. Spans begin at multiples of 64 KiB. */
static unsigned aligned_class(size_t n, size_t align)
{
  if (n > MA_CLASS_MOST || align > MA_CLASS_MOST) return MA_CLASSES;
  unsigned c = ma_class(n < align ? align : n);
  while (c < MA_CLASSES && ma_class_size(c) % align) c++;
  return c;
}

/* *zero: in, whether it must be zero; out, whether it is, but for its first word. */
static void *from_heap(ma_heap *h, size_t n, size_t align, int *zero)
{
  int must = *zero;
  *zero = 0;
  unsigned c = align <= MA_GRAIN && n <= MA_CLASS_MOST ? ma_class(n ? n : 1) : aligned_class(n, align);
  if (c < MA_CLASSES) return of_class(h, c, zero);
  if (n <= RUN_MOST && align <= MA_UNIT) return ma_heap_run(h, n ? n : 1, align, zero);
  *zero = 1;
  return ma_large_get(n, align, must);
}

static MA_COLD void *once(size_t n, size_t align, int *zero)
{
  ma_heap *h = ma_mine;
  if (h == &ma_nobody) h = ma_thread_begin();
  if (h) return from_heap(h, n, align, zero);
  void *p = from_heap(ma_common(), n, align, zero);
  ma_common_done();
  return p;
}

static int give_back_all(void)
{
  int some = ma_mine != &ma_nobody && ma_heap_tidy(ma_mine);
  return ma_orphans_trim() | ma_large_trim() | ma_pool_trim() | some;
}

/* A block, by the long way. With `zero` it is zero. */
static MA_COLD void *get(size_t n, size_t align, int zero)
{
  int is_zero = zero;
  void *p = NULL;
  if (n <= PTRDIFF_MAX) {
    p = once(n, align, &is_zero);
    is_zero = p ? is_zero : zero;
    if (!p && give_back_all()) p = once(n, align, &is_zero);
  }
  if (!p) {
    errno = ENOMEM;
    return NULL;
  }
  if (zero) memset(p, 0, is_zero && n > sizeof(ma_block) ? sizeof(ma_block) : n);
  return p;
}

/* Takes a block off the first span of its size; NULL: by the long way. */
static inline void *quick(size_t n)
{
  ma_heap *h = ma_mine;
  ma_span *s;
  if (MA_LIKELY(n <= MA_DIRECT)) s = h->direct[(n + MA_GRAIN - 1) / MA_GRAIN];
  else if (n <= MA_CLASS_MOST) s = h->first[ma_class(n)];
  else return NULL;
  return MA_LIKELY(s->free != NULL) ? ma_pop(s) : NULL;
}

EXPORT MA_HOT void *malloc(size_t n)
{
  void *p = quick(n);
  return MA_LIKELY(p != NULL) ? p : get(n, MA_GRAIN, 0);
}

EXPORT void *calloc(size_t count, size_t size)
{
  size_t n;
  if (MA_UNLIKELY(__builtin_mul_overflow(count, size, &n))) {
    errno = ENOMEM;
    return NULL;
  }
  void *p = quick(n);
  return MA_LIKELY(p != NULL) ? memset(p, 0, n) : get(n, MA_GRAIN, 1);
}

/* ---- free ---- */

/* Of nobody's heap, of another thread's, or no block at all. */
static MA_COLD void free_other(void *p)
{
  if (!p) return;
  int error = errno;
  if (ma_offset(p) < MA_UNIT) ma_large_put(ma_large_of(p));
  else {
    ma_span *s = ma_span_of(p);
    ma_segment *g = ma_segment_of(p);
    if (s->heap) {
      if ((size_t)((char *)p - ma_span_start(s)) % s->size) ma_die("not the beginning of a block", p);
      ma_heap_send(s->heap, p);
    } else if (g->magic == MA_MAGIC_SEGMENT && s->units && (s->flags & MA_RUN)) ma_pool_give(s);
    else ma_large_put(ma_large_of(p));
  }
  errno = error;
}

EXPORT MA_HOT void free(void *p)
{
  if (MA_LIKELY(ma_offset(p) >= MA_UNIT)) { /* not NULL, no large block */
    ma_span *s = ma_span_of(p);
    ma_heap *h = ma_mine;
    if (MA_LIKELY(s->heap == h)) {
      if (MA_UNLIKELY(s->free == p)) ma_die("freed twice", p);
      ma_put(h, s, p);
      return;
    }
  }
  free_other(p);
}

EXPORT void cfree(void *p) { free(p); }

EXPORT void free_sized(void *p, size_t n)
{
  (void)n;
  free(p);
}

EXPORT void free_aligned_sized(void *p, size_t align, size_t n)
{
  (void)align;
  (void)n;
  free(p);
}

/* ---- what a block is ---- */

static ma_large *large_of(void *p)
{
  if (ma_offset(p) < MA_UNIT) return ma_large_of(p);
  return ma_segment_of(p)->magic == MA_MAGIC_SEGMENT ? NULL : ma_large_of(p);
}

static size_t room_of(void *p)
{
  ma_large *b = large_of(p);
  if (b) return ma_large_size(b);
  ma_span *s = ma_span_of(p);
  return s->heap ? s->size : (size_t)(ma_span_start(s) + s->units * MA_UNIT - (char *)p);
}

EXPORT size_t malloc_usable_size(void *p) { return p ? room_of(p) : 0; }

/* ---- realloc ---- */

/* NULL: it can't be done where it is. */
static void *resize(void *p, size_t n, size_t room)
{
  if (n <= room && n >= room / 2) return p;
  ma_large *b = large_of(p);
  if (b) return n > RUN_MOST && ma_offset(p) ? ma_large_resize(b, n) : NULL;
  ma_span *s = ma_span_of(p);
  if (!s->heap && n > MA_CLASS_MOST && n <= RUN_MOST && ma_heap_run_resize(s, p, n)) return p;
  return NULL;
}

EXPORT void *realloc(void *p, size_t n)
{
  if (!p) return malloc(n);
  if (n == 0) {
    free(p);
    return NULL;
  }
  size_t room = room_of(p);
  int error = errno;
  void *q = n <= PTRDIFF_MAX ? resize(p, n, room) : NULL;
  errno = error;
  if (q) return q;
  q = malloc(n);
  if (!q) return n <= room ? p : NULL;
  memcpy(q, p, n < room ? n : room);
  free(p);
  return q;
}

EXPORT void *reallocarray(void *p, size_t count, size_t size)
{
  size_t n;
  if (!__builtin_mul_overflow(count, size, &n)) return realloc(p, n);
  errno = ENOMEM;
  return NULL;
}

/* ---- aligned blocks ---- */

static int is_power(size_t n) { return n && !(n & (n - 1)); }

/* As glibc: an alignment that is no power of two is made the next one. */
EXPORT void *memalign(size_t align, size_t n)
{
  if (align > SIZE_MAX / 2 + 1) {
    errno = EINVAL;
    return NULL;
  }
  size_t power = MA_GRAIN;
  while (power < align) power *= 2;
  return get(n, power, 0);
}

EXPORT void *aligned_alloc(size_t align, size_t n)
{
  if (is_power(align)) return memalign(align, n);
  errno = EINVAL;
  return NULL;
}

EXPORT int posix_memalign(void **p, size_t align, size_t n)
{
  if (!is_power(align) || align % sizeof(void *)) return EINVAL;
  int error = errno;
  void *q = get(n, align, 0);
  errno = error;
  if (!q) return ENOMEM;
  *p = q;
  return 0;
}

static size_t page_size(void) { return (size_t)sysconf(_SC_PAGESIZE); }

EXPORT void *valloc(size_t n) { return memalign(page_size(), n); }

EXPORT void *pvalloc(size_t n)
{
  size_t page = page_size();
  if (n <= PTRDIFF_MAX) return memalign(page, n ? (n + page - 1) & ~(page - 1) : page);
  errno = ENOMEM;
  return NULL;
}

/* ---- the rest ---- */

EXPORT int malloc_trim(size_t pad)
{
  (void)pad;
  int error = errno, some = give_back_all();
  errno = error;
  return some;
}

EXPORT const char *mare_malloc_version(void) { return "1.0"; }
