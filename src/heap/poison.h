/* poison: tells AddressSanitizer which bytes of an arena nobody owns; nothing in other builds. */
#ifndef MR_POISON_H
#define MR_POISON_H

#include "port/port.h"

#ifdef PORT_ASAN
#include <sanitizer/asan_interface.h>
#define MR_POISON(p, n)   ASAN_POISON_MEMORY_REGION((p), (n))
#define MR_UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION((p), (n))
#else
#define MR_POISON(p, n)   ((void)0)
#define MR_UNPOISON(p, n) ((void)0)
#endif

#endif
