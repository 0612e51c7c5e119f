/*
 * What the files of the reader share: streams and their chunks. chunks.c opens a file and finds its chunks; reader.c parses their groups and merges
 * the streams.
 */
#ifndef MARE_LAB_CHUNKS_H
#define MARE_LAB_CHUNKS_H
#include "reader.h"
#include <stddef.h>

#define MOST_FRAMES 255u

typedef struct {
  uint64_t offset; /* of its words in the file */
  uint32_t index, words;
} rd_entry;

typedef struct {
  uint32_t id;
  rd_entry *entries;
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
} rd_stream;

struct rd_reader {
  int fd;
  char *path;
  mtr_header header;
  uint64_t words, relaxed;
  uint32_t most, live, depth;
  rd_stream **streams; /* by id; NULL where there is none */
  rd_stream **heap;    /* by time, 1-based */
  rd_stream **stack;   /* waiting for the one above */
  uint64_t *window;    /* a chunk beside the streams' own, to look ahead */
};

int rd_fail(rd_error *e, const char *path, uint64_t byte, const char *what); /* gives -1 */
int rd_read_at(int fd, void *into, size_t n, uint64_t offset);
/* Reads the file's header and where the chunks of each stream are: 0, or -1. Of a file that ends too early, what is whole if `partial`. */
int rd_index(rd_reader *r, uint64_t size, int partial, rd_error *e);
/* The stream's next chunk into its buffer: 1, 0 at its end, -1. */
int rd_load_chunk(rd_reader *r, rd_stream *s, rd_error *e);
#endif
