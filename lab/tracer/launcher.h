/*
 * The launcher's parts. It runs outside the traced processes: it makes the mapping and starts the program, or takes over the mapping of one that was
 * started asleep; it refreshes the clock, writes full chunks out, notices processes that are gone, and writes trace.json.
 */
#ifndef MARE_LAB_LAUNCHER_H
#define MARE_LAB_LAUNCHER_H

#include "shared.h"
#include <stdio.h>
#include <sys/types.h>

typedef struct options {
  const char *folder, *library;
  uint64_t limit;       /* bytes on disk */
  uint64_t ring;        /* last events; 0: all */
  uint32_t stack_every;
  pid_t attach;         /* record this one, which was started asleep; 0: start the command */
  uint64_t attach_us;   /* for so long; 0: until an interrupt or its end */
  char **command;
} options;

/* A process image that was traced; kept to the end, for trace.json. */
typedef struct image {
  uint32_t pid, number, parent, slot;
  int forked, live, fd;
  const char *ended_by;
  uint64_t began_us, ended_us, words, anonymous, lost, stalls, stall_us, bytes, maps_us;
  uint32_t streams;
  char *executable, *command;
  uint32_t command_bytes;
  int has_maps;
} image;

/* A chunk's content kept in memory, with a ring. */
typedef struct kept {
  struct kept *next;
  size_t image; /* its number in images */
  mtr_entry entry;
  uint32_t events;
  uint64_t words[];
} kept;

typedef struct trace {
  const options *o;
  tr_shared *map;
  char path[64];            /* of the mapping */
  uint32_t usable;          /* as in the mapping, which the program could overwrite */
  uint32_t used;            /* chunks that were not free when they were last looked at */
  int no_room;              /* for more chunks in the file system */
  uint64_t base_us;         /* when this trace began, by the mapping's clock */
  uint32_t *skip;           /* attached: per chunk, the words of earlier sessions */
  image *images;
  size_t count, room;
  uint32_t of_slot[TR_PROCESSES]; /* image + 1 */
  kept *oldest, *newest;
  uint64_t kept_events;
  uint64_t bytes, words, events;
  uint64_t orphaned;        /* events of nobody */
  uint64_t gap_us;          /* the clock's largest gap */
  int limit_reached, failed; /* failed: errno of a write */
  uint64_t limit_us, ended_us;
  char started[32];
  int status, waiting;      /* waiting: the program has ended, processes it left haven't */
} trace;

extern int mapping_fd;
uint64_t now_us(void);
uint64_t trace_us(const trace *t); /* since the trace began */

/* mapping.c */
int make_mapping(trace *t);
void drop_mapping(trace *t);
int start_clock(trace *t);
void stop_clock(trace *t);
uint32_t reserve_first(const trace *t, uint32_t least); /* chunks; 0: there is no room */
void set_usable(trace *t, uint32_t chunks);
void widen(trace *t); /* some more chunks, until the usual number is there */
void grow(trace *t);  /* beyond it, while threads wait for one */

/* sleeper.c */
int take_over(trace *t);             /* the mapping of o->attach; 0 with words on stderr */
void watch_attached(trace *t, _Atomic int *interrupted);
void give_back(trace *t);            /* its clock stands already */

/* drain.c */
int drain(trace *t);                 /* writes full chunks; how many */
void see_arrivals(trace *t);         /* new images */
void see_processes(trace *t);        /* new images, memory, images that are gone */
void finish_all(trace *t);           /* everything that is left, once no process is alive, or nobody waits for them */
void end_recording(trace *t);
void leave_images(trace *t);         /* what the living wrote until now; they keep their records and half-written chunks */
char *copy_bytes(const char *from, size_t n);

/* ring.c */
int keep_chunk(trace *t, size_t image, const mtr_entry *entry, const uint64_t *words, uint32_t events);
void write_kept(trace *t);

/* chunk writing, shared by drain.c and ring.c */
void write_chunk(trace *t, size_t image, const mtr_entry *entry, const uint64_t *words);

/* header.c */
int write_header(trace *t, int complete);

#endif
