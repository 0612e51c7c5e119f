/*
 * The joint distribution that fit draws from: how many blocks there were of each combination of phase of birth, routine, how it ended, thread,
 * freeing thread, size, lifetime on the allocation clock, and size of what a realloc made of it.
 *
 * A lifetime over four phases and more, or across a turn of the live bytes, is kept as the number of phases between birth and death, so that blocks
 * that die together do so in the fit; any other as one of eight classes to an octave. The largest blocks are kept one by one, because the peak
 * hangs on them.
 */
#ifndef MARE_LAB_JOINT_H
#define MARE_LAB_JOINT_H

#include "counts.h"
#include "phases.h"
#include <stdio.h>

#define JT_LARGEST 2000
#define JT_CELLS 1500000 /* at most; beyond, count again with fewer phases */

enum jt_end { JT_FREED, JT_REALLOCATED, JT_NEVER };
enum { JT_REALLOC_NULL = 4 }; /* a routine beside those of measures.h: realloc(NULL, n), which continues no block */

typedef struct jt_block { uint64_t size, next, born, life; unsigned routine, end, by, to; } jt_block; /* next: size after a realloc */

/* Of the deaths in a phase, of blocks whose lives are kept in phases: how many, and how many were of a block born later than the one before. */
typedef struct jt_order { uint64_t last, deaths, forward; } jt_order;

typedef struct jt_joint {
  const ph_phases *phases;
  ct_table *cells;  /* of each phase */
  jt_order *orders; /* of each phase */
  size_t count;     /* of all cells */
  jt_block largest[JT_LARGEST]; /* a heap, the smallest on top */
  size_t largest_count;
  int out_of_memory;
} jt_joint;

void jt_start(jt_joint *j, const ph_phases *phases);
void jt_count(jt_joint *j, jt_block b); /* in the order of death */
/* Sorts the cells; nothing can be counted afterwards. */
void jt_print(FILE *f, jt_joint *j, uint64_t operations);
void jt_free(jt_joint *j);

#endif
