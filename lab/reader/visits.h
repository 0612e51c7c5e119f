/*
 * How a trace is divided for the joint distribution: into visits, one after another on the allocation clock, each to a phase. Blocks are counted by
 * the phase they are born in.
 *
 * The turns of live bytes (where it stops rising or falling by a 25th of its peak) always part two visits, so that what is alive at a peak is known
 * to be. With few turns each phase is visited once: some 512 equal parts, and the turns. With many, as a garbage collector makes them, a phase is a
 * part of a rise or fall, and the same phases are visited again and again in each window of the trace.
 */
#ifndef MARE_LAB_VISITS_H
#define MARE_LAB_VISITS_H

#include <stddef.h>
#include <stdint.h>

#define VS_PHASES 1024
#define VS_TURNS 65536  /* at most */
#define VS_VISITS 262144 /* at most */

typedef struct vs_turn { uint64_t operation, bytes; } vs_turn; /* operation: the first after it */
typedef struct vs_turns {
  vs_turn *at, next;
  size_t count;
  uint64_t peak;
  double part; /* of the peak */
  int falling;
} vs_turns;

typedef struct vs_visit { uint64_t start; uint32_t phase, turns; } vs_visit; /* turns: how many lie before it */
typedef struct vs_visits { vs_visit *at; size_t count; int folded; } vs_visits;

int vs_start(vs_turns *t);
void vs_note(vs_turns *t, uint64_t operation, uint64_t bytes);
void vs_end(vs_turns *t);
void vs_free(vs_turns *t);

/* Divides; about `parts` phases where the turns leave that free. 0 when out of memory. */
int vs_divide(vs_visits *v, const vs_turns *t, uint64_t operations, unsigned parts);
size_t vs_of(const vs_visits *v, uint64_t operation); /* the visit it falls into */
void vs_forget(vs_visits *v);

#endif
