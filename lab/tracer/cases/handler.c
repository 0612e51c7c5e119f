/*
 * handler N: a signal handler allocates and frees 703 bytes as often as a timer fires (until it has 200 times at least), while the program
 * allocates and frees 701 bytes N times. To be run over an allocator that allows this (bump). Prints how often each was done.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>

static volatile sig_atomic_t fired;

static void on_alarm(int sig)
{
  (void)sig;
  void *p = malloc(703);
  free(realloc(p, 707));
  fired++;
}

int main(int argc, char **argv)
{
  long n = argc > 1 ? atol(argv[1]) : 100000, i;
  struct sigaction a = { .sa_handler = on_alarm };
  struct itimerval often = { { 0, 50 }, { 0, 50 } }, never = { { 0, 0 }, { 0, 0 } };
  sigaction(SIGALRM, &a, NULL);
  setitimer(ITIMER_REAL, &often, NULL);
  for (i = 0; i < n || fired < 200; i++) free(realloc(malloc(701), 705));
  setitimer(ITIMER_REAL, &never, NULL);
  printf("%ld %d\n", i, (int)fired);
  return 0;
}
