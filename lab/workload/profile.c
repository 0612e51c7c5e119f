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
#include "script.h"
#include "../reader/counts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PHASES 16384
#define SHORT_LIFE 64
#define SOON 2 /* phases */
enum { FREED, REALLOCATED, NEVER };

enum { MALLOC, CALLOC, REALLOC, ALIGNED, REALLOC_NULL, ROUTINES }; /* realloc: of a block */

typedef struct {
  uint16_t phase, next; /* next: code of the size that a realloc makes */
  uint8_t routine, end, by, to;
  int32_t phases; /* from birth to death, or -1: then life_from to life_to hold */
  uint64_t size;
  int64_t life_from, life_to, born;
  uint64_t number;
} cell;
typedef struct { uint64_t when; sc_block block; uint16_t next; uint8_t end, to; } due; /* a death to come */
typedef struct { due *at; size_t count, room; } heap;                                   /* by when */
typedef struct {
  uint64_t start, left; /* left: blocks still to come */
  size_t first;         /* of its cells */
  double forward;       /* how often who dies next in it was born later: 1 first in, first out; 0 last in, first out; 0.5 without order */
  uint64_t dying, named; /* how many die in it whose lives are kept in phases; how many of them were born */
} phase;

typedef struct {
  cell *cells;
  size_t count, room;
  phase phases[PHASES + 1]; /* and one behind the last, where the trace ends */
  unsigned phase_count;
  uint64_t *tree;           /* Fenwick trees over the numbers of each phase: that of p from its first cell + p */
  heap shortly, later;      /* deaths to come */
  const cell *large, *large_end; /* the largest blocks still to come, by birth */
  cell *grown;              /* cells of blocks that a realloc makes: by thread, size and phase */
  size_t grown_count;
  uint32_t *used_up;        /* for the first of a thread and size: how many of them have nothing left */
  double stretch, ahead;    /* ahead: see note_birth */
  uint64_t now, operations; /* operations done; of the trace */
  uint64_t random;
  sc_script *s;
} maker;

/* ---- the file ---- */

static uint64_t grown_key(unsigned thread, unsigned code) { return UINT64_C(1) << 63 | (uint64_t)thread << 40 | (uint64_t)code << 16; }

/* Phase by phase; then the largest blocks, by birth; then what reallocs make. */
static uint64_t order_of(const cell *c)
{
  if (c->routine == REALLOC) return grown_key(c->by, ct_size_code(c->size)) | c->phase;
  return c->born >= 0 ? UINT64_C(1) << 60 | (uint64_t)c->born : (uint64_t)c->phase;
}

static void sift(cell *cells, size_t i, size_t n)
{
  cell moving = cells[i];
  for (size_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && order_of(&cells[c]) < order_of(&cells[c + 1])) c++;
    if (order_of(&cells[c]) <= order_of(&moving)) break;
    cells[i] = cells[c];
  }
  cells[i] = moving;
}

/* A heap sort, in place: qsort of the C library would take its room from the allocator under test. */
static void sort_cells(cell *cells, size_t n)
{
  for (size_t i = n / 2; i-- > 0;) sift(cells, i, n);
  for (size_t last = n; last-- > 1;) {
    cell largest = cells[0];
    cells[0] = cells[last];
    cells[last] = largest;
    sift(cells, 0, last);
  }
}

static int parse_row(const char *line, cell *c)
{
  unsigned in, routine, end, by, to, next;
  unsigned long long size, number;
  long long from, until, born;
  int phases, used = 0;
  if (sscanf(line, "%u,%u,%u,%u,%u,%llu,%lld,%lld,%llu,%lld,%d,%u%n", &in, &routine, &end, &by, &to, &size, &from, &until, &number, &born,
             &phases, &next, &used) != 12) return 0;
  if (in >= PHASES || routine >= ROUTINES || end > NEVER || by > 63 || to > 63 || (end != NEVER && (from < 0 || until < from))) return 0;
  if ((line[used] && line[used] != '\n') || phases >= PHASES || next >> 13 || (born >= 0 && number != 1)) return 0;
  *c = (cell){ (uint16_t)in, (uint16_t)next, (uint8_t)routine, (uint8_t)end, (uint8_t)by, (uint8_t)to, phases, size, from, until, born, number };
  return 1;
}

static void *one_more(void *rows, size_t count, size_t *room, size_t size)
{
  if (count < *room) return rows;
  size_t more = *room ? *room * 2 : 4096;
  void *bigger = sc_remap(rows, *room * size, more * size);
  if (bigger) *room = more;
  return bigger;
}

static int add_phase(maker *m, uint64_t start, double forward)
{
  if (m->phase_count == PHASES || start >= m->operations || (m->phase_count && start <= m->phases[m->phase_count - 1].start)) return 0;
  m->phases[m->phase_count++] = (phase){ .start = start, .forward = forward };
  m->phases[m->phase_count].start = m->operations;
  return 1;
}

static int read_row(maker *m, const char *line)
{
  unsigned long long start;
  double forward;
  if (sscanf(line, "# operations %llu", &start) == 1) m->operations = start;
  if (line[0] == '#' || strncmp(line, "phase,", 6) == 0) return 1;
  if (line[0] == 'p') return sscanf(line, "p,%llu,%lf", &start, &forward) == 2 && add_phase(m, start, forward);
  cell *cells = one_more(m->cells, m->count, &m->room, sizeof *cells);
  if (!cells) return 0;
  m->cells = cells;
  return parse_row(line, &m->cells[m->count]) && m->cells[m->count++].phase < m->phase_count;
}

static int read_cells(maker *m, const char *path, char *error, size_t room)
{
  char line[256];
  static char buffer[1 << 16];
  FILE *f = fopen(path, "re");
  unsigned long number = 0;
  int good = 1;
  if (!f) { snprintf(error, room, "%s: %s", path, strerror(errno)); return 0; }
  setvbuf(f, buffer, _IOFBF, sizeof buffer);
  while (good && fgets(line, sizeof line, f)) {
    number++;
    good = read_row(m, line);
  }
  fclose(f);
  if (good && m->count && m->phase_count) return 1;
  if (!good) snprintf(error, room, "%s:%lu: not a row of a profile; make the profile again with `mare lab fit`", path, number);
  else snprintf(error, room, "%s:%lu: the profile is empty; make it again with `mare lab fit`", path, number + 1);
  return 0;
}

/* As many allocations as asked for: each cell's number times a factor, what is left of a whole goes to the next cell. */
static void scale(maker *m, uint64_t allocations)
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

static uint64_t *tree_of(const maker *m, unsigned p) { return m->tree + m->phases[p].first + p; }
static size_t size_of(const maker *m, unsigned p) { return m->phases[p + 1].first - m->phases[p].first; }

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
static const cell *draw(maker *m, unsigned p)
{
  uint64_t *tree = tree_of(m, p);
  size_t i = tree_find(tree, size_of(m, p), sc_below(&m->random, m->phases[p].left));
  tree_add(tree, size_of(m, p), i, (uint64_t)-1);
  m->phases[p].left--;
  return &m->cells[m->phases[p].first + i];
}

static int plant(maker *m)
{
  if (!(m->tree = sc_map((m->count + PHASES + 1) * sizeof *m->tree))) return 0;
  for (unsigned p = 0; p < m->phase_count; p++)
    for (size_t i = 0; i < size_of(m, p); i++) {
      uint64_t n = m->cells[m->phases[p].first + i].number;
      tree_add(tree_of(m, p), size_of(m, p), i, n);
      m->phases[p].left += n;
    }
  for (const cell *c = m->cells; c < m->cells + m->count; c++)
    if (c->phases >= 0 && c->phase + (unsigned)c->phases < m->phase_count) m->phases[c->phase + (unsigned)c->phases].dying += c->number;
  return 1;
}

/* ---- deaths to come ---- */

static void push(maker *m, heap *h, due d)
{
  due *at = one_more(h->at, h->count, &h->room, sizeof *at);
  if (!at) { m->s->out_of_memory = 1; return; }
  h->at = at;
  size_t i = h->count++;
  for (; i && at[(i - 1) / 2].when > d.when; i = (i - 1) / 2) at[i] = at[(i - 1) / 2];
  at[i] = d;
}

static due pop(heap *h)
{
  due top = h->at[0], last = h->at[--h->count];
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
static heap *next_death(maker *m)
{
  heap *a = &m->shortly, *b = &m->later;
  if (!a->count || !b->count) return a->count ? a : b->count ? b : NULL;
  return a->at[0].when <= m->now || a->at[0].when <= b->at[0].when ? a : b;
}

/* ---- the run ---- */

/* Where in the phase of its death, from 0 to 1: in or against the order of birth as often as the trace's blocks, else at random. */
static double place_in(maker *m, phase *p)
{
  double turn = p->dying ? ((double)p->named++ + sc_unit(&m->random)) / (double)p->dying : 0.5, order = 2 * p->forward - 1;
  if (sc_unit(&m->random) >= (order < 0 ? -order : order) || turn > 1) return sc_unit(&m->random);
  return order < 0 ? 1 - turn : turn;
}

/* In operations to go. The clock already counts the birth. */
static uint64_t life_of(maker *m, const cell *c)
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

static void born(maker *m, const cell *c, sc_block b, uint8_t to)
{
  m->now++;
  if (c->end == NEVER) return;
  uint64_t life = life_of(m, c);
  push(m, life < SHORT_LIFE ? &m->shortly : &m->later, (due){ m->now + life, b, c->next, c->end, to });
}

static void allocate(maker *m, const cell *c)
{
  static const unsigned kinds[ROUTINES] = { SC_MALLOC, SC_CALLOC, SC_REALLOC, SC_ALIGNED, SC_REALLOC };
  born(m, c, sc_birth(m->s, c->by, kinds[c->routine], c->size, c->routine == ALIGNED ? 6 : 0), c->to);
}

static size_t grown_from(const maker *m, uint64_t key)
{
  size_t low = 0, high = m->grown_count;
  while (low < high) {
    size_t mid = (low + high) / 2;
    if (order_of(&m->grown[mid]) < key) low = mid + 1;
    else high = mid;
  }
  return low;
}

/* What a block that is reallocated becomes. */
static const cell *successor(maker *m, const due *d)
{
  uint64_t key = grown_key(d->to, d->next);
  size_t first = grown_from(m, key);
  for (size_t i = first < m->grown_count ? first + m->used_up[first] : first; i < m->grown_count && order_of(&m->grown[i]) >> 16 == key >> 16; i++) {
    if (m->grown[i].number) {
      m->grown[i].number--;
      return &m->grown[i];
    }
    m->used_up[first]++;
  }
  return NULL;
}

static void end_one(maker *m)
{
  due d = pop(next_death(m));
  const cell *c = d.end == REALLOCATED ? successor(m, &d) : NULL;
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
static void note_birth(maker *m, double planned)
{
  m->ahead = planned > (double)m->now ? planned - (double)m->now : 0;
}

static void bear_large(maker *m)
{
  const cell *c = m->large++;
  note_birth(m, (double)c->born * m->stretch);
  for (uint64_t i = 0; i < c->number; i++) allocate(m, c);
}

/* Everything that comes before the next birth of the phase, which is meant for `birth`; `left` births must be made before `end`. */
static void catch_up(maker *m, double birth, uint64_t left, double end)
{
  while (!m->s->out_of_memory) {
    heap *dying = next_death(m);
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

static void finish_phase(maker *m, double begin, double end)
{
  while (!m->s->out_of_memory) {
    heap *dying = next_death(m);
    double death = dying ? (double)dying->at[0].when : 1e300;
    double large = m->large < m->large_end ? (double)m->large->born * m->stretch : 1e300;
    if (large < end && large <= death) bear_large(m);
    else if ((double)m->now < end && death <= end + SOON * (end - begin)) end_one(m);
    else if (large < end) bear_large(m);
    else break;
  }
}

/* The births that no realloc of a block brings about, spread over the phase; the rest follows from the deaths. */
static void run_phase(maker *m, unsigned p)
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

static uint32_t count_threads(const maker *m)
{
  uint32_t most = 0;
  for (size_t i = 0; i < m->count; i++) {
    if (m->cells[i].by > most) most = m->cells[i].by;
    if (m->cells[i].end != NEVER && m->cells[i].to > most) most = m->cells[i].to;
  }
  return most + 1;
}

/* After sorting: where each phase begins, the largest blocks, and what reallocs make. */
static int divide(maker *m)
{
  size_t i = 0;
  for (unsigned p = 0; p <= m->phase_count; p++) {
    while (i < m->count && order_of(&m->cells[i]) < p) i++;
    m->phases[p].first = i;
  }
  m->large = m->cells + i;
  while (i < m->count && order_of(&m->cells[i]) >> 63 == 0) i++;
  m->large_end = m->grown = m->cells + i;
  m->grown_count = m->count - i;
  return (m->used_up = sc_map((m->grown_count + 1) * sizeof *m->used_up)) != NULL;
}

static void discard(maker *m)
{
  sc_unmap(m->cells, m->room * sizeof *m->cells);
  sc_unmap(m->tree, (m->count + PHASES + 1) * sizeof *m->tree);
  sc_unmap(m->shortly.at, m->shortly.room * sizeof(due));
  sc_unmap(m->later.at, m->later.room * sizeof(due));
  sc_unmap(m->used_up, (m->grown_count + 1) * sizeof *m->used_up);
}

sc_script *mk_from_profile(const char *path, uint64_t allocations, uint64_t seed, char *error, size_t room)
{
  static maker m;
  memset(&m, 0, sizeof m);
  m.random = seed;
  m.stretch = 1;
  int ok = read_cells(&m, path, error, room) && (m.s = sc_new(count_threads(&m))) != NULL;
  if (ok) {
    scale(&m, allocations);
    sort_cells(m.cells, m.count);
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
