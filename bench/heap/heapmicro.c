/*
 * heapmicro: single operations of mare's heap beside malloc's, in one OS process, interleaved.
 *
 *   heapmicro [-n repetitions] [-o result.json]
 *
 * Prints medians of nanoseconds of CPU time an operation. "states" open the basic library on both; a clone and a rewound state are
 * mare's way to a new state, opening one on malloc is the other's.
 */
#include "common.h"
#include "heap/heap.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct side { lua_Alloc f; mr_heap *h; } side;
static mr_image *image;

/* ---- operations: each returns nanoseconds per operation ---- */

static double pair(side *s) {
  enum { N = 2000000 };
  double from = now();
  for (int i = 0; i < N; i++) s->f(s->h, s->f(s->h, NULL, 0, 56), 56, 0);
  return (now() - from) / N;
}

/* Lua's sizes, freed in another order. */
static double batch(side *s) {
  enum { N = 10000, ROUNDS = 40 };
  static const unsigned short sizes[] = {56, 24, 40, 56, 32, 48, 64, 56, 40, 96, 128, 24, 33, 192, 80, 56};
  static void *p[N];
  double from = now();
  for (int r = 0; r < ROUNDS; r++) {
    for (int i = 0; i < N; i++) {
      p[i] = s->f(s->h, NULL, 0, sizes[i % 16]);
      *(int *)p[i] = i;
    }
    for (int i = 0, j = 0; i < N; i++, j = (j + 7919) % N) s->f(s->h, p[j], sizes[j % 16], 0);
  }
  return (now() - from) / N / ROUNDS;
}

static double ring(side *s, size_t size, int n) {
  static char *p[8];
  static char source[(1 << 20) + 64];
  memset(source, 1, sizeof source);
  double from = 0;
  for (int i = -16; i < n; i++) {            /* the first ones meet pages that were never touched */
    if (i == 0) from = now();
    char **slot = &p[(i + 16) % 8];
    if (*slot) s->f(s->h, *slot, size, 0);
    *slot = s->f(s->h, NULL, 0, size);
    memcpy(*slot, source + (i + 16) % 3, size);
  }
  double t = (now() - from) / n;
  for (int i = 0; i < 8; i++) {
    s->f(s->h, p[i], size, 0);
    p[i] = NULL;
  }
  return t;
}

static double ring_100k(side *s) { return ring(s, 100000, 8000); }
static double ring_1m(side *s) { return ring(s, (1 << 20) + 25, 1000); }

/* A table or buffer that doubles up to 32 MiB. */
static double growth(side *s) {
  enum { N = 5 };
  double from = now();
  for (int i = 0; i < N; i++) {
    size_t n = 64;
    char *p = s->f(s->h, NULL, 0, n);
    for (; n < 32 << 20; n *= 2) {
      p = s->f(s->h, p, n, 2 * n);
      memset(p + n, 1, n);
    }
    s->f(s->h, p, n, 0);
  }
  return (now() - from) / N;
}

static lua_State *open_base(lua_Alloc f, void *ud) {
  lua_State *L = lua_newstate(f, ud);
  if (!L) return NULL;
  luaL_requiref(L, "_G", luaopen_base, 1);
  lua_settop(L, 0);
  return L;
}

static double state(side *s) {
  enum { N = 3000 };
  double from = now();
  for (int i = 0; i < N; i++) {
    mr_heap *h;
    if (s->h) {
      mr_image_clone(image, &h);
      mr_heap_drop(h);
    } else lua_close(open_base(s->f, NULL));
  }
  return (now() - from) / N;
}

static double rewound(side *s) {
  enum { N = 3000 };
  if (!s->h) return state(s);
  mr_heap *h;
  mr_image_clone(image, &h);
  double from = now();
  for (int i = 0; i < N; i++) mr_image_rewind(image, h);
  double t = (now() - from) / N;
  mr_heap_drop(h);
  return t;
}

static double many(side *s, int dropping) {
  enum { N = 10000 };
  static mr_heap *h[N];
  static lua_State *L[N];
  double start = now();
  for (int i = 0; i < N; i++) L[i] = s->h ? mr_image_clone(image, &h[i]) : open_base(s->f, NULL);
  double middle = now();
  for (int i = 0; i < N; i++) if (s->h) mr_heap_drop(h[i]); else lua_close(L[i]);
  double end = now();
  mr_pool_trim();
  return (dropping ? end - middle : middle - start) / N;
}

static double many_made(side *s) { return many(s, 0); }
static double many_dropped(side *s) { return many(s, 1); }

/* ---- */

typedef struct row { const char *name; double (*run)(side *); } row;
static const row rows[] = {
  {"56 bytes, made and freed", pair}, {"10,000 of Lua's sizes", batch},
  {"100 KB with memcpy, 8 live", ring_100k}, {"1 MiB with memcpy, 8 live", ring_1m}, {"a block grows to 32 MiB", growth},
  {"state made and ended", state}, {"state rewound", rewound}, {"10,000 states: make one", many_made},
  {"10,000 states: end one", many_dropped}};
enum { ROWS = sizeof rows / sizeof *rows, MOST = 101 };

int main(int argc, char **argv) {
  static double t[2][ROWS][MOST];
  int n = 5, c;
  const char *out = "/dev/null";
  while ((c = getopt(argc, argv, "n:o:")) != -1) switch (c) {
    case 'n': n = atoi(optarg); break;
    case 'o': out = optarg; break;
    default: return 2;
  }
  if (n < 1 || n > MOST) return 2;
  FILE *json = fopen(out, "w");
  if (!json) { perror(out); return 1; }
  side sides[2] = {{mr_heap_alloc, mr_heap_new(0)}, {with_malloc, NULL}};
  image = mr_image_new(open_base);
  if (!sides[0].h || !image) {
    fprintf(stderr, "heapmicro: no image can be made here\n");
    return 1;
  }
  for (int i = 0; i < n; i++) for (int r = 0; r < ROWS; r++) for (int s = 0; s < 2; s++) t[s][r][i] = 1e9 * rows[r].run(&sides[s]);
  printf("%-28s %12s %12s %7s\n", "ns an operation", "mare", "malloc", "ratio");
  fprintf(json, "{\"repetitions\": %d, \"unit\": \"ns\", \"rows\": [\n", n);
  for (int r = 0; r < ROWS; r++) {
    double a = median(t[0][r], n), b = median(t[1][r], n);
    printf("%-28s %12.1f %12.1f %7.2f\n", rows[r].name, a, b, b / a);
    fprintf(json, "  {\"name\": \"%s\", \"mare\": %.2f, \"malloc\": %.2f}%s\n", rows[r].name, a, b, r < ROWS - 1 ? "," : "");
  }
  fprintf(json, "]}\n");
  fclose(json);
  return 0;
}
