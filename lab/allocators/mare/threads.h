/* threads: which heap a thread has, from its first allocation to its end; what becomes of it then; fork. */
#ifndef MA_THREADS_H
#define MA_THREADS_H

#include "heap.h"

/* The calling thread's heap, or ma_nobody. */
extern __thread ma_heap *ma_mine __attribute__((tls_model("initial-exec")));

/* Gives a thread without a heap one. NULL: it is at its end, or there is no memory; then ma_common serves it. */
ma_heap *ma_thread_begin(void);

/* The heap that threads at their very end share, its lock held. */
ma_heap *ma_common(void);
void ma_common_done(void);

/* Heaps of threads that have ended give back what they can. 1: there was something. */
int ma_orphans_trim(void);

#endif
