/*
 * heapbench: runs Lua scripts on mare's heap, on glibc's malloc and on mimalloc, interleaved, each run in an OS process
 * of its own; prints medians of time and of peak resident memory, and writes them as JSON.
 *
 *   heapbench [-n repetitions] [-s scale] -m libmimalloc.so [-o result.json] script.lua...
 *
 * A run is this program again, as `heapbench --run heap|malloc script scale`; it prints seconds and KiB. Seconds are
 * CPU time of the script, without opening and closing the state: neighbours disturb it less than the clock on the wall.
 */
#include "common.h"
#include "heap/heap.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

/* ---- one run ---- */

static long peak_kib(void) {
  char line[200];
  long kib = 0;
  FILE *f = fopen("/proc/self/status", "r");
  while (f && fgets(line, sizeof line, f)) sscanf(line, "VmHWM: %ld", &kib);
  if (f) fclose(f);
  return kib;
}

static int run(const char *how, const char *script, const char *scale) {
  mr_heap *h = strcmp(how, "heap") == 0 ? mr_heap_new(0) : NULL;
  lua_State *L = lua_newstate(h ? mr_heap_alloc : with_malloc, h);
  if (!L) return 1;
  luaL_openlibs(L);
  if (luaL_loadfile(L, script) != LUA_OK) goto fail;
  lua_pushstring(L, scale);
  double from = now();
  if (lua_pcall(L, 1, 1, 0) != LUA_OK) goto fail;
  double time = now() - from;
  printf("%.6f %ld %s\n", time, peak_kib(), luaL_tolstring(L, -1, NULL));
  return 0;
fail:
  fprintf(stderr, "%s\n", lua_tostring(L, -1));
  return 1;
}

/* ---- all runs ---- */

enum { WAYS = 3, MOST = 100 };
static const char *const ways[WAYS] = {"mare", "glibc", "mimalloc"};
static const char *mimalloc;

typedef struct sample { double time[MOST], kib[MOST]; char result[64]; } sample;

static int start(const char *self, int way, const char *script, const char *scale, sample *s, int i) {
  char command[2000];
  snprintf(command, sizeof command, "%s%s '%s' --run %s '%s' %s", way == 2 ? "LD_PRELOAD=" : "", way == 2 ? mimalloc : "",
           self, way == 0 ? "heap" : "malloc", script, scale);
  FILE *p = popen(command, "r");
  if (!p) return 0;
  int ok = fscanf(p, "%lf %lf %63s", &s->time[i], &s->kib[i], s->result) == 3;
  return pclose(p) == 0 && ok;
}

static void print_row(FILE *json, const char *script, sample *s, int n, int last) {
  double t[WAYS], k[WAYS];
  const char *name = strrchr(script, '/') ? strrchr(script, '/') + 1 : script;
  fprintf(json, "    {\"script\": \"%s\"", name);
  for (int w = 0; w < WAYS; w++) {
    fprintf(json, ", \"%s\": {\"seconds\": [", ways[w]);
    for (int i = 0; i < n; i++) fprintf(json, "%s%.6f", i ? ", " : "", s[w].time[i]);
    t[w] = median(s[w].time, n);
    k[w] = median(s[w].kib, n);
    fprintf(json, "], \"median\": %.6f, \"peak_kib\": %.0f}", t[w], k[w]);
  }
  fprintf(json, "}%s\n", last ? "" : ",");
  printf("%-14s %7.3f %7.3f %7.3f   %5.2f %5.2f   %8.0f %8.0f %8.0f   %5.2f\n", name, t[0], t[1], t[2], t[1] / t[0], t[2] / t[0],
         k[0], k[1], k[2], k[0] / k[1]);
}

static int measure(const char *self, const char *script, const char *scale, int n, FILE *json, int last) {
  static sample s[WAYS];
  for (int i = 0; i < n; i++) for (int w = 0; w < WAYS; w++) {
    if (!start(self, w, script, scale, &s[w], i)) return 0;
    if (strcmp(s[w].result, s[0].result)) {
      fprintf(stderr, "%s: results differ: %s, %s\n", script, s[0].result, s[w].result);
      return 0;
    }
  }
  print_row(json, script, s, n, last);
  return 1;
}

static void head(FILE *json, int n, const char *scale) {
  struct utsname u;
  uname(&u);
  fprintf(json, "{\n  \"lua\": \"%s\", \"system\": \"%s %s\", \"repetitions\": %d, \"scale\": \"%s\", \"time\": %ld,\n  \"rows\": [\n",
          LUA_RELEASE, u.sysname, u.release, n, scale, (long)time(NULL));
  printf("%-14s %7s %7s %7s   %5s %5s   %8s %8s %8s   %5s\n", "script", "mare s", "glibc", "mimall.", "gl/ma", "mi/ma",
         "mare KiB", "glibc", "mimall.", "ma/gl");
}

int main(int argc, char **argv) {
  if (argc == 5 && strcmp(argv[1], "--run") == 0) return run(argv[2], argv[3], argv[4]);
  int n = 5, c;
  const char *scale = "1", *out = "/dev/null";
  while ((c = getopt(argc, argv, "n:s:o:m:")) != -1) switch (c) {
    case 'n': n = atoi(optarg); break;
    case 's': scale = optarg; break;
    case 'o': out = optarg; break;
    case 'm': mimalloc = optarg; break;
    default: return 2;
  }
  if (n < 1 || n > MOST || optind == argc || !mimalloc) {
    fprintf(stderr, "usage: heapbench [-n repetitions] [-s scale] -m libmimalloc.so [-o result.json] script.lua...\n");
    return 2;
  }
  if (access(mimalloc, R_OK) != 0) { perror(mimalloc); return 1; } /* the loader would go on without it, and glibc be measured in its name */
  FILE *json = fopen(out, "w");
  if (!json) { perror(out); return 1; }
  head(json, n, scale);
  int ok = 1;
  for (int i = optind; i < argc && ok; i++) ok = measure(argv[0], argv[i], scale, n, json, i == argc - 1);
  fprintf(json, "  ]\n}\n");
  fclose(json);
  return !ok;
}
