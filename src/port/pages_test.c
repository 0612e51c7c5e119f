/* Pages: aligned, zero, and where they were asked for; what is discarded is zero again; what is remapped keeps its bytes. errno stays as it was.
   Records begin with a cache line. */
#include "port/test.h"

#include <errno.h>

enum { PAGE = 4096, MB = 1 << 20 };

static int is(const char *p, size_t n, int byte) {
  for (size_t i = 0; i < n; i += 512) if (p[i] != (char)byte) return 0;
  return p[n - 1] == (char)byte;
}

static void test_pages_are_aligned_and_zero(void) {
  for (size_t align = PAGE; align <= 4 * MB; align *= 4) {
    char *p[4];
    for (int i = 0; i < 4; i++) {
      p[i] = port_pages_reserve(3 * PAGE, align);
      CHECK(p[i] && (uintptr_t)p[i] % align == 0 && is(p[i], 3 * PAGE, 0));
      memset(p[i], i + 1, 3 * PAGE);
    }
    for (int i = 0; i < 4; i++) {
      CHECK(is(p[i], 3 * PAGE, i + 1));
      port_pages_release(p[i], 3 * PAGE);
    }
  }
}

static void test_discarded_pages_are_zero_again(void) {
  char *p = port_pages_reserve(4 * PAGE, PAGE);
  memset(p, 7, 4 * PAGE);
  port_pages_discard(p + PAGE, PAGE);
  CHECK(is(p, PAGE, 7) && is(p + PAGE, PAGE, 0) && is(p + 2 * PAGE, 2 * PAGE, 7));
  p[PAGE] = 1;
  port_pages_release(p, 4 * PAGE);
}

static void test_an_address_that_is_taken_is_refused(void) {
  char *p = port_pages_reserve(16 * PAGE, PAGE);
  errno = 12345;
  CHECK(port_pages_reserve_at(p + PAGE, PAGE) == NULL && errno == 12345);
  CHECK(is(p, 16 * PAGE, 0));                   /* and what is there stays */
  port_pages_release(p, 16 * PAGE);
  char *q = port_pages_reserve_at(p + PAGE, PAGE);
#ifndef PORT_TSAN                               /* it lets nobody map where it has no shadow */
  CHECK(q == p + PAGE);
#endif
  if (q) port_pages_release(q, PAGE);
}

static void test_what_cannot_be_had_is_refused(void) {
  errno = 12345;
  CHECK(port_pages_reserve((size_t)1 << 62, PAGE) == NULL);
  CHECK(port_pages_reserve(SIZE_MAX - PAGE + 1, MB) == NULL);
  CHECK(errno == 12345);
}

static void test_remapped_pages_keep_their_bytes(void) {
  static const size_t sizes[] = { 2 * MB, 5 * MB, 5 * MB + PAGE, MB, 3 * MB, PAGE, 7 * MB };
  size_t n = MB;
  char *p = port_pages_reserve(n, PAGE);
  memset(p, 9, n);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t align = i % 2 ? 2 * MB : PAGE, kept = n < sizes[i] ? n : sizes[i];
    char *block = port_pages_reserve(PAGE, PAGE);               /* often just behind it */
    char *q = port_pages_remap(p, n, sizes[i], align);
    CHECK(q != NULL);
    if (!q) break;
    CHECK(is(q, kept, 9) && (sizes[i] <= n || is(q + n, sizes[i] - n, 0)));
    p = q;
    n = sizes[i];
    memset(p, 9, n);
    port_pages_release(block, PAGE);
  }
  port_pages_release(p, n);
}

static void test_a_record_is_zero_and_begins_with_a_cache_line(void) {
  enum { RECORDS = 40 };
  char *p[RECORDS];
  for (int round = 0; round < 3; round++) {      /* from the second on in blocks that were used before */
    for (size_t i = 0; i < RECORDS; i++) {
      size_t size = 1 + i * 37;
      p[i] = port_lines_new(size);
      CHECK(p[i] && (uintptr_t)p[i] % PORT_CACHELINE == 0);
      for (size_t k = 0; k < size; k++) CHECK(p[i][k] == 0);
      memset(p[i], 0xff, size);
    }
    for (size_t i = 0; i < RECORDS; i++) port_lines_free(p[i]);
  }
  port_lines_free(NULL);
  CHECK(port_lines_new(SIZE_MAX) == NULL);
}

int main(void) {
  test_pages_are_aligned_and_zero();
  test_discarded_pages_are_zero_again();
  test_an_address_that_is_taken_is_refused();
  test_what_cannot_be_had_is_refused();
  test_remapped_pages_keep_their_bytes();
  test_a_record_is_zero_and_begins_with_a_cache_line();
  return CHECK_RESULT();
}
