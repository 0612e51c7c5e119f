/* probe: see probe.h. */
#include <stdlib.h>
#include "lua/probe.h"

/* A new block is announced with the type of what it is for; the first thread is the main one. */
void *mr_probe_alloc(void *probe, void *ptr, size_t osize, size_t nsize) {
  mr_probe *p = probe;
  if (nsize == 0) {
    free(ptr);
    return NULL;
  }
  void *q = realloc(ptr, nsize);
  if (q && !ptr && osize == LUA_TTHREAD && !p->block) {
    p->block = q;
    p->size = nsize;
  }
  return q;
}
