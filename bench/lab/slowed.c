/*
 * slowed: glibc's malloc, made slower by a stated amount, to see whether choose finds it. SLOWED_SPIN is the number of turns of an empty loop
 * after each malloc, calloc and realloc; 0, or none, is glibc as it is.
 */
#include <stddef.h>
#include <stdlib.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long turns = -1;

static void spin(void) {
  if (turns < 0) {
    const char *s = getenv("SLOWED_SPIN");
    turns = s ? atol(s) : 0;
  }
  for (volatile long i = 0; i < turns; i++) continue;
}

void *malloc(size_t n) {
  void *p = __libc_malloc(n);
  spin();
  return p;
}

void *calloc(size_t n, size_t m) {
  void *p = __libc_calloc(n, m);
  spin();
  return p;
}

void *realloc(void *old, size_t n) {
  void *p = __libc_realloc(old, n);
  spin();
  return p;
}

void *aligned_alloc(size_t a, size_t n) { return __libc_memalign(a, n); }
void *memalign(size_t a, size_t n) { return __libc_memalign(a, n); }

int posix_memalign(void **p, size_t a, size_t n) {
  *p = __libc_memalign(a, n);
  return *p ? 0 : 12;
}

void free(void *p) { __libc_free(p); }
