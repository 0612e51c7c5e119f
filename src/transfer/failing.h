/*
 * failing: for tests of two states in which an allocation fails: the n-th from now on, and all after it, or (once) no other, as when a collection made
 * room. Each test is one C file, so all here is static. Lua's own are those of the state `failing`; the C library's fail where no sanitizer stands
 * before it (OWN_MALLOC).
 */
#ifndef MR_TRANSFER_FAILING_H
#define MR_TRANSFER_FAILING_H

#include "transfer/test.h"

static long lua_left = -1, c_left = -1;        /* -1: none fails */
static int failed, once;

static int fails(long *left) {
  if (*left < 0) return 0;
  if (*left == 0) {
    failed = 1;
    if (once) *left = -1;
    return 1;
  }
  --*left;
  return 0;
}

#if !defined(PORT_ASAN) && !defined(PORT_TSAN) && defined(__GLIBC__)
#define OWN_MALLOC 1
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t m);
void *__libc_realloc(void *p, size_t n);
void *malloc(size_t n) { return fails(&c_left) ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails(&c_left) ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails(&c_left) ? NULL : __libc_realloc(p, n); }
#define REALLOC __libc_realloc
#else
#define REALLOC realloc
#endif

static lua_State *failing;                     /* whose allocations count */
typedef struct owner { lua_State *L; } owner;
static owner owners[2];

static void *allocate(void *ud, void *p, size_t was, size_t n) {
  (void)was;
  if (n == 0) { free(p); return NULL; }
  if (failing && ((owner *)ud)->L == failing && (!p || n > was) && fails(&lua_left)) return NULL;
  return REALLOC(p, n);
}

#endif
