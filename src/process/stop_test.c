/*
 * The end of a program: bounded whatever runs or waits, decided once, with what was printed; interrupts; and an exit code for failures.
 */
#include "process/test.h"

enum { PATIENCE = 20 };              /* seconds, at most: it takes some tenths of one where nothing else runs */

static char last[4096];              /* shown when a test fails: of the first that did */

/* What fn's program says and its exit code; -1: it was ended by a signal (test_child's alarm among them). */
static int code_of(void (*fn)(void), char *said, size_t size) {
  int status;
  uint64_t begin = port_now();
  test_child(fn, said, size, &status);
  CHECK(port_now() - begin < PATIENCE * UINT64_C(1000000000));
  int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!*last || !CHECK_RESULT()) snprintf(last, sizeof last, "code %d: %.3000s", code, said);
  return code;
}

/* What can be going on at the end. */
static const char crowd[] =
  "local function hand_over(f, ...) local a = { ... } table.sort({ 2, 1 }, function(x, y) f(table.unpack(a)) return x < y end) end"
  " for i = 1, 3 do"
  "   drop(spawn({}, function() while true do end end))"
  "   drop(spawn({}, function() while true do yield() end end))"
  "   drop(spawn({}, function() await(0) end))"
  "   drop(spawn({}, hand_over, await, 0))"
  "   drop(spawn({}, hand_over, function() while true do end end))"
  "   drop(spawn({}, function() fiber(nil, await, 0) fiber(nil, function() while true do yield() end end) while true do end end))"
  "   drop(spawn({}, function() while true do await(0, 0.0001) end end))"
  "   drop(spawn({}, function() while true do pcall(result, (select(2, pcall(spawn, {}, yield)))) end end))"
  " end await(1, 0.01)";

static void exits(void) {
  test_host h = host_open();
  RUN(&h, crowd);
  dup2(2, 1);
  printf("written before the end");
  mr_exit(CHECK_RESULT() ? 1 : 7);
}

static void test_exit_does_not_wait_for_what_runs(void) {
  char said[4096];
  for (int i = 0; i < 3; i++) CHECK(code_of(exits, said, sizeof said) == 7 && strstr(said, "written before the end"));
}

static void exits_in_processes(void) {
  test_host h = host_open();
  RUN(&h, crowd);
  RUN(&h, "for i = 1, 4 do drop(spawn({}, exit, 9)) end await(0)");
  mr_exit(1);                                    /* not reached: this thread never goes on */
}

static void test_the_first_to_exit_decides(void) {
  char said[4096];
  for (int i = 0; i < 3; i++) CHECK(code_of(exits_in_processes, said, sizeof said) == 9);
}

static void fails_unseen(void) {
  test_host h = host_open();
  atomic_store(&mr_strict, 1);
  RUN(&h, "p = spawn({}, 'error(\"unseen\", 0)') while status(p) ~= 'failed' do yield() end");
  mr_exit(0);
}

static void fails_seen(void) {
  test_host h = host_open();
  atomic_store(&mr_strict, 1);
  RUN(&h, "p = spawn({}, 'error(\"seen\", 0)') wait(p)");
  mr_exit(0);
}

static void test_a_strict_program_fails_with_any_of_its_processes(void) {
  char said[4096];
  CHECK(code_of(fails_unseen, said, sizeof said) == 1 && strstr(said, "failed: unseen"));
  CHECK(code_of(fails_seen, said, sizeof said) == 0 && !strstr(said, "failed"));
}

/* As `mare run` does. */
static mr_proc *start_main(const char *code) {
  mr_packer *k = mr_packer_new();
  lua_State *L = luaL_newstate();
  int err;
  CHECK(mr_start() == MR_OK);
  CHECK(luaL_loadstring(L, code) == LUA_OK && mr_pack(k, L, 1, 1, "argument") == 0);
  mr_spawn s = { .kind = PROC_MAIN, .start = mr_packer_seal(k) };
  mr_proc *p = mr_proc_spawn(&s, NULL, &err);
  mr_packer_free(k);
  lua_close(L);
  return p;
}

static void begun(const char *code) {
  mr_proc *p = start_main(code);
  CHECK(p != NULL);
  while (!mr_event_is_set(&test_event[7])) port_sleep(1000000);
  port_sleep(2000000);                           /* most often it waits, or computes, by then */
  mr_interrupt();
  CHECK(mr_run_until_done() == 0);
  mr_exit(atomic_load(&p->status) == PROC_DONE && !CHECK_RESULT() ? 3 : 1);
}

static void interrupted_in_a_wait(void) {
  begun("local ok, err = pcall(function() set(7) await(0, 30) end) assert(not ok and err:find 'interrupted!', err)");
}
static void interrupted_where_it_can_t_yield(void) {
  begun("local ok, err = pcall(table.sort, { 2, 1 }, function() set(7) await(0, 30) end) assert(not ok and err:find 'interrupted!', err)");
}
static void interrupted_in_a_computation(void) {
  begun("local ok, err = pcall(function() set(7) while true do end end) assert(not ok and err:find 'interrupted!', err)");
}
static void uncaught(void) { begun("set(7) await(0, 30)"); }

static void test_an_interrupt_is_an_error_in_the_main_process(void) {
  char said[4096];
  CHECK(code_of(interrupted_in_a_wait, said, sizeof said) == 3);
  CHECK(code_of(interrupted_where_it_can_t_yield, said, sizeof said) == 3);
  CHECK(code_of(interrupted_in_a_computation, said, sizeof said) == 3);
  CHECK(code_of(uncaught, said, sizeof said) == 1 && strstr(said, "mare: ") && strstr(said, "interrupted!"));
}

/* Nothing is left of the main process: then the program ends as by the signal. */
static void after_the_main_process(void) {
  mr_proc *p = start_main("drop(spawn({}, function() while true do await(0, 0.001) end end))");
  while (atomic_load(&p->status) < PROC_DONE) port_sleep(1000000);
  mr_interrupt();
  mr_run_until_done();
}

static void held(void) {
  mr_proc *p = start_main("set(7) await(0, 30) return 'not interrupted'");
  mr_interrupt_hold(1);
  while (!mr_event_is_set(&test_event[7])) port_sleep(1000000);
  mr_interrupt();
  port_sleep(20000000);
  CHECK(mr_interrupt_take() == 1 && mr_interrupt_take() == 0);
  mr_interrupt_hold(0);
  mr_event_set(&test_event[0], NULL);
  CHECK(mr_run_until_done() == 0);
  mr_exit(atomic_load(&p->status) == PROC_DONE && !CHECK_RESULT() ? 3 : 1);
}

static void test_an_interrupt_can_be_held_or_come_late(void) {
  char said[4096];
  CHECK(code_of(after_the_main_process, said, sizeof said) == 130);
  CHECK(code_of(held, said, sizeof said) == 3);
}

/* A host that leaves with its program waits for nobody. */
static void leaves(void) {
  test_host h = host_open();
  RUN(&h, crowd);
  mr_host_leave(h.proc);
  host_close(&h);
  mr_exit(CHECK_RESULT() ? 1 : 5);
}

static void test_a_host_that_leaves_waits_for_nothing(void) {
  char said[4096];
  CHECK(code_of(leaves, said, sizeof said) == 5);
}

/*
 * The host of `code` is gone, the runtime stopped, and nobody has ended its processes, each of which sets one of n events before it waits where it can't
 * yield: as on a machine so loaded that they did not come to it in time.
 */
static void leave_behind(const char *code, int n) {
  test_host h = host_open();
  RUN(&h, "function hand_over(f, ...) local a = { ... } table.sort({ 2, 1 }, function(x, y) f(table.unpack(a)) return x < y end) end");
  RUN(&h, code);
  for (int i = 1; i <= n; i++)
    while (!mr_event_is_set(&test_event[i])) port_sleep(1000000);
  mr_host_leave(h.proc);
  host_close(&h);
  mr_run_stop();
  while (mr_run_threads() > n) port_sleep(1000000);
  CHECK(mr_run_threads() == n);
}

static void opens_again(void) {
  leave_behind("for i = 1, 3 do drop(spawn({}, hand_over, function() set(i) await(0) end)) end", 3);
  test_host h = host_open();
  CHECK(h.err == MR_OK);
  RUN(&h, "assert(select(2, result(spawn({}, 'return 1'))) == 1)");
  host_close(&h);
  CHECK(mr_run_threads() == 0 && mr_proc_count() == 0);
  mr_exit(CHECK_RESULT() ? 1 : 6);
}

/* Of two, one ends by the error, the other waits again. */
static void opens_no_more(void) {
  int err;
  leave_behind("drop(spawn({}, hand_over, function() set(1) while true do pcall(await, 0) end end))"
               " drop(spawn({}, hand_over, function() set(2) await(0) end))", 2);
  lua_State *L = luaL_newstate();
  CHECK(mr_host_open(L, &err) == NULL && err == MR_ESTOPPED);
  CHECK(mr_run_threads() == 1);
  mr_exit(CHECK_RESULT() ? 1 : 6);
}

static void test_a_host_ends_what_the_last_one_left_behind(void) {
  char said[4096];
  for (int i = 0; i < 3; i++) CHECK(code_of(opens_again, said, sizeof said) == 6);
  CHECK(code_of(opens_no_more, said, sizeof said) == 6);
}

int main(void) {
  test_setup();
  mr_workers_set(2);
  test_exit_does_not_wait_for_what_runs();
  test_the_first_to_exit_decides();
  test_a_strict_program_fails_with_any_of_its_processes();
  test_an_interrupt_is_an_error_in_the_main_process();
  test_an_interrupt_can_be_held_or_come_late();
  test_a_host_that_leaves_waits_for_nothing();
  test_a_host_ends_what_the_last_one_left_behind();
  if (CHECK_RESULT()) fprintf(stderr, "the first that failed ended with %s\n", last);
  return CHECK_RESULT();
}
