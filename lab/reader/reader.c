/*
 * The merge. Each stream has at most one parsed group ahead. The stream with the earliest time goes next, unless its group waits for another
 * stream; then that one is advanced first, group by group (a stack of streams under way). In a sound trace these waits are never circular; should a
 * damaged one be, the wait is given up and counted.
 */
#define _GNU_SOURCE
#include "reader.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define WINDOW 256u /* words after p2 in which a group may have been on its way */
#define MOST_FRAMES 255u

typedef struct {
  uint64_t offset; /* of its words in the file */
  uint32_t index, words;
} entry;

typedef struct {
  uint32_t id;
  entry *entries;
  uint32_t count, room, next; /* next: the entry after the one in the buffer */
  uint64_t *words;            /* the chunk being read */
  uint32_t n, at, ahead;      /* words in it; start of the parsed group; its end */
  uint64_t base, time;        /* position of words[0]; time of the parsed group */
  uint32_t thread;
  int parsed, ended, stacked, new_thread;
  unsigned heap;              /* its place in the heap */
  rd_event event;
  uint64_t frames[MOST_FRAMES];
  int waits;                  /* 0 no; 1 until `until`, then the window is looked at; 2 until `until` */
  uint32_t region, from;
  uint64_t sequence, until, window_end;
} stream;

struct rd_reader {
  int fd;
  char *path;
  mtr_header header;
  uint64_t words, relaxed;
  uint32_t most, live, depth;
  stream **streams; /* by id; NULL where there is none */
  stream **heap;    /* by time, 1-based */
  stream **stack;   /* waiting for the one above */
};

static int fail(rd_error *e, const char *path, uint64_t byte, const char *what)
{
  snprintf(e->text, sizeof e->text, "%s: byte %llu: %s", path, (unsigned long long)byte, what);
  return -1;
}

static int read_at(int fd, void *into, size_t n, uint64_t offset)
{
  size_t have = 0;
  while (have < n) {
    ssize_t k = pread(fd, (char *)into + have, n - have, (off_t)(offset + have));
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return 0;
    have += (size_t)k;
  }
  return 1;
}

/* ---- opening: the header, and an index of the chunks ---- */

static stream *stream_of(rd_reader *r, uint32_t id)
{
  if (!r->streams[id]) {
    stream *s = r->streams[id] = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->id = id;
    if (id > r->most) r->most = id;
  }
  return r->streams[id];
}

static int add_entry(stream *s, const mtr_entry *e, uint64_t offset)
{
  if (s->count == s->room) {
    uint32_t room = s->room ? s->room * 2 : 4;
    entry *more = realloc(s->entries, room * sizeof *more);
    if (!more) return 0;
    s->entries = more;
    s->room = room;
  }
  s->entries[s->count++] = (entry){ offset, e->index, e->words };
  return 1;
}

static int by_index(const void *a, const void *b)
{
  uint32_t x = ((const entry *)a)->index, y = ((const entry *)b)->index;
  return (x > y) - (x < y);
}

static int check_header(rd_reader *r, uint64_t size, rd_error *e)
{
  const mtr_header *h = &r->header;
  if (size < sizeof *h || !read_at(r->fd, &r->header, sizeof *h, 0))
    return fail(e, r->path, 0, "too short for a trace; give a file that `mare lab trace` wrote (PID-N.mtr)");
  if (memcmp(h->magic, MTR_MAGIC, 8) != 0)
    return fail(e, r->path, 0, "not a trace: it doesn't begin with " MTR_MAGIC "; give a file that `mare lab trace` wrote");
  if (h->version != MTR_VERSION) {
    char what[128];
    snprintf(what, sizeof what, "trace format version %u, this program reads version %u; trace again, or use the mare that wrote it", h->version,
             MTR_VERSION);
    return fail(e, r->path, 8, what);
  }
  if (h->header_bytes < sizeof *h || h->header_bytes > size) return fail(e, r->path, 12, "the header's size is impossible: the file is damaged");
  if (h->chunk_words == 0 || h->chunk_words > (1u << 24)) return fail(e, r->path, 24, "the chunk size is impossible: the file is damaged");
  return 0;
}

static int index_chunks(rd_reader *r, uint64_t size, int partial, rd_error *e)
{
  uint64_t at = r->header.header_bytes;
  while (at < size) {
    mtr_entry c;
    if (size - at < sizeof c || !read_at(r->fd, &c, sizeof c, at)) {
      if (partial) return 0;
      return fail(e, r->path, at, "the file ends inside a chunk's header: it is truncated; --partial describes what comes before");
    }
    if (c.magic != MTR_CHUNK_MAGIC) return fail(e, r->path, at, "a chunk should begin here: the file is damaged");
    if (c.stream == 0 || c.stream > MTR_MAX_STREAM || c.words == 0 || c.words > r->header.chunk_words)
      return fail(e, r->path, at, "a chunk's header with impossible numbers: the file is damaged");
    if ((size - at - sizeof c) / 8 < c.words) {
      if (partial) return 0;
      return fail(e, r->path, at, "the file ends inside this chunk: it is truncated; --partial describes what comes before");
    }
    stream *s = stream_of(r, c.stream);
    if (!s || !add_entry(s, &c, at + sizeof c)) return fail(e, r->path, at, "out of memory");
    r->words += c.words;
    at += sizeof c + 8 * (uint64_t)c.words;
  }
  return 0;
}

static int load_chunk(rd_reader *r, stream *s, rd_error *e)
{
  if (s->next == s->count) {
    s->ended = 1;
    return 0;
  }
  const entry *c = &s->entries[s->next++];
  if (!s->words && !(s->words = malloc(r->header.chunk_words * sizeof *s->words))) return fail(e, r->path, c->offset, "out of memory");
  if (!read_at(r->fd, s->words, c->words * 8, c->offset)) return fail(e, r->path, c->offset, "can't read this chunk");
  s->n = c->words;
  s->at = s->ahead = 0;
  s->base = (uint64_t)c->index * r->header.chunk_words;
  return 1;
}

/* ---- groups ---- */

static int bad_word(rd_reader *r, stream *s, uint32_t i, const char *what, rd_error *e)
{
  return fail(e, r->path, s->entries[s->next - 1].offset + 8 * (uint64_t)i, what);
}

static void take_region(stream *s, uint64_t word, const uint64_t *more)
{
  s->region = (uint32_t)(word & (MTR_REGIONS - 1));
  s->sequence = mtr_payload(word) >> MTR_REGION_BITS;
  s->from = (uint32_t)(more[0] >> 50);
  s->until = more[0] & MTR_POSITION;
  s->window_end = more[1] + WINDOW;
  s->waits = s->from != 0;
}

/* Parses the next group into s->event: 1, 0 at the stream's end, -1. */
static int parse(rd_reader *r, stream *s, rd_error *e)
{
  int got;
  if (s->at >= s->n && (got = load_chunk(r, s, e)) <= 0) return got;
  rd_event *v = &s->event;
  uint64_t size = 0;
  int long_size = 0;
  memset(v, 0, sizeof *v);
  s->waits = 0;
  for (uint32_t i = s->at; i < s->n; i++) {
    uint64_t word = s->words[i];
    unsigned kind = mtr_kind(word);
    switch (kind) {
      case MTR_TIME: s->time = mtr_payload(word); break;
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

static uint64_t consumed(const stream *s) { return s->base + s->at; }

/* Position after the last event on the region that B wrote, or had under way, before the region was taken from it; 0 if there is none to come. */
static uint64_t scan_words(const stream *s, const uint64_t *words, uint32_t i, uint32_t n, uint64_t base, uint64_t last, int *over)
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

static uint64_t look_into_window(rd_reader *r, const stream *s, const stream *b)
{
  uint64_t piece[WINDOW];
  int over = 0;
  uint64_t found = scan_words(s, b->words, b->at, b->n, b->base, 0, &over);
  for (uint32_t next = b->next; !over && next < b->count; next++) {
    const entry *c = &b->entries[next];
    uint64_t base = (uint64_t)c->index * r->header.chunk_words;
    uint32_t n = c->words < WINDOW ? c->words : WINDOW;
    if (base >= s->window_end || !read_at(r->fd, piece, n * 8, c->offset)) break;
    found = scan_words(s, piece, 0, n, base, found, &over);
    if (n < c->words) break;
  }
  return found;
}

/* The stream that must go on before s's group may be taken, or NULL. */
static stream *blocker(rd_reader *r, stream *s)
{
  while (s->waits) {
    stream *b = s->from <= r->most ? r->streams[s->from] : NULL;
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

static void place(rd_reader *r, stream *s, unsigned i) { r->heap[i] = s; s->heap = i; }

static void sink(rd_reader *r, stream *s)
{
  unsigned i = s->heap;
  for (unsigned c; (c = 2 * i) <= r->live; i = c) {
    if (c < r->live && r->heap[c + 1]->time < r->heap[c]->time) c++;
    if (r->heap[c]->time >= s->time) break;
    place(r, r->heap[c], i);
  }
  place(r, s, i);
}

static void leave_heap(rd_reader *r, stream *s)
{
  unsigned i = s->heap;
  stream *last = r->heap[r->live--];
  s->heap = 0;
  if (last == s) return;
  for (; i > 1 && r->heap[i / 2]->time > last->time; i /= 2) place(r, r->heap[i / 2], i);
  place(r, last, i);
  sink(r, last);
}

/* Parses s's next group; at its end it leaves the heap. */
static int advance(rd_reader *r, stream *s, rd_error *e)
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
    stream *s = r->streams[id];
    if (!s) continue;
    qsort(s->entries, s->count, sizeof *s->entries, by_index);
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
  if (!r) { fail(e, path, 0, "out of memory"); return NULL; }
  r->fd = open(path, O_RDONLY | O_CLOEXEC);
  r->path = strdup(path);
  r->streams = calloc(MTR_MAX_STREAM + 1, sizeof *r->streams);
  r->heap = calloc(MTR_MAX_STREAM + 2, sizeof *r->heap);
  r->stack = calloc(MTR_MAX_STREAM + 2, sizeof *r->stack);
  if (!r->path || !r->streams || !r->heap || !r->stack) fail(e, path, 0, "out of memory");
  else if (r->fd < 0 || fstat(r->fd, &info) != 0) snprintf(e->text, sizeof e->text, "%s: %s", path, strerror(errno));
  else if (check_header(r, (uint64_t)info.st_size, e) == 0 && index_chunks(r, (uint64_t)info.st_size, partial, e) == 0 && start(r, e) == 0) return r;
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
  free(r);
}

/* The stream whose group is next: the earliest, or what that waits for. */
static stream *choose(rd_reader *r)
{
  stream *s = r->depth ? r->stack[r->depth - 1] : r->heap[1], *b;
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
  stream *s = choose(r);
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
