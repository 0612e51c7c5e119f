/*
 * Unit tests of what a description is made of: the table of live blocks against a plain array, curves and classes, and the reader on traces written
 * by hand, where the order between streams is known. Ends with 0 or says what was wrong.
 */
#define _GNU_SOURCE
#include "measures.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #x); exit(1); } } while (0)

static uint64_t seed = 88172645463325252u;
static uint64_t rnd(void) { seed ^= seed << 13; seed ^= seed >> 7; return seed ^= seed << 17; }

/* ---- live blocks ---- */

static void table_equals_an_array(void)
{
  enum { SLOTS = 5000, STEPS = 400000 };
  static uint64_t size[SLOTS];
  lv_table *t = lv_new();
  size_t alive = 0, most = 0;
  for (int i = 0; i < STEPS; i++) {
    uint64_t k = rnd() % SLOTS;
    lv_block b = { .address = 0x7f0000000000 + k * 16, .size = k % 97 == 0 ? (rnd() | UINT64_C(1) << 33) >> 4 : rnd() % 100000 + 1,
                   .operation = (uint64_t)i, .bytes = (uint64_t)i * 3, .time_ms = (uint32_t)i, .thread = (uint32_t)k % 16384, .routine = k % 4 };
    lv_block got;
    if (size[k]) {
      CHECK(lv_take(t, b.address, &got) == 1);
      CHECK(got.address == b.address && got.size == size[k] && got.thread == k % 16384 && got.routine == k % 4);
      size[k] = 0;
      alive--;
    } else {
      CHECK(lv_take(t, b.address, &got) == 0);
      CHECK(lv_add(t, &b, &got) == 1);
      size[k] = b.size;
      alive++;
    }
    if (alive > most) most = alive;
    CHECK(lv_count(t) == alive);
  }
  lv_free(t);
}

static void table_uses_32_bytes_a_block(void)
{
  lv_table *t = lv_new();
  lv_block old;
  for (uint64_t i = 1; i <= 2000000; i++) {
    lv_block b = { .address = i * 48, .size = 40 };
    CHECK(lv_add(t, &b, &old) == 1);
    if (i % 100000 == 0) CHECK(lv_bytes(t) <= 32 * i + 1000000);
  }
  lv_free(t);
}

static void a_block_given_out_twice_is_seen(void)
{
  lv_table *t = lv_new();
  lv_block b = { .address = 4096, .size = 10 }, old = { 0 };
  CHECK(lv_add(t, &b, &old) == 1);
  b.size = 20;
  CHECK(lv_add(t, &b, &old) == 0 && old.size == 10);
  CHECK(lv_take(t, 4096, &old) == 1 && old.size == 20);
  lv_free(t);
}

/* ---- sites ---- */

static void what_was_not_freed_is_counted_by_site(void)
{
  enum { BLOCKS = 100 };
  static uint64_t here[] = { 7, 8 }, there[] = { 9 };
  st_sites *s = st_new();
  lv_block taken;
  CHECK(s);
  s->every = 10;
  for (uint64_t i = 0; i < BLOCKS; i++) {
    rd_event small = { .address = 4096 + i * 64, .size = 48, .stack = here, .frames = 2 }, large = { .address = 1 << 30 | i << 20, .size = 1 << 16, .stack = there, .frames = 1 };
    CHECK(st_born(s, &small, i * 1000) && (i % 2 || st_born(s, &large, i * 1000)));
    if (i < 90 && st_take(s, small.address, &taken)) st_end(s, &taken);
  }
  CHECK(st_take(s, 4096 + 95 * 64, &taken) && st_put_back(s, &taken)); /* a realloc that fails, or never ends */
  st_finish(s, BLOCKS * 1000);
  CHECK(s->site[0].number == 1000 && s->site[0].left == 100 && s->site[0].left_bytes == 4800 && s->site[0].late == 100);
  CHECK(s->site[1].number == 50 && s->site[1].left == 50 && s->site[1].left_bytes == UINT64_C(50) << 16 && s->site[1].late == 25);
  st_free(s);
}

/* ---- counts ---- */

static void classes_cover_every_value_in_order(void)
{
  for (unsigned c = 0; c + 1 < CT_CLASSES; c++) {
    CHECK(ct_class(ct_class_last(c)) == c);
    CHECK(ct_class(ct_class_last(c) + 1) == c + 1);
  }
  CHECK(ct_class(UINT64_MAX) == CT_CLASSES - 1 && ct_class_last(CT_CLASSES - 1) == UINT64_MAX);
}

static void a_curve_keeps_the_last_value_of_each_step(void)
{
  static ct_curve c;
  ct_curve_start(&c, 1);
  for (uint64_t i = 0; i < 100000; i++) ct_curve_set(&c, i, i, 2 * i);
  CHECK(c.step == 128 && c.last == 99999 / 128);
  for (uint64_t k = 0; k < c.last; k++) CHECK(c.a[k] == (k + 1) * 128 - 1 && c.b[k] == 2 * c.a[k]);
  ct_curve_start(&c, 1);
  ct_curve_set(&c, 3, 7, 1);
  ct_curve_set(&c, 1000000, 9, 2); /* nothing in between: the old value holds */
  CHECK(c.a[0] == 7 && c.a[c.last - 1] == 7 && c.a[c.last] == 9);
}

static void counts_sort_and_refuse_beyond_their_limit(void)
{
  ct_table t = { .most = 3 };
  for (uint64_t k = 1; k <= 5; k++) CHECK(ct_add(&t, k, k == 2 ? 10 : 1, k * 100));
  CHECK(t.count == 3 && t.refused == 2);
  ct_item *i = ct_sorted(&t, 1);
  CHECK(i[0].key == 2 && i[0].number == 10 && i[0].sum == 200);
  ct_free(&t);
}

/* ---- traces by hand ---- */

static char path[] = "mare-reader-test-XXXXXX";

static void put(FILE *f, uint32_t stream, uint32_t index, const uint64_t *words, uint32_t n)
{
  mtr_entry e = { MTR_CHUNK_MAGIC, stream, index, n };
  CHECK(fwrite(&e, sizeof e, 1, f) == 1 && fwrite(words, 8, n, f) == n);
}

static FILE *begin(void)
{
  mtr_header h = { .version = MTR_VERSION, .header_bytes = sizeof h, .pid = 1, .chunk_words = MTR_CHUNK_WORDS };
  memcpy(h.magic, MTR_MAGIC, 8);
  FILE *f = fopen(path, "w");
  CHECK(f && fwrite(&h, sizeof h, 1, f) == 1);
  return f;
}

static uint64_t region(uint64_t address, uint64_t sequence) { return mtr_word(MTR_REGION, sequence << MTR_REGION_BITS | mtr_region(address)); }
static uint64_t from(uint64_t stream, uint64_t p1, uint64_t p2) { return stream << 50 | (p2 - p1 < 1023 ? p2 - p1 : 1023) << 40 | p1; }

static ms_measures *measure(uint64_t *relaxed)
{
  rd_error error = { "" };
  rd_event e;
  rd_reader *r = rd_open(path, 0, &error);
  if (!r) { fprintf(stderr, "%s\n", error.text); exit(1); }
  static ph_phase all;
  static const ph_phases phases = { .at = &all, .count = 1 };
  ms_measures *m = ms_new(100, 1000, &phases);
  int got;
  while ((got = rd_next(r, &e, &error)) > 0) ms_event(m, &e);
  CHECK(got == 0);
  ms_end(m);
  if (relaxed) *relaxed = rd_relaxed(r);
  rd_close(r);
  return m;
}

#define BLOCK UINT64_C(0x555555560000)

/* Stream 2 says it is earlier (its time word is older), and yet its free must wait for stream 1's malloc. */
static void a_region_taken_over_waits_for_its_last_owner(void)
{
  FILE *f = begin();
  const uint64_t one[] = {
    mtr_word(MTR_THREAD, 11), mtr_word(MTR_TIME, 9000), region(BLOCK, 1), from(0, 0, 0), 0, mtr_event(MTR_MALLOC, BLOCK, 0, 24)
  };
  const uint64_t two[] = { mtr_word(MTR_THREAD, 12), mtr_word(MTR_TIME, 1000), region(BLOCK, 2), from(1, 6, 6), 6, mtr_event(MTR_FREE, BLOCK, 0, 0) };
  put(f, 2, 0, two, 6);
  put(f, 1, 0, one, 6);
  fclose(f);
  uint64_t relaxed;
  ms_measures *m = measure(&relaxed);
  CHECK(m->impossible == 0 && m->unknown == 0 && relaxed == 0 && m->by_another == 1 && m->never.number == 0 && m->thread_count == 2);
  ms_free(m);
}

/* The event was on its way when the region was taken (position 6 was seen, the malloc stands at 6): the window finds it. */
static void what_was_on_its_way_comes_first_too(void)
{
  FILE *f = begin();
  const uint64_t one[] = {
    mtr_word(MTR_TIME, 9000), region(BLOCK, 1), from(0, 0, 0), 0, mtr_event(MTR_MALLOC, BLOCK + 64, 0, 24),
    mtr_word(MTR_TIME, 9001), mtr_event(MTR_MALLOC, BLOCK, 0, 24)
  };
  const uint64_t two[] = { mtr_word(MTR_TIME, 1000), region(BLOCK, 2), from(1, 5, 5), 5, mtr_event(MTR_FREE, BLOCK, 0, 0) };
  put(f, 1, 0, one, 7);
  put(f, 2, 0, two, 5);
  fclose(f);
  ms_measures *m = measure(NULL);
  CHECK(m->impossible == 0 && m->unknown == 0 && m->never.number == 1);
  ms_free(m);
}

/* Who took the region was preempted between its looks at positions 5 and 5000: the malloc between them, two chunks on, comes first. */
static void what_came_between_two_distant_looks_comes_first(void)
{
  enum { SEEN = 5000, AT = 2 * MTR_CHUNK_WORDS + 700 };
  static uint64_t one[3 * MTR_CHUNK_WORDS];
  const uint64_t head[] = { mtr_word(MTR_TIME, 9000), region(BLOCK, 1), from(0, 0, 0), 0, mtr_event(MTR_MALLOC, BLOCK + 64, 0, 24) };
  for (uint32_t i = 0; i < 3 * MTR_CHUNK_WORDS; i++) one[i] = mtr_event(MTR_FREE, 0, 0, 0);
  memcpy(one, head, sizeof head);
  one[AT] = mtr_event(MTR_MALLOC, BLOCK, 0, 24);
  const uint64_t two[] = { mtr_word(MTR_TIME, 1000), region(BLOCK, 2), from(1, 5, SEEN), SEEN, mtr_event(MTR_FREE, BLOCK, 0, 0) };
  FILE *f = begin();
  for (uint32_t c = 0; c < 3; c++) put(f, 1, c, one + c * MTR_CHUNK_WORDS, MTR_CHUNK_WORDS);
  put(f, 2, 0, two, 5);
  fclose(f);
  ms_measures *m = measure(NULL);
  CHECK(m->impossible == 0 && m->unknown == 0 && m->never.number == 1);
  ms_free(m);
}

/* Back and forth a thousand times over one address, each time with the times the wrong way round. */
static void a_block_handed_round_is_always_in_order(void)
{
  enum { ROUNDS = 200 };
  uint64_t words[2][ROUNDS * 6];
  uint32_t n[2] = { 0, 0 };
  uint64_t sequence = 1;
  for (int i = 0; i < ROUNDS; i++, sequence++) {
    int s = i & 1;
    uint64_t other = n[!s];
    words[s][n[s]++] = mtr_word(MTR_TIME, (uint64_t)(s ? 1 : 100000) + (uint64_t)i);
    words[s][n[s]++] = region(BLOCK, sequence);
    words[s][n[s]++] = from(i ? (uint64_t)(!s + 1) : 0, other, other);
    words[s][n[s]++] = other;
    if (i > 0) words[s][n[s]++] = mtr_event(MTR_FREE, BLOCK, 0, 0);
    words[s][n[s]++] = mtr_event(MTR_MALLOC, BLOCK, 0, 32);
  }
  FILE *f = begin();
  put(f, 2, 0, words[1], n[1]);
  put(f, 1, 0, words[0], n[0]);
  fclose(f);
  uint64_t relaxed;
  ms_measures *m = measure(&relaxed);
  CHECK(m->impossible == 0 && m->unknown == 0 && relaxed == 0 && m->total.number == ROUNDS && m->by_another == 0); /* one thread: no thread words */
  ms_free(m);
}

static void reallocs_nest_fail_and_free(void)
{
  FILE *f = begin();
  const uint64_t w[] = {
    region(BLOCK, 1), from(0, 0, 0), 0, mtr_event(MTR_MALLOC, BLOCK, 0, 10), mtr_event(MTR_MALLOC, BLOCK + 64, 0, 10),
    mtr_event(MTR_REALLOC_BEGIN, BLOCK, 0, 0), /* a handler reallocs meanwhile */ mtr_event(MTR_REALLOC_BEGIN, BLOCK + 64, 0, 0),
    mtr_event(MTR_REALLOC_END, BLOCK + 128, 0, 20), mtr_event(MTR_REALLOC_END, BLOCK, 0, 30), /* moved; in place */
    mtr_event(MTR_REALLOC_BEGIN, BLOCK, 0, 0), mtr_event(MTR_REALLOC_END, 0, 0, 5000), /* failed: stays */
    mtr_event(MTR_REALLOC_BEGIN, BLOCK + 128, 0, 0), mtr_event(MTR_REALLOC_END, 0, 0, 0), /* freed */
    mtr_event(MTR_REALLOC_END, BLOCK + 192, 1, 7), /* of NULL */
    mtr_event(MTR_FREE, 0, 0, 0), mtr_event(MTR_REALLOC_BEGIN, BLOCK + 192, 0, 0) /* killed inside */
  };
  put(f, 1, 0, w, sizeof w / 8);
  fclose(f);
  ms_measures *m = measure(NULL);
  CHECK(m->total.number == 5 && m->routine[MS_REALLOC].number == 3 && m->reallocs == 3 && m->realloc_freed == 1 && m->in_place == 1 && m->moved == 1);
  CHECK(m->realloc_failed == 1 && m->realloc_null == 1 && m->null_frees == 1 && m->never.number == 2 && m->never.bytes == 37 && m->impossible == 0);
  CHECK(m->peak_bytes == 50);
  ms_free(m);
}

static void big_sizes_alignments_and_stacks_are_read(void)
{
  FILE *f = begin();
  const uint64_t w[] = { region(BLOCK, 1), from(0, 0, 0), 0, mtr_word(MTR_SIZE, UINT64_C(1) << 40), mtr_word(MTR_ALIGNMENT, 12 | MTR_MEMALIGN << 8),
                         mtr_word(MTR_STACK, 2), 77, 78, mtr_event(MTR_ALIGNED, BLOCK, 0, MTR_SIZE_ESCAPE) };
  put(f, 1, 0, w, sizeof w / 8);
  fclose(f);
  ms_measures *m = measure(NULL);
  CHECK(m->total.bytes == UINT64_C(1) << 40 && m->routine[MS_ALIGNED].number == 1 && m->sites->count == 2 && m->sites->site[0].number == 1);
  const uint64_t *frames = m->sites->addresses + m->sites->site[0].frames;
  CHECK(frames[0] == 2 && frames[1] == 77 && frames[2] == 78 && m->sites->site[0].at_peak == UINT64_C(1) << 40);
  ms_free(m);
}

static void damage_is_named_with_its_byte(void)
{
  rd_error e;
  FILE *f = begin();
  const uint64_t w[] = { mtr_event(MTR_FREE, BLOCK, 0, 0), mtr_word(14, 0) };
  put(f, 1, 0, w, 2);
  fclose(f);
  rd_reader *r = rd_open(path, 0, &e);
  rd_event v;
  CHECK(r && rd_next(r, &v, &e) == -1 && strstr(e.text, "byte 88: a word of unknown kind"));
  rd_close(r);
  CHECK(truncate(path, 90) == 0 && !rd_open(path, 0, &e) && strstr(e.text, "byte 64: the file ends inside this chunk"));
  r = rd_open(path, 1, &e);
  CHECK(r && rd_next(r, &v, &e) == 0);
  rd_close(r);
  CHECK(truncate(path, 30) == 0 && !rd_open(path, 1, &e) && strstr(e.text, "too short"));
}

/* ---- every byte ---- */

static void keep(const char *bytes, size_t n)
{
  FILE *f = fopen(path, "w");
  CHECK(f && (n == 0 || fwrite(bytes, 1, n, f) == n) && fclose(f) == 0);
}

/* All that is ever made of a trace: 1, or 0 with an error that names the file and the byte. */
static int read_all_of_it(int partial)
{
  static FILE *nowhere;
  static ph_phase all;
  static const ph_phases phases = { .at = &all, .count = 1 };
  rd_error error = { "" };
  rd_event e;
  rd_reader *r = rd_open(path, partial, &error);
  ms_measures *m = r ? ms_new(100, 1000, &phases) : NULL;
  int got = r ? 1 : -1;
  if (!nowhere) nowhere = fopen("/dev/null", "w");
  while (got > 0 && (got = rd_next(r, &e, &error)) > 0) ms_event(m, &e);
  if (got == 0) {
    ms_end(m);
    ms_print(nowhere, m, r);
    jt_print(nowhere, &m->joint, m->operations);
  } else {
    CHECK(strstr(error.text, path) && strstr(error.text, "byte "));
  }
  ms_free(m);
  rd_close(r);
  return got == 0;
}

static size_t make_one_of_everything(char *into, size_t room)
{
  FILE *f = begin();
  const uint64_t one[] = {
    mtr_word(MTR_THREAD, 11), mtr_word(MTR_TIME, 9000), region(BLOCK, 1), from(0, 0, 0), 0, mtr_event(MTR_MALLOC, BLOCK, 0, 24),
    mtr_word(MTR_STACK, 2), 77, 78, mtr_event(MTR_CALLOC, BLOCK + 64, 1, 100), mtr_word(MTR_SIZE, 70000), mtr_word(MTR_ALIGNMENT, 4 | 1 << 8),
    mtr_event(MTR_ALIGNED, BLOCK + 128, 0, MTR_SIZE_ESCAPE), mtr_event(MTR_REALLOC_BEGIN, BLOCK + 64, 0, 0)
  };
  const uint64_t more[] = { mtr_event(MTR_REALLOC_END, BLOCK + 192, 0, 30), mtr_event(MTR_FREE, 0, 0, 0) };
  const uint64_t two[] = {
    mtr_word(MTR_THREAD, 12), mtr_word(MTR_TIME, 1000), region(BLOCK, 2), from(1, 6, 14), 14, mtr_event(MTR_FREE, BLOCK, 2, 0),
    mtr_event(MTR_REALLOC_END, BLOCK + 4096, 1, 9), mtr_event(MTR_FREE, BLOCK + 128, 0, 0)
  };
  put(f, 2, 0, two, sizeof two / 8);
  put(f, 1, 0, one, sizeof one / 8);
  put(f, 1, 1, more, sizeof more / 8);
  CHECK(fclose(f) == 0 && (f = fopen(path, "r")));
  size_t n = fread(into, 1, room, f);
  CHECK(n > 250 && n < room && fclose(f) == 0);
  return n;
}

static void a_trace_cut_off_anywhere_is_an_error_and_its_beginning_can_be_read(void)
{
  static char bytes[4096];
  size_t n = make_one_of_everything(bytes, sizeof bytes);
  int whole = 0;
  CHECK(read_all_of_it(0) && read_all_of_it(1));
  for (size_t cut = 0; cut < n; cut++) {
    keep(bytes, cut);
    whole += read_all_of_it(0);
    CHECK(read_all_of_it(1) == (cut >= sizeof(mtr_header)));
  }
  CHECK(whole == 3); /* after the header, and where a chunk ends */
}

static void a_byte_changed_anywhere_is_an_error_or_another_trace(void)
{
  static char bytes[4096];
  size_t n = make_one_of_everything(bytes, sizeof bytes);
  int refused = 0;
  for (size_t at = 0; at < n; at++) {
    const char was = bytes[at], others[] = { (char)0xff, (char)(was ^ 1), (char)(was ^ 0x80) };
    for (size_t k = 0; k < sizeof others; k++) {
      bytes[at] = others[k];
      keep(bytes, n);
      refused += !read_all_of_it(k & 1);
    }
    bytes[at] = was;
  }
  CHECK(refused > 100);
}

int main(void)
{
  int fd = mkstemp(path);
  CHECK(fd >= 0);
  close(fd);
  table_equals_an_array();
  table_uses_32_bytes_a_block();
  a_block_given_out_twice_is_seen();
  what_was_not_freed_is_counted_by_site();
  classes_cover_every_value_in_order();
  a_curve_keeps_the_last_value_of_each_step();
  counts_sort_and_refuse_beyond_their_limit();
  a_region_taken_over_waits_for_its_last_owner();
  what_was_on_its_way_comes_first_too();
  what_came_between_two_distant_looks_comes_first();
  a_block_handed_round_is_always_in_order();
  reallocs_nest_fail_and_free();
  big_sizes_alignments_and_stacks_are_read();
  damage_is_named_with_its_byte();
  a_trace_cut_off_anywhere_is_an_error_and_its_beginning_can_be_read();
  a_byte_changed_anywhere_is_an_error_or_another_trace();
  unlink(path);
  return 0;
}
