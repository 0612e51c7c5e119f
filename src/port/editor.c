/*
 * editor: line editing and history for the interactive mode, by a library that is on the machine or not: libedit, else readline, which have the
 * same functions. It is loaded when a terminal is to be read, so mare neither needs one nor carries any of it; that is also why readline's licence
 * (GPL) says nothing of mare's (MIT): who has it installed may use it from here, as from any program.
 *
 * One thread reads at a time. Meanwhile the terminal is in the library's mode; whoever ends the program gives its own back (port_terminal_restore).
 * The library takes no signals: an interrupt is the program's business. So that it ends the line at once, the library is given one key after the
 * other ("callback" functions), and between two keys we wait for the next one or for the bell that an interrupt rings.
 */
#include <locale.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include "port/poll.h"
#include "port/port.h"
#include "port/screen.h"
#include "port/system.h"

static struct {
  void (*begin)(const char *prompt, void (*ended)(char *line));
  void (*key)(void);
  void (*end)(void);
  int (*keep)(const char *line);
  void (*forget_edits)(void), (*forget_keys)(void);   /* or NULL */
} lib;

static struct termios before;
static atomic_int reading;
static atomic_int bell = -1;
static int ended;                                /* the library has given the line, `result` */
static char *result;

/* Puts the function or variable of that name into *p, which is a pointer; 0: there is none. */
static int find(void *library, const char *name, void *p) {
  const char *err;
  port_function f = port_symbol(library, name, &err);
  memcpy(p, &f, sizeof f);
  return f != NULL;
}

static int use(const char *name) {
  const char *err, **program;
  int *catches;
  void *library = *name ? port_library(name, 0, &err) : NULL;
  if (!library) return 0;
  if (!find(library, "rl_callback_handler_install", &lib.begin) || !find(library, "rl_callback_read_char", &lib.key) ||
      !find(library, "rl_callback_handler_remove", &lib.end) || !find(library, "add_history", &lib.keep)) return 0;
  find(library, "rl_free_line_state", &lib.forget_edits);
  find(library, "rl_callback_sigcleanup", &lib.forget_keys);
  if (find(library, "rl_catch_signals", &catches)) *catches = 0;
  if (find(library, "rl_readline_name", &program)) *program = "mare";
  return 1;
}

int port_editor_open(void) {
  static const char *const names[] = { "libedit.so.2", "libedit.so.0", "libedit.so", "libreadline.so.8", "libreadline.so.7", "libreadline.so" };
  const char *given = getenv("MARE_EDITOR");
  if (atomic_load(&bell) < 0) atomic_store(&bell, port_bell_open());
  if (atomic_load(&bell) < 0) return 0;
  if (given) return use(given);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (use(names[i])) return 1;
  return 0;
}

static void on_line(char *line) {
  result = line;
  ended = 1;
  lib.end();
}

/* The terminal is gone: nothing will come, and the library may not notice. */
static int hung_up(short what) {
  int there = 0;
  return (what & (POLLHUP | POLLERR | POLLNVAL)) && (ioctl(STDIN_FILENO, FIONREAD, &there) != 0 || there == 0);
}

static void leave_line(void) {
  if (lib.forget_edits) lib.forget_edits();
  if (lib.forget_keys) lib.forget_keys();
  lib.end();
  if (write(STDOUT_FILENO, "^C\n", 3) < 0) return;   /* as a shell shows it; who can't see it misses nothing */
}

static int read_keys(void (*typed)(void)) {
  struct pollfd from[] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = atomic_load(&bell), .events = POLLIN } };
  while (!ended) {
    if (poll(from, 2, -1) < 0) continue;             /* a signal */
    if (from[1].revents) return leave_line(), PORT_LINE_LEFT;
    if (hung_up(from[0].revents)) return lib.end(), PORT_LINE_END;
    typed();
    lib.key();
  }
  return result ? PORT_LINE : PORT_LINE_END;
}

int port_editor_line(const char *prompt, void (*typed)(void), char **line) {
  locale_t own = newlocale(LC_CTYPE_MASK, "", (locale_t)0), old = own ? uselocale(own) : (locale_t)0;   /* this thread's, so that é is one letter */
  if (tcgetattr(STDIN_FILENO, &before) == 0) atomic_store(&reading, 1);
  result = NULL;
  ended = 0;
  lib.begin(prompt, on_line);
  int what = read_keys(typed);
  *line = result;
  atomic_store(&reading, 0);
  if (own) {
    uselocale(old);
    freelocale(own);
  }
  return what;
}

void port_editor_ready(void) { port_bell_clear(atomic_load(&bell)); }

void port_editor_interrupt(void) {
  int b = atomic_load(&bell);
  if (b >= 0) port_bell_ring(b);
}

void port_editor_keep(const char *line) { lib.keep(line); }

void port_terminal_restore(void) {
  if (atomic_exchange(&reading, 0)) tcsetattr(STDIN_FILENO, TCSANOW, &before);
  port_screen_close();
}
