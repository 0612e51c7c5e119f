/* The measures as JSON: the native half of description.json. */
#include "measures.h"
#include <inttypes.h>

typedef unsigned long long ull;

static const char *const routines[] = { "malloc", "calloc", "realloc", "aligned" };

static double share(uint64_t part, uint64_t of) { return of ? (double)part / (double)of : 0; }

static void histogram(FILE *f, const char *name, const uint64_t *classes, double unit, const char *end)
{
  fprintf(f, "  \"%s\": {\"upper\": [", name);
  const char *comma = "";
  for (unsigned c = 0; c < CT_CLASSES; c++)
    if (classes[c]) { fprintf(f, "%s%.10g", comma, (double)ct_class_last(c) * unit); comma = ", "; }
  fputs("], \"number\": [", f);
  comma = "";
  for (unsigned c = 0; c < CT_CLASSES; c++)
    if (classes[c]) { fprintf(f, "%s%llu", comma, (ull)classes[c]); comma = ", "; }
  fprintf(f, "]}%s\n", end);
}

static void allocations(FILE *f, ms_measures *m)
{
  const ms_number *t = &m->total;
  size_t distinct = m->sizes.count;
  ct_item *top = ct_sorted(&m->sizes, 1);
  uint64_t ten = 0;
  for (size_t i = 0; i < distinct && i < 10; i++) ten += top[i].number;
  fprintf(f, " \"allocations\": {\"number\": %llu, \"bytes\": %llu, \"megabytes\": %.6f, \"mean\": %.6f,\n", (ull)t->number, (ull)t->bytes,
          (double)t->bytes / 1e6, t->number ? (double)t->bytes / (double)t->number : 0);
  fprintf(f, "  \"distinct_sizes\": %zu, \"top_ten_share\": %.8f,\n", distinct, share(ten, t->number));
  fprintf(f, "  \"sizes_not_counted\": %llu, \"failed\": %llu,\n  \"top_sizes\": [", (ull)m->sizes.refused, (ull)m->failed);
  for (size_t i = 0; i < distinct && i < 10; i++)
    fprintf(f, "%s{\"size\": %llu, \"number\": %llu, \"share\": %.8f}", i ? ", " : "", (ull)top[i].key, (ull)top[i].number,
            share(top[i].number, t->number));
  fputs("],\n  \"routines\": {", f);
  for (int i = 0; i < MS_ROUTINES; i++)
    fprintf(f, "%s\"%s\": {\"number\": %llu, \"bytes\": %llu, \"share\": %.8f}", i ? ", " : "", routines[i], (ull)m->routine[i].number,
            (ull)m->routine[i].bytes, share(m->routine[i].number, t->number));
  fprintf(f, "},\n  \"labels\": {\"new\": %llu, \"new_array\": %llu}},\n", (ull)m->labels[0], (ull)m->labels[1]);
  ct_item *sizes = ct_sorted(&m->sizes, 0);
  fputs(" \"sizes\": {\"size\": [", f);
  for (size_t i = 0; i < distinct; i++) fprintf(f, "%s%llu", i ? ", " : "", (ull)sizes[i].key);
  fputs("], \"number\": [", f);
  for (size_t i = 0; i < distinct; i++) fprintf(f, "%s%llu", i ? ", " : "", (ull)sizes[i].number);
  fputs("]},\n", f);
}

static void frees(FILE *f, const ms_measures *m)
{
  fprintf(f, " \"frees\": {\"number\": %llu, \"null\": %llu, \"null_share\": %.8f, \"by_another_thread\": %llu, \"by_another_thread_share\": %.8f,\n",
          (ull)m->frees, (ull)m->null_frees, share(m->null_frees, m->frees), (ull)m->by_another, share(m->by_another, m->freed_blocks));
  fprintf(f, "  \"unknown\": %llu, \"labels\": {\"delete\": %llu, \"delete_array\": %llu}},\n", (ull)m->unknown, (ull)m->free_labels[0],
          (ull)m->free_labels[1]);
  fprintf(f, " \"reallocs\": {\"number\": %llu, \"in_place\": %llu, \"moved\": %llu, \"failed\": %llu, \"freed\": %llu, \"null\": %llu},\n",
          (ull)m->reallocs, (ull)m->in_place, (ull)m->moved, (ull)m->realloc_failed, (ull)m->realloc_freed, (ull)m->realloc_null);
}

static void retention(FILE *f, const ms_measures *m)
{
  static const char *const names[] = { "short", "medium", "long" };
  uint64_t all = m->total.number;
  fprintf(f, " \"retention\": {\"limits_seconds\": [%.3f, %.3f]", m->limit_ms[0] / 1e3, m->limit_ms[1] / 1e3);
  for (int i = 0; i < MS_RETENTIONS; i++)
    fprintf(f, ", \"%s\": {\"number\": %llu, \"share\": %.8f}", names[i], (ull)m->retention[i].number, share(m->retention[i].number, all));
  fprintf(f, ",\n  \"never_freed\": {\"number\": %llu, \"bytes\": %llu, \"share\": %.8f}},\n", (ull)m->never.number, (ull)m->never.bytes,
          share(m->never.number, all));
  fputs(" \"lifetimes\": {\n", f);
  histogram(f, "seconds", m->life_ms, 1e-3, ",");
  histogram(f, "operations", m->life_operations, 1, ",");
  histogram(f, "bytes", m->life_bytes, 1, ",");
  fprintf(f, "  \"never_freed\": %llu},\n", (ull)m->never.number);
}

static void long_lived(FILE *f, const ms_measures *m)
{
  size_t blocks = (size_t)((m->operations + MS_BLOCK - 1) / MS_BLOCK);
  uint64_t sum = 0;
  fprintf(f, " \"long_lived\": {\"block_operations\": %d, \"cumulative\": [", MS_BLOCK);
  for (size_t i = 0; i < blocks; i++) {
    sum += i < m->long_room ? m->long_blocks[i] : 0;
    fprintf(f, "%s%llu", i ? ", " : "", (ull)sum);
  }
  fputs("]},\n", f);
  fprintf(f, " \"births\": {\"step\": %llu, \"operations\": %llu, \"octaves\": [\n", (ull)m->matrix_step, (ull)m->operations);
  for (size_t i = 0; i < MS_BINS && i * m->matrix_step < m->operations; i++) {
    fputs(i ? ",\n  [" : "  [", f);
    for (size_t k = 0; k < MS_OCTAVES; k++) fprintf(f, "%s%llu", k ? "," : "", (ull)m->matrix[i][k]);
    fputc(']', f);
  }
  fputs("]},\n", f);
}

static void column(FILE *f, const char *name, const uint64_t *v, size_t n, const char *end)
{
  fprintf(f, "\"%s\": [", name);
  for (size_t i = 0; i < n; i++) fprintf(f, "%s%llu", i ? ", " : "", (ull)v[i]);
  fprintf(f, "]%s", end);
}

static void live(FILE *f, const ms_measures *m)
{
  fprintf(f, " \"live\": {\"peak_bytes\": %llu, \"peak_blocks\": %llu, \"most_blocks\": %llu, \"peak_seconds\": %.6f, \"peak_operations\": %llu,\n",
          (ull)m->peak_bytes, (ull)m->peak_blocks, (ull)m->most_blocks, (double)m->peak_us / 1e6, (ull)m->peak_operation);
  fprintf(f, "  \"end_bytes\": %llu, \"end_blocks\": %llu,\n", (ull)m->never.bytes, (ull)m->never.number);
  const ct_curve *c = &m->by_time;
  size_t n = m->operations ? (size_t)c->last + 1 : 0;
  fputs("  \"curve\": {\"seconds\": [", f);
  for (size_t i = 0; i < n; i++) fprintf(f, "%s%.6f", i ? ", " : "", (double)((i + 1) * c->step) / 1e6);
  fputs("], ", f);
  column(f, "bytes", c->a, n, ", ");
  column(f, "blocks", c->b, n, "},\n");
  c = &m->by_operation;
  n = m->operations ? (size_t)c->last + 1 : 0;
  fputs("  \"curve_operations\": {\"operations\": [", f);
  for (size_t i = 0; i < n; i++) fprintf(f, "%s%llu", i ? ", " : "", (ull)((i + 1) * c->step));
  fputs("], ", f);
  column(f, "bytes", c->a, n, ", ");
  column(f, "blocks", c->b, n, "}},\n");
}

static void threads(FILE *f, const ms_measures *m)
{
  fprintf(f, " \"thread_count\": %u,\n \"threads\": [", m->thread_count);
  for (uint32_t i = 0; i < m->thread_count && i < 256; i++) {
    const ms_thread *t = &m->threads[i];
    fprintf(f, "%s\n  {\"number\": %u, \"tid\": %u, \"allocations\": %llu, \"bytes\": %llu, ", i ? "," : "", i, t->tid, (ull)t->allocations,
            (ull)t->bytes);
    fprintf(f, "\"frees\": %llu, \"frees_of_others\": %llu}", (ull)t->frees, (ull)t->of_others);
  }
  fputs("],\n", f);
}

static void stacks(FILE *f, const ms_measures *m)
{
  const st_sites *s = m->sites;
  fputs(" \"stacks\": [", f);
  for (size_t i = 0; i < s->count && i < 50 && s->site[i].number; i++) {
    const st_site *t = &s->site[i];
    const uint64_t *frames = s->addresses + t->frames;
    fprintf(f, "%s\n  {\"number\": %llu, \"bytes\": %llu, \"at_peak\": %llu, \"never_freed\": %llu, \"never_freed_bytes\": %llu, \"samples\": %llu, \"addresses\": [",
            i ? "," : "", (ull)t->number, (ull)t->bytes, (ull)t->at_peak, (ull)t->left, (ull)t->left_bytes, (ull)t->samples);
    for (uint64_t k = 1; k <= frames[0]; k++) fprintf(f, "%s%llu", k > 1 ? ", " : "", (ull)frames[k]);
    fputs("]}", f);
  }
  fputs("],\n", f);
}

void ms_print(FILE *f, ms_measures *m, const rd_reader *r)
{
  fprintf(f, "{\"version\": 1, \"seconds\": %.6f, \"started\": %.6f, \"events\": %llu, \"operations\": %llu,\n",
          (double)(m->last_us - m->first_us) / 1e6,
          (double)m->first_us / 1e6, (ull)(m->operations + m->null_frees + m->failed), (ull)m->operations);
  allocations(f, m);
  frees(f, m);
  retention(f, m);
  long_lived(f, m);
  live(f, m);
  gr_print(f, &m->grid);
  threads(f, m);
  stacks(f, m);
  fprintf(f, " \"order\": {\"impossible_steps\": %llu, \"relaxed_waits\": %llu}}\n", (ull)m->impossible, (ull)rd_relaxed(r));
}
