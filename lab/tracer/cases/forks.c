/*
 * Children without exec: by fork, by a raw clone, from a second thread. Each frees the block it inherited (7001 bytes), allocates 7003 bytes 100
 * times, begins with free(NULL) (which has no address to notice a fork by) and is waited for, while the parent goes on allocating 7005 bytes.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void child(void *inherited)
{
  free(NULL);
  free(inherited);
  for (int i = 0; i < 100; i++) *(volatile char *)malloc(7003) = 1;
  _exit(0);
}

static void *parent(void *raw)
{
  void *block = malloc(7001);
  long pid = raw ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
  if (pid == 0) child(block);
  for (int i = 0; i < 200; i++) *(volatile char *)malloc(7005) = 1;
  int status;
  while (waitpid((pid_t)pid, &status, 0) < 0) { }
  free(block);
  if (status) _exit(1);
  return NULL;
}

int main(void)
{
  pthread_t t;
  parent(NULL);
  parent("raw");
  pthread_create(&t, NULL, parent, NULL);
  pthread_join(t, NULL);
  return 0;
}
