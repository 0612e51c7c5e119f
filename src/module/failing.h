/*
 * failing: for tests of what happens without memory; each is one C file, so all here is static. The n-th allocation from `active` on fails, of the
 * thread that set it: Lua's by `allocate`; the C library's as FAILING says (where no sanitizer stands before it): 0 none, 1 realloc, 2 all.
 */
#ifndef MR_FAILING_H
#define MR_FAILING_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "module/module.h"

static int failures, checks;
#define CHECK(c) do { checks++; if (!(c)) { failures++; fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); } } while (0)

static _Thread_local long left = -1;           /* allocations until one fails; -1: none does */
static _Thread_local int failed, active, once; /* once: all after it succeed, as when a full collection made room; else they fail, too */

static int fails(void) {
  if (!active || left < 0) return 0;
  if (left > 0) { left--; return 0; }
  if (once) left = -1;
  failed = 1;
  return 1;
}

#if FAILING > 0 && !defined(PORT_ASAN) && !defined(PORT_TSAN) && defined(__GLIBC__)
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
#if FAILING > 1
void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails() ? NULL : __libc_calloc(n, m); }
#endif
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
#define REALLOC __libc_realloc
#else
#define REALLOC realloc
#endif

static void *allocate(void *ud, void *p, size_t was, size_t n) {
  (void)ud;
  if (n == 0) { free(p); return NULL; }
  if ((!p || n > was) && fails()) return NULL;
  return REALLOC(p, n);
}

#endif
