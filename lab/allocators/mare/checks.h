/*
 * checks: what the allocator's tests share. A block's content tells its size and who filled it, so that two blocks in one place are noticed.
 * With MA_PRIVATE the functions under test are linked in under names of their own (entries.h), else they are the preloaded library's.
 */
#ifndef MA_CHECKS_H
#define MA_CHECKS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef MA_PRIVATE
#include "entries.h"
#endif

#define WANT(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, errno); \
      _Exit(1); \
    } \
  } while (0)

/* xorshift: each test says its seed. */
static inline uint64_t next_random(uint64_t *x)
{
  *x ^= *x << 13;
  *x ^= *x >> 7;
  return *x ^= *x << 17;
}

/* Mostly small ones, a few of every kind. */
static inline size_t any_size(uint64_t *x)
{
  uint64_t r = next_random(x);
  unsigned kind = r % 1000;
  r >>= 16;
  if (kind < 850) return r % 512;
  if (kind < 970) return r % 8192;
  if (kind < 995) return r % (64 << 10);
  return kind < 999 ? r % (1 << 20) : r % (3 << 20);
}

/* Long blocks are filled at their ends. */
static inline void fill(void *p, size_t n, unsigned seed)
{
  unsigned char *c = p, mark = (unsigned char)(seed * 31 + n);
  size_t ends = n < 512 ? n : 256;
  memset(c, mark, ends);
  memset(c + n - ends, mark, ends);
}

static inline int filled(const void *p, size_t n, unsigned seed)
{
  const unsigned char *c = p;
  unsigned char mark = (unsigned char)(seed * 31 + n);
  size_t ends = n < 512 ? n : 256;
  for (size_t i = 0; i < ends; i++)
    if (c[i] != mark || c[n - 1 - i] != mark) return 0;
  return 1;
}

static inline int all_zero(const void *p, size_t n)
{
  const unsigned char *c = p;
  for (size_t i = 0; i < n; i++)
    if (c[i]) return 0;
  return 1;
}

/* The figure behind a word of one of the system's files about this program; without an allocation. */
static inline long told(const char *path, const char *word)
{
  char text[4096];
  int file = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t n = file >= 0 ? read(file, text, sizeof text - 1) : -1;
  WANT(n > 0 && close(file) == 0);
  text[n] = 0;
  const char *at = strstr(text, word);
  WANT(at);
  long figure = strtol(at + strlen(word), NULL, 10);
  WANT(figure > 0);
  return figure;
}

/* KiB of this program that are resident, and of its addresses that are mapped. */
static inline long resident(void) { return told("/proc/self/smaps_rollup", "Rss:"); }
static inline long mapped(void) { return told("/proc/self/status", "VmSize:"); }

#endif
