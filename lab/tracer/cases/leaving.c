/*
 * leaving exit|_exit|kill: ends while three threads allocate 7003 bytes over and over, after each has done so 1000 times and main has allocated
 * 7001 bytes 500 times.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sched.h>
#include <unistd.h>

static _Atomic int ready;

static void *work(void *none)
{
  for (int i = 0;; i++) {
    free(malloc(7003));
    if (i == 1000) ready++;
  }
  return none;
}

int main(int argc, char **argv)
{
  const char *how = argc > 1 ? argv[1] : "exit";
  pthread_t t;
  for (int i = 0; i < 3; i++) pthread_create(&t, NULL, work, NULL);
  while (ready < 3) sched_yield();
  for (int i = 0; i < 500; i++) *(volatile char *)malloc(7001) = 1;
  if (strcmp(how, "kill") == 0) kill(getpid(), SIGKILL);
  if (strcmp(how, "_exit") == 0) _exit(0);
  exit(0);
}
