/*
 * This process's memory, read without the C library's streams, so that no buffer of theirs is allocated while the allocator is being measured.
 * VmHWM can be set back through clear_refs; where that isn't allowed, the peak is at least what is resident.
 */
#define _GNU_SOURCE
#include "engine.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Thread_local char text[4096]; /* both files have less than 2,000 bytes */

static int read_file(const char *path)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  size_t have = 0;
  if (fd < 0) return 0;
  for (ssize_t n; have < sizeof text - 1 && (n = read(fd, text + have, sizeof text - 1 - have)) > 0;) have += (size_t)n;
  close(fd);
  text[have] = 0;
  return have > 0;
}

static uint64_t kilobytes(const char *path, const char *name)
{
  if (!read_file(path)) return 0;
  const char *line = strstr(text, name);
  return line ? strtoull(line + strlen(name), NULL, 10) * 1024 : 0;
}

uint64_t mem_resident(void)
{
  uint64_t exact = kilobytes("/proc/self/smaps_rollup", "\nRss:");
  return exact ? exact : kilobytes("/proc/self/status", "\nVmRSS:");
}

uint64_t mem_anonymous(void)
{
  uint64_t exact = kilobytes("/proc/self/smaps_rollup", "\nAnonymous:");
  return exact ? exact : kilobytes("/proc/self/status", "\nRssAnon:");
}

uint64_t mem_peak(void)
{
  uint64_t peak = kilobytes("/proc/self/status", "\nVmHWM:"), now = mem_resident();
  return peak > now ? peak : now;
}

/* The kernel counts resident pages per CPU, in batches (since 6.2; per thread, 64 at a time, before). */
uint64_t mem_grain(void)
{
  long cpus = sysconf(_SC_NPROCESSORS_ONLN), batch = 2 * cpus > 64 ? 2 * cpus : 64;
  return (uint64_t)(cpus * batch) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void mem_forget_peak(void)
{
  int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  if (write(fd, "5", 1) < 0) { /* then VmHWM still holds the preparation: it is not above what is resident now */ }
  close(fd);
}
