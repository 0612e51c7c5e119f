/*
 * test: what C tests share. A failed CHECK is printed and counted; the test goes on. In builds with checks CHECK_DIES runs a function in a child
 * and expects that a check ends it with that text; call it before the test starts threads.
 */
#ifndef PORT_TEST_H
#define PORT_TEST_H

#include "port/port.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int test_failures;

#define CHECK(x) ((x) ? (void)0 : test_failed(#x, __FILE__, __LINE__))
#define CHECK_RESULT() (atomic_load(&test_failures) ? 1 : 0)

static inline void test_failed(const char *what, const char *file, int line) {
  if (atomic_fetch_add(&test_failures, 1) < 20) fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

/* What fn writes to stderr before its process ends; *status: how that ended. */
static inline size_t test_child(void (*fn)(void), char *said, size_t size, int *status) {
  int fd[2];
  size_t len = 0;
  ssize_t n;
  if (pipe(fd) != 0) abort();
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
    dup2(fd[1], 2);
    close(fd[0]);
    close(fd[1]);
    alarm(20);
    fn();
    _exit(0);
  }
  close(fd[1]);
  while (len + 1 < size && (n = read(fd[0], said + len, size - 1 - len)) > 0) len += (size_t)n;
  said[len] = 0;
  close(fd[0]);
  waitpid(pid, status, 0);
  return len;
}

static inline void test_dies(void (*fn)(void), const char *text, const char *file, int line) {
  static char said[65536];
  int status;
  test_child(fn, said, sizeof said, &status);
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(said, "check failed") && strstr(said, text)) return;
  test_failed(text, file, line);
  fprintf(stderr, "it ended with status %d and said: %s\n", status, said);
}

#ifdef MR_CHECKS
#define CHECK_DIES(fn, text) test_dies(fn, text, __FILE__, __LINE__)
#else
#define CHECK_DIES(fn, text) ((void)(fn), (void)test_dies)
#endif

/* The next number of a sequence that is the same in every run. */
static inline unsigned test_random(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (unsigned)(*seed >> 33);
}

#endif
