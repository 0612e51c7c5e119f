/*
 * What a helper thread, a kept descriptor or a handler in this process would break: all descriptors closed and their numbers reused, a new user
 * namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <dirent.h>
#include <string.h>
#include <unistd.h>

static int others(const char *folder, int count)
{
  DIR *d = opendir(folder);
  while (readdir(d)) count--;
  closedir(d);
  return count != 0;
}

int main(void)
{
  struct sigaction old;
  *(volatile char *)malloc(7001) = 1;
  if (others("/proc/self/task", 3)) return 2; /* ., .., this thread */
  for (int s = 1; s < 65; s++)
    if (s != SIGKILL && s != SIGSTOP && sigaction(s, NULL, &old) == 0 && old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return 3;
  if (others("/proc/self/fd", 6)) return 4; /* ., .., 0, 1, 2, the folder */
  for (int i = 0; i < 100; i++) close(i);
  if (open("/dev/null", O_RDWR) != 0 || open("/dev/null", O_RDWR) != 1) return 5;
  *(volatile char *)malloc(7003) = 1;
  if (unshare(CLONE_NEWUSER) != 0 && errno != EPERM && errno != ENOSPC) return 6; /* EINVAL: there is a second thread */
  *(volatile char *)malloc(7005) = 1;
  return 0;
}
