/*
 * signals: workers block all signals but the preemption signal; a child would inherit that and survive SIGTERM. Who starts a child
 * therefore puts on the program's original mask for the moment.
 *
 * SIGPIPE is raised by a write, in the thread that writes. Where Lua code runs it is as the program has it, because print and io.write into a
 * pipe that nobody reads must do what they do under lua: by default, end the program. mare's own writes hold it back and give EPIPE.
 *
 * `original` is written once, before there are threads, and only read afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
#include "port/door.h"
#include "port/poll.h"
#include "port/port.h"
#include "port/system.h"

_Static_assert(sizeof(port_sigmask) >= sizeof(sigset_t), "a saved mask fits");

static sigset_t original;
static atomic_int known;

/* Run when the library is loaded, by a thread of the program's own. */
__attribute__((constructor))
void port_signals_init(void) {
  if (atomic_load_explicit(&known, memory_order_acquire)) return;
  pthread_sigmask(SIG_SETMASK, NULL, &original);
  atomic_store_explicit(&known, 1, memory_order_release);
}

void port_signals_default(port_sigmask *save) {
  sigset_t old;
  if (atomic_load_explicit(&known, memory_order_acquire))
    pthread_sigmask(SIG_SETMASK, &original, &old);
  else
    pthread_sigmask(SIG_SETMASK, NULL, &old);
  memcpy(save->bits, &old, sizeof old);
}

void port_signals_restore(const port_sigmask *save) {
  sigset_t old;
  memcpy(&old, save->bits, sizeof old);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void port_signals_original(port_sigmask *mask) {
  sigset_t m = original;
  if (!atomic_load_explicit(&known, memory_order_acquire)) pthread_sigmask(SIG_SETMASK, NULL, &m);
  memcpy(mask->bits, &m, sizeof m);
}

/* ---- SIGPIPE ---- */

void port_signals_allow_pipe(void) {
  sigset_t pipe;
  if (!atomic_load_explicit(&known, memory_order_acquire) || sigismember(&original, SIGPIPE)) return;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_UNBLOCK, &pipe, NULL);
}

void port_signals_hold_pipe(port_pipe_hold *h) {
  sigset_t pipe, old, pending;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  sigpending(&pending);
  h->pending = sigismember(&pending, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &old);
  memcpy(h->mask.bits, &old, sizeof old);
}

void port_signals_drop_pipe(const port_pipe_hold *h, int raised) {
  sigset_t pipe;
  struct timespec none = { 0, 0 };
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  if (raised && !h->pending) while (sigtimedwait(&pipe, NULL, &none) < 0 && errno == EINTR) { }
  port_signals_restore(&h->mask);
}

/* ---- signals for the program as a whole ---- */

static void (*interrupt)(void), (*quit)(void);
static _Atomic(void (*)(int number)) ending = port_end_by;

static void on_program(int sig) {
  int err = errno;
  if (sig == SIGINT && interrupt) interrupt();
  else if (sig == SIGQUIT) quit();
  else atomic_load(&ending)(sig);
  errno = err;
}

static void take(int sig) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = on_program;
#ifndef PORT_TSAN                      /* there a wait must end, as the handler is called after it (sync.c) */
  sa.sa_flags = SA_RESTART;
#endif
  sigemptyset(&sa.sa_mask);
  sigaction(sig, &sa, NULL);
}

void port_signal_interrupt(void (*fn)(void)) {
  interrupt = fn;
  take(SIGINT);
}

void port_signal_quit(void (*fn)(void)) {
  quit = fn;
  take(SIGQUIT);
}

/* Unless the program has its own way with it. */
static void take_ending(int sig) {
  struct sigaction now;
  if (sigaction(sig, NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL) take(sig);
}

void port_signals_end(void) {
  take_ending(SIGTERM);
  take_ending(SIGHUP);
  take_ending(SIGINT);
}

void port_signals_ending(void (*fn)(int number)) {
  atomic_store(&ending, fn);
  take_ending(SIGTERM);
  take_ending(SIGHUP);
  take_ending(SIGPIPE);
}

/* ---- the end ---- */

void port_exit_now(int code) {
  port_terminal_restore();
  port_door_close();
  _exit(code);
}

void port_end_by(int number) {
  sigset_t one;
  port_terminal_restore();
  port_door_close();
  signal(number, SIG_DFL);
  sigemptyset(&one);
  sigaddset(&one, number);
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
  raise(number);
  _exit(128 + number);
}

/* ---- taken by the program ---- */

enum { MOST = 65 };
static struct sigaction former[MOST];
static atomic_uint counts[MOST];
static atomic_int bell = -1;

int port_signal_number(const char *name) {
  if (strncmp(name, "SIG", 3) == 0) name += 3;
  for (int n = 1; n < MOST; n++) {
    const char *known = sigabbrev_np(n);
    if (known && strcmp(known, name) == 0) return n;
  }
  return 0;
}

const char *port_signal_name(int number) { return sigabbrev_np(number); }

int port_signals_bell(int *fd) {
  int b = atomic_load(&bell);
  if (b < 0) {
    b = port_bell_open();
    if (b < 0) return errno;
    atomic_store(&bell, b);
  }
  *fd = b;
  return 0;
}

void port_signals_clear(void) { port_bell_clear(atomic_load(&bell)); }

unsigned port_signal_count(int number) { return atomic_exchange(&counts[number], 0); }

static void on_signal(int sig) {
  int err = errno;
  atomic_fetch_add(&counts[sig], 1);
  port_bell_ring(atomic_load(&bell));
  errno = err;
}

int port_signal_take(int number) {
  static const int refused[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP };
  struct sigaction sa;
  if (number <= 0 || number >= MOST || number == port_kick_signal()) return EINVAL;
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (number == refused[i]) return EINVAL;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = on_signal;
#ifndef PORT_TSAN                      /* see port_signal_interrupt */
  sa.sa_flags = SA_RESTART;
#endif
  sigemptyset(&sa.sa_mask);
  atomic_store(&counts[number], 0);
  return sigaction(number, &sa, &former[number]) == 0 ? 0 : errno;
}

void port_signal_give_back(int number) { sigaction(number, &former[number], NULL); }
