/*
 * Reading one process's trace: the events of all its streams in an order in which no step is impossible (FORMAT.md, "Order"), and by time as far
 * as the clock goes. One pass; memory is a chunk per stream and 16 bytes per chunk of the file.
 */
#ifndef MARE_LAB_READER_H
#define MARE_LAB_READER_H

#include "../tracer/format.h"
#include <stddef.h>

typedef struct rd_reader rd_reader;

typedef struct rd_event {
  unsigned kind; /* MTR_MALLOC ... MTR_ALIGNED; a realloc comes as its two halves */
  unsigned label, alignment; /* alignment: log2 | routine << 8, of MTR_ALIGNED */
  uint64_t address, size, time_us;
  uint32_t stream, thread;   /* thread: the system's id */
  int new_thread;            /* this event is the first after the stream changed hands */
  const uint64_t *stack;     /* return addresses, if sampled */
  unsigned frames;
} rd_event;

typedef struct rd_error {
  char text[512];
} rd_error;

/* NULL with an error that names the file, the byte and what to do. With partial, what a truncated file holds whole is read. */
rd_reader *rd_open(const char *path, int partial, rd_error *error);
void rd_close(rd_reader *r);

/* 1 and an event; 0 at the end; -1 with an error. */
int rd_next(rd_reader *r, rd_event *event, rd_error *error);

const mtr_header *rd_header(const rd_reader *r);
uint64_t rd_words(const rd_reader *r);   /* in the whole file */
uint32_t rd_streams(const rd_reader *r); /* the largest number of a stream */
uint64_t rd_relaxed(const rd_reader *r); /* waits that a damaged trace made circular; 0 in a sound one */

#endif
