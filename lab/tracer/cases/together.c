/* together THREADS BLOCKS SIZE: each thread allocates its blocks; once all have, they hold them for a second, and free them. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t all;
static long blocks;
static size_t size;

static void *work(void *unused)
{
  void **p = malloc((size_t)blocks * sizeof *p);
  for (long i = 0; i < blocks; i++) p[i] = malloc(size);
  pthread_barrier_wait(&all);
  sleep(1);
  for (long i = 0; i < blocks; i++) free(p[i]);
  free(p);
  return unused;
}

int main(int argc, char **argv)
{
  pthread_t t[64];
  if (argc != 4) return 2;
  unsigned n = (unsigned)atoi(argv[1]);
  if (n > 64) return 2;
  blocks = atol(argv[2]);
  size = (size_t)atol(argv[3]);
  pthread_barrier_init(&all, NULL, n);
  for (unsigned i = 0; i < n; i++) pthread_create(&t[i], NULL, work, NULL);
  for (unsigned i = 0; i < n; i++) pthread_join(t[i], NULL);
  return 0;
}
