/*
 * The report of a deadlock: who waits for what and where, and the cycle, if there is one. The host that waits gets it as an error.
 */
#include "process/test.h"

static int says(const char *report, const char *text) {
  if (report && strstr(report, text)) return 1;
  fprintf(stderr, "'%s' is not in: %s\n", text, report ? report : "(no report)");
  return 0;
}

static void ended_with(int code, int status, const char *said) {
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == code);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != code) fprintf(stderr, "status %d, it said: %s\n", status, said);
}

static void test_who_waits_for_what_and_where(const test_host *h) {
  test_setup();
  RUN(h, "one = spawn({ name = 'one' }, 'local x = 1\\n await(0)') two = spawn({}, 'fiber(\"f\", function() await(0) end)\\n fiber(nil, await, 0)\\n await(0)')"
         " three = spawn({ name = 'three' }, function(p) wait(p) end, one)");
  CHECK(mr_host_join(h->proc) == MR_EDEADLOCK);
  const char *report = h->proc->text;
  CHECK(says(report, "deadlock: every process waits and nothing can wake one\n"));
  CHECK(says(report, "  the main script: wait for all processes"));
  CHECK(says(report, "'one' (#") && says(report, "): await at body:2\n"));
  CHECK(says(report, ", fiber #1 'f': await at body:1\n") && says(report, ", fiber #2: await\n") && says(report, ": await at body:3\n"));
  CHECK(says(report, "'three' (#") && says(report, "): wait for 'one' (#"));
  CHECK(!strstr(report, "cycle"));
  RUN(h, "set(0) assert(result(two)) assert(result(three)) assert(result(one))");
  CHECK(mr_host_join(h->proc) == MR_OK);         /* and all go on */
}

/* Also where a host waits in Lua. */
static void test_the_host_gets_it_where_it_waits(const test_host *h) {
  test_setup();
  RUN(h, "local ok, err = pcall(await, 0) assert(not ok and err:find 'deadlock' and err:find 'the main script: await at', err)"
         " local p = spawn({ name = 'sorts' }, function() table.sort({ 2, 1 }, function() await(0) end) end)"
         " local ok, err = pcall(wait, p) assert(not ok and err:find \"the main script: wait for 'sorts'\" and err:find \"'sorts' %(#%d+%): await at\", err)"
         " set(0) assert(result(p))");
}

static void test_a_long_report_is_cut(const test_host *h) {
  test_setup();
  RUN(h, "p = {} for i = 1, 60 do p[i] = spawn({}, function() await(0) end) end");
  CHECK(mr_host_join(h->proc) == MR_EDEADLOCK && says(h->proc->text, "  … and 21 more\n"));
  RUN(h, "set(0) for i = 1, 60 do assert(result(p[i])) end");
}

/* No deadlock: somebody's time will be over, or something computes. */
static void test_a_deadline_or_a_computation_is_waited_for(const test_host *h) {
  test_setup();
  RUN(h, "local p = spawn({}, function() await(0, 0.02) set(1) end) assert(await(1)) assert(result(p))"
         " local p = spawn({}, function() for i = 1, 1000000 do end set(2) end) assert(await(2)) assert(result(p))");
}

/* Nobody can end that; so who waits for it gets the report, and the end is by errors where they wait. */
static void in_a_circle(void) {
  test_host h = host_open();
  RUN(&h, "drop(spawn({ name = 'a' }, function()"
          "  local b = spawn({ name = 'b' }, function(a) wait(a) end, self())"
          "  wait(b) end))");
  CHECK(mr_host_join(h.proc) == MR_EDEADLOCK);
  CHECK(says(h.proc->text, "  cycle: '"));
  CHECK(strstr(h.proc->text, "'a' (#2) -> 'b' (#3) -> 'a' (#2)\n") || strstr(h.proc->text, "'b' (#3) -> 'a' (#2) -> 'b' (#3)\n"));
  fputs("closes\n", stderr);
  host_close(&h);
  CHECK(mr_proc_count() == 0);
  child_over();
}

static void test_a_cycle_is_named_and_the_last_host_ends_it(void) {
  static char said[8192];
  int status;
  test_child(in_a_circle, said, sizeof said, &status);
  ended_with(0, status, said);
  CHECK(says(said, "closes\nmare: deadlock: every process waits") && says(said, "cycle: "));
}

/* As `mare run` starts a program: no host is there, the report is printed. */
static void without_a_host(void) {
  mr_packer *k = mr_packer_new();
  lua_State *L = luaL_newstate();
  int err;
  CHECK(mr_start() == MR_OK);
  CHECK(luaL_loadstring(L, "fiber('f', function() await(0) end) await(0)") == LUA_OK && mr_pack(k, L, 1, 1, "argument") == 0);
  mr_spawn s = { .kind = PROC_MAIN, .start = mr_packer_seal(k) };
  CHECK(mr_proc_spawn(&s, NULL, &err) != NULL);
  CHECK(mr_run_until_done() == 1);
  mr_exit(CHECK_RESULT() ? 1 : 4);
}

static void test_a_program_without_hosts_ends(void) {
  static char said[8192];
  int status;
  test_child(without_a_host, said, sizeof said, &status);
  ended_with(4, status, said);
  CHECK(says(said, "mare: deadlock: every process waits") && says(said, "  main (#1): await") && says(said, "main (#1), fiber #1 'f': await"));
}

int main(void) {
  test_setup();
  test_a_cycle_is_named_and_the_last_host_ends_it();
  test_a_program_without_hosts_ends();
  mr_workers_set(3);
  test_host h = host_open();
  test_who_waits_for_what_and_where(&h);
  test_the_host_gets_it_where_it_waits(&h);
  test_a_long_report_is_cut(&h);
  test_a_deadline_or_a_computation_is_waited_for(&h);
  host_close(&h);
  return CHECK_RESULT();
}
