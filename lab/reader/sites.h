/*
 * Where a program allocates: sampled allocations by their stacks, with the blocks and bytes that each made, what of them lived when the live bytes
 * of the whole program were at their peak, and what of them was not freed when the trace ended. Of the last, what was made in the second half of the
 * operations counts as late: a leak goes on, what a program sets up once and keeps does not.
 *
 * A sampled block stands for `every` blocks, one of MTR_STACK_ALWAYS bytes and more for itself alone: the tracer takes each of those. So all numbers here
 * are estimates of the whole, exact where every is 1.
 */
#ifndef MARE_LAB_SITES_H
#define MARE_LAB_SITES_H

#include "live.h"
#include "reader.h"
#include <stdio.h>

#define ST_OPERATIONS 16 /* so that the 32 bits that a block has for it are enough for any trace that fits on a disk */
#define ST_MOST 100000 /* different stacks; what is beyond is counted as one without frames */

typedef struct st_site {
  uint64_t hash, samples, number, bytes, live, at_peak;
  uint64_t left, left_bytes, late; /* blocks that were never freed, and how many of them were late; known when st_finish has been called */
  uint64_t noted; /* the peak that at_peak was last written for */
  size_t frames;  /* where they begin in `addresses`, their number first */
} st_site;

typedef struct st_sites {
  uint32_t every;
  uint64_t peak; /* how often a new peak was reached */
  st_site *site;
  size_t count, room;
  uint32_t *slots; /* site + 1, by hash */
  size_t slot_count;
  uint64_t *addresses;
  size_t address_count, address_room;
  lv_table *live; /* sampled blocks; `operation` is the number of the site, `bytes` the operations before it in units of ST_OPERATIONS */
} st_sites;

st_sites *st_new(void); /* every: 1 */
void st_free(st_sites *s);
int st_born(st_sites *s, const rd_event *e, uint64_t operations); /* an allocation with its stack, after so many operations; 0 when out of memory */
/* Takes a block out without counting its end, as a realloc that goes on may still fail: 1, or 0 where it was not sampled. */
int st_take(st_sites *s, uint64_t address, lv_block *block);
int st_put_back(st_sites *s, const lv_block *block);
void st_end(st_sites *s, const lv_block *block); /* the end of a block that was taken */
void st_peak(st_sites *s);                       /* the live bytes were never so many */
void st_finish(st_sites *s, uint64_t operations); /* at the end of the trace, after so many operations: all is final, sites are sorted by falling number */
/*
 * A line for each stack: number, bytes, bytes at the peak, blocks never freed, their bytes, how many of them were late, samples; then its addresses in
 * hexadecimal, innermost first.
 */
void st_write(FILE *f, const st_sites *s);

#endif
