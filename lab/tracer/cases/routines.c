/*
 * Every routine once or more, with sizes that tell them apart; failures and odd arguments among them. Ends with 1 where the allocator does not do
 * as POSIX says.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
  volatile size_t huge = SIZE_MAX / 2 - 4096, twice = SIZE_MAX / 2;
  void *p = malloc(1001), *q = calloc(7, 143), *r = realloc(NULL, 1003), *a = NULL;
  if (!p || !q || !r || malloc(huge) || calloc(twice, 3)) return 1;
  memset(p, 'x', 1001);
  errno = 0;
  if (realloc(p, huge) || errno != ENOMEM || *(char *)p != 'x') return 1;
  if (reallocarray(r, twice, 3) || !(r = reallocarray(r, 5, 201))) return 1;
  p = realloc(p, 100001);
  q = realloc(q, 0);
  if (posix_memalign(&a, 64, 1007) || (uintptr_t)a % 64) return 1;
  void *b = aligned_alloc(128, 1024), *c = memalign(256, 1009), *d = valloc(1011);
  if (!b || !c || !d || (uintptr_t)c % 256 || posix_memalign(&a, 3, 8) != EINVAL) return 1;
  errno = 77;
  free(NULL);
  free(p);
  free(r);
  free(a);
  free(b);
  free(c);
  free(d);
  return errno == 77 ? 0 : 1;
}
