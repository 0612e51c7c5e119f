/*
 * ticks: the cheapest clock there is, for what is measured at every step: all CPUs agree on it, and it never stops or goes backwards. How long a
 * tick is must be measured against port_now.
 */
#ifndef PORT_TICKS_H
#define PORT_TICKS_H

#include "port/port.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
/* The processor's counter is a clock only where it is invariant; and the system says so by using it. */
static inline int port_ticks_counted(void) {
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & 1u << 8);
}
extern int port_ticks_known;                  /* -1: not looked yet; 0: port_now it is */
static inline uint64_t port_ticks(void) { return PORT_LIKELY(port_ticks_known > 0) ? (uint64_t)__rdtsc() : port_now(); }
#else
static inline uint64_t port_ticks(void) { return port_now(); }
#endif
/* Before the first port_ticks. 1: a tick is a nanosecond. */
int port_ticks_begin(void);

#endif
