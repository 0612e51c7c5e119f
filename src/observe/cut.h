/*
 * cut: from a file of records (rings.h) to JSON in the Trace Event Format, which Perfetto and Chrome open: in the order of time, one event a line.
 * The file may be that of a program which still records, in this process or another: what is copied is whole, and what is written meanwhile is left out.
 *
 * Memory: as much as the records have, and some 70 bytes for each fiber in them.
 */
#ifndef MR_CUT_H
#define MR_CUT_H

#include <stdint.h>

#define MR_TRACE_LEAST UINT64_C(1048576)           /* bytes that a trace may be allowed to have */
#define MR_TRACE_MOST (UINT64_C(1) << 36)

typedef struct mr_trace_report {
  uint64_t events, bytes;            /* of the JSON */
  uint64_t dropped;                  /* records there was no room for */
  int full;                          /* why the records could not be more, an errno value; 0: they could */
  double missing, covered;           /* seconds since the beginning of which there is nothing; of which there is everything */
} mr_trace_report;

/* r may be NULL. 0 or an errno value; EBADMSG: there are no such records. A file that could not be written whole is removed. */
int mr_trace_convert(const char *rings, const char *to, mr_trace_report *r);

#endif
