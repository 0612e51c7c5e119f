/*
 * image: new states without opening any.
 *
 * A state just opened is copied byte for byte into a new chunk, heap included, and every word that points into it is
 * shifted to its new place; so a clone costs a copy of a few KiB, in which each word is added to or not. Rewinding is the same
 * over a chunk that was in use. Only mr_image_new decides whether this can be done (template.c takes the image, image_check.c
 * puts it to the proof); afterwards the image is read-only and any thread may use it.
 *
 * An image with more in it needs no proof: the same is done in two clones, at two places. What differs between them by just as
 * much as their places do is a pointer; what does not differ is none, as each would lead into its own clone; and if anything
 * differs in another way there is no such image.
 */
#include "heap/image.h"
#include "heap/poison.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

/* ---- copying ---- */

enum { AT_ONCE = 8 };                            /* port_words: 256 bytes, and chunks are multiples of that */

static PORT_INLINE void shifted(port_words *to, const port_words *words, const port_words *pointers, size_t n) {
  uint64_t place = (uint64_t)(uintptr_t)to;
  port_words by = { place, place, place, place };
  for (const port_words *end = to + n / sizeof *to; to < end; to += AT_ONCE, words += AT_ONCE, pointers += AT_ONCE) {
    to[0] = words[0] + (pointers[0] & by);
    to[1] = words[1] + (pointers[1] & by);
    to[2] = words[2] + (pointers[2] & by);
    to[3] = words[3] + (pointers[3] & by);
    to[4] = words[4] + (pointers[4] & by);
    to[5] = words[5] + (pointers[5] & by);
    to[6] = words[6] + (pointers[6] & by);
    to[7] = words[7] + (pointers[7] & by);
  }
}

static void stamp_plain(const mr_image *im, void *to) { shifted(to, (const void *)im->words, (const void *)im->pointers, im->copied); }
static PORT_WIDE void stamp_wide(const mr_image *im, void *to) { shifted(to, (const void *)im->words, (const void *)im->pointers, im->copied); }

static void stamp(const mr_image *im, void *to) {
  if (port_wide()) stamp_wide(im, to);
  else stamp_plain(im, to);
}

int mr_image_room(mr_image *im) {
  size_t step = AT_ONCE * sizeof(port_words);
  im->copied = (im->size + step - 1) / step * step;
  im->words = port_lines_new(2 * im->copied);
  if (!im->words) return 0;
  im->pointers = im->words + im->copied / sizeof *im->words;
  return 1;
}

/* ---- states ---- */

lua_State *mr_image_clone(const mr_image *im, mr_heap **h) {
  mr_chunk *c = mr_pool_get(im->kind);
  if (!c) return NULL;
  stamp(im, c);
  MR_POISON((char *)c + im->size, im->chunk - im->size);
  *h = (mr_heap *)(void *)c;
  MR_CHECK_SOME(16, mr_heap_verify(*h));
  return (lua_State *)(void *)((char *)c + im->state);
}

void mr_image_leave(mr_heap *h) {
  MR_CHECK_SOME(16, mr_heap_verify(h));
  mr_heap_strip(h);
  h->large = NULL;
  h->chunk.next = NULL;
}

void mr_image_rewind(const mr_image *im, mr_heap *h) {
  char *to = (char *)h;
  mr_assert(!h->chunk.next && !h->large && h->chunk.kind == im->kind);
  MR_UNPOISON(to, im->chunk);
  stamp(im, to);
  memset(to + im->size, 0, im->chunk - im->size);   /* nothing of the last process is left to be read */
  MR_POISON(to + im->size, im->chunk - im->size);
  MR_CHECK_SOME(16, mr_heap_verify(h));
}

void mr_image_drop(mr_heap *h) {
  mr_assert(!h->chunk.next && !h->large);
  mr_pool_put(&h->chunk);
}

unsigned mr_image_kind(const mr_image *im) { return im->kind; }
unsigned mr_image_kind_of(const mr_heap *h) { return h->chunk.kind; }
size_t mr_image_size(const mr_image *im) { return im->size; }
size_t mr_image_used(const mr_image *im) { return im->used; }

void mr_image_prefetch(const mr_image *im, const lua_State *L) {
  const char *chunk = (const char *)L - im->state;
  for (size_t at = im->near; at < im->near_end; at += PORT_CACHELINE) PORT_PREFETCH(chunk + at);
  for (size_t at = im->size; at < im->chunk; at += PORT_CACHELINE) PORT_PREFETCH(chunk + at);
}

/* ---- images ---- */

enum { LARGER = 4096 };                          /* by so much are chunks for what does not fit; a multiple of what images move by */

mr_image *mr_image_new(mr_opener open) {
  mr_image *im = calloc(1, sizeof *im);
  if (!im) return NULL;
  if (mr_image_take(im, open)) {
    if (mr_image_proves(im, open)) return im;
    port_lines_free(im->words);
  }
  free(im);
  return NULL;
}

void mr_image_free(mr_image *im) {
  port_lines_free(im->words);
  free(im);
}

/* The chunk is of im's kind, whatever the image says that its bytes are from. */
static void widen(const mr_image *im, mr_heap *h) {
  h->chunk.size = (uint32_t)im->chunk;
  h->chunk.kind = im->kind;
  h->end = (char *)h + im->chunk;
  h->arena = h->widest = im->chunk;
}

/* A clone in which what was done is all there is in its chunk; NULL: it is not (*large), or could not be done. */
static mr_heap *changed(const mr_image *im, int (*add)(lua_State *L, void *ud), void *ud, int *large) {
  mr_heap *h;
  lua_State *L = mr_image_clone(im, &h);
  if (!L) return NULL;
  widen(im, h);
  MR_UNPOISON(h, im->chunk);
  memset((char *)h + im->size, 0, im->chunk - im->size);
  MR_POISON((char *)h + im->size, im->chunk - im->size);
  if (add(L, ud)) {
    if (!h->chunk.next && !h->large && h->end == (char *)h + im->chunk) return h;
    *large = 1;
  }
  mr_heap_drop(h);
  return NULL;
}

/* 0: they differ in more than their places. */
static int compare(mr_image *im, const mr_heap *a, const mr_heap *b) {
  const uint64_t *x = (const uint64_t *)(const void *)a, *y = (const uint64_t *)(const void *)b;
  uint64_t apart = (uint64_t)(uintptr_t)a - (uint64_t)(uintptr_t)b;
  for (size_t i = 0; i < im->size / sizeof *x; i++) {
    im->words[i] = x[i];
    if (x[i] == y[i]) continue;
    im->words[i] -= (uint64_t)(uintptr_t)a;
    im->pointers[i] = ~(uint64_t)0;
    if (x[i] - y[i] != apart) return 0;
  }
  return 1;
}

static mr_image *image_of(const mr_image *base, mr_heap *a, mr_heap *b) {
  mr_image *im = malloc(sizeof *im);
  if (!im) return NULL;
  *im = *base;
  im->size = (size_t)(a->bump - (char *)a);
  im->used = mr_heap_used(a);
  MR_UNPOISON(a, im->chunk);
  MR_UNPOISON(b, im->chunk);
  if (mr_image_room(im)) {
    if (im->copied <= im->chunk && compare(im, a, b)) return im;
    port_lines_free(im->words);
  }
  free(im);
  return NULL;
}

static mr_image *image_with(const mr_image *im, int (*add)(lua_State *L, void *ud), void *ud, int *large) {
  mr_heap *a = changed(im, add, ud, large), *b = a ? changed(im, add, ud, large) : NULL;
  mr_image *more = b ? image_of(im, a, b) : NULL;
  if (a) mr_image_drop(a);
  if (b) mr_image_drop(b);
  return more;
}

mr_image *mr_image_with(const mr_image *im, int (*add)(lua_State *L, void *ud), void *ud) {
  int large = 0;
  mr_image *more = image_with(im, add, ud, &large), larger = *im;
  if (more || !large) return more;
  larger.chunk += LARGER;
  int kind = mr_pool_kind_new(larger.chunk);
  if (kind < 0) return NULL;
  larger.kind = (unsigned)kind;
  return image_with(&larger, add, ud, &large);
}
