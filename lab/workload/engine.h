/* Running a script, timed: see engine.c. */
#ifndef MARE_LAB_ENGINE_H
#define MARE_LAB_ENGINE_H

#include "../reader/counts.h"
#include "script.h"

enum en_touch { EN_NONE, EN_FIRST, EN_ENDS, EN_PAGES, EN_LINE, EN_ALL };
enum en_routine { EN_MALLOC, EN_CALLOC, EN_REALLOC, EN_FREE, EN_ROUTINES };

typedef struct en_latency { uint64_t count, most, classes[CT_CLASSES]; } en_latency;

typedef struct en_result {
  double seconds, cpu_seconds, wait_seconds;
  uint64_t operations, allocations, frees, reallocs, shared_frees, waits;
  uint64_t requested_peak, peak_bytes, after_bytes, harness_bytes;
  int64_t minor_faults, major_faults, voluntary, involuntary;
  en_latency latency[EN_ROUTINES];
  int failed; /* an allocation returned NULL */
  uint64_t failed_size;
} en_result;

/* What a run measures beside its time, which both disturb. */
enum { EN_LATENCY = 1, EN_EXACT_PEAK = 2 };

/* 0, or an errno value with *what naming what could not be done. cpus: pin to the first so many, 0: don't. */
int en_run(const sc_script *s, enum en_touch touch, unsigned cpus, unsigned also, en_result *r, const char **what);

/* memory.c: of this process, in bytes; exact, from smaps_rollup where that exists. */
uint64_t mem_resident(void);
uint64_t mem_anonymous(void); /* of what is resident: without pages of files, of which the kernel maps sixteen for one that is touched */
uint64_t mem_peak(void);
void mem_forget_peak(void);
uint64_t mem_grain(void); /* how far VmHWM may be off */

#endif
