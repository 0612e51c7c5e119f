/*
 * How a trace is divided into phases on the allocation clock, for the joint distribution: at each turn of its live bytes (where they
 * stop rising or falling by a 25th of their peak), so that what is alive at a peak, or after a collector's sweep, is known to be; and between the
 * turns into equal parts, each at most some 512th of the trace.
 */
#ifndef MARE_LAB_PHASES_H
#define MARE_LAB_PHASES_H

#include <stddef.h>
#include <stdint.h>

#define PH_PHASES 16384 /* at most */
#define PH_TURNS 15000  /* at most: with more, only the deeper ones count */

typedef struct ph_turn { uint64_t operation, bytes; } ph_turn; /* operation: the first after it */
typedef struct ph_turns {
  ph_turn *at, next;
  size_t count;
  uint64_t peak;
  double part; /* of the peak */
  int falling;
} ph_turns;

typedef struct ph_phase { uint64_t start; uint32_t turns; } ph_phase; /* turns: how many lie before it */
typedef struct ph_phases { ph_phase *at; size_t count; } ph_phases;

int ph_start(ph_turns *t);
void ph_note(ph_turns *t, uint64_t operation, uint64_t bytes);
void ph_end(ph_turns *t);
void ph_free(ph_turns *t);

/* Divides, into `parts` more or less beside the turns. 0 when out of memory. */
int ph_divide(ph_phases *p, const ph_turns *t, uint64_t operations, unsigned parts);
size_t ph_of(const ph_phases *p, uint64_t operation); /* the phase it falls into */
void ph_forget(ph_phases *p);

#endif
