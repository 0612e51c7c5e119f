/*
 * server N: a forking server. N children one after another each take 100 requests from a pipe (7001 bytes allocated and freed each) and leave by
 * _exit.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 100, fd[2];
  for (int i = 0; i < n; i++) {
    if (pipe(fd) != 0) return 1;
    pid_t pid = fork();
    if (pid == 0) {
      char byte;
      close(fd[1]);
      while (read(fd[0], &byte, 1) == 1) free(malloc(7001));
      _exit(0);
    }
    close(fd[0]);
    for (int k = 0; k < 100; k++)
      if (write(fd[1], "x", 1) != 1) return 1;
    close(fd[1]);
    if (waitpid(pid, NULL, 0) != pid) return 1;
  }
  return 0;
}
