/* Requests that no machine can serve, from 2^59 to almost all of size_t: each fails and leaves what was there as it is. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
  char *p = malloc(1001);
  if (!p) return 1;
  memset(p, 'x', 1001);
  for (int bits = 59; bits < 63; bits++) {
    volatile size_t huge = (size_t)1 << bits;
    if (realloc(p, huge) || p[1000] != 'x') return 1;
  }
  volatile size_t most = PTRDIFF_MAX, third = SIZE_MAX / 3;
  if (malloc(most) || calloc(third, 2)) return 1;
  free(p);
  return 0;
}
