/*
 * chain N: allocates 7001 bytes N + 1 times in all, each in another image, as it goes through the exec family; on the way it replaces LD_PRELOAD,
 * or drops the environment altogether.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 9;
  char next[16], *self = "/proc/self/exe", *args[] = { argv[0], next, NULL };
  char *empty[] = { NULL }, *other[] = { "LD_PRELOAD=/nonexistent.so", "PATH=/usr/bin:/bin", NULL };
  *(volatile char *)malloc(7001) = 1;
  if (n == 0) return 0;
  snprintf(next, sizeof next, "%d", n - 1);
  switch (n % 10) {
    case 1: execl(self, argv[0], next, (char *)NULL); break;
    case 2: execle(self, argv[0], next, (char *)NULL, empty); break;
    case 3: execlp(self, argv[0], next, (char *)NULL); break;
    case 4: execv(self, args); break;
    case 5: execve(self, args, other); break;
    case 6: execvp(self, args); break;
    case 7: setenv("LD_PRELOAD", "/nonexistent.so", 1); execvpe(self, args, environ); break;
    case 8: fexecve(open(self, O_RDONLY | O_CLOEXEC), args, empty); break;
    case 9: {
      pid_t pid;
      int status;
      if (posix_spawn(&pid, self, NULL, NULL, args, other) != 0) return 1;
      return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
    }
    case 0: {
      pid_t pid = vfork();
      int status;
      if (pid == 0) { execve(self, args, empty); _exit(1); }
      return waitpid(pid, &status, 0) == pid ? WEXITSTATUS(status) : 1;
    }
  }
  return 1;
}
