/*
 * The address range in which all superblocks lie, so that a comparison tells Miser's blocks from the C library's. It is reserved once, as much as the
 * system allows, and made usable a megabyte at a time. Nothing goes back to the system: a superblock without a block in use waits for its next one.
 *
 * `base` is written last and read first, so a thread that sees it sees the length as well. Until then it is an address that no program has.
 */
#define _GNU_SOURCE
#include "region.h"
#include <sys/mman.h>

enum { PIECE = 1 << 20 };
#define MOST ((size_t)1 << 38)
#define LEAST ((size_t)1 << 26)
#define NOWHERE ((uintptr_t)1 << 63)

static _Atomic uintptr_t base = NOWHERE;
static _Atomic size_t length;
static uintptr_t next, usable; /* by whoever holds the global heap's lock */

int region_holds(const void *block)
{
  uintptr_t low = atomic_load_explicit(&base, memory_order_acquire);
  return (uintptr_t)block - low < atomic_load_explicit(&length, memory_order_relaxed);
}

static int reserve(void)
{
  static int tried;
  if (tried++) return 0;
  for (size_t size = MOST; size >= LEAST; size /= 2) {
    void *p = mmap(NULL, size + SUPERBLOCK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    next = usable = ((uintptr_t)p + SUPERBLOCK - 1) & ~(uintptr_t)(SUPERBLOCK - 1);
    atomic_store_explicit(&length, size, memory_order_relaxed);
    atomic_store_explicit(&base, next, memory_order_release);
    return 1;
  }
  return 0;
}

superblock *region_carve(void)
{
  uintptr_t low = atomic_load_explicit(&base, memory_order_relaxed);
  if (low == NOWHERE) {
    if (!reserve()) return NULL;
    low = next;
  }
  if (next == usable) {
    if (next - low >= atomic_load_explicit(&length, memory_order_relaxed)) return NULL;
    if (mprotect((void *)usable, PIECE, PROT_READ | PROT_WRITE) != 0) return NULL;
    usable += PIECE;
  }
  superblock *s = (superblock *)next;
  next += SUPERBLOCK;
  return s;
}
