/*
 * A trace file is a header and chunks in any order (FORMAT.md). Each chunk says to which stream it belongs and which of its chunks it is. So the heads
 * of all are read first, and those of a stream are sorted.
 */
#define _GNU_SOURCE
#include "chunks.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int rd_fail(rd_error *e, const char *path, uint64_t byte, const char *what)
{
  snprintf(e->text, sizeof e->text, "%s: byte %llu: %s", path, (unsigned long long)byte, what);
  return -1;
}

int rd_read_at(int fd, void *into, size_t n, uint64_t offset)
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

static rd_stream *stream_of(rd_reader *r, uint32_t id)
{
  if (!r->streams[id]) {
    rd_stream *s = r->streams[id] = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->id = id;
    if (id > r->most) r->most = id;
  }
  return r->streams[id];
}

static int add_entry(rd_stream *s, const mtr_entry *e, uint64_t offset)
{
  if (s->count == s->room) {
    uint32_t room = s->room ? s->room * 2 : 4;
    rd_entry *more = realloc(s->entries, room * sizeof *more);
    if (!more) return 0;
    s->entries = more;
    s->room = room;
  }
  s->entries[s->count++] = (rd_entry){ offset, e->index, e->words };
  return 1;
}

static int by_index(const void *a, const void *b)
{
  uint32_t x = ((const rd_entry *)a)->index, y = ((const rd_entry *)b)->index;
  return (x > y) - (x < y);
}

static int check_header(rd_reader *r, uint64_t size, rd_error *e)
{
  const mtr_header *h = &r->header;
  if (size < sizeof *h || !rd_read_at(r->fd, &r->header, sizeof *h, 0))
    return rd_fail(e, r->path, 0, "too short for a trace; give a file that `mare lab trace` wrote (PID-N.mtr)");
  if (memcmp(h->magic, MTR_MAGIC, 8) != 0)
    return rd_fail(e, r->path, 0, "not a trace: it doesn't begin with " MTR_MAGIC "; give a file that `mare lab trace` wrote");
  if (h->version != MTR_VERSION) {
    char what[128];
    snprintf(what, sizeof what, "trace format version %u, this program reads version %u; trace again, or use the mare that wrote it", h->version,
             MTR_VERSION);
    return rd_fail(e, r->path, 8, what);
  }
  if (h->header_bytes < sizeof *h || h->header_bytes > size) return rd_fail(e, r->path, 12, "the header's size is impossible: the file is damaged");
  if (h->chunk_words == 0 || h->chunk_words > (1u << 24)) return rd_fail(e, r->path, 24, "the chunk size is impossible: the file is damaged");
  return 0;
}

static int index_chunks(rd_reader *r, uint64_t size, int partial, rd_error *e)
{
  uint64_t at = r->header.header_bytes;
  while (at < size) {
    mtr_entry c;
    if (size - at < sizeof c || !rd_read_at(r->fd, &c, sizeof c, at)) {
      if (partial) return 0;
      return rd_fail(e, r->path, at, "the file ends inside a chunk's header: it is truncated; --partial describes what comes before");
    }
    if (c.magic != MTR_CHUNK_MAGIC) return rd_fail(e, r->path, at, "a chunk should begin here: the file is damaged");
    if (c.stream == 0 || c.stream > MTR_MAX_STREAM || c.words == 0 || c.words > r->header.chunk_words)
      return rd_fail(e, r->path, at, "a chunk's header with impossible numbers: the file is damaged");
    if ((size - at - sizeof c) / 8 < c.words) {
      if (partial) return 0;
      return rd_fail(e, r->path, at, "the file ends inside this chunk: it is truncated; --partial describes what comes before");
    }
    rd_stream *s = stream_of(r, c.stream);
    if (!s || !add_entry(s, &c, at + sizeof c)) return rd_fail(e, r->path, at, "out of memory");
    r->words += c.words;
    at += sizeof c + 8 * (uint64_t)c.words;
  }
  return 0;
}

int rd_index(rd_reader *r, uint64_t size, int partial, rd_error *e)
{
  if (check_header(r, size, e) < 0 || index_chunks(r, size, partial, e) < 0) return -1;
  for (uint32_t id = 1; id <= r->most; id++)
    if (r->streams[id]) qsort(r->streams[id]->entries, r->streams[id]->count, sizeof *r->streams[id]->entries, by_index);
  return 0;
}

int rd_load_chunk(rd_reader *r, rd_stream *s, rd_error *e)
{
  if (s->next == s->count) {
    s->ended = 1;
    return 0;
  }
  const rd_entry *c = &s->entries[s->next++];
  if (!s->words && !(s->words = malloc(r->header.chunk_words * sizeof *s->words))) return rd_fail(e, r->path, c->offset, "out of memory");
  if (!rd_read_at(r->fd, s->words, c->words * 8, c->offset)) return rd_fail(e, r->path, c->offset, "can't read this chunk");
  s->n = c->words;
  s->at = s->ahead = 0;
  s->base = (uint64_t)c->index * r->header.chunk_words;
  return 1;
}
