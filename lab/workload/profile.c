/*
 * A script from a joint distribution (describe-trace --joint): phase by phase as many births of each kind as the trace had, spread over the phase
 * in random order, each with its size, lifetime on the allocation clock, thread and freeing thread; the largest blocks at their own times. A block
 * that a realloc ends goes on as a block of the realloc cells of its phase.
 *
 * The clock counts operations, as the original's did: a death comes when it is due, else a birth whose time has come, else whichever is next. Draws
 * are without replacement, so the totals of each phase are the trace's, apart from rounding when NA is another (then births are stretched,
 * lifetimes are not).
 */
#define _GNU_SOURCE
#include "script.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PHASES 1024
enum { FREED, REALLOCATED, NEVER };

typedef struct { uint16_t phase; uint8_t routine, end, by, to; uint64_t size; int64_t life_from, life_to, born; uint64_t number; } cell;
typedef struct { uint64_t when; sc_block block; uint8_t end, to; } due; /* a death to come */

typedef struct {
  cell *cells;
  size_t count, room;
  size_t first[PHASES + 1]; /* of each phase's cells */
  uint64_t *tree;           /* Fenwick tree over the numbers of the phase under way */
  size_t size;
  uint64_t left, realloc_left;
  size_t reallocs_of[65];   /* where each thread's realloc cells of the phase begin */
  due *heap;
  size_t heap_count, heap_room;
  const cell *large, *large_end; /* the largest blocks still to come, by birth */
  double stretch, ahead;    /* ahead: see note_birth */
  uint64_t now;             /* operations done */
  uint64_t step, random, owed; /* step: operations per phase; owed: realloc(NULL) calls of the phase */
  sc_script *s;
} maker;

/* ---- the file ---- */

/* Phase by phase; in a phase the reallocs last, by thread. Behind them all the largest blocks, by birth. */
static uint64_t order_of(const cell *c)
{
  if (c->born >= 0) return UINT64_C(1) << 60 | (uint64_t)c->born;
  return (uint64_t)c->phase << 8 | (c->routine == 2 ? 1u + c->by : 0);
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
  unsigned phase, routine, end, by, to;
  unsigned long long size, number;
  long long from, until, born;
  int used = 0;
  if (sscanf(line, "%u,%u,%u,%u,%u,%llu,%lld,%lld,%llu,%lld%n", &phase, &routine, &end, &by, &to, &size, &from, &until, &number, &born,
             &used) != 10) return 0;
  if (phase >= PHASES || routine > 3 || end > NEVER || by > 63 || to > 63 || (end != NEVER && (from < 0 || until < from))) return 0;
  if (line[used] && line[used] != '\n') return 0;
  if (born >= 0 && number != 1) return 0;
  *c = (cell){ (uint16_t)phase, (uint8_t)routine, (uint8_t)end, (uint8_t)by, (uint8_t)to, size, from, until, born, number };
  return 1;
}

static int read_cells(maker *m, const char *path, char *error, size_t room)
{
  char line[256];
  static char buffer[1 << 16];
  FILE *f = fopen(path, "re");
  unsigned long number = 0;
  if (!f) { snprintf(error, room, "%s: %s", path, strerror(errno)); return 0; }
  setvbuf(f, buffer, _IOFBF, sizeof buffer);
  while (fgets(line, sizeof line, f)) {
    number++;
    unsigned long long step;
    if (sscanf(line, "# phase_operations %llu", &step) == 1) m->step = step;
    if (line[0] == '#' || strncmp(line, "phase,", 6) == 0) continue;
    if (m->count == m->room) {
      size_t more = m->room ? m->room * 2 : 4096;
      cell *cells = sc_remap(m->cells, m->room * sizeof *cells, more * sizeof *cells);
      if (!cells) break;
      m->cells = cells;
      m->room = more;
    }
    if (!parse_row(line, &m->cells[m->count++])) {
      snprintf(error, room, "%s:%lu: not a row of a profile; make the profile again with `mare lab fit`", path, number);
      fclose(f);
      return 0;
    }
  }
  fclose(f);
  if (m->count && m->step) return 1;
  snprintf(error, room, "%s:%lu: the profile is empty; make it again with `mare lab fit`", path, number + 1);
  return 0;
}

/* As many allocations as asked for: each cell's number times a factor, rounded up or down at random in proportion. */
static void scale(maker *m, uint64_t allocations)
{
  double all = 0;
  for (size_t i = 0; i < m->count; i++) all += (double)m->cells[i].number;
  for (size_t i = 0; allocations && i < m->count; i++) {
    double wanted = (double)m->cells[i].number * (double)allocations / all;
    m->cells[i].number = (uint64_t)(wanted + sc_unit(&m->random));
  }
  m->stretch = allocations ? (double)allocations / all : 1;
}

/* ---- drawing a cell of the phase ---- */

static void tree_add(maker *m, size_t i, uint64_t n) { for (i++; i <= m->size; i += i & -i) m->tree[i] += n; }

static size_t tree_find(const maker *m, uint64_t k)
{
  size_t at = 0, bit = 1;
  while (bit * 2 <= m->size) bit *= 2;
  for (; bit; bit /= 2)
    if (at + bit <= m->size && m->tree[at + bit] <= k) {
      at += bit;
      k -= m->tree[at];
    }
  return at;
}

static uint64_t tree_sum(const maker *m, size_t i) /* of the cells before i */
{
  uint64_t sum = 0;
  for (; i; i &= i - 1) sum += m->tree[i];
  return sum;
}

/* One of the cells from `first` up to `end`, if they have anything left. */
static const cell *draw(maker *m, const cell *cells, size_t first, size_t end)
{
  uint64_t before = tree_sum(m, first), n = tree_sum(m, end) - before;
  if (n == 0) return NULL;
  size_t i = tree_find(m, before + sc_below(&m->random, n));
  tree_add(m, i, (uint64_t)-1);
  m->left--;
  if (cells[i].routine == 2) m->realloc_left--;
  return &cells[i];
}

/* ---- deaths to come: a heap by when ---- */

static void push(maker *m, due d)
{
  if (m->heap_count == m->heap_room) {
    size_t more = m->heap_room ? m->heap_room * 2 : 4096;
    due *heap = sc_remap(m->heap, m->heap_room * sizeof *heap, more * sizeof *heap);
    if (!heap) { m->s->out_of_memory = 1; return; }
    m->heap = heap;
    m->heap_room = more;
  }
  size_t i = m->heap_count++;
  for (; i && m->heap[(i - 1) / 2].when > d.when; i = (i - 1) / 2) m->heap[i] = m->heap[(i - 1) / 2];
  m->heap[i] = d;
}

static due pop(maker *m)
{
  due top = m->heap[0], last = m->heap[--m->heap_count];
  size_t i = 0;
  for (size_t c; (c = 2 * i + 1) < m->heap_count; i = c) {
    if (c + 1 < m->heap_count && m->heap[c + 1].when < m->heap[c].when) c++;
    if (m->heap[c].when >= last.when) break;
    m->heap[i] = m->heap[c];
  }
  m->heap[i] = last;
  return top;
}

/* ---- the run ---- */

static void born(maker *m, const cell *c, sc_block b, uint8_t to)
{
  m->now++;
  if (c->end == NEVER) return;
  uint64_t life = (uint64_t)c->life_from + sc_below(&m->random, (uint64_t)(c->life_to - c->life_from) + 1);
  push(m, (due){ m->now + (life ? life - 1 : 0), b, c->end, to }); /* now already counts the birth */
}

static void allocate(maker *m, const cell *c)
{
  static const unsigned kinds[] = { SC_MALLOC, SC_CALLOC, SC_REALLOC, SC_ALIGNED };
  born(m, c, sc_birth(m->s, c->by, kinds[c->routine], c->size, c->routine == 3 ? 6 : 0), c->to);
}

/* What a block that is reallocated becomes: the large block born just then, or one of the phase's realloc cells, of this thread if there is one. */
static const cell *successor(maker *m, const cell *cells, const due *d)
{
  if (m->large < m->large_end && m->large->routine == 2 && m->large->by == d->to && (double)m->large->born * m->stretch <= (double)m->now + 1
      && m->large->number == 1)
    return m->large++;
  if (!m->tree || !m->realloc_left) return NULL;
  const cell *c = draw(m, cells, m->reallocs_of[d->to], m->reallocs_of[d->to + 1]);
  return c ? c : draw(m, cells, m->reallocs_of[0], m->size);
}

static void end_one(maker *m, const cell *cells)
{
  due d = pop(m);
  const cell *c = d.end == REALLOCATED ? successor(m, cells, &d) : NULL;
  if (c) { /* of another thread, if need be: what mattered is whether the same one ends it */
    born(m, c, sc_regrow(m->s, d.to, &d.block, c->size), c->to == c->by ? d.to : c->to);
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

/* Everything that comes before the next birth of the phase, which is meant for `birth`. */
static void catch_up(maker *m, const cell *cells, double birth)
{
  while (!m->s->out_of_memory) {
    double now = (double)m->now, death = m->heap_count ? (double)m->heap[0].when - now : 1e300;
    double large = (m->large < m->large_end ? (double)m->large->born * m->stretch : 1e300) - now - m->ahead, ordinary = birth - now - m->ahead;
    if (death <= 0) end_one(m, cells);
    else if (large <= 0 && large <= ordinary) bear_large(m);
    else if (ordinary <= death && ordinary <= large) break; /* at the very end, too, when nothing is left at all */
    else if (large <= death) bear_large(m);
    else end_one(m, cells);
  }
}

/* The births that no realloc of a block brings about, spread over the phase; the rest follows from the deaths. */
static void run_births(maker *m, const cell *cells, double begin, double end)
{
  uint64_t births = m->left - m->realloc_left + m->owed;
  double apart = births ? (end - begin) / (double)births : 0;
  for (uint64_t i = 0; i < births && !m->s->out_of_memory; i++) {
    double planned = begin + apart * ((double)i + 0.5);
    catch_up(m, cells, planned);
    note_birth(m, planned);
    const cell *c = draw(m, cells, 0, m->owed ? m->size : m->reallocs_of[0]);
    if (!c) c = draw(m, cells, 0, m->size);
    if (!c) break;
    if (c->routine == 2 && m->owed) m->owed--;
    allocate(m, c);
  }
}

static int run_phase(maker *m, unsigned phase)
{
  const cell *cells = m->cells + m->first[phase];
  uint64_t ended = 0;
  m->size = m->first[phase + 1] - m->first[phase];
  m->left = m->realloc_left = 0;
  if (!(m->tree = sc_map((m->size + 1) * sizeof *m->tree))) return 0;
  for (size_t i = 0; i < m->size; i++) {
    tree_add(m, i, cells[i].number);
    m->left += cells[i].number;
    if (cells[i].routine == 2) m->realloc_left += cells[i].number;
    if (cells[i].end == REALLOCATED) ended += cells[i].number;
  }
  for (size_t t = 0, i = 0; t <= 64; t++) {
    while (i < m->size && (cells[i].routine != 2 || cells[i].by < t)) i++;
    m->reallocs_of[t] = i;
  }
  m->owed = m->realloc_left > ended ? m->realloc_left - ended : 0;
  run_births(m, cells, (double)phase * (double)m->step * m->stretch, (double)(phase + 1) * (double)m->step * m->stretch);
  sc_unmap(m->tree, (m->size + 1) * sizeof *m->tree);
  m->tree = NULL;
  return !m->s->out_of_memory;
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

sc_script *mk_from_profile(const char *path, uint64_t allocations, uint64_t seed, char *error, size_t room)
{
  maker m = { .random = seed, .stretch = 1 };
  int ok = read_cells(&m, path, error, room) && (m.s = sc_new(count_threads(&m))) != NULL;
  if (ok) {
    scale(&m, allocations);
    sort_cells(m.cells, m.count);
    size_t i = 0;
    for (unsigned p = 0; p <= PHASES; p++) {
      while (i < m.count && m.cells[i].born < 0 && m.cells[i].phase < p) i++;
      m.first[p] = i;
    }
    m.large = m.cells + i;
    m.large_end = m.cells + m.count;
    snprintf(error, room, "%s: not enough memory for this profile", path);
    for (unsigned p = 0; ok && p < PHASES; p++)
      if (m.first[p + 1] > m.first[p]) ok = run_phase(&m, p);
    m.left = m.realloc_left = 0;
    if (ok) catch_up(&m, m.cells, 1e300);
    ok = ok && !m.s->out_of_memory;
  }
  sc_unmap(m.cells, m.room * sizeof *m.cells);
  sc_unmap(m.heap, m.heap_room * sizeof *m.heap);
  if (ok) return m.s;
  sc_free(m.s);
  return NULL;
}
