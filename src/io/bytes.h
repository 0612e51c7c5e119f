/*
 * bytes: a queue of bytes outside all heaps, for what a socket holds between two calls. Empty it owns no memory: an idle connection
 * should cost little.
 */
#ifndef IO_BYTES_H
#define IO_BYTES_H

#include <stdlib.h>
#include <string.h>
#include "port/port.h"

typedef struct mr_bytes { char *data; size_t head, len, cap; } mr_bytes;   /* the content: data + head, len bytes */

#define mr_bytes_check(b) mr_assert((b)->head + (b)->len <= (b)->cap && ((b)->data || !(b)->cap) && ((b)->len || !(b)->head))

static inline const char *mr_bytes_at(const mr_bytes *b) { return b->data + b->head; }

static inline void mr_bytes_free(mr_bytes *b) {
  free(b->data);
  memset(b, 0, sizeof *b);
}

/* Room for n more bytes behind the content. 1: there is; 0: no memory, nothing changed. */
static inline int mr_bytes_reserve(mr_bytes *b, size_t n) {
  mr_bytes_check(b);
  if (b->cap - b->head - b->len >= n) return 1;
  if (n > (size_t)-1 / 4 - b->len) return 0;
  if (b->head && b->cap - b->len >= n && b->head >= b->cap / 2) {   /* half of it at least was used up: moving is cheap */
    memmove(b->data, b->data + b->head, b->len);
    b->head = 0;
    return 1;
  }
  size_t cap = b->len + n;
  if (b->len && cap < b->len * 2) cap = b->len * 2;
  char *p;
  if (b->head == 0) {
    p = realloc(b->data, cap);
    if (!p) return 0;
  } else {
    p = malloc(cap);
    if (!p) return 0;
    memcpy(p, b->data + b->head, b->len);
    free(b->data);
    b->head = 0;
  }
  b->data = p;
  b->cap = cap;
  return 1;
}

static inline int mr_bytes_add(mr_bytes *b, const char *p, size_t n) {
  if (n == 0) return 1;
  if (!mr_bytes_reserve(b, n)) return 0;
  memcpy(b->data + b->head + b->len, p, n);
  b->len += n;
  mr_bytes_check(b);
  return 1;
}

/* The first n bytes were used. */
static inline void mr_bytes_drop(mr_bytes *b, size_t n) {
  mr_assert(n <= b->len);
  b->head += n;
  b->len -= n;
  if (b->len == 0) mr_bytes_free(b);
}

#endif
