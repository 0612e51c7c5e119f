/* test: what the C tests of this folder share. A failed check is printed and counted; the test goes on. */
#ifndef MR_HEAP_TEST_H
#define MR_HEAP_TEST_H

#include <stdio.h>
#include <stdatomic.h>

static atomic_int test_failures;

#define CHECK(x) ((x) ? (void)0 : test_failed(#x, __FILE__, __LINE__))
#define CHECK_RESULT() (atomic_load(&test_failures) ? 1 : 0)

static inline void test_failed(const char *what, const char *file, int line) {
  if (atomic_fetch_add(&test_failures, 1) < 20) fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

#endif
