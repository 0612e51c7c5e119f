/*
 * buffer: the scratch buffer of each thread, and the larger pieces of reading and writing. See cdr.h.
 *
 * Invariants: while an mr_out writes, the thread's scratch is its buffer (start, end) and nobody else's. The buffer is freed when its thread
 * ends, and after a message that made it larger than KEEP_SIZE.
 */
#include <stdlib.h>
#include "cdr/cdr.h"
#include "cdr/giop.h"
#include "transfer/transfer.h"

#define FIRST_SIZE 1024
#define LARGE_SIZE ((size_t)1 << 16)
#define KEEP_SIZE  ((size_t)5 << 18)           /* a message with 1 MiB of data keeps its buffer */
#define MOST       ((size_t)1 << 31)           /* lengths are 32 bits wide, and offsets signed */
enum { LENGTH = 4 };                           /* bytes of a length */

static PORT_TLS struct { char *at; size_t size; int known; } scratch;

static void drop(void) {
  free(scratch.at);
  scratch.at = NULL;
  scratch.size = 0;
}

/* What writes now has the thread's buffer, all of it and nothing else. */
#define mr_out_check(o) \
  mr_assert((o)->start == scratch.at && (o)->end == scratch.at + scratch.size && (o)->start <= (o)->base && (o)->base <= (o)->at && (o)->at <= (o)->end)

static void give(mr_out *o) {
  o->start = scratch.at;
  o->end = scratch.at + scratch.size;
}

static void resize(mr_out *o, size_t size) {
  if (!scratch.known) scratch.known = port_thread_at_end(drop) == 0;
  char *at = size <= MOST ? realloc(scratch.at, size) : NULL;
  if (!at) mr_raise_memory(o->L);
  scratch.at = at;
  scratch.size = size;
}

void mr_out_begin(mr_out *o, lua_State *L, int little) {
  o->L = L;
  o->swap = !little != !CDR_NATIVE;
  if (PORT_UNLIKELY(!scratch.at)) resize(o, FIRST_SIZE);
  give(o);
  o->at = o->base = o->start;
}

void mr_out_grow(mr_out *o, size_t n) {
  mr_out_check(o);
  size_t length = mr_out_length(o), base = (size_t)(o->base - o->start), size = scratch.size;
  if (n > MOST - length) mr_raise_memory(o->L);
  while (size - length < n && size < LARGE_SIZE) size *= 2;
  if (size - length < n) size = (length + n + length / 4) / LARGE_SIZE * LARGE_SIZE + LARGE_SIZE;   /* doubled, it would not be kept */
  resize(o, size);
  give(o);
  o->at = o->start + length;
  o->base = o->start + base;
}

void mr_out_end(void) {
  if (PORT_UNLIKELY(scratch.size > KEEP_SIZE)) drop();
}

void mr_out_push(mr_out *o) {
  mr_out_check(o);
  lua_pushlstring(o->L, o->start, mr_out_length(o));
  mr_out_end();
}

void mr_out_leave(mr_out *o) {
  mr_out_check(o);
  (void)o;
  scratch.at = NULL;
  scratch.size = 0;
}

void mr_out_return(mr_out *o) {
  mr_assert(o->start <= o->base && o->base <= o->at && o->at <= o->end);
  free(scratch.at);
  scratch.at = o->start;
  scratch.size = (size_t)(o->end - o->start);
}

void mr_out_text(mr_out *o, const char *s, size_t n) {
  mr_out_u32(o, (uint32_t)n + 1);
  mr_out_bytes(o, s, n);
  mr_out_u8(o, 0);
}

/* The mark: where the length is, and how far behind the base. */
size_t mr_out_open(mr_out *o) {
  mr_out_u32(o, 0);
  size_t base = (size_t)(o->base - o->start);
  o->base = o->at;
  mr_out_u8(o, o->swap != CDR_NATIVE);
  return base;
}

void mr_out_close(mr_out *o, size_t mark) {
  mr_out_check(o);
  size_t from = (size_t)(o->base - o->start);
  mr_assert(from >= 4 && mark <= from);
  mr_out_patch32(o, from - 4, (uint32_t)(mr_out_length(o) - from));
  o->base = o->start + mark;
}

void mr_in_fail_at(mr_in *in, const char *at, const char *what) {
  if (in->bad) return;
  mr_assert(in->at <= in->end && in->origin <= at && at <= in->end);
  in->bad = what;
  in->bad_at = at;
  in->at = in->stop = in->end;
}

void mr_in_fail(mr_in *in, const char *what) { mr_in_fail_at(in, in->at, what); }

const char *mr_in_octets(mr_in *in, size_t *n) {
  *n = mr_in_u32(in);
  if (in->bad) return NULL;
  const char *p = mr_in_take(in, 1, *n);
  if (PORT_UNLIKELY(!p)) in->bad_at -= LENGTH;     /* it failed behind the length */
  return p;
}

const char *mr_in_text(mr_in *in, size_t *n) {
  const char *p = mr_in_octets(in, n);
  if (!p) return NULL;
  if (*n == 0 || p[*n - 1]) return mr_in_fail_at(in, p - LENGTH, "a string without the zero that ends it"), NULL;
  --*n;
  return p;
}

int mr_in_open(mr_in *in, mr_in *sub) {
  size_t n;
  const char *p = mr_in_octets(in, &n);
  if (!p) return 0;
  if (n == 0) { mr_in_fail(in, "an encapsulation without its byte order"); return 0; }
  mr_in_begin(sub, p, n, 1, *p & 1);
  return 1;
}

/* ---- seams ---- */

static uint32_t seam(const char *p) { return cdr_load32(p, CDR_LITTLE); }

void mr_in_cross(mr_in *in) {
  mr_assert(in->at <= in->end && in->stop <= in->end && in->base <= in->at);
  in->base = in->stop - GIOP_HEADER;             /* a piece's data counts from its own header */
  in->stop = in->nseams ? in->origin + seam(in->seams) : in->end;
  if (in->nseams) in->seams += 4, in->nseams--;
}

void mr_in_seams(mr_in *in) {
  size_t n = (size_t)(in->end - in->origin), last = GIOP_HEADER;
  uint32_t count = n >= 4 ? seam(in->end - 4) : 0;
  if (n < GIOP_HEADER + 4 || count > (n - GIOP_HEADER - 4) / 4) return mr_in_fail(in, "a message whose pieces are not known");
  in->end -= 4 + 4 * (size_t)count;
  n -= 4 + 4 * (size_t)count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t at = seam(in->end + 4 * (size_t)i);
    if (at < last || at > n) return mr_in_fail(in, "a message whose pieces are not known");
    last = at;
  }
  if (in->at > in->end) return mr_in_fail(in, "the bytes end before the value does");
  in->stop = in->end;
  in->seams = in->end;
  in->nseams = count;
  if (!count) return;
  const char *base = in->base;
  mr_in_cross(in);
  in->base = base;
  while (in->stop <= in->at && in->stop < in->end) mr_in_cross(in);
}

const char *mr_in_beyond(mr_in *in, size_t align, size_t n) {
  if (in->level) return mr_in_beyond_chunk(in, align, n);
  while (in->stop < in->end) {
    size_t gap = -(size_t)(in->at - in->base) & (align - 1), left = (size_t)(in->stop - in->at);
    if (left >= gap && left - gap >= n) break;
    if (left > gap) {                          /* it goes on behind the seam: bytes, or many numbers in a row */
      const char *p = in->at + gap;
      if ((align > 1 && n <= align) || align > 4 || n > (size_t)(in->end - p)) return mr_in_fail(in, "numbers broken by a fragment"), NULL;
      in->at = p + n;
      while (in->stop < in->at && in->stop < in->end) mr_in_cross(in);
      return p;
    }
    in->at = in->stop;
    mr_in_cross(in);
  }
  size_t gap = -(size_t)(in->at - in->base) & (align - 1), left = (size_t)(in->stop - in->at);
  if (left < gap || left - gap < n) return mr_in_fail(in, "the bytes end before the value does"), NULL;
  in->at += gap + n;
  return in->at - n;
}
