/*
 * A script from a joint distribution (describe-trace --joint): phase by phase as many births of each kind as the trace had, spread over the phase in
 * random order, each with its size, thread, freeing thread, and lifetime on the allocation clock or phase of death; the largest blocks at their own
 * times. A block that a realloc ends goes on as the earliest block still to come that a realloc on that thread makes of that size: the trace has as
 * many of the one as of the other.
 *
 * The clock counts operations, as the original's did: a death comes when it is due, else a birth whose time has come, else whichever is next. Draws
 * are without replacement, so the totals of each phase are the trace's, apart from rounding when NA is another (then births are stretched,
 * lifetimes are not); and so many die in a phase as did in the trace: no more as long as births are to come, and at its end those that are next.
 * Short lives end before long ones that are due, too: late by the same number of operations, they would be later.
 */
#define _GNU_SOURCE
#include "profile.h"
#include <stdio.h>
#include <string.h>

#define SHORT_LIFE 64
#define SOON 2 /* phases */

/* As many allocations as asked for: each cell's number times a factor, what is left of a whole goes to the next cell. */
static void scale(pf_maker *m, uint64_t allocations)
{
  double all = 0, rest = sc_unit(&m->random);
  for (size_t i = 0; i < m->count; i++) all += (double)m->cells[i].number;
  for (size_t i = 0; allocations && i < m->count; i++) {
    rest += (double)m->cells[i].number * (double)allocations / all;
    m->cells[i].number = (uint64_t)rest;
    rest -= (double)m->cells[i].number;
  }
  m->stretch = allocations ? (double)allocations / all : 1;
}

/* ---- drawing a cell of a phase ---- */

static uint64_t *tree_of(const pf_maker *m, unsigned p) { return m->tree + m->phases[p].first + p; }
static size_t size_of(const pf_maker *m, unsigned p) { return m->phases[p + 1].first - m->phases[p].first; }

static void tree_add(uint64_t *tree, size_t size, size_t i, uint64_t n) { for (i++; i <= size; i += i & -i) tree[i] += n; }

static size_t tree_find(const uint64_t *tree, size_t size, uint64_t k)
{
  size_t at = 0, bit = 1;
  while (bit * 2 <= size) bit *= 2;
  for (; bit; bit /= 2)
    if (at + bit <= size && tree[at + bit] <= k) {
      at += bit;
      k -= tree[at];
    }
  return at;
}

/* One of the phase's blocks that are left, of which there must be one. */
static const pf_cell *draw(pf_maker *m, unsigned p)
{
  uint64_t *tree = tree_of(m, p);
  size_t i = tree_find(tree, size_of(m, p), sc_below(&m->random, m->phases[p].left));
  tree_add(tree, size_of(m, p), i, (uint64_t)-1);
  m->phases[p].left--;
  return &m->cells[m->phases[p].first + i];
}

static int plant(pf_maker *m)
{
  if (!(m->tree = sc_map((m->count + PHASES + 1) * sizeof *m->tree))) return 0;
  for (unsigned p = 0; p < m->phase_count; p++)
    for (size_t i = 0; i < size_of(m, p); i++) {
      uint64_t n = m->cells[m->phases[p].first + i].number;
      tree_add(tree_of(m, p), size_of(m, p), i, n);
      m->phases[p].left += n;
    }
  for (const pf_cell *c = m->cells; c < m->cells + m->count; c++)
    if (c->phases >= 0 && c->phase + (unsigned)c->phases < m->phase_count) m->phases[c->phase + (unsigned)c->phases].dying += c->number;
  return 1;
}

/* ---- deaths to come ---- */

static void push(pf_maker *m, pf_heap *h, pf_due d)
{
  pf_due *at = pf_one_more(h->at, h->count, &h->room, sizeof *at);
  if (!at) { m->s->out_of_memory = 1; return; }
  h->at = at;
  size_t i = h->count++;
  for (; i && at[(i - 1) / 2].when > d.when; i = (i - 1) / 2) at[i] = at[(i - 1) / 2];
  at[i] = d;
}

static pf_due pop(pf_heap *h)
{
  pf_due top = h->at[0], last = h->at[--h->count];
  size_t i = 0;
  for (size_t c; (c = 2 * i + 1) < h->count; i = c) {
    if (c + 1 < h->count && h->at[c + 1].when < h->at[c].when) c++;
    if (h->at[c].when >= last.when) break;
    h->at[i] = h->at[c];
  }
  h->at[i] = last;
  return top;
}

/* The one whose turn it is; NULL: nothing will die. */
static pf_heap *next_death(pf_maker *m)
{
  pf_heap *a = &m->shortly, *b = &m->later;
  if (!a->count || !b->count) return a->count ? a : b->count ? b : NULL;
  return a->at[0].when <= m->now || a->at[0].when <= b->at[0].when ? a : b;
}

/* ---- the run ---- */

/* Where in the phase of its death, from 0 to 1: in or against the order of birth as often as the trace's blocks, else at random. */
static double place_in(pf_maker *m, pf_phase *p)
{
  double turn = p->dying ? ((double)p->named++ + sc_unit(&m->random)) / (double)p->dying : 0.5, order = 2 * p->forward - 1;
  if (sc_unit(&m->random) >= (order < 0 ? -order : order) || turn > 1) return sc_unit(&m->random);
  return order < 0 ? 1 - turn : turn;
}

/* In operations to go. The clock already counts the birth. */
static uint64_t life_of(pf_maker *m, const pf_cell *c)
{
  if (c->phases < 0) {
    uint64_t life = (uint64_t)c->life_from + sc_below(&m->random, (uint64_t)(c->life_to - c->life_from) + 1);
    return life ? life - 1 : 0;
  }
  unsigned died = c->phase + (unsigned)c->phases;
  if (died >= m->phase_count) died = m->phase_count - 1;
  double begin = (double)m->phases[died].start, end = (double)m->phases[died + 1].start;
  double life = begin + place_in(m, &m->phases[died]) * (end - begin) - (double)m->now / m->stretch;
  return life > 0 ? (uint64_t)life : 0;
}

static void born(pf_maker *m, const pf_cell *c, sc_block b, uint8_t to)
{
  m->now++;
  if (c->end == NEVER) return;
  uint64_t life = life_of(m, c);
  push(m, life < SHORT_LIFE ? &m->shortly : &m->later, (pf_due){ m->now + life, b, c->next, c->end, to });
}

static void allocate(pf_maker *m, const pf_cell *c)
{
  static const unsigned kinds[ROUTINES] = { SC_MALLOC, SC_CALLOC, SC_REALLOC, SC_ALIGNED, SC_REALLOC };
  born(m, c, sc_birth(m->s, c->by, kinds[c->routine], c->size, c->routine == ALIGNED ? 6 : 0), c->to);
}

static size_t grown_from(const pf_maker *m, uint64_t key)
{
  size_t low = 0, high = m->grown_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (pf_order(&m->grown[mid]) < key) low = mid + 1;
    else high = mid;
  }
  return low;
}

/* What a block that is reallocated becomes. */
static const pf_cell *successor(pf_maker *m, const pf_due *d)
{
  uint64_t key = pf_grown_key(d->to, d->next);
  size_t first = grown_from(m, key);
  for (size_t i = first < m->grown_count ? first + m->used_up[first] : first; i < m->grown_count && pf_order(&m->grown[i]) >> 16 == key >> 16; i++) {
    if (m->grown[i].number) {
      m->grown[i].number--;
      return &m->grown[i];
    }
    m->used_up[first]++;
  }
  return NULL;
}

static void end_one(pf_maker *m)
{
  pf_due d = pop(next_death(m));
  const pf_cell *c = d.end == REALLOCATED ? successor(m, &d) : NULL;
  if (c) {
    born(m, c, sc_regrow(m->s, d.to, &d.block, c->size), c->to);
    return;
  }
  sc_death(m->s, d.to, &d.block);
  m->now++;
}

/*
 * Births may be ahead of their times: by `ahead`, since there was nothing else to do. They stay so until more deaths are due than fit; a death
 * is only brought forward when it is nearer than the next birth is then.
 */
static void note_birth(pf_maker *m, double planned)
{
  m->ahead = planned > (double)m->now ? planned - (double)m->now : 0;
}

static void bear_large(pf_maker *m)
{
  const pf_cell *c = m->large++;
  note_birth(m, (double)c->born * m->stretch);
  for (uint64_t i = 0; i < c->number; i++) allocate(m, c);
}

/* Everything that comes before the next birth of the phase, which is meant for `birth`; `left` births must be made before `end`. */
static void catch_up(pf_maker *m, double birth, uint64_t left, double end)
{
  while (!m->s->out_of_memory) {
    pf_heap *dying = next_death(m);
    double now = (double)m->now, death = dying ? (double)dying->at[0].when - now : 1e300;
    double large = (m->large < m->large_end ? (double)m->large->born * m->stretch : 1e300) - now - m->ahead, ordinary = birth - now - m->ahead;
    if (dying == &m->later && left && now + (double)left >= end) death = 1e300; /* the phase has had its deaths */
    if (death <= 0 && death < large + m->ahead) end_one(m);
    else if (large <= 0 && large <= ordinary) bear_large(m);
    else if (ordinary <= death && ordinary <= large) break; /* at the very end, too, when nothing is left at all */
    else if (large <= death) bear_large(m);
    else end_one(m);
  }
}

static void finish_phase(pf_maker *m, double begin, double end)
{
  while (!m->s->out_of_memory) {
    pf_heap *dying = next_death(m);
    double death = dying ? (double)dying->at[0].when : 1e300;
    double large = m->large < m->large_end ? (double)m->large->born * m->stretch : 1e300;
    if (large < end && large <= death) bear_large(m);
    else if ((double)m->now < end && death <= end + SOON * (end - begin)) end_one(m);
    else if (large < end) bear_large(m);
    else break;
  }
}

/* The births that no realloc of a block brings about, spread over the phase; the rest follows from the deaths. */
static void run_phase(pf_maker *m, unsigned p)
{
  uint64_t births = m->phases[p].left;
  double begin = (double)m->phases[p].start * m->stretch, end = (double)m->phases[p + 1].start * m->stretch;
  double apart = births ? (end - begin) / (double)births : 0;
  for (uint64_t i = 0; i < births && !m->s->out_of_memory; i++) {
    double planned = begin + apart * ((double)i + 0.5);
    catch_up(m, planned, births - i, end);
    note_birth(m, planned);
    allocate(m, draw(m, p));
  }
  finish_phase(m, begin, end);
}

static uint32_t count_threads(const pf_maker *m)
{
  uint32_t most = 0;
  for (size_t i = 0; i < m->count; i++) {
    if (m->cells[i].by > most) most = m->cells[i].by;
    if (m->cells[i].end != NEVER && m->cells[i].to > most) most = m->cells[i].to;
  }
  return most + 1;
}

/* After sorting: where each phase begins, the largest blocks, and what reallocs make. */
static int divide(pf_maker *m)
{
  size_t i = 0;
  for (unsigned p = 0; p <= m->phase_count; p++) {
    while (i < m->count && pf_order(&m->cells[i]) < p) i++;
    m->phases[p].first = i;
  }
  m->large = m->cells + i;
  while (i < m->count && pf_order(&m->cells[i]) >> 63 == 0) i++;
  m->large_end = m->grown = m->cells + i;
  m->grown_count = m->count - i;
  return (m->used_up = sc_map((m->grown_count + 1) * sizeof *m->used_up)) != NULL;
}

static void discard(pf_maker *m)
{
  sc_unmap(m->cells, m->room * sizeof *m->cells);
  sc_unmap(m->tree, (m->count + PHASES + 1) * sizeof *m->tree);
  sc_unmap(m->shortly.at, m->shortly.room * sizeof(pf_due));
  sc_unmap(m->later.at, m->later.room * sizeof(pf_due));
  sc_unmap(m->used_up, (m->grown_count + 1) * sizeof *m->used_up);
}

sc_script *mk_from_profile(const char *path, uint64_t allocations, uint64_t seed, char *error, size_t room)
{
  static pf_maker m;
  memset(&m, 0, sizeof m);
  m.random = seed;
  m.stretch = 1;
  int ok = pf_read(&m, path, error, room) && (m.s = sc_new(count_threads(&m))) != NULL;
  if (ok) {
    scale(&m, allocations);
    pf_sort(m.cells, m.count);
    snprintf(error, room, "%s: not enough memory for this profile", path);
    ok = divide(&m) && plant(&m);
    for (unsigned p = 0; ok && p < m.phase_count && !m.s->out_of_memory; p++) run_phase(&m, p);
    if (ok) catch_up(&m, 1e300, 0, 0);
    ok = ok && !m.s->out_of_memory;
  }
  discard(&m);
  if (ok) return m.s;
  sc_free(m.s);
  return NULL;
}
