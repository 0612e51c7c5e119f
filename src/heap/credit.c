/*
 * credit: how a heap takes from a budget.
 *
 * `limit` is what it has taken, `room` what of that is not in use. It takes a little more than it needs, so that it asks rarely, and gives back
 * what is far more than that little; in between the two are the heap's alone, and no other thread looks at them.
 */
#include "heap/arena.h"
#include "port/port.h"

enum { GRACE = 65536 };

/* So much is taken ahead, and not given back at once. */
static ptrdiff_t slack(const mr_heap *h) {
  ptrdiff_t used = h->limit - h->room;
  return used / 16 > 2048 ? used / 16 : 2048;
}

static int take_ahead(mr_heap *h, size_t n) {
  if (mr_budget_take(h->budget, n)) return 0;
  h->limit += (ptrdiff_t)n;
  h->room += (ptrdiff_t)n;
  return 1;
}

PORT_NOINLINE int mr_heap_more(mr_heap *h, size_t n) {
  if (!h->budget || h->limit - h->room + (ptrdiff_t)n > h->most) return 0;
  mr_assert(h->room <= h->limit && h->room < (ptrdiff_t)n);
  size_t need = (size_t)((ptrdiff_t)n - h->room);
  return take_ahead(h, need + (size_t)slack(h)) || take_ahead(h, need);
}

void mr_heap_settle(mr_heap *h) {
  ptrdiff_t keep = slack(h);
  if (!h->budget || !h->fast || h->room <= 2 * keep) return;
  mr_budget_give(h->budget, (size_t)(h->room - keep));
  h->limit -= h->room - keep;
  h->room = keep;
  mr_assert(h->limit >= h->room);
}

int mr_heap_budget(mr_heap *h, mr_budget *b, size_t taken, size_t limit) {
  mr_heap_limit(h, taken);
  h->budget = b;
  h->most = limit == 0 || limit > (size_t)PTRDIFF_MAX ? PTRDIFF_MAX : (ptrdiff_t)limit;
  if (h->room >= 0 || take_ahead(h, (size_t)-h->room)) return 1;
  mr_heap_unbudget(h);
  return 0;
}

void mr_heap_grace(mr_heap *h) {
  h->limit += GRACE;
  h->room += GRACE;
}

void mr_heap_unbudget(mr_heap *h) {
  if (!h->budget) return;
  mr_budget_give(h->budget, (size_t)(h->limit - (h->fast ? 0 : GRACE)));
  h->budget = NULL;
  mr_heap_limit(h, 0);
}
