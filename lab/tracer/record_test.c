/*
 * The recording side and the draining side in one process, with threads that hand made-up blocks to each other as fast as they can: built under
 * AddressSanitizer with UBSan, and under ThreadSanitizer. What comes out is read back and must hold no impossible step.
 *
 * A block is an address nobody dereferences. Its maker records it, then offers it in a slot; who takes it records its free, then lets the address
 * be used again: the order that a program with a real allocator keeps.
 */
#define _GNU_SOURCE
#include "../reader/measures.h"
#include "attach.h"
#include "launcher.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); exit(1); } } while (0)

enum { THREADS = 4, BLOCKS = 512, STEPS = 50000 };

static _Atomic int state[BLOCKS]; /* 0 nobody's, 1 being made or ended, 2 alive */
static _Atomic int running;
static pthread_barrier_t barrier; /* every 100 steps, so that they mix on however few CPUs */

static uint64_t address_of(unsigned b) { return UINT64_C(0x7f1234500000) + (b % 8) * 65536 + (b / 8) * 16; }

static void *work(void *seed)
{
  uint64_t x = (uint64_t)(uintptr_t)seed * 7919 + 1;
  for (int i = 0; i < STEPS; i++) {
    if (i % 100 == 0) pthread_barrier_wait(&barrier);
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    unsigned b = (unsigned)(x >> 20) % BLOCKS;
    int was = 0;
    if (atomic_compare_exchange_strong(&state[b], &was, 1)) {
      tr_record(MTR_MALLOC, address_of(b), (x >> 40) % 40 == 0 ? 1 << 20 : b + 1);
      atomic_store(&state[b], 2);
    } else if (was == 2 && atomic_compare_exchange_strong(&state[b], &was, 1)) {
      if (x & (1 << 10)) { /* a realloc that stays in place */
        tr_record(MTR_REALLOC_BEGIN, address_of(b), 0);
        tr_record(MTR_REALLOC_END, address_of(b), b + 2);
        atomic_store(&state[b], 2);
      } else {
        tr_record(MTR_FREE, address_of(b), 0);
        atomic_store(&state[b], 0);
      }
    }
  }
  atomic_fetch_sub(&running, 1);
  return NULL;
}

static void begin(trace *t, options *o, char *folder)
{
  static char setting[256], *command[] = { "test", NULL };
  *o = (options){ .folder = folder, .library = "none", .limit = UINT64_C(1) << 30, .command = command };
  CHECK(mkdtemp(folder) && make_mapping(t));
  atomic_store(&t->map->clock, 1);
  snprintf(setting, sizeof setting, "%s:none", t->path);
  setenv(TR_ENV, setting, 1);
  tr_attach();
  CHECK(tr_map != NULL);
}

static void run(trace *t)
{
  pthread_t id[THREADS];
  pthread_barrier_init(&barrier, NULL, THREADS);
  atomic_store(&running, THREADS);
  for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&id[i], NULL, work, (void *)(uintptr_t)(i + 1)) == 0);
  while (atomic_load(&running)) { /* as the launcher does */
    drain(t);
    see_arrivals(t);
    atomic_fetch_add(&t->map->clock, 1);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(id[i], NULL);
  atomic_store(&t->map->clock, TR_STOPPED);
  finish_all(t);
  CHECK(t->count == 1 && write_header(t, 1));
}

static void read_back(const trace *t, const char *folder)
{
  char path[256];
  rd_error error;
  rd_event e;
  uint64_t events = 0;
  int got;
  snprintf(path, sizeof path, "%s/%u-0.mtr", folder, t->images[0].pid);
  rd_reader *r = rd_open(path, 0, &error);
  ms_measures *m = ms_new(100, 1000, NULL);
  CHECK(r && m);
  while ((got = rd_next(r, &e, &error)) > 0) {
    ms_event(m, &e);
    events += e.kind != MTR_REALLOC_BEGIN;
  }
  CHECK(got == 0);
  ms_end(m);
  CHECK(m->impossible == 0 && m->unknown == 0 && rd_relaxed(r) == 0 && m->thread_count == THREADS);
  CHECK(events == t->events);
  CHECK(events > STEPS && m->by_another > 1000);
  ms_free(m);
  rd_close(r);
  unlink(path);
}

int main(void)
{
  char folder[] = "mare-record-test-XXXXXX", header[64];
  static options o;
  static trace t = { .o = &o };
  begin(&t, &o, folder);
  run(&t);
  drop_mapping(&t);
  read_back(&t, folder);
  snprintf(header, sizeof header, "%s/trace.json", folder);
  unlink(header);
  return rmdir(folder);
}
