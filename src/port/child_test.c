/*
 * Children: their exit code or signal is learnt once; they get the descriptors, the folder and the environment that was said, the program's own signal
 * mask and none of our other descriptors; a missing program or folder is told apart; their end is told to whoever asked.
 */
#include "port/child.h"
#include "port/poll.h"
#include "port/system.h"
#include "port/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#define MS UINT64_C(1000000)

static int start(const char *command, port_program *p) {
  char *argv[] = { "sh", "-c", (char *)command, NULL };
  int pid = 0;
  p->argv = argv;
  CHECK(port_child_spawn(p, &pid) == 0);
  return pid;
}

static void reap(int pid, int *code, int *signal) {
  while (port_child_reap(pid, code, signal) == EAGAIN) port_sleep(MS);
}

/* What a command writes, and its exit code. */
static int output(const char *command, port_program *p, char *text, size_t size) {
  int fd[2], code, signal;
  size_t len = 0;
  long n;
  CHECK(port_pipe(fd) == 0);
  p->fd[1] = fd[1];
  int pid = start(command, p);
  port_pipe_end(fd[1]);
  while (len + 1 < size && (n = port_pipe_read(fd[0], text + len, size - 1 - len)) > 0) len += (size_t)n;
  text[len] = 0;
  port_pipe_end(fd[0]);
  reap(pid, &code, &signal);
  return code;
}

#define QUIET { .fd = { PORT_CHILD_NULL, PORT_CHILD_NULL, PORT_CHILD_NULL } }

static void test_code_or_signal_is_learnt_once(void) {
  int code, signal;
  port_program p = QUIET;
  int pid = start("exit 7", &p);
  reap(pid, &code, &signal);
  CHECK(code == 7 && signal == -1);
  CHECK(port_child_reap(pid, &code, &signal) == 0 && code == -1 && signal == -1);       /* there is no more to be learnt */
  pid = start("exec sleep 1000", &p);
  CHECK(port_child_reap(pid, &code, &signal) == EAGAIN);
  CHECK(port_child_kill(pid, SIGTERM, 1) == 0);                    /* not blocked, although our threads block it */
  reap(pid, &code, &signal);
  CHECK(code == -1 && signal == SIGTERM);
  CHECK(port_child_kill(pid, SIGTERM, 1) == ESRCH);
}

static void test_what_was_said_is_what_it_gets(void) {
  char text[4096];
  char *changes[] = { "MARE_TEST_NEW=one two", "MARE_TEST_OLD", NULL };
  port_program p = QUIET;
  setenv("MARE_TEST_OLD", "there", 1);
  p.changes = changes;
  p.cwd = "/";
  p.fd[2] = PORT_CHILD_OUT;
  CHECK(output("pwd; echo $MARE_TEST_NEW; echo ${MARE_TEST_OLD-gone}; echo error >&2; exit 3", &p, text, sizeof text) == 3);
  CHECK(strcmp(text, "/\none two\ngone\nerror\n") == 0);
}

static void test_it_inherits_no_other_descriptor(void) {
  char text[4096];
  port_program p = QUIET;
  int open_for_all = open("/dev/null", O_RDONLY);                  /* not closed on exec */
  CHECK(output("for f in /proc/self/fd/*; do echo ${f##*/}; done | wc -l", &p, text, sizeof text) == 0);
  int with = atoi(text);
  close(open_for_all);
  CHECK(output("for f in /proc/self/fd/*; do echo ${f##*/}; done | wc -l", &p, text, sizeof text) == 0);
  CHECK(atoi(text) == with && with > 0);
}

static void test_a_missing_program_or_folder_is_told_apart(void) {
  char *none[] = { "/nowhere/at-all", NULL }, *sh[] = { "sh", "-c", "exit 0", NULL };
  port_program p = QUIET;
  int pid;
  p.argv = none;
  CHECK(port_child_spawn(&p, &pid) == ENOENT);
  p.argv = sh;
  p.cwd = "/nowhere/at-all";
  CHECK(port_child_spawn(&p, &pid) == ENOTDIR);
}

/* ---- the mask ---- */

static void start_from_a_thread(void *arg) {
  char *text = arg;
  port_program p = QUIET;
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, NULL);
  CHECK(output("grep SigBlk /proc/self/status", &p, text, 4096) == 0);
  FILE *f = port_pipe_open("grep SigBlk /proc/self/status", "r");
  CHECK(f && fgets(text + 2048, 2048, f));
  CHECK(f && port_pipe_close(f) == 0);
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  CHECK(sigismember(&now, SIGTERM));                               /* ours is as it was */
}

static void test_a_child_has_the_mask_of_the_program(void) {
  char text[4096];
  port_thread t;
  CHECK(port_thread_fork(&t, start_from_a_thread, text, "start") == 0);
  port_thread_join(&t);
  CHECK(strcmp(text, "SigBlk:\t0000000000000000\n") == 0);
  CHECK(strcmp(text, text + 2048) == 0);
}

/* ---- being told ---- */

enum { CHILDREN = 20 };
static atomic_int told[CHILDREN];
static void on_end(void *tag) { atomic_fetch_add((atomic_int *)tag, 1); }

static void test_each_end_is_told_once(void) {
  int set, pid[CHILDREN], left = CHILDREN, code, signal;
  port_program p = QUIET;
  CHECK(port_children_open(on_end, &set) == 0);
  for (int i = 0; i < CHILDREN; i++) {
    pid[i] = start(i % 3 ? "exit 1" : "sleep 0.05", &p);
    CHECK(port_children_add(pid[i], &told[i]) == 0);
  }
  for (uint64_t end = port_now() + 20000 * MS; left > 0 && port_now() < end; port_sleep(MS)) {
    port_children_ready();
    left = 0;
    for (int i = 0; i < CHILDREN; i++) left += atomic_load(&told[i]) == 0;
  }
  for (int i = 0; i < CHILDREN; i++) {
    CHECK(atomic_load(&told[i]) == 1);
    CHECK(port_child_reap(pid[i], &code, &signal) == 0 && code == (i % 3 ? 1 : 0));
  }
}

/* ---- pipes ---- */

static void test_a_pipe_without_reader_is_an_error_not_a_signal(void) {
  int fd[2];
  char c;
  sigset_t pending;
  CHECK(port_pipe(fd) == 0 && fd[0] > 2 && fd[1] > 2);
  CHECK(port_pipe_nonblock(fd[0]) == 0 && port_pipe_read(fd[0], &c, 1) == -EAGAIN);
  port_pipe_end(fd[0]);
  CHECK(port_pipe_write(fd[1], "x", 1) == -EPIPE);
  sigpending(&pending);
  CHECK(!sigismember(&pending, SIGPIPE));
  port_pipe_end(fd[1]);
}

int main(void) {
  test_code_or_signal_is_learnt_once();
  test_what_was_said_is_what_it_gets();
  test_it_inherits_no_other_descriptor();
  test_a_missing_program_or_folder_is_told_apart();
  test_a_child_has_the_mask_of_the_program();
  test_each_end_is_told_once();
  test_a_pipe_without_reader_is_an_error_not_a_signal();
  return CHECK_RESULT();
}
