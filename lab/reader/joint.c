/* Counting, see joint.h. A cell's key holds all its fields in 64 bits. */
#include "joint.h"
#include <stdlib.h>

typedef unsigned long long ull;

enum field { LIFE, SIZE, TO, BY, END, ROUTINE, NEXT, PHASE, FIELDS };
static const struct { unsigned shift, bits; } fields[FIELDS] = { { 0, 11 }, { 11, 13 }, { 24, 6 }, { 30, 6 }, { 36, 2 }, { 38, 3 }, { 41, 13 }, { 54, 10 } };

/* Codes of lifetimes: classes, then visits until death. */
enum { EXACT_LIVES = 16, IN_VISITS = 512, NEVER_DIES = 2047, LEAST_VISITS = 4, LEAST_LIFE = 32 };

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

void jt_start(jt_joint *j, const vs_visits *visits)
{
  j->cells.most = JT_CELLS;
  j->visits = visits;
  if (visits && !(j->births = calloc(visits->count, sizeof *j->births))) j->out_of_memory = 1;
}

void jt_free(jt_joint *j)
{
  ct_free(&j->cells);
  free(j->births);
}

static unsigned life_of(const jt_joint *j, const jt_block *b, size_t born)
{
  if (b->end == JT_NEVER) return NEVER_DIES;
  size_t died = vs_of(j->visits, b->born + b->life), apart = died - born;
  int turned = j->visits->at[died].turns > j->visits->at[born].turns && b->life >= LEAST_LIFE;
  if ((apart < LEAST_VISITS && !turned) || apart >= NEVER_DIES - IN_VISITS) return class_of(b->life);
  return IN_VISITS + (unsigned)apart;
}

static void count_cell(jt_joint *j, const jt_block *b)
{
  size_t born = vs_of(j->visits, b->born);
  uint64_t key = put(PHASE, j->visits->at[born].phase) | put(ROUTINE, b->routine) | put(END, b->end) | put(BY, b->by) | put(TO, b->to) |
                 put(SIZE, ct_size_code(b->size)) | put(LIFE, life_of(j, b, born));
  if (b->end == JT_REALLOCATED) key |= put(NEXT, ct_size_code(b->next));
  if (j->out_of_memory || !ct_add(&j->cells, key, 1, b->size)) j->out_of_memory = 1;
  else if (b->routine != JT_REALLOC) j->births[born]++;
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

/* Lives that are kept in visits have bounds all the same, those of visits of the mean length: to compare with. */
static void print_cell(FILE *f, const ct_item *it, uint64_t step)
{
  uint64_t k = it->key;
  unsigned life = get(k, LIFE);
  int visits = life > IN_VISITS && life != NEVER_DIES ? (int)(life - IN_VISITS) : 0;
  fprintf(f, "%u,%u,%u,%u,%u,%llu,", get(k, PHASE), get(k, ROUTINE), get(k, END), get(k, BY), get(k, TO), (ull)(it->sum / it->number));
  if (life == NEVER_DIES) fputs("-1,-1,", f);
  else if (visits) fprintf(f, "%llu,%llu,", (ull)((uint64_t)(visits - 1) * step + 1), (ull)((uint64_t)(visits + 1) * step));
  else fprintf(f, "%llu,%llu,", (ull)class_first(life), (ull)class_first(life + 1) - 1);
  fprintf(f, "%llu,-1,%d,%u\n", (ull)it->number, visits ? visits : -1, get(k, NEXT));
}

static void print_largest(FILE *f, const jt_joint *j, const jt_block *b)
{
  fprintf(f, "%u,%u,%u,%u,%u,%llu,", j->visits->at[vs_of(j->visits, b->born)].phase, b->routine, b->end, b->by & 63, b->to & 63, (ull)b->size);
  if (b->end == JT_NEVER) fputs("-1,-1,", f);
  else fprintf(f, "%llu,%llu,", (ull)b->life, (ull)b->life);
  fprintf(f, "1,%llu,-1,%u\n", (ull)b->born, b->end == JT_REALLOCATED ? ct_size_code(b->next) : 0);
}

/*
 * First the visits, each with its first operation, its phase and its births. Then a row per cell: size is the mean of the cell's sizes, life the bounds in
 * operations (-1: never freed), visits those between birth and death where that is kept (else -1), next the code of the size that a realloc made,
 * born -1. Then the largest blocks, each with the operation of its birth.
 */
void jt_print(FILE *f, jt_joint *j, uint64_t operations)
{
  const vs_visits *v = j->visits;
  size_t n = j->cells.count;
  ct_item *items = ct_sorted(&j->cells, 0);
  fprintf(f, "# operations %llu visits %zu refused %llu\n", (ull)operations, v->count, (ull)j->cells.refused);
  for (size_t i = 0; i < v->count; i++) fprintf(f, "v,%llu,%u,%llu\n", (ull)v->at[i].start, v->at[i].phase, (ull)j->births[i]);
  fputs("phase,routine,end,by,to,size,life_from,life_to,number,born,visits,next\n", f);
  for (size_t i = 0; i < n; i++) print_cell(f, &items[i], operations / v->count + 1);
  for (size_t i = 0; i < j->largest_count; i++) print_largest(f, j, &j->largest[i]);
}
