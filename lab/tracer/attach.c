/*
 * Finding the launcher's mapping and taking a record in it: at the program's first allocation, and in each forked child at its first event. Whoever is
 * started asleep makes the mapping and takes a record at the first event after somebody attached.
 *
 * It runs before libc's constructors, perhaps before `environ` is set, so it uses system calls and no function that could allocate. The descriptor is
 * closed at once: a traced process keeps none. The table and the streams are private; the table is wiped in a forked child (by any kind of fork),
 * which is how the child notices. A child of vfork shares them with its parent, which sleeps meanwhile.
 */
#define _GNU_SOURCE
#include "attach.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include <time.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define GONE UINT64_MAX /* in `alive`: no record was free; this process isn't traced */
#define ARRIVING UINT64_C(1)

static _Atomic uint64_t never = TR_STOPPED;
_Atomic(_Atomic uint64_t *) tr_clock = &never;
tr_shared *tr_map;
tr_table *tr_regions;
tr_streams *tr_streams_;
pthread_key_t tr_key;
char tr_library[4096], tr_mapping[4096];
int tr_confined, tr_passed_on;
static uint32_t began_as; /* this process, before any fork */
static int made_here;     /* the mapping is of this program's own making, as it sleeps */

extern char **environ;

unsigned tr_slot(void) { return (unsigned)atomic_load_explicit(&tr_regions->alive, memory_order_relaxed) - 2; }

static long read_file(const char *path, char *into, size_t room)
{
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  size_t have = 0;
  while (have < room) {
    long n = syscall(SYS_read, fd, into + have, room - have);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    have += (size_t)n;
  }
  syscall(SYS_close, fd);
  return (long)have;
}

/* ---- this process's record ---- */

/* As the launcher sees it: in a pid namespace of its own a process is number 1 to itself, and /proc/self is still a link to its other number. */
static uint32_t own_id(void)
{
  char link[16];
  uint32_t id = 0;
  long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self", link, sizeof link);
  for (long i = 0; i < n && link[i] >= '0' && link[i] <= '9'; i++) id = id * 10 + (uint32_t)(link[i] - '0');
  return id ? id : (uint32_t)syscall(SYS_getpid);
}

static void introduce(tr_process *p, int forked)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  uint64_t now = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
  p->pid = own_id();
  p->parent = (uint32_t)syscall(SYS_getppid);
  p->forked = (uint32_t)forked;
  p->began_us = now > tr_map->began_us ? now - tr_map->began_us : 0;
  long n = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", p->executable, sizeof p->executable - 1);
  p->executable[n > 0 ? n : 0] = 0;
  n = read_file("/proc/self/cmdline", p->command, sizeof p->command);
  p->command_bytes = n > 0 ? (uint32_t)n : 0;
}

/* A free record; waits a second for one, as the launcher gives those of ended processes back. */
static int claim_record(int forked)
{
  for (int tries = 0; tries < 1000; tries++) {
    for (unsigned i = 0; i < TR_PROCESSES; i++) {
      uint32_t nobody = TR_NOBODY;
      tr_process *p = &tr_map->process[i];
      if (atomic_load_explicit(&p->state, memory_order_relaxed) != TR_NOBODY) continue;
      if (!atomic_compare_exchange_strong(&p->state, &nobody, TR_ARRIVING)) continue;
      introduce(p, forked);
      atomic_store(&p->state, TR_ALIVE);
      return (int)i;
    }
    struct timespec a_bit = { 0, 1000000 };
    syscall(SYS_nanosleep, &a_bit, NULL);
  }
  atomic_fetch_add(&tr_map->untraced, 1);
  return -1;
}

/* With stacks the launcher copies the memory map before anything can change or end; a tenth of a second at most. */
static void be_looked_at(tr_process *p)
{
  for (int tries = 0; tries < 500 && !atomic_load(&p->looked_at); tries++) {
    struct timespec a_bit = { 0, 200000 };
    syscall(SYS_nanosleep, &a_bit, NULL);
  }
}

static void arrive(int forked)
{
  int i = claim_record(forked);
  if (i >= 0 && tr_map->stack_every) be_looked_at(&tr_map->process[i]);
  atomic_store(&tr_regions->alive, i < 0 ? GONE : (uint64_t)i + 2);
}

/*
 * The child's main thread has its parent's writers. Awake, it is the first to come here; a child that forked asleep may have made threads by then, one of
 * which is first: its parent's numbers are not given again, so that the main thread finds no number in its writer and takes another.
 */
static void forget_parent(void)
{
  uint32_t used = atomic_load(&tr_streams_->used);
  for (uint32_t id = 1; id <= used && id <= MTR_MAX_STREAM; id++) memset(&tr_streams_->writer[id], 0, sizeof(tr_writer));
  if (syscall(SYS_gettid) == syscall(SYS_getpid)) atomic_store(&tr_streams_->used, 0);
  atomic_store(&tr_streams_->idle, 0);
  tr_self.writer = tr_self.nested = NULL;
  tr_self.thread = 0;
}

int tr_here(void)
{
  uint64_t alive = atomic_load(&tr_regions->alive);
  if (__builtin_expect(alive == 0, 0)) {
    if (atomic_compare_exchange_strong(&tr_regions->alive, &alive, ARRIVING)) {
      forget_parent();
      arrive(began_as != (uint32_t)syscall(SYS_getpid));
    }
  }
  while ((alive = atomic_load(&tr_regions->alive)) == ARRIVING) {
    struct timespec a_bit = { 0, 100000 };
    syscall(SYS_nanosleep, &a_bit, NULL);
  }
  return alive != GONE;
}

/* ---- the mapping ---- */

static int take_value(const char *setting, const char *name, char *into, size_t room)
{
  size_t n = strlen(name);
  if (strncmp(setting, name, n) != 0 || setting[n] != '=' || strlen(setting + n + 1) >= room) return 0;
  strcpy(into, setting + n + 1);
  return 1;
}

static void find_environment(void)
{
  static char text[65536];
  if (environ) {
    for (char **e = environ; *e; e++) take_value(*e, TR_ENV, tr_mapping, sizeof tr_mapping);
  } else { /* called before libc's own start */
    long n = read_file("/proc/self/environ", text, sizeof text - 1);
    for (long i = 0; i < n; i += (long)strlen(text + i) + 1) take_value(text + i, TR_ENV, tr_mapping, sizeof tr_mapping);
  }
}

/* TR_ENV holds the mapping's path, a colon, this library's path. */
static int split_setting(void)
{
  char *colon = strchr(tr_mapping, ':');
  if (!colon) return 0;
  *colon = 0;
  strcpy(tr_library, colon + 1);
  return 1;
}

static void *map_private(size_t bytes)
{
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static tr_shared *map_shared(void)
{
  struct stat info;
  int fd = (int)syscall(SYS_openat, AT_FDCWD, tr_mapping, O_RDWR | O_CLOEXEC);
  if (fd < 0) return NULL;
  void *p = MAP_FAILED;
  if (fstat(fd, &info) == 0 && (size_t)info.st_size >= sizeof(tr_shared))
    p = mmap(NULL, sizeof(tr_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  tr_shared *map = p == MAP_FAILED ? NULL : p;
  if (map && (memcmp(map->magic, MTR_MAGIC, 8) != 0 || map->version != TR_VERSION)) {
    munmap(map, sizeof *map);
    map = NULL;
  }
  return map;
}

static void name_sleeper(uint32_t id)
{
  char digits[12], *d = digits + sizeof digits - 1;
  *d = 0;
  do *--d = (char)('0' + id % 10); while ((id /= 10) != 0);
  strcpy(tr_mapping, TR_SLEEPERS);
  strcat(tr_mapping, d);
}

/* Asleep: a mapping of our own, which takes no more than a page until a launcher makes chunks usable. Its path is what children get. */
static tr_shared *make_sleeper(void)
{
  struct timespec t;
  name_sleeper(own_id());
  syscall(SYS_unlinkat, AT_FDCWD, tr_mapping, 0); /* of one long gone that had this number */
  int fd = (int)syscall(SYS_openat, AT_FDCWD, tr_mapping, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return NULL;
  void *p = MAP_FAILED;
  if (syscall(SYS_ftruncate, fd, sizeof(tr_shared)) == 0) p = mmap(NULL, sizeof(tr_shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  syscall(SYS_close, fd);
  if (p == MAP_FAILED) {
    syscall(SYS_unlinkat, AT_FDCWD, tr_mapping, 0);
    return NULL;
  }
  tr_shared *map = p;
  clock_gettime(CLOCK_MONOTONIC, &t);
  map->version = TR_VERSION;
  map->asleep = 1;
  map->began_us = (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
  atomic_store(&map->clock, TR_STOPPED);
  memcpy(map->magic, MTR_MAGIC, 8);
  made_here = 1;
  return map;
}

static void note_fork(void) { tr_passed_on = 1; }

static tr_shared *find_mapping(void)
{
  find_environment();
  if (!split_setting()) return NULL;
  return strcmp(tr_mapping, TR_ASLEEP) == 0 ? make_sleeper() : map_shared();
}

void tr_attach(void)
{
  int saved = errno;
  tr_shared *map = find_mapping();
  tr_table *regions = map ? map_private(sizeof(tr_table)) : NULL;
  tr_streams *streams = map ? map_private(sizeof(tr_streams)) : NULL;
  if (map && regions && streams && madvise(regions, sizeof *regions, MADV_WIPEONFORK) == 0 && pthread_key_create(&tr_key, tr_leave) == 0) {
    tr_regions = regions;
    tr_streams_ = streams;
    tr_map = map;
    began_as = (uint32_t)syscall(SYS_getpid);
    if (made_here) pthread_atfork(NULL, note_fork, NULL);
    if (!map->asleep) {
      atomic_store(&tr_regions->alive, ARRIVING);
      arrive(0);
    }
    atomic_store(&tr_clock, &map->clock);
  }
  errno = saved;
}

/* Programs shorter than the launcher's sampling: their memory, as they end in order. */
static void note_memory(void)
{
  static char text[8192];
  if (tr_idle() || !tr_here()) return;
  long n = read_file("/proc/self/status", text, sizeof text - 1);
  if (n <= 0) return;
  text[n] = 0;
  char *line = strstr(text, "RssAnon:");
  if (!line) return;
  uint64_t kilobytes = 0;
  for (line += 8; *line == ' ' || *line == '\t'; line++) { }
  for (; *line >= '0' && *line <= '9'; line++) kilobytes = kilobytes * 10 + (uint64_t)(*line - '0');
  atomic_store(&tr_map->process[tr_slot()].anonymous, kilobytes * 1024);
}

/* The mapping that this process made goes with it, unless others may still sleep in it: then `mare lab attach` removes it when nobody does. */
static void remove_sleeper(void)
{
  if (made_here && !tr_passed_on && began_as == (uint32_t)syscall(SYS_getpid)) syscall(SYS_unlinkat, AT_FDCWD, tr_mapping, 0);
}

__attribute__((destructor)) static void end_in_order(void)
{
  if (!tr_map || tr_confined) return;
  note_memory();
  remove_sleeper();
}
