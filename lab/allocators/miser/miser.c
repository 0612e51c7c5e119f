/*
 * Miser, as chapter 3.5 of the study describes it: heaps of one thread each over superblocks of blocks of up to 256 bytes; what is larger is the C
 * library's. docs/lab-allocators.md says what is certain about the original, and what is ours.
 *
 * Invariants:
 *  - a superblock belongs to one heap, and a heap to one thread or, when its thread has ended, to none: then it is idle, with the blocks that are
 *    still in use, and the next thread that starts takes it over. So allocating and giving back what is one's own takes no lock;
 *  - in a heap, a superblock with blocks in use is on the list of its class and group, one without is on the empty list;
 *  - a block that another thread gives back goes into the inbox of the heap that owns it, which that heap's thread takes in when it needs blocks;
 *  - `lock` protects the global heap (superblocks that nobody uses), the idle heaps and the region. Nothing is allocated under it.
 */
#define _GNU_SOURCE
#include "../forks.h"
#include "../heap.h"
#include "region.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t number, size_t size);
extern void *__libc_realloc(void *block, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *block);

enum { HEAPS = 1024, KEPT = 4 }; /* KEPT: empty superblocks that a heap keeps for itself */

typedef struct heap {
  superblock *bins[CLASSES][GROUPS];
  superblock *empty;
  unsigned empties;
  struct heap *idle; /* the next idle one */
  _Alignas(64) _Atomic(void *) inbox;
} heap;

static heap heaps[HEAPS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static superblock *global; /* linked by `next` alone */
static heap *idle;
static unsigned created;
static pthread_key_t leaving;

enum { NEW, INSIDE, OUTSIDE }; /* OUTSIDE: the thread has no heap, because it is ending, or because there were HEAPS already */
static _Thread_local heap *mine __attribute__((tls_model("initial-exec")));
static _Thread_local int state __attribute__((tls_model("initial-exec")));

/* ---- superblocks of a heap; by its thread ---- */

static void retire(heap *h, superblock *s)
{
  if (h->empties < KEPT) {
    list_push(&h->empty, s);
    h->empties++;
    return;
  }
  pthread_mutex_lock(&lock);
  s->next = global;
  global = s;
  pthread_mutex_unlock(&lock);
}

static void take_in(heap *h, superblock *s, void *block)
{
  superblock_give(s, block);
  if (s->used >= s->fall && s->used) return;
  list_remove(&h->bins[s->class][s->group], s);
  if (!s->used) {
    retire(h, s);
    return;
  }
  group_set(s);
  list_push(&h->bins[s->class][s->group], s);
}

static int empty_inbox(heap *h)
{
  void *block = atomic_load_explicit(&h->inbox, memory_order_relaxed) ? atomic_exchange_explicit(&h->inbox, NULL, memory_order_acquire) : NULL;
  int any = block != NULL;
  for (void *next; block; block = next) {
    next = *(void **)block;
    take_in(h, home(block), block);
  }
  return any;
}

/* The fullest that has room, so that the others may become empty. */
static superblock *fullest(heap *h, unsigned class)
{
  superblock **groups = h->bins[class];
  for (int g = FULL - 1; g >= 0; g--)
    if (groups[g]) return groups[g];
  return NULL;
}

static superblock *from_global(void)
{
  pthread_mutex_lock(&lock);
  superblock *s = global;
  if (s) global = s->next;
  else s = region_carve();
  pthread_mutex_unlock(&lock);
  return s;
}

/* When no superblock of a class has room: what others gave back, an empty one, one of the global heap, a new one. NULL: there is no memory. */
static superblock *another(heap *h, unsigned class)
{
  superblock *s = empty_inbox(h) ? fullest(h, class) : NULL;
  if (s) return s;
  s = h->empty;
  if (s) {
    list_remove(&h->empty, s);
    h->empties--;
  } else {
    s = from_global();
    if (!s) return NULL;
    atomic_store_explicit(&s->owner, h, memory_order_relaxed);
  }
  superblock_format(s, class);
  list_push(&h->bins[class][s->group], s);
  return s;
}

static void *take(heap *h, unsigned class)
{
  superblock *s = fullest(h, class);
  if (!s && !(s = another(h, class))) return NULL;
  void *block = superblock_take(s);
  if (s->used >= s->rise) {
    list_remove(&h->bins[class][s->group], s);
    group_set(s);
    list_push(&h->bins[class][s->group], s);
  }
  return block;
}

/* ---- threads ---- */

static void leave(void *own)
{
  heap *h = own;
  empty_inbox(h);
  mine = NULL;
  state = OUTSIDE;
  pthread_mutex_lock(&lock);
  for (superblock *s = h->empty, *next; s; s = next) {
    next = s->next;
    s->next = global;
    global = s;
  }
  h->empty = NULL;
  h->empties = 0;
  h->idle = idle;
  idle = h;
  pthread_mutex_unlock(&lock);
}

static heap *enter(void)
{
  static int ready; /* 1: there is a key; -1: there can be none */
  state = OUTSIDE;
  pthread_mutex_lock(&lock);
  if (!ready) ready = pthread_key_create(&leaving, leave) == 0 ? 1 : -1;
  heap *h = idle;
  if (ready < 0) h = NULL;
  else if (h) idle = h->idle;
  else if (created < HEAPS) h = &heaps[created++];
  pthread_mutex_unlock(&lock);
  if (!h) return NULL;
  mine = h;
  state = INSIDE;
  pthread_setspecific(leaving, h); /* may allocate. If it fails, the heap is lost when the thread ends, and nothing else */
  watch_forks();
  return h;
}

static inline heap *own(void) { return mine ? mine : state == NEW ? enter() : NULL; }

/* In a child only the thread that forked is there: heaps of others may be in the middle of something, and nobody gets them. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void after_fork(void) { pthread_mutex_unlock(&lock); }

/* ---- the allocator ---- */

static void *small(size_t size)
{
  heap *h = own();
  return h ? take(h, class_of(size)) : NULL;
}

void *heap_allocate(size_t size)
{
  void *block = size <= LARGEST ? small(size) : NULL;
  return block ? block : __libc_malloc(size);
}

void *heap_zeroed(size_t size)
{
  void *block = size <= LARGEST ? small(size) : NULL;
  return block ? memset(block, 0, size) : __libc_calloc(1, size);
}

void *heap_aligned(size_t alignment, size_t size)
{
  void *block = size <= LARGEST && alignment <= LARGEST ? small(size > alignment ? size : alignment) : NULL;
  return block ? block : __libc_memalign(alignment, size);
}

void heap_release(void *block)
{
  if (!region_holds(block)) {
    __libc_free(block);
    return;
  }
  superblock *s = home(block);
  heap *owner = atomic_load_explicit(&s->owner, memory_order_relaxed);
  if (owner == mine) {
    take_in(owner, s, block);
    return;
  }
  void *first = atomic_load_explicit(&owner->inbox, memory_order_relaxed);
  do *(void **)block = first;
  while (!atomic_compare_exchange_weak_explicit(&owner->inbox, &first, block, memory_order_release, memory_order_relaxed));
}

void *heap_resize(void *block, size_t size)
{
  if (!region_holds(block)) return __libc_realloc(block, size);
  size_t room = home(block)->size;
  if (size <= room && (size > room / 2 || room == SMALLEST)) return block;
  void *other = heap_allocate(size);
  if (!other) return NULL;
  memcpy(other, block, size < room ? size : room);
  heap_release(block);
  return other;
}

/* The C library has no other name for it. */
static size_t usable_elsewhere(void *block)
{
  static _Atomic(size_t (*)(void *)) known;
  size_t (*ask)(void *) = atomic_load_explicit(&known, memory_order_relaxed);
  if (!ask) {
    ask = (size_t(*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    if (!ask) return 0;
    atomic_store_explicit(&known, ask, memory_order_relaxed);
  }
  return ask(block);
}

size_t heap_usable(void *block) { return region_holds(block) ? home(block)->size : usable_elsewhere(block); }
