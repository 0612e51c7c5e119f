/*
 * entries_test NAME: one thing that a C library's allocator must do. Run with the library preloaded; `wild` and `twice` must end the program.
 */
#include "checks.h"
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void sizes_of_every_class_are_apart_aligned_and_usable(void)
{
  enum { COUNT = 3000 };
  static unsigned char *p[COUNT];
  size_t n[COUNT];
  for (unsigned i = 0; i < COUNT; i++) {
    n[i] = i < 2000 ? i : i < 2900 ? (size_t)(i - 1900) * 997 : (size_t)(i - 2880) * 70001;
    WANT((p[i] = malloc(n[i])) != NULL);
    WANT((uintptr_t)p[i] % 16 == 0);
    size_t room = malloc_usable_size(p[i]);
    WANT(room >= n[i] && (n[i] <= 128 || n[i] > 65536 || room <= n[i] + n[i] / 8 + 1));
    fill(p[i], n[i], i);
  }
  for (unsigned i = 0; i < COUNT; i += 2) {
    WANT(filled(p[i], n[i], i));
    free(p[i]);
  }
  for (unsigned i = 1; i < COUNT; i += 2) {
    WANT(filled(p[i], n[i], i));
    free(p[i]);
  }
}

static void aligned_blocks_are_aligned_and_can_be_freed(void)
{
  for (size_t align = 8; align <= (size_t)16 << 20; align *= 2)
    for (unsigned i = 0; i < 24; i++) {
      static const size_t sizes[] = { 0, 1, 24, 100, 1000, 4096, 5000, 60000, 65536, 100000, 1 << 20, 5 << 20 };
      size_t n = sizes[i % 12];
      void *p = NULL, *q;
      WANT(posix_memalign(&p, align, n) == 0 && (uintptr_t)p % align == 0);
      WANT((q = i % 2 ? aligned_alloc(align, n) : memalign(align, n)) != NULL && (uintptr_t)q % align == 0);
      WANT(p != q && malloc_usable_size(p) >= n && malloc_usable_size(q) >= n);
      fill(p, n, 1);
      fill(q, n, 2);
      WANT(filled(p, n, 1));
      if (n && i % 3 == 0) {
        WANT((p = realloc(p, n + 100)) != NULL);
        fill(p, n + 100, 3);
      }
      free(p);
      WANT(filled(q, n, 2));
      free(q);
    }
  void *page = valloc(10), *pages = pvalloc(1);
  WANT((uintptr_t)page % 4096 == 0 && (uintptr_t)pages % 4096 == 0 && malloc_usable_size(pages) >= 4096);
  free(page);
  free(pages);
}

static void zeroed_blocks_are_zero_also_where_others_were(void)
{
  static const size_t sizes[] = { 1, 16, 100, 1000, 5000, 9000, 60000, 70000, 300000, 1 << 20, 2 << 20, 9 << 20 };
  for (unsigned round = 0; round < 2; round++)
    for (unsigned i = 0; i < 12; i++) {
      void *p[9];
      for (unsigned k = 0; k < 9; k++) {
        WANT((p[k] = calloc(1, sizes[i])) != NULL && all_zero(p[k], sizes[i]));
        memset(p[k], 0xee, sizes[i]);
        if (sizes[i] > 100000 && k > 2) free(p[k]), p[k] = NULL;
      }
      for (unsigned k = 0; k < 9; k++) free(p[k]);
    }
}

static void blocks_keep_their_content_while_they_grow_and_shrink(void)
{
  uint64_t x = 88172645463325252u;
  for (unsigned i = 0; i < 3000; i++) {
    size_t n = any_size(&x) + 1, m = any_size(&x) + 1, least = n < m ? n : m;
    unsigned char *p = malloc(n);
    WANT(p);
    memset(p, (int)i, n);
    WANT((p = realloc(p, m)) != NULL && malloc_usable_size(p) >= m);
    for (size_t k = 0; k < least; k += 1 + least / 97) WANT(p[k] == (unsigned char)i);
    WANT(p[least - 1] == (unsigned char)i);
    free(p);
  }
  char *p = realloc(NULL, 10);
  for (size_t n = 10; n < (size_t)64 << 20; n = n * 3 / 2) {
    WANT((p = realloc(p, n)) != NULL);
    p[n - 1] = (char)n;
  }
  for (size_t n = (size_t)40 << 20; n > 10; n /= 2) {
    WANT((p = realloc(p, n)) != NULL);
    p[n - 1] = 1;
  }
  WANT(realloc(p, 0) == NULL);
}

static volatile size_t huge = SIZE_MAX, half = PTRDIFF_MAX; /* so that the compiler doesn't know */

static void what_can_t_be_is_refused_with_errno(void)
{
  void *p = &p;
#define REFUSED(call) (errno = 0, (call) == NULL && errno == ENOMEM)
  WANT(REFUSED(malloc(huge)) && REFUSED(malloc(half + 1)) && REFUSED(malloc(half)));
  WANT(REFUSED(calloc(huge, 2)) && REFUSED(calloc(huge / 16 + 2, 16)) && REFUSED(calloc(1, half + 1)));
  WANT(REFUSED(realloc(NULL, huge)) && REFUSED(reallocarray(NULL, huge / 2, 3)));
  WANT(REFUSED(memalign(64, huge - 10)) && REFUSED(aligned_alloc((size_t)1 << 62, 10)) && REFUSED(memalign(16, half)));
  WANT(REFUSED(valloc(huge)) && REFUSED(pvalloc(huge)) && REFUSED(pvalloc(huge - 100)));
  char *q = malloc(100);
  memset(q, 7, 100);
  WANT(REFUSED(realloc(q, huge)) && REFUSED(realloc(q, half)) && q[0] == 7 && q[99] == 7);
  free(q);
  errno = 3;
  WANT(posix_memalign(&p, 3, 10) == EINVAL && posix_memalign(&p, 0, 10) == EINVAL && posix_memalign(&p, 4, 10) == EINVAL);
  WANT(posix_memalign(&p, 48, 10) == EINVAL && posix_memalign(&p, 64, huge) == ENOMEM && p == &p && errno == 3);
  errno = 0;
  WANT(memalign(huge, 10) == NULL && errno == EINVAL);
  errno = 0;
  WANT(aligned_alloc(half, 10) == NULL && errno == EINVAL && aligned_alloc(0, 10) == NULL && aligned_alloc(48, 96) == NULL);
}

static void errno_survives(void)
{
  for (size_t n = 1; n < (size_t)8 << 20; n = n * 3 + 1) {
    errno = 77;
    void *p = malloc(n), *q = calloc(1, n);
    WANT(p && q && errno == 77);
    free(p);
    free(q);
    free(NULL);
    WANT(errno == 77);
  }
  WANT(malloc_trim(0) >= 0 && errno == 77 && malloc_usable_size(NULL) == 0);
}

/* Until there is no more, under a limit of address space; then all of it comes back. */
static void want_of_memory_is_told_and_passes(void)
{
  struct rlimit limit = { (rlim_t)300 << 20, (rlim_t)300 << 20 };
  WANT(setrlimit(RLIMIT_AS, &limit) == 0);
  for (size_t n = 100; n < (size_t)40 << 20; n *= 20) {
    void **last = NULL;
    size_t count = 0;
    for (void **p; errno = 0, (p = malloc(n)) != NULL; last = p, count++) *p = last;
    WANT(errno == ENOMEM && count * n > (size_t)100 << 20);
    while (last) {
      void **next = *last;
      free(last);
      last = next;
    }
  }
  void *p = malloc((size_t)100 << 20);
  WANT(p);
  free(p);
}

static void memory_goes_back(void)
{
  enum { COUNT = 400000 };
  static void *p[COUNT];
  long before = resident();
  for (unsigned i = 0; i < COUNT; i++) memset(p[i] = malloc(i % 700 + 1), 1, i % 700 + 1);
  long most = resident();
  for (unsigned i = 0; i < COUNT; i++) free(p[i]);
  WANT(most - before > 130000 && resident() - before < 3 * COUNT * (long)sizeof *p / 1024 / 2);
  for (unsigned i = 0; i < 20; i++) p[i] = memset(malloc((size_t)5 << 20), 1, (size_t)5 << 20);
  for (unsigned i = 0; i < 20; i++) free(p[i]);
  malloc_trim(0);
  WANT(resident() - before < (long)(COUNT * sizeof *p / 1024) + 2000);
}

/* Segments where free rows of units are too short stand before those with long ones; huge ones, too, which runs don't use. */
static void runs_have_room_behind(unsigned units, size_t n, size_t wanted)
{
  enum { SEGMENTS = 40, UNIT = 64 << 10 };
  size_t count = (size_t)SEGMENTS * 63 / units * (units * UNIT / n), runs = 500;
  void **p = malloc(count * sizeof *p), **q = malloc(runs * sizeof *q);
  for (size_t i = 0; i < count; i++) WANT((p[i] = malloc(n)) != NULL);
  for (size_t i = 0; i < count; i++)
    if (((uintptr_t)p[i] % (UNIT * 64) / UNIT - 1) / units % 2) free(p[i]), p[i] = NULL;
  long before = mapped();
  for (size_t i = 0; i < runs; i++) WANT((q[i] = malloc(wanted)) != NULL);
  WANT(mapped() - before < 200 << 10); /* a segment for each run: 2,000 MiB */
  for (size_t i = 0; i < runs; i++) free(q[i]);
  for (size_t i = 0; i < count; i++) free(p[i]);
  free(p);
  free(q);
}

static void runs_have_room_behind_fragmented_segments(void)
{
  runs_have_room_behind(1, 8 << 10, 128 << 10);
  runs_have_room_behind(2, 128 << 10, 192 << 10);
}

static void *volatile bad;

/* The first call after that second that takes a span, or frees a large block, gives them back. */
static void large_blocks_that_were_freed_are_kept_for_a_second_only(void)
{
  for (int how = 0; how < 3; how++) {
    void *p[20], *other = malloc((size_t)3 << 20);
    long before = resident();
    for (unsigned i = 0; i < 20; i++) p[i] = memset(malloc((size_t)5 << 20), 1, (size_t)5 << 20);
    for (unsigned i = 0; i < 20; i++) free(p[i]);
    WANT(resident() - before > 10000); /* some are kept */
    usleep(1100 * 1000);
    WANT(how == 0 ? (bad = malloc(7000)) != NULL : how == 1 ? (bad = malloc(200000)) != NULL : (free(other), 1));
    WANT(resident() - before < 1000);
    free(how == 2 ? NULL : other);
  }
}

static void freed_twice(void)
{
  bad = malloc(100);
  free(bad);
  free(bad);
}

static void freed_twice_when_all_were_free(void)
{
  void *p = malloc(200), *q = malloc(200);
  bad = p;
  free(p);
  free(q);
  free(bad);
}

static void freed_large_twice(void)
{
  void *large = malloc((size_t)2 << 20);
  bad = large;
  free(bad);
  free(bad);
}

static void freed_inside_a_large_block(void)
{
  bad = (char *)malloc((size_t)3 << 20) + (1 << 20);
  free(bad);
}

static void freed_run_twice(void)
{
  void *volatile other = malloc(100000);
  bad = malloc(100000);
  free(bad);
  free(bad);
  free(other);
}

static const struct { const char *name; void (*run)(void); } tests[] = {
#define TEST(f) { #f, f }
  TEST(sizes_of_every_class_are_apart_aligned_and_usable), TEST(aligned_blocks_are_aligned_and_can_be_freed),
  TEST(zeroed_blocks_are_zero_also_where_others_were), TEST(blocks_keep_their_content_while_they_grow_and_shrink),
  TEST(what_can_t_be_is_refused_with_errno), TEST(errno_survives), TEST(want_of_memory_is_told_and_passes), TEST(memory_goes_back),
  TEST(runs_have_room_behind_fragmented_segments), TEST(large_blocks_that_were_freed_are_kept_for_a_second_only),
  TEST(freed_twice), TEST(freed_twice_when_all_were_free), TEST(freed_large_twice), TEST(freed_inside_a_large_block), TEST(freed_run_twice),
};

int main(int argc, char **argv)
{
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    if (argc < 2) puts(tests[i].name);
    else if (strcmp(argv[1], tests[i].name) == 0) return tests[i].run(), 0;
  }
  return argc < 2 ? 0 : 2;
}
