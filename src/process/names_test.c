/*
 * Names of processes: one has it at a time; they go with the process, before its end is told; processes that take names, lose them, are looked for and
 * end in several threads at once leave nothing behind.
 */
#include "process/test.h"
#include "process/names.h"

static mr_proc *born(const char *name) {
  mr_proc *p = mr_proc_new(PROC_PLAIN, name);
  CHECK(p != NULL);
  return p;
}

static void ends(mr_proc *p) {
  mr_proc_finish(p, PROC_DONE);
  mr_release(&p->shared);
}

static int give(mr_proc *p, const char *name) {
  char holder[160];
  return mr_name_give(p, name, strlen(name), holder);
}

static mr_proc *who(const char *name) {
  mr_proc *p = mr_name_find(name, strlen(name));
  if (p) mr_release(&p->shared);
  return p;
}

static void test_one_has_a_name_at_a_time(void) {
  char holder[160], expected[160];
  mr_proc *a = born("worker"), *b = born(NULL);
  CHECK(give(a, "x") == NAME_GIVEN && give(b, "y") == NAME_GIVEN && who("x") == a && who("y") == b && who("z") == NULL);
  CHECK(mr_name_give(b, "x", 1, holder) == NAME_TAKEN);
  snprintf(expected, sizeof expected, "process #%llu 'worker'", (unsigned long long)a->job.id);
  CHECK(strcmp(holder, expected) == 0 && give(a, "x") == NAME_TAKEN);
  CHECK(mr_name_take("x", 1) && !mr_name_take("x", 1) && who("x") == NULL && give(b, "x") == NAME_GIVEN && who("x") == b);
  ends(a);
  ends(b);
  CHECK(who("x") == NULL && who("y") == NULL);
}

static void test_all_names_go_with_the_process(void) {
  mr_proc *a = born(NULL), *b = born(NULL);
  char name[32];
  mr_retain(&a->shared);
  for (int i = 0; i < 2000; i++) {
    snprintf(name, sizeof name, "%d", i);
    CHECK(give(i % 3 ? a : b, name) == NAME_GIVEN);
  }
  ends(a);
  for (int i = 0; i < 2000; i++) {
    snprintf(name, sizeof name, "%d", i);
    CHECK(who(name) == (i % 3 ? NULL : b));
  }
  CHECK(give(a, "late") == NAME_ENDED && who("late") == NULL);
  mr_release(&a->shared);
  ends(b);
  CHECK(who("0") == NULL);
}

enum { THREADS = 4, TURNS = 1500, NAMES = 12 };

/* Its own, and those that others find, are named by it, too. */
static void live_and_die(void *arg) {
  uint64_t seed = (uintptr_t)arg;
  char name[32], text[160];
  for (int i = 0; i < TURNS; i++) {
    mr_proc *p = born(i % 2 ? "worker" : NULL);
    for (unsigned n = (unsigned)(test_random(&seed) % 8); n > 0; n--) {
      snprintf(name, sizeof name, "name %d", (int)(test_random(&seed) % NAMES));
      mr_proc *other = mr_name_find(name, strlen(name));
      if (!other) {
        CHECK(give(p, name) != NAME_ENDED);
      } else {
        mr_proc_describe(other, text, sizeof text);
        snprintf(name, sizeof name, "name %d", (int)(test_random(&seed) % NAMES));
        if (test_random(&seed) % 3 == 0) mr_name_take(name, strlen(name));
        else give(other, name);                  /* it may have ended by now */
        mr_release(&other->shared);
      }
    }
    ends(p);
  }
}

static void test_threads_share_names(void) {
  port_thread t[THREADS];
  char name[32];
  for (uintptr_t i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], live_and_die, (void *)(i + 1), "names") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  for (int i = 0; i < NAMES; i++) {
    snprintf(name, sizeof name, "name %d", i);
    CHECK(who(name) == NULL);
  }
}

int main(void) {
  mr_proc_type = &test_proc_type;
  test_one_has_a_name_at_a_time();
  test_all_names_go_with_the_process();
  test_threads_share_names();
  return CHECK_RESULT();
}
