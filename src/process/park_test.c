/*
 * How Lua code waits: by yielding, by handing its worker over where it can't yield, with a host's own thread; and where it can't at all.
 */
#include "process/test.h"

static void test_the_way_is_chosen_by_the_place(const test_host *h) {
  RUN(h, "assert(how() == 'host')");
  RUN(h, "local f = fiber(nil, function() return how() end) local ok, way = join(f) assert(ok and way == 'yield')");
  RUN(h, "local f = fiber(nil, function() local way table.sort({ 2, 1 }, function(a, b) way = how() return a < b end) return way end)"
         " local ok, way = join(f) assert(ok and way == 'host')");
  RUN(h, "local ok, a, b, c, d, e = result(spawn({}, function()"
         "   local b, e table.sort({ 2, 1 }, function(x, y) b = how() return x < y end)"
         "   local c = coroutine.wrap(how)()"
         "   local ok, d = join(fiber(nil, function() return how() end))"
         "   setmetatable({}, { __gc = function() e = how() end }) collectgarbage() collectgarbage()"
         "   return how(), b, c, d, e end))"
         " assert(ok and a == 'yield' and b == 'hand over' and c == 'hand over' and d == 'yield', a) assert(e:find 'finaliser', e)");
}

static void test_a_wait_that_was_abandoned_leaves_nothing(const test_host *h) {
  RUN(h, "local ok, err = result(spawn({}, function() for i = 1, 100 do"
         "   table.sort({ 2, 1 }, function(x, y) assert(how() == 'hand over') return x < y end) assert(how() == 'yield') end end)) assert(ok, err)");
}

static const char ways[] =
  "ways = {"
  "  function(wait, ...) return wait(...) end,"
  "  function(wait, ...) local args, got = table.pack(...), nil"
  "    table.sort({ 2, 1 }, function(a, b) got = table.pack(wait(table.unpack(args))) return a < b end) return table.unpack(got, 1, got.n) end,"
  "  function(wait, ...) return coroutine.wrap(wait)(...) end,"
  "  function(wait, ...) local r = table.pack(join(fiber(nil, wait, ...))) assert(r[1], r[2]) return table.unpack(r, 2, r.n) end,"
  "}";

/* Each waits for the one before it, in one of the ways. */
static void test_a_chain_of_waits_of_all_kinds_ends(const test_host *h) {
  RUN(h, ways);
  for (int i = 0; i < 20 / SLOW; i++) {
    test_setup();
    RUN(h, "local last = spawn({}, function() await(0) return 0 end)"
           " for i = 1, 40 do last = spawn({}, function(way, last) local ok, n = way(result, last) assert(ok, n) return n + 1 end, ways[i % 4 + 1], last) end"
           " for i = 1, 3 do yield() end set(0)"
           " local ok, n = ways[math.random(4)](result, last) assert(ok and n == 40, n)");
  }
}

/* The time is over just when the event is set: it is one or the other, and never both. */
static void test_a_wake_up_and_the_deadline_at_the_same_time(const test_host *h) {
  for (int i = 0; i < 100 / SLOW; i++) {
    test_setup();
    RUN(h, "local p = {}"
           " for i = 1, 4 do p[i] = spawn({}, function(way)"
           "   local a, b = way(await, 0, 0.0005)"
           "   assert(a == true or (a == nil and b == 'timeout'))"
           "   local c, d = way(await, 0) assert(c == true and d == nil) end, ways[i]) end"
           " await(1, 0.0004) set(0)"
           " for i = 1, 4 do local ok, err = result(p[i]) assert(ok, err) end");
  }
}

static void test_who_yields_lets_others_run(const test_host *h) {
  test_setup();
  RUN(h, "local ok, n = result(spawn({}, function() local n, on = 0, true"
         "   local f = fiber(nil, function() while on do n = n + 1 yield() end end)"
         "   for i = 1, 100 do yield() end on = false assert(join(f)) return n end)) assert(ok and n >= 100, n)");
  RUN(h, "local n = 0 local f = fiber(nil, function() for i = 1, 50 do n = n + 1 yield() end end)"
         " while n < 50 do yield() end assert(join(f))");
  RUN(h, "local ok = result(spawn({}, function() table.sort({ 2, 1 }, function(a, b) yield() return a < b end) end)) assert(ok)");
}

static void test_a_host_that_has_closed_can_t_wait(void) {
  test_host first = host_open(), second = host_open();
  mr_host_close(first.proc);
  lua_State *L = first.L;
  CHECK(mr_wait_open(&first.proc->main.fiber, L) == MR_ECLOSING);
  CHECK(!host_try(&first, "spawn({}, 'return')") && strstr(lua_tostring(L, -1), mr_err_text(MR_ECLOSING)));
  RUN(&second, "assert(result(spawn({}, 'return')))");
  lua_close(L);
  mr_host_free(first.proc);
  host_close(&second);
}

int main(void) {
  test_setup();
  mr_workers_set(3);
  test_host h = host_open();
  test_the_way_is_chosen_by_the_place(&h);
  test_a_wait_that_was_abandoned_leaves_nothing(&h);
  test_a_chain_of_waits_of_all_kinds_ends(&h);
  test_a_wake_up_and_the_deadline_at_the_same_time(&h);
  test_who_yields_lets_others_run(&h);
  host_close(&h);
  test_a_host_that_has_closed_can_t_wait();
  return CHECK_RESULT();
}
