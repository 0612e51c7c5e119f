/*
 * child: see child.h. posix_spawn shares our memory with the child until it runs its program, so starting one costs the same
 * however much memory we have.
 *
 * The end of a child is known from a pidfd in an epoll set, so there is no SIGCHLD handler that a host program could miss or overwrite.
 * Where there are no pidfds (Linux before 5.3, other systems) a thread of its own waits for each child.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "port/child.h"
#include "port/port.h"
#include "port/system.h"

#if defined(__linux__)
#include <sys/epoll.h>
#include <sys/syscall.h>
#endif

extern char **environ;

/* ---- starting ---- */

static size_t name_length(const char *s) { return strcspn(s, "="); }

static int same_name(const char *a, const char *b) {
  size_t n = name_length(a);
  return n == name_length(b) && memcmp(a, b, n) == 0;
}

/* Ours with the changes; malloc'd, the strings are not. NULL: no memory. */
static char **environment(char **changes) {
  size_t n = 0, m = 0, k = 0;
  while (environ && environ[n]) n++;
  while (changes[m]) m++;
  char **env = malloc((n + m + 1) * sizeof *env);
  if (!env) return NULL;
  for (size_t i = 0; i < n; i++) {
    size_t j = 0;
    while (j < m && !same_name(environ[i], changes[j])) j++;
    if (j == m) env[k++] = environ[i];
  }
  for (size_t j = 0; j < m; j++)
    if (changes[j][name_length(changes[j])]) env[k++] = changes[j];
  env[k] = NULL;
  return env;
}

static int set_file(posix_spawn_file_actions_t *fa, const port_program *c, int i) {
  switch (c->fd[i]) {
    case PORT_CHILD_INHERIT: return 0;
    case PORT_CHILD_NULL: return posix_spawn_file_actions_addopen(fa, i, "/dev/null", i == 0 ? O_RDONLY : O_WRONLY, 0);
    case PORT_CHILD_OUT: return posix_spawn_file_actions_adddup2(fa, 1, i);
    default: return posix_spawn_file_actions_adddup2(fa, c->fd[i], i);
  }
}

static int set_actions(posix_spawn_file_actions_t *fa, const port_program *c) {
  int err = 0;
  for (int i = 0; i < 3 && !err; i++) err = set_file(fa, c, i);
#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
  if (!err) err = posix_spawn_file_actions_addclosefrom_np(fa, 3);
#endif
#endif
  if (!err && c->cwd) err = posix_spawn_file_actions_addchdir_np(fa, c->cwd);
  return err;
}

/* The signals' mask that this program began with; flags: others' own. */
static int set_attributes(posix_spawnattr_t *a, int flags) {
  port_sigmask original;
  sigset_t mask;
  port_signals_original(&original);
  memcpy(&mask, original.bits, sizeof mask);
  int err = posix_spawnattr_setflags(a, (short)(flags | POSIX_SPAWN_SETSIGMASK));
  return err ? err : posix_spawnattr_setsigmask(a, &mask);
}

/* posix_spawn does not say whether the folder or the program is missing. */
static int blame(const port_program *c, int err) {
  struct stat st;
  if (!c->cwd || (err != ENOENT && err != ENOTDIR)) return err;
  if (stat(c->cwd, &st) != 0 || !S_ISDIR(st.st_mode)) return ENOTDIR;
  return err == ENOTDIR ? ENOENT : err;
}

int port_child_spawn(const port_program *c, int *pid) {
  posix_spawn_file_actions_t fa;
  posix_spawnattr_t attr;
  pid_t p;
  mr_assert_unlocked();
  char **env = c->changes ? environment(c->changes) : environ;
  if (c->changes && !env) return ENOMEM;
  int err = posix_spawn_file_actions_init(&fa);
  if (!err && (err = posix_spawnattr_init(&attr)) != 0) posix_spawn_file_actions_destroy(&fa);
  if (!err) {
    err = set_actions(&fa, c);
    if (!err) err = set_attributes(&attr, POSIX_SPAWN_SETPGROUP);   /* of its own: 0 is the default */
    if (!err && (err = posix_spawnp(&p, c->argv[0], &fa, &attr, c->argv, env)) == 0) *pid = (int)p;
    posix_spawn_file_actions_destroy(&fa);
    posix_spawnattr_destroy(&attr);
  }
  if (c->changes) free(env);
  return err ? blame(c, err) : 0;
}

/*
 * Not by system(), which has the whole program ignore SIGINT and SIGQUIT until the command has ended: what concerns the other processes would be lost.
 * The command is in our process group, so it gets what is typed at the terminal, too.
 */
int port_command(const char *cmd) {
  char *argv[] = { (char[]){ "sh" }, (char[]){ "-c" }, (char *)(uintptr_t)cmd, NULL };
  posix_spawnattr_t attr;
  pid_t pid;
  int status;
  if (!cmd) return access("/bin/sh", X_OK) == 0;
  if ((errno = posix_spawnattr_init(&attr)) != 0) return -1;
  int err = set_attributes(&attr, 0);
  if (!err) err = posix_spawn(&pid, "/bin/sh", NULL, &attr, argv, environ);
  posix_spawnattr_destroy(&attr);
  if ((errno = err) != 0) return -1;
  while (waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return status;
}

int port_child_kill(int pid, int signal, int group) { return kill(group ? -pid : pid, signal) == 0 ? 0 : errno; }

int port_child_reap(int pid, int *code, int *signal) {
  siginfo_t info;
  int r;
  memset(&info, 0, sizeof info);
  do r = waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG); while (r != 0 && errno == EINTR);
  *code = *signal = -1;
  if (r != 0) return 0;                          /* the program ignores SIGCHLD, or has reaped it itself */
  if (info.si_pid == 0) return EAGAIN;
  if (info.si_code == CLD_EXITED) *code = info.si_status;
  else *signal = info.si_status;
  return 0;
}

/* ---- being told of ends ---- */

static void (*ended)(void *tag);

typedef struct waited { int pid; void *tag; } waited;

static void wait_for_one(void *arg) {
  waited w = *(waited *)arg;
  siginfo_t info;
  free(arg);
  while (waitid(P_PID, (id_t)w.pid, &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) { }
  ended(w.tag);
}

static int add_thread(int pid, void *tag) {
  waited *w = malloc(sizeof *w);
  if (!w) return ENOMEM;
  w->pid = pid;
  w->tag = tag;
  int err = port_thread_start(wait_for_one, w, "mare-child");
  if (err) free(w);
  return err;
}

#if defined(__linux__)

static int set = -1;

int port_children_open(void (*fn)(void *tag), int *fd) {
  ended = fn;
  set = epoll_create1(EPOLL_CLOEXEC);
  *fd = set;
  return set < 0 ? errno : 0;
}

/* The tag carries the pidfd's number in a block of its own: both are needed when it is ready. */
typedef struct member { int pidfd; void *tag; } member;

int port_children_add(int pid, void *tag) {
  member *m = malloc(sizeof *m);
  if (!m) return ENOMEM;
  m->tag = tag;
  m->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);           /* closed on exec */
  struct epoll_event ev = { .events = EPOLLIN | EPOLLONESHOT, .data.ptr = m };
  if (m->pidfd >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, m->pidfd, &ev) == 0) return 0;
  if (m->pidfd >= 0) close(m->pidfd);
  free(m);
  return add_thread(pid, tag);
}

void port_children_ready(void) {
  struct epoll_event ev[32];
  int n = epoll_wait(set, ev, 32, 0);
  for (int i = 0; i < n; i++) {
    member *m = ev[i].data.ptr;
    void *tag = m->tag;
    close(m->pidfd);                                         /* out of the set with it: there is no copy */
    free(m);
    ended(tag);
  }
}

#else

int port_children_open(void (*fn)(void *tag), int *fd) {
  ended = fn;
  *fd = -1;
  return 0;
}
int port_children_add(int pid, void *tag) { return add_thread(pid, tag); }
void port_children_ready(void) { }

#endif

/* ---- pipes ---- */

/* So that a child's 0, 1, 2 can be set one after the other. */
static int above(int *fd) {
  if (*fd > 2) return 0;
  int n = fcntl(*fd, F_DUPFD_CLOEXEC, 3), err = errno;
  close(*fd);
  *fd = n;
  return n < 0 ? err : 0;
}

int port_pipe(int fd[2]) {
  if (pipe2(fd, O_CLOEXEC) != 0) return errno;
  for (int i = 0; i < 2; i++) {
    int err = above(&fd[i]);
    if (!err) continue;
    close(fd[1 - i]);
    return err;
  }
  return 0;
}

int port_pipe_nonblock(int fd) {
  int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : errno;
}

void port_pipe_end(int fd) { close(fd); }

long port_pipe_read(int fd, void *p, size_t n) {
  ssize_t r;
  do r = read(fd, p, n); while (r < 0 && errno == EINTR);
  return r < 0 ? -errno : (long)r;
}

static long write_blocked(int fd, const void *p, size_t n) {
  ssize_t r;
  do r = write(fd, p, n); while (r < 0 && errno == EINTR);
  return r < 0 ? -errno : (long)r;
}

long port_pipe_write(int fd, const void *p, size_t n) {
  port_pipe_hold hold;
  port_signals_hold_pipe(&hold);
  long r = write_blocked(fd, p, n);
  port_signals_drop_pipe(&hold, r == -EPIPE);
  return r;
}
