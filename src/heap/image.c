/*
 * image: new states without opening any.
 *
 * A state just opened is copied byte for byte into a new chunk, heap included, and every word that points into it is
 * shifted to its new place; so a clone costs a copy of a few KiB and some hundred additions. Rewinding is the same over
 * a chunk that is in use. Only mr_image_new decides whether this can be done (template.c takes the image, image_check.c
 * puts it to the proof); afterwards the image is read-only and any thread may use it.
 */
#include "heap/image.h"
#include "heap/poison.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

mr_image *mr_image_new(mr_opener open) {
  mr_image *im = calloc(1, sizeof *im);
  if (!im) return NULL;
  if (mr_image_take(im, open)) {
    if (mr_image_proves(im, open)) return im;
    port_pages_release(im->bytes, im->mapped);
  }
  free(im);
  return NULL;
}

void mr_image_free(mr_image *im) {
  port_pages_release(im->bytes, im->mapped);
  free(im);
}

size_t mr_image_size(const mr_image *im) { return im->size; }

static void stamp(const mr_image *im, char *to) {
  memcpy(to, im->bytes, im->size);
  uint64_t *words = (uint64_t *)(void *)to;
  for (size_t i = 0; i < im->pointers; i++) words[im->offsets[i]] += (uint64_t)(uintptr_t)to;
}

lua_State *mr_image_clone(const mr_image *im, mr_heap **h) {
  mr_chunk *c = mr_pool_get(im->kind);
  if (!c) return NULL;
  stamp(im, (char *)c);
  MR_POISON((char *)c + im->size, im->chunk - im->size);
  *h = (mr_heap *)(void *)c;
  MR_CHECK_SOME(16, mr_heap_verify(*h));
  return (lua_State *)(void *)((char *)c + im->state);
}

void mr_image_rewind(const mr_image *im, mr_heap *h) {
  char *to = (char *)h;
  MR_CHECK_SOME(16, mr_heap_verify(h));
  mr_heap_strip(h);
  MR_UNPOISON(to, im->chunk);
  stamp(im, to);
  memset(to + im->size, 0, im->chunk - im->size);   /* nothing of the last process is left to be read */
  MR_POISON(to + im->size, im->chunk - im->size);
}

void mr_image_prefetch(const mr_image *im, const lua_State *L) {
  const char *chunk = (const char *)L - im->state;
  for (size_t at = im->near; at < im->near_end; at += PORT_CACHELINE) PORT_PREFETCH(chunk + at);
  for (size_t at = im->size; at < im->chunk; at += PORT_CACHELINE) PORT_PREFETCH(chunk + at);
}
