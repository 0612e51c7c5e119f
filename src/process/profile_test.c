/*
 * profile: processes that are born, compute, allocate, wait, move between threads and end, while all of them are profiled.
 */
#include "process/test.h"
#include "process/profile.h"
#include "lua/calls.h"

enum { ROUNDS = 30 };

static double sum(const mr_stacks *s, int value) {
  double all = 0;
  for (uint32_t i = 1; i < s->nodes; i++) all += s->node[i].value[value];
  return all;
}

/* What is counted for stacks that begin with `name`. */
static double sum_of(const mr_stacks *s, const char *name, int value) {
  double all = 0;
  for (uint32_t i = 1; i < s->nodes; i++) {
    uint32_t at = i;
    while (s->node[at].parent != STACK_NONE) at = s->node[at].parent;
    if (strcmp(mr_stacks_text(s, s->function[s->node[at].function].name), name) == 0) all += s->node[i].value[value];
  }
  return all;
}

static int has_call(const mr_stacks *s, const char *name) {
  for (uint32_t i = 1; i < s->nodes; i++)
    if (strcmp(mr_stacks_text(s, s->function[s->node[i].function].name), name) == 0) return 1;
  return 0;
}

static double counted(int kind, const char *process, int value) {
  mr_stacks *all = mr_profile_all(kind);
  double n = all ? process ? sum_of(all, process, value) : sum(all, value) : -1;
  if (all) mr_stacks_free(all);
  return n;
}

static void test_calls_are_read_raw(void) { CHECK(mr_layout && mr_calls); }

static void test_processes_that_come_and_go(const test_host *h) {
  test_setup();
  for (int i = 0; i < ROUNDS / SLOW + 1; i++)
    RUN(h, "local p = {}"
           " for i = 1, 20 do p[i] = spawn({ name = i % 2 == 0 and 'even' or nil }, function(i)"
           "   local t = {}"
           "   local co = coroutine.wrap(function() for k = 1, 300 do t[k] = { k } if k % 50 == 0 then coroutine.yield() end end end)"
           "   for k = 1, 6 do co() yield() end"
           "   local f = fiber('named', function() for k = 1, 300 do t[k] = 's' .. k end yield() end)"
           "   join(f) t = string.rep('x', 10000) if i == 7 then error('x', 0) end"
           "   return t"
           " end, i) end"
           " for i = 1, 20 do result(p[i]) end");
  mr_stacks *all = mr_profile_all(PROFILE_HEAP);
  CHECK(all && sum_of(all, "process 'even'", 1) > 1e5 && sum_of(all, "process", 0) > 1000);
  CHECK(all && has_call(all, "fiber 'named'") && has_call(all, "[C] rep"));
  if (all) mr_stacks_free(all);
}

/* Lent by none of them: all have ended. */
static void test_what_has_ended_uses_nothing(void) {
  double objects = counted(PROFILE_HEAP, NULL, 2), bytes = counted(PROFILE_HEAP, NULL, 3);
  CHECK(objects > -0.5 && objects < 0.5 && bytes > -1 && bytes < 1);
}

static void test_what_lives_is_in_use(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({ name = 'keeper' }, function() local t = {} for i = 1, 20000 do t[i] = { i } end set(1) await(2) end) await(1)");
  double used = counted(PROFILE_HEAP, "process 'keeper'", 3), made = counted(PROFILE_HEAP, "process 'keeper'", 1);
  CHECK(used > 800000 && used < 4e6 && made >= used);      /* 20000 tables of 56 + 16 bytes, and one of 512 KiB: estimates */
  RUN(h, "set(2) result(p) p = nil");
}

static void test_time_is_counted_for_who_has_had_it(const test_host *h) {
  test_setup();
  double busy = 0;
  for (int i = 0; i < 200 && busy < 2e7; i++) {
    RUN(h, "local p = spawn({ name = 'busy' }, function() local s = 0 for i = 1, 2000000 do s = s + i end end)"
           " local q = spawn({ name = 'waits' }, function() await(3, 0.01) end) result(p) result(q)");
    busy = counted(PROFILE_CPU, "process 'busy'", 1);
  }
  CHECK(busy >= 2e7 && counted(PROFILE_CPU, "process 'waits'", 1) < busy / 2);
}

/* A stack deeper than what is read, and coroutines in coroutines. */
static void test_deep_stacks(const test_host *h) {
  test_setup();
  RUN(h, "local p = spawn({ name = 'deep' }, function()"
         "   local function down(n) if n == 0 then local t = {} for i = 1, 3000 do t[i] = { i } end return 1 end return 1 + down(n - 1) end"
         "   local function into(n) if n == 0 then return down(50) end return coroutine.wrap(function() into(n - 1) end)() end"
         "   down(10000) into(20) into(60)"
         " end) assert(result(p))");
  mr_stacks *all = mr_profile_all(PROFILE_HEAP);
  CHECK(all && has_call(all, "(deeper)") && sum_of(all, "process 'deep'", 1) > 1e5);
  if (all) mr_stacks_free(all);
}

static void test_the_files(const char *const file[PROFILES]) {
  mr_profile_write();
  for (int i = 0; i < PROFILES; i++) {
    char text[64] = "";
    FILE *f = fopen(file[i], "rb");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    CHECK(n > 0 && (i == PROFILE_CPU ? strncmp(text, "process", 7) == 0 || strncmp(text, "(other)", 7) == 0 : text[0] == '\x0a'));
    if (f) fclose(f);
    remove(file[i]);
  }
}

int main(void) {
  char name[2][64], error[200];
  snprintf(name[0], sizeof name[0], "/tmp/mare-profile-test-%d.folded", (int)getpid());
  snprintf(name[1], sizeof name[1], "/tmp/mare-profile-test-%d.pprof", (int)getpid());
  mr_profile_wish wish = { .file = { name[0], name[1] }, .hz = 1000, .bytes = 4096 };
  test_setup();
  mr_workers_set(3);
  CHECK(mr_profile_start(&wish, error) == 0);
  test_host h = host_open();
  test_calls_are_read_raw();
  test_processes_that_come_and_go(&h);
  test_what_has_ended_uses_nothing();
  test_what_lives_is_in_use(&h);
  test_time_is_counted_for_who_has_had_it(&h);
  test_deep_stacks(&h);
  host_close(&h);
  test_what_has_ended_uses_nothing();
  test_the_files(wish.file);
  return CHECK_RESULT();
}
