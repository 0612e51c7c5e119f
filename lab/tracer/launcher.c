/*
 * launch-trace: starts a program with the tracer in front of its allocator and writes its trace into a folder that exists.
 *
 *   launch-trace --library FILE --out FOLDER [--limit BYTES] [--ring EVENTS] [--stacks N] -- program args...
 *   launch-trace --attach PID [--for MICROSECONDS] --out FOLDER …       records one that was started asleep; its status is then 0
 *
 * It prints nothing of its own accord: everything it knows is in FOLDER/trace.json. It ends with the program's status, as a shell would give it;
 * 125 when the trace could not be begun, 127 when the program could not be started. Processes that the program leaves behind are adopted and traced
 * until they end; an interrupt after the program's end stops waiting for them.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { LOOK_US = 5000, SHORT_US = 50000 }; /* between two looks at processes; a program that is over by then gets no more chunks than it needs */

static _Atomic int interrupted, asked_to_end, somebody_ended = 1;
static struct sigaction child_before;
static pid_t program;

static void on_interrupt(int signal) { (void)signal; interrupted = 1; }
static void on_term(int signal) { (void)signal; asked_to_end = 1; }
static void on_child(int signal) { (void)signal; somebody_ended = 1; }

static void die(const char *what)
{
  fprintf(stderr, "mare lab: trace: %s: %s\n", what, strerror(errno));
  exit(125);
}

static uint64_t number(const char *s, const char *option)
{
  char *end;
  errno = 0;
  unsigned long long n = strtoull(s, &end, 10);
  if (errno || *end || end == s || *s == '-') {
    fprintf(stderr, "mare lab: trace: %s needs a number, not '%s'\n", option, s);
    exit(125);
  }
  return n;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static void parse(int argc, char **argv, options *o)
{
  static const struct option known[] = { { "library", 1, NULL, 'l' }, { "out", 1, NULL, 'o' }, { "limit", 1, NULL, 'b' }, { "ring", 1, NULL, 'r' },
                                         { "stacks", 1, NULL, 's' },
                                         { "attach", 1, NULL, 'a' }, { "for", 1, NULL, 'f' }, { NULL, 0, NULL, 0 } };
  *o = (options){ .limit = UINT64_C(2) << 30 };
  for (int c; (c = getopt_long(argc, argv, "+", known, NULL)) != -1;) switch (c) {
    case 'l': o->library = optarg; break;
    case 'o': o->folder = optarg; break;
    case 'b': o->limit = number(optarg, "--limit"); break;
    case 'r': o->ring = number(optarg, "--ring"); break;
    case 's': o->stack_every = (uint32_t)least(number(optarg, "--stacks"), UINT32_MAX); break;
    case 'a': o->attach = (pid_t)number(optarg, "--attach"); break;
    case 'f': o->attach_us = number(optarg, "--for"); break;
    default: exit(125);
  }
  o->command = argv + optind;
  if (!o->folder || (!o->attach && (!o->library || !*o->command))) {
    fputs("usage: launch-trace --library FILE --out FOLDER [--limit BYTES] [--ring EVENTS] [--stacks N] -- program args...\n"
          "       launch-trace --attach PID [--for MICROSECONDS] --out FOLDER [--limit BYTES] [--ring EVENTS] [--stacks N]\n", stderr);
    exit(125);
  }
}

static void become_program(trace *t)
{
  const char *before = getenv("LD_PRELOAD");
  char *preload, *setting;
  if (asprintf(&preload, "%s%s%s", t->o->library, before && *before ? ":" : "", before ? before : "") < 0) _exit(125);
  if (asprintf(&setting, "%s:%s", t->path, t->o->library) < 0) _exit(125);
  setenv("LD_PRELOAD", preload, 1);
  setenv(TR_ENV, setting, 1);
  signal(SIGINT, SIG_DFL);
  signal(SIGQUIT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGXFSZ, SIG_DFL);
  sigaction(SIGCHLD, &child_before, NULL); /* it may have been ignored */
  execvp(t->o->command[0], t->o->command);
  int error = errno;
  fprintf(stderr, "mare lab: trace: can't start %s: %s\n", t->o->command[0], strerror(error));
  _exit(127);
}

static void catch_signals(void)
{
  struct sigaction a = { .sa_handler = on_interrupt };
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGQUIT, &a, NULL);
  a.sa_handler = on_term; /* attached, as an interrupt */
  sigaction(SIGTERM, &a, NULL);
  a = (struct sigaction){ .sa_handler = on_child, .sa_flags = SA_RESTART | SA_NOCLDSTOP };
  sigaction(SIGCHLD, &a, &child_before);
  signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of write, as a full disk is */
}

/* A file each for up to 1024 processes at once; the program keeps the limit it was given. */
static void allow_files(void)
{
  struct rlimit files;
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

/* Reaps whoever ended; 0 once there is nobody left. */
static int reap(trace *t)
{
  int status;
  pid_t pid;
  if (!atomic_exchange(&somebody_ended, 0)) return 1;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    if (pid != program) continue;
    t->status = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
    t->waiting = 1;
    interrupted = 0;
  }
  return pid == 0 || errno != ECHILD;
}

static void mind_signals(trace *t)
{
  if (!asked_to_end) return;
  asked_to_end = 0;
  if (!t->waiting) kill(program, SIGTERM);
  else interrupted = 1;
}

/* Said once, when they don't end by themselves within a third of a second. */
static void explain_waiting(trace *t, uint64_t now)
{
  static uint64_t since, told;
  if (!t->waiting || told) return;
  if (!since) since = now;
  if (now - since < 300000) return;
  told = 1;
  fprintf(stderr, "mare lab: trace: %s has ended; processes it left behind are traced until they end (Ctrl-C stops waiting)\n", t->o->command[0]);
}

static void watch(trace *t)
{
  uint64_t next_look = 0;
  for (;;) {
    int full = drain(t);
    if (t->o->stack_every) see_arrivals(t); /* they wait for it */
    if (t->used * 4 >= t->usable) widen(t);
    uint64_t now = now_us();
    if (!reap(t)) return;
    if (now >= next_look) {
      if (trace_us(t) > SHORT_US) widen(t);
      see_processes(t);
      mind_signals(t);
      if (t->waiting && interrupted) return;
      explain_waiting(t, now);
      grow(t);
      next_look = now + LOOK_US;
    }
    if (!full) {
      struct timespec a_bit = { 0, 1000000 };
      nanosleep(&a_bit, NULL);
    }
  }
}

static void stop_recording(trace *t)
{
  t->ended_us = trace_us(t);
  int limit = t->limit_us != 0;
  atomic_store(&t->map->clock, TR_STOPPED);
  stop_clock(t);
  if (!limit) t->limit_us = 0;
}

static int attach_to(trace *t)
{
  catch_signals();
  if (!take_over(t)) return 125;
  if (!write_header(t, 0)) { int e = errno; give_back(t); errno = e; die(t->o->folder); }
  t->base_us = now_us() - t->map->began_us;
  if (!start_clock(t)) { give_back(t); die("can't start a thread"); }
  allow_files();
  watch_attached(t, &interrupted);
  stop_recording(t);
  give_back(t);
  write_kept(t);
  if (!write_header(t, 1)) die(t->o->folder);
  return 0;
}

int main(int argc, char **argv)
{
  options o;
  trace t = { .o = &o };
  time_t now = time(NULL);
  struct tm utc;
  parse(argc, argv, &o);
  strftime(t.started, sizeof t.started, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  if (o.attach) return attach_to(&t);
  if (!make_mapping(&t)) die("no room for its buffers in /dev/shm nor in TMPDIR (2 MiB at least)");
  if (!write_header(&t, 0)) { int e = errno; drop_mapping(&t); errno = e; die(o.folder); }
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  catch_signals();
  program = fork();
  if (program == 0) become_program(&t);
  if (program < 0 || !start_clock(&t)) { drop_mapping(&t); die("can't start the program"); }
  allow_files();
  watch(&t);
  stop_recording(&t);
  finish_all(&t);
  write_kept(&t);
  drop_mapping(&t);
  if (!write_header(&t, 1)) die(o.folder);
  return t.status < 0 ? 128 - t.status : t.status;
}
