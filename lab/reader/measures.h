/*
 * Everything a description says of a process, gathered in one pass. Feed events in the reader's order, then ms_end once; the fields are then final.
 *
 * An operation is an allocation, a free or a realloc; their count is the allocation clock. A realloc of a block is the death of the old and the birth
 * of a new one: it counts among the allocations, as in the study, not among the frees. A realloc that failed changes nothing.
 */
#ifndef MARE_LAB_MEASURES_H
#define MARE_LAB_MEASURES_H

#include "counts.h"
#include "grid.h"
#include "joint.h"
#include "live.h"
#include "reader.h"
#include "sites.h"

enum ms_routine { MS_MALLOC, MS_CALLOC, MS_REALLOC, MS_ALIGNED, MS_ROUTINES };
enum ms_retention { MS_SHORT, MS_MEDIUM, MS_LONG, MS_RETENTIONS };

#define MS_BLOCK 1000      /* operations per block of the long-lived curve */
#define MS_BINS 1024       /* of the pattern's matrix */
#define MS_OCTAVES 41      /* lifetimes in operations; the last one: never freed */
#define MS_NEVER_OCTAVE 40
#define MS_THREADS 16384
#define MS_PENDING 4

typedef struct ms_thread { uint32_t tid; uint64_t allocations, bytes, frees, of_others; } ms_thread;
typedef struct ms_number { uint64_t number, bytes; } ms_number;

typedef struct ms_measures {
  uint32_t limit_ms[2];
  const ph_phases *phases; /* NULL: no joint distribution */
  ph_turns turns;
  ms_number total, routine[MS_ROUTINES], retention[MS_RETENTIONS], never;
  uint64_t labels[2], failed, frees, null_frees, by_another, freed_blocks, unknown, free_labels[2];
  uint64_t reallocs, in_place, moved, realloc_failed, realloc_freed, realloc_null;
  uint64_t operations, impossible, last_us, first_us;
  ct_table sizes;
  st_sites *sites;
  gr_grid grid;
  jt_joint joint;
  uint64_t life_ms[CT_CLASSES], life_operations[CT_CLASSES], life_bytes[CT_CLASSES];
  uint64_t *long_blocks;
  size_t long_room;
  uint64_t matrix_step, matrix[MS_BINS][MS_OCTAVES];
  uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks, peak_us, peak_operation, most_blocks;
  ct_curve by_time, by_operation;
  ms_thread threads[MS_THREADS];
  uint32_t thread_count;
  uint32_t of_stream[MTR_MAX_STREAM + 1]; /* which thread writes it now */
  lv_table *live;
  struct ms_pending *pending[MTR_MAX_STREAM + 1];
  int out_of_memory;
} ms_measures;

/* With phases, from an earlier pass over the same trace, the joint distribution is counted, too; they must outlive it. */
ms_measures *ms_new(uint32_t short_ms, uint32_t medium_ms, const ph_phases *phases);
void ms_event(ms_measures *m, const rd_event *event);
void ms_end(ms_measures *m);
void ms_free(ms_measures *m);

/* print.c */
#include <stdio.h>
void ms_print(FILE *f, ms_measures *m, const rd_reader *r);

#endif
