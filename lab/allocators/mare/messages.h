/*
 * messages: blocks that other threads freed, on their way to the heap that they belong to. Anyone pushes, one block at a time; the owner alone
 * takes, and takes all. So no block that is on the list can come back to it while somebody pushes, and a compare-and-swap of the head suffices.
 *
 * What the sender did to the block happens before what the owner does to it: pushed with release, taken with acquire. Both are whole fences between
 * this list and `ma_heap.orphan`, see ma_heap_send.
 */
#ifndef MA_MESSAGES_H
#define MA_MESSAGES_H

#include <stdatomic.h>
#include <stddef.h>

typedef struct ma_block { struct ma_block *next; } ma_block;

typedef struct { _Atomic(ma_block *) head; } ma_messages;

static inline void ma_messages_push(ma_messages *m, ma_block *b)
{
  ma_block *head = atomic_load_explicit(&m->head, memory_order_relaxed);
  do b->next = head;
  while (!atomic_compare_exchange_weak_explicit(&m->head, &head, b, memory_order_seq_cst, memory_order_relaxed));
}

static inline int ma_messages_any(ma_messages *m)
{
  return atomic_load_explicit(&m->head, memory_order_relaxed) != NULL;
}

/* All of them, the last first. */
static inline ma_block *ma_messages_take(ma_messages *m)
{
  return atomic_exchange_explicit(&m->head, NULL, memory_order_seq_cst);
}

#endif
