/*
 * Each of 50 threads allocates 7001 bytes and leaves it to a TLS destructor, which allocates 7003, frees the first, and sets the key again, three
 * times over.
 */
#include <pthread.h>
#include <stdlib.h>

static pthread_key_t key;
struct block { int rounds; };

static void destroy(void *p)
{
  struct block *b = p;
  int rounds = b->rounds;
  if (rounds > 0) {
    struct block *next = malloc(7003);
    next->rounds = rounds - 1;
    pthread_setspecific(key, next);
  }
  free(b);
}

static void *work(void *none)
{
  struct block *b = malloc(7001);
  b->rounds = 3;
  pthread_setspecific(key, b);
  return none;
}

int main(void)
{
  pthread_t t;
  pthread_key_create(&key, destroy);
  for (int i = 0; i < 50; i++) {
    pthread_create(&t, NULL, work, NULL);
    pthread_join(t, NULL);
  }
  return 0;
}
