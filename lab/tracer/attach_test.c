/*
 * A traced program must not notice that the system refuses the tracer something: in one child after another the n-th of the calls by which it
 * attaches fails, or all from the n-th on; then the child records, forks, and the fork records. Whoever could not attach is just not traced. Under
 * AddressSanitizer and UBSan. The calls are replaced by the linker (--wrap).
 */
#define _GNU_SOURCE
#include "attach.h"
#include "launcher.h"
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); exit(1); } } while (0)

enum { EVENTS = 3000, ALL_WENT_WELL = 7 };

static int calls, failing, from_then_on; /* the number of the call that fails; 0: none does */

static int fails(int error)
{
  calls++;
  if (failing == 0 || (from_then_on ? calls < failing : calls != failing)) return 0;
  errno = error;
  return 1;
}

static void begin_to_fail(int n)
{
  calls = 0;
  failing = n;
}

static int outcome(int n) { return calls >= n ? 0 : ALL_WENT_WELL; }

/* The linker's names for what is replaced. */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
int __real_madvise(void *at, size_t bytes, int advice);
int __real_fstat(int fd, struct stat *info);
int __real_pthread_key_create(pthread_key_t *key, void (*destroy)(void *));
long __real_syscall(long number, ...);

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
  return fails(ENOMEM) ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
}
int __wrap_madvise(void *at, size_t bytes, int advice) { return fails(EINVAL) ? -1 : __real_madvise(at, bytes, advice); }
int __wrap_fstat(int fd, struct stat *info) { return fails(EIO) ? -1 : __real_fstat(fd, info); }
int __wrap_pthread_key_create(pthread_key_t *key, void (*destroy)(void *)) { return fails(EAGAIN) ? EAGAIN : __real_pthread_key_create(key, destroy); }

long __wrap_syscall(long number, ...)
{
  long a[5];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 5; i++) a[i] = va_arg(list, long);
  va_end(list);
  int may = number == SYS_openat || number == SYS_ftruncate || number == SYS_read || number == SYS_readlinkat;
  return may && fails(number == SYS_openat ? EMFILE : EIO) ? -1 : __real_syscall(number, a[0], a[1], a[2], a[3], a[4]);
}

static void record(void)
{
  for (uint64_t i = 0; i < EVENTS; i++) {
    tr_record(MTR_MALLOC, 0x7f0000000000 + i * 4096, i % 3 ? 40 : 1 << 20);
    tr_record(MTR_FREE, i % 10 ? 0x7f0000000000 + i * 4096 : 0, 0);
  }
}

static int wait_for(pid_t pid)
{
  int status;
  CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == ALL_WENT_WELL);
  return WEXITSTATUS(status);
}

/* Both kinds of process end with ALL_WENT_WELL when the call that was to fail never came. */
static _Noreturn void attach_while_refused(int n)
{
  begin_to_fail(n);
  tr_attach();
  int status = outcome(n);
  begin_to_fail(0);
  record();
  pid_t fork_of_it = fork();
  if (fork_of_it == 0) {
    record();
    _exit(0);
  }
  CHECK(wait_for(fork_of_it) == 0);
  _exit(status);
}

static _Noreturn void fork_while_refused(int n)
{
  tr_attach();
  CHECK(tr_map != NULL);
  record();
  pid_t fork_of_it = fork();
  if (fork_of_it == 0) {
    begin_to_fail(n);
    record();
    _exit(outcome(n));
  }
  int status = wait_for(fork_of_it);
  record();
  _exit(status);
}

/* How many calls could fail, and one. */
static int try_all(trace *t, void (*what)(int))
{
  int n = 1;
  for (int status = 0; status != ALL_WENT_WELL; n++) {
    CHECK(n < 100);
    pid_t child = fork();
    if (child == 0) what(n);
    status = wait_for(child);
    see_processes(t);
    drain(t);
  }
  return n - 1;
}

/* The same for one that is started asleep; what its children leave in /dev/shm is removed, as none of them ends in order. */
static _Noreturn void sleep_while_refused(int n)
{
  begin_to_fail(n);
  tr_attach();
  int status = outcome(n);
  begin_to_fail(0);
  if (tr_map) CHECK(tr_idle() && strncmp(tr_mapping, TR_SLEEPERS, strlen(TR_SLEEPERS)) == 0);
  record();
  if (tr_map) unlink(tr_mapping);
  else if (tr_mapping[0] == '/') CHECK(access(tr_mapping, F_OK) != 0 || unlink(tr_mapping) == 0);
  _exit(status);
}

static void try_asleep(trace *t)
{
  setenv(TR_ENV, TR_ASLEEP ":none", 1);
  for (from_then_on = 0; from_then_on < 2; from_then_on++) CHECK(try_all(t, sleep_while_refused) > 6); /* open, ftruncate, three maps, madvise, a key, the link */
}

int main(void)
{
  char folder[] = "mare-attach-test-XXXXXX", command[128], setting[256], *words[] = { "test", NULL };
  options o = { .library = "none", .limit = UINT64_C(1) << 30, .command = words };
  static trace t;
  o.folder = mkdtemp(folder);
  t.o = &o;
  CHECK(o.folder && make_mapping(&t));
  atomic_store(&t.map->clock, 1);
  snprintf(setting, sizeof setting, "%s:none", t.path);
  setenv(TR_ENV, setting, 1);
  for (from_then_on = 0; from_then_on < 2; from_then_on++) {
    CHECK(try_all(&t, attach_while_refused) > 8); /* open, fstat, three maps, madvise, a key, the link, the command line */
    CHECK(try_all(&t, fork_while_refused) > 3);
  }
  try_asleep(&t);
  finish_all(&t);
  CHECK(t.count > 10 && t.events > 10 * EVENTS);
  drop_mapping(&t);
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}
