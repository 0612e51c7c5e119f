/*
 * limit: until when a fiber may wait, inside deadlines and masks, in and out of coroutines.
 */
#include "process/test.h"
#include "process/limit.h"

static mr_limit deadline(uint64_t until) { return (mr_limit){ .until = until }; }
static mr_limit mask(uint64_t grace) { return (mr_limit){ .until = UINT64_MAX, .grace = grace }; }

static int suspended(lua_State *L) { return lua_yield(L, 0); }

static void test_the_earliest_counts(mr_lua *l, lua_State *L) {
  mr_limit a = deadline(1000), b = deadline(500), c = deadline(2000);
  CHECK(mr_limit_until(l) == UINT64_MAX && mr_limit_deadline(l) == UINT64_MAX);
  mr_limit_enter(&a, l, L);
  mr_limit_enter(&b, l, L);
  mr_limit_enter(&c, l, L);
  CHECK(mr_limit_until(l) == 500 && mr_limit_deadline(l) == 500 && mr_limit_open(l) == 0);
  mr_limit_leave(&b);                            /* in any order */
  CHECK(mr_limit_until(l) == 1000);
  mr_limit_leave(&a);
  mr_limit_leave(&a);
  CHECK(mr_limit_until(l) == 2000);
  mr_limit_leave(&c);
  CHECK(!l->fiber.bounded && !c.of);
}

static void test_a_mask_lengthens_what_lies_outside(mr_lua *l, lua_State *L) {
  mr_limit out = deadline(1000), m = mask(300), longer = mask(700), in = deadline(5000), last = mask(UINT64_MAX - 1);
  mr_limit_enter(&out, l, L);
  mr_limit_enter(&m, l, L);
  CHECK(mr_limit_until(l) == 1300 && l->fiber.masked == 0);
  CHECK(mr_limit_open(l) == 0 && l->fiber.masked == 1);      /* over long ago; the mask is in force all the same */
  mr_limit_enter(&longer, l, L);
  mr_limit_enter(&in, l, L);
  CHECK(mr_limit_until(l) == 1700 && mr_limit_deadline(l) == 1000);
  mr_limit_enter(&last, l, L);
  CHECK(mr_limit_until(l) == UINT64_MAX);        /* no sum runs over */
  mr_limits_forget(l);
  CHECK(!l->fiber.bounded && out.of == NULL && last.of == NULL);
  mr_limit_leave(&in);
  CHECK(mr_limit_open(l) == 1 && l->fiber.masked == 0);
}

static void test_that_of_a_suspended_coroutine_is_not_in_force(mr_lua *l, lua_State *L) {
  lua_State *co = lua_newthread(L);
  int n;
  mr_limit d = deadline(10);
  lua_pushcfunction(co, suspended);
  CHECK(mr_lua_resume(co, L, 0, &n) == LUA_YIELD);
  mr_limit_enter(&d, l, co);
  CHECK(mr_limit_until(l) == UINT64_MAX && mr_limit_deadline(l) == UINT64_MAX);
  CHECK(mr_lua_resume(co, L, 0, &n) == LUA_OK);
  CHECK(mr_limit_until(l) == 10);
  mr_limit_leave(&d);
  lua_pop(L, 1);
}

static void test_the_grace_counts_from_when_it_is_noticed(mr_lua *l, lua_State *L, mr_crew *crew) {
  mr_limit m = mask(1000000000000u);
  mr_limit_enter(&m, l, L);
  CHECK(mr_limit_until(l) == UINT64_MAX && !mr_lua_due(l));
  crew->ending = CREW_OVER;
  uint64_t before = port_now(), end = mr_limit_until(l);
  CHECK(end >= before + m.grace && end <= port_now() + m.grace && mr_limit_until(l) == end && !mr_lua_due(l));
  m.grace = 0;
  CHECK(mr_lua_due(l));
  mr_limit_leave(&m);
  CHECK(mr_lua_due(l));
}

int main(void) {
  static mr_proc p;
  static mr_crew crew;
  test_setup();
  lua_State *L = luaL_newstate();
  mr_job_init(&p.job, &p.main.fiber, 1, 0);
  p.main.fiber.crew = &crew;
  test_the_earliest_counts(&p.main, L);
  test_a_mask_lengthens_what_lies_outside(&p.main, L);
  test_that_of_a_suspended_coroutine_is_not_in_force(&p.main, L);
  test_the_grace_counts_from_when_it_is_noticed(&p.main, L, &crew);
  lua_close(L);
  return CHECK_RESULT();
}
