/* What each function of an allocator must answer, at the edges of its sizes and alignments. */
#include "tests.h"
#include <unistd.h>

enum { MANY = 300 };

/* Sizes around each power of two up to 2 MiB. */
static size_t size_of(int i) { return ((size_t)1 << (i / 3 % 22)) + (size_t)(i % 3) - 1; }

static void blocks_are_aligned_apart_and_as_large_as_they_say(void)
{
  unsigned char *blocks[MANY];
  for (int i = 0; i < MANY; i++) {
    size_t size = size_of(i);
    WANT((blocks[i] = take(size)));
    WANT((uintptr_t)blocks[i] % (size < 16 ? 8 : 16) == 0);
    WANT(usable(blocks[i]) >= size);
    fill(blocks[i], usable(blocks[i]), (unsigned)i);
  }
  for (int i = 0; i < MANY; i++) {
    size_t all = usable(blocks[i]);
    WANT(holds(blocks[i], all, all, (unsigned)i));
    give(blocks[i]);
  }
}

static void zeroed_blocks_are_zero_also_where_others_were(void)
{
  for (int round = 0; round < 3; round++)
    for (int i = 0; i < 66; i++) {
      size_t size = size_of(i);
      unsigned char *block = take_zeroed(size);
      WANT(block);
      for (size_t at = 0; at < size; at++) WANT(block[at] == 0);
      memset(block, 0xEE, usable(block));
      give(block);
    }
}

static void aligned_blocks_are_aligned(void)
{
  for (size_t alignment = sizeof(void *); alignment <= (size_t)1 << 20; alignment *= 2)
    for (int i = 0; i < 66; i += 5) {
      size_t size = size_of(i);
      unsigned char *block = take_aligned(alignment, size), *other = take_aligned(alignment, size);
      WANT(block && other && block != other);
      WANT((uintptr_t)block % alignment == 0 && (uintptr_t)other % alignment == 0 && usable(block) >= size);
      fill(block, size, 1);
      fill(other, size, 2);
      WANT(holds(block, size, size, 1));
      WANT((block = resize(block, size + 100)) && holds(block, size, size, 1));
      give(block);
      give(other);
    }
}

static void a_resized_block_keeps_what_it_held(void)
{
  for (int i = 0; i < 66; i++)
    for (int j = 0; j < 66; j++) {
      size_t from = size_of(i), to = size_of(j), both = from < to ? from : to;
      if (!to || from > 300000 || to > 300000) continue;
      unsigned char *block = take(from);
      WANT(block);
      fill(block, from, 3);
      WANT((block = resize(block, to)) && usable(block) >= to && holds(block, both, from, 3));
      give(block);
    }
}

static void what_can_t_be_had_is_refused_and_changes_nothing(void)
{
  volatile size_t absurd[] = { (size_t)PTRDIFF_MAX + 1, SIZE_MAX - 4096, SIZE_MAX - 8, SIZE_MAX };
  for (int i = 0; i < 4; i++) {
    errno = 0;
    WANT(!take(absurd[i]) && errno == ENOMEM);
    errno = 0;
    WANT(!take_zeroed(absurd[i]) && errno == ENOMEM);
    WANT(!take_aligned(64, absurd[i]) && !take_aligned((size_t)1 << 20, absurd[i]));
    for (size_t size = 8; size < 1000000; size *= 11) {
      unsigned char *block = take(size);
      fill(block, size, 5);
      errno = 0;
      WANT(!resize(block, absurd[i]) && errno == ENOMEM && holds(block, size, size, 5));
      give(block);
    }
  }
}

static void giving_back_leaves_errno(void)
{
  for (int i = 0; i < 66; i++) {
    void *block = take(size_of(i));
    errno = 4711;
    give(block);
    WANT(errno == 4711);
  }
}

#ifndef HEAP
static void the_c_librarys_names_behave_as_its_manual_says(void)
{
  void *block = &errno;
  volatile size_t half = SIZE_MAX / 2, three = 3, page = (size_t)sysconf(_SC_PAGESIZE);
  void *volatile none = NULL;
  free(none);
  WANT(malloc_usable_size(none) == 0);
  WANT(!calloc(half, three) && errno == ENOMEM);
  void *nothing = malloc(none ? 1 : 0), *more = malloc(none ? 1 : 0);
  WANT(nothing && more && nothing != more);
  free(more);
  WANT(!realloc(nothing, none ? 1 : 0));
  void *fresh = realloc(none, 40);
  WANT(fresh);
  WANT(!reallocarray(fresh, half, three) && errno == ENOMEM);
  free(fresh);
  errno = 0;
  WANT(posix_memalign(&block, three, 8) == EINVAL && posix_memalign(&block, 4, 8) == EINVAL && posix_memalign(&block, 0, 8) == EINVAL);
  WANT(posix_memalign(&block, 64, half + 2) == ENOMEM && block == &errno && errno == 0);
  WANT(posix_memalign(&block, 256, 24) == 0 && (uintptr_t)block % 256 == 0);
  free(block);
  WANT((block = valloc(10)) && (uintptr_t)block % page == 0);
  free(block);
  WANT((block = pvalloc(10)) && (uintptr_t)block % page == 0 && malloc_usable_size(block) >= page);
  free(block);
  WANT((block = aligned_alloc(64, 10)) && (uintptr_t)block % 64 == 0);
  free(block);
  errno = 0;
  WANT(!aligned_alloc(half, 10) && errno == EINVAL);
  WANT((block = memalign(48, 10)) && (uintptr_t)block % 64 == 0);
  free(block);
}
#endif

int main(void)
{
  blocks_are_aligned_apart_and_as_large_as_they_say();
  zeroed_blocks_are_zero_also_where_others_were();
  aligned_blocks_are_aligned();
  a_resized_block_keeps_what_it_held();
  what_can_t_be_had_is_refused_and_changes_nothing();
  giving_back_leaves_errno();
#ifndef HEAP
  the_c_librarys_names_behave_as_its_manual_says();
#endif
  puts("ok");
  return 0;
}
