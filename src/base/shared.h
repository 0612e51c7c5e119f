/*
 * shared: what lives outside all heaps and is counted: transfer/transfer.h says how. Here because a fiber that waits names it, and src/run knows no more
 * of it than this.
 */
#ifndef MR_SHARED_H
#define MR_SHARED_H

#include <stdatomic.h>

struct mr_shared {
  const struct mr_sharetype *type;
  atomic_size_t refs;
  atomic_uint traced;                  /* what a trace calls it, see run/traced.c; 0: nothing yet */
};

#endif
