/*
 * Gathering. A block's birth enters it into the table of live blocks with its two clocks; its death takes it out and counts its lifetime. What a
 * realloc is about to move waits in its stream's `pending`, a small stack, as a signal handler's calls may nest. Tables that must know the length
 * of the trace beforehand (pattern, phases, curves) double their step instead.
 */
#include "measures.h"
#include <stdlib.h>
#include <string.h>

#define BYTE_UNIT 256
#define TIME_MASK 0xfffffffu
#define OPERATION_MASK ((UINT64_C(1) << 36) - 1)

typedef struct ms_pending {
  int depth;
  struct { lv_block block, sample; int known, sampled; uint64_t address; } of[MS_PENDING];
} ms_pending;

ms_measures *ms_new(uint32_t short_ms, uint32_t medium_ms, const ph_phases *phases)
{
  ms_measures *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->limit_ms[0] = short_ms;
  m->limit_ms[1] = medium_ms;
  m->phases = phases;
  m->matrix_step = 1;
  m->sizes.most = 2000000;
  jt_start(&m->joint, phases);
  m->live = lv_new();
  m->sites = st_new();
  ct_curve_start(&m->by_time, 1000);
  ct_curve_start(&m->by_operation, 1);
  if (!ph_start(&m->turns) || !m->live || !m->sites) { ms_free(m); return NULL; }
  return m;
}

void ms_free(ms_measures *m)
{
  if (!m) return;
  lv_free(m->live);
  ct_free(&m->sizes);
  jt_free(&m->joint);
  ph_free(&m->turns);
  st_free(m->sites);
  for (unsigned i = 0; i <= MTR_MAX_STREAM; i++) free(m->pending[i]);
  free(m->long_blocks);
  free(m);
}

static void need(ms_measures *m, int ok) { if (!ok) m->out_of_memory = 1; }

/* ---- threads ---- */

static uint32_t thread_of(ms_measures *m, const rd_event *e)
{
  uint32_t *of_stream = m->of_stream;
  if (!e->new_thread && m->thread_count) return of_stream[e->stream];
  for (uint32_t i = m->thread_count; i-- > 0;)
    if (m->threads[i].tid == e->thread) return of_stream[e->stream] = i;
  if (m->thread_count < MS_THREADS) m->threads[m->thread_count++].tid = e->thread; /* the last entry stands for all beyond */
  return of_stream[e->stream] = m->thread_count - 1;
}

/* ---- lifetimes ---- */

static void count_joint(ms_measures *m, const lv_block *b, unsigned end, uint32_t by, uint64_t life, uint64_t next)
{
  if (m->phases)
    jt_count(&m->joint, (jt_block){ b->size, next, b->operation, life, b->routine, end, b->thread & 63, by & 63 });
}

static void halve_matrix(ms_measures *m)
{
  for (size_t i = 0; i < MS_BINS / 2; i++)
    for (size_t k = 0; k < MS_OCTAVES; k++) m->matrix[i][k] = m->matrix[2 * i][k] + m->matrix[2 * i + 1][k];
  memset(m->matrix[MS_BINS / 2], 0, sizeof m->matrix / 2);
  m->matrix_step *= 2;
}

static void count_matrix(ms_measures *m, uint64_t born, unsigned octave)
{
  while (born / m->matrix_step >= MS_BINS) halve_matrix(m);
  m->matrix[born / m->matrix_step][octave]++;
}

static void count_long(ms_measures *m, const lv_block *b)
{
  size_t at = (size_t)(b->operation / MS_BLOCK);
  if (at >= m->long_room) {
    size_t room = m->long_room ? m->long_room * 2 : 1024;
    while (at >= room) room *= 2;
    uint64_t *more = realloc(m->long_blocks, room * sizeof *more);
    if (!more) { m->out_of_memory = 1; return; }
    memset(more + m->long_room, 0, (room - m->long_room) * sizeof *more);
    m->long_blocks = more;
    m->long_room = room;
  }
  m->long_blocks[at]++;
}

static void add(ms_number *n, uint64_t bytes)
{
  n->number++;
  n->bytes += bytes;
}

/* `next`: the size of what a realloc makes of it, when that is how it ends. */
static void die(ms_measures *m, const lv_block *b, unsigned end, uint32_t by, uint64_t now_us, uint64_t next)
{
  uint64_t life = (m->operations - b->operation) & OPERATION_MASK;
  uint64_t ms = (uint32_t)(now_us / 1000 - b->time_ms) & TIME_MASK;
  uint64_t bytes = (uint32_t)(m->total.bytes / BYTE_UNIT - b->bytes) * (uint64_t)BYTE_UNIT;
  unsigned kind = ms <= m->limit_ms[0] ? MS_SHORT : ms <= m->limit_ms[1] ? MS_MEDIUM : MS_LONG;
  unsigned octave = life ? 63u - (unsigned)__builtin_clzll(life) : 0;
  m->life_ms[ct_class(ms)]++;
  m->life_operations[ct_class(life)]++;
  m->life_bytes[ct_class(bytes)]++;
  add(&m->retention[kind], b->size);
  if (kind == MS_LONG) count_long(m, b);
  gr_died(&m->grid, b->size, life, ms, kind);
  count_matrix(m, b->operation, octave < MS_NEVER_OCTAVE ? octave : MS_NEVER_OCTAVE - 1);
  count_joint(m, b, end, by, life, next);
}

static void outlive(void *data, const lv_block *b)
{
  ms_measures *m = data;
  add(&m->never, b->size);
  add(&m->retention[MS_LONG], b->size);
  count_long(m, b);
  gr_outlived(&m->grid, b->size);
  count_matrix(m, b->operation, MS_NEVER_OCTAVE);
  count_joint(m, b, JT_NEVER, b->thread, 0, 0);
}

/* ---- events ---- */

static void changed(ms_measures *m, uint64_t now_us)
{
  if (m->live_bytes > m->peak_bytes) {
    m->peak_bytes = m->live_bytes;
    m->peak_blocks = m->live_blocks;
    m->peak_us = now_us;
    m->peak_operation = m->operations;
    st_peak(m->sites);
  }
  ph_note(&m->turns, m->operations + 1, m->live_bytes);
  if (m->live_blocks > m->most_blocks) m->most_blocks = m->live_blocks;
  ct_curve_set(&m->by_time, now_us > m->by_time.last * m->by_time.step ? now_us : m->by_time.last * m->by_time.step, m->live_bytes, m->live_blocks);
  ct_curve_set(&m->by_operation, m->operations, m->live_bytes, m->live_blocks);
}

static void be_born(ms_measures *m, const rd_event *e, unsigned routine, uint32_t thread, int continues)
{
  lv_block old, b = { .address = e->address, .size = e->size, .operation = m->operations & OPERATION_MASK, .time_ms = (uint32_t)(e->time_us / 1000),
                      .thread = thread, .routine = routine };
  if (routine == MS_REALLOC && !continues) b.routine = JT_REALLOC_NULL;
  add(&m->total, e->size);
  add(&m->routine[routine], e->size);
  b.bytes = (uint32_t)(m->total.bytes / BYTE_UNIT);
  if (e->label && routine != MS_REALLOC) m->labels[(e->label - 1) & 1]++;
  need(m, ct_add(&m->sizes, e->size, 1, e->size));
  int fresh = lv_add(m->live, &b, &old);
  need(m, fresh >= 0);
  if (fresh == 0) { /* a block that is alive can't be given out again */
    m->impossible++;
    m->live_bytes -= old.size;
    m->live_blocks--;
    die(m, &old, JT_FREED, thread, e->time_us, 0);
  }
  m->live_bytes += e->size;
  m->live_blocks++;
  m->threads[thread].allocations++;
  m->threads[thread].bytes += e->size;
  if (e->frames) need(m, st_born(m->sites, e, m->operations));
}

static void allocate(ms_measures *m, const rd_event *e, unsigned routine, uint32_t thread)
{
  if (!e->address) { m->failed++; return; }
  be_born(m, e, routine, thread, 0);
  changed(m, e->time_us);
  m->operations++;
}

static void release(ms_measures *m, const rd_event *e, uint32_t thread)
{
  lv_block b, sample;
  m->frees++;
  m->threads[thread].frees++;
  if (!e->address) {
    m->null_frees++;
    return;
  }
  if (e->label) m->free_labels[(e->label - 1) & 1]++;
  if (st_take(m->sites, e->address, &sample)) st_end(m->sites, &sample);
  if (!lv_take(m->live, e->address, &b)) {
    m->unknown++;
    m->operations++;
    return;
  }
  m->freed_blocks++;
  if (b.thread != thread) {
    m->by_another++;
    m->threads[thread].of_others++;
  }
  m->live_bytes -= b.size;
  m->live_blocks--;
  die(m, &b, JT_FREED, thread, e->time_us, 0);
  changed(m, e->time_us);
  m->operations++;
}

static void begin_realloc(ms_measures *m, const rd_event *e)
{
  ms_pending *p = m->pending[e->stream];
  if (!p) p = m->pending[e->stream] = calloc(1, sizeof *p);
  if (!p) { m->out_of_memory = 1; return; }
  if (p->depth == MS_PENDING) { m->impossible++; p->depth--; }
  p->of[p->depth].address = e->address;
  p->of[p->depth].known = lv_take(m->live, e->address, &p->of[p->depth].block);
  p->of[p->depth].sampled = st_take(m->sites, e->address, &p->of[p->depth].sample);
  p->depth++;
}

static void put_back(ms_measures *m, const lv_block *b)
{
  lv_block other;
  if (lv_add(m->live, b, &other) == 0) m->impossible++;
}

static void end_realloc(ms_measures *m, const rd_event *e, uint32_t thread)
{
  ms_pending *p = m->pending[e->stream];
  if (!p || p->depth == 0) { m->impossible++; return; }
  p->depth--;
  const lv_block *old = &p->of[p->depth].block;
  int known = p->of[p->depth].known;
  if (!e->address && e->size) { /* failed: the block stays */
    m->realloc_failed++;
    m->failed++;
    if (known) put_back(m, old);
    if (p->of[p->depth].sampled) need(m, st_put_back(m->sites, &p->of[p->depth].sample));
    return;
  }
  m->reallocs++;
  if (p->of[p->depth].sampled) st_end(m->sites, &p->of[p->depth].sample);
  if (!known) m->unknown++;
  if (known) {
    m->live_bytes -= old->size;
    m->live_blocks--;
    die(m, old, e->address ? JT_REALLOCATED : JT_FREED, thread, e->time_us, e->size);
  }
  if (!e->address) m->realloc_freed++;
  else if (e->address == p->of[p->depth].address) m->in_place++;
  else m->moved++;
  if (e->address) be_born(m, e, MS_REALLOC, thread, known);
  changed(m, e->time_us);
  m->operations++;
}

void ms_event(ms_measures *m, const rd_event *e)
{
  uint32_t thread = thread_of(m, e);
  if (m->operations == 0 && m->first_us == 0) m->first_us = e->time_us;
  if (e->time_us > m->last_us) m->last_us = e->time_us;
  switch (e->kind) {
    case MTR_MALLOC: allocate(m, e, MS_MALLOC, thread); break;
    case MTR_CALLOC: allocate(m, e, MS_CALLOC, thread); break;
    case MTR_ALIGNED: allocate(m, e, MS_ALIGNED, thread); break;
    case MTR_FREE: release(m, e, thread); break;
    case MTR_REALLOC_BEGIN: begin_realloc(m, e); break;
    case MTR_REALLOC_END:
      if (e->label) { /* of NULL: an allocation */
        m->realloc_null++;
        allocate(m, e, MS_REALLOC, thread);
      } else {
        end_realloc(m, e, thread);
      }
      break;
    default: break;
  }
}

void ms_end(ms_measures *m)
{
  for (unsigned s = 0; s <= MTR_MAX_STREAM; s++) /* killed inside a realloc: as far as anyone knows they live */
    for (ms_pending *p = m->pending[s]; p && p->depth > 0;) {
      if (p->of[--p->depth].known) put_back(m, &p->of[p->depth].block);
      if (p->of[p->depth].sampled) need(m, st_put_back(m->sites, &p->of[p->depth].sample));
    }
  lv_drain(m->live, outlive, m);
  ph_end(&m->turns);
  st_finish(m->sites, m->operations);
}
