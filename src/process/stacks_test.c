/*
 * stacks: trees of call stacks, when they are full and when they are put together, and the files that they become.
 */
#include "port/test.h"
#include "process/stacks.h"

static uint32_t lua_function(mr_stacks *s, const char *file, int defined, const char *name) {
  uint32_t f = mr_stacks_function(s, file, strlen(file), defined, "");
  mr_stacks_name(s, f, name);
  return f;
}

static uint32_t root(mr_stacks *s, const char *name) { return mr_stacks_enter(s, STACK_NONE, mr_stacks_function(s, "", 0, -1, name), -1); }

static const mr_stack_kind kind = { .n = 2, .shown = 1, .scale = 10, .type = { "samples", "cpu" }, .unit = { "count", "nanoseconds" },
                                    .period_type = "cpu", .period_unit = "nanoseconds", .period = 5 };

static mr_stacks *example(void) {
  mr_stacks *s = mr_stacks_new(64);
  uint32_t main = root(s, "main"), chunk = mr_stacks_enter(s, main, lua_function(s, "a;b.lua", 0, NULL), 3);
  uint32_t f = mr_stacks_enter(s, chunk, lua_function(s, "a;b.lua", 7, "f"), 8);
  s->node[chunk].value[1] = 40;
  s->node[f].value[0] = 2;
  s->node[f].value[1] = 123;
  return s;
}

static void test_what_is_the_same_is_found_again(void) {
  mr_stacks *s = example();
  uint32_t nodes = s->nodes, functions = s->functions, f = lua_function(s, "a;b.lua", 7, "other");
  CHECK(strcmp(mr_stacks_text(s, s->function[f].name), "f") == 0);       /* the first name stays */
  uint32_t chunk = mr_stacks_enter(s, root(s, "main"), lua_function(s, "a;b.lua", 0, NULL), 3);
  CHECK(s->node[mr_stacks_enter(s, chunk, f, 8)].value[1] == 123);
  CHECK(s->nodes == nodes && s->functions == functions);
  CHECK(mr_stacks_enter(s, chunk, f, 9) == nodes && lua_function(s, "a;b", 7, NULL) == functions && lua_function(s, "a;b.lua", 8, NULL) == functions + 1);
  CHECK(root(s, "mai") != root(s, "main") && root(s, "") == STACK_OTHER);
  mr_stacks_free(s);
}

static void test_a_name_is_looked_for_some_times_only(void) {
  mr_stacks *s = mr_stacks_new(64);
  uint32_t f = lua_function(s, "x.lua", 1, NULL);
  int n = 0;
  for (; mr_stacks_nameless(s, f) && n < 100; n++) mr_stacks_name(s, f, NULL);
  CHECK(n > 0 && n < 100);
  mr_stacks_name(s, f, "late");
  CHECK(!mr_stacks_nameless(s, f) && strcmp(mr_stacks_text(s, s->function[f].name), "late") == 0);
  mr_stacks_free(s);
}

static void test_what_finds_no_room_is_other(void) {
  mr_stacks *s = mr_stacks_new(64);
  uint32_t main = root(s, "main");
  for (int line = 1; line < 1000; line++) s->node[mr_stacks_enter(s, main, 1, line)].value[0]++;
  CHECK(s->nodes == 64 && s->node[STACK_OTHER].value[0] == 999 - 61);
  CHECK(mr_stacks_enter(s, STACK_OTHER, 1, 1) == STACK_OTHER && mr_stacks_enter(s, main, 1, 5) != STACK_OTHER);
  for (int i = 0; i < 100; i++) lua_function(s, "x.lua", i, NULL);
  CHECK(s->functions == 8 && lua_function(s, "x.lua", 99, NULL) == 0 && mr_stacks_enter(s, main, 0, 1) == STACK_OTHER);
  mr_stacks_free(s);
  s = mr_stacks_new(1024);
  char name[200];
  memset(name, 'x', sizeof name - 1);
  name[199] = 0;
  int n = 0;
  for (; n < 126 && mr_stacks_function(s, "", 0, -1, name); n++) name[n % 150] = 'y';
  CHECK(n > 10 && n < 126);                      /* the texts' room ends first */
  mr_stacks_free(s);
}

static void test_merging_adds(void) {
  mr_stacks *all = mr_stacks_new(128), *one = example(), *two = example();
  root(all, "first");                            /* so that the places differ */
  one->node[STACK_OTHER].value[0] = 5;
  mr_stacks_merge(all, one);
  mr_stacks_merge(all, two);
  uint32_t chunk = mr_stacks_enter(all, root(all, "main"), lua_function(all, "a;b.lua", 0, NULL), 3), f = lua_function(all, "a;b.lua", 7, NULL);
  CHECK(all->node[chunk].value[1] == 80 && all->node[mr_stacks_enter(all, chunk, f, 8)].value[1] == 246 && all->node[STACK_OTHER].value[0] == 5);
  CHECK(all->nodes == 6 && strcmp(mr_stacks_text(all, all->function[f].name), "f") == 0);
  mr_stacks_free(all);
  mr_stacks_free(one);
  mr_stacks_free(two);
}

static void test_folded_stacks(void) {
  mr_stacks *s = example();
  mr_bytes b = { 0 };
  mr_folded(&b, s, &kind);
  static const char expected[] = "main;a:b.lua:3 main chunk 4\nmain;a:b.lua:3 main chunk;a:b.lua:8 f 12\n";
  CHECK(!b.failed && b.length == sizeof expected - 1 && memcmp(b.at, expected, b.length) == 0);
  free(b.at);
  mr_stacks_free(s);
}

/* How often the bytes stand in b. */
static int occurs(const mr_bytes *b, const char *bytes, size_t n) {
  int found = 0;
  for (size_t i = 0; i + n <= b->length; i++) found += memcmp(b->at + i, bytes, n) == 0;
  return found;
}

static void test_a_profile_of_pprof(void) {
  mr_stacks *s = example();
  mr_bytes b = { 0 }, zipped = { 0 };
  mr_pprof(&b, s, &kind);
  CHECK(!b.failed && occurs(&b, "\x32\x0d" "f (a;b.lua:7)", 15) == 1 && occurs(&b, "\x32\x0bnanoseconds", 13) == 2);
  CHECK(occurs(&b, "\x12\x02\x02\x7b", 4) == 1 && occurs(&b, "\x12\x02\x00\x28", 4) == 1);      /* the values of two samples */
  mr_gzip(&zipped, &b);
  CHECK(!zipped.failed && zipped.length == b.length + 10 + 5 + 8 && memcmp(zipped.at + 15, b.at, b.length) == 0);
  mr_bytes large = { .at = calloc(1, 200000), .length = 200000 };
  zipped.length = 0;
  mr_gzip(&zipped, &large);
  CHECK(zipped.length == large.length + 10 + 4 * 5 + 8);
  free(b.at);
  free(zipped.at);
  free(large.at);
  mr_stacks_free(s);
}

int main(void) {
  test_what_is_the_same_is_found_again();
  test_a_name_is_looked_for_some_times_only();
  test_what_finds_no_room_is_other();
  test_merging_adds();
  test_folded_stacks();
  test_a_profile_of_pprof();
  return CHECK_RESULT();
}
