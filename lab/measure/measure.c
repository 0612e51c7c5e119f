/*
 * measure: runs one program once and writes what it used, as one line of JSON.
 *
 * Why a program of its own: the kernel's ru_maxrss starts with the size of the process that forked (a Python of 100 MB hands its own size
 * down), so the one that forks must be small; this one is static and below 1 MiB. It also sees the end of the program without delay, adopts
 * what the program leaves behind, and ends the whole family on a limit.
 *
 * Invariants: SIGCHLD and the ending signals are blocked and only taken by sigtimedwait, so nothing here is asynchronous. The program is the
 * leader of its own process group and gets the signal mask that this one was started with. Descendants without a parent become our
 * children (subreaper): when the program has ended, they are killed and counted. Peak memory is that of the largest process of the family.
 * The result file is written in every case but a mistake in our own arguments (exit code 2).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
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

#define WATCH_NS 50000000L /* how often the limits are looked at; the end of the program is seen at once */

struct plan {
  const char *result, *in, *out, *err;
  cpu_set_t cpus;
  int pinned;
  double seconds;        /* 0: no limit */
  long rss_kib;          /* of the program's first process; 0: no limit */
  long spare_kib;        /* the machine must keep this much available; 0: no limit */
  char **settings;       /* "+NAME=VALUE" or "-NAME", for the program's environment */
  int n_settings;
  char **argv;
};

struct use {
  double user, sys;
  long maxrss, minflt, majflt, nvcsw, nivcsw;
};

struct run {
  pid_t pid;
  double start, wall;
  int status, ended, left_behind;
  const char *killed;    /* "time", "memory", "signal" or NULL */
  int exec_errno;        /* 0: it started */
  struct use use;
};

static void usage(const char *why) {
  fprintf(stderr, "measure: %s\nusage: measure -o RESULT [-i STDIN] [-O STDOUT] [-E STDERR] [-c CPUS] [-t SECONDS] [-m KIB] [-a KIB]\n"
                  "               [-e NAME=VALUE] [-u NAME] -- program [arguments]\n", why);
  exit(2);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* "0,2-3" */
static void parse_cpus(const char *s, cpu_set_t *set) {
  CPU_ZERO(set);
  while (*s) {
    char *end;
    long a = strtol(s, &end, 10), b = a;
    if (end == s) usage("-c wants a list like 0,2-3");
    if (*end == '-') {
      s = end + 1;
      b = strtol(s, &end, 10);
      if (end == s) usage("-c wants a list like 0,2-3");
    }
    if (a < 0 || b < a || b >= CPU_SETSIZE) usage("-c names a CPU that can't be");
    for (long i = a; i <= b; i++) CPU_SET((int)i, set);
    if (*end && *end != ',') usage("-c wants a list like 0,2-3");
    s = *end ? end + 1 : end;
  }
}

static double positive(const char *s, const char *why) {
  char *end;
  double x = strtod(s, &end);
  if (end == s || *end || x < 0) usage(why);
  return x;
}

static void add_setting(struct plan *p, char sign, const char *text) {
  size_t n = strlen(text) + 2;
  char *s = malloc(n);
  p->settings = realloc(p->settings, sizeof *p->settings * (size_t)(p->n_settings + 1));
  if (!s || !p->settings) usage("not enough memory");
  snprintf(s, n, "%c%s", sign, text);
  p->settings[p->n_settings++] = s;
}

static void parse(struct plan *p, int argc, char **argv) {
  int o;
  while ((o = getopt(argc, argv, "+o:i:O:E:c:t:m:a:e:u:")) != -1) {
    switch (o) {
      case 'o': p->result = optarg; break;
      case 'i': p->in = optarg; break;
      case 'O': p->out = optarg; break;
      case 'E': p->err = optarg; break;
      case 'c': parse_cpus(optarg, &p->cpus); p->pinned = 1; break;
      case 't': p->seconds = positive(optarg, "-t wants seconds"); break;
      case 'm': p->rss_kib = (long)positive(optarg, "-m wants KiB"); break;
      case 'a': p->spare_kib = (long)positive(optarg, "-a wants KiB"); break;
      case 'e': if (!strchr(optarg, '=')) usage("-e wants NAME=VALUE");
                add_setting(p, '+', optarg); break;
      case 'u': add_setting(p, '-', optarg); break;
      default: usage("mistake in the options");
    }
  }
  p->argv = argv + optind;
  if (!p->result) usage("-o is missing");
  if (!*p->argv) usage("no program");
}

/* ---- the program's side, between fork and exec ---- */

static void redirect(int fd, const char *path, int flags) {
  int f = open(path ? path : "/dev/null", flags, 0644);
  if (f >= 0 && f != fd) {
    dup2(f, fd);
    close(f);
  }
}

static void become(const struct plan *p, const sigset_t *mask, int report) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  redirect(0, p->in, O_RDONLY);
  redirect(1, p->out, O_WRONLY | O_CREAT | O_TRUNC);
  redirect(2, p->err, O_WRONLY | O_CREAT | O_TRUNC);
  for (int i = 0; i < p->n_settings; i++) {
    if (p->settings[i][0] == '+') putenv(p->settings[i] + 1);
    else unsetenv(p->settings[i] + 1);
  }
  sigprocmask(SIG_SETMASK, mask, NULL);
  if (!p->pinned || sched_setaffinity(0, sizeof p->cpus, &p->cpus) == 0) execvp(p->argv[0], p->argv);
  int e = errno;
  ssize_t n = write(report, &e, sizeof e);
  (void)n;
  _exit(127);
}

/* ---- watching ---- */

static long field_kib(const char *path, const char *name) {
  char line[256];
  long kib = -1;
  FILE *f = fopen(path, "r");
  if (!f) return -1;
  while (kib < 0 && fgets(line, sizeof line, f))
    if (strncmp(line, name, strlen(name)) == 0) kib = atol(line + strlen(name));
  fclose(f);
  return kib;
}

static const char *over_limit(const struct plan *p, const struct run *r) {
  if (p->seconds > 0 && now() - r->start > p->seconds) return "time";
  if (p->rss_kib > 0) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/status", (long)r->pid);
    if (field_kib(path, "VmRSS:") > p->rss_kib) return "memory";
  }
  if (p->spare_kib > 0) {
    long left = field_kib("/proc/meminfo", "MemAvailable:");
    if (left >= 0 && left < p->spare_kib) return "memory";
  }
  return NULL;
}

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

/* The use of a child that was waited for includes all descendants that it had waited for itself. */
static void add_use(struct use *u, const struct rusage *r) {
  u->user += seconds(r->ru_utime);
  u->sys += seconds(r->ru_stime);
  if (r->ru_maxrss > u->maxrss) u->maxrss = r->ru_maxrss;
  u->minflt += r->ru_minflt;
  u->majflt += r->ru_majflt;
  u->nvcsw += r->ru_nvcsw;
  u->nivcsw += r->ru_nivcsw;
}

/* Takes every child that has ended; 0 when none is left at all. */
static int reap(struct run *r) {
  for (;;) {
    struct rusage ru;
    int status;
    pid_t pid = wait4(-1, &status, WNOHANG, &ru);
    if (pid <= 0) return pid == 0;
    add_use(&r->use, &ru);
    r->left_behind += r->ended;
    if (pid == r->pid) {
      r->wall = now() - r->start;
      r->status = status;
      r->ended = 1;
    }
  }
}

/* Kills our children, which are the program and the orphans of its family. */
static void kill_children(struct run *r) {
  char path[64];
  long pid;
  if (!r->ended) kill(-r->pid, SIGKILL);
  snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)getpid());
  FILE *f = fopen(path, "r");
  if (!f) return;
  while (fscanf(f, "%ld", &pid) == 1) kill((pid_t)pid, SIGKILL);
  fclose(f);
}

static void watch(const struct plan *p, const sigset_t *set, struct run *r) {
  const struct timespec tick = { 0, WATCH_NS };
  while (!r->ended) {
    int sig = sigtimedwait(set, NULL, &tick);
    reap(r);
    if (r->ended || r->killed) continue;
    if (sig > 0 && sig != SIGCHLD) r->killed = "signal";
    else if (sig < 0) r->killed = over_limit(p, r);
    if (r->killed) kill_children(r);
  }
  while (reap(r)) {           /* the rest of the family */
    kill_children(r);
    sigtimedwait(set, NULL, &tick);
  }
}

/* ---- */

static void start(const struct plan *p, const sigset_t *mask, struct run *r) {
  int pipefd[2];
  if (pipe2(pipefd, O_CLOEXEC) != 0) usage(strerror(errno));
  r->start = now();
  r->pid = fork();
  if (r->pid < 0) usage(strerror(errno));
  if (r->pid == 0) become(p, mask, pipefd[1]);
  close(pipefd[1]);
  if (read(pipefd[0], &r->exec_errno, sizeof r->exec_errno) <= 0) r->exec_errno = 0;
  close(pipefd[0]);
}

static int print_result(const struct plan *p, const struct run *r) {
  FILE *f = fopen(p->result, "w");
  if (!f) {
    fprintf(stderr, "measure: %s: %s\n", p->result, strerror(errno));
    return 2;
  }
  const struct use *u = &r->use;
  fprintf(f, "{\"exec_errno\": %d, \"exit\": %d, \"signal\": %d, ", r->exec_errno, WIFEXITED(r->status) ? WEXITSTATUS(r->status) : -1,
          WIFSIGNALED(r->status) ? WTERMSIG(r->status) : 0);
  if (r->killed) fprintf(f, "\"killed\": \"%s\", ", r->killed);
  else fprintf(f, "\"killed\": null, ");
  fprintf(f, "\"left_behind\": %d, \"wall_s\": %.9f, \"user_s\": %.6f, \"sys_s\": %.6f, \"peak_kib\": %ld, \"minor_faults\": %ld, "
             "\"major_faults\": %ld, \"switches\": %ld, \"preempted\": %ld}\n",
          r->left_behind, r->wall, u->user, u->sys, u->maxrss, u->minflt, u->majflt, u->nvcsw, u->nivcsw);
  return fclose(f) == 0 ? 0 : 2;
}

int main(int argc, char **argv) {
  static struct plan p;
  static struct run r;
  sigset_t set, before;
  parse(&p, argc, argv);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  sigprocmask(SIG_BLOCK, &set, &before);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_PDEATHSIG, SIGTERM);   /* when the laboratory is killed, its run ends, too */
  start(&p, &before, &r);
  watch(&p, &set, &r);
  return print_result(&p, &r);
}
