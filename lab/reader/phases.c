/* Finding turns, dividing: see phases.h. */
#include "phases.h"
#include <stdlib.h>

#define PART (1.0 / 25)
#define MOST_PIECES 8 /* of a stretch between two turns that is not longer than a part */

/* ---- turns ---- */

int ph_start(ph_turns *t)
{
  *t = (ph_turns){ .at = malloc(PH_TURNS * sizeof *t->at), .part = PART };
  return t->at != NULL;
}

void ph_free(ph_turns *t) { free(t->at); }

static void follow(ph_turns *t, uint64_t operation, uint64_t bytes, double least)
{
  ph_turn *next = &t->next;
  int further = t->falling ? bytes <= next->bytes : bytes >= next->bytes;
  double back = t->falling ? (double)bytes - (double)next->bytes : (double)next->bytes - (double)bytes;
  if (!further && back < least) return;
  if (!further) {
    if (t->count < PH_TURNS) t->at[t->count++] = *next;
    t->falling = !t->falling;
  }
  *next = (ph_turn){ operation, bytes };
}

/* Turns that are none by what is known now go: a coarser look at the finer ones, which are all that matter to it. */
static void thin(ph_turns *t)
{
  ph_turns coarse = { .at = t->at, .peak = t->peak, .part = t->part };
  for (size_t i = 0; i < t->count; i++) follow(&coarse, t->at[i].operation, t->at[i].bytes, t->part * (double)t->peak);
  follow(&coarse, t->next.operation, t->next.bytes, t->part * (double)t->peak);
  *t = coarse;
}

void ph_note(ph_turns *t, uint64_t operation, uint64_t bytes)
{
  if (bytes > t->peak) t->peak = bytes;
  follow(t, operation, bytes, t->part * (double)t->peak);
  if (t->count < PH_TURNS) return;
  thin(t);
  while (t->count > PH_TURNS / 2) {
    t->part *= 2;
    thin(t);
  }
}

void ph_end(ph_turns *t)
{
  thin(t);
  if (t->next.operation && t->count < PH_TURNS) t->at[t->count++] = t->next;
}

/* ---- phases ---- */

/* From one turn to the next, in equal parts. */
static void add_stretch(ph_phases *p, uint64_t from, uint64_t to, uint64_t pieces, size_t turns)
{
  if (pieces > to - from) pieces = to - from;
  for (uint64_t i = 0; i < pieces && p->count < PH_PHASES; i++)
    p->at[p->count++] = (ph_phase){ from + (uint64_t)((double)(to - from) * (double)i / (double)pieces), (uint32_t)turns };
}

int ph_divide(ph_phases *p, const ph_turns *t, uint64_t operations, unsigned parts)
{
  uint64_t step = operations / parts + 1, from = 0, least = (PH_PHASES - parts) / (t->count + 1);
  if (least > MOST_PIECES) least = MOST_PIECES;
  *p = (ph_phases){ .at = malloc(PH_PHASES * sizeof *p->at) };
  if (!p->at) return 0;
  for (size_t k = 0; k <= t->count; k++) {
    uint64_t to = k < t->count ? t->at[k].operation : operations, pieces = (to - from) / step + 1;
    if (to <= from || to > operations) continue;
    add_stretch(p, from, to, pieces > least ? pieces : least, k);
    from = to;
  }
  if (!p->count) p->at[p->count++] = (ph_phase){ 0, 0 };
  return 1;
}

size_t ph_of(const ph_phases *p, uint64_t operation)
{
  size_t low = 0, high = p->count;
  while (high - low > 1) {
    size_t mid = (low + high) / 2;
    if (p->at[mid].start <= operation) low = mid;
    else high = mid;
  }
  return low;
}

void ph_forget(ph_phases *p) { free(p->at); }
