/*
 * rings: the format of a file of records, for who writes it (trace.c) and who reads it (walk_read.c), perhaps in another program. See docs/internals/trace.md.
 *
 * A head, and chunks, each a head and records of two words: what was there and when, and of what. `seq` of a chunk is 0 while it changes hands, else its
 * place in the order of use, from 1. A record's first word is written after its second, and is 0 until then: who uses a chunk again clears it before. So
 * a reader that finds the same seq before and after, and copies a second time those that it had found, has copied what one thread wrote.
 */
#ifndef MR_RINGS_H
#define MR_RINGS_H

#include <stdatomic.h>
#include <stdint.h>

#define RINGS_MAGIC "mare\x1aTR2"
enum { RINGS_HEAD = 16384, RINGS_RECORD = 16, RINGS_OPS = 256, RINGS_OP = 32, RINGS_TEXT = 15 };

typedef struct rings_head {
  char magic[8];
  uint32_t record, chunk_size;       /* bytes; others are another format */
  uint32_t chunks;                   /* as many as there may be */
  uint32_t nanoseconds;              /* a tick is one; else the chunks' pairs say how long it is */
  uint64_t ticks, ns;                /* when it began, by both clocks */
  double wall;                       /* likewise, seconds since 1970 */
  uint64_t pid, size;                /* of the program; the most that the trace may have */
  _Atomic uint64_t until;            /* ticks since the beginning: of what was before that, something was overwritten */
  _Atomic uint64_t dropped;          /* records for which there was no room at all */
  _Atomic uint64_t end_ticks, end_ns;/* 0: it did not end in order */
  atomic_uint nops, full;            /* full: the errno value for which it stopped to grow, or 0 */
  char program[256], file[1024];
  char op[RINGS_OPS][RINGS_OP];      /* from TRACE_WAITS on */
} rings_head;
_Static_assert(sizeof(rings_head) <= RINGS_HEAD, "the head has a place of its own");

typedef struct rings_chunk {
  _Atomic uint64_t seq;
  atomic_uint thread, worker;        /* a number of its own, from 1; the worker that it held then, plus 1 */
  _Atomic uint64_t ticks, ns;        /* when it was taken, by both clocks */
  _Atomic uint64_t name[2];          /* of the thread */
} rings_chunk;
_Static_assert(sizeof(rings_chunk) == 64 - 16, "its format");
enum { RINGS_CHUNK = 64 };           /* bytes of a chunk's head */

/* The first word: ticks since the beginning << 8 | kind. The second: */
enum {
  /* Of a process's first fiber: the process << 28 | the number of what the one before waits for << 12 | how that stopped, 0: there was none */
  REC_RUN = 1,
  REC_PASS,                          /* the same, and the one before has woken it */
  REC_STOP,                          /* number << 12 | how */
  REC_WAKE,                          /* key << 12 | reason << 1 | no fiber has done it */
  REC_BORN,                          /* key << 12 | no fiber has done it */
  REC_NAME,                          /* key << 12 | length of the text that follows */
  REC_END,                           /* key << 12 | length of the text << 1 | failed */
  REC_WORKER,                        /* its number */
  REC_BEGIN,                         /* what */
  REC_FINISH,                        /* result */
  REC_CALL, REC_SERVE,               /* id; text follows: first word >> 8 of the next record, see REC_TEXT */
  REC_REPLY, REC_SERVED,             /* id */
  REC_RUN_OTHER, REC_PASS_OTHER,     /* of another fiber: key << 12 | how; behind a REC_STOP, if the one before waits for something with a number */
  REC_NUMBER,                        /* what has that number from now on << 12 | length of the text that follows: its name */
  REC_TEXT                           /* 15 bytes: seven in the first word, eight in the second; of calls the first of them ends with a zero byte */
};

#endif
