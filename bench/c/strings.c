/*
 * The limit for passing a string: malloc and memcpy, with 8 blocks live (a receiver keeps some of what it gets).
 * strings SIZE COUNT prints "transfers N messages/s".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LIVE = 8 };

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The sum keeps the compiler from dropping the copies. */
static unsigned long deliver(const char *source, size_t size, long count)
{
  char *live[LIVE] = { 0 };
  unsigned long sum = 0;
  for (long i = 0; i < count; i++) {
    char *block = malloc(size);
    if (block == NULL) exit(1);
    memcpy(block, source, size);
    sum += (unsigned char)block[(size_t)i % size];
    free(live[i % LIVE]);
    live[i % LIVE] = block;
  }
  for (int i = 0; i < LIVE; i++) free(live[i]);
  return sum;
}

int main(int argc, char **argv)
{
  if (argc != 3) {
    fprintf(stderr, "usage: strings SIZE COUNT\n");
    return 2;
  }
  size_t size = (size_t)atol(argv[1]);
  long count = atol(argv[2]);
  char *source = malloc(size);
  if (source == NULL || size == 0) return 1;
  memset(source, 'x', size);
  unsigned long sum = deliver(source, size, count / 10 + LIVE);
  double start = now();
  sum += deliver(source, size, count);
  printf("transfers %.6g messages/s\n", (double)count / (now() - start));
  return sum == 0;
}
