/* threads N AT-ONCE: N short threads, so many at once; each allocates and frees 7001 bytes. */
#include <pthread.h>
#include <stdlib.h>

static void *work(void *none)
{
  free(malloc(7001));
  return none;
}

int main(int argc, char **argv)
{
  int n = argc > 1 ? atoi(argv[1]) : 100, many = argc > 2 ? atoi(argv[2]) : 10;
  pthread_t *t = malloc((size_t)many * sizeof *t);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < n; i += many) {
    for (int k = 0; k < many; k++)
      if (pthread_create(&t[k], &small, work, NULL) != 0) return 1;
    for (int k = 0; k < many; k++) pthread_join(t[k], NULL);
  }
  free(t);
  return 0;
}
