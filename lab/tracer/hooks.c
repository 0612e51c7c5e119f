/*
 * The functions that stand before the program's allocator. A free is recorded before its call, everything else after it returned; FORMAT.md says
 * why that order is enough.
 *
 * Until the real functions are known, which takes dlsym, which may allocate, requests go to glibc's own names; those few blocks are remembered,
 * freed to where they came from, and not recorded.
 */
#define _GNU_SOURCE
#include "attach.h"
#include "real.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void __libc_free(void *block);
extern void *__libc_memalign(size_t alignment, size_t size);

/* ---- before the real functions are known ---- */

#define EARLY_BLOCKS 64
static void *early[EARLY_BLOCKS];
static int early_count;
enum { FRESH, STARTING, STARTED };
static _Atomic int state = FRESH;
static __thread int starting __attribute__((tls_model("initial-exec"))); /* this thread is the one that looks them up */

static void *remember(void *block)
{
  if (block && early_count < EARLY_BLOCKS) early[early_count++] = block;
  return block;
}

static int is_early(void *block)
{
  for (int i = 0; i < early_count; i++)
    if (early[i] == block && block) {
      early[i] = NULL;
      return 1;
    }
  return 0;
}

static void *first_malloc(size_t n) { tr_start(); return starting ? remember(__libc_malloc(n)) : tr_real.malloc(n); }
static void *first_calloc(size_t k, size_t n) { tr_start(); return starting ? remember(__libc_calloc(k, n)) : tr_real.calloc(k, n); }
static void *first_realloc(void *p, size_t n) { tr_start(); return starting ? remember(__libc_realloc(p, n)) : tr_real.realloc(p, n); }
static void first_free(void *p) { tr_start(); if (starting) __libc_free(p); else tr_real.free(p); }
static void *first_memalign(size_t a, size_t n)
{
  tr_start();
  return starting ? remember(__libc_memalign(a, n)) : tr_real.memalign(a, n);
}
static void *first_aligned(size_t a, size_t n) { tr_start(); return starting ? remember(__libc_memalign(a, n)) : tr_real.aligned_alloc(a, n); }
static int first_posix(void **p, size_t a, size_t n)
{
  tr_start();
  if (!starting) return tr_real.posix_memalign(p, a, n);
  void *block = remember(__libc_memalign(a, n));
  if (block) *p = block;
  return block ? 0 : ENOMEM;
}
static void *first_valloc(size_t n) { tr_start(); return starting ? remember(__libc_memalign(4096, n)) : tr_real.valloc(n); }
static void *first_pvalloc(size_t n)
{
  tr_start();
  return starting ? remember(__libc_memalign(4096, (n + 4095) & ~(size_t)4095)) : tr_real.pvalloc(n);
}

tr_real_t tr_real = {
  first_malloc, first_calloc, first_realloc, first_free, first_posix, first_aligned, first_memalign, first_valloc, first_pvalloc
};

static void find(void *into, const char *name, void *otherwise)
{
  void *found = dlsym(RTLD_NEXT, name);
  *(void **)into = found ? found : otherwise;
}

void tr_start(void)
{
  int fresh = FRESH;
  if (starting || atomic_load(&state) == STARTED) return;
  if (!atomic_compare_exchange_strong(&state, &fresh, STARTING)) {
    while (atomic_load(&state) != STARTED) { } /* another thread is at it: microseconds */
    return;
  }
  starting = 1;
  tr_real_t real;
  find(&real.malloc, "malloc", (void *)__libc_malloc);
  find(&real.calloc, "calloc", (void *)__libc_calloc);
  find(&real.realloc, "realloc", (void *)__libc_realloc);
  find(&real.free, "free", (void *)__libc_free);
  find(&real.memalign, "memalign", (void *)__libc_memalign);
  find(&real.aligned_alloc, "aligned_alloc", (void *)__libc_memalign);
  find(&real.posix_memalign, "posix_memalign", NULL);
  find(&real.valloc, "valloc", NULL);
  find(&real.pvalloc, "pvalloc", NULL);
  tr_attach();
  tr_real = real;
  starting = 0;
  atomic_store(&state, STARTED);
}

__attribute__((constructor)) static void start_at_load(void) { tr_start(); }

/* ---- the hooks ---- */

static inline int started(void) { return atomic_load_explicit(&state, memory_order_relaxed) == STARTED; }

static uint64_t number_of(const void *p) { return (uint64_t)(uintptr_t)p; }

/*
 * Each hook asks whether anybody records, and what was started asleep pays for no more. It asks after the call, as the first call attaches. Between the
 * two halves of a realloc the answer may change: the reader takes a half.
 */
static inline void *recorded(unsigned kind, void *p, size_t n)
{
  if (!tr_idle() && __builtin_expect(!starting, 1)) tr_record(kind, number_of(p), n);
  return p;
}

static void *recorded_aligned(void *p, size_t alignment, size_t n, unsigned routine)
{
  unsigned label = tr_self.label;
  unsigned log2 = alignment ? (unsigned)__builtin_ctzll((unsigned long long)alignment) : 0;
  tr_self.label = 0;
  if (!tr_idle() && !starting) tr_slow(MTR_ALIGNED, number_of(p), label, n, log2 | routine << 8);
  return p;
}

TR_EXPORT void *malloc(size_t n)
{
  return recorded(MTR_MALLOC, tr_real.malloc(n), n);
}

TR_EXPORT void *calloc(size_t k, size_t n)
{
  size_t bytes;
  void *p = tr_real.calloc(k, n);
  if (__builtin_mul_overflow(k, n, &bytes)) bytes = SIZE_MAX;
  return recorded(MTR_CALLOC, p, bytes);
}

TR_EXPORT void free(void *p)
{
  if (__builtin_expect(early_count != 0, 0) && is_early(p)) {
    __libc_free(p);
    return;
  }
  if (tr_idle()) { }
  else if (__builtin_expect(tr_self.passed_over == p && p, 0)) tr_self.passed_over = NULL;
  else if (__builtin_expect(!starting, 1)) tr_record(MTR_FREE, number_of(p), 0);
  tr_real.free(p);
}

static void *realloc_recorded(void *p, size_t n)
{
  if (starting) return tr_real.realloc(p, n);
  if (!p) {
    p = tr_real.realloc(NULL, n);
    tr_self.label = 0;
    tr_record_labelled(MTR_REALLOC_END, number_of(p), 1, n);
    return p;
  }
  tr_self.label = 0;
  tr_record(MTR_REALLOC_BEGIN, number_of(p), 0);
  return recorded(MTR_REALLOC_END, tr_real.realloc(p, n), n);
}

/* A block from before: it leaves glibc's names here, as a new block of this routine. */
static void *realloc_early(void *p, size_t n)
{
  void *moved = __libc_realloc(p, n);
  return remember(moved);
}

TR_EXPORT void *realloc(void *p, size_t n)
{
  if (__builtin_expect(early_count != 0, 0) && is_early(p)) return realloc_early(p, n);
  if (tr_idle() && started()) return tr_real.realloc(p, n);
  return realloc_recorded(p, n);
}

TR_EXPORT void *reallocarray(void *p, size_t k, size_t n)
{
  size_t bytes;
  if (__builtin_mul_overflow(k, n, &bytes)) {
    errno = ENOMEM;
    return NULL;
  }
  return realloc(p, bytes);
}

TR_EXPORT int posix_memalign(void **into, size_t alignment, size_t n)
{
  int error = tr_real.posix_memalign(into, alignment, n);
  recorded_aligned(error ? NULL : *into, alignment, n, MTR_POSIX_MEMALIGN);
  return error;
}

TR_EXPORT void *aligned_alloc(size_t alignment, size_t n)
{
  return recorded_aligned(tr_real.aligned_alloc(alignment, n), alignment, n, MTR_ALIGNED_ALLOC);
}

TR_EXPORT void *memalign(size_t alignment, size_t n)
{
  return recorded_aligned(tr_real.memalign(alignment, n), alignment, n, MTR_MEMALIGN);
}

/* Who gives up system calls (seccomp) says so here first, unless he is root and calls the kernel by himself. */
TR_EXPORT int prctl(int option, ...)
{
  unsigned long a[4];
  va_list list;
  va_start(list, option);
  for (int i = 0; i < 4; i++) a[i] = va_arg(list, unsigned long);
  va_end(list);
  if (option == PR_SET_NO_NEW_PRIVS || option == PR_SET_SECCOMP) tr_confined = 1;
  return (int)syscall(SYS_prctl, option, a[0], a[1], a[2], a[3]);
}

TR_EXPORT void *valloc(size_t n) { return recorded_aligned(tr_real.valloc(n), 4096, n, MTR_VALLOC); }
TR_EXPORT void *pvalloc(size_t n) { return recorded_aligned(tr_real.pvalloc(n), 4096, n, MTR_PVALLOC); }
