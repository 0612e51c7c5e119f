/* self: from /proc. */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include "port/self.h"

static size_t slurp(const char *path, char *buf, size_t size) {
  FILE *f = fopen(path, "re");
  if (!f) return buf[0] = 0;
  size_t n = fread(buf, 1, size - 1, f);
  fclose(f);
  buf[n] = 0;
  return n;
}

static uint64_t count_descriptors(void) {
  DIR *d = opendir("/proc/self/fd");
  uint64_t n = 0;
  for (struct dirent *e; d && (e = readdir(d)) != NULL; ) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n > 0 ? n - 1 : 0;                      /* one is the look itself */
}

/* Field 22 of stat, after the name in parentheses: ticks since the system's start. */
static double started(void) {
  char text[1024];
  slurp("/proc/self/stat", text, sizeof text);
  char *p = strrchr(text, ')');
  for (int i = 2; p && i < 22; i++)
    if ((p = strchr(p + 1, ' ')) == NULL) return 0;
  struct timespec up, wall;
  if (!p || clock_gettime(CLOCK_BOOTTIME, &up) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0) return 0;
  double since = strtod(p, NULL) / (double)sysconf(_SC_CLK_TCK);
  return (double)wall.tv_sec + (double)wall.tv_nsec * 1e-9 - ((double)up.tv_sec + (double)up.tv_nsec * 1e-9) + since;
}

void port_self_get(port_self *s) {
  char text[256];
  unsigned long long pages[2] = { 0, 0 };
  struct rlimit limit;
  slurp("/proc/self/statm", text, sizeof text);
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  if (sscanf(text, "%llu %llu", &pages[0], &pages[1]) != 2) pages[0] = pages[1] = 0;
  s->virtual_ = pages[0] * page;
  s->resident = pages[1] * page;
  s->descriptors = count_descriptors();
  s->most_descriptors = getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY ? (uint64_t)limit.rlim_cur : 0;
  s->started = started();
}

int port_self_pid(void) { return (int)getpid(); }

size_t port_command_of(int pid, char *buf, size_t size) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/cmdline", pid ? pid : (int)getpid());
  size_t n = slurp(path, buf, size);
  while (n > 0 && buf[n - 1] == 0) n--;
  for (size_t i = 0; i < n; i++)
    if (buf[i] == 0) buf[i] = ' ';
  return n;
}
