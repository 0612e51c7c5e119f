/*
 * trace.json, written as a whole under another name and renamed. Bytes that aren't UTF-8 become U+FFFD, so that the file is always JSON.
 */
#define _GNU_SOURCE
#include "launcher.h"
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

/* Length of the UTF-8 sequence at s, 0 if it isn't one. */
static int sequence(const unsigned char *s, size_t n)
{
  int k = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  if (k == 0 || (size_t)k > n) return 0;
  for (int i = 1; i < k; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)) return 0;
  return k;
}

static void string(FILE *f, const char *text, size_t n)
{
  const unsigned char *s = (const unsigned char *)text;
  fputc('"', f);
  for (size_t i = 0; i < n;) {
    int k = sequence(s + i, n - i);
    if (k == 0) fputs("\\ufffd", f);
    else if (k > 1) fwrite(s + i, 1, (size_t)k, f);
    else if (s[i] == '"' || s[i] == '\\') fprintf(f, "\\%c", s[i]);
    else if (s[i] < 0x20) fprintf(f, "\\u%04x", s[i]);
    else fputc(s[i], f);
    i += k ? (size_t)k : 1;
  }
  fputc('"', f);
}

static void text(FILE *f, const char *s) { string(f, s, strlen(s)); }

static void process(FILE *f, const image *im, const trace *t)
{
  fprintf(f, "    {\"pid\": %u, \"image\": %u, \"parent\": %u, \"forked\": %s, \"file\": ", im->pid, im->number, im->parent,
          im->forked ? "true" : "false");
  if (im->words) fprintf(f, "\"%u-%u.mtr\"", im->pid, im->number);
  else fputs("null", f);
  fputs(",\n     \"command\": [", f);
  for (uint32_t i = 0; i < im->command_bytes;) {
    size_t n = strnlen(im->command + i, im->command_bytes - i);
    if (i) fputs(", ", f);
    string(f, im->command + i, n);
    i += (uint32_t)n + 1;
  }
  fputs("], \"executable\": ", f);
  text(f, im->executable);
  fprintf(f, ",\n     \"started\": %.6f, \"ended\": %.6f, \"ended_by\": \"%s\", \"words\": %" PRIu64 ", \"streams\": %u,\n",
          (double)im->began_us / 1e6,
          (double)(im->live ? t->ended_us : im->ended_us) / 1e6, im->ended_by ? im->ended_by : "unknown", im->words, im->streams);
  fprintf(f, "     \"lost\": %" PRIu64 ", \"stalls\": %" PRIu64 ", \"anonymous_peak_bytes\": %" PRIu64 ", \"maps\": ", im->lost, im->stalls,
          im->anonymous);
  if (im->has_maps) fprintf(f, "\"%u-%u.maps\"}", im->pid, im->number);
  else fputs("null}", f);
}

static void body(FILE *f, const trace *t, int complete)
{
  char folder[4096];
  uint64_t lost = t->orphaned, stalls = 0, stall_us = 0;
  for (size_t i = 0; i < t->count; i++) {
    lost += t->images[i].lost;
    stalls += t->images[i].stalls;
    stall_us += t->images[i].stall_us;
  }
  fprintf(f, "{\"version\": 1, \"complete\": %s,\n \"attached\": ", complete ? "true" : "false");
  if (t->o->attach) fprintf(f, "%d", (int)t->o->attach);
  else fputs("null", f);
  fputs(", \"command\": [", f);
  for (char **a = t->o->command; *a; a++) {
    if (a != t->o->command) fputs(", ", f);
    text(f, *a);
  }
  fputs("],\n \"directory\": ", f);
  text(f, getcwd(folder, sizeof folder) ? folder : "");
  fprintf(f, ", \"started\": \"%s\", \"seconds\": %.6f, \"status\": %d,\n", t->started, (double)t->ended_us / 1e6, t->status);
  fprintf(f, " \"events\": %" PRIu64 ", \"words\": %" PRIu64 ", \"bytes\": %" PRIu64 ",\n", t->events, t->words, t->bytes);
  fprintf(f, " \"limit_bytes\": %" PRIu64 ", \"limit_reached\": %s, \"limit_seconds\": ", t->o->limit, t->limit_reached ? "true" : "false");
  if (t->limit_us) fprintf(f, "%.6f", (double)t->limit_us / 1e6);
  else fputs("null", f);
  fputs(", \"write_error\": ", f);
  if (t->failed) text(f, strerror(t->failed));
  else fputs("null", f);
  fprintf(f, ",\n \"ring_events\": %" PRIu64 ", \"stack_every\": %u, \"clock_gap_ms\": %.3f,\n", t->o->ring, t->o->stack_every,
          (double)t->gap_us / 1e3);
  fprintf(f, " \"stalls\": %" PRIu64 ", \"stall_seconds\": %.6f, \"lost_events\": %" PRIu64 ", \"untraced_processes\": %u,\n", stalls,
          (double)stall_us / 1e6,
          lost, t->map->untraced);
  fputs(" \"processes\": [\n", f);
  for (size_t i = 0; i < t->count; i++) {
    if (i) fputs(",\n", f);
    process(f, &t->images[i], t);
  }
  fputs("\n ]}\n", f);
}

int write_header(trace *t, int complete)
{
  char now[4096], then[4096];
  snprintf(now, sizeof now, "%s/trace.json.new", t->o->folder);
  snprintf(then, sizeof then, "%s/trace.json", t->o->folder);
  FILE *f = fopen(now, "we");
  if (!f) return 0;
  body(f, t, complete);
  int bad = ferror(f);
  if (fclose(f) != 0 || bad || rename(now, then) != 0) {
    unlink(now);
    return 0;
  }
  return 1;
}
