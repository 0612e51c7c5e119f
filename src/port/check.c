/*
 * check: see check.h. Each thread keeps a list of the locks it holds; so a check looks at nothing that another thread writes.
 *
 * A lock may be tried out of order, as that waits for nobody, but counts as held from then on.
 */
#include "port/port.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef MR_CHECKS

enum { MOST = 16 };

typedef struct { const void *lock; unsigned rank; const char *file; int line; } held;
static PORT_TLS held own[MOST];
static PORT_TLS unsigned nown, turns;

PORT_NORETURN void port_check_failed(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  abort();
}

PORT_NORETURN static void fail(const char *file, int line, const char *what, const held *h) {
  fprintf(stderr, "%s:%d: check failed: %s, which this thread took at %s:%d\n", file, line, what, h->file, h->line);
  abort();
}

/* Which of two locks comes first in the order. */
static unsigned order(unsigned rank) { return rank == PORT_RANK_INNER ? ~0u : rank; }

static const held *find(const void *lock) {
  for (unsigned i = 0; i < nown; i++)
    if (own[i].lock == lock) return &own[i];
  return NULL;
}

int port_check_holds(const void *lock) { return find(lock) != NULL; }

void port_check_taking(const void *lock, unsigned rank, const char *file, int line) {
  const held *h = find(lock);
  if (h) fail(file, line, "it waits for a lock", h);
  for (unsigned i = 0; i < nown; i++)
    if (order(own[i].rank) >= order(rank)) fail(file, line, "a lock is taken out of order, under one", &own[i]);
}

void port_check_taken(const void *lock, unsigned rank, const char *file, int line) {
  if (nown == MOST) port_check_failed(file, line, "a thread holds too many locks");
  own[nown++] = (held){ lock, rank, file, line };
}

void port_check_leaving(const void *lock, const char *file, int line) {
  const held *h = find(lock);
  if (!h) port_check_failed(file, line, "a lock is released that this thread does not hold");
  own[h - own] = own[--nown];
}

void port_check_unlocked(const char *file, int line) {
  for (unsigned i = 0; i < nown; i++)
    if (order(own[i].rank) >= PORT_RANK_SHORT) fail(file, line, "it may sleep, or run Lua, under a lock", &own[i]);
}

int port_check_turn(unsigned n) { return turns++ % n == 0; }

#endif
