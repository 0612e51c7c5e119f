/*
 * sync: locks and events over futexes.
 *
 * A lock is a spin lock: it guards tens of instructions, so its holder is gone before a sleep would pay, unless the kernel
 * took the holder's CPU away; then yielding, and after that sleeping for some microseconds, lets it finish.
 * An event's word is 0 (clear), 1 (set), 2 (its one waiter sleeps, or is about to) or 3 (its waiter is in port_poll_wait).
 */
#define _GNU_SOURCE
#include "port/door.h"
#include "port/poll.h"
#include "port/system.h"
#include "port/virtual.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void port_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

void port_yield(void) { sched_yield(); }

void port_sleep(uint64_t ns) {
  mr_assert_unlocked();
  struct timespec ts = { (time_t)(ns / 1000000000u), (long)(ns % 1000000000u) };
  nanosleep(&ts, NULL);
}

/* There in programs that count how often each branch is taken, for the compiler: writes that down (cmake/config.cmake). */
#ifdef PORT_TRAINED
extern void __gcov_dump(void) __attribute__((weak));
#else
#define __gcov_dump ((void (*)(void))NULL)
#endif

void port_quit(int code) {
  port_terminal_restore();
  port_door_close();
  if (__gcov_dump) __gcov_dump();
  _exit(code);
}

void port_lock_slow(port_lock *l) {
  for (unsigned turn = 0;; turn++) {
    for (int i = 0; i < 64; i++) {
      if (!atomic_load_explicit(&l->word, memory_order_relaxed) && port_lock_grab(l)) return;
      port_pause();
    }
    if (turn < 8) sched_yield();
    else nanosleep(&(struct timespec){ 0, 20000 }, NULL);
  }
}

void port_event_set(port_event *e) {
  port_chaos();
  unsigned was = atomic_exchange_explicit(&e->word, 1, memory_order_seq_cst);
  if (was == 2) syscall(SYS_futex, &e->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  else if (was == 3) port_poll_wake();
}

/* ---- fences of which one side is cheap ---- */

int port_sees_all;

/* ThreadSanitizer does not know it. */
void port_fences_init(void) {
#ifndef PORT_TSAN
  port_sees_all = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
#endif
}

void port_seldom_stored(void) {
  if (port_sees_all) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

/* ---- time ---- */

/* What threads sleep by, also where the time that others see is virtual. */
static uint64_t true_now(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static int consume(port_event *e) {
  unsigned one = 1;
  return atomic_compare_exchange_strong(&e->word, &one, 0);
}

/* Sleeps while the word is 2, or until the deadline: -1, errno ETIMEDOUT. */
static long futex_wait(port_event *e, uint64_t deadline) {
  struct timespec ts, *limit = NULL;
  if (deadline != UINT64_MAX) {         /* FUTEX_WAIT_BITSET takes an absolute monotonic time */
    ts.tv_sec = (time_t)(deadline / 1000000000u);
    ts.tv_nsec = (long)(deadline % 1000000000u);
    limit = &ts;
  }
  return syscall(SYS_futex, &e->word, FUTEX_WAIT_BITSET_PRIVATE, 2, limit, NULL, FUTEX_BITSET_MATCH_ANY);
}

#ifdef PORT_TSAN
/*
 * ThreadSanitizer runs a signal's handler at the next call that it intercepts. The futex is none, so we make one after each; and as the signal may
 * have come just before it, we look again soon.
 */
static long sleep_until(port_event *e, uint64_t deadline) {
  uint64_t soon = true_now() + 20000000u;
  long r = futex_wait(e, deadline < soon ? deadline : soon);
  int err = errno;
  if (r < 0) nanosleep(&(struct timespec){ 0, 1 }, NULL);
  errno = err == ETIMEDOUT && deadline > soon ? EINTR : err;
  return r;
}
#else
static long sleep_until(port_event *e, uint64_t deadline) { return futex_wait(e, deadline); }
#endif

int port_event_wait(port_event *e, uint64_t deadline) {
  mr_assert_unlocked();
  for (int again = 0;; again = 1) {
    if (consume(e)) return 1;
    unsigned clear = 0;
    port_chaos();
    if (!atomic_compare_exchange_strong(&e->word, &clear, 2) && clear == 1) continue;
    mr_assert(clear == 0 || again);              /* else somebody else waits there */
    (void)again;
    if (sleep_until(e, deadline) < 0 && errno == ETIMEDOUT) {
      unsigned waiting = 2;
      if (atomic_compare_exchange_strong(&e->word, &waiting, 0)) return 0;
    }
  }
}

int port_event_spin(port_event *e, uint64_t ns) {
  uint64_t end = true_now() + ns;
  unsigned round = 0;
  do {
    for (int i = 0; i < 32; i++) {
      if (atomic_load_explicit(&e->word, memory_order_relaxed) == 1 && consume(e)) return 1;
      port_pause();
    }
    if (++round > 3) sched_yield();             /* whom we wait for may be waiting for this CPU */
  } while (true_now() < end);
  return 0;
}

uint64_t port_now(void) { return PORT_UNLIKELY(port_is_virtual()) ? port_virtual_now() : true_now(); }

uint64_t port_own_cpu(void) {
  struct timespec ts;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

double port_wall(void) {
  struct timespec ts;
  if (PORT_UNLIKELY(port_is_virtual())) return port_virtual_wall();
  clock_gettime(CLOCK_REALTIME, &ts);
  return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* splitmix64 over a counter that starts at an unpredictable place. */
uint64_t port_entropy(void) {
  static _Atomic uint64_t counter;
  if (PORT_UNLIKELY(port_is_virtual())) return port_virtual_mix(port_virtual.seed ^ port_virtual_mix(*port_virtual.stream += 0x9e3779b97f4a7c15u));
  uint64_t now = atomic_load_explicit(&counter, memory_order_relaxed);
  if (now == 0) {
    uint64_t start = port_virtual_mix(port_now() ^ ((uint64_t)getpid() << 32) ^ (uint64_t)(uintptr_t)&now) | 1;
    atomic_compare_exchange_strong(&counter, &now, start);
  }
  return port_virtual_mix(atomic_fetch_add_explicit(&counter, 0x9e3779b97f4a7c15u, memory_order_relaxed));
}

#ifdef MR_CHAOS
/* Most calls do nothing, some yield, few sleep; the seed is printed so that a failure can be tried again. */
void port_chaos(void) {
  static PORT_TLS uint64_t state;
  static _Atomic uint64_t seed, threads;
  if (state == 0) {
    uint64_t s = atomic_load(&seed);
    if (s == 0) {
      const char *given = getenv("MARE_CHAOS");
      uint64_t fresh = given ? strtoull(given, NULL, 10) | 1 : (port_now() | 1) & 0xffffffffffu;
      if (atomic_compare_exchange_strong(&seed, &s, fresh)) {
        s = fresh;
        fprintf(stderr, "MARE_CHAOS=%llu\n", (unsigned long long)s);
      }
    }
    state = port_virtual_mix(s + 77 * atomic_fetch_add(&threads, 1)) | 1;
  }
  state = state * 6364136223846793005u + 1442695040888963407u;
  unsigned r = (unsigned)(state >> 40) & 1023;
  if (r == 0) nanosleep(&(struct timespec){ 0, 30000 }, NULL);
  else if (r < 8) sched_yield();
  else if (r < 64) for (unsigned i = 0; i < r; i++) port_pause();
}
#endif
