/*
 * thread: kernel threads, the preemption signal, and how many CPUs this program may use.
 *
 * Threads block every signal but the preemption signal and faults, so that a program's own handlers run where it expects them:
 * on threads that are not mare's. Children must not inherit that mask; see signals.c.
 */
#define _GNU_SOURCE
#include "port/door.h"
#include "port/port.h"
#include "port/virtual.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void port_at_fork(void (*child)(void)) { pthread_atfork(NULL, NULL, child); }

static pthread_key_t at_end;
static int at_end_error;
static void call_at_end(void *fn) { ((void (*)(void))(uintptr_t)fn)(); }
static void make_at_end(void) { at_end_error = pthread_key_create(&at_end, call_at_end); }

int port_thread_at_end(void (*fn)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_at_end);
  return at_end_error ? at_end_error : pthread_setspecific(at_end, (void *)(uintptr_t)fn);
}

int port_kick_signal(void) {
  static atomic_int number;
  int n = atomic_load_explicit(&number, memory_order_relaxed);
  if (n == 0) {
    const char *given = getenv("MARE_SIGNAL");
    n = given ? atoi(given) : 0;
    if (n <= 0 || n > SIGRTMAX || n == SIGKILL || n == SIGSTOP) n = SIGURG;
    atomic_store_explicit(&number, n, memory_order_relaxed);
  }
  return n;
}

typedef struct { void (*fn)(void *); void *arg; char name[16]; } start_info;

static port_event begun;                        /* in a virtual world: the new thread uses malloc no more before it is told to */

static void *start_thread(void *p) {
  start_info s = *(start_info *)p;
  free(p);
  pthread_setname_np(pthread_self(), s.name);
  if (PORT_UNLIKELY(port_is_virtual())) port_event_set(&begun);
  s.fn(s.arg);
  return NULL;
}

/* In a virtual world: at an address that is the same in each run. Such a stack stays when its thread ends; there are few. */
static int create(pthread_t *id, start_info *s) {
  size_t size = 8 * 1024 * 1024;
  void *stack = PORT_UNLIKELY(port_is_virtual()) && !PORT_SANITIZED ? port_virtual_place(size, 4096) : NULL;
  pthread_attr_t attr;
  if (!stack || pthread_attr_init(&attr) != 0) return pthread_create(id, NULL, start_thread, s);
  mprotect(stack, 4096, PROT_NONE);
  pthread_attr_setstack(&attr, (char *)stack + 4096, size - 4096);
  int err = pthread_create(id, &attr, start_thread, s);
  pthread_attr_destroy(&attr);
  if (!err) port_event_wait(&begun, UINT64_MAX);
  return err;
}

/* t's fields are its own thread's business (port_thread_self), who may have begun already. */
static int start(pthread_t *id, void (*fn)(void *), void *arg, const char *name) {
  mr_assert_unlocked();
  start_info *s = malloc(sizeof *s);
  if (!s) return ENOMEM;
  s->fn = fn;
  s->arg = arg;
  snprintf(s->name, sizeof s->name, "%s", name);
  sigset_t all, old;
  sigfillset(&all);
  sigdelset(&all, port_kick_signal());
  static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int err = create(id, s);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (err) {
    free(s);
    return err;
  }
  return 0;
}

int port_thread_start(void (*fn)(void *), void *arg, const char *name) {
  pthread_t id;
  int err = start(&id, fn, arg, name);
  if (!err) pthread_detach(id);
  return err;
}

int port_thread_fork(port_thread *t, void (*fn)(void *), void *arg, const char *name) {
  pthread_t id;
  int err = start(&id, fn, arg, name);
  if (!err) t->handle = (uintptr_t)id;
  return err;
}

void port_thread_join(port_thread *t) { pthread_join((pthread_t)t->handle, NULL); }

void port_thread_self(port_thread *t) {
  clockid_t clock;
  t->handle = (uintptr_t)pthread_self();
  atomic_store_explicit(&t->id, (int)syscall(SYS_gettid), memory_order_relaxed);
  if (pthread_getcpuclockid(pthread_self(), &clock) != 0) clock = 0;
  atomic_store_explicit(&t->clock, (uintptr_t)(intptr_t)clock, memory_order_relaxed);
}

uint64_t port_thread_cpu(const port_thread *t) {
  struct timespec ts;
  clockid_t clock = (clockid_t)(intptr_t)atomic_load_explicit(&t->clock, memory_order_relaxed);
  if (!clock || clock_gettime(clock, &ts) != 0) return 0;
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

long port_thread_sleeps(void) {
  struct rusage u;
  return getrusage(RUSAGE_THREAD, &u) == 0 ? u.ru_nvcsw : 0;
}

int port_thread_runnable(const port_thread *t) {
  char path[64], line[128];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load_explicit(&t->id, memory_order_relaxed));
  FILE *f = fopen(path, "re");
  if (!f) return 1;
  size_t n = fread(line, 1, sizeof line - 1, f);
  fclose(f);
  line[n] = 0;
  char *end = strrchr(line, ')');
  return !end || end[1] != ' ' || end[2] == 'R';
}

/* By number, not by handle: a thread that has just ended is an error here, not a crash. */
int port_thread_kick(const port_thread *t) {
  return (int)syscall(SYS_tgkill, getpid(), atomic_load_explicit(&t->id, memory_order_relaxed), port_kick_signal());
}

static void (*kicked)(void);
static void on_kick(int sig, siginfo_t *info, void *context) {
  int saved = errno;
  (void)sig;
  (void)context;
  if (info->si_code != SI_QUEUE || !port_door_is_knock(info->si_value.sival_int)) kicked();
  errno = saved;
}

int port_kick_handler(void (*fn)(void)) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  kicked = fn;
  sa.sa_sigaction = on_kick;
  sa.sa_flags = SA_RESTART | SA_ONSTACK | SA_SIGINFO;
  sigemptyset(&sa.sa_mask);
  return sigaction(port_kick_signal(), &sa, NULL) == 0 ? 0 : errno;
}

/* Quota / period of the control group, rounded up; 0 = none. */
static int cgroup_cpus(void) {
  long long quota = -1, period = 100000;
  char path[512] = "/sys/fs/cgroup/cpu.max", line[512];
  FILE *f = fopen("/proc/self/cgroup", "re");
  if (f) {
    while (fgets(line, sizeof line, f))
      if (strncmp(line, "0::/", 4) == 0) {
        line[strcspn(line, "\n")] = 0;
        if (line[4]) snprintf(path, sizeof path, "/sys/fs/cgroup/%.400s/cpu.max", line + 4);
      }
    fclose(f);
  }
  f = fopen(path, "re");
  if (!f) f = fopen("/sys/fs/cgroup/cpu.max", "re");
  if (f) {
    if (fscanf(f, "%lld %lld", &quota, &period) < 1) quota = -1;
    fclose(f);
  } else if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) != NULL) {
    if (fscanf(f, "%lld", &quota) != 1) quota = -1;
    fclose(f);
    if ((f = fopen("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "re")) != NULL) {
      if (fscanf(f, "%lld", &period) != 1) period = 100000;
      fclose(f);
    }
  }
  if (quota <= 0 || period <= 0) return 0;
  return (int)((quota + period - 1) / period);
}

int port_cpus(void) {
  cpu_set_t set;
  int n = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : (int)sysconf(_SC_NPROCESSORS_ONLN);
  int quota = cgroup_cpus();
  if (quota > 0 && quota < n) n = quota;
  return n < 1 ? 1 : n;
}

int port_cpu(void) { return sched_getcpu(); }

void port_thread_elsewhere(void) {
  cpu_set_t all, others;
  int here = sched_getcpu();
  if (here < 0 || sched_getaffinity(0, sizeof all, &all) != 0 || CPU_COUNT(&all) < 2) return;
  others = all;
  CPU_CLR(here, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) sched_setaffinity(0, sizeof all, &all);
}
