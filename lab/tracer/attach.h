/*
 * This process's place in the trace: its record in the mapping, its table of regions and its streams. All three are made anew in a forked child,
 * before its first event.
 */
#ifndef MARE_LAB_ATTACH_H
#define MARE_LAB_ATTACH_H

#include "record.h"
#include <pthread.h>

typedef struct tr_streams {
  _Atomic uint64_t idle; /* a stack: bits 0-31 the top writer, above a counter against ABA */
  _Atomic uint32_t used;
  tr_writer writer[MTR_MAX_STREAM + 1]; /* 0 is nobody */
} tr_streams;

extern tr_streams *tr_streams_ __attribute__((visibility("hidden")));
extern pthread_key_t tr_key __attribute__((visibility("hidden")));
/* The program may have given up system calls: none that it doesn't make itself is safe any more. */
extern int tr_confined __attribute__((visibility("hidden")));

/* The number of this process's record. */
unsigned tr_slot(void);

/* Whether this process is traced; a child that was just forked, or a process that slept until now, gets its own record here first. */
int tr_here(void);

/* The destructor of tr_key: hands the ending thread's streams on. */
void tr_leave(void *unused);

/* A process was made that may sleep in the same mapping when this one has ended. */
extern int tr_passed_on __attribute__((visibility("hidden")));

/* The environment an exec'd program needs to be traced too: LD_PRELOAD with this library first, TR_ENV. NULL when not traced. */
extern char tr_library[] __attribute__((visibility("hidden")));
extern char tr_mapping[] __attribute__((visibility("hidden")));

#endif
