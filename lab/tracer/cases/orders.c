/*
 * Does what its input says, line by line, and answers each with "done": for tests that attach in between.
 *
 *   main N SIZE      the main thread makes and drops N blocks
 *   threads N SIZE   each of three threads that live all the time does
 *   keep SIZE        one more block stays; drop: those are freed
 *   fork             a child that makes three threads of its own, and then waits
 *   child N SIZE     the child's threads, then its main thread
 *   exec             becomes itself again
 *   spin MS          for so long all threads make blocks and free each other's
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 3, KEPT = 1000 };
static pthread_barrier_t begin, end;
static int number, size;
static int spinning; /* ms; else the threads make and drop blocks */
static _Atomic(void *) slot[64];
static void *kept[KEPT];
static int keeping;

static void churn(int n, int bytes)
{
  for (int i = 0; i < n; i++) {
    void *volatile p = malloc((size_t)bytes);
    free(p);
  }
}

static void spin(int ms)
{
  struct timespec from, now;
  unsigned x = (unsigned)(uintptr_t)&from / 16;
  clock_gettime(CLOCK_MONOTONIC, &from);
  do {
    for (int i = 0; i < 1000; i++) {
      x = x * 1664525 + 1013904223;
      free(atomic_exchange(&slot[x >> 26], malloc(x >> 22)));
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000 < ms);
}

static void *serve(void *unused)
{
  for (;;) {
    pthread_barrier_wait(&begin);
    if (spinning) spin(spinning);
    else churn(number, size);
    pthread_barrier_wait(&end);
  }
  return unused;
}

static void make_threads(void)
{
  pthread_t id;
  pthread_barrier_init(&begin, NULL, THREADS + 1);
  pthread_barrier_init(&end, NULL, THREADS + 1);
  for (int i = 0; i < THREADS; i++)
    if (pthread_create(&id, NULL, serve, NULL) != 0) abort();
}

static void by_threads(void)
{
  pthread_barrier_wait(&begin);
  pthread_barrier_wait(&end);
}

static int to_child[2], from_child[2];

static void be_child(void)
{
  int order[2];
  close(to_child[1]);
  make_threads();
  if (write(from_child[1], "y", 1) != 1) _exit(1);
  while (read(to_child[0], order, sizeof order) == sizeof order) {
    number = order[0];
    size = order[1];
    by_threads();
    churn(number, size);
    if (write(from_child[1], "y", 1) != 1) _exit(1);
  }
  _exit(0);
}

static void answer_of_child(void)
{
  char c;
  if (read(from_child[0], &c, 1) != 1) abort();
}

int main(int argc, char **argv)
{
  char line[100];
  int order[2];
  make_threads();
  (void)argc;
  setvbuf(stdin, NULL, _IONBF, 0); /* exec goes on with the next line */
  while (fgets(line, sizeof line, stdin)) {
    if (sscanf(line, "main %d %d", &number, &size) == 2) churn(number, size);
    else if (sscanf(line, "threads %d %d", &number, &size) == 2) by_threads();
    else if (sscanf(line, "keep %d", &size) == 1 && keeping < KEPT) kept[keeping++] = malloc((size_t)size);
    else if (strcmp(line, "drop\n") == 0) while (keeping > 0) free(kept[--keeping]);
    else if (sscanf(line, "spin %d", &spinning) == 1) {
      by_threads();
      spinning = 0;
    }
    else if (strcmp(line, "exec\n") == 0) { dprintf(1, "done\n"); execv(argv[0], argv); abort(); }
    else if (strcmp(line, "fork\n") == 0) {
      if (pipe(to_child) != 0 || pipe(from_child) != 0) abort();
      if (fork() == 0) be_child();
      answer_of_child();
    } else if (sscanf(line, "child %d %d", &order[0], &order[1]) == 2) {
      if (write(to_child[1], order, sizeof order) != sizeof order) abort();
      answer_of_child();
    }
    dprintf(1, "done\n");
  }
  return 0;
}
