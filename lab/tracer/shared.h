/*
 * The mapping that the launcher makes and every traced process maps: a header, a record per process image, a word per chunk, the chunks.
 *
 * Ownership. A chunk's word says who has it: 0 free; a thread takes it by compare-and-swap with its process and stream in it, marks it full when
 * done; the launcher alone makes it free again, after writing it out. A chunk's `count` and words belong to the thread that took it; the launcher
 * reads them once the chunk is full or the process is gone. A process record is taken by compare-and-swap, filled by the process, and
 * given back by the launcher when the image is gone. Nothing here is freed or locked by a traced process, so it may be killed at any instruction.
 *
 * Asleep. A process that was started with TR_ASLEEP makes the mapping itself, without a chunk, its clock stopped. A launcher that attaches locks the file,
 * makes chunks usable and lets the clock run; when it leaves, the clock stands again. The clock never goes back, so no writer takes an old time for the
 * present. Chunks that are half written then stay with their writers, who go on in them in the next session; so do the records of processes.
 */
#ifndef MARE_LAB_SHARED_H
#define MARE_LAB_SHARED_H

#include "format.h"
#include <stdatomic.h>
#include <stddef.h>

#define TR_ENV "MARE_LAB_TRACE"
#define TR_ASLEEP "asleep"       /* in TR_ENV instead of a mapping's path: make one, and record nothing until somebody attaches */
#define TR_SLEEPERS "/dev/shm/mare-lab-asleep." /* and the process id: such a mapping's path */
#define TR_VERSION 2u
#define TR_PROCESSES 1024u
#define TR_CHUNKS 65536u      /* room in the mapping; `usable` says how many may be taken */
#define TR_FIRST_CHUNKS 4096u /* 64 MiB: a third of a second of the fastest program */
#define TR_CHUNKS_AT_ONCE 128u /* 2 MiB: what is there when the program starts, as reserving more would make it wait for milliseconds */
#define TR_STOPPED UINT64_MAX /* the clock's value once nothing is recorded any more */

enum tr_process_state { TR_NOBODY, TR_ARRIVING, TR_ALIVE };

typedef struct tr_process {
  _Atomic uint32_t state;
  uint32_t pid, parent;
  uint32_t forked;               /* 1: by fork, no exec since */
  uint64_t began_us;             /* since the trace began */
  _Atomic uint64_t lost, stalls, stall_us;
  _Atomic uint64_t anonymous;    /* RssAnon as the image last saw it itself, at its orderly end */
  _Atomic uint32_t looked_at;    /* the launcher has copied the memory map (only with stacks) */
  char executable[256];
  char command[512];             /* arguments, each ended by a NUL */
  uint32_t command_bytes;
} tr_process;

typedef struct tr_chunk {
  _Atomic uint32_t count;  /* words published */
  _Atomic uint32_t taking; /* the writer has taken a region, perhaps, and has not published so */
  uint32_t pad[14];
  uint64_t words[MTR_CHUNK_WORDS];
} tr_chunk;

typedef struct tr_shared {
  char magic[8];
  uint32_t version, launcher;
  uint64_t began_us;
  uint32_t stack_every;
  uint32_t asleep;                     /* made by a process that was started asleep: launchers come and go */
  _Atomic uint32_t session;            /* which of them this is; a writer's first event in a session says its time and thread anew */
  uint32_t reserved;                   /* chunks that were usable in any session */
  _Alignas(64) _Atomic uint64_t clock; /* microseconds since began_us, refreshed every millisecond; TR_STOPPED */
  _Alignas(64) _Atomic uint32_t usable;
  _Atomic uint32_t waiting;            /* threads that found no chunk */
  _Atomic uint32_t untraced;           /* process images that found no record */
  _Alignas(64) tr_process process[TR_PROCESSES];
  _Alignas(64) _Atomic uint64_t owner[TR_CHUNKS];
  _Alignas(4096) tr_chunk chunk[TR_CHUNKS];
} tr_shared;

/* A chunk's word: bits 62-63 the state, 48-61 the process record, 34-47 the stream, 0-33 the chunk's index in the stream. */
enum tr_chunk_state { TR_FREE, TR_WRITING, TR_FULL };
static inline uint64_t tr_owner(unsigned state, unsigned process, unsigned stream, uint64_t index)
{
  return ((uint64_t)state << 62) | ((uint64_t)process << 48) | ((uint64_t)stream << 34) | (index & ((UINT64_C(1) << 34) - 1));
}
static inline unsigned tr_owner_state(uint64_t word) { return (unsigned)(word >> 62); }
static inline unsigned tr_owner_process(uint64_t word) { return (unsigned)(word >> 48) & 0x3fff; }
static inline unsigned tr_owner_stream(uint64_t word) { return (unsigned)(word >> 34) & 0x3fff; }
static inline uint64_t tr_owner_index(uint64_t word) { return word & ((UINT64_C(1) << 34) - 1); }

#endif
