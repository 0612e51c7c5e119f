/* failures: those of processes and fibers that nobody waited for. */
#ifndef MR_FAILURES_H
#define MR_FAILURES_H

#include "port/port.h"

enum { MR_FAILURES = 16, MR_FAILURE_TEXT = 1000 };
typedef struct mr_failure {
  double when;                                 /* seconds since 1970 */
  char text[MR_FAILURE_TEXT];                  /* as it was printed, or its beginning */
} mr_failure;

extern atomic_int mr_failures;                 /* how many there were */
void mr_failure_note(const char *text);        /* one more */
int  mr_failure_last(unsigned back, mr_failure *out);   /* 0: the newest, 1: the one before …; 0: there is none so far back */

#endif
