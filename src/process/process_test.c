/*
 * Birth and end of processes, with a minimal Lua (test.h): results, failures, recycled states, limits of memory.
 */
#include "process/test.h"

static void test_results_come_as_they_were(const test_host *h) {
  RUN(h, "local p = spawn({}, function(a, b) return a + b, 'sum' end, 20, 22)"
         " local ok, sum, text = result(p) assert(ok == true and sum == 42 and text == 'sum')");
  RUN(h, "assert(select('#', result(spawn({}, function() end))) == 1)");
  RUN(h, "assert(select('#', result(spawn({}, function() return nil, nil end))) == 3)");
  RUN(h, "local ok, t, s = result(spawn({}, function() local t = { 1, { 'x' } } t.t = t return t, ('y'):rep(5000) end))"
         " assert(ok and t[2][1] == 'x' and t.t == t and #s == 5000)");
  RUN(h, "local p = spawn({}, function(...) return select('#', ...), ... end, nil, false, 'c') local ok, n, a, b, c = result(p)"
         " assert(ok and n == 3 and a == nil and b == false and c == 'c')");
  RUN(h, "local p = spawn({}, function() return (table.unpack({}, 1, 3000)) end) assert(result(p))");
}

/* Who asks late, or more than once, or twice at a time, gets the same. */
static void test_everybody_who_waits_learns_of_the_end(const test_host *h) {
  RUN(h, "local p = spawn({}, function() await(0) return { 7 } end)"
         " assert(select(2, wait(p, 0.002)) == 'timeout' and status(p) ~= 'done')"
         " local waiting = {}"
         " for i = 1, 20 do waiting[i] = spawn({}, function(p) local ok, t = wait(p) return ok and t[1] end, p) end"
         " set(0)"
         " for i = 1, 20 do local ok, n = result(waiting[i]) assert(ok and n == 7) end"
         " assert(wait(p) and select(2, wait(p))[1] == 7 and status(p) == 'done') drop(p)");
}

static void test_a_failure_has_its_value_its_text_and_a_traceback(const test_host *h) {
  RUN(h, "local p = spawn({ name = 'weak' }, 'local function inner() error(\"no luck\") end\\n local r = inner() return r')"
         " local ok, value, trace, text = wait(p)"
         " assert(ok == false and value == 'body:1: no luck' and text == value and status(p) == 'failed')"
         " assert(trace:find '^stack traceback:' and trace:find 'body:1: in' and trace:find \"'inner'\" and trace:find 'body:2: in main chunk', trace) drop(p)");
  RUN(h, "local ok, value, trace, text = result(spawn({}, function() error({ code = 5 }) end))"
         " assert(not ok and value.code == 5 and text == '(error object is a table value)')");
  RUN(h, "local ok, value, trace, text = result(spawn({}, function() error(nil) end)) assert(not ok and value == nil and text == 'nil' and trace)");
  RUN(h, "local ok, value, trace, text = result(spawn({}, function() error(setmetatable({}, { __tostring = function() return 'mine' end })) end))"
         " assert(not ok and text == 'mine')");
  RUN(h, "local ok, value = result(spawn({}, function() error(coroutine.create(print)) end)) assert(not ok and type(value) == 'string' and value:find '^thread')");
  RUN(h, "local ok, value = result(spawn({}, function() return coroutine.create(print) end)) assert(not ok and value:find 'result', value)");
  RUN(h, "local function deep(n) if n == 0 then error 'deep' end return 1 + deep(n - 1) end"
         " local ok, value, trace = result(spawn({}, deep, 100)) assert(not ok and trace:find 'skipping')");
  RUN(h, "local ok, err = pcall(spawn, {}, function() end, coroutine.create(print)) assert(not ok and err:find 'argument', err)");
  RUN(h, "local ok, err = pcall(spawn, {}, 'return +') assert(not ok and err:find 'body:1')");
}

/* Whoever learns of the end finds that all this has happened. */
static void test_finalisers_and_pending_variables_run_before_the_end_is_known(const test_host *h) {
  int rounds = 200 / SLOW;
  lua_pushinteger(h->L, rounds);
  lua_setglobal(h->L, "rounds");
  test_setup();
  RUN(h, "for i = 1, rounds do"
         "  local ok = result(spawn({ system = i % 4 == 0 }, function(i)"
         "    x = setmetatable({}, { __gc = finalised })"
         "    local c <close> = setmetatable({}, { __close = closed })"
         "    if i % 2 == 0 then error 'out' end"
         "  end, i))"
         "  assert(ok == (i % 2 == 1))"
         " end");
  CHECK(atomic_load(&test_finalised) == rounds && atomic_load(&test_closed) == rounds);
}

/* Each finds a state as if it was the first in it. */
static void births(const test_host *h, int keep) {
  atomic_store(&mr_recycle, keep);
  lua_pushinteger(h->L, 2000 / SLOW);
  lua_setglobal(h->L, "rounds");
  RUN(h, "local function body(n)"
         "  assert(left == nil and string.left == nil and getmetatable('').__index == string)"
         "  left, string.left = {}, n"
         "  for i = 1, 200 do left[i] = { i, ('x'):rep(i) } end"
         "  if n % 7 == 0 then yield() end"
         "  if n % 50 == 0 then error('at ' .. n, 0) end"
         "  return n"
         " end"
         " for n = 1, rounds, 20 do"
         "  local p = {}"
         "  for i = 0, 19 do p[i] = spawn({ system = i == 3 }, body, n + i) end"
         "  for i = 0, 19 do local ok, got = result(p[i]) assert(got == (ok and n + i or 'at ' .. n + i), got) assert(ok == ((n + i) % 50 ~= 0)) end"
         " end");
  RUN(h, "local function nest(n) if n == 0 then return 0 end local ok, depth = result(spawn({}, nest, n - 1)) return depth + 1 end"
         " local ok, depth = result(spawn({}, function(nest) return nest(30) end, nest)) assert(ok or depth)");
}

static void test_states_are_new_however_many_are_kept(const test_host *h) {
  static const int keep[] = { MR_KEEP, 0, 1, MR_KEEP };
  for (int i = 0; i < 4; i++) births(h, keep[i]);
}

static void test_a_process_can_t_use_more_memory_than_its_limit(const test_host *h) {
  RUN(h, "local grow = function() local t = {} for i = 1, 1e8 do t[i] = { i } end end"
         " for i = 1, 20 do"
         "  local ok, err, trace = result(spawn({ memory = 200000, system = i % 2 == 0 }, grow))"
         "  assert(not ok and err == 'not enough memory' and trace:find 'traceback', err)"
         " end");
  RUN(h, "local ok, n = result(spawn({ memory = 200000 }, function() local n = 0 for i = 1, 20 do if not pcall(string.rep, 'x', 1e6) then n = n + 1 end end return n end))"
         " assert(ok and n == 20)");
  RUN(h, "local ok, n = result(spawn({ memory = 4000000 }, function() return #('x'):rep(1000000) end)) assert(ok and n == 1000000)");
  RUN(h, "local ok, err = result(spawn({ memory = 1000 }, function() local t = {} for i = 1, 1000 do t[i] = {} end end)) assert(not ok and err == 'not enough memory')");
}

static void test_children_of_one_that_has_ended_go_on(const test_host *h) {
  test_setup();
  RUN(h, "local ok, child = result(spawn({}, function() return (spawn({}, function() await(1) return 'late' end)) end))"
         " assert(ok and status(child) ~= 'done') set(1)"
         " local ok, text = result(child) assert(ok and text == 'late')");
}

static void print_and_quit(void) {
  test_host h = host_open();
  RUN(&h, "drop(spawn({ name = 'nobody' }, 'error(\"unseen\", 0)')) while finalised() do end");
  mr_host_join(h.proc);
  host_close(&h);
  child_over();
}

/* Once, with the name, the error and where it was. */
static void test_a_failure_that_nobody_waits_for_is_printed(void) {
  char said[4096];
  int status;
  test_child(print_and_quit, said, sizeof said, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const char *at = strstr(said, "mare: process 'nobody' (#");
  if (!at) fprintf(stderr, "it said: %s\n", said);
  CHECK(at && strstr(at, "failed: unseen\nstack traceback:\n\t") && !strstr(at + 1, "mare:"));
}

int main(void) {
  test_setup();
  test_a_failure_that_nobody_waits_for_is_printed();
  mr_workers_set(3);
  test_host h = host_open();
  test_results_come_as_they_were(&h);
  test_everybody_who_waits_learns_of_the_end(&h);
  test_a_failure_has_its_value_its_text_and_a_traceback(&h);
  test_finalisers_and_pending_variables_run_before_the_end_is_known(&h);
  test_states_are_new_however_many_are_kept(&h);
  test_a_process_can_t_use_more_memory_than_its_limit(&h);
  test_children_of_one_that_has_ended_go_on(&h);
  CHECK(mr_host_join(h.proc) == MR_OK && mr_proc_count() == 0);
  host_close(&h);
  return CHECK_RESULT();
}
