/*
 * Blocks by size and lifetime together: how many, and of how many bytes, in classes that double. Class k holds what is above 2^(k-1) and at most 2^k (class 0:
 * 0 and 1), the last one all that is more; blocks that were never freed have a class of their own behind the lifetimes.
 */
#ifndef MARE_LAB_GRID_H
#define MARE_LAB_GRID_H

#include <stdint.h>
#include <stdio.h>

#define GR_CLASSES 40
#define GR_NEVER GR_CLASSES
#define GR_KINDS 4 /* short, medium, long, never freed */

typedef struct gr_cell { uint64_t number, bytes; } gr_cell;
typedef struct gr_grid {
  gr_cell operations[GR_CLASSES][GR_CLASSES + 1], milliseconds[GR_CLASSES][GR_CLASSES + 1], kinds[GR_CLASSES][GR_KINDS];
} gr_grid;

unsigned gr_class(uint64_t value);
void gr_died(gr_grid *g, uint64_t size, uint64_t operations, uint64_t milliseconds, unsigned kind);
void gr_outlived(gr_grid *g, uint64_t size);
void gr_print(FILE *f, const gr_grid *g);

#endif
