/*
 * Looking at processes: from threads that run none of them, while they are born, wait, compute and end; and who is looked at does not notice.
 */
#include "process/test.h"
#include "process/info.h"
#include "heap/pool.h"

#include <stdlib.h>
#include <time.h>

#define SECOND 1000000000u
enum { LOOKERS = 3, ROUNDS = 400 / SLOW };

static mr_look look(mr_proc *p, int what) {
  mr_look seen;
  mr_look_at(p, what, port_now() + 60ull * SECOND, &seen);
  return seen;
}

static int says(const mr_look *seen, const char *text) {
  if (seen->text && strstr(seen->text, text)) return 1;
  fprintf(stderr, "'%s' is not in: %s\n", text, seen->text ? seen->text : "(nothing)");
  return 0;
}

static mr_proc *global(const test_host *h, const char *name) {
  lua_getglobal(h->L, name);
  mr_proc *p = lua_touserdata(h->L, -1);
  lua_pop(h->L, 1);
  return p;
}

static void until(mr_proc *p, const char *status) {
  while (strcmp(mr_proc_status(p), status) != 0) port_sleep(100000);
}

static void test_a_parked_process_is_seen_and_waits_on(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({ name = 'one' }, 'local x = 1\\n await(0) return 7')");
  mr_proc *p = global(h, "p");
  until(p, "waiting");
  for (int i = 0; i < 20; i++) {
    mr_look seen = look(p, LOOK_WHERE | LOOK_TRACE);
    CHECK(seen.state == LOOK_DONE && strcmp(seen.where, "body:2") == 0 && seen.used > 1000);
    CHECK(strcmp(seen.status, "waiting") == 0 && strcmp(seen.waits, "await") == 0);
    CHECK(says(&seen, " 'one': waiting (await)\nstack traceback:\n\t[C]: in ") && says(&seen, "\n\tbody:2: in "));
    free(seen.text);
  }
  RUN(h, "set(0) local ok, seven = result(p) assert(ok and seven == 7)");
}

static void test_fibers_and_places_that_cant_yield(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({}, 'fiber(\"f\", function() await(0) end)\\n fiber(nil, function() table.sort({ 2, 1 }, function() await(0) end) end)\\n await(0)')");
  mr_proc *p = global(h, "p");
  mr_info i;
  do {
    port_sleep(100000);
    mr_proc_info(p, &i);
  } while (i.fibers < 3 || strcmp(i.status, "waiting") != 0);
  CHECK(i.waits && strcmp(i.waits, "await") == 0 && i.heap > 1000 && i.worker == -1);
  mr_look seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_DONE && says(&seen, "\nmain fiber: waiting (await)\n") && says(&seen, "\nfiber #1 'f': waiting (await)\n"));
  CHECK(says(&seen, "\nfiber #2: waiting (await)\n") && says(&seen, "in function <body:2>\n\t[C]: in ") && says(&seen, "'table.sort'"));
  free(seen.text);
  RUN(h, "set(0) assert(result(p))");
}

static void test_one_that_computes_is_seen_where_it_is(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({}, 'local i = 0\\n while true do i = i + 1 if i == 1 then set(1) end end') await(1)");
  mr_proc *p = global(h, "p");
  for (int i = 0; i < 5; i++) {
    mr_look seen = look(p, LOOK_WHERE | LOOK_TRACE);
    CHECK(seen.state == LOOK_DONE && strcmp(seen.where, "body:2") == 0 && says(&seen, "body:2: in "));
    free(seen.text);
  }
  mr_kill(p, NULL);
  RUN(h, "result(p)");
}

static void test_before_it_begins_and_after_its_end(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({}, function() error 'x' end) assert(not wait(p))");
  mr_proc *p = global(h, "p");
  mr_look seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_OVER && says(&seen, "stack traceback:"));
  free(seen.text);
  CHECK(mr_proc_by_id(p->job.id) == p);
  mr_release(&p->shared);
  RUN(h, "drop(p) p = spawn({}, function() end) assert(wait(p))");
  p = global(h, "p");
  seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_OVER && !seen.text && mr_proc_by_id(p->job.id) == NULL);
  RUN(h, "drop(p)");
}

/* A host that waits is asked as others are; one that runs can't be. */
static void ask_the_host(void *arg) {
  mr_proc *p = arg;
  mr_look seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_DONE && says(&seen, ": waiting (await)\nstack traceback:\n\t[C]: in "));
  free(seen.text);
  mr_event_set(&test_event[2], NULL);
  mr_settled();
}

static void test_a_host_answers_where_it_waits(const test_host *h) {
  port_thread th;
  mr_look seen;
  test_setup();
  CHECK(mr_look_at(h->proc, LOOK_TRACE, port_now() + SECOND / 100, &seen) == LOOK_BUSY && seen.text);
  free(seen.text);
  mr_moving();                                   /* or it would be a deadlock until the other thread comes */
  CHECK(port_thread_fork(&th, ask_the_host, h->proc, "asker") == 0);
  RUN(h, "assert(await(2))");
  port_thread_join(&th);
}

static void test_without_memory_there_is_no_answer(const test_host *h) {
  test_setup();
  RUN(h, "p = spawn({}, 'await(0)')");
  mr_proc *p = global(h, "p");
  until(p, "waiting");
  mr_infos all;
  mr_pool_fail(0);
  mr_look seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_NOMEM && !seen.text);
  CHECK(mr_proc_infos(&all, 0) == MR_ENOMEM && !all.at && all.n == 0);
  mr_pool_fail(1);
  seen = look(p, LOOK_TRACE);                    /* the request is there, its text is not */
  mr_pool_fail(-1);
  CHECK(seen.state == LOOK_NOMEM && !seen.text);
  seen = look(p, LOOK_TRACE);
  CHECK(seen.state == LOOK_DONE && seen.text);
  free(seen.text);
  RUN(h, "set(0) assert(result(p))");
}

/* ---- many look while all changes ---- */

static atomic_int over;

static void looker(void *arg) {
  unsigned seed = (unsigned)(uintptr_t)arg;
  while (!atomic_load(&over)) {
    mr_infos all;
    mr_totals sum;
    CHECK(mr_proc_infos(&all, 1) == MR_OK);
    for (size_t i = 0; i < all.n; i++) {
      mr_proc *p = all.at[i].proc;
      CHECK(all.at[i].id > 0 && all.at[i].status);
      if (!p || (i + seed) % 5 != 0) continue;
      mr_look seen;
      mr_look_at(p, seed % 2 ? LOOK_TRACE : LOOK_WHERE, port_now() + (i % 10 ? 60ull * SECOND : 20000u), &seen);
      CHECK(seen.state >= LOOK_DONE && seen.state <= LOOK_OVER);
      free(seen.text);
    }
    mr_totals_get(&sum);
    CHECK(sum.ended <= sum.spawned && sum.failed <= sum.ended);
    mr_infos_free(&all);
    if (seed == 1) free(mr_dump());
  }
}

static const char turmoil[] =
  "for r = 1, ... do"
  "  local all = {}"
  "  for i = 1, 12 do"
  "    all[i] = spawn({ name = i % 3 == 0 and 'named' or nil }, function(i, r)"
  "      local f = i % 4 == 0 and fiber('beside', function() await(7, 0.001) end)"
  "      if i % 5 == 0 then for k = 1, 20000 do end end"
  "      if i % 6 == 0 then error 'fails' end"
  "      local got, why = await(7, 0.0005 * (i % 4))"
  "      assert(got == nil and why == 'timeout')"
  "      if i % 7 == 0 then table.sort({ 2, 1 }, function() assert(select(2, await(7, 0.0005)) == 'timeout') end) end"
  "      return i + r end, i, r)"
  "  end"
  "  for i = 1, 12 do"
  "    local ok, v = result(all[i])"
  "    assert(i % 6 == 0 and not ok or ok and v == i + r, v)"
  "  end"
  " end";

static void test_many_look_while_processes_come_and_go(const test_host *h) {
  port_thread th[LOOKERS];
  test_setup();
  atomic_store(&over, 0);
  mr_observe(1);
  for (int i = 0; i < LOOKERS; i++) CHECK(port_thread_fork(&th[i], looker, (void *)(uintptr_t)(i + 1), "looker") == 0);
  luaL_loadstring(h->L, turmoil);
  lua_pushinteger(h->L, ROUNDS);
  if (lua_pcall(h->L, 1, 0, 0) != LUA_OK) test_failed(lua_tostring(h->L, -1), __FILE__, __LINE__);
  atomic_store(&over, 1);
  for (int i = 0; i < LOOKERS; i++) port_thread_join(&th[i]);
  mr_observe(-1);
}

static void test_cpu_time_is_exact_while_somebody_observes(const test_host *h) {
  mr_info i;
  test_setup();
  mr_observe(1);
  RUN(h, "p = spawn({}, 'for i = 1, 100 do for k = 1, 20000 do end await(3, 0) yield() end set(4) await(0)') assert(await(4))");
  mr_proc *p = global(h, "p");
  until(p, "waiting");
  for (int k = 0; k < 6000; k++) {                /* its thread charges it when the monitor has told it to */
    mr_proc_info(p, &i);
    if (i.cpu > 0) break;
    port_sleep(1000000);
  }
  CHECK(i.cpu > 0 && i.cpu < 60ull * SECOND);
  mr_observe(-1);
  RUN(h, "set(0) assert(result(p))");
}

/* Beside others who want the CPUs: what these had is charged to nobody. */
static void test_exact_cpu_time_is_not_more_than_the_program_had(const test_host *h) {
  static const char *const turns[] = { "500", "20000", "200000" };   /* 5 us, 0.2 ms, 2 ms */
  char code[256];
  uint64_t sum = 0;
  test_setup();
  mr_observe(1);
  CHECK(system("for i in 1 2 3 4 5 6 7 8; do timeout 4 sh -c 'while :; do :; done' & done") == 0);
  clock_t before = clock();
  for (int i = 0; i < 3; i++) {
    snprintf(code, sizeof code, "p%d = spawn({}, 'local t = %s for i = 1, %d // t do for k = 1, t do end yield() end set(%d) await(0)')", i, turns[i], 40000000 / SLOW, 4 + i);
    RUN(h, code);
  }
  for (int i = 0; i < 3; i++) {
    snprintf(code, sizeof code, "assert(await(%d))", 4 + i);
    RUN(h, code);
  }
  for (int i = 0; i < 3; i++) {
    mr_info info;
    snprintf(code, sizeof code, "p%d", i);
    until(global(h, code), "waiting");
    mr_proc_info(global(h, code), &info);
    sum += info.cpu;
  }
  double had = (double)(clock() - before) / CLOCKS_PER_SEC, charged = (double)sum / 1e9;
  printf("# charged %.3f s, had %.3f s\n", charged, had);
  CHECK(charged <= had * 1.05 + 0.02 && charged >= had * 0.5);
  mr_observe(-1);
  RUN(h, "set(0) for i = 0, 2 do assert(result(_G['p' .. i])) end");
}

int main(void) {
  test_setup();
  mr_workers_set(2);
  test_host h = host_open();
  test_a_parked_process_is_seen_and_waits_on(&h);
  test_fibers_and_places_that_cant_yield(&h);
  test_one_that_computes_is_seen_where_it_is(&h);
  test_before_it_begins_and_after_its_end(&h);
  test_a_host_answers_where_it_waits(&h);
  test_without_memory_there_is_no_answer(&h);
  test_many_look_while_processes_come_and_go(&h);
  test_cpu_time_is_exact_while_somebody_observes(&h);
  test_exact_cpu_time_is_not_more_than_the_program_had(&h);
  host_close(&h);
  return CHECK_RESULT();
}
