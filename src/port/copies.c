/* copies: see copies.h. */
#define _GNU_SOURCE
#include "port/copies.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

void *port_shared_new(size_t size) {
  void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? NULL : p;
}

static void end_with_parent(void) {
#ifdef __linux__
  prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
}

static int whole(ssize_t (*io)(int, void *, size_t), int fd, void *p, size_t n) {
  ssize_t got;
  do got = io(fd, p, n);
  while (got < 0 && errno == EINTR);
  return got == (ssize_t)n;
}

static ssize_t put(int fd, void *p, size_t n) { return write(fd, p, n); }

/* ---- the server ---- */

static void become_copy(const port_copies *c, char keep) {
  int nowhere = open("/dev/null", O_RDWR);
  int out = keep ? c->out : nowhere;
  end_with_parent();
  dup2(nowhere, 0);
  if (keep && (ftruncate(out, 0) != 0 || lseek(out, 0, SEEK_SET) != 0)) _exit(127);
  dup2(out, 1);
  dup2(out, 2);
  if (nowhere > 2) close(nowhere);
  close(c->ask);
  close(c->answer);
}

static void serve(const port_copies *c, void (*fn)(void *arg), void *arg) {
  char keep;
  end_with_parent();
  signal(SIGQUIT, SIG_IGN);            /* at a terminal all get it; copies take it, once they have started */
  while (whole(read, c->ask, &keep, 1)) {
    port_copy_end end = { 0, 127 };
    int status, pid = fork();
    if (pid == 0) {
      become_copy(c, keep);
      fn(arg);
      _exit(127);
    }
    *c->pid = pid;
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
      if (errno != EINTR) break;
    *c->pid = 0;
    if (pid > 0 && WIFSIGNALED(status)) end.signal = WTERMSIG(status);
    else if (pid > 0) end.code = WEXITSTATUS(status);
    if (!whole(put, c->answer, &end, sizeof end)) break;
  }
  _exit(0);
}

int port_copies_open(port_copies *c, void (*fn)(void *arg), void *arg) {
  int ask[2], answer[2], parent = (int)getpid();
  if (!(c->pid = port_shared_new(sizeof *c->pid))) return ENOMEM;
#ifdef MFD_CLOEXEC
  c->out = memfd_create("output", MFD_CLOEXEC);
#else
  c->out = -1;
#endif
  if (c->out < 0 || pipe2(ask, O_CLOEXEC) != 0) return errno;
  if (pipe2(answer, O_CLOEXEC) != 0) {
    close(ask[0]);
    close(ask[1]);
    return errno;
  }
  int pid = fork();
  c->ask = pid ? ask[1] : ask[0];
  c->answer = pid ? answer[0] : answer[1];
  close(ask[pid ? 0 : 1]);
  close(answer[pid ? 1 : 0]);
  if (pid == 0 && getppid() == parent) serve(c, fn, arg);
  if (pid == 0) _exit(0);
  return pid < 0 ? errno : 0;
}

/* ---- who asks ---- */

int port_copies_run(port_copies *c, int keep) {
  char how = (char)keep;
  return whole(put, c->ask, &how, 1) ? 0 : EPIPE;
}

int port_copies_wait(port_copies *c, int n, int milliseconds, port_copy_end *end) {
  struct pollfd p[64];
  if (n > 64) n = 64;
  for (int i = 0; i < n; i++) p[i] = (struct pollfd){ .fd = c[i].answer, .events = POLLIN };
  if (poll(p, (nfds_t)n, milliseconds) <= 0) return -1;
  for (int i = 0; i < n; i++)
    if (p[i].revents) return whole(read, p[i].fd, end, sizeof *end) ? i : -2;
  return -1;
}

void port_copies_kill(port_copies *c) {
  int pid = *c->pid;
  if (pid > 0) kill(pid, SIGKILL);
}

void port_copies_quit(port_copies *c) {
  int pid = *c->pid;
  if (pid > 0) kill(pid, SIGQUIT);
}

uint64_t port_copies_cpu(port_copies *c) {
  struct timespec ts;
  clockid_t clock;
  int pid = *c->pid;
  if (pid <= 0 || clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ts) != 0) return 0;
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

char *port_copies_output(port_copies *c, size_t *len) {
  off_t size = lseek(c->out, 0, SEEK_END);
  *len = size > 0 ? (size_t)size : 0;
  char *text = malloc(*len + 1);
  for (size_t at = 0; text && at < *len;) {
    ssize_t got = pread(c->out, text + at, *len - at, (off_t)at);
    if (got <= 0) *len = at;
    else at += (size_t)got;
  }
  return text;
}

/* ---- aside ---- */

static atomic_int aside;

int port_is_aside(void) { return atomic_load(&aside); }

/* What it finds may be in the middle of a change: that is the end of it, and of nothing else. */
static void go_aside(void (*fn)(void *arg), void *arg, unsigned seconds) {
  static const int ends[] = { SIGALRM, SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };
  struct rlimit none = { 0, 0 };
  sigset_t mask;
  end_with_parent();
  sigemptyset(&mask);
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
    signal(ends[i], SIG_DFL);
    sigaddset(&mask, ends[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &mask, NULL);
  setrlimit(RLIMIT_CORE, &none);
  alarm(seconds);
  fn(arg);
  _exit(0);
}

int port_aside(void (*fn)(void *arg), void *arg, unsigned seconds) {
  int status = 0, got;
  atomic_store(&aside, 1);
  int pid = fork(), err = errno;
  if (pid == 0) go_aside(fn, arg, seconds);
  atomic_store(&aside, 0);
  if (pid < 0) return err;
  do got = waitpid(pid, &status, 0);
  while (got < 0 && errno == EINTR);
  return got < 0 || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? 0 : EINTR;   /* who ignores SIGCHLD is told nothing */
}
