/*
 * A script from a joint distribution (describe-trace --joint): phase by phase as many births of each kind as the trace had, spread over the phase
 * in random order, each with its size, thread, freeing thread, and lifetime on the allocation clock or phase of death; the largest blocks at their
 * own times. A block that a realloc ends goes on as the earliest block still to come that a realloc on that thread makes of that size: the trace
 * has as many of the one as of the other.
 *
 * The clock counts operations, as the original's did: a death comes when it is due, else a birth whose time has come, else whichever is next. Draws
 * are without replacement, so the totals of each phase are the trace's, apart from rounding when NA is another (then births are stretched,
 * lifetimes are not).
 */
#define _GNU_SOURCE
#include "script.h"
#include "../reader/counts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PHASES 1024
enum { FREED, REALLOCATED, NEVER };

enum { MALLOC, CALLOC, REALLOC, ALIGNED, REALLOC_NULL, ROUTINES }; /* realloc: of a block */

typedef struct {
  uint16_t phase, next; /* next: code of the size that a realloc makes */
  uint8_t routine, end, by, to;
  int32_t died; /* phase of death, or -1: then life_from to life_to hold */
  uint64_t size;
  int64_t life_from, life_to, born;
  uint64_t number;
} cell;
typedef struct { uint64_t when; sc_block block; uint16_t next; uint8_t end, to; } due; /* a death to come */

typedef struct {
  cell *cells;
  size_t count, room;
  size_t first[PHASES + 1]; /* of each phase's cells */
  uint64_t *tree;           /* Fenwick tree over the numbers of the phase under way */
  size_t size;
  uint64_t left;
  due *heap;
  size_t heap_count, heap_room;
  const cell *large, *large_end; /* the largest blocks still to come, by birth */
  cell *grown;              /* cells of blocks that a realloc makes: by thread, size and phase */
  size_t grown_count;
  uint32_t *used_up;        /* for the first of a thread and size: how many of them have nothing left */
  double stretch, ahead;    /* ahead: see note_birth */
  uint64_t now;             /* operations done */
  uint64_t step, random;    /* step: operations per phase */
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
  unsigned phase, routine, end, by, to, next;
  unsigned long long size, number;
  long long from, until, born;
  int died, used = 0;
  if (sscanf(line, "%u,%u,%u,%u,%u,%llu,%lld,%lld,%llu,%lld,%d,%u%n", &phase, &routine, &end, &by, &to, &size, &from, &until, &number, &born,
             &died, &next, &used) != 12) return 0;
  if (phase >= PHASES || routine >= ROUTINES || end > NEVER || by > 63 || to > 63 || (end != NEVER && (from < 0 || until < from))) return 0;
  if ((line[used] && line[used] != '\n') || died >= PHASES || next >> 13 || (born >= 0 && number != 1)) return 0;
  *c = (cell){ (uint16_t)phase, (uint16_t)next, (uint8_t)routine, (uint8_t)end, (uint8_t)by, (uint8_t)to, died, size, from, until, born, number };
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

/* One of the phase's blocks that are left, of which there must be one. */
static const cell *draw(maker *m, const cell *cells)
{
  size_t i = tree_find(m, sc_below(&m->random, m->left));
  tree_add(m, i, (uint64_t)-1);
  m->left--;
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

/* now already counts the birth */
static uint64_t death_of(maker *m, const cell *c)
{
  if (c->died < 0) {
    uint64_t life = (uint64_t)c->life_from + sc_below(&m->random, (uint64_t)(c->life_to - c->life_from) + 1);
    return m->now + (life ? life - 1 : 0);
  }
  double life = ((double)c->died + sc_unit(&m->random)) * (double)m->step - (double)m->now / m->stretch;
  return m->now + (life > 1 ? (uint64_t)life - 1 : 0);
}

static void born(maker *m, const cell *c, sc_block b, uint8_t to)
{
  m->now++;
  if (c->end != NEVER) push(m, (due){ death_of(m, c), b, c->next, c->end, to });
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
  due d = pop(m);
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

/* Everything that comes before the next birth of the phase, which is meant for `birth`. */
static void catch_up(maker *m, double birth)
{
  while (!m->s->out_of_memory) {
    double now = (double)m->now, death = m->heap_count ? (double)m->heap[0].when - now : 1e300;
    double large = (m->large < m->large_end ? (double)m->large->born * m->stretch : 1e300) - now - m->ahead, ordinary = birth - now - m->ahead;
    if (death <= 0) end_one(m);
    else if (large <= 0 && large <= ordinary) bear_large(m);
    else if (ordinary <= death && ordinary <= large) break; /* at the very end, too, when nothing is left at all */
    else if (large <= death) bear_large(m);
    else end_one(m);
  }
}

/* The births that no realloc of a block brings about, spread over the phase; the rest follows from the deaths. */
static void run_births(maker *m, const cell *cells, double begin, double end)
{
  uint64_t births = m->left;
  double apart = births ? (end - begin) / (double)births : 0;
  for (uint64_t i = 0; i < births && !m->s->out_of_memory; i++) {
    double planned = begin + apart * ((double)i + 0.5);
    catch_up(m, planned);
    note_birth(m, planned);
    allocate(m, draw(m, cells));
  }
}

static int run_phase(maker *m, unsigned phase)
{
  const cell *cells = m->cells + m->first[phase];
  m->size = m->first[phase + 1] - m->first[phase];
  m->left = 0;
  if (!(m->tree = sc_map((m->size + 1) * sizeof *m->tree))) return 0;
  for (size_t i = 0; i < m->size; i++) {
    tree_add(m, i, cells[i].number);
    m->left += cells[i].number;
  }
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

/* After sorting: where each phase begins, the largest blocks, and what reallocs make. */
static int divide(maker *m)
{
  size_t i = 0;
  for (unsigned p = 0; p <= PHASES; p++) {
    while (i < m->count && order_of(&m->cells[i]) < p) i++;
    m->first[p] = i;
  }
  m->large = m->cells + i;
  while (i < m->count && order_of(&m->cells[i]) >> 63 == 0) i++;
  m->large_end = m->grown = m->cells + i;
  m->grown_count = m->count - i;
  return (m->used_up = sc_map((m->grown_count + 1) * sizeof *m->used_up)) != NULL;
}

sc_script *mk_from_profile(const char *path, uint64_t allocations, uint64_t seed, char *error, size_t room)
{
  maker m = { .random = seed, .stretch = 1 };
  int ok = read_cells(&m, path, error, room) && (m.s = sc_new(count_threads(&m))) != NULL;
  if (ok) {
    scale(&m, allocations);
    sort_cells(m.cells, m.count);
    snprintf(error, room, "%s: not enough memory for this profile", path);
    ok = divide(&m);
    for (unsigned p = 0; ok && p < PHASES; p++)
      if (m.first[p + 1] > m.first[p]) ok = run_phase(&m, p);
    if (ok) catch_up(&m, 1e300);
    ok = ok && !m.s->out_of_memory;
  }
  sc_unmap(m.cells, m.room * sizeof *m.cells);
  sc_unmap(m.heap, m.heap_room * sizeof *m.heap);
  sc_unmap(m.used_up, (m.grown_count + 1) * sizeof *m.used_up);
  if (ok) return m.s;
  sc_free(m.s);
  return NULL;
}
