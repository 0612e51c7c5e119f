/*
 * script-trace TRACE SCRIPT [--partial] [--events N]: turns one process's trace into a script that the workload program replays; a line of JSON on
 * standard output says what could not be kept. A stream becomes a thread: it is what one thread after another did, so no more of them run than did
 * at once.
 *
 * Blocks from before the trace are left out, as are calls that failed and free(NULL). Times are kept to the millisecond, for --paced.
 */
#define _GNU_SOURCE
#include "../workload/script.h"
#include "reader.h"
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDING 4

typedef struct { uint64_t address; sc_block block; } entry; /* address 0: empty */

typedef struct {
  sc_script *s;
  entry *table; /* live blocks, open addressing */
  size_t count, room;
  struct { int depth; sc_block block[PENDING]; uint64_t address[PENDING]; int known[PENDING]; } *pending;
  uint64_t *told; /* per thread: ms of its last pace */
  uint64_t unknown, ops, began_ms;
  int started;
} maker;

/* ---- live blocks ---- */

static size_t place(const maker *m, uint64_t address)
{
  size_t i = (size_t)((address >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (m->room - 1);
  while (m->table[i].address && m->table[i].address != address) i = (i + 1) & (m->room - 1);
  return i;
}

static int add(maker *m, uint64_t address, sc_block block)
{
  if ((m->count + 1) * 10 > m->room * 7) {
    maker old = *m;
    m->room = old.room ? old.room * 2 : 1024;
    if (!(m->table = sc_map(m->room * sizeof *m->table))) return 0;
    for (size_t i = 0; i < old.room; i++)
      if (old.table[i].address) m->table[place(m, old.table[i].address)] = old.table[i];
    sc_unmap(old.table, old.room * sizeof *old.table);
  }
  size_t i = place(m, address);
  m->count += m->table[i].address == 0;
  m->table[i] = (entry){ address, block };
  return 1;
}

static int take(maker *m, uint64_t address, sc_block *block)
{
  if (!m->room) return 0;
  size_t gap = place(m, address);
  if (!m->table[gap].address) return 0;
  *block = m->table[gap].block;
  for (size_t i = (gap + 1) & (m->room - 1); m->table[i].address; i = (i + 1) & (m->room - 1)) {
    size_t home = (size_t)((m->table[i].address >> 3) * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (m->room - 1);
    if (gap < i ? home > gap && home <= i : home > gap || home <= i) continue;
    m->table[gap] = m->table[i];
    gap = i;
  }
  m->table[gap].address = 0;
  m->count--;
  return 1;
}

/* ---- events ---- */

static void pace(maker *m, uint32_t t, uint64_t ms)
{
  if (!m->started) { m->started = 1; m->began_ms = ms; }
  ms -= ms > m->began_ms ? m->began_ms : ms;
  if (ms <= m->told[t]) return;
  m->told[t] = ms;
  sc_pace(m->s, t, ms);
}

static int birth(maker *m, const rd_event *e, uint32_t t, unsigned kind)
{
  unsigned log2 = kind == SC_ALIGNED ? e->alignment & 0xff : 0;
  if (!e->address) return 1;
  return add(m, e->address, sc_birth(m->s, t, kind, e->size, log2 < 3 && kind == SC_ALIGNED ? 3 : log2));
}

static int end_realloc(maker *m, const rd_event *e, uint32_t t)
{
  if (m->pending[t].depth == 0) return 1;
  int i = --m->pending[t].depth;
  if (!m->pending[t].known[i]) return birth(m, e, t, SC_MALLOC);
  const sc_block *old = &m->pending[t].block[i];
  if (e->address) return add(m, e->address, sc_regrow(m->s, t, old, e->size));
  if (e->size) return add(m, m->pending[t].address[i], *old); /* failed */
  sc_death(m->s, t, old);
  return 1;
}

static int event(maker *m, const rd_event *e)
{
  uint32_t t = e->stream - 1;
  sc_block b;
  m->ops++;
  pace(m, t, e->time_us / 1000);
  switch (e->kind) {
    case MTR_MALLOC: return birth(m, e, t, SC_MALLOC);
    case MTR_CALLOC: return birth(m, e, t, SC_CALLOC);
    case MTR_ALIGNED: return birth(m, e, t, SC_ALIGNED);
    case MTR_FREE:
      if (!e->address) return 1;
      if (take(m, e->address, &b)) sc_death(m->s, t, &b);
      else m->unknown++;
      return 1;
    case MTR_REALLOC_BEGIN: {
      int i = m->pending[t].depth < PENDING ? m->pending[t].depth++ : PENDING - 1;
      m->pending[t].address[i] = e->address;
      m->pending[t].known[i] = take(m, e->address, &m->pending[t].block[i]);
      if (!m->pending[t].known[i]) m->unknown++;
      return 1;
    }
    default: return e->label ? birth(m, e, t, SC_REALLOC) : end_realloc(m, e, t);
  }
}

static int fail(const char *what)
{
  fprintf(stderr, "mare lab: replay: %s\n", what);
  return 1;
}

static int convert(const char *path, const char *out, int partial, uint64_t most)
{
  rd_error error;
  rd_event e;
  maker m = { .s = NULL };
  rd_reader *r = rd_open(path, partial, &error);
  if (!r) return fail(error.text);
  uint32_t threads = rd_streams(r) ? rd_streams(r) : 1;
  if (threads > SC_THREADS) return fail("more than 1024 threads at once: this trace can't be replayed");
  m.s = sc_new(threads);
  m.pending = sc_map(threads * sizeof *m.pending);
  m.told = sc_map(threads * sizeof *m.told);
  int got = m.s && m.pending && m.told ? 1 : -2;
  while (got > 0 && (most == 0 || m.ops < most) && (got = rd_next(r, &e, &error)) > 0)
    if (!event(&m, &e) || m.s->out_of_memory) got = -2;
  rd_close(r);
  if (got == -1) return fail(error.text);
  if (got == -2) return fail("out of memory; --events N replays only the first N");
  const char *why;
  if (sc_save(m.s, out, &why) != 0) return fail(why);
  printf("{\"version\": 1, \"threads\": %u, \"events\": %llu, \"unknown\": %llu, \"left_alive\": %zu, \"shared_blocks\": %u}\n", threads,
         (unsigned long long)m.ops, (unsigned long long)m.unknown, m.count, m.s->shared);
  return 0;
}

int main(int argc, char **argv)
{
  static const struct option known[] = { { "partial", 0, NULL, 'p' }, { "events", 1, NULL, 'e' }, { NULL, 0, NULL, 0 } };
  int partial = 0;
  uint64_t most = 0;
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (c) {
    case 'p': partial = 1; break;
    case 'e': most = strtoull(optarg, NULL, 10); break;
    default: return 2;
  }
  if (optind != argc - 2) {
    fputs("usage: script-trace TRACE SCRIPT [--partial] [--events N]\n", stderr);
    return 2;
  }
  return convert(argv[optind], argv[optind + 1], partial, most);
}
