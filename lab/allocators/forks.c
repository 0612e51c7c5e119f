/* A program with a library whose handlers of forks allocate and wait for its thread (forks_library.c): it forks, and so do its children. */
#include "tests.h"
#include <sys/wait.h>
#include <unistd.h>

extern void use_memory(void);
extern int library_runs(void);

static void fork_and_wait(int deeper)
{
  pid_t child = fork();
  WANT(child >= 0 && library_runs());
  use_memory();
  if (!child) {
    alarm(30); /* a child inherits none */
    if (deeper) fork_and_wait(deeper - 1);
    _exit(0);
  }
  int status;
  WANT(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
  alarm(30); /* one that waits for a lock for ever ends */
  for (int i = 0; i < 5; i++) fork_and_wait(1);
  puts("ok");
  return 0;
}
