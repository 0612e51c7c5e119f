/*
 * Signals: names and numbers; what the program takes is counted and rings the bell, and is as before when it is given back; what must not be taken is
 * refused; SIGPIPE is as the program has it, but for our own writes.
 */
#include "port/poll.h"
#include "port/system.h"
#include "port/test.h"

#include <errno.h>
#include <pthread.h>

static void test_names_and_numbers(void) {
  CHECK(port_signal_number("INT") == SIGINT && port_signal_number("SIGUSR1") == SIGUSR1);
  CHECK(port_signal_number("SIG") == 0 && port_signal_number("NONE") == 0 && port_signal_number("") == 0);
  CHECK(strcmp(port_signal_name(SIGTERM), "TERM") == 0);
}

static atomic_int formerly;
static void former(int sig) { atomic_fetch_add(&formerly, sig); }

static void test_a_taken_signal_is_counted_and_rings(void) {
  int bell, again;
  unsigned ready;
  signal(SIGUSR1, former);
  CHECK(port_signals_bell(&bell) == 0 && port_signals_bell(&again) == 0 && bell == again);
  CHECK(port_signal_take(SIGUSR1) == 0);
  CHECK(port_ready_now(bell, PORT_READ, &ready) == 0 && !ready);
  for (int i = 0; i < 3; i++) raise(SIGUSR1);
  CHECK(port_ready_now(bell, PORT_READ, &ready) == 0 && ready == PORT_READ);
  port_signals_clear();
  CHECK(port_ready_now(bell, PORT_READ, &ready) == 0 && !ready);
  CHECK(port_signal_count(SIGUSR1) == 3 && port_signal_count(SIGUSR1) == 0);
  CHECK(atomic_load(&formerly) == 0);
  port_signal_give_back(SIGUSR1);
  raise(SIGUSR1);
  CHECK(atomic_load(&formerly) == SIGUSR1 && port_signal_count(SIGUSR1) == 0);
}

static void test_what_must_not_be_taken_is_refused(void) {
  static const int no[] = { SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, 0, -1, 65, 1000 };
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) CHECK(port_signal_take(no[i]) == EINVAL);
  CHECK(port_signal_take(port_kick_signal()) == EINVAL);
}

static atomic_int interrupts;
static void on_interrupt(void) { atomic_fetch_add(&interrupts, 1); }

static void test_an_interrupt_is_told(void) {
  port_signal_interrupt(on_interrupt);
  raise(SIGINT);
  CHECK(atomic_load(&interrupts) == 1);
  signal(SIGINT, SIG_DFL);
}

/* ---- SIGPIPE ---- */

static int has_pipe_blocked(void) {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  return sigismember(&mask, SIGPIPE);
}

static void hold_and_drop(void *arg) {
  port_pipe_hold h;
  sigset_t pending;
  (void)arg;
  CHECK(has_pipe_blocked());                     /* as every signal is in our threads */
  port_signals_allow_pipe();
  CHECK(!has_pipe_blocked());
  port_signals_hold_pipe(&h);
  CHECK(has_pipe_blocked());
  pthread_kill(pthread_self(), SIGPIPE);
  port_signals_drop_pipe(&h, 1);                 /* ours: nobody sees it */
  CHECK(!has_pipe_blocked());
  sigpending(&pending);
  CHECK(!sigismember(&pending, SIGPIPE));
}

static void test_our_own_writes_raise_no_signal(void) {
  port_thread t;
  CHECK(port_thread_fork(&t, hold_and_drop, NULL, "pipe") == 0);
  port_thread_join(&t);
}

/* ---- the mask for children ---- */

static void test_the_original_mask_comes_and_goes(void) {
  sigset_t block, now;
  port_sigmask save;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR2);
  pthread_sigmask(SIG_BLOCK, &block, NULL);
  port_signals_default(&save);
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  CHECK(!sigismember(&now, SIGUSR2));
  port_signals_restore(&save);
  pthread_sigmask(SIG_SETMASK, NULL, &now);
  CHECK(sigismember(&now, SIGUSR2));
}

int main(void) {
  test_names_and_numbers();
  test_a_taken_signal_is_counted_and_rings();
  test_what_must_not_be_taken_is_refused();
  test_an_interrupt_is_told();
  test_our_own_writes_raise_no_signal();
  test_the_original_mask_comes_and_goes();
  return CHECK_RESULT();
}
