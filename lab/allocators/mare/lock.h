/*
 * lock: a mutex in one word. A waiter spins a little and then sleeps, since the holder may have lost its CPU. 0 free, 1 held, 2 held and perhaps
 * somebody sleeps.
 *
 * Held for tens of instructions, and not while the system maps or unmaps memory; but for the orphans' (threads.c), under which
 *  - what others freed is put back into a heap without a thread, so that spans may go back to the system. A thread that ends has done so for its own heap
 *    before; only what came since is left;
 *  - a mapping is made for further heaps, once in some twenty threads;
 *  - a thread allocates that has no heap any more, or for which there is no memory for one.
 */
#ifndef MA_LOCK_H
#define MA_LOCK_H

#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct { _Atomic int word; } ma_lock;

static inline int ma_try(ma_lock *l, int as)
{
  int expected = 0;
  return atomic_compare_exchange_strong_explicit(&l->word, &expected, as, memory_order_acquire, memory_order_relaxed);
}

static inline void ma_pause(void)
{
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static __attribute__((noinline, unused)) void ma_lock_wait(ma_lock *l)
{
  for (int i = 0; i < 64; i++) {
    if (atomic_load_explicit(&l->word, memory_order_relaxed) == 0 && ma_try(l, 1)) return;
    ma_pause();
  }
  while (atomic_exchange_explicit(&l->word, 2, memory_order_acquire) != 0)
    syscall(SYS_futex, &l->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static inline void ma_acquire(ma_lock *l)
{
  if (!ma_try(l, 1)) ma_lock_wait(l);
}

static inline void ma_release(ma_lock *l)
{
  if (atomic_exchange_explicit(&l->word, 0, memory_order_release) == 2)
    syscall(SYS_futex, &l->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
