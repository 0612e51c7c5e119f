/*
 * A program with an allocator of its own: 64 MiB from mmap, touched, and 1 MiB from malloc. It stays for the launcher to look at it (reads standard
 * input to its end).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int main(void)
{
  char *own = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *p = malloc(1 << 20), byte;
  if (own == MAP_FAILED || !p) return 1;
  memset(own, 1, 64 << 20);
  memset(p, 1, 1 << 20);
  while (read(0, &byte, 1) > 0) { }
  return 0;
}
