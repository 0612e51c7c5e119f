/*
 * Ptmalloc3, as chapter 3.3 of the study describes it: arenas over Doug Lea's malloc 2.8.3, which a package of a registry brings (lab/allocators.toml).
 * docs/lab-allocators.md says what is certain about the original, and what is ours.
 *
 * Invariants:
 *  - an arena is a space of dlmalloc with its mutex; whoever touches its chunks holds that. The first is dlmalloc's main space, which grows by sbrk;
 *  - a block belongs to the arena it came from for ever, and says so in its footer (dlmalloc's FOOTERS);
 *  - a thread takes blocks from the arena it took the last one from. Is that locked, it tries the others; are all locked, it makes a new one. So taking
 *    waits only where no more arenas can be made; giving back waits for the block's own;
 *  - arenas are never removed. Order of locks: `growing`, then arenas in the order of the table.
 */
#define _GNU_SOURCE
#define MSPACES 1
#define FOOTERS 1
#include "../dlmalloc/settings.h"
#include "dlmalloc.c"
#include "../forks.h"
#include "../heap.h"
#include "../dlmalloc/copied.h"
#include <stdatomic.h>

enum { MOST = 256 };

static _Atomic(mstate) arenas[MOST];
static atomic_int count;
static pthread_mutex_t growing = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local mstate last __attribute__((tls_model("initial-exec")));

static mstate arena(int i) { return atomic_load_explicit(&arenas[i], memory_order_relaxed); }
static int free_to_take(mstate m) { return pthread_mutex_trylock(&m->mutex) == 0; }

/* The main arena, without dlmalloc's own locking: its mutex is ours. */
static void begin(void)
{
  pthread_mutex_lock(&growing);
  if (!atomic_load_explicit(&count, memory_order_relaxed)) {
    init_mparams();
    disable_lock(gm);
    atomic_store_explicit(&arenas[0], gm, memory_order_relaxed);
    atomic_store_explicit(&count, 1, memory_order_release);
  }
  pthread_mutex_unlock(&growing);
  watch_forks();
}

/* A new arena, locked; NULL where there are enough, or no memory. */
static mstate new_arena(void)
{
  pthread_mutex_lock(&growing);
  int n = atomic_load_explicit(&count, memory_order_relaxed);
  mstate m = n < MOST ? create_mspace(0, 0) : NULL;
  if (m) {
    pthread_mutex_lock(&m->mutex);
    atomic_store_explicit(&arenas[n], m, memory_order_relaxed);
    atomic_store_explicit(&count, n + 1, memory_order_release);
  }
  pthread_mutex_unlock(&growing);
  return m;
}

static mstate lock_another(void)
{
  int n = atomic_load_explicit(&count, memory_order_acquire);
  for (int i = 0; i < n; i++)
    if (free_to_take(arena(i))) return arena(i);
  mstate m = new_arena();
  if (m) return m;
  pthread_mutex_lock(&last->mutex);
  return last;
}

static mstate lock_arena(void)
{
  if (!last) {
    if (!atomic_load_explicit(&count, memory_order_acquire)) begin();
    last = gm;
  }
  return last = free_to_take(last) ? last : lock_another();
}

static void *unlocked(mstate m, void *block)
{
  pthread_mutex_unlock(&m->mutex);
  return block;
}

/*
 * The arena of a block, and its size. The head of its chunk is read without a lock: another thread may set the bit in it that says whether the chunk
 * before is in use, never the others while the block is. So did the original; ThreadSanitizer is told that it is meant.
 */
__attribute__((no_sanitize_thread, noinline)) static mstate arena_of(void *block) { return get_mstate_for(mem2chunk(block)); }

__attribute__((no_sanitize_thread, noinline)) size_t heap_usable(void *block)
{
  mchunkptr chunk = mem2chunk(block);
  return chunksize(chunk) - overhead_for(chunk);
}

static mstate lock_arena_of(void *block)
{
  mstate m = arena_of(block);
  pthread_mutex_lock(&m->mutex);
  return m;
}

void *heap_allocate(size_t size)
{
  mstate m = lock_arena();
  return unlocked(m, m == gm ? dlmalloc(size) : mspace_malloc(m, size));
}

void *heap_zeroed(size_t size)
{
  mstate m = lock_arena();
  return unlocked(m, m == gm ? dlcalloc(1, size) : mspace_calloc(m, 1, size));
}

void *heap_aligned(size_t alignment, size_t size)
{
  mstate m = lock_arena();
  return unlocked(m, m == gm ? dlmemalign(alignment, size) : mspace_memalign(m, alignment, size));
}

void *heap_resize(void *block, size_t size)
{
  if (must_be_copied(block)) return resize_by_copying(block, size);
  mstate m = lock_arena_of(block);
  return unlocked(m, dlrealloc(block, size));
}

void heap_release(void *block)
{
  int before = errno;
  mstate m = lock_arena_of(block);
  dlfree(block);
  pthread_mutex_unlock(&m->mutex);
  errno = before;
}

/* ---- forks: the child has all arenas, none of them locked ---- */

static void before_fork(void)
{
  pthread_mutex_lock(&growing);
  for (int i = 0; i < atomic_load_explicit(&count, memory_order_relaxed); i++) pthread_mutex_lock(&arena(i)->mutex);
}

static void after_fork(void)
{
  for (int i = atomic_load_explicit(&count, memory_order_relaxed); i-- > 0;) pthread_mutex_unlock(&arena(i)->mutex);
  pthread_mutex_unlock(&growing);
}
