/*
 * Everything a description says of a process, gathered in one pass. Feed events in the reader's order, then ms_end once; the fields are then final.
 *
 * An operation is an allocation, a free or a realloc; their count is the allocation clock. A realloc of a block is the death of the old and the birth
 * of a new one: it counts among the allocations, as in the study, not among the frees. A realloc that failed changes nothing.
 */
#ifndef MARE_LAB_MEASURES_H
#define MARE_LAB_MEASURES_H

#include "counts.h"
#include "live.h"
#include "reader.h"

enum ms_routine { MS_MALLOC, MS_CALLOC, MS_REALLOC, MS_ALIGNED, MS_ROUTINES };
enum ms_end_kind { MS_FREED, MS_REALLOCATED, MS_NEVER };
enum ms_retention { MS_SHORT, MS_MEDIUM, MS_LONG, MS_RETENTIONS };

#define MS_BLOCK 1000      /* operations per block of the long-lived curve */
#define MS_BINS 1024       /* of the pattern's matrix */
#define MS_OCTAVES 41      /* lifetimes in operations; the last one: never freed */
#define MS_NEVER_OCTAVE 40
#define MS_THREADS 16384
#define MS_PHASES 1024    /* of the joint distribution: 512 to 1024 are used */
#define MS_EXACT_SIZES 4096 /* in the joint distribution sizes are exact up to here, then 16 to an octave */
#define MS_PENDING 4
#define MS_LARGEST 2000    /* blocks that the joint distribution keeps one by one, because the peak hangs on them */

typedef struct ms_thread { uint32_t tid; uint64_t allocations, bytes, frees, of_others; } ms_thread;
typedef struct ms_large { uint64_t size, key, born, life; } ms_large; /* key: of its cell */
typedef struct ms_number { uint64_t number, bytes; } ms_number;

typedef struct ms_measures {
  uint32_t limit_ms[2];
  int want_joint;
  ms_number total, routine[MS_ROUTINES], retention[MS_RETENTIONS], never;
  uint64_t labels[2], failed, frees, null_frees, by_another, freed_blocks, unknown, free_labels[2];
  uint64_t reallocs, in_place, moved, realloc_failed, realloc_freed, realloc_null;
  uint64_t operations, impossible, last_us, first_us;
  ct_table sizes, joint, stacks;
  uint64_t life_ms[CT_CLASSES], life_operations[CT_CLASSES], life_bytes[CT_CLASSES];
  uint64_t *long_blocks;
  size_t long_room;
  uint64_t matrix_step, matrix[MS_BINS][MS_OCTAVES];
  uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks, peak_us, peak_operation, most_blocks;
  ct_curve by_time, by_operation;
  ms_thread threads[MS_THREADS];
  uint32_t thread_count;
  uint32_t of_stream[MTR_MAX_STREAM + 1]; /* which thread writes it now */
  uint64_t phase_step;
  ms_large largest[MS_LARGEST]; /* a heap, the smallest on top */
  size_t largest_count;
  lv_table *live;
  struct ms_pending *pending[MTR_MAX_STREAM + 1];
  uint64_t *frames; /* all distinct stacks, each a count and its addresses */
  size_t frame_count, frame_room;
  int out_of_memory;
} ms_measures;

ms_measures *ms_new(uint32_t short_ms, uint32_t medium_ms, int want_joint);
void ms_event(ms_measures *m, const rd_event *event);
void ms_end(ms_measures *m);
void ms_free(ms_measures *m);

unsigned ms_size_code(uint64_t size);

/* A joint key's fields. */
enum ms_field { MS_PHASE, MS_ROUTINE, MS_END, MS_BY, MS_TO, MS_SIZE, MS_LIFE };
uint64_t ms_joint_key(unsigned phase, unsigned routine, unsigned end, unsigned by, unsigned to, unsigned size, unsigned life);
unsigned ms_joint_field(uint64_t key, enum ms_field field);

/* print.c */
#include <stdio.h>
void ms_print(FILE *f, ms_measures *m, const rd_reader *r);
void ms_print_joint(FILE *f, ms_measures *m);

#endif
