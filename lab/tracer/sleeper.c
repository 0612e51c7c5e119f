/*
 * A program that was started asleep: its mapping is found in its memory map, taken over for a while, and given back.
 *
 * One launcher at a time: the mapping's file is locked. Whatever is changed is changed while the clock stands, when nobody records; the last thing is the
 * session's number, then the clock runs. A launcher that was killed left the clock where it was, and its program full chunks: the next one clears both.
 * The mapping belongs to the program's user, and may hold anything: what is read from it is checked where it is used (drain.c).
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define SETTLED_NS 20000000 /* a thread in mid-record has ended it by then, but for one that was preempted */
#define TAKERS_MS 5000      /* for that one, if it matters; a handler may have left it for good */

static int refuse(const trace *t, const char *why)
{
  fprintf(stderr, "mare lab: attach: process %d %s\n", (int)t->o->attach, why);
  return 0;
}

/* ---- finding it ---- */

static char range[64]; /* where the process has it, as the kernel's links have it for name */
static unsigned device_major, device_minor;
static unsigned long inode;

/* The path of the process's sleeping mapping, as its memory map has it. */
static int find_path(trace *t)
{
  char name[64], line[4400], *at = NULL;
  snprintf(name, sizeof name, "/proc/%d/maps", (int)t->o->attach);
  FILE *maps = fopen(name, "re");
  if (!maps) return refuse(t, errno == ENOENT ? "does not exist" : "belongs to somebody else: attach as its user or as root");
  while (!at && fgets(line, sizeof line, maps)) at = strstr(line, TR_SLEEPERS);
  int unreadable = ferror(maps);
  fclose(maps);
  if (!at) return refuse(t, unreadable ? "belongs to somebody else: attach as its user or as root" :
                            "was not started asleep: start it by `mare lab attach --start -- program`, or with the variables of `mare lab attach --env`");
  at[strcspn(at, " \n")] = 0;
  snprintf(range, sizeof range, "%.*s", (int)strcspn(line, " "), line);
  if (sscanf(line, "%*s %*s %*s %x:%x %lu", &device_major, &device_minor, &inode) != 3) return refuse(t, "has a memory map of another form");
  if (strlen(at) >= sizeof t->path) return refuse(t, "has a mapping with another name");
  strcpy(t->path, at);
  return 1;
}

/* Opens the file if it is what the process has mapped, and not another one that has got its name. */
static int open_as(const char *name, int flags)
{
  struct stat info;
  mapping_fd = open(name, O_RDWR | O_CLOEXEC | flags);
  if (mapping_fd < 0) return 0;
  if (fstat(mapping_fd, &info) == 0 && info.st_ino == inode && major(info.st_dev) == device_major && minor(info.st_dev) == device_minor) return 1;
  close(mapping_fd);
  errno = ENOENT;
  return 0;
}

/* By its own root, as it may have a /dev/shm of its own. Where the name was removed, root still gets there by the kernel's link. */
static int open_path(trace *t)
{
  char name[128];
  snprintf(name, sizeof name, "/proc/%d/root%s", (int)t->o->attach, t->path);
  if (open_as(name, O_NOFOLLOW) || open_as(t->path, O_NOFOLLOW)) return 1;
  int error = errno;
  snprintf(name, sizeof name, "/proc/%d/map_files/%s", (int)t->o->attach, range);
  if (open_as(name, 0)) return 1;
  if (error == ENOENT) return refuse(t, "sleeps in a mapping whose name was removed: attach as root");
  fprintf(stderr, "mare lab: attach: %s: %s\n", t->path, strerror(error));
  return 0;
}

/* Records hold the numbers that processes have in their own namespace. */
static int same_numbers(const trace *t)
{
  char name[64];
  struct stat ours, its;
  snprintf(name, sizeof name, "/proc/%d/ns/pid", (int)t->o->attach);
  if (stat("/proc/self/ns/pid", &ours) != 0 || stat(name, &its) != 0 || ours.st_ino == its.st_ino) return 1;
  return refuse(t, "has a pid namespace of its own: attach from inside its container");
}

static int map_it(trace *t)
{
  struct stat info;
  if (fstat(mapping_fd, &info) != 0 || !S_ISREG(info.st_mode) || (size_t)info.st_size < sizeof(tr_shared)) return refuse(t, "has a mapping of another kind");
  void *p = mmap(NULL, sizeof(tr_shared), PROT_READ | PROT_WRITE, MAP_SHARED, mapping_fd, 0);
  if (p == MAP_FAILED) return refuse(t, "can't be looked into: there is no address space for its buffers");
  t->map = p;
  if (memcmp(t->map->magic, MTR_MAGIC, 8) != 0 || t->map->version != TR_VERSION || !t->map->asleep) return refuse(t, "was started with another version of the tracer");
  return 1;
}

/* ---- what the last session left ---- */

/* Of the living: under its number the process that took the record, not one that began later. */
static int lives(const trace *t, const tr_process *p)
{
  char name[64], text[1024], *at;
  snprintf(name, sizeof name, "/proc/%u/stat", p->pid);
  FILE *f = fopen(name, "re");
  if (!f) return 0;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  at = strrchr(text, ')');
  if (!at || at[1] != ' ' || at[2] == 'Z' || at[2] == 'X') return 0;
  for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
  if (!at) return 0;
  struct timespec boot, monotonic;
  clock_gettime(CLOCK_BOOTTIME, &boot);
  clock_gettime(CLOCK_MONOTONIC, &monotonic);
  double began = (double)strtoull(at + 1, NULL, 10) / (double)sysconf(_SC_CLK_TCK) - (double)(boot.tv_sec - monotonic.tv_sec);
  return began < (double)(t->map->began_us + p->began_us) / 1e6 + 1;
}

/* A process that called exec has a newer record under its number. */
static int replaced(const trace *t, const tr_process *p)
{
  for (uint32_t i = 0; i < TR_PROCESSES; i++) {
    const tr_process *other = &t->map->process[i];
    if (other != p && atomic_load(&other->state) == TR_ALIVE && other->pid == p->pid && other->began_us > p->began_us) return 1;
  }
  return 0;
}

static void clear_records(trace *t)
{
  for (uint32_t i = 0; i < TR_PROCESSES; i++) {
    tr_process *p = &t->map->process[i];
    if (atomic_load(&p->state) == TR_NOBODY) continue;
    atomic_store(&p->lost, 0);
    atomic_store(&p->stalls, 0);
    atomic_store(&p->stall_us, 0);
    atomic_store(&p->anonymous, 0);
    atomic_store(&p->looked_at, 0);
    if (atomic_load(&p->state) != TR_ALIVE || !lives(t, p) || replaced(t, p)) atomic_store(&p->state, TR_NOBODY);
  }
}

/* How many chunks it takes to hold those that stay with their writers. */
static uint32_t clear_chunks(trace *t)
{
  uint32_t least = 0;
  for (uint32_t c = 0; c < t->map->reserved && c < TR_CHUNKS; c++) {
    uint64_t owner = atomic_load(&t->map->owner[c]);
    uint32_t slot = tr_owner_process(owner);
    if (tr_owner_state(owner) == TR_WRITING && slot < TR_PROCESSES && atomic_load(&t->map->process[slot].state) == TR_ALIVE) {
      t->skip[c] = atomic_load(&t->map->chunk[c].count);
      least = c + 1;
      continue;
    }
    if (owner) {
      atomic_store(&t->map->chunk[c].taking, 0);
      atomic_store(&t->map->chunk[c].count, 0);
    }
    atomic_store(&t->map->owner[c], 0);
  }
  return least;
}

static void wait_until_settled(void)
{
  struct timespec a_bit = { 0, SETTLED_NS };
  nanosleep(&a_bit, NULL);
}

/* The program's own words, as the trace's command. */
static void copy_command(trace *t, options *o)
{
  char name[64];
  static char text[65536];
  static char *words[1024];
  size_t n = 0, count = 0;
  snprintf(name, sizeof name, "/proc/%d/cmdline", (int)o->attach);
  FILE *f = fopen(name, "re");
  if (f) { n = fread(text, 1, sizeof text - 1, f); fclose(f); }
  for (size_t i = 0; i < n && count < 1023; i += strlen(text + i) + 1) words[count++] = text + i;
  if (!count) words[count++] = t->path;
  o->command = words;
}

int take_over(trace *t)
{
  if (!find_path(t) || !same_numbers(t) || !open_path(t)) return 0;
  if (flock(mapping_fd, LOCK_EX | LOCK_NB) != 0) return refuse(t, "is being recorded already");
  if (!map_it(t)) return 0;
  t->skip = calloc(TR_CHUNKS, sizeof *t->skip);
  if (!t->skip) return refuse(t, "can't be recorded: out of memory");
  copy_command(t, (options *)(uintptr_t)t->o);
  if (atomic_exchange(&t->map->clock, TR_STOPPED) != TR_STOPPED) wait_until_settled(); /* a launcher was killed */
  clear_records(t);
  uint32_t chunks = reserve_first(t, clear_chunks(t));
  if (!chunks) return refuse(t, "can't be recorded: no room for its buffers in /dev/shm");
  t->map->launcher = (uint32_t)getpid();
  t->map->stack_every = t->o->stack_every;
  atomic_store(&t->map->waiting, 0);
  atomic_store(&t->map->untraced, 0);
  atomic_fetch_add(&t->map->session, 1);
  t->map->reserved = chunks;
  set_usable(t, chunks);
  return 1;
}

/* ---- while it runs, and afterwards ---- */

static int anybody(const trace *t)
{
  for (size_t i = 0; i < t->count; i++)
    if (t->images[i].live) return 1;
  return kill(t->o->attach, 0) == 0 || errno == EPERM;
}

void watch_attached(trace *t, _Atomic int *interrupted)
{
  uint64_t next_look = 0;
  while (!*interrupted && (!t->o->attach_us || trace_us(t) < t->o->attach_us)) {
    int full = drain(t);
    uint64_t now = now_us();
    if (t->o->stack_every) see_arrivals(t);
    if (now >= next_look) {
      see_processes(t);
      if (!anybody(t)) return;
      grow(t);
      next_look = now + 5000;
    }
    if (!full) {
      struct timespec a_bit = { 0, 1000000 };
      nanosleep(&a_bit, NULL);
    }
  }
}

/* The pages of free chunks, in runs. */
static void give_pages_back(const trace *t)
{
  uint32_t n = t->map->reserved < TR_CHUNKS ? t->map->reserved : TR_CHUNKS;
  for (uint32_t c = 0, from; c < n; c++) {
    for (from = c; c < n && atomic_load(&t->map->owner[c]) == 0; c++) { }
    off_t at = (off_t)(offsetof(tr_shared, chunk) + (size_t)from * sizeof(tr_chunk)), end = (off_t)(offsetof(tr_shared, chunk) + (size_t)c * sizeof(tr_chunk));
    if (c > from && fallocate(mapping_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, end - at) != 0) return; /* then they stay */
  }
}

static int somebody_takes(const trace *t)
{
  for (uint32_t c = 0; c < t->usable; c++) {
    uint64_t owner = atomic_load(&t->map->owner[c]);
    if (tr_owner_state(owner) == TR_WRITING && t->of_slot[tr_owner_process(owner) % TR_PROCESSES] && atomic_load(&t->map->chunk[c].taking)) return 1;
  }
  return 0;
}

/*
 * A thread that was preempted between taking a region and writing that down must write it: who took the region from it waits for its words, and by them for
 * those of the owners before. Any other event under way may be left out, as nothing that it makes possible is recorded any more.
 */
static void wait_for_takers(trace *t)
{
  for (int tries = 0; tries < TAKERS_MS && somebody_takes(t); tries++) {
    struct timespec a_bit = { 0, 1000000 };
    nanosleep(&a_bit, NULL);
    see_processes(t); /* it may be gone */
  }
}

void give_back(trace *t)
{
  wait_until_settled();
  wait_for_takers(t);
  leave_images(t);
  set_usable(t, 0);
  t->map->launcher = 0;
  give_pages_back(t);
  close(mapping_fd); /* and with it the lock */
}
