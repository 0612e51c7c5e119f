/*
 * exchange THREADS ROUNDS: threads swap blocks through shared slots, so that most are freed by another thread, and reallocate some. Blocks have odd
 * sizes below 600.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define SLOTS 256
static _Atomic(void *) slot[SLOTS];
static long rounds;
static pthread_barrier_t barrier; /* every 100 rounds, so that they truly mix on however few CPUs */

static void *work(void *seed)
{
  uint64_t x = (uint64_t)(uintptr_t)seed * 2654435761u + 1;
  for (long i = 0; i < rounds; i++) {
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    void *p = malloc((x >> 20) % 300 * 2 + 1);
    if (x % 7 == 0) p = realloc(p, (x >> 30) % 300 * 2 + 1);
    void *q = atomic_exchange(&slot[(x >> 8) % SLOTS], p);
    if (x % 5 == 0) q = realloc(q, (x >> 35) % 300 * 2 + 1);
    free(q);
    if (i % 100 == 0) pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 2;
  pthread_t t[64];
  rounds = argc > 2 ? atol(argv[2]) : 1000;
  pthread_barrier_init(&barrier, NULL, (unsigned)n);
  for (int i = 0; i < n; i++) pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1));
  for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
  for (int i = 0; i < SLOTS; i++) free(slot[i]);
  return 0;
}
