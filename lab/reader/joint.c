/* Counting, see joint.h. A cell's key holds all its fields in 64 bits. */
#include "joint.h"

typedef unsigned long long ull;

enum field { LIFE, SIZE, TO, BY, END, ROUTINE, NEXT, PHASE, FIELDS };
static const struct { unsigned shift, bits; } fields[FIELDS] = { { 0, 11 }, { 11, 13 }, { 24, 6 }, { 30, 6 }, { 36, 2 }, { 38, 3 }, { 41, 13 }, { 54, 10 } };

/* Codes of lifetimes: classes, then phases until death. */
enum { EXACT_LIVES = 16, IN_PHASES = 512, NEVER_DIES = 2047, LEAST_PHASES = 4 };

static unsigned get(uint64_t key, enum field f) { return (unsigned)(key >> fields[f].shift) & ((1u << fields[f].bits) - 1); }
static uint64_t put(enum field f, uint64_t value) { return (value & ((UINT64_C(1) << fields[f].bits) - 1)) << fields[f].shift; }
static uint64_t without(uint64_t key, enum field f) { return key & ~(((UINT64_C(1) << fields[f].bits) - 1) << fields[f].shift); }

static unsigned class_of(uint64_t life)
{
  if (life < EXACT_LIVES) return (unsigned)life;
  unsigned octave = 63u - (unsigned)__builtin_clzll(life); /* 4 or more */
  return EXACT_LIVES + (octave - 4) * 8 + (unsigned)((life >> (octave - 3)) & 7);
}

static uint64_t class_first(unsigned c)
{
  if (c < EXACT_LIVES) return c;
  unsigned octave = 4 + (c - EXACT_LIVES) / 8;
  return (uint64_t)(8 + (c - EXACT_LIVES) % 8) << (octave - 3);
}

void jt_start(jt_joint *j)
{
  j->cells.most = 2 * JT_CELLS;
  j->step = 1;
}

void jt_free(jt_joint *j) { ct_free(&j->cells); }

static uint64_t with_phases(uint64_t key, uint64_t phase, uint64_t died)
{
  return without(without(key, PHASE), LIFE) | put(PHASE, phase) | put(LIFE, IN_PHASES + (died - phase));
}

static void halve(jt_joint *j)
{
  ct_table half = { .most = j->cells.most, .refused = j->cells.refused };
  for (size_t i = 0; i < j->cells.room; i++) {
    const ct_item *it = &j->cells.items[i];
    if (!it->number) continue;
    uint64_t key = it->key, phase = get(key, PHASE), life = get(key, LIFE);
    uint64_t apart = life > IN_PHASES && life != NEVER_DIES ? life - IN_PHASES : 0, died = (phase + apart) / 2;
    if (died > phase / 2 + 1) key = with_phases(key, phase / 2, died);
    else key = without(key, PHASE) | put(PHASE, phase / 2);
    if (apart && died <= phase / 2 + 1) key = without(key, LIFE) | put(LIFE, class_of(apart * j->step));
    if (!ct_add(&half, key, it->number, it->sum)) j->out_of_memory = 1;
  }
  ct_free(&j->cells);
  j->cells = half;
  j->step *= 2;
}

static void count_cell(jt_joint *j, const jt_block *b)
{
  while ((b->born + (b->end == JT_NEVER ? 0 : b->life)) / j->step >= JT_PHASES) halve(j);
  uint64_t phase = b->born / j->step, died = (b->born + b->life) / j->step;
  uint64_t key = put(PHASE, phase) | put(ROUTINE, b->routine) | put(END, b->end) | put(BY, b->by) | put(TO, b->to) | put(SIZE, ct_size_code(b->size));
  if (b->end == JT_REALLOCATED) key |= put(NEXT, ct_size_code(b->next));
  if (b->end == JT_NEVER) key |= put(LIFE, NEVER_DIES);
  else if (died - phase >= LEAST_PHASES) key = with_phases(key, phase, died);
  else key |= put(LIFE, class_of(b->life));
  if (!ct_add(&j->cells, key, 1, b->size)) j->out_of_memory = 1;
  if (j->cells.count > JT_CELLS && b->born >= j->step) halve(j);
}

/* Keeps b if it is among the largest; what it displaces goes to its cell. */
void jt_count(jt_joint *j, jt_block b)
{
  size_t i = j->largest_count;
  if (i < JT_LARGEST) {
    j->largest_count++;
    for (; i && j->largest[(i - 1) / 2].size > b.size; i = (i - 1) / 2) j->largest[i] = j->largest[(i - 1) / 2];
  } else {
    if (b.size <= j->largest[0].size) { count_cell(j, &b); return; }
    count_cell(j, &j->largest[0]);
    i = 0;
    for (size_t c; (c = 2 * i + 1) < JT_LARGEST; i = c) {
      if (c + 1 < JT_LARGEST && j->largest[c + 1].size < j->largest[c].size) c++;
      if (j->largest[c].size >= b.size) break;
      j->largest[i] = j->largest[c];
    }
  }
  j->largest[i] = b;
}

/* ---- the file ---- */

static void print_cell(FILE *f, const jt_joint *j, const ct_item *it)
{
  uint64_t k = it->key, phase = get(k, PHASE);
  unsigned life = get(k, LIFE), next = get(k, NEXT);
  fprintf(f, "%u,%u,%u,%u,%u,%llu,", (unsigned)phase, get(k, ROUTINE), get(k, END), get(k, BY), get(k, TO), (ull)(it->sum / it->number));
  if (life == NEVER_DIES) fputs("-1,-1,", f);
  else if (life > IN_PHASES) fprintf(f, "%llu,%llu,", (ull)((life - IN_PHASES - 1) * j->step + 1), (ull)((life - IN_PHASES + 1) * j->step - 1));
  else fprintf(f, "%llu,%llu,", (ull)class_first(life), (ull)class_first(life + 1) - 1);
  fprintf(f, "%llu,-1,%lld,", (ull)it->number, life > IN_PHASES && life != NEVER_DIES ? (long long)(phase + life - IN_PHASES) : -1LL);
  fprintf(f, "%u\n", next);
}

static void print_largest(FILE *f, const jt_joint *j, const jt_block *b)
{
  fprintf(f, "%u,%u,%u,%u,%u,%llu,", (unsigned)(b->born / j->step), b->routine, b->end, b->by & 63, b->to & 63, (ull)b->size);
  if (b->end == JT_NEVER) fputs("-1,-1,", f);
  else fprintf(f, "%llu,%llu,", (ull)b->life, (ull)b->life);
  fprintf(f, "1,%llu,-1,%u\n", (ull)b->born, b->end == JT_REALLOCATED ? ct_size_code(b->next) : 0);
}

/*
 * One row per cell; size is the mean of the cell's sizes, life the bounds in operations (-1: never freed), died the phase of death where it is
 * known (else -1), next the code of the size that a realloc made, born -1. Then the largest blocks, each with the operation of its birth.
 */
void jt_print(FILE *f, jt_joint *j, uint64_t operations)
{
  while (operations / j->step >= JT_PHASES) halve(j); /* the largest blocks may be younger than any cell */
  size_t n = j->cells.count;
  ct_item *items = ct_sorted(&j->cells, 0);
  fprintf(f, "# phase_operations %llu operations %llu refused %llu\n", (ull)j->step, (ull)operations, (ull)j->cells.refused);
  fputs("phase,routine,end,by,to,size,life_from,life_to,number,born,died,next\n", f);
  for (size_t i = 0; i < n; i++) print_cell(f, j, &items[i]);
  for (size_t i = 0; i < j->largest_count; i++) print_largest(f, j, &j->largest[i]);
}
