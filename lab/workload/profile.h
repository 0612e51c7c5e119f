/*
 * What making a script from a profile consists of. cells.c reads the profile's file into rows and sorts them; profile.c draws from them.
 */
#ifndef MARE_LAB_PROFILE_H
#define MARE_LAB_PROFILE_H
#include "script.h"

#define PHASES 16384
enum { FREED, REALLOCATED, NEVER };

enum { MALLOC, CALLOC, REALLOC, ALIGNED, REALLOC_NULL, ROUTINES }; /* realloc: of a block */

typedef struct {
  uint16_t phase, next; /* next: code of the size that a realloc makes */
  uint8_t routine, end, by, to;
  int32_t phases; /* from birth to death, or -1: then life_from to life_to hold */
  uint64_t size;
  int64_t life_from, life_to, born;
  uint64_t number;
} pf_cell;
typedef struct { uint64_t when; sc_block block; uint16_t next; uint8_t end, to; } pf_due; /* a death to come */
typedef struct { pf_due *at; size_t count, room; } pf_heap;                                   /* by when */
typedef struct {
  uint64_t start, left; /* left: blocks still to come */
  size_t first;         /* of its cells */
  double forward;       /* how often who dies next in it was born later: 1 first in, first out; 0 last in, first out; 0.5 without order */
  uint64_t dying, named; /* how many die in it whose lives are kept in phases; how many of them were born */
} pf_phase;

typedef struct {
  pf_cell *cells;
  size_t count, room;
  pf_phase phases[PHASES + 1]; /* and one behind the last, where the trace ends */
  unsigned phase_count;
  uint64_t *tree;           /* Fenwick trees over the numbers of each phase: that of p from its first cell + p */
  pf_heap shortly, later;   /* deaths to come */
  const pf_cell *large, *large_end; /* the largest blocks still to come, by birth */
  pf_cell *grown;           /* cells of blocks that a realloc makes: by thread, size and phase */
  size_t grown_count;
  uint32_t *used_up;        /* for the first of a thread and size: how many of them have nothing left */
  double stretch, ahead;    /* ahead: see note_birth */
  uint64_t now, operations; /* operations done; of the trace */
  uint64_t random;
  sc_script *s;
} pf_maker;

/* Reads the rows of the file: 1, or 0 with an error of one line. */
int pf_read(pf_maker *m, const char *path, char *error, size_t room);
/* By pf_order: phase by phase; then the largest blocks, by birth; then what reallocs make. */
void pf_sort(pf_cell *cells, size_t n);
uint64_t pf_order(const pf_cell *c);
/* The order of cells of blocks that a realloc on this thread makes of this size, in the first phase. */
uint64_t pf_grown_key(unsigned thread, unsigned code);
/* The array with room for one more; NULL where there is no memory. */
void *pf_one_more(void *rows, size_t count, size_t *room, size_t size);
#endif
