/*
 * walk_fiber: the fibers of a walk by their keys, in a table that is never more than half full: so a search ends. Fibers stay where they are until the
 * walk is forgotten, and are the same in each pass.
 */
#include "observe/walk.h"

#include <errno.h>
#include <stdlib.h>

enum { TRACKS = 200 };

static size_t slot_of(const walk *w, uint64_t key) {
  size_t i = (size_t)((key * 0x9e3779b97f4a7c15u) >> 20) & (w->size - 1);
  while (w->table[i] && w->table[i]->key != key) i = (i + 1) & (w->size - 1);
  return i;
}

static int grow(walk *w) {
  fiber **old = w->table;
  size_t n = w->size;
  w->size = n ? 2 * n : 1024;
  w->table = calloc(w->size, sizeof(fiber *));
  if (!w->table) {
    w->table = old;
    w->size = n;
    w->failed = ENOMEM;
    return 0;
  }
  for (size_t i = 0; i < n; i++)
    if (old[i]) w->table[slot_of(w, old[i]->key)] = old[i];
  free(old);
  return 1;
}

/* NULL: no memory. */
fiber *mr_trace_fiber_of(walk *w, uint64_t key) {
  if (2 * w->nfibers >= w->size && !grow(w)) return NULL;
  size_t i = slot_of(w, key);
  if (!w->table[i]) {
    if ((w->table[i] = calloc(1, sizeof(fiber))) == NULL) {
      w->failed = ENOMEM;
      return NULL;
    }
    w->table[i]->key = key;
    w->nfibers++;
  }
  return w->table[i];
}

const fiber *mr_trace_fiber_known(const walk *w, uint64_t key) { return w->table[slot_of(w, key)]; }

static int compare_runs(const void *a, const void *b) {
  const fiber *f = *(fiber *const *)a, *g = *(fiber *const *)b;
  if (f->runs != g->runs) return f->runs > g->runs ? -1 : 1;
  return f->key < g->key ? -1 : f->key > g->key;
}

static int compare_keys(const void *a, const void *b) {
  const fiber *f = *(fiber *const *)a, *g = *(fiber *const *)b;
  return f->key < g->key ? -1 : f->key > g->key;
}

/* Those that ran most have a track each, in the order of their keys. */
void mr_trace_choose_tracks(walk *w) {
  fiber **list = w->tracks = malloc((w->nfibers + 1) * sizeof *list);
  size_t n = 0;
  if (!list) {
    w->failed = ENOMEM;
    return;
  }
  for (size_t i = 0; i < w->size; i++)
    if (w->table[i] && w->table[i]->runs) list[n++] = w->table[i];
  qsort(list, n, sizeof *list, compare_runs);
  if (n > TRACKS) n = TRACKS;
  qsort(list, n, sizeof *list, compare_keys);
  for (size_t i = 0; i < n; i++) list[i]->track = (unsigned)i + 1 + TID;
  w->ntracks = n;
}
