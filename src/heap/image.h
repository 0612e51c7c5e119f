/* image: the inside of an image, for image.c, template.c and image_check.c alone. */
#ifndef MR_IMAGE_H
#define MR_IMAGE_H

#include "heap/arena.h"

struct mr_image {
  size_t size;             /* bytes of the heap, then of the state */
  size_t used;             /* of them what Lua has asked for */
  size_t chunk;            /* size of the chunks it is copied to */
  unsigned kind;
  size_t state;            /* offset of the lua_State */
  size_t near, near_end;   /* of what a process touches whenever it runs; behind it comes only its stack */
  uint64_t *words;         /* the bytes; those that point into the image hold offsets instead of addresses */
  uint64_t *pointers;      /* behind them, for each of the words: all ones if it is such a one, else 0 */
  size_t copied;           /* of each of the two; a multiple of what is copied at a time, 0 behind the end */
};

/* Room for the words and pointers of im->size bytes, all 0; 0: no memory. They are freed as one, by port_lines_free(im->words). */
int mr_image_room(mr_image *im);

/* Opens the template and takes its image; fails (0) on any doubt that can be seen in the bytes. */
int mr_image_take(mr_image *im, mr_opener open);
/* Runs clones of it and a normally opened state side by side; 0 if they differ in anything. */
int mr_image_proves(const mr_image *im, mr_opener open);

#endif
