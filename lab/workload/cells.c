/*
 * The file of a profile: a row for each phase and for each kind of block (a cell), as `describe-trace --joint` writes them. Its numbers are somebody
 * else's: each is checked here, so that whoever draws from the cells need not.
 */
#define _GNU_SOURCE
#include "profile.h"
#include "../reader/counts.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>

uint64_t pf_grown_key(unsigned thread, unsigned code) { return UINT64_C(1) << 63 | (uint64_t)thread << 40 | (uint64_t)code << 16; }

uint64_t pf_order(const pf_cell *c)
{
  if (c->routine == REALLOC) return pf_grown_key(c->by, ct_size_code(c->size)) | c->phase;
  return c->born >= 0 ? UINT64_C(1) << 60 | (uint64_t)c->born : (uint64_t)c->phase;
}

static void sift(pf_cell *cells, size_t i, size_t n)
{
  pf_cell moving = cells[i];
  for (size_t c; (c = 2 * i + 1) < n; i = c) {
    if (c + 1 < n && pf_order(&cells[c]) < pf_order(&cells[c + 1])) c++;
    if (pf_order(&cells[c]) <= pf_order(&moving)) break;
    cells[i] = cells[c];
  }
  cells[i] = moving;
}

/* A heap sort, in place: qsort of the C library would take its room from the allocator under test. */
void pf_sort(pf_cell *cells, size_t n)
{
  for (size_t i = n / 2; i-- > 0;) sift(cells, i, n);
  for (size_t last = n; last-- > 1;) {
    pf_cell largest = cells[0];
    cells[0] = cells[last];
    cells[last] = largest;
    sift(cells, 0, last);
  }
}

static int parse_row(const char *line, pf_cell *c)
{
  unsigned in, routine, end, by, to, next;
  unsigned long long size, number;
  long long from, until, born;
  int phases, used = 0;
  if (sscanf(line, "%u,%u,%u,%u,%u,%llu,%lld,%lld,%llu,%lld,%d,%u%n", &in, &routine, &end, &by, &to, &size, &from, &until, &number, &born,
             &phases, &next, &used) != 12) return 0;
  if (in >= PHASES || routine >= ROUTINES || end > NEVER || by > 63 || to > 63 || (end != NEVER && (from < 0 || until < from))) return 0;
  if ((line[used] && line[used] != '\n') || phases >= PHASES || next >> 13 || (born >= 0 && number != 1)) return 0;
  *c = (pf_cell){ (uint16_t)in, (uint16_t)next, (uint8_t)routine, (uint8_t)end, (uint8_t)by, (uint8_t)to, phases, size, from, until, born, number };
  return 1;
}

void *pf_one_more(void *rows, size_t count, size_t *room, size_t size)
{
  if (count < *room) return rows;
  size_t more = *room ? *room * 2 : 4096;
  void *bigger = sc_remap(rows, *room * size, more * size);
  if (bigger) *room = more;
  return bigger;
}

static int add_phase(pf_maker *m, uint64_t start, double forward)
{
  if (m->phase_count == PHASES || start >= m->operations || (m->phase_count && start <= m->phases[m->phase_count - 1].start)) return 0;
  m->phases[m->phase_count++] = (pf_phase){ .start = start, .forward = forward };
  m->phases[m->phase_count].start = m->operations;
  return 1;
}

static int read_row(pf_maker *m, const char *line)
{
  unsigned long long start;
  double forward;
  if (sscanf(line, "# operations %llu", &start) == 1) m->operations = start;
  if (line[0] == '#' || strncmp(line, "phase,", 6) == 0) return 1;
  if (line[0] == 'p') return sscanf(line, "p,%llu,%lf", &start, &forward) == 2 && add_phase(m, start, forward);
  pf_cell *cells = pf_one_more(m->cells, m->count, &m->room, sizeof *cells);
  if (!cells) return 0;
  m->cells = cells;
  return parse_row(line, &m->cells[m->count]) && m->cells[m->count++].phase < m->phase_count;
}

int pf_read(pf_maker *m, const char *path, char *error, size_t room)
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
