/*
 * virtual: a clock that stands until somebody moves it, numbers drawn from a seed, and memory at addresses that are the same in each run. For
 * programs whose runs can be repeated (run/replay.h); a program that never calls port_virtual_begin notices nothing of it.
 *
 * In such a program one thread of ours runs at a time, so nothing here is locked. What the system chooses anew in each run, and a program could see or
 * be changed by:
 *   time     port_now, port_wall and the C library's time and clock, as far as Lua calls them (linked with --wrap), give the virtual time
 *   chance   port_entropy is drawn from the seed and from the stream that was chosen last
 *   pages    port_pages_reserve hands out one range of addresses from its beginning, and never one twice; the stacks of threads are there, too
 *   malloc   one arena, which begins at an address above all that the system could have chosen for it
 *   stack    what port_virtual_stack calls runs on one of these stacks (Lua draws its hash seed from the address of a variable)
 * Builds with a sanitizer have malloc and stacks of their own: there only the first two hold.
 */
#ifndef PORT_VIRTUAL_H
#define PORT_VIRTUAL_H

#include "port/port.h"

typedef struct port_virtual_world {
  atomic_int on;                       /* these two others may look at: who ends the program, who sleeps */
  _Atomic uint64_t now;                /* of port_now: ns */
  uint64_t looks;                      /* in a row at the clock, without anything that others could see in between */
  uint64_t *stream;                    /* port_entropy's */
  uint64_t seed;
} port_virtual_world;
extern port_virtual_world port_virtual;
static inline int port_is_virtual(void) { return atomic_load_explicit(&port_virtual.on, memory_order_relaxed); }
static inline uint64_t port_virtual_now(void) { return atomic_load_explicit(&port_virtual.now, memory_order_relaxed); }

/* ---- at the beginning of main, in this order ---- */
void port_virtual_memory(void);        /* before the first use of malloc; undone by port_virtual_end only in part */
void port_virtual_begin(void);         /* from here on */
int  port_virtual_stack(int (*fn)(void *), void *arg);     /* calls it on a stack of ours */
void port_virtual_end(void);           /* the true time again, as something waits for others; what is mapped stays */

/* ---- while it lasts ---- */
void port_virtual_seed(uint64_t seed);
void port_virtual_stream(uint64_t *stream);                /* a number of its owner's, which has a state of its own there */
uint64_t port_virtual_mix(uint64_t n);                     /* a number in which each bit depends on all of n */
/* Time passes: `ns`; until `now`, if that is later; by somebody's look at the clock. The more looks in a row, the more: waiting by looking ends soon. */
void port_virtual_pass(uint64_t ns);
void port_virtual_until(uint64_t now);
void port_virtual_look(void);
double port_virtual_wall(void);        /* the same time, in seconds since 1970 */
static inline void port_virtual_seen(void) { port_virtual.looks = 0; }     /* something else than a look */

#if defined(PORT_ASAN) || defined(PORT_TSAN)
#define PORT_SANITIZED 1
#else
#define PORT_SANITIZED 0
#endif

/* For pages.c and thread.c. */
void *port_virtual_place(size_t len, size_t align);        /* NULL: none left */

#endif
