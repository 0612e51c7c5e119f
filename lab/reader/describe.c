/*
 * describe-trace FILE [--short MS] [--medium MS] [--partial] [--joint FILE]: measures one process's trace in one pass; JSON on standard output.
 * 0; 1 when the trace is damaged or memory ran out; 2 for mistakes in the arguments.
 */
#define _GNU_SOURCE
#include "measures.h"
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

typedef struct { const char *path, *joint; uint32_t limits[2]; int partial; } options;

static int parse(int argc, char **argv, options *o)
{
  static const struct option known[] = {
    { "short", 1, NULL, 's' }, { "medium", 1, NULL, 'm' }, { "partial", 0, NULL, 'p' }, { "joint", 1, NULL, 'j' }, { NULL, 0, NULL, 0 }
  };
  *o = (options){ .limits = { 100, 1000 } };
  for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) switch (c) {
    case 's': o->limits[0] = (uint32_t)strtoul(optarg, NULL, 10); break;
    case 'm': o->limits[1] = (uint32_t)strtoul(optarg, NULL, 10); break;
    case 'p': o->partial = 1; break;
    case 'j': o->joint = optarg; break;
    default: return 0;
  }
  if (optind != argc - 1 || o->limits[1] < o->limits[0]) return 0;
  o->path = argv[optind];
  return 1;
}

static int complain(const char *what)
{
  fprintf(stderr, "mare lab: %s\n", what);
  return 1;
}

static int write_joint(ms_measures *m, const char *path)
{
  FILE *f = fopen(path, "we");
  if (!f) return 0;
  jt_print(f, &m->joint, m->operations);
  int bad = ferror(f);
  return fclose(f) == 0 && !bad;
}

int main(int argc, char **argv)
{
  options o;
  rd_error error;
  rd_event event;
  if (!parse(argc, argv, &o)) {
    fputs("usage: describe-trace FILE [--short MS] [--medium MS] [--partial] [--joint FILE], with MS of --medium not below that of --short\n",
          stderr);
    return 2;
  }
  rd_reader *r = rd_open(o.path, o.partial, &error);
  if (!r) return complain(error.text);
  ms_measures *m = ms_new(o.limits[0], o.limits[1], o.joint != NULL);
  int got = m ? 1 : -2;
  while (got > 0 && (got = rd_next(r, &event, &error)) > 0) ms_event(m, &event);
  if (got == -1) { ms_free(m); rd_close(r); return complain(error.text); }
  if (got == 0) ms_end(m);
  if (got == -2 || m->out_of_memory || m->joint.out_of_memory) { ms_free(m); rd_close(r); return complain("describe: out of memory"); }
  ms_print(stdout, m, r);
  int ok = (!o.joint || write_joint(m, o.joint)) && fflush(stdout) == 0;
  if (!ok) perror("mare lab: describe");
  ms_free(m);
  rd_close(r);
  return !ok;
}
