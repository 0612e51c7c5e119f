/*
 * The merge. Each stream has at most one parsed group ahead. The stream with the earliest time goes next, unless its group waits for another
 * stream; then that one is advanced first, group by group (a stack of streams under way). In a sound trace these waits are never circular; should a
 * damaged one be, the wait is given up and counted.
 */
#define _GNU_SOURCE
#include "chunks.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define WINDOW 256u /* words after p2 in which a group may have been on its way */
/* ---- groups ---- */

static int bad_word(rd_reader *r, rd_stream *s, uint32_t i, const char *what, rd_error *e)
{
  return rd_fail(e, r->path, s->entries[s->next - 1].offset + 8 * (uint64_t)i, what);
}

static void take_region(rd_stream *s, uint64_t word, const uint64_t *more)
{
  s->region = (uint32_t)(word & (MTR_REGIONS - 1));
  s->sequence = mtr_payload(word) >> MTR_REGION_BITS;
  s->from = (uint32_t)(more[0] >> 50);
  s->until = more[0] & MTR_POSITION;
  s->window_end = more[1] + WINDOW;
  s->waits = s->from != 0;
}

/* Parses the next group into s->event: 1, 0 at the stream's end, -1. */
static int parse(rd_reader *r, rd_stream *s, rd_error *e)
{
  int got;
  if (s->at >= s->n && (got = rd_load_chunk(r, s, e)) <= 0) return got;
  rd_event *v = &s->event;
  uint64_t size = 0;
  int long_size = 0;
  memset(v, 0, sizeof *v);
  s->waits = 0;
  for (uint32_t i = s->at; i < s->n; i++) {
    uint64_t word = s->words[i];
    unsigned kind = mtr_kind(word);
    switch (kind) {
      case MTR_TIME:
        s->time = mtr_payload(word);
        if (i == s->at) s->at++; /* who waits for what stood here before an attached launcher came need not wait for the group */
        break;
      case MTR_THREAD: s->thread = (uint32_t)word; s->new_thread = 1; break;
      case MTR_SIZE: size = mtr_payload(word); long_size = 1; break;
      case MTR_ALIGNMENT: v->alignment = (unsigned)(word & 0xfff); break;
      case MTR_REGION:
        if (s->n - i < 3) return bad_word(r, s, i, "a region's words are cut off: the file is damaged", e);
        take_region(s, word, s->words + i + 1);
        i += 2;
        break;
      case MTR_STACK:
        v->frames = (unsigned)(word & 0xff);
        if (s->n - i <= v->frames) return bad_word(r, s, i, "a stack is cut off: the file is damaged", e);
        memcpy(s->frames, s->words + i + 1, v->frames * 8);
        v->stack = s->frames;
        i += v->frames;
        break;
      default:
        if (!mtr_is_event(kind)) return bad_word(r, s, i, "a word of unknown kind: the file is damaged", e);
        v->kind = kind;
        v->address = mtr_address(word);
        v->label = mtr_label(word);
        v->size = long_size ? size : mtr_short_size(word);
        v->time_us = s->time;
        v->stream = s->id;
        v->thread = s->thread;
        v->new_thread = s->new_thread;
        s->new_thread = 0;
        s->ahead = i + 1;
        s->parsed = 1;
        return 1;
    }
  }
  return bad_word(r, s, s->at, "a group without its event at the end of a chunk: the file is damaged", e);
}

/* ---- waiting ---- */

static uint64_t consumed(const rd_stream *s) { return s->base + s->at; }

/* Position after the last event on the region that B wrote, or had under way, before the region was taken from it; 0 if there is none to come. */
static uint64_t scan_words(const rd_stream *s, const uint64_t *words, uint32_t i, uint32_t n, uint64_t base, uint64_t last, int *over)
{
  uint64_t found = last;
  for (; i < n && base + i < s->window_end; i++) {
    unsigned kind = mtr_kind(words[i]);
    if (kind == MTR_REGION) {
      if ((words[i] & (MTR_REGIONS - 1)) == s->region && mtr_payload(words[i]) >> MTR_REGION_BITS > s->sequence) { *over = 1; return found; }
      i += 2;
    } else if (kind == MTR_STACK) {
      i += (uint32_t)(words[i] & 0xff);
    } else if (mtr_is_event(kind) && mtr_address(words[i]) && mtr_region(mtr_address(words[i])) == s->region) {
      found = base + i + 1;
    }
  }
  *over = base + i >= s->window_end;
  return found;
}

/* The window may span chunks: a thread that was preempted between its two looks at B's position finds B thousands of words further. */
static uint64_t look_into_window(rd_reader *r, const rd_stream *s, const rd_stream *b)
{
  int over = 0;
  uint64_t found = scan_words(s, b->words, b->at, b->n, b->base, 0, &over);
  for (uint32_t next = b->next; !over && next < b->count; next++) {
    const rd_entry *c = &b->entries[next];
    uint64_t base = (uint64_t)c->index * r->header.chunk_words;
    if (base >= s->window_end || !rd_read_at(r->fd, r->window, c->words * 8, c->offset)) break;
    found = scan_words(s, r->window, 0, c->words, base, found, &over);
  }
  return found;
}

/* The stream that must go on before s's group may be taken, or NULL. */
static rd_stream *blocker(rd_reader *r, rd_stream *s)
{
  while (s->waits) {
    rd_stream *b = s->from <= r->most ? r->streams[s->from] : NULL;
    if (!b || b == s || b->ended) break;
    if (consumed(b) < s->until) return b;
    if (s->waits == 2) break;
    s->until = look_into_window(r, s, b);
    s->waits = 2;
  }
  s->waits = 0;
  return NULL;
}

/* ---- the heap of streams, by time ---- */

static void place(rd_reader *r, rd_stream *s, unsigned i) { r->heap[i] = s; s->heap = i; }

static void sink(rd_reader *r, rd_stream *s)
{
  unsigned i = s->heap;
  for (unsigned c; (c = 2 * i) <= r->live; i = c) {
    if (c < r->live && r->heap[c + 1]->time < r->heap[c]->time) c++;
    if (r->heap[c]->time >= s->time) break;
    place(r, r->heap[c], i);
  }
  place(r, s, i);
}

static void leave_heap(rd_reader *r, rd_stream *s)
{
  unsigned i = s->heap;
  rd_stream *last = r->heap[r->live--];
  s->heap = 0;
  if (last == s) return;
  for (; i > 1 && r->heap[i / 2]->time > last->time; i /= 2) place(r, r->heap[i / 2], i);
  place(r, last, i);
  sink(r, last);
}

/* Parses s's next group; at its end it leaves the heap. */
static int advance(rd_reader *r, rd_stream *s, rd_error *e)
{
  uint64_t before = s->time;
  int got = parse(r, s, e);
  if (got < 0) return -1;
  if (got == 0) leave_heap(r, s);
  else if (s->time != before) sink(r, s);
  return got;
}

static int start(rd_reader *r, rd_error *e)
{
  for (uint32_t id = 1; id <= r->most; id++) {
    rd_stream *s = r->streams[id];
    if (!s) continue;
    int got = parse(r, s, e);
    if (got < 0) return -1;
    if (got == 0) continue;
    unsigned i = ++r->live;
    for (; i > 1 && r->heap[i / 2]->time > s->time; i /= 2) place(r, r->heap[i / 2], i);
    place(r, s, i);
  }
  return 0;
}

/* ---- the interface ---- */

rd_reader *rd_open(const char *path, int partial, rd_error *e)
{
  struct stat info;
  rd_reader *r = calloc(1, sizeof *r);
  if (!r) { rd_fail(e, path, 0, "out of memory"); return NULL; }
  r->fd = open(path, O_RDONLY | O_CLOEXEC);
  r->path = strdup(path);
  r->streams = calloc(MTR_MAX_STREAM + 1, sizeof *r->streams);
  r->heap = calloc(MTR_MAX_STREAM + 2, sizeof *r->heap);
  r->stack = calloc(MTR_MAX_STREAM + 2, sizeof *r->stack);
  if (!r->path || !r->streams || !r->heap || !r->stack) rd_fail(e, path, 0, "out of memory");
  else if (r->fd < 0 || fstat(r->fd, &info) != 0) snprintf(e->text, sizeof e->text, "%s: %s", path, strerror(errno));
  else if (rd_index(r, (uint64_t)info.st_size, partial, e) == 0) {
    r->window = malloc(r->header.chunk_words * sizeof *r->window);
    if (!r->window) rd_fail(e, path, 0, "out of memory");
    else if (start(r, e) == 0) return r;
  }
  rd_close(r);
  return NULL;
}

void rd_close(rd_reader *r)
{
  if (!r) return;
  for (uint32_t id = 1; r->streams && id <= r->most; id++) {
    if (!r->streams[id]) continue;
    free(r->streams[id]->entries);
    free(r->streams[id]->words);
    free(r->streams[id]);
  }
  if (r->fd >= 0) close(r->fd);
  free(r->path);
  free(r->streams);
  free(r->heap);
  free(r->stack);
  free(r->window);
  free(r);
}

/* The stream whose group is next: the earliest, or what that waits for. */
static rd_stream *choose(rd_reader *r)
{
  rd_stream *s = r->depth ? r->stack[r->depth - 1] : r->heap[1], *b;
  while ((b = blocker(r, s)) != NULL) {
    if (b->stacked || !b->parsed) { /* circular: only a damaged trace */
      r->relaxed++;
      s->waits = 0;
      break;
    }
    if (!s->stacked) { s->stacked = 1; r->stack[r->depth++] = s; }
    s = b;
  }
  if (s->stacked) { s->stacked = 0; r->depth--; }
  return s;
}

int rd_next(rd_reader *r, rd_event *event, rd_error *e)
{
  if (r->live == 0) return 0;
  rd_stream *s = choose(r);
  *event = s->event;
  if (event->frames) { /* the next group's stack goes where this one is */
    static _Thread_local uint64_t kept[MOST_FRAMES];
    memcpy(kept, s->frames, event->frames * 8);
    event->stack = kept;
  }
  s->at = s->ahead;
  s->parsed = 0;
  return advance(r, s, e) < 0 ? -1 : 1;
}

const mtr_header *rd_header(const rd_reader *r) { return &r->header; }
uint64_t rd_words(const rd_reader *r) { return r->words; }
uint32_t rd_streams(const rd_reader *r) { return r->most; }
uint64_t rd_relaxed(const rd_reader *r) { return r->relaxed; }
