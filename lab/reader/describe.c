/*
 * describe-trace FILE [--short MS] [--medium MS] [--partial] [--joint FILE] [--every N] [--sites FILE]: measures one process's trace in one pass; JSON on
 * standard output. Sampled stacks, each of which stands for N, go into the file of --sites whole.
 * The joint distribution takes another, after the first has shown how the trace is to be divided, and one more where that gives too many cells.
 * 0; 1 when the trace is damaged or memory ran out; 2 for mistakes in the arguments.
 */
#define _GNU_SOURCE
#include "measures.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 512, LEAST_PARTS = 32 }; /* phases of the joint distribution, about */

typedef struct { const char *path, *joint, *sites; uint32_t limits[2], every; int partial; } options;

static int parse(int argc, char **argv, options *o)
{
  static const struct option known[] = {
    { "short", 1, NULL, 's' }, { "medium", 1, NULL, 'm' }, { "partial", 0, NULL, 'p' }, { "joint", 1, NULL, 'j' },
    { "every", 1, NULL, 'e' }, { "sites", 1, NULL, 'f' }, { NULL, 0, NULL, 0 }
  };
  *o = (options){ .limits = { 100, 1000 }, .every = 1 };
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (c) {
    case 's': o->limits[0] = (uint32_t)strtoul(optarg, NULL, 10); break;
    case 'm': o->limits[1] = (uint32_t)strtoul(optarg, NULL, 10); break;
    case 'p': o->partial = 1; break;
    case 'j': o->joint = optarg; break;
    case 'e': o->every = (uint32_t)strtoul(optarg, NULL, 10); break;
    case 'f': o->sites = optarg; break;
    default: return 0;
  }
  if (optind != argc - 1 || o->limits[1] < o->limits[0] || o->every == 0) return 0;
  o->path = argv[optind];
  return 1;
}

static int complain(const char *what)
{
  fprintf(stderr, "mare lab: %s\n", what);
  return 1;
}

/* One pass: 0, or 1 when it is said what went wrong. */
static int pass(const options *o, const ph_phases *phases, ms_measures **made, rd_reader **reader)
{
  rd_error error;
  rd_event event;
  rd_reader *r = *reader = rd_open(o->path, o->partial, &error);
  if (!r) return complain(error.text);
  ms_measures *m = *made = ms_new(o->limits[0], o->limits[1], phases);
  int got = m ? 1 : -2;
  if (m) m->sites->every = o->every;
  while (got > 0 && (got = rd_next(r, &event, &error)) > 0) ms_event(m, &event);
  if (got == -1) return complain(error.text);
  if (got == 0) ms_end(m);
  return got == -2 || m->out_of_memory || m->joint.out_of_memory ? complain("describe: out of memory") : 0;
}

/* Ends a file that was begun; 1 when it is said what went wrong, as a file that could not be opened is. */
static int end_file(FILE *f, const char *path)
{
  int bad = !f || ferror(f);
  if (f && fclose(f) != 0) bad = 1;
  if (bad) fprintf(stderr, "mare lab: can't write %s: %s\n", path, strerror(errno));
  return bad;
}

static int write_joint(ms_measures *m, const char *path)
{
  FILE *f = fopen(path, "we");
  if (f) jt_print(f, &m->joint, m->operations);
  return end_file(f, path);
}

static int write_sites(const ms_measures *m, const char *path)
{
  FILE *f = fopen(path, "we");
  if (f) st_write(f, m->sites);
  return end_file(f, path);
}

static int joint(const options *o, const ms_measures *first)
{
  int bad = 0, refused = 1;
  for (unsigned parts = MOST_PARTS; !bad && refused && parts >= LEAST_PARTS; parts /= 4) {
    ph_phases phases;
    ms_measures *m = NULL;
    rd_reader *r = NULL;
    if (!ph_divide(&phases, &first->turns, first->operations, parts)) return complain("describe: out of memory");
    bad = pass(o, &phases, &m, &r);
    refused = !bad && m->joint.count > JT_CELLS;
    if (!bad && (!refused || parts / 4 < LEAST_PARTS)) bad = write_joint(m, o->joint);
    ms_free(m);
    rd_close(r);
    ph_forget(&phases);
  }
  return bad;
}

int main(int argc, char **argv)
{
  options o;
  ms_measures *m = NULL;
  rd_reader *r = NULL;
  if (!parse(argc, argv, &o)) {
    fputs("usage: describe-trace FILE [--short MS] [--medium MS] [--partial] [--joint FILE] [--every N] [--sites FILE], with MS of --medium not below that "
          "of --short, and N above 0\n", stderr);
    return 2;
  }
  int bad = pass(&o, NULL, &m, &r);
  if (!bad) {
    ms_print(stdout, m, r);
    bad = fflush(stdout) != 0 ? complain("describe: can't write the measures") : 0;
  }
  if (!bad && o.sites) bad = write_sites(m, o.sites);
  if (!bad && o.joint) bad = joint(&o, m);
  ms_free(m);
  rd_close(r);
  return bad;
}
