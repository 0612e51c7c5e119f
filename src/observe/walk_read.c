/*
 * walk_read: copies what the rings hold (rings.h), which a program may be writing meanwhile: a chunk counts if its seq is the same before and
 * after. Of the head nothing is believed that could lead out of the file. Pieces are in the order of threads, each thread's in the order of time.
 */
#include "observe/cut.h"
#include "observe/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int read_head(const port_map *m, rings_head *h) {
  if (port_map_read(m, 0, h, sizeof *h) != 0) return EBADMSG;
  if (memcmp(h->magic, RINGS_MAGIC, sizeof h->magic) != 0 || h->record != RINGS_RECORD) return EBADMSG;
  if (h->chunk_size < 4096 || h->chunk_size > 1 << 20 || h->chunk_size % RINGS_CHUNK != 0) return EBADMSG;
  if (m->size < RINGS_HEAD || (m->size - RINGS_HEAD) / h->chunk_size < h->chunks || h->chunks == 0) return EBADMSG;
  if (h->size < MR_TRACE_LEAST || h->size > MR_TRACE_MOST) return EBADMSG;
  h->program[sizeof h->program - 1] = h->file[sizeof h->file - 1] = 0;
  for (int i = 0; i < RINGS_OPS; i++) h->op[i][RINGS_OP - 1] = 0;
  return 0;
}

static size_t offset_of(const rings_head *h, unsigned i) { return RINGS_HEAD + (size_t)i * h->chunk_size; }

/* 0: it is empty, or is just being used again. A record that is just being written may be copied without its second word: so they are counted first. */
static int copy_chunk(const port_map *m, const rings_head *h, unsigned i, piece *p, uint64_t *words) {
  unsigned room = (h->chunk_size - RINGS_CHUNK) / RINGS_RECORD, count = 0;
  size_t at = offset_of(h, i);
  rings_chunk c, again;
  if (port_map_read(m, at, &c, sizeof c) != 0 || c.seq == 0) return 0;
  if (port_map_read(m, at + RINGS_CHUNK, words, (size_t)room * RINGS_RECORD) != 0) return 0;
  while (count < room && words[2 * count]) count++;
  if (count == 0 || port_map_read(m, at + RINGS_CHUNK, words, (size_t)count * RINGS_RECORD) != 0) return 0;
  if (port_map_read(m, at, &again, sizeof again) != 0 || again.seq != c.seq) return 0;
  *p = (piece){ .seq = c.seq, .ticks = c.ticks, .ns = c.ns, .thread = c.thread, .worker = c.worker, .count = count, .words = words };
  memcpy(p->name, &c.name, sizeof c.name);
  return 1;
}

static int compare_pieces(const void *a, const void *b) {
  const piece *p = a, *q = b;
  if (p->thread != q->thread) return p->thread < q->thread ? -1 : 1;
  return p->seq < q->seq ? -1 : p->seq > q->seq;
}

/* Those that have been used; more may be meanwhile. */
static size_t used_chunks(const port_map *m, const rings_head *h) {
  size_t used = 0;
  rings_chunk c;
  for (unsigned i = 0; i < h->chunks; i++) used += port_map_read(m, offset_of(h, i), &c, sizeof c) == 0 && c.seq != 0;
  return used;
}

static int copy(walk *w, const port_map *m) {
  const rings_head *h = &w->head;
  size_t used = used_chunks(m, h), words = (h->chunk_size - RINGS_CHUNK) / sizeof(uint64_t);
  uint64_t *to = w->memory = calloc(used + 1, words * sizeof *to);
  w->pieces = calloc(used + 1, sizeof *w->pieces);
  if (!to || !w->pieces) return ENOMEM;
  for (unsigned i = 0; i < h->chunks && w->npieces < used; i++) {
    piece *p = &w->pieces[w->npieces];
    if (!copy_chunk(m, h, i, p, to)) continue;
    w->npieces++;
    w->nrecords += p->count;
    to += 2 * (size_t)p->count;
  }
  qsort(w->pieces, w->npieces, sizeof *w->pieces, compare_pieces);
  return 0;
}

static int make_threads(walk *w) {
  size_t n = 0, records = 0;
  for (size_t i = 0; i < w->npieces; i++) n += i == 0 || w->pieces[i].thread != w->pieces[i - 1].thread;
  w->threads = calloc(n + 1, sizeof *w->threads);
  w->heap = calloc(n + 1, sizeof(thread *));
  w->flows = calloc(w->nrecords / 8 + 1, 1);
  if (!w->threads || !w->heap || !w->flows) return ENOMEM;
  for (size_t i = 0; i < w->npieces; i++) {
    piece *p = &w->pieces[i];
    p->first = records;
    records += p->count;
    if (i == 0 || p->thread != p[-1].thread) {
      thread *t = &w->threads[w->nthreads++];
      t->id = (unsigned)w->nthreads + TID;
      t->next = p;
      t->workers = p->worker;
      t->name = p->name;
    }
    w->threads[w->nthreads - 1].end = p + 1;
  }
  return 0;
}

/* Two readings of both clocks, as far apart as there are. */
static void measure(walk *w) {
  const rings_head *h = &w->head;
  uint64_t ticks = atomic_load(&h->end_ticks), ns = atomic_load(&h->end_ns);
  for (size_t i = 0; i < w->npieces; i++)
    if (w->pieces[i].ticks > ticks) {
      ticks = w->pieces[i].ticks;
      ns = w->pieces[i].ns;
    }
  w->rate = h->nanoseconds || ticks <= h->ticks || ns <= h->ns ? 1 : (double)(ns - h->ns) / (double)(ticks - h->ticks);
}

int mr_trace_read(walk *w, const port_map *m) {
  int err = read_head(m, &w->head);
  if (!err) err = copy(w, m);
  if (!err) err = make_threads(w);
  if (!err) measure(w);
  return err;
}
