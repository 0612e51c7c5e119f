/* Finding turns, dividing: see visits.h. */
#include "visits.h"
#include <stdlib.h>

#define PART (1.0 / 25)
#define FEW_TURNS 480

/* ---- turns ---- */

int vs_start(vs_turns *t)
{
  *t = (vs_turns){ .at = malloc(VS_TURNS * sizeof *t->at), .part = PART };
  return t->at != NULL;
}

void vs_free(vs_turns *t) { free(t->at); }

static void follow(vs_turns *t, uint64_t operation, uint64_t bytes, double least)
{
  vs_turn *next = &t->next;
  int further = t->falling ? bytes <= next->bytes : bytes >= next->bytes;
  double back = t->falling ? (double)bytes - (double)next->bytes : (double)next->bytes - (double)bytes;
  if (!further && back < least) return;
  if (!further) {
    if (t->count < VS_TURNS) t->at[t->count++] = *next;
    t->falling = !t->falling;
  }
  *next = (vs_turn){ operation, bytes };
}

/* Turns that are none by what is known now go: a coarser look at the finer ones, which are all that matter to it. */
static void thin(vs_turns *t)
{
  vs_turns coarse = { .at = t->at, .peak = t->peak, .part = t->part };
  for (size_t i = 0; i < t->count; i++) follow(&coarse, t->at[i].operation, t->at[i].bytes, t->part * (double)t->peak);
  follow(&coarse, t->next.operation, t->next.bytes, t->part * (double)t->peak);
  *t = coarse;
}

void vs_note(vs_turns *t, uint64_t operation, uint64_t bytes)
{
  if (bytes > t->peak) t->peak = bytes;
  follow(t, operation, bytes, t->part * (double)t->peak);
  if (t->count < VS_TURNS) return;
  thin(t);
  while (t->count > VS_TURNS / 2) {
    t->part *= 2;
    thin(t);
  }
}

void vs_end(vs_turns *t)
{
  thin(t);
  if (t->next.operation && t->count < VS_TURNS) t->at[t->count++] = t->next;
}

/* ---- visits ---- */

static void add(vs_visits *v, uint64_t start, uint32_t phase, uint32_t turns)
{
  if (v->count && v->at[v->count - 1].start >= start) return; /* a part of no length: who comes first stays */
  v->at[v->count++] = (vs_visit){ start, phase, turns };
}

static void divide_once(vs_visits *v, const vs_turns *t, uint64_t operations, unsigned parts)
{
  uint64_t step = operations / parts + 1;
  size_t k = 0;
  for (uint64_t at = 0; at < operations; at += step) {
    while (k < t->count && t->at[k].operation <= at) k++;
    add(v, at, (uint32_t)v->count, (uint32_t)k);
    for (; k < t->count && t->at[k].operation < at + step && t->at[k].operation < operations; k++) add(v, t->at[k].operation, (uint32_t)v->count, (uint32_t)k + 1);
  }
}

/* The first two stretches and the last two are like no others: windows of their own. */
static uint32_t window_of(size_t stretch, size_t stretches, unsigned windows)
{
  if (stretch < 2) return 0;
  if (stretch + 2 >= stretches) return windows - 1;
  return 1 + (uint32_t)((stretch - 2) * (windows - 2) / (stretches - 4));
}

/* A stretch lies between two turns; windows hold as many stretches each, rising and falling ones. */
static void divide_folded(vs_visits *v, const vs_turns *t, uint64_t operations, unsigned parts)
{
  size_t stretches = t->count + 1;
  unsigned pieces = 4, windows;
  while (pieces < 32 && stretches * pieces * 2 <= VS_VISITS) pieces *= 2;
  windows = parts / pieces > 3 ? parts / pieces : 3;
  if (windows * pieces * 2 > VS_PHASES) windows = VS_PHASES / (pieces * 2);
  v->folded = 1;
  for (size_t i = 0; i < stretches; i++) {
    uint64_t from = i ? t->at[i - 1].operation : 0, to = i < t->count ? t->at[i].operation : operations;
    uint32_t first = (window_of(i, stretches, windows) * 2 + (uint32_t)(i & 1)) * pieces;
    for (unsigned p = 0; p < pieces && from < to; p++) add(v, from + (to - from) * p / pieces, first + p, (uint32_t)i);
  }
}

int vs_divide(vs_visits *v, const vs_turns *t, uint64_t operations, unsigned parts)
{
  *v = (vs_visits){ .at = malloc((VS_VISITS + VS_PHASES) * sizeof *v->at) };
  if (!v->at) return 0;
  if (t->count <= FEW_TURNS) divide_once(v, t, operations, parts);
  else divide_folded(v, t, operations, parts);
  if (v->count == 0) add(v, 0, 0, 0);
  return 1;
}

size_t vs_of(const vs_visits *v, uint64_t operation)
{
  size_t low = 0, high = v->count;
  while (high - low > 1) {
    size_t mid = (low + high) / 2;
    if (v->at[mid].start <= operation) low = mid;
    else high = mid;
  }
  return low;
}

void vs_forget(vs_visits *v) { free(v->at); }
