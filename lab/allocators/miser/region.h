#ifndef MISER_REGION_H
#define MISER_REGION_H

#include "superblock.h"

int region_holds(const void *block); /* whether it lies in a superblock; any thread may ask */
superblock *region_carve(void);      /* a new one, all zero, or NULL; under the global heap's lock */

#endif
