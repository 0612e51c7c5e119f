/*
 * Hosts: several states of somebody else's on their own threads, which open and close while others run; start and stop of the runtime in
 * between; and what a forked child is told.
 */
#include "process/test.h"

static void test_it_is_known_by_its_state(void) {
  test_host a = host_open(), b = host_open();
  lua_State *co = lua_newthread(a.L), *none = luaL_newstate();
  CHECK(mr_host_of(a.L) == a.proc && mr_host_of(co) == a.proc && mr_host_of(b.L) == b.proc && mr_host_of(none) == NULL);
  host_close(&b);
  CHECK(mr_host_of(a.L) == a.proc);
  host_close(&a);
  lua_close(none);
}

/* The runtime stops with the last one, and starts again with the next. */
static void test_one_after_the_other(void) {
  for (int i = 0; i < 40 / SLOW; i++) {
    mr_workers_set(1 + i % 4);
    test_host h = host_open();
    CHECK(h.proc && h.err == MR_OK);
    RUN(&h, "local p = {} for i = 1, 10 do p[i] = spawn({}, function(i) yield() return i end, i) end"
            " for i = 1, 10 do local ok, n = result(p[i]) assert(ok and n == i) end"
            " drop(spawn({}, function() for i = 1, 10 do yield() end end))");
    host_close(&h);
    CHECK(mr_run_threads() == 0 && mr_proc_count() == 0);
  }
}

static atomic_int hosts_left;
static port_event all_left;

static void visits(void *unused) {
  (void)unused;
  for (int i = 0; i < 60 / SLOW; i++) {
    test_host h = host_open();
    CHECK(h.proc != NULL);
    if (!h.proc) break;
    RUN(&h, "local p = {} for i = 1, 5 do p[i] = spawn({}, function(i) table.sort({ 2, 1 }, function(a, b) yield() return a < b end) return i end, i) end"
            " local f = fiber(nil, function(p) return result(p) end, p[5])"
            " for i = 1, 4 do local ok, n = result(p[i]) assert(ok and n == i) end"
            " local ok, yes, n = join(f) assert(ok and yes and n == 5)");
    if (i % 3 == 0) CHECK(mr_host_join(h.proc) == MR_OK);
    host_close(&h);
  }
  if (atomic_fetch_sub(&hosts_left, 1) == 1) port_event_set(&all_left);
}

/* With each, a last one may close while another opens. */
static void test_many_come_and_go_at_once(void) {
  mr_workers_set(2);
  atomic_store(&hosts_left, 4);
  for (int i = 0; i < 4; i++) CHECK(port_thread_start(visits, NULL, "test-host") == 0);
  while (atomic_load(&hosts_left) > 0) port_event_wait(&all_left, UINT64_MAX);
}

static atomic_int enough;

static void comes_and_goes(void *unused) {
  (void)unused;
  while (!atomic_load(&enough)) {
    test_host h = host_open();
    host_close(&h);
  }
  if (atomic_fetch_sub(&hosts_left, 1) == 1) port_event_set(&all_left);
}

/* Who opens wakes the others that join: never those that have joined and wait for something else by now. */
static void test_a_host_that_has_joined_is_not_woken_by_one_that_opens(void) {
  test_host h = host_open();
  atomic_store(&hosts_left, 1);
  CHECK(port_thread_start(comes_and_goes, NULL, "test-host") == 0);
  for (int i = 0; i < 600 / SLOW; i++) {
    RUN(&h, "drop(spawn({}, function() yield() end)) p = spawn({}, function() for i = 1, 5 do yield() end return 7 end)");
    if (mr_host_join(h.proc) != MR_OK) break;
    RUN(&h, "local ok, n = result(p) assert(ok and n == 7) assert(select(2, await(5, 0.0002)) == 'timeout')");
  }
  atomic_store(&enough, 1);
  while (atomic_load(&hosts_left) > 0) port_event_wait(&all_left, UINT64_MAX);
  host_close(&h);
}

/* They meet at what belongs to none of them. */
static void wakes_another(void *host) {
  test_host *h = host;
  RUN(h, "assert(await(0)) set(1)");
  if (atomic_fetch_sub(&hosts_left, 1) == 1) port_event_set(&all_left);
}

static void test_hosts_wake_each_other(void) {
  test_host a = host_open(), b = host_open();
  for (int i = 0; i < 100 / SLOW; i++) {
    test_setup();
    atomic_store(&hosts_left, 1);
    CHECK(port_thread_start(wakes_another, &b, "test-host") == 0);
    RUN(&a, "set(0) assert(await(1))");
    while (atomic_load(&hosts_left) > 0) port_event_wait(&all_left, UINT64_MAX);
  }
  host_close(&a);
  host_close(&b);
}

/* One that is not the last leaves at once; its processes go on. */
static void test_the_last_one_waits_for_all_processes(void) {
  test_setup();
  test_host a = host_open(), b = host_open();
  RUN(&a, "drop(spawn({}, function() await(0) finalised() end))");
  host_close(&a);
  CHECK(mr_proc_count() == 1 && atomic_load(&test_finalised) == 0);
  RUN(&b, "set(0)");
  host_close(&b);
  CHECK(mr_proc_count() == 0 && atomic_load(&test_finalised) == 1);
}

static void test_a_handle_can_outlive_its_host(void) {
  test_setup();
  test_host h = host_open();
  RUN(&h, "p = spawn({ name = 'kept' }, 'error(\"why\", 0)')");
  lua_getglobal(h.L, "p");
  mr_proc *p = lua_touserdata(h.L, -1);
  RUN(&h, "wait(p)");
  host_close(&h);
  CHECK(strcmp(mr_proc_status(p), "failed") == 0 && strcmp(p->text, "why") == 0);
  h = host_open();                               /* it is still listed when the runtime starts again */
  CHECK(mr_host_join(h.proc) == MR_OK);
  lua_pushlightuserdata(h.L, p);
  lua_setglobal(h.L, "p");
  RUN(&h, "local ok, err = result(p) assert(not ok and err == 'why')");
  host_close(&h);
}

static test_host parent;

static void in_the_child(void) {
  int err = MR_OK;
  lua_State *L = luaL_newstate();
  CHECK(mr_forked());
  CHECK(mr_host_open(L, &err) == NULL && err == MR_EFORK);
  CHECK(mr_start() == MR_EFORK && mr_host_join(parent.proc) == MR_EFORK);
  CHECK(mr_wait_open(&parent.proc->main.fiber, parent.L) == MR_EFORK);
  mr_host_close(parent.proc);                    /* does nothing, and waits for nobody */
  child_over();
}

static void test_a_forked_child_is_refused_everything(void) {
  char said[4096];
  int status;
  test_setup();
  parent = host_open();
  RUN(&parent, "p = spawn({}, function() await(0) return 1 end)");
  test_child(in_the_child, said, sizeof said, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  if (*said) fprintf(stderr, "the child said: %s\n", said);
  CHECK(!mr_forked());
  RUN(&parent, "set(0) assert(result(p))");
  host_close(&parent);
}

int main(void) {
  test_setup();
  test_it_is_known_by_its_state();
  test_one_after_the_other();
  test_the_last_one_waits_for_all_processes();
  test_a_handle_can_outlive_its_host();
  test_hosts_wake_each_other();
  test_many_come_and_go_at_once();
  test_a_host_that_has_joined_is_not_woken_by_one_that_opens();
  test_a_forked_child_is_refused_everything();
  return CHECK_RESULT();
}
