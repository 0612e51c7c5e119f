/* image: the inside of an image, for image.c, template.c and image_check.c alone. */
#ifndef MR_IMAGE_H
#define MR_IMAGE_H

#include "heap/arena.h"

struct mr_image {
  size_t size;             /* bytes that are copied: the heap, then the state */
  size_t chunk;            /* size of the chunks it is copied to */
  unsigned kind;
  size_t state;            /* offset of the lua_State */
  size_t near, near_end;   /* of what a process touches whenever it runs; behind it comes only its stack */
  size_t pointers;
  uint16_t *offsets;       /* words that point into the image, counted in words from its start */
  char *bytes;             /* such words hold offsets instead of addresses */
  size_t mapped;
};

/* Opens the template and takes its image; fails (0) on any doubt that can be seen in the bytes. */
int mr_image_take(mr_image *im, mr_opener open);
/* Finds finobj and tobefnz. */
/* Runs clones of it and a normally opened state side by side; 0 if they differ in anything. */
int mr_image_proves(const mr_image *im, mr_opener open);

#endif
