/*
 * What a process, its children and what they have packed take from one budget: all of it is counted, and all of it comes back.
 */
#include "process/test.h"

static size_t used_at_the_end(const test_host *h) {
  CHECK(mr_host_join(h->proc) == MR_OK);
  return test_budget ? mr_budget_used(test_budget) : 1;
}

static void test_children_share_what_their_parent_was_granted(const test_host *h) {
  RUN(h, "local ok, sum = result(spawn({ memory = 4000000, tree = true }, function()"
         "  local children, sum = {}, 0"
         "  for i = 1, 20 do children[i] = spawn({ name = 'child' }, function(i) local t = {} for k = 1, 500 do t[k] = { k } end return #t + i end, i) end"
         "  for i = 1, 20 do local ok, n = result(children[i]) assert(ok, n) sum = sum + n end"
         "  return sum end))"
         " assert(ok and sum == 20 * 500 + 210, sum)");
  CHECK(used_at_the_end(h) == 0);
}

/* What one of them uses the others can't; what it gives back they can. */
static void test_what_one_uses_the_others_lack(const test_host *h) {
  RUN(h, "local ok, err = result(spawn({ memory = 3000000, tree = true }, function()"
         "  local grow = function() return #('x'):rep(900000) end"
         "  local big = ('y'):rep(900000) collectgarbage()"
         "  big = big .. 'z'"
         "  local ok, err = result(spawn({}, grow)) assert(not ok and err == 'not enough memory', err)"
         "  big = nil collectgarbage()"
         "  local ok, n = result(spawn({}, grow)) assert(ok and n == 900000, n)"
         " end)) assert(ok, err)");
  CHECK(used_at_the_end(h) == 0);
}

static void test_a_birth_that_the_budget_can_t_take_is_refused(const test_host *h) {
  RUN(h, "local ok, n, err = result(spawn({ memory = 300000, tree = true }, function()"
         "  local p, n = {}, 0"
         "  while true do"
         "    local ok, child = pcall(spawn, {}, function() await(0) end)"
         "    if not ok then set(0) for i = 1, n do result(p[i]) end return n, child end"
         "    n = n + 1 p[n] = child"
         "  end"
         " end))"
         " assert(ok and n > 3 and n < 40, n)"
         " assert(err:find \"of the 300000 bytes that 'memory' grants the process and its children together, %d+ are in use\", err)");
  CHECK(used_at_the_end(h) == 0);
}

static void test_what_is_packed_is_counted_too(const test_host *h) {
  RUN(h, "local ok, err = result(spawn({ memory = 1000000, tree = true }, function()"
         "  local big = ('x'):rep(300000)"
         "  local ok, err = pcall(spawn, {}, function(a, b, c) end, big, big .. 'a', big .. 'b')"
         "  assert(not ok, 'there is room for all of it') end))"
         " assert(ok or err:find 'memory', err)");
  CHECK(used_at_the_end(h) == 0);
  RUN(h, "local ok, text = result(spawn({ memory = 1000000, tree = true }, function() return ('x'):rep(700000) end)) assert(not ok and text:find 'memory', text)");
  CHECK(used_at_the_end(h) == 0);
  RUN(h, "local p = spawn({ memory = 2000000, tree = true }, function() return ('x'):rep(200000) end)"
         " local ok, text = wait(p) assert(ok and #text == 200000) kept = p");
  CHECK(mr_host_join(h->proc) == MR_OK && mr_budget_used(test_budget) >= 200000);   /* the result is still there */
  RUN(h, "drop(kept)");
  CHECK(mr_budget_used(test_budget) == 0);
}

/* The outer one can be the smaller. */
static void test_a_budget_inside_another_keeps_to_both(const test_host *h) {
  RUN(h, "local ok, err = result(spawn({ memory = 2000000, tree = true }, function()"
         "  local grow = function(n) return #('x'):rep(n) end"
         "  local ok, err = result(spawn({ memory = 500000, tree = true }, grow, 600000)) assert(not ok and err == 'not enough memory', err)"
         "  local ok, err = result(spawn({ memory = 9000000, tree = true }, grow, 3000000)) assert(not ok and err == 'not enough memory', err)"
         "  local ok, n = result(spawn({ memory = 900000, tree = true }, grow, 200000)) assert(ok and n == 200000)"
         " end)) assert(ok, err)");
  CHECK(mr_host_join(h->proc) == MR_OK && mr_budget_used(test_budget) == 0);
}

static void test_a_failure_takes_no_more_than_is_left(const test_host *h) {
  RUN(h, "for i = 1, 30 do"
         "  local p = spawn({ memory = 100000 + 10000 * i, tree = true, name = ('n'):rep(1000) }, function() error(('e'):rep(40000), 0) end)"
         "  local ok, err, trace, text = result(p)"
         "  assert(not ok and (#err == 40000 or err:find 'memory') and #text <= 40000)"
         " end");
  CHECK(used_at_the_end(h) == 0);
}

int main(void) {
  test_setup();
  mr_workers_set(3);
  test_host h = host_open();
  test_children_share_what_their_parent_was_granted(&h);
  test_what_one_uses_the_others_lack(&h);
  test_a_birth_that_the_budget_can_t_take_is_refused(&h);
  test_what_is_packed_is_counted_too(&h);
  test_a_budget_inside_another_keeps_to_both(&h);
  test_a_failure_takes_no_more_than_is_left(&h);
  host_close(&h);
  mr_budget_release(test_budget);
  return CHECK_RESULT();
}
