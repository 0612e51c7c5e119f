/*
 * Polling: an edge is told once, a level as long as it lasts, the first time only where that was asked for; a hang-up is seen; an event ends a wait in
 * the kernel, is consumed by it, and no wake-up is lost while many threads set it or two wait at once.
 */
#include "port/poll.h"
#include "port/child.h"
#include "port/test.h"

#include <errno.h>
#include <fcntl.h>

#define MS UINT64_C(1000000)

static unsigned what_is_ready(uint64_t tag) {
  port_ready r[8];
  int n = port_poll(r, 8);
  for (int i = 0; i < n; i++) if (r[i].tag == tag) return r[i].what;
  return 0;
}

static void test_an_edge_is_told_once_and_a_level_as_long_as_it_lasts(void) {
  int edge[2], level[2], once[2];
  char c;
  CHECK(port_pipe(edge) == 0 && port_pipe(level) == 0 && port_pipe(once) == 0);
  CHECK(port_poll_add(edge[0], 1, PORT_READ, PORT_EDGE) == 0);
  CHECK(port_poll_add(level[0], 2, PORT_READ, PORT_LEVEL) == 0);
  CHECK(port_poll_add(once[0], 3, PORT_READ, PORT_ONCE) == 0);
  CHECK(port_poll_add(edge[0], 1, PORT_READ, PORT_EDGE) == port_error_exists);
  CHECK(what_is_ready(1) == 0 && what_is_ready(2) == 0 && what_is_ready(3) == 0);
  for (int i = 0; i < 2; i++) {
    port_ready r[8];
    unsigned seen[4] = { 0 };
    for (int k = 0; k < 2; k++) CHECK(port_pipe_write(edge[1], "x", 1) == 1 && port_pipe_write(level[1], "x", 1) == 1 && port_pipe_write(once[1], "x", 1) == 1);
    for (int k = 0; k < 3; k++)
      for (int n = port_poll(r, 8), j = 0; j < n; j++) seen[r[j].tag]++;
    CHECK(seen[1] == 1 && seen[2] == 3 && seen[3] == (i == 0));
  }
  for (int i = 0; i < 4; i++) CHECK(port_pipe_read(level[0], &c, 1) == 1);
  CHECK(what_is_ready(2) == 0);
  port_pipe_end(level[1]);
  CHECK(what_is_ready(2) & PORT_HUP);
  CHECK(port_poll_remove(level[0]) == 0);
  CHECK(what_is_ready(2) == 0);
  port_poll_remove(edge[0]);
  port_poll_remove(once[0]);
  for (int i = 0; i < 2; i++) port_pipe_end(edge[i]), port_pipe_end(once[i]);
  port_pipe_end(level[0]);
}

static void test_a_file_has_nothing_to_wait_for(void) {
  int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  CHECK(fd >= 0 && port_poll_add(fd, 9, PORT_READ, PORT_EDGE) == EPERM);
  unsigned ready;
  CHECK(port_ready_now(fd, PORT_READ | PORT_WRITE, &ready) == 0 && ready & PORT_READ);
  close(fd);
  CHECK(port_ready_now(fd, PORT_READ, &ready) == EBADF);
}

static void test_a_deadline_ends_a_wait(void) {
  port_event e = { 0 };
  port_ready r[8];
  int set;
  uint64_t until = port_now() + 5 * MS;
  CHECK(port_poll_wait(&e, until, r, 8, &set) == 0 && !set);
  CHECK(port_now() >= until && atomic_load(&e.word) == 0);
}

static void test_an_event_that_is_set_already_ends_a_wait_at_once(void) {
  port_event e = { 0 };
  port_ready r[8];
  int set;
  port_event_set(&e);
  CHECK(port_poll_wait(&e, UINT64_MAX, r, 8, &set) == 0 && set);
  CHECK(port_poll_wait(&e, port_now(), r, 8, &set) == 0 && !set);
}

static void test_what_is_ready_ends_a_wait(void) {
  int fd[2], set;
  port_event e = { 0 };
  port_ready r[8];
  CHECK(port_pipe(fd) == 0 && port_poll_add(fd[0], 5, PORT_READ, PORT_LEVEL) == 0);
  CHECK(port_pipe_write(fd[1], "x", 1) == 1);
  CHECK(port_poll_wait(&e, UINT64_MAX, r, 8, &set) == 1 && !set && r[0].tag == 5 && r[0].what == PORT_READ);
  port_poll_remove(fd[0]);
  port_pipe_end(fd[0]);
  port_pipe_end(fd[1]);
}

static void test_a_bell_is_readable_from_ring_to_clear(void) {
  unsigned ready;
  int bell = port_bell_open(), copy;
  CHECK(bell >= 0 && port_ready_now(bell, PORT_READ, &ready) == 0 && !ready);
  port_bell_ring(bell);
  port_bell_ring(bell);
  CHECK(port_ready_now(bell, PORT_READ, &ready) == 0 && ready == PORT_READ);
  CHECK(port_copy(bell, &copy) == 0 && copy > 2 && copy != bell);
  port_bell_clear(bell);
  CHECK(port_ready_now(copy, PORT_READ, &ready) == 0 && !ready);
  port_close(copy);
  port_bell_close(bell);
}

/* ---- threads ---- */

enum { ROUNDS = 300, WAITERS = 3 };
static port_event events[WAITERS];
static atomic_uint woken[WAITERS];

/* Each waiter must be told of each round, though all of them sleep in the same set. */
static void wait_in_the_set(void *arg) {
  port_event *e = arg;
  for (int i = 0; i < ROUNDS;) {
    port_ready r[8];
    int set;
    port_poll_wait(e, UINT64_MAX, r, 8, &set);
    if (!set) continue;
    i++;
    atomic_fetch_add(&woken[e - events], 1);
  }
}

static void test_several_waiters_lose_no_event(void) {
  port_thread t[WAITERS];
  uint64_t seed = 1;
  for (int i = 0; i < WAITERS; i++) CHECK(port_thread_fork(&t[i], wait_in_the_set, &events[i], "poll") == 0);
  for (unsigned round = 1; round <= ROUNDS; round++) {
    for (int i = 0; i < WAITERS; i++) port_event_set(&events[i]);
    for (unsigned n = test_random(&seed) % 300; n > 0; n--) port_pause();
    for (int i = 0; i < WAITERS; i++)
      while (atomic_load(&woken[i]) != round) port_yield();
  }
  for (int i = 0; i < WAITERS; i++) port_thread_join(&t[i]);
}

#ifdef MR_CHECKS
static void two_in_one_event(void) {
  port_event e = { 3 };                          /* as if somebody waited in the set */
  port_ready r[8];
  int set;
  port_poll_wait(&e, port_now(), r, 8, &set);
}
#else
static void two_in_one_event(void) { }
#endif

int main(void) {
  CHECK_DIES(two_in_one_event, "clear == 1");
  port_ready r[1];
  CHECK(port_poll(r, 1) == 0);                   /* before there is a set */
  CHECK(port_poll_open() == 0 && port_poll_open() == 0);
  test_an_edge_is_told_once_and_a_level_as_long_as_it_lasts();
  test_a_file_has_nothing_to_wait_for();
  test_a_deadline_ends_a_wait();
  test_an_event_that_is_set_already_ends_a_wait_at_once();
  test_what_is_ready_ends_a_wait();
  test_a_bell_is_readable_from_ring_to_clear();
  test_several_waiters_lose_no_event();
  return CHECK_RESULT();
}
