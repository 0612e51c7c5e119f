/* Counting, see joint.h. A cell's key holds all its fields in 64 bits. */
#include "joint.h"
#include <stdlib.h>

typedef unsigned long long ull;

enum field { LIFE, SIZE, TO, BY, END, ROUTINE, NEXT, FIELDS };
static const struct { unsigned shift, bits; } fields[FIELDS] = { { 0, 16 }, { 16, 13 }, { 29, 6 }, { 35, 6 }, { 41, 2 }, { 43, 3 }, { 46, 13 } };

/* Codes of lifetimes: classes, then phases until death. */
enum { EXACT_LIVES = 16, IN_PHASES = 512, NEVER_DIES = 65535, LEAST_PHASES = 4, LEAST_LIFE = 32 };

static unsigned get(uint64_t key, enum field f) { return (unsigned)(key >> fields[f].shift) & ((1u << fields[f].bits) - 1); }
static uint64_t put(enum field f, uint64_t value) { return (value & ((UINT64_C(1) << fields[f].bits) - 1)) << fields[f].shift; }

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

void jt_start(jt_joint *j, const ph_phases *phases)
{
  if (!phases) return;
  j->phases = phases;
  j->cells = calloc(phases->count, sizeof *j->cells);
  j->orders = calloc(phases->count, sizeof *j->orders);
  if (!j->cells || !j->orders) { j->out_of_memory = 1; return; }
  for (size_t i = 0; i < phases->count; i++) j->cells[i].most = JT_CELLS;
}

void jt_free(jt_joint *j)
{
  for (size_t i = 0; j->cells && i < j->phases->count; i++) ct_free(&j->cells[i]);
  free(j->cells);
  free(j->orders);
}

static unsigned life_of(const jt_joint *j, const jt_block *b, size_t born)
{
  if (b->end == JT_NEVER) return NEVER_DIES;
  size_t died = ph_of(j->phases, b->born + b->life), apart = died - born;
  int turned = j->phases->at[died].turns > j->phases->at[born].turns && b->life >= LEAST_LIFE;
  return apart < LEAST_PHASES && !turned ? class_of(b->life) : IN_PHASES + (unsigned)apart;
}

static void count_cell(jt_joint *j, const jt_block *b)
{
  size_t phase = ph_of(j->phases, b->born), before;
  if (j->out_of_memory) return;
  uint64_t key = put(ROUTINE, b->routine) | put(END, b->end) | put(BY, b->by) | put(TO, b->to) | put(SIZE, ct_size_code(b->size)) |
                 put(LIFE, life_of(j, b, phase));
  if (b->end == JT_REALLOCATED) key |= put(NEXT, ct_size_code(b->next));
  before = j->cells[phase].count;
  if (!ct_add(&j->cells[phase], key, 1, b->size)) j->out_of_memory = 1;
  j->count += j->cells[phase].count - before;
}

static void note_order(jt_joint *j, const jt_block *b)
{
  size_t born = ph_of(j->phases, b->born);
  unsigned life = life_of(j, b, born);
  if (life <= IN_PHASES || life == NEVER_DIES) return;
  jt_order *o = &j->orders[born + life - IN_PHASES];
  if (o->deaths++) o->forward += b->born > o->last;
  o->last = b->born;
}

/* Keeps b if it is among the largest; what it displaces goes to its cell. */
void jt_count(jt_joint *j, jt_block b)
{
  if (j->out_of_memory) return;
  note_order(j, &b);
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

/* Lives that are kept in phases have bounds all the same, as if all phases were as long: to compare with. */
static void print_cell(FILE *f, size_t phase, const ct_item *it, uint64_t step)
{
  uint64_t k = it->key;
  unsigned life = get(k, LIFE);
  int phases = life > IN_PHASES && life != NEVER_DIES ? (int)(life - IN_PHASES) : 0;
  fprintf(f, "%zu,%u,%u,%u,%u,%llu,", phase, get(k, ROUTINE), get(k, END), get(k, BY), get(k, TO), (ull)(it->sum / it->number));
  if (life == NEVER_DIES) fputs("-1,-1,", f);
  else if (phases) fprintf(f, "%llu,%llu,", (ull)((uint64_t)(phases - 1) * step + 1), (ull)((uint64_t)(phases + 1) * step));
  else fprintf(f, "%llu,%llu,", (ull)class_first(life), (ull)class_first(life + 1) - 1);
  fprintf(f, "%llu,-1,%d,%u\n", (ull)it->number, phases ? phases : -1, get(k, NEXT));
}

static void print_largest(FILE *f, const jt_joint *j, const jt_block *b)
{
  fprintf(f, "%zu,%u,%u,%u,%u,%llu,", ph_of(j->phases, b->born), b->routine, b->end, b->by & 63, b->to & 63, (ull)b->size);
  if (b->end == JT_NEVER) fputs("-1,-1,", f);
  else fprintf(f, "%llu,%llu,", (ull)b->life, (ull)b->life);
  fprintf(f, "1,%llu,-1,%u\n", (ull)b->born, b->end == JT_REALLOCATED ? ct_size_code(b->next) : 0);
}

static double forward_share(const jt_order *o) { return o->deaths > 1 ? (double)o->forward / (double)(o->deaths - 1) : 0.5; }

/*
 * First the phases, each with its first operation and the order of death in it (1: first in, first out; 0: last in, first out). Then a row per
 * cell: size is the mean of the cell's sizes, life the bounds in operations (-1: never freed), phases those between birth and death where that is
 * kept (else -1), next the code of the size that a realloc made, born -1. Then the largest blocks, each with the operation of its birth.
 */
void jt_print(FILE *f, jt_joint *j, uint64_t operations)
{
  const ph_phases *p = j->phases;
  fprintf(f, "# operations %llu phases %zu\n", (ull)operations, p->count);
  for (size_t i = 0; i < p->count; i++) fprintf(f, "p,%llu,%.3f\n", (ull)p->at[i].start, forward_share(&j->orders[i]));
  fputs("phase,routine,end,by,to,size,life_from,life_to,number,born,phases,next\n", f);
  for (size_t i = 0; i < p->count; i++) {
    size_t n = j->cells[i].count;
    ct_item *items = ct_sorted(&j->cells[i], 0);
    for (size_t k = 0; k < n; k++) print_cell(f, i, &items[k], operations / p->count + 1);
  }
  for (size_t i = 0; i < j->largest_count; i++) print_largest(f, j, &j->largest[i]);
}
