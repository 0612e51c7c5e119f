/*
 * Fibers other than the first, of processes and of hosts: how they start, share, wait, are cancelled, and end.
 */
#include "process/test.h"

/* Runs it in a host's state and in a process. */
static void both(const test_host *h, const char *code, const char *file, int line) {
  test_setup();
  host_run(h, code, file, line);
  lua_pushstring(h->L, code);
  lua_setglobal(h->L, "code");
  test_setup();
  host_run(h, "local ok, err, trace = result(spawn({}, code)) assert(ok, tostring(err) .. '\\n' .. tostring(trace))", file, line);
}
#define BOTH(h, code) both(h, code, __FILE__, __LINE__)

static void test_fibers_share_their_process_s_data(const test_host *h) {
  BOTH(h, "local log, f = {}, {}"
          " for i = 1, 5 do f[i] = fiber(nil, function(...) log[#log + 1] = i yield() log[#log + 1] = i return i, ... end, 'a', nil) end"
          " assert(#log == 0, 'they begin when we wait')"
          " for i = 1, 5 do local ok, n, a, b = join(f[i]) assert(ok and n == i and a == 'a' and b == nil) end"
          " assert(table.concat(log) == '1234512345', table.concat(log))");
}

static void test_a_failure_is_that_fiber_s_only(const test_host *h) {
  BOTH(h, "local f = fiber('weak', function() local c <close> = setmetatable({}, { __close = closed }) yield() error({ 5 }) end)"
          " local g = fiber(nil, function() yield() yield() return 'well' end)"
          " local ok, err, trace = join(f) assert(ok == false and err[1] == 5 and trace:find 'traceback', trace)"
          " local ok, text = join(g) assert(ok and text == 'well')");
  CHECK(atomic_load(&test_closed) == 1);
}

static void test_many_are_born_and_end(const test_host *h) {
  lua_pushinteger(h->L, 1000 / SLOW);
  lua_setglobal(h->L, "rounds");
  RUN(h, "local body = function(rounds) local sum = 0"
         "  for i = 1, rounds do local f, g = fiber(nil, function() yield() return i end), fiber(nil, function() return i end)"
         "   local _, a = join(f) local _, b = join(g) sum = sum + a + b if i % 20 == 0 then collectgarbage() end end"
         "  return sum end"
         " local p = {}"
         " for i = 1, 4 do p[i] = spawn({}, body, rounds) end"
         " assert(body(rounds) == rounds * (rounds + 1))"
         " for i = 1, 4 do local ok, sum = result(p[i]) assert(ok and sum == rounds * (rounds + 1)) end");
}

/* Its end is that of the last fiber, but daemons don't count: they get an error where they wait. */
static void test_a_process_ends_with_its_last_fiber(const test_host *h) {
  test_setup();
  RUN(h, "local p = spawn({}, function() fiber(nil, function() await(0) finalised() end) return 'first' end)"
         " assert(select(2, wait(p, 0.003)) == 'timeout') set(0)"
         " local ok, text = result(p) assert(ok and text == 'first')");
  CHECK(atomic_load(&test_finalised) == 1);
  test_setup();
  RUN(h, "local ok, text = result(spawn({}, function()"
         "   for i = 1, 3 do daemon(fiber(nil, function() local c <close> = setmetatable({}, { __close = closed }) await(0) finalised() end)) end"
         "   fiber(nil, function() for i = 1, 5 do yield() end end) return 'first' end))"
         " assert(ok and text == 'first')");
  CHECK(atomic_load(&test_closed) == 3 && atomic_load(&test_finalised) == 0);
}

static void test_who_is_cancelled_gets_one_error_and_may_clean_up(const test_host *h) {
  BOTH(h, "local seen"
          " local f = fiber(nil, function()"
          "   local c <close> = setmetatable({}, { __close = closed })"
          "   local ok, err = pcall(await, 0) seen = err"
          "   pcall(await, 0) seen = 'waited once more' end)"
          " for i = 1, 3 do yield() end cancel(f) cancel(f)"
          " assert(join(f) == false and seen:find 'the fiber was cancelled', seen)");
  CHECK(atomic_load(&test_closed) == 1);
  BOTH(h, "local ran local f = fiber(nil, function() ran = true end) cancel(f)"
          " local ok, err = join(f) assert(ok == false and err == nil and not ran)");
  BOTH(h, "local f = fiber(nil, function() return 'done' end) yield() yield() cancel(f)"
          " local ok, text = join(f) assert(ok and text == 'done')");
  BOTH(h, "local f = fiber(nil, function() local ok, err = pcall(await, 0) return 'cleaned up', err end) yield() yield() cancel(f)"
          " local ok, text, err = join(f) assert(ok and text == 'cleaned up' and err:find 'cancelled')");
}

static void test_cancelled_where_it_can_t_yield(const test_host *h) {
  test_setup();
  RUN(h, "local ok, err = result(spawn({}, function()"
         "  local f = fiber(nil, function() table.sort({ 2, 1 }, function() await(0) end) end)"
         "  yield() await(1, 0.002) cancel(f)"
         "  local ok, err = join(f) assert(ok == false and err:find 'cancelled', err)"
         " end)) assert(ok, err)");
}

/* Cancelled while others wake it: it is one or the other. */
static void test_a_cancel_and_a_wake_up_at_the_same_time(const test_host *h) {
  for (int i = 0; i < 200 / SLOW; i++) {
    test_setup();
    RUN(h, "local p = spawn({}, function()"
           "   local f = fiber(nil, function() local a = await(0) return a end)"
           "   yield() set(1) cancel(f)"
           "   local ok, a = join(f) assert((ok and a == true) or (not ok and a:find 'cancelled')) end)"
           " await(1) set(0)"
           " local ok, err = result(p) assert(ok, err)");
  }
}

static void test_when_the_first_fiber_fails_all_end(const test_host *h) {
  test_setup();
  RUN(h, "local ok, err = result(spawn({}, function()"
         "   for i = 1, 3 do fiber(nil, function() local c <close> = setmetatable({}, { __close = closed }) await(0) finalised() end) end"
         "   fiber(nil, function() local c <close> = setmetatable({}, { __close = closed }) while true do yield() end end)"
         "   yield() error('first', 0) end))"
         " assert(not ok and err == 'first')");
  CHECK(atomic_load(&test_closed) == 4 && atomic_load(&test_finalised) == 0);
}

static void test_a_host_s_fibers_end_with_it(void) {
  test_setup();
  test_host h = host_open();
  RUN(&h, "fiber(nil, function() await(0) finalised() end) fiber(nil, finalised) fiber('busy', function() while true do yield() end end) await(1, 0.002)");
  CHECK(atomic_load(&test_finalised) == 1);
  host_close(&h);
  CHECK(atomic_load(&test_finalised) == 1);
}

int main(void) {
  test_setup();
  mr_workers_set(3);
  test_host h = host_open();
  test_fibers_share_their_process_s_data(&h);
  test_a_failure_is_that_fiber_s_only(&h);
  test_many_are_born_and_end(&h);
  test_a_process_ends_with_its_last_fiber(&h);
  test_who_is_cancelled_gets_one_error_and_may_clean_up(&h);
  test_cancelled_where_it_can_t_yield(&h);
  test_a_cancel_and_a_wake_up_at_the_same_time(&h);
  test_when_the_first_fiber_fails_all_end(&h);
  host_close(&h);
  test_a_host_s_fibers_end_with_it();
  return CHECK_RESULT();
}
