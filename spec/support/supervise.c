/*
 * supervise: runs one command as the leader of its own process group, and never waits for it longer than the limit.
 *
 *   supervise [-t SECONDS] [-b] [-T] [-i FILE] [-o FILE] [-e FILE] [-r FILE] [-s WHEN:SIGNAL]... -- COMMAND [ARGUMENT...]
 *
 *   -t  limit in seconds (60); at the limit the whole group is killed and the exit code is 124
 *   -b  at the limit, first write to stderr where the command's threads are (if gdb is there)
 *   -i  -o  -e  its stdin, stdout, stderr (else ours)
 *   -s  sends SIGNAL (a number) to the command alone once WHEN holds: "+0.5" = seconds after the previous -s was done (or
 *       the start), any other text = it stands in the file of -o. Several are done in turn, each when the command has got the one before:
 *       of two that are pending the system would deliver one.
 *   -r  writes one line: KIND NUMBER WALL USER SYSTEM KIB LEFT, where KIND is exit, signal or timeout, times are seconds,
 *       KIB the greatest resident size, and LEFT 1 if processes of the group outlived the command (they are killed)
 *
 *   -T  the command gets an empty temporary folder of its own (TMPDIR), removed at the end; what is left in there is named, and a failure
 *
 * Without -r the exit code is the command's, or 128 + the signal that ended it.
 * The command starts with default signal dispositions and nothing blocked. Orphans of it become our children, so nothing that it
 * started outlives us, whatever group it moved to; a supervise among them is killed with what it runs.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_STEPS = 16 };
struct step { const char *when; int sig; };

static struct {
  double limit;
  int backtrace, folder, nsteps;
  const char *in, *out, *err, *result;
  struct step steps[MAX_STEPS];
} opt = { .limit = 60 };

static volatile sig_atomic_t told_to_end;
static void on_end(int sig) { told_to_end = sig; }

static void die(const char *what) {
  fprintf(stderr, "supervise: %s: %s\n", what, strerror(errno));
  exit(125);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void redirect(const char *path, int flags, int to) {
  if (!path) return;
  int fd = open(path, flags, 0666);
  if (fd < 0 || dup2(fd, to) < 0) die(path);
  close(fd);
}

static pid_t start(char **argv) {
  pid_t pid = fork();
  if (pid < 0) die("fork");
  if (pid > 0) { setpgid(pid, pid); return pid; }
  setpgid(0, 0);
  for (int sig = 1; sig < 32; sig++) signal(sig, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  redirect(opt.in, O_RDONLY, 0);
  redirect(opt.out, O_WRONLY | O_CREAT | O_TRUNC, 1);
  redirect(opt.err, O_WRONLY | O_CREAT | O_TRUNC, 2);
  execvp(argv[0], argv);
  fprintf(stderr, "supervise: %s: %s\n", argv[0], strerror(errno));
  _exit(127);
}

static int output_has(const char *text) {
  FILE *f = opt.out ? fopen(opt.out, "rb") : NULL;
  if (!f) return 0;
  static char buffer[1 << 16];
  size_t n = fread(buffer, 1, sizeof buffer, f);
  fclose(f);
  return memmem(buffer, n, text, strlen(text)) != NULL;
}

/* Has the command been sent this signal, but not got it? */
static int pending(pid_t pid, int sig) {
  char path[64], line[256];
  unsigned long long mask = 0;
  snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "ShdPnd: %llx", &mask) == 1) break;
  if (f) fclose(f);
  return (int)(mask >> (sig - 1) & 1);
}

/* Is it time for the step? since = when the previous one was done. */
static int step_due(const struct step *s, double since, pid_t pid) {
  if (pending(pid, s->sig)) return 0;
  if (s->when[0] == '+') return now() - since >= atof(s->when + 1);
  return output_has(s->when);
}

static void backtrace(pid_t pid) {
  fprintf(stderr, "\nsupervise: still running after %g s; its threads:\n", opt.limit);
  fflush(stderr);
  pid_t gdb = fork();
  if (gdb == 0) {
    char number[32];
    snprintf(number, sizeof number, "%ld", (long)pid);
    dup2(2, 1);
    execlp("timeout", "timeout", "20", "gdb", "-q", "-batch", "-nx", "-ex", "set pagination off", "-ex", "thread apply all bt 30",
           "-p", number, (char *)NULL);
    _exit(127);
  }
  if (gdb > 0) waitpid(gdb, NULL, 0);
}

/* Waits for the command; 1 = the limit came first (it is killed then). */
static int attend(pid_t pid, int *status, struct rusage *use) {
  double begun = now(), since = begun;
  int done = 0;
  long pause = 200000; /* ns; grows, so that short commands are quick and long ones cost nothing */
  for (;;) {
    pid_t got = wait4(pid, status, WNOHANG, use);
    if (got == pid) return 0;
    if (done < opt.nsteps && step_due(&opt.steps[done], since, pid)) {
      kill(pid, opt.steps[done++].sig);
      since = now();
      pause = 200000;
    }
    if (told_to_end) kill(-pid, SIGKILL);
    if (now() - begun >= opt.limit) {
      if (opt.backtrace) backtrace(pid);
      kill(-pid, SIGKILL);
      wait4(pid, status, 0, use);
      return 1;
    }
    struct timespec t = { 0, pause };
    nanosleep(&t, NULL);
    if (pause < 10000000) pause += pause / 4;
  }
}

/* The number of a child that still lives, or 0. */
static pid_t any_child(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  FILE *f = fopen(path, "r");
  if (!f) return 0;
  long pid = 0;
  if (fscanf(f, "%ld", &pid) != 1) pid = 0;
  fclose(f);
  return (pid_t)pid;
}

/* Kills whatever outlived the command; 1 = there was something. */
static int sweep(pid_t group) {
  while (waitpid(-1, NULL, WNOHANG) > 0) {}
  int left = kill(-group, SIGKILL) == 0;
  for (pid_t pid; (pid = any_child()) != 0;) {
    left = 1;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
  }
  return left;
}

static char folder[4096];

static void make_folder(void) {
  const char *in = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/supervise_XXXXXX", in && *in ? in : "/tmp");
  if (!mkdtemp(folder)) die(folder);
  setenv("TMPDIR", folder, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at) {
  (void)st;
  (void)type;
  if (at->level == 1) fprintf(stderr, "supervise: left in the temporary folder: %s\n", path + at->base);
  return remove(path);
}

/* 1 = the command has left something. */
static int remove_folder(void) {
  if (rmdir(folder) == 0) return 0;
  nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return 1;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static int report(int late, int status, double wall, const struct rusage *use, int left) {
  const char *kind = late ? "timeout" : WIFSIGNALED(status) ? "signal" : "exit";
  int number = late ? 0 : WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  FILE *f = fopen(opt.result, "w");
  if (!f) die(opt.result);
  fprintf(f, "%s %d %.6f %.6f %.6f %ld %d\n", kind, number, wall, seconds(use->ru_utime), seconds(use->ru_stime), use->ru_maxrss, left);
  return fclose(f) != 0;
}

static void parse_step(char *text) {
  char *colon = strrchr(text, ':');
  if (!colon || opt.nsteps == MAX_STEPS) { errno = EINVAL; die("-s"); }
  *colon = 0;
  opt.steps[opt.nsteps++] = (struct step){ text, atoi(colon + 1) };
}

int main(int argc, char **argv) {
  int c;
  while ((c = getopt(argc, argv, "+t:bTi:o:e:r:s:")) != -1) {
    switch (c) {
      case 't': opt.limit = atof(optarg); break;
      case 'b': opt.backtrace = 1; break;
      case 'T': opt.folder = 1; break;
      case 'i': opt.in = optarg; break;
      case 'o': opt.out = optarg; break;
      case 'e': opt.err = optarg; break;
      case 'r': opt.result = optarg; break;
      case 's': parse_step(optarg); break;
      default: return 125;
    }
  }
  if (optind >= argc) { errno = EINVAL; die("no command"); }
  signal(SIGTERM, on_end);
  signal(SIGINT, on_end);
  int status = 0;
  struct rusage use;
  memset(&use, 0, sizeof use);
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  double begun = now();
  if (opt.folder) make_folder();
  pid_t pid = start(argv + optind);
  int late = attend(pid, &status, &use);
  double wall = now() - begun;
  int left = sweep(pid), litter = opt.folder && remove_folder();
  if (opt.result) return report(late, status, wall, &use, left);
  if (late) { fprintf(stderr, "supervise: killed after %g s\n", opt.limit); return 124; }
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status) ? WEXITSTATUS(status) : litter;
  fprintf(stderr, "supervise: ended by signal %d\n", WTERMSIG(status));
  return 128 + WTERMSIG(status);
}
