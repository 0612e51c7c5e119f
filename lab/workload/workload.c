/* The workload program: options, the run, one line of JSON. README.md beside this file says what each means. */
#define _GNU_SOURCE
#include "engine.h"
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  mk_factors f;
  unsigned cpus;
  enum en_touch touch;
  int touch_given, paced, given; /* given: NA was */
  unsigned also;
  const char *profile, *replay, *save;
} options;

static const char *const touches[] = { "none", "first", "ends", "pages", "line", "all", NULL };
static const char *const deaths[] = { "lifo", "fifo", "random", NULL };
static const char *const patterns[] = { "growing", "peak", NULL };

static _Noreturn void mistake(const char *option, const char *value, const char *wanted)
{
  fprintf(stderr, "mare lab: workload: --%s %s: %s\n", option, value, wanted);
  exit(2);
}

static uint64_t number(const char *option, const char *value, uint64_t least, uint64_t most)
{
  char *end, wanted[96];
  errno = 0;
  unsigned long long n = strtoull(value, &end, 10);
  snprintf(wanted, sizeof wanted, "needs a number from %" PRIu64 " to %" PRIu64, least, most);
  if (errno || end == value || *end || *value == '-' || n < least || n > most) mistake(option, value, wanted);
  return n;
}

static double fraction(const char *option, const char *value)
{
  char *end;
  double x = strtod(value, &end);
  if (end == value || *end || !(x >= 0 && x <= 1)) mistake(option, value, "needs a number from 0 to 1");
  return x;
}

static int one_of(const char *option, const char *value, const char *const *names)
{
  char wanted[96] = "one of";
  for (int i = 0; names[i]; i++) {
    if (strcmp(names[i], value) == 0) return i;
    strncat(wanted, " ", sizeof wanted - strlen(wanted) - 1);
    strncat(wanted, names[i], sizeof wanted - strlen(wanted) - 1);
  }
  mistake(option, value, wanted);
}

enum { ALLOCATIONS = 256, MIN_SIZE, MAX_SIZE, THREADS, CPUS, PATTERN, LONG_SHARE, ALIVE, DEATH, CROSS, TOUCH, SEED, PROFILE, REPLAY, PACED, LATENCY,
      EXACT_PEAK, SAVE, HELP };

static const struct option known[] = {
  { "allocations", 1, NULL, ALLOCATIONS }, { "min-size", 1, NULL, MIN_SIZE }, { "max-size", 1, NULL, MAX_SIZE }, { "threads", 1, NULL, THREADS },
  { "cpus", 1, NULL, CPUS }, { "pattern", 1, NULL, PATTERN }, { "long-share", 1, NULL, LONG_SHARE }, { "alive", 1, NULL, ALIVE },
  { "death", 1, NULL, DEATH }, { "cross", 1, NULL, CROSS }, { "touch", 1, NULL, TOUCH }, { "seed", 1, NULL, SEED }, { "profile", 1, NULL, PROFILE },
  { "replay", 1, NULL, REPLAY }, { "paced", 0, NULL, PACED }, { "latency", 0, NULL, LATENCY },
  { "exact-peak", 0, NULL, EXACT_PEAK }, { "save", 1, NULL, SAVE }, { "help", 0, NULL, HELP }, { NULL, 0, NULL, 0 }
};

static void help(void)
{
  fputs("usage: workload [options]; one line of JSON on standard output\n"
        "  --allocations N          in all threads together (100000; with --profile: as the profile)\n"
        "  --min-size B --max-size B  uniform between them (16, 64)\n"
        "  --threads N              each runs a part of the allocations (1)\n"
        "  --cpus N                 pinned to the first N; 0: not pinned (0)\n"
        "  --pattern peak|growing   where the long-lived blocks are born (growing)\n"
        "  --long-share F           which share lives to the end (0.2)\n"
        "  --alive N                short blocks alive together per thread; 1: freed at once (1)\n"
        "  --death lifo|fifo|random the order in which these die (fifo)\n"
        "  --cross F                share of the short blocks that another thread frees (0)\n"
        "  --touch none|first|ends|pages|line|all  what is written (all: zeros; with --replay and --profile: pages)\n"
        "  --seed N                 of the script (1)\n"
        "  --profile FILE           a fitted profile instead of the factors\n"
        "  --replay FILE [--paced]  a script made from a trace\n"
        "  --latency                measures each call\n"
        "  --exact-peak             looks at what is resident all the time\n"
        "  --save FILE              writes the script and runs nothing\n", stdout);
}

static void set(options *o, int c)
{
  mk_factors *f = &o->f;
  const char *name = known[c - ALLOCATIONS].name;
  switch (c) {
    case ALLOCATIONS: f->allocations = number(name, optarg, 1, UINT64_C(1) << 36); o->given = 1; break;
    case MIN_SIZE: f->min_size = number(name, optarg, 1, UINT64_C(1) << 40); break;
    case MAX_SIZE: f->max_size = number(name, optarg, 1, UINT64_C(1) << 40); break;
    case THREADS: f->threads = (uint32_t)number(name, optarg, 1, SC_THREADS); break;
    case CPUS: o->cpus = (unsigned)number(name, optarg, 0, 1024); break;
    case PATTERN: f->peak = one_of(name, optarg, patterns); break;
    case LONG_SHARE: f->long_share = fraction(name, optarg); break;
    case ALIVE: f->alive = (uint32_t)number(name, optarg, 1, 1u << 26); break;
    case DEATH: f->death = one_of(name, optarg, deaths); break;
    case CROSS: f->cross = fraction(name, optarg); break;
    case TOUCH: o->touch = (enum en_touch)one_of(name, optarg, touches); o->touch_given = 1; break;
    case SEED: f->seed = number(name, optarg, 0, UINT64_MAX); break;
    case PROFILE: o->profile = optarg; break;
    case REPLAY: o->replay = optarg; break;
    case PACED: o->paced = 1; break;
    case LATENCY: o->also |= EN_LATENCY; break;
    case EXACT_PEAK: o->also |= EN_EXACT_PEAK; break;
    case SAVE: o->save = optarg; break;
    default: help(); exit(0);
  }
}

static void parse(int argc, char **argv, options *o)
{
  *o = (options){ .f = { .allocations = 100000, .min_size = 16, .max_size = 64, .seed = 1, .threads = 1, .alive = 1, .death = 1, .long_share = 0.2 },
                  .touch = EN_ALL };
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    if (c == '?') exit(2);
    set(o, c);
  }
  if (optind < argc) mistake("help", argv[optind], "there are only options");
  if (o->f.max_size < o->f.min_size) mistake("max-size", "", "is below --min-size");
  if (o->f.cross > 0 && o->f.threads < 2 && !o->profile && !o->replay) mistake("cross", "", "needs 2 threads or more");
  if (o->profile && o->replay) mistake("profile", o->profile, "can't be used together with --replay");
  if (o->paced && !o->replay) mistake("paced", "", "needs --replay");
  if ((o->profile || o->replay) && !o->touch_given) o->touch = EN_PAGES;
}

/* Without --paced the times in a script are left out. */
static void drop_paces(sc_script *s)
{
  for (uint32_t t = 0; t < s->threads; t++) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->thread[t].count; i++)
      if (sc_kind_of(&s->thread[t].ops[i]) != SC_PACE) s->thread[t].ops[n++] = s->thread[t].ops[i];
    s->thread[t].count = n;
  }
}

static sc_script *make_script(const options *o)
{
  char error[512] = "not enough memory for the preparation";
  sc_script *s = o->replay ? sc_load(o->replay, error, sizeof error)
               : o->profile ? mk_from_profile(o->profile, o->given ? o->f.allocations : 0, o->f.seed, error, sizeof error)
               : mk_from_factors(&o->f);
  if (!s) {
    fprintf(stderr, "mare lab: workload: %s\n", error);
    exit(o->replay || o->profile ? 2 : 1);
  }
  if (o->replay && !o->paced) drop_paces(s);
  return s;
}

static uint64_t quantile(const en_latency *l, double q)
{
  uint64_t wanted = (uint64_t)((double)l->count * q), seen = 0;
  for (unsigned c = 0; c < CT_CLASSES; c++) {
    seen += l->classes[c];
    if (seen > wanted) return ct_class_last(c) < l->most ? ct_class_last(c) : l->most;
  }
  return l->most;
}

static void print_latency(const en_result *r)
{
  static const char *const names[] = { "malloc", "calloc", "realloc", "free" };
  for (int i = 0; i < EN_ROUTINES; i++) {
    const en_latency *l = &r->latency[i];
    printf("%s\"%s\": {\"count\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p99\": %" PRIu64 ", \"p999\": %" PRIu64 ", \"p9999\": %" PRIu64 ", \"max\": "
           "%" PRIu64 "}",
           i ? ", " : "{", names[i], l->count, quantile(l, 0.5), quantile(l, 0.99), quantile(l, 0.999), quantile(l, 0.9999), l->most);
  }
  printf("}");
}

static void print(const options *o, const sc_script *s, const en_result *r)
{
  printf("{\"version\": 1, \"seconds\": %.9f, \"cpu_seconds\": %.6f, \"operations\": %" PRIu64 ", \"allocations\": %" PRIu64 ", \"frees\": %" PRIu64
         ", \"reallocs\": %" PRIu64 ", \"cross_frees\": %" PRIu64 ", ", r->seconds, r->cpu_seconds, r->operations, r->allocations, r->frees,
           r->reallocs,
         r->shared_frees);
  printf("\"requested_peak_bytes\": %" PRIu64 ", \"peak_bytes\": %" PRIu64 ", \"after_bytes\": %" PRIu64 ", \"harness_bytes\": %" PRIu64 ", ",
         r->requested_peak, r->peak_bytes, r->after_bytes, r->harness_bytes);
  printf("\"minor_faults\": %" PRId64 ", \"major_faults\": %" PRId64 ", \"voluntary_switches\": %" PRId64 ", \"involuntary_switches\": %" PRId64 ", ",
         r->minor_faults, r->major_faults, r->voluntary, r->involuntary);
  printf("\"waits\": %" PRIu64 ", \"wait_seconds\": %.9f, \"latency\": ", r->waits, r->wait_seconds);
  if (o->also & EN_LATENCY) print_latency(r);
  else printf("null");
  printf(", \"seed\": %" PRIu64 ", \"threads\": %" PRIu32 ", \"cpus\": %u}\n", o->f.seed, s->threads, o->cpus);
}

static int save(const options *o, const sc_script *s)
{
  const char *error;
  if (sc_save(s, o->save, &error) == 0) return 0;
  fprintf(stderr, "mare lab: workload: can't write %s: %s\n", o->save, error);
  return 1;
}

int main(int argc, char **argv)
{
  options o;
  static en_result r;
  const char *what;
  parse(argc, argv, &o);
  sc_script *s = make_script(&o);
  if (o.save) return save(&o, s);
  int error = en_run(s, o.touch, o.cpus, o.also, &r, &what);
  if (error) {
    fprintf(stderr, "mare lab: workload: %s (%s)\n", what, strerror(error));
    return error == EINVAL ? 2 : 1;
  }
  if (r.failed) {
    fprintf(stderr, "mare lab: workload: an allocation of %" PRIu64 " bytes failed\n", r.failed_size);
    return 1;
  }
  print(&o, s, &r);
  return fflush(stdout) != 0;
}
