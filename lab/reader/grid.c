/* See grid.h. */
#include "grid.h"
#include <inttypes.h>

unsigned gr_class(uint64_t value)
{
  if (value < 2) return 0;
  unsigned c = 64u - (unsigned)__builtin_clzll(value - 1);
  return c < GR_CLASSES ? c : GR_CLASSES - 1;
}

static void add(gr_cell *c, uint64_t size)
{
  c->number++;
  c->bytes += size;
}

void gr_died(gr_grid *g, uint64_t size, uint64_t operations, uint64_t milliseconds, unsigned kind)
{
  unsigned row = gr_class(size);
  add(&g->operations[row][gr_class(operations)], size);
  add(&g->milliseconds[row][gr_class(milliseconds)], size);
  add(&g->kinds[row][kind], size);
}

void gr_outlived(gr_grid *g, uint64_t size)
{
  unsigned row = gr_class(size);
  add(&g->operations[row][GR_NEVER], size);
  add(&g->milliseconds[row][GR_NEVER], size);
  add(&g->kinds[row][GR_KINDS - 1], size);
}

static void cells(FILE *f, const char *name, const gr_cell *c, unsigned width, const char *end)
{
  const char *comma = "";
  fprintf(f, "\"%s\": [", name);
  for (unsigned i = 0; i < GR_CLASSES * width; i++) {
    if (!c[i].number) continue;
    fprintf(f, "%s[%u, %u, %" PRIu64 ", %" PRIu64 "]", comma, i / width, i % width, c[i].number, c[i].bytes);
    comma = ", ";
  }
  fprintf(f, "]%s", end);
}

/* Each cell that is not empty: class of sizes, class of lifetimes, number, bytes. */
void gr_print(FILE *f, const gr_grid *g)
{
  fprintf(f, " \"grid\": {\"never\": %d, ", GR_NEVER);
  cells(f, "operations", g->operations[0], GR_CLASSES + 1, ",\n  ");
  cells(f, "milliseconds", g->milliseconds[0], GR_CLASSES + 1, ",\n  ");
  cells(f, "kinds", g->kinds[0], GR_KINDS, "},\n");
}
