/*
 * port: the only door to the operating system, and to what C11 leaves to the compiler.
 *
 * Contract: pointers are never NULL, lengths never 0. Results are 0 or an errno value unless said otherwise.
 * Nothing here allocates from malloc except port_thread_start.
 */
#ifndef PORT_H
#define PORT_H

#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#if defined(__GNUC__)
#define PORT_LIKELY(x)   __builtin_expect(!!(x), 1)
#define PORT_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define PORT_NOINLINE    __attribute__((noinline))
#define PORT_INLINE      inline __attribute__((always_inline))
#define PORT_NORETURN    __attribute__((noreturn))
#define PORT_NEVER()     __builtin_unreachable()
#define PORT_ALIAS       __attribute__((may_alias))  /* of a type: others' objects are seen through it */
#define PORT_TLS         __thread __attribute__((tls_model("initial-exec")))
#define PORT_PREFETCH(p) __builtin_prefetch(p)
#define PORT_LOG2(x)     (63u - (unsigned)__builtin_clzll(x))   /* of a 64-bit value, not 0 */
#define PORT_LOWBIT(x)   ((unsigned)__builtin_ctzll(x))         /* likewise */
/* Four words at once, wherever they can be added so; in functions that are PORT_WIDE by one instruction: call those if port_wide(). */
typedef uint64_t port_words __attribute__((vector_size(32), may_alias));
#if defined(__x86_64__)
#define PORT_WIDE        __attribute__((target("avx2")))
#define port_wide()      (__builtin_cpu_supports("avx2") != 0)
#else
#define PORT_WIDE
#define port_wide()      0
#endif
#else
#define PORT_LIKELY(x)   (x)
#define PORT_UNLIKELY(x) (x)
#define PORT_NOINLINE
#define PORT_INLINE      inline
#define PORT_NEVER()     ((void)0)
#define PORT_NORETURN    _Noreturn
#define PORT_ALIAS
#define PORT_TLS         _Thread_local
#endif
#define PORT_CACHELINE 64

#if defined(__SANITIZE_ADDRESS__)
#define PORT_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PORT_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define PORT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PORT_TSAN 1
#endif
#endif

#include "port/check.h"

/* Tests that stress the protocols build with MR_CHAOS: a random delay, drawn from a printed seed, before each compare-and-swap. */
#ifdef MR_CHAOS
void port_chaos(void);
#else
#define port_chaos() ((void)0)
#endif

/* ---- time ---- */
uint64_t port_now(void);                      /* monotonic, nanoseconds */
uint64_t port_own_cpu(void);                  /* CPU time that this program has had, all threads, nanoseconds */
double   port_wall(void);                     /* seconds since 1970 */
uint64_t port_entropy(void);                  /* 64 bits, different at every call, never blocks */

/* ---- lock: held for tens of instructions, never across a Lua call ---- */
/* In which order locks may be taken is said in base/rank.h, and seen to in builds with checks (check.h). */
typedef struct {
  atomic_uint word;
#ifdef MR_CHECKS
  unsigned rank;
#endif
} port_lock;
void port_lock_slow(port_lock *l);
static inline int port_lock_grab(port_lock *l) {
  return !atomic_exchange_explicit(&l->word, 1, memory_order_acquire);
}
static inline void port_lock_take(port_lock *l) {
  port_chaos();
  if (PORT_UNLIKELY(!port_lock_grab(l))) port_lock_slow(l);
}
static inline void port_lock_leave(port_lock *l) { atomic_store_explicit(&l->word, 0, memory_order_release); }
#ifdef MR_CHECKS
#define PORT_LOCK(its_rank) { .rank = (its_rank) }
static inline void port_lock_rank(port_lock *l, unsigned rank) { l->rank = rank; }
static inline void port_lock_in(port_lock *l, const char *file, int line) {
  port_check_taking(l, l->rank, file, line);
  port_lock_take(l);
  port_check_taken(l, l->rank, file, line);
}
static inline int port_lock_try(port_lock *l, const char *file, int line) {
  if (!port_lock_grab(l)) return 0;
  port_check_taken(l, l->rank, file, line);
  return 1;
}
static inline void port_lock_out(port_lock *l, const char *file, int line) {
  port_check_leaving(l, file, line);
  port_lock_leave(l);
}
#define port_acquire(l) port_lock_in(l, __FILE__, __LINE__)
#define port_trylock(l) port_lock_try(l, __FILE__, __LINE__)
#define port_unlock(l)  port_lock_out(l, __FILE__, __LINE__)
#else
#define PORT_LOCK(its_rank) { 0 }
#define port_lock_rank(l, its_rank) ((void)(l), (void)(its_rank))
#define port_acquire(l) port_lock_take(l)
#define port_trylock(l) port_lock_grab(l)
#define port_unlock(l)  port_lock_leave(l)
#endif

/* ---- event: one waiter; a set is remembered until the wait that consumes it ---- */
typedef struct { atomic_uint word; } port_event;
void port_event_set(port_event *e);
/* Waits until set; deadline in port_now() time, UINT64_MAX = none. 1 = was set (and is consumed), 0 = timed out. */
int  port_event_wait(port_event *e, uint64_t deadline);
int  port_event_spin(port_event *e, uint64_t ns);   /* the same, without sleeping */
void port_pause(void);                        /* one turn of a spin loop */
/* What was stored before some lock was taken is seen by all others before what is loaded from here on. (There, taking a lock is a full barrier.) */
static inline void port_fence_after_lock(void) {
#if defined(__x86_64__) || defined(__i386__)
  atomic_signal_fence(memory_order_seq_cst);
#else
  atomic_thread_fence(memory_order_seq_cst);
#endif
}
/*
 * Two threads each store one thing and then load the other's: at least one of them sees what the other has stored. For pairs of which one side does it
 * all the time and the other seldom: port_store_often is a plain store where the system can make all threads of the program see it (membarrier),
 * port_seldom_stored has it do so, which takes microseconds. What is loaded afterwards is loaded by atomic_load.
 */
extern int port_sees_all;                     /* the system can; set by port_fences_init, before there are threads */
void port_fences_init(void);
static inline void port_store_often(atomic_uchar *at, unsigned char value) {
  if (!port_sees_all) {
    atomic_exchange(at, value);
    return;
  }
  atomic_store_explicit(at, value, memory_order_relaxed);
  atomic_signal_fence(memory_order_seq_cst);
}
void port_seldom_stored(void);                /* between the store, which is a seq_cst operation, and the load */
void port_sleep(uint64_t ns);
PORT_NORETURN void port_quit(int code);       /* _exit: no handlers, nothing flushed */
void port_at_fork(void (*child)(void));       /* runs in children of fork() */
/* Adds one to what only the calling thread writes, and others read: no atomic operation. Compilers make three instructions of it. */
static inline void port_count(_Atomic uint64_t *n) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(PORT_TSAN)
  uint64_t *at = (uint64_t *)(void *)n;
  __asm__("incq %0" : "+m"(*at) : : "cc");
#else
  atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
#endif
}
void port_yield(void);                        /* let another kernel thread run */

/* ---- threads ---- */
/* Written by its thread; others may look at a record that changes hands, and then see some thread's. */
typedef struct port_thread { uintptr_t handle; atomic_uintptr_t clock; atomic_int id; } port_thread;
int  port_thread_start(void (*fn)(void *), void *arg, const char *name);  /* on its own, never joined */
int  port_thread_fork(port_thread *t, void (*fn)(void *), void *arg, const char *name);   /* must be joined */
void port_thread_join(port_thread *t);
int  port_thread_at_end(void (*fn)(void));    /* fn runs when the calling thread ends; the same function for all threads of the program */
void port_thread_self(port_thread *t);
uint64_t port_thread_cpu(const port_thread *t);/* nanoseconds of CPU it has used; 0 = unknown */
long port_thread_sleeps(void);                /* how often the calling thread has slept in the kernel */
int  port_thread_runnable(const port_thread *t);/* on a CPU or waiting for one, not blocked; 1 when unknown */
int  port_thread_kick(const port_thread *t);  /* sends it the preemption signal */
/* Installs the handler of the preemption signal (number from MARE_SIGNAL, default SIGURG). */
int  port_kick_handler(void (*fn)(void));
int  port_kick_signal(void);                  /* its number */
int  port_cpu(void);                          /* on which the caller runs, -1 = unknown */
void port_thread_elsewhere(void);             /* the calling thread goes on on another CPU, if it may use another */
int  port_cpus(void);                         /* allowed by affinity and cgroup, at least 1 */

/* ---- memory ---- */
/* A zeroed block that begins with a cache line; NULL: no memory. Freed by port_lines_free only. */
void *port_lines_new(size_t size);
void  port_lines_free(void *block);                  /* or NULL */

/* ---- pages ---- */
void *port_pages_reserve(size_t len, size_t align);  /* zeroed, read-write; NULL: no memory */
void  port_pages_release(void *p, size_t len);       /* unmaps */
void  port_pages_discard(void *p, size_t len);       /* stays mapped, content becomes zero when touched again */
void  port_malloc_trim(void);                        /* malloc's unused pages go back to the system, where it can be told */
void  port_pages_huge(void *p, size_t len);          /* advice: huge pages pay here */
void *port_pages_reserve_at(void *p, size_t len);    /* at exactly that address, or NULL */
/* Other length, perhaps another place (aligned), content kept up to the shorter one; NULL: nothing changed. */
void *port_pages_remap(void *p, size_t len, size_t newlen, size_t align);

#endif
