/*
 * budget: a limit that several heaps, and what lies between them, keep together.
 *
 * A process may have one, which its children share, and theirs; one of them may have a budget of its own inside it. Bytes are taken from a
 * budget and from all it lies in, or from none. A heap takes them ahead, in steps (mr_heap_budget): so allocations themselves cost nothing.
 *
 * Counted: who holds a pointer holds a reference. Any thread may call anything here.
 */
#ifndef MR_BUDGET_H
#define MR_BUDGET_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct mr_budget {
  atomic_size_t refs;
  atomic_size_t used;                /* never above limit */
  size_t limit;
  struct mr_budget *outer;           /* what it lies in, referenced; or NULL */
} mr_budget;

mr_budget *mr_budget_new(size_t limit, mr_budget *outer);   /* one reference; NULL: no memory */
void       mr_budget_retain(mr_budget *b);
void       mr_budget_release(mr_budget *b);
mr_budget *mr_budget_take(mr_budget *b, size_t n);          /* NULL: done; else the one that has not so much left */
void       mr_budget_give(mr_budget *b, size_t n);
static inline size_t mr_budget_used(mr_budget *b) { return atomic_load_explicit(&b->used, memory_order_relaxed); }

#endif
