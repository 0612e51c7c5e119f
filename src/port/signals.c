/*
 * signals: workers block all signals but the preemption signal; a child would inherit that and survive SIGTERM. Who starts a child
 * therefore puts on the program's original mask for the moment.
 *
 * `original` is written once, before there are threads, and only read afterwards.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>
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

static void (*interrupt)(void);

static void on_interrupt(int sig) {
  (void)sig;
  interrupt();
}

void port_signal_interrupt(void (*fn)(void)) {
  struct sigaction sa;
  memset(&sa, 0, sizeof sa);
  sa.sa_handler = on_interrupt;
#ifndef PORT_TSAN                      /* there a wait must end, as the handler is called after it (sync.c) */
  sa.sa_flags = SA_RESTART;
#endif
  sigemptyset(&sa.sa_mask);
  interrupt = fn;
  sigaction(SIGINT, &sa, NULL);
}

void port_exit_now(int code) { _exit(code); }
