/*
 * What each thread of a run is to do: made before the timed part, from factors, from a fitted profile, or from a recorded trace.
 *
 * A block that its own thread frees has a slot among that thread's own; its number is used again. A block that another thread frees or reallocs has
 * a slot of its own among the shared ones, never used again: who frees it waits until it is there. The order in which operations were appended is
 * one in which no wait is in vain, so a run can't deadlock.
 */
#ifndef MARE_LAB_SCRIPT_H
#define MARE_LAB_SCRIPT_H

#include <stddef.h>
#include <stdint.h>

enum sc_kind { SC_MALLOC, SC_CALLOC, SC_REALLOC, SC_ALIGNED, SC_FREE, SC_PACE, SC_KINDS }; /* pace: size is the time, in ms since the start */
enum { SC_NEW_SHARED = 0x40, SC_OLD_SHARED = 0x80, SC_KIND = 0x3f };
#define SC_NO_SLOT UINT32_MAX /* the old block of realloc(NULL, n) */
#define SC_THREADS 1024

typedef struct sc_op {
  uint64_t what; /* bits 0-47 the size, 48-55 kind and flags, 56-63 log2 of the alignment */
  uint32_t from, to; /* slots: of the block that goes, of the block that comes */
} sc_op;

typedef struct sc_thread { sc_op *ops; uint64_t count, room; uint32_t slots, idle_count, idle_room; uint32_t *idle; } sc_thread;

typedef struct sc_script {
  sc_thread thread[SC_THREADS];
  uint32_t threads, shared;
  uint64_t live, peak; /* bytes requested, in the order of appending */
  int out_of_memory;
} sc_script;

/* A block while the script is being made: where it was born, so that its slot can still be changed. */
typedef struct sc_block { uint32_t thread; uint32_t slot; uint64_t op; } sc_block;

static inline unsigned sc_kind_of(const sc_op *op) { return (unsigned)(op->what >> 48) & SC_KIND; }
static inline uint64_t sc_size(const sc_op *op) { return op->what & ((UINT64_C(1) << 48) - 1); }

sc_script *sc_new(uint32_t threads);
void sc_free(sc_script *s);
/* realloc(NULL, n) is kind SC_REALLOC. */
sc_block sc_birth(sc_script *s, uint32_t thread, unsigned kind, uint64_t size, unsigned log2);
void sc_death(sc_script *s, uint32_t thread, const sc_block *block);
sc_block sc_regrow(sc_script *s, uint32_t thread, const sc_block *block, uint64_t size);
void sc_pace(sc_script *s, uint32_t thread, uint64_t ms);

/* NULL or -1: *error says what is wrong, with the file and the byte. */
int sc_save(const sc_script *s, const char *path, const char **error);
sc_script *sc_load(const char *path, char *error, size_t room);

/* make.c: from factors. */
typedef struct mk_factors {
  uint64_t allocations, min_size, max_size, seed;
  uint32_t threads, alive;
  int peak, death; /* death: 0 lifo, 1 fifo, 2 random */
  double long_share, cross;
} mk_factors;
sc_script *mk_from_factors(const mk_factors *f);

/* profile.c: from a joint distribution (describe-trace --joint). */
sc_script *mk_from_profile(const char *path, uint64_t allocations, uint64_t seed, char *error, size_t room);

static inline uint64_t sc_random(uint64_t *state) /* splitmix64 */
{
  uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
  return z ^ z >> 31;
}
static inline uint64_t sc_below(uint64_t *state, uint64_t n) { return n ? sc_random(state) % n : 0; }
static inline double sc_unit(uint64_t *state) { return (double)(sc_random(state) >> 11) / 9007199254740992.0; }

/* The harness's memory: from the system, so that the allocator under test serves none of it. */
void *sc_map(size_t bytes);
void *sc_remap(void *old, size_t had, size_t bytes);
void sc_unmap(void *p, size_t bytes);

#endif
