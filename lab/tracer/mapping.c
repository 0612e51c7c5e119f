/*
 * The mapping's life: made in /dev/shm (or TMPDIR where that is too small), its pages reserved before anybody writes to them, so that a full file
 * system is an error here and not a SIGBUS in the program. The system clears each page that is reserved, so a program starts with few of them, and the
 * rest follows in slices while it runs. Files of launchers that were killed are removed by the next one. The clock has a thread
 * of its own.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/mman.h>

#define PREFIX "mare-lab-trace."
#define SLICE 64 /* chunks that are reserved at a time: a third of a millisecond */

int mapping_fd = -1;
static pthread_t clock_thread;
static _Atomic int clock_on;

uint64_t trace_us(const trace *t) { return now_us() - t->map->began_us - t->base_us; }

uint64_t now_us(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

void set_usable(trace *t, uint32_t chunks)
{
  t->usable = chunks;
  atomic_store(&t->map->usable, chunks);
}

static void remove_orphans(const char *folder)
{
  DIR *d = opendir(folder);
  struct dirent *e;
  char path[512];
  while (d && (e = readdir(d)) != NULL) {
    if (strncmp(e->d_name, PREFIX, strlen(PREFIX)) != 0) continue;
    pid_t pid = (pid_t)atol(e->d_name + strlen(PREFIX));
    if (pid > 0 && kill(pid, 0) != 0 && errno == ESRCH && snprintf(path, sizeof path, "%s/%s", folder, e->d_name) < (int)sizeof path) unlink(path);
  }
  if (d) closedir(d);
}

static off_t chunk_end(uint32_t chunks) { return (off_t)(offsetof(tr_shared, chunk) + (size_t)chunks * sizeof(tr_chunk)); }

/* What may be on its way to the disk at most: a quarter of the limit, as recording stops that much too late. */
static uint32_t most_chunks(const trace *t)
{
  uint64_t most = t->o->ring ? TR_CHUNKS : t->o->limit / 4 / sizeof(tr_chunk);
  return most > TR_CHUNKS ? TR_CHUNKS : most < 64 ? 64 : (uint32_t)most;
}

static uint32_t usual_chunks(const trace *t) { return most_chunks(t) < TR_FIRST_CHUNKS / 2 ? most_chunks(t) : TR_FIRST_CHUNKS / 2; }

/* Half as many will do, and half of that; less than a mebibyte won't. */
static uint32_t reserve(int fd, uint32_t wanted, uint32_t least)
{
  for (uint32_t chunks = wanted > least ? wanted : least; chunks >= 64 && chunks >= least; chunks /= 2)
    if (posix_fallocate(fd, 0, chunk_end(chunks)) == 0) return chunks;
  return 0;
}

uint32_t reserve_first(const trace *t, uint32_t least) { return reserve(mapping_fd, usual_chunks(t), least); }

static int reserve_more(trace *t, uint32_t chunks)
{
  if (posix_fallocate(mapping_fd, chunk_end(t->usable), chunk_end(chunks) - chunk_end(t->usable)) != 0) return 0;
  t->map->reserved = chunks;
  set_usable(t, chunks);
  return 1;
}

static int make_in(trace *t, const char *folder)
{
  remove_orphans(folder);
  if (snprintf(t->path, sizeof t->path, "%s/" PREFIX "%d", folder, (int)getpid()) >= (int)sizeof t->path) return 0;
  unlink(t->path);
  int fd = open(t->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return 0;
  uint32_t wanted = usual_chunks(t) < TR_CHUNKS_AT_ONCE ? usual_chunks(t) : TR_CHUNKS_AT_ONCE;
  uint32_t chunks = ftruncate(fd, sizeof(tr_shared)) == 0 ? reserve(fd, wanted, 0) : 0;
  void *p = chunks ? mmap(NULL, sizeof(tr_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (p == MAP_FAILED) {
    close(fd);
    unlink(t->path);
    return 0;
  }
  mapping_fd = fd;
  t->map = p;
  set_usable(t, chunks);
  return 1;
}

int make_mapping(trace *t)
{
  const char *other = getenv("TMPDIR");
  if (!make_in(t, "/dev/shm") && !make_in(t, other && *other ? other : "/tmp")) return 0;
  memcpy(t->map->magic, MTR_MAGIC, 8);
  t->map->version = TR_VERSION;
  t->map->launcher = (uint32_t)getpid();
  t->map->began_us = now_us();
  t->map->stack_every = t->o->stack_every;
  return 1;
}

void drop_mapping(trace *t) { unlink(t->path); }

void widen(trace *t)
{
  uint32_t usual = usual_chunks(t), more = t->usable + SLICE < usual ? t->usable + SLICE : usual;
  if (t->usable < usual && !t->no_room) t->no_room = !reserve_more(t, more);
}

/* More chunks: when threads wait for one, up to a quarter of a gigabyte to bridge a slow disk, beyond it only if as many threads hold one each. */
void grow(trace *t)
{
  uint32_t usable = t->usable, more = usable * 2 > TR_CHUNKS ? TR_CHUNKS : usable * 2, writing = 0;
  if (!atomic_load(&t->map->waiting) || more == usable) return;
  for (uint32_t i = 0; i < usable; i++) writing += tr_owner_state(atomic_load(&t->map->owner[i])) == TR_WRITING;
  if ((usable >= 4 * TR_FIRST_CHUNKS || more > most_chunks(t)) && writing < usable / 2) return;
  (void)reserve_more(t, more);
}

static void *tick(void *data)
{
  trace *t = data;
  uint64_t last = now_us();
  while (atomic_load(&clock_on)) {
    struct timespec a_bit = { 0, 1000000 };
    nanosleep(&a_bit, NULL);
    uint64_t now = now_us(), was = atomic_load(&t->map->clock);
    if (was == TR_STOPPED) break;
    if (now - last > t->gap_us) t->gap_us = now - last;
    last = now;
    atomic_compare_exchange_strong(&t->map->clock, &was, now - t->map->began_us);
  }
  return NULL;
}

int start_clock(trace *t)
{
  uint64_t now = now_us() - t->map->began_us;
  atomic_store(&t->map->clock, now ? now : 1);
  atomic_store(&clock_on, 1);
  sigset_t all, before; /* signals are for the thread that watches: one ends its pause */
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int failed = pthread_create(&clock_thread, NULL, tick, t);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (!failed) return 1;
  atomic_store(&t->map->clock, TR_STOPPED);
  return 0;
}

void stop_clock(trace *t)
{
  (void)t;
  atomic_store(&clock_on, 0);
  pthread_join(clock_thread, NULL);
}
