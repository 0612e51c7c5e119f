/*
 * threads: heaps change hands here only.
 *
 * A thread that ends leaves its heap, emptied as far as it can be, on the list of orphans; the next thread that needs a heap takes one from there. So
 * there are never more heaps than there were threads at once. An orphan is owned by who holds `orphans.lock`: threads that free its blocks put them back
 * themselves, so its memory goes back without a thread of its own.
 *
 * Whether a message can be forgotten: the sender pushes and then reads `orphan`; the owner that leaves sets `orphan` and then takes the messages. All four are
 * sequentially consistent, so at least one of them sees the other's: the message is taken by the owner, or the sender finds an orphan and takes it.
 *
 * Destructors of thread-specific data may allocate after ours has run: once the thread gets a heap again, and is asked to leave it by another round of
 * destructors; after that it shares `common`, under the lock.
 *
 * In the child of a fork the other threads are gone, perhaps in the middle of a step; their heaps are never touched again, but for messages. Locks
 * are held over the fork, so what they guard is whole. What another thread had taken out to give it back to the system, without a lock, is on no list:
 * such units, segments and mappings are lost to the child.
 *
 * A program's own handlers of forks may allocate, and may wait for its threads. So ours must be the last to run before a fork, and the first after it:
 * they must be registered before all others. The library's constructor runs before those of other libraries (it is linked with -z initfirst); where
 * another one asks for the same, the first allocation registers them.
 */
#define _GNU_SOURCE
#include "threads.h"
#include "large.h"
#include "lock.h"
#include "pool.h"
#include <pthread.h>
#include <sys/mman.h>

enum { AGAIN = 2 }; /* heaps of one thread, one after the other */

__thread ma_heap *ma_mine __attribute__((tls_model("initial-exec"))) = &ma_nobody;
static __thread unsigned char ended __attribute__((tls_model("initial-exec"))); /* how many times it gave a heap back */

static struct {
  ma_lock lock;
  ma_heap *first;
  char *room, *end; /* for further heaps */
} orphans;

static ma_heap common = { .orphan = 1 };
static int common_ready;

static ma_lock key_lock;
static _Atomic int key_state; /* 0: not yet; 1: made; 2: there are no keys */
static pthread_key_t key;

/* ---- the end of a thread ---- */

static void leave(void *data)
{
  ma_heap *h = data;
  if (ma_mine != h) return;
  ma_mine = &ma_nobody;
  if (ended < AGAIN) ended++;
  ma_heap_tidy(h);
  ma_acquire(&orphans.lock);
  atomic_store_explicit(&h->orphan, 1, memory_order_seq_cst);
  ma_heap_drain(h);
  h->next = orphans.first;
  orphans.first = h;
  ma_release(&orphans.lock);
}

static int have_key(void)
{
  int state = atomic_load_explicit(&key_state, memory_order_acquire);
  if (state) return state == 1;
  ma_acquire(&key_lock);
  state = atomic_load_explicit(&key_state, memory_order_relaxed);
  if (!state) {
    state = pthread_key_create(&key, leave) == 0 ? 1 : 2;
    atomic_store_explicit(&key_state, state, memory_order_release);
  }
  ma_release(&key_lock);
  return state == 1;
}

/* ---- fork ---- */

static void all_locks(int stage)
{
  ma_pool_fork(stage);
  ma_large_fork(stage);
}

static void before_fork(void)
{
  ma_acquire(&key_lock);
  ma_acquire(&orphans.lock);
  all_locks(0);
}

static void after_fork(void)
{
  all_locks(1);
  ma_release(&orphans.lock);
  ma_release(&key_lock);
}

static void in_child(void)
{
  all_locks(2);
  atomic_store(&orphans.lock.word, 0);
  atomic_store(&key_lock.word, 0);
}

/* pthread_atfork may allocate, so no lock is held. */
static void watch_forks(void)
{
  static atomic_flag watched = ATOMIC_FLAG_INIT;
  if (!atomic_flag_test_and_set(&watched)) pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- the beginning of a thread ---- */

static ma_heap *heap_new(void)
{
  size_t size = (sizeof(ma_heap) + 63) & ~(size_t)63;
  if (orphans.room == NULL || (size_t)(orphans.end - orphans.room) < size) {
    void *p = mmap(NULL, MA_UNIT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return NULL;
    orphans.room = p;
    orphans.end = orphans.room + MA_UNIT;
  }
  ma_heap *h = (ma_heap *)(void *)orphans.room;
  orphans.room += size;
  ma_heap_init(h);
  return h;
}

ma_heap *ma_thread_begin(void)
{
  if (ended >= AGAIN) return NULL;
  int key_made = have_key();
  ma_acquire(&orphans.lock);
  ma_heap *h = orphans.first;
  if (h) {
    orphans.first = h->next;
    atomic_store_explicit(&h->orphan, 0, memory_order_seq_cst);
  } else h = heap_new();
  ma_release(&orphans.lock);
  if (!h) return NULL;
  ma_mine = h; /* before the next lines, which may allocate */
  if (key_made) pthread_setspecific(key, h);
  watch_forks();
  return h;
}

ma_heap *ma_common(void)
{
  ma_acquire(&orphans.lock);
  if (!common_ready) {
    ma_heap_init(&common);
    common_ready = 1;
  }
  return &common;
}

void ma_common_done(void) { ma_release(&orphans.lock); }

/* ---- messages to heaps without a thread ---- */

void ma_heap_send(ma_heap *h, ma_block *b)
{
  ma_messages_push(&h->messages, b);
  if (MA_LIKELY(!atomic_load_explicit(&h->orphan, memory_order_seq_cst))) return;
  ma_acquire(&orphans.lock);
  if (atomic_load_explicit(&h->orphan, memory_order_relaxed)) ma_heap_drain(h);
  ma_release(&orphans.lock);
}

int ma_orphans_trim(void)
{
  int some = 0;
  ma_acquire(&orphans.lock);
  for (ma_heap *h = orphans.first; h; h = h->next) some |= ma_heap_tidy(h);
  ma_release(&orphans.lock);
  return some;
}

__attribute__((constructor)) static void begin(void)
{
  have_key();
  watch_forks();
}
