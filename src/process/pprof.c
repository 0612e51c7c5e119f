/*
 * pprof: stacks as files. Folded stacks, a line each, as flamegraph.pl and speedscope read them; and the profile.proto of pprof, whose field
 * numbers stand here beside what they mean. A memory that ends leaves `failed` set, and what is written then is no file.
 */
#include "process/stacks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 1024, LABEL = MR_STACK_LABEL, STORED = 65535 };

/* ---- bytes ---- */

static char *room(mr_bytes *b, size_t n) {
  if (b->failed) return NULL;
  if (b->length + n > b->size) {
    size_t size = 2 * (b->length + n) + 4096;
    char *at = realloc(b->at, size);
    if (!at) {
      b->failed = 1;
      return NULL;
    }
    b->at = at;
    b->size = size;
  }
  b->length += n;
  return b->at + b->length - n;
}

static void put(mr_bytes *b, const void *s, size_t n) {
  char *at = n ? room(b, n) : NULL;
  if (at) memcpy(at, s, n);
}

static void put_text(mr_bytes *b, const char *s) { put(b, s, strlen(s)); }

static uint64_t rounded(double v) { return v > 0 ? (uint64_t)(v + 0.5) : 0; }

/* ---- names ---- */

/* "f (work.lua:12)"; a chunk's main function has no name but that. */
void mr_stack_label(const mr_stacks *s, uint32_t function, char label[MR_STACK_LABEL]) {
  const mr_stack_function *f = &s->function[function];
  const char *name = s->text + f->name, *file = s->text + f->file;
  if (f->defined < 0) snprintf(label, LABEL, "%.300s", name);
  else if (f->defined == 0) snprintf(label, LABEL, "main chunk (%.300s)", file);
  else if (*name) snprintf(label, LABEL, "%.200s (%.150s:%d)", name, file, (int)f->defined);
  else snprintf(label, LABEL, "function (%.300s:%d)", file, (int)f->defined);
}

/* "work.lua:12 f" */
static void call_label(const mr_stacks *s, const mr_stack_node *n, char label[LABEL]) {
  const mr_stack_function *f = &s->function[n->function];
  const char *name = f->name ? s->text + f->name : f->defined == 0 ? "main chunk" : "function";
  if (f->defined < 0) snprintf(label, LABEL, "%.300s", name);
  else if (f->name || f->defined == 0) snprintf(label, LABEL, "%.200s:%d %.150s", s->text + f->file, (int)n->line, name);
  else snprintf(label, LABEL, "%.200s:%d function <%d>", s->text + f->file, (int)n->line, (int)f->defined);
  for (char *c = label; *c; c++)
    if (*c == ';') *c = ':';
    else if ((unsigned char)*c < ' ') *c = ' ';
}

/* The nodes of a stack, the innermost call first; how many. */
static int path_of(const mr_stacks *s, uint32_t i, uint32_t path[DEPTH]) {
  int n = 0;
  for (; i != STACK_NONE && n < DEPTH; i = s->node[i].parent) path[n++] = i;
  return n;
}

static int counted(const mr_stack_node *n, const mr_stack_kind *k) {
  for (int v = 0; v < k->n; v++)
    if (rounded(n->value[v]) > 0) return 1;
  return 0;
}

/* ---- folded ---- */

void mr_folded(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k) {
  uint32_t path[DEPTH];
  char label[LABEL], count[32];
  for (uint32_t i = 1; i < s->nodes; i++) {
    uint64_t value = rounded(s->node[i].value[k->shown] / k->scale);
    if (!value) continue;
    for (int n = path_of(s, i, path); n-- > 0;) {
      call_label(s, &s->node[path[n]], label);
      put_text(b, label);
      if (n) put_text(b, ";");
    }
    snprintf(count, sizeof count, " %llu\n", (unsigned long long)value);
    put_text(b, count);
  }
}

/* ---- protocol buffers ---- */

static void varint(mr_bytes *b, uint64_t v) {
  unsigned char c[10];
  int n = 0;
  for (; v >= 128; v >>= 7) c[n++] = (unsigned char)(v | 128);
  c[n++] = (unsigned char)v;
  put(b, c, (size_t)n);
}

static void number(mr_bytes *b, unsigned field, uint64_t v) {
  if (!v) return;
  varint(b, field << 3);
  varint(b, v);
}

static void string(mr_bytes *b, unsigned field, const char *s, size_t len) {
  varint(b, field << 3 | 2);
  varint(b, len);
  put(b, s, len);
}

/* `inner`, which is empty again afterwards. */
static void message(mr_bytes *b, unsigned field, mr_bytes *inner) {
  string(b, field, inner->at ? inner->at : "", inner->length);
  b->failed |= inner->failed;
  inner->length = 0;
}

/* ---- profile.proto ---- */

enum { SAMPLE_TYPE = 1, SAMPLE = 2, LOCATION = 4, FUNCTION = 5, STRING_TABLE = 6, TIME_NANOS = 9, DURATION_NANOS = 10, PERIOD_TYPE = 11, PERIOD = 12,
       DEFAULT_SAMPLE_TYPE = 14 };

/* Places in the string table: "", types and units in turn, the period's, then name, system name and file of each function. */
static unsigned type_string(int i) { return 1 + 2 * (unsigned)i; }
static unsigned function_string(const mr_stack_kind *k, uint32_t i) { return 3 + 2 * (unsigned)k->n + 2 * (i - 1); }

static void strings(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k) {
  char label[LABEL];
  string(b, STRING_TABLE, "", 0);
  for (int i = 0; i < k->n; i++) {
    string(b, STRING_TABLE, k->type[i], strlen(k->type[i]));
    string(b, STRING_TABLE, k->unit[i], strlen(k->unit[i]));
  }
  string(b, STRING_TABLE, k->period_type, strlen(k->period_type));
  string(b, STRING_TABLE, k->period_unit, strlen(k->period_unit));
  for (uint32_t i = 1; i < s->functions; i++) {
    mr_stack_label(s, i, label);
    string(b, STRING_TABLE, label, strlen(label));
    string(b, STRING_TABLE, s->text + s->function[i].file, strlen(s->text + s->function[i].file));
  }
}

static void value_type(mr_bytes *b, unsigned field, unsigned type, mr_bytes *m) {
  number(m, 1, type);
  number(m, 2, type + 1);
  message(b, field, m);
}

static void functions(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k, mr_bytes *m) {
  for (uint32_t i = 1; i < s->functions; i++) {
    number(m, 1, i);
    number(m, 2, function_string(k, i));
    number(m, 3, function_string(k, i));
    number(m, 4, function_string(k, i) + 1);
    number(m, 5, s->function[i].defined > 0 ? (uint64_t)s->function[i].defined : 0);
    message(b, FUNCTION, m);
  }
}

/* A location, a function and a line, is given by the first node that has it: location[i] is what node i has. */
typedef struct { uint32_t function, node; int32_t line; } place;

static int by_place(const void *a, const void *b) {
  const place *p = a, *q = b;
  if (p->function != q->function) return p->function < q->function ? -1 : 1;
  if (p->line != q->line) return p->line < q->line ? -1 : 1;
  return p->node < q->node ? -1 : 1;
}

static void location(mr_bytes *b, const place *p, uint32_t id, mr_bytes *m, mr_bytes *line) {
  number(line, 1, p->function);
  number(line, 2, p->line > 0 ? (uint64_t)p->line : 0);
  number(m, 1, id);
  message(m, 4, line);
  message(b, LOCATION, m);
}

static uint32_t *locations(mr_bytes *b, const mr_stacks *s, mr_bytes *m) {
  mr_bytes line = { 0 };
  place *all = malloc(s->nodes * sizeof *all);
  uint32_t *of = malloc(s->nodes * sizeof *of), id = 0;
  if (all && of) {
    for (uint32_t i = 1; i < s->nodes; i++) all[i - 1] = (place){ s->node[i].function, i, s->node[i].line };
    qsort(all, s->nodes - 1, sizeof *all, by_place);
    for (uint32_t i = 0; i + 1 < s->nodes; i++) {
      if (i == 0 || all[i].function != all[i - 1].function || all[i].line != all[i - 1].line) location(b, &all[i], ++id, m, &line);
      of[all[i].node] = id;
    }
  } else {
    b->failed = 1;
  }
  free(all);
  free(line.at);
  return of;
}

static void samples(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k, const uint32_t *of, mr_bytes *m) {
  uint32_t path[DEPTH];
  mr_bytes packed = { 0 };
  for (uint32_t i = 1; i < s->nodes; i++) {
    if (!counted(&s->node[i], k)) continue;
    for (int j = 0, n = path_of(s, i, path); j < n; j++) varint(&packed, of[path[j]]);
    message(m, 1, &packed);
    for (int v = 0; v < k->n; v++) varint(&packed, rounded(s->node[i].value[v]));
    message(m, 2, &packed);
    message(b, SAMPLE, m);
  }
  free(packed.at);
}

void mr_pprof(mr_bytes *b, const mr_stacks *s, const mr_stack_kind *k) {
  mr_bytes m = { 0 };
  for (int i = 0; i < k->n; i++) value_type(b, SAMPLE_TYPE, type_string(i), &m);
  uint32_t *of = locations(b, s, &m);
  if (!b->failed) samples(b, s, k, of, &m);
  free(of);
  functions(b, s, k, &m);
  strings(b, s, k);
  number(b, TIME_NANOS, rounded(k->began * 1e9));
  number(b, DURATION_NANOS, rounded(k->lasted * 1e9));
  value_type(b, PERIOD_TYPE, type_string(k->n), &m);
  number(b, PERIOD, rounded(k->period));
  number(b, DEFAULT_SAMPLE_TYPE, type_string(k->shown));
  free(m.at);
}

/* ---- gzip ---- */

static uint32_t crc_of(const unsigned char *s, size_t n) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < n; i++) {
    crc ^= s[i];
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  return ~crc;
}

static void little(mr_bytes *b, uint32_t v, int bytes) {
  for (; bytes-- > 0; v >>= 8) put(b, &(char){ (char)(v & 255) }, 1);
}

/* Blocks that are stored as they are: a valid file without a library that would make it smaller. */
void mr_gzip(mr_bytes *b, const mr_bytes *content) {
  size_t done = 0;
  put(b, "\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  do {
    size_t n = content->length - done < STORED ? content->length - done : STORED;
    little(b, done + n == content->length, 1);
    little(b, (uint32_t)n, 2);
    little(b, ~(uint32_t)n, 2);
    put(b, content->at + done, n);
    done += n;
  } while (done < content->length);
  little(b, crc_of((const unsigned char *)content->at, content->length), 4);
  little(b, (uint32_t)content->length, 4);
  b->failed |= content->failed;
}
