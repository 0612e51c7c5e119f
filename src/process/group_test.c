/*
 * Waiting for all of a group: from outside, and by its members, who don't wait for each other's waits.
 */
#include "process/test.h"

static void nobody_is_left(const test_host *h) {
  RUN(h, "assert(all() == true)");
  port_acquire(&test_group.lock);
  CHECK(test_group.alive == 0 && test_group.nmembers == 0);
  CHECK(!test_group.members.next || mr_waitq_empty(&test_group.members));
  CHECK(!test_group.outsiders.next || mr_waitq_empty(&test_group.outsiders));
  port_unlock(&test_group.lock);
}

static void test_nobody_to_wait_for(const test_host *h) {
  nobody_is_left(h);
  RUN(h, "local ok, yes = result(spawn({}, function() return all() end)) assert(ok and yes == true)");
}

static void test_outsiders_wait_until_no_member_is_left(const test_host *h) {
  int rounds = 300 / SLOW;
  lua_pushinteger(h->L, rounds);
  lua_setglobal(h->L, "rounds");
  test_setup();
  RUN(h, "for i = 1, rounds do drop(spawn({ group = true }, function(i)"
         "   x = setmetatable({}, { __gc = finalised }) if i % 3 == 0 then yield() end end, i)) end"
         " local other = spawn({}, function() return all() end)"
         " all()"
         " assert(result(other))");
  CHECK(atomic_load(&test_finalised) == rounds);
  nobody_is_left(h);
}

/* Each waits until all others have ended or wait as well. */
static void test_members_that_wait_for_each_other_go_on(const test_host *h) {
  test_setup();
  for (int i = 0; i < 60 / SLOW; i++) {
    RUN(h, "for i = 1, 8 do drop(spawn({ group = true }, function(i) for k = 1, i do yield() end assert(all() == true) finalised() end, i)) end");
    nobody_is_left(h);
  }
  CHECK(atomic_load(&test_finalised) == 60 / SLOW * 8);
  RUN(h, "drop(spawn({ group = true }, function() assert(all() == true) end))");
  nobody_is_left(h);
}

/* It is one member, however many of its fibers wait. */
static void test_fibers_of_a_member_wait_as_one(const test_host *h) {
  test_setup();
  RUN(h, "for i = 1, 3 do drop(spawn({ group = true }, function()"
         "  local f = {}"
         "  for i = 1, 3 do f[i] = fiber(nil, all) end"
         "  all()"
         "  for i = 1, 3 do assert(join(f[i])) end"
         "  finalised()"
         " end)) end");
  nobody_is_left(h);
  CHECK(atomic_load(&test_finalised) == 3);
}

static void test_who_gives_up_is_not_counted_any_more(const test_host *h) {
  test_setup();
  RUN(h, "local stays = spawn({ group = true }, function() await(0) end)"
         " drop(spawn({ group = true }, function()"
         "   for i = 1, 5 do local a, b = all(0.001) assert(b == 'timeout') end set(1) await(0) finalised() end))"
         " for i = 1, 5 do local a, b = all(0.001) assert(a == nil and b == 'timeout') end"
         " await(1) set(0) wait(stays) drop(stays)");
  nobody_is_left(h);
  CHECK(atomic_load(&test_finalised) == 1);
}

static void in_places_that_can_t_yield(void) {
  test_host h = host_open();
  RUN(&h, "for i = 1, 4 do drop(spawn({ group = true }, function(i)"
          "   table.sort({ 2, 1 }, function(a, b) if i % 2 == 0 then all() end return a < b end) end, i)) end all()");
  RUN(&h, "drop(spawn({ group = true }, 'error(\"member\", 0)')) all()");
  host_close(&h);
  child_over();
}

static void test_a_member_s_failure_is_printed_before_it_has_left(void) {
  char said[4096];
  int status;
  test_child(in_places_that_can_t_yield, said, sizeof said, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  CHECK(strstr(said, "group: member\nstack traceback:\n") != NULL);
}

int main(void) {
  test_setup();
  test_a_member_s_failure_is_printed_before_it_has_left();
  mr_workers_set(3);
  test_host h = host_open();
  test_nobody_to_wait_for(&h);
  test_outsiders_wait_until_no_member_is_left(&h);
  test_members_that_wait_for_each_other_go_on(&h);
  test_fibers_of_a_member_wait_as_one(&h);
  test_who_gives_up_is_not_counted_any_more(&h);
  host_close(&h);
  return CHECK_RESULT();
}
