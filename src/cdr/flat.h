/*
 * flat: structs whose members are numbers, booleans, characters, labels of enums and strings: each direction is one loop over them.
 *
 * Between two strings there is a *run* of members of fixed size. Where in it each lies follows from where the run begins, modulo 8; that is worked
 * out when the type is compiled. So a run's room, or its bytes, are asked for once, and a member costs its look-up and its bytes.
 *
 * This is the way of what is as expected. Whatever is not (a member that is missing or inherited, a number out of range, bytes that end too
 * early) is left as it was found, and the general way does the whole struct again: so what is wrong is said in one place, and values mean the
 * same in both. Only with known layouts (raw), and where a message has no seams.
 */
#ifndef MR_CDR_FLAT_H
#define MR_CDR_FLAT_H

#include "cdr/type.h"

enum { MR_FLAT_MOST = 64 };                    /* members */
enum { MR_RUN_LAST = 0xffff };

typedef struct mr_step {                       /* a member */
  uint64_t key;
  const mr_type *type;
  uint16_t hint;                               /* where the last table had it, in bytes behind its first node, all tables have so many */
  uint16_t place;                              /* where new tables get it, likewise */
  uint8_t kind;
  uint16_t at[8];                              /* behind the beginning of its run, for each alignment of that */
} mr_step;

typedef struct mr_run {
  uint16_t first, end;                         /* steps */
  uint16_t text;                               /* the step behind it, a string; MR_RUN_LAST: none */
  uint16_t size[8];
} mr_run;

struct mr_flat {
  mr_step *steps;
  mr_run *runs;
  uint32_t nruns, ntexts;
  uint8_t lsizenode;                           /* of the tables for which the hints are good */
};

/* Bytes that a struct of n members needs for this; n is at most MR_FLAT_MOST. */
static inline size_t mr_flat_size(uint32_t n) { return sizeof(mr_flat) + n * sizeof(mr_step) + (n + 1) * sizeof(mr_run); }
/* Members and template of t, a struct, are there; `room` has so many bytes. NULL: it is not flat. */
mr_flat *mr_flat_make(const mr_type *t, void *room);

/* 1: v, a table, was written; 0: nothing was. Runs no Lua code and collects no garbage. */
int mr_put_flat(mr_enc *e, const mr_type *t, const raw_table *v);
/* 1: a table was pushed; 0: nothing was, and nothing read. There is room on the stack for MR_FLAT_MOST values. */
int mr_get_flat(mr_dec *d, const mr_type *t);

static inline int mr_flat_out(const mr_enc *e, const mr_type *t) { return t->flat && e->raw; }
static inline int mr_flat_in(const mr_dec *d, const mr_type *t) { return t->flat && d->raw && d->in.stop == d->in.end; }

#endif
