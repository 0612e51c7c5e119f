/*
 * What one message costs between two states on one thread, in nanoseconds of CPU time: the median of `rounds` rounds of `ms`
 * milliseconds each. view = pack + unpack, sealed = pack + seal + unpack + free, fresh = the same with a new value each time.
 *
 * usage: bench/transfer.sh [-ag] [filter]      -a: Lua's memory from size classes, -g: generational collectors
 *        transfer -n times -s pack|view|sealed|fresh case       for counting instructions
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <lauxlib.h>
#include <lualib.h>
#include "median.h"
#include "transfer/packet.h"

enum { ROUNDS = 7, MS = 60 };

static uint64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static const char *const cases[][2] = {
  { "nothing", "return" },
  { "integer", "return 1" },
  { "4 scalars", "return 1, 2.5, true, nil" },
  { "short string", "return 'hello world'" },
  { "op + key + value", "return 'put', 'some key', 42" },
  { "{1,2}", "return {1, 2}" },
  { "{x=,y=}", "return {x = 1, y = 2}" },
  { "record in record", "return {id = 1, name = 'n', pos = {x = 1, y = 2}}" },
  { "100 integers", "local t = {} for i = 1, 100 do t[i] = i end return t" },
  { "1000 integers", "local t = {} for i = 1, 1000 do t[i] = i end return t" },
  { "1000 strings", "local t = {} for i = 1, 1000 do t[i] = 'string ' .. i end return t" },
  { "dictionary of 1000", "local t = {} for i = 1, 1000 do t['key ' .. i] = i end return t" },
  { "100 records", "local t = {} for i = 1, 100 do t[i] = {id = i, name = 'name ' .. i, pos = {x = i, y = -i}, tags = {'a', 'b', 'c'}} end return t" },
  { "deep 1000", "local t = {} for i = 1, 1000 do t = {t} end return t" },
  { "function", "local a, b = 1, 2 return function() return a + b end" },
  { "fresh function", "return function() return function() return 1 end end" },
  { "fresh, _ENV", "return function() local n = 1 return function() return print(n) end end" },
  { "fresh record", "local i = 0 return function() i = i + 1 return {id = i, name = 'n', pos = {x = i, y = 2}} end" },
  { "function, print", "local a = 1 return function() print(a) end" },
  { "module", "return string" },
  { "C function", "return string.format" },
  { "object", "local C = {} C.__index = C for i = 1, 20 do C['method' .. i] = function(self) return self.x + i end end return setmetatable({x = 1, y = 2}, C)" },
  { "string 10 KB", "return ('x'):rep(10000)" },
  { "string 100 KB", "return ('x'):rep(100000)" },
  { "string 1 MiB", "return ('x'):rep(1 << 20)" },
};

/* -a: an allocator of size classes, as processes have; without it, glibc's. */
static char *chunk;
static size_t left;
static void *classes[65];
static void *arena(void *ud, void *p, size_t was, size_t size) {
  (void)ud;
  if (!p) was = 0;
  size_t from = (was + 15) / 16, to = (size + 15) / 16;
  if (from == to && p) return p;
  void *q = NULL;
  if (size && to <= 64) {
    if ((q = classes[to]) != NULL) classes[to] = *(void **)q;
    else {
      if (left < to * 16) { chunk = malloc(left = 1 << 20); if (!chunk) abort(); }
      q = chunk + (left -= to * 16);
    }
  } else if (size) q = malloc(size);
  if (p && q) memcpy(q, p, was < size ? was : size);
  if (p && (q || !size)) {
    if (from <= 64) { *(void **)p = classes[from]; classes[from] = p; }
    else free(p);
  }
  return q;
}

static lua_State *from, *to;
static mr_packer *packer;

static void must(int ok) { if (!ok) { fprintf(stderr, "%s\n", lua_tostring(from, -1)); exit(1); } }

static void pack(int n) { must(mr_pack(packer, from, 1, n, "message") == 0); }

static void once_pack(int n) { pack(n); }

static void once_view(int n) {
  pack(n);
  mr_unpack_view(to, packer);
  lua_settop(to, 0);
}

static void once_sealed(int n) {
  pack(n);
  mr_message *m = mr_packer_seal(packer);
  mr_unpack(to, m);
  mr_message_free(m);
  lua_settop(to, 0);
}

/* Each time a new value of the same kind: what the case's last result, a function, returns. */
static void fresh(int n) {
  lua_pushvalue(from, n + 1);
  lua_call(from, 0, 1);
  lua_replace(from, n);
}
static void once_fresh(int n) { fresh(n); once_sealed(n); }

typedef struct way { const char *name; void (*once)(int); } way;
static const way ways[] = { { "pack", once_pack }, { "view", once_view }, { "sealed", once_sealed }, { "fresh", once_fresh } };

static double measure(void (*once)(int), int n) {
  double results[ROUNDS];
  for (int r = 0; r < ROUNDS; r++) {
    uint64_t start = now(), end;
    long count = 0, batch = 1;
    do {
      for (long i = 0; i < batch; i++) once(n);
      count += batch;
      if (batch < 1000) batch *= 2;
      end = now();
    } while (end - start < MS * UINT64_C(1000000));
    results[r] = (double)(end - start) / (double)count;
  }
  return median(results, ROUNDS);
}

static lua_State *open(int own, int gen) {
  lua_State *L = own ? lua_newstate(arena, NULL) : luaL_newstate();
  luaL_openlibs(L);
  if (gen) lua_gc(L, LUA_GCGEN, 0, 0);
  return L;
}

/* A receiver has a class of its own after the first object of it. */
static void hold(int n) {
  pack(n);
  if (mr_unpack_view(to, packer) && lua_istable(to, 1) && lua_getmetatable(to, 1)) lua_setfield(to, LUA_REGISTRYINDEX, "bench.class");
  lua_settop(to, 0);
}

static int prepare(size_t i, int own, int gen) {
  from = open(own, gen);
  to = open(own, gen);
  must(luaL_dostring(from, cases[i][1]) == 0);
  int n = lua_gettop(from);
  lua_pushnil(from);
  if (n && lua_isfunction(from, n)) {          /* cases whose result makes the value */
    if (strncmp(cases[i][0], "fresh", 5) == 0) {
      lua_pop(from, 1);
      lua_pushvalue(from, n);
      fresh(n);
    }
  }
  hold(n);
  return n;
}

static void row(size_t i, int own, int gen) {
  int n = prepare(i, own, gen), isfresh = lua_isfunction(from, n + 1);
  printf("%-20s", cases[i][0]);
  for (int w = 0; w < 3 + isfresh; w++) printf(" %10.1f", measure(ways[w].once, n));
  putchar('\n');
  lua_close(from);
  lua_close(to);
}

static void count(long times, const char *how, const char *which) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (strcmp(cases[i][0], which) != 0) continue;
    int n = prepare(i, 1, 1);
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
      if (strcmp(ways[w].name, how) == 0) for (long k = 0; k < times; k++) ways[w].once(n);
  }
}

int main(int argc, char **argv) {
  packer = mr_packer_new();
  if (argc == 6 && strcmp(argv[1], "-n") == 0) {
    count(atol(argv[2]), argv[4], argv[5]);
    return 0;
  }
  const char *options = argc > 1 && *argv[1] == '-' ? argv[1] : "";
  int gen = strchr(options, 'g') != NULL, own = strchr(options, 'a') != NULL;
  const char *filter = argc > 1 + !!*options ? argv[1 + !!*options] : "";
  printf("raw %d, %s collector, %s\n%-20s %10s %10s %10s %10s\n", mr_layout, gen ? "generational" : "incremental",
         own ? "size classes" : "malloc", "ns", "pack", "view", "sealed", "fresh");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strstr(cases[i][0], filter)) row(i, own, gen);
  mr_packer_free(packer);
  return 0;
}
