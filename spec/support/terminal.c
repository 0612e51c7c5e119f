/*
 * terminal: runs one command at a terminal of its own, and types what a person would type: each text when what it waits for has been shown.
 *
 *   terminal [-x TEXT | -k KEYS]... -- COMMAND [ARGUMENT...]
 *
 *   -x  waits until the command has shown TEXT, after what the -x before it waited for
 *   -k  types KEYS
 *
 * What the command shows goes to stdout as it comes. When it has ended, a last line says how, and in which mode it left the terminal:
 *   ended with 0, icanon echo      or: ended by signal 2, -icanon -echo
 * There is no time limit: supervise has one. The command is the leader of the terminal's session, so Ctrl-C reaches it alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { MAX_STEPS = 64 };
static struct { int kind; const char *text; } step[MAX_STEPS];
static int nsteps, done;

static char shown[1 << 20];
static size_t len, matched;              /* shown[matched…len): what the next -x may find */

static void die(const char *what) {
  fprintf(stderr, "terminal: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void give(int fd, const char *s, size_t n) {
  while (n > 0) {
    ssize_t w = write(fd, s, n);
    if (w < 0 && errno != EINTR) die("write");
    if (w > 0) s += w, n -= (size_t)w;
  }
}

/* Does the steps that are due. */
static void go_on(int terminal) {
  for (; done < nsteps; done++) {
    const char *text = step[done].text;
    if (step[done].kind == 'k') {
      give(terminal, text, strlen(text));
      continue;
    }
    const char *at = memmem(shown + matched, len - matched, text, strlen(text));
    if (!at) return;
    matched = (size_t)(at - shown) + strlen(text);
  }
}

/* Takes in what was shown; 0: nobody has the terminal open any more. */
static int look(int terminal) {
  ssize_t n = read(terminal, shown + len, sizeof shown - len);
  if (n < 0 && errno == EINTR) return 1;
  if (n <= 0) return 0;
  give(STDOUT_FILENO, shown + len, (size_t)n);
  len += (size_t)n;
  return 1;
}

static void attend(int terminal) {
  struct pollfd p = { .fd = terminal, .events = POLLIN };
  for (go_on(terminal); len < sizeof shown; go_on(terminal)) {
    if (poll(&p, 1, -1) < 0) continue;
    if (!look(terminal)) return;
  }
  errno = EMSGSIZE;
  die("too much was shown");
}

static void report(int terminal, int status) {
  struct termios t;
  if (tcgetattr(terminal, &t) != 0) die("tcgetattr");
  printf("\nended %s %d, %sicanon %secho\n", WIFSIGNALED(status) ? "by signal" : "with", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
         t.c_lflag & ICANON ? "" : "-", t.c_lflag & ECHO ? "" : "-");
  if (done < nsteps) printf("not shown: %s\n", step[done].text);
}

int main(int argc, char **argv) {
  struct winsize size = { .ws_row = 24, .ws_col = 120 };
  int c, terminal, status;
  while ((c = getopt(argc, argv, "+x:k:")) != -1) {
    if ((c != 'x' && c != 'k') || nsteps == MAX_STEPS) return 125;
    step[nsteps].kind = c;
    step[nsteps++].text = optarg;
  }
  if (optind >= argc) { errno = EINVAL; die("no command"); }
  pid_t pid = forkpty(&terminal, NULL, NULL, &size);
  if (pid < 0) die("forkpty");
  if (pid == 0) {
    execvp(argv[optind], argv + optind);
    fprintf(stderr, "terminal: %s: %s\n", argv[optind], strerror(errno));
    _exit(127);
  }
  attend(terminal);
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) { }
  report(terminal, status);
  return 0;
}
