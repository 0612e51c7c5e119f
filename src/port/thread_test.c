/*
 * Threads: they get their argument, their name and a mask that leaves signals to the program's own threads; their end calls what was asked for; the
 * preemption signal reaches the thread that is meant; their clocks run when they compute.
 */
#include "port/test.h"

#include <pthread.h>
#include <sys/prctl.h>
#include <sched.h>

static atomic_int begun, ended, kicks;
static port_event done;

static void begin(void *arg) {
  char name[16];
  sigset_t mask;
  CHECK(arg == &begun);
  prctl(PR_GET_NAME, name);
  CHECK(strcmp(name, "a-name-of-fifte") == 0);                 /* the system keeps 15 characters */
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  CHECK(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT) && sigismember(&mask, SIGCHLD) && sigismember(&mask, SIGPIPE));
  CHECK(!sigismember(&mask, port_kick_signal()) && !sigismember(&mask, SIGSEGV) && !sigismember(&mask, SIGABRT));
  atomic_store(&begun, 1);
  port_event_set(&done);
}

static void test_a_thread_leaves_signals_to_the_program(void) {
  port_thread t;
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  CHECK(port_thread_fork(&t, begin, &begun, "a-name-of-fifteen-and-more") == 0);
  port_thread_join(&t);
  CHECK(atomic_load(&begun) == 1 && port_event_wait(&done, UINT64_MAX));
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  CHECK(sigismember(&after, SIGTERM) == sigismember(&before, SIGTERM));       /* who starts one has its own mask again */
  CHECK(port_thread_start(begin, &begun, "a-name-of-fifteen-and-more") == 0);
  CHECK(port_event_wait(&done, UINT64_MAX));
}

/* ---- the end ---- */

static void note_end(void) { atomic_fetch_add(&ended, 1); }
static void asks(void *arg) { if (arg) CHECK(port_thread_at_end(note_end) == 0); }

static void test_the_end_of_a_thread_calls_what_it_asked_for(void) {
  port_thread t[4];
  for (uintptr_t i = 0; i < 4; i++) CHECK(port_thread_fork(&t[i], asks, (void *)(i % 2), "end") == 0);
  for (int i = 0; i < 4; i++) port_thread_join(&t[i]);
  CHECK(atomic_load(&ended) == 2);
}

/* ---- the preemption signal ---- */

static port_thread runner;
static atomic_int runs, stop;
static PORT_TLS int mine;

static void on_kick(void) {
  if (mine) atomic_fetch_add(&kicks, 1);
}

static void run(void *arg) {
  (void)arg;
  mine = 1;
  port_thread_self(&runner);
  atomic_store(&runs, 1);
  while (!atomic_load(&stop)) {
#ifdef PORT_TSAN
    port_sleep(1000);                          /* handlers are called at such places there */
#endif
  }
}

static void test_a_kick_reaches_its_thread(void) {
  port_thread t;
  CHECK(port_kick_handler(on_kick) == 0);
  CHECK(port_thread_fork(&t, run, NULL, "run") == 0);
  while (!atomic_load(&runs)) port_yield();
  uint64_t cpu = port_thread_cpu(&runner);
  for (int i = 1; i <= 20; i++) {
    CHECK(port_thread_kick(&runner) == 0);
    for (int n = 1; n <= 200000 && atomic_load(&kicks) < i; n++) {
      port_sleep(100000);
#ifdef PORT_TSAN
      if (n % 10000 == 0) port_thread_kick(&runner);   /* it was seen once not to pass one on */
#endif
    }
    CHECK(atomic_load(&kicks) >= i);
  }
  CHECK(port_thread_cpu(&runner) > cpu);
  atomic_store(&stop, 1);
  port_thread_join(&t);
  for (int n = 0; n < 200000 && port_thread_kick(&runner) == 0; n++) port_sleep(100000);   /* who joins it can be faster than the system */
  CHECK(port_thread_kick(&runner) != 0);        /* one that has ended: an error, not a crash */
}

/* ---- clocks and processors ---- */

static void test_clocks_go_forward(void) {
  uint64_t last = port_now();
  for (int i = 0; i < 100000; i++) {
    uint64_t now = port_now();
    CHECK(now >= last);
    last = now;
  }
  uint64_t before = port_now();
  port_sleep(2000000);
  CHECK(port_now() - before >= 2000000);
  CHECK(port_wall() > 1.6e9);
  long slept = port_thread_sleeps();
  port_sleep(1000000);
  CHECK(port_thread_sleeps() > slept);
}

static int by_value(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

enum { DRAWS = 4096 };
static uint64_t drawn[4 * DRAWS];
static void draw(void *arg) {
  uint64_t *to = arg;
  for (int i = 0; i < DRAWS; i++) to[i] = port_entropy();
}

static void test_no_two_draws_are_the_same(void) {
  port_thread t[4];
  for (int i = 0; i < 4; i++) CHECK(port_thread_fork(&t[i], draw, drawn + i * DRAWS, "draw") == 0);
  for (int i = 0; i < 4; i++) port_thread_join(&t[i]);
  qsort(drawn, 4 * DRAWS, sizeof *drawn, by_value);
  for (int i = 1; i < 4 * DRAWS; i++) CHECK(drawn[i] != drawn[i - 1]);
}

static void test_processors_are_those_that_may_be_used(void) {
  cpu_set_t all, one;
  CHECK(port_cpus() >= 1 && port_cpu() >= 0);
  CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
  CPU_ZERO(&one);
  CPU_SET(port_cpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) return;
  CHECK(port_cpus() == 1);
  port_thread_elsewhere();                      /* there is no other: it stays */
  CHECK(CPU_ISSET(port_cpu(), &one));
  sched_setaffinity(0, sizeof all, &all);
  port_thread_elsewhere();
  CHECK(sched_getaffinity(0, sizeof one, &one) == 0 && CPU_EQUAL(&one, &all));
}

int main(void) {
  test_clocks_go_forward();
  test_a_thread_leaves_signals_to_the_program();
  test_the_end_of_a_thread_calls_what_it_asked_for();
  test_a_kick_reaches_its_thread();
  test_no_two_draws_are_the_same();
  test_processors_are_those_that_may_be_used();
  return CHECK_RESULT();
}
