/* virtual: see virtual.h. */
#define _GNU_SOURCE
#include "port/virtual.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#include <ucontext.h>
#endif

#define BEGIN UINT64_C(1000000000)     /* ns of port_now at first */
#define EPOCH 946684800                /* 2000-01-01 00:00:00 UTC */
#define LOOK 1000u                     /* ns that a look at the clock takes */
#define PATIENT 1024                   /* so many looks in a row before the next ones take twice as long, and so on */
#define DOUBLINGS 20

port_virtual_world port_virtual;

static uint64_t anybody;               /* the stream of who has none */

/* ---- time ---- */

void port_virtual_pass(uint64_t ns) { atomic_store_explicit(&port_virtual.now, port_virtual_now() + ns, memory_order_relaxed); }

void port_virtual_until(uint64_t now) {
  if (now > port_virtual_now()) atomic_store_explicit(&port_virtual.now, now, memory_order_relaxed);
}

void port_virtual_look(void) {
  uint64_t doublings = port_virtual.looks++ / PATIENT;
  port_virtual_pass((uint64_t)LOOK << (doublings < DOUBLINGS ? doublings : DOUBLINGS));
}

double port_virtual_wall(void) { return EPOCH + (double)(port_virtual_now() - BEGIN) / 1e9; }

/* The C library's, for Lua: see cmake/core.cmake. */
time_t __wrap_time(time_t *at);
clock_t __wrap_clock(void);

time_t __wrap_time(time_t *at) {
  struct timespec ts = { .tv_sec = -1 };
  if (port_is_virtual()) {
    port_virtual_look();
    ts.tv_sec = (time_t)(EPOCH + (port_virtual_now() - BEGIN) / 1000000000u);
  } else {
#ifdef CLOCK_REALTIME_COARSE           /* what time() reads */
    clock_gettime(CLOCK_REALTIME_COARSE, &ts);
#else
    clock_gettime(CLOCK_REALTIME, &ts);
#endif
  }
  if (at) *at = ts.tv_sec;
  return ts.tv_sec;
}

clock_t __wrap_clock(void) {
  struct timespec ts;
  if (port_is_virtual()) {
    port_virtual_look();
    return (clock_t)((port_virtual_now() - BEGIN) / (1000000000u / CLOCKS_PER_SEC));
  }
  if (clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) != 0) return (clock_t)-1;
  return (clock_t)ts.tv_sec * CLOCKS_PER_SEC + (clock_t)(ts.tv_nsec / (1000000000 / CLOCKS_PER_SEC));
}

/* ---- chance: splitmix64 ---- */

uint64_t port_virtual_mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void port_virtual_seed(uint64_t seed) {
  port_virtual.seed = port_virtual_mix(seed + 0x9e3779b97f4a7c15u);
  anybody = 0;
}

void port_virtual_stream(uint64_t *stream) { port_virtual.stream = stream ? stream : &anybody; }

/* ---- pages ---- */

#if defined(PORT_TSAN)                 /* where it has shadows */
#define PLACES UINT64_C(0x1000000000)
#define PLACES_END UINT64_C(0x6000000000)
#else                                  /* far below where the system puts libraries and stacks, above AddressSanitizer's shadows */
#define PLACES UINT64_C(0x110000000000)
#define PLACES_END UINT64_C(0x500000000000)
#endif

void *port_virtual_place(size_t len, size_t align) {
  static uint64_t next = PLACES;
  uint64_t page = 4096, least = align > page ? align : page;
  for (int tries = 0; tries < 16; tries++) {
    uint64_t at = (next + least - 1) / least * least;
    if (at + len < at || at + len > PLACES_END) return NULL;
    next = at + (len + page - 1) / page * page;
    void *p = port_pages_reserve_at((void *)(uintptr_t)at, len);
    if (p) return p;
  }
  return NULL;
}

/* ---- malloc ---- */

static int malloc_is_bound;

/*
 * The system begins a program's break somewhere behind its data, in a range of up to 1 GiB. So the break is moved to an address above that range -
 * nothing of what lies in between is ever touched -, and what malloc had before is used up: from then on it takes from there.
 */
void port_virtual_memory(void) {
  static char out[BUFSIZ], in[BUFSIZ];           /* malloc'd ones would be of a size that depends on what is at the other end */
  setvbuf(stdout, out, isatty(1) ? _IOLBF : _IOFBF, sizeof out);
  setvbuf(stdin, in, _IOFBF, sizeof in);
#ifdef __GLIBC__
  enum { ABOVE = 0x60000000, ENOUGH = 100000 };
  void **spent = NULL;
  if (PORT_SANITIZED) return;
  malloc_is_bound = 1;
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_MAX, 0);
  char *now = sbrk(0);
  if (now == (char *)-1 || (uintptr_t)now >= ABOVE || sbrk((intptr_t)(ABOVE - (uintptr_t)now)) == (void *)-1) return;
  for (int i = 0; i < ENOUGH; i++) {
    void **p = malloc(sizeof *p);
    if (!p || (uintptr_t)p >= ABOVE) break;
    *p = spent;                        /* leads to all of them: nothing counts as lost */
    spent = p;
  }
  static void **volatile all;
  all = spent;
  (void)all;
#endif
}

/* ---- all of it ---- */

void port_virtual_begin(void) {
  atomic_store(&port_virtual.now, BEGIN);
  port_virtual.looks = 0;
  port_virtual_stream(NULL);
  port_virtual_seed(0);
  atomic_store(&port_virtual.on, 1);
}

void port_virtual_end(void) {
  atomic_store(&port_virtual.on, 0);
#ifdef __GLIBC__
  if (!malloc_is_bound) return;                  /* whoever calls mallopt has each large block mapped and unmapped from then on */
  mallopt(M_ARENA_MAX, 0);
  mallopt(M_MMAP_MAX, 65536);
#endif
}

#if defined(__GLIBC__) && !PORT_SANITIZED
static struct { ucontext_t here, there; int (*fn)(void *); void *arg; int result; } call;

static void on_stack(void) { call.result = call.fn(call.arg); }

int port_virtual_stack(int (*fn)(void *), void *arg) {
  size_t size = 8 * 1024 * 1024;
  void *stack = port_virtual_place(size, 4096);
  if (!stack || getcontext(&call.there) != 0) return fn(arg);
  mprotect(stack, 4096, PROT_NONE);
  call.there.uc_stack.ss_sp = stack;
  call.there.uc_stack.ss_size = size;
  call.there.uc_link = &call.here;
  call.fn = fn;
  call.arg = arg;
  makecontext(&call.there, on_stack, 0);
  return swapcontext(&call.here, &call.there) == 0 ? call.result : fn(arg);
}
#else
int port_virtual_stack(int (*fn)(void *), void *arg) { return fn(arg); }
#endif
