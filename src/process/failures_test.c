/*
 * Failures: the last ones are kept, the newest first, a long text is cut at the end of a line, and threads that note some at once lose none.
 */
#include "port/test.h"
#include "process/failures.h"

static void test_the_last_are_kept_the_newest_first(void) {
  mr_failure f;
  char text[40];
  CHECK(!mr_failure_last(0, &f));
  for (int i = 1; i <= MR_FAILURES + 3; i++) {
    snprintf(text, sizeof text, "failure %d", i);
    mr_failure_note(text);
  }
  for (int i = 0; i < MR_FAILURES; i++) {
    snprintf(text, sizeof text, "failure %d", MR_FAILURES + 3 - i);
    CHECK(mr_failure_last((unsigned)i, &f) && strcmp(f.text, text) == 0 && f.when > 1e9);
  }
  CHECK(!mr_failure_last(MR_FAILURES, &f) && atomic_load(&mr_failures) == MR_FAILURES + 3);
}

static void test_a_long_text_is_cut_at_the_end_of_a_line(void) {
  static char text[3 * MR_FAILURE_TEXT];
  mr_failure f;
  memset(text, 'x', sizeof text - 1);
  text[MR_FAILURE_TEXT - 20] = '\n';
  mr_failure_note(text);
  CHECK(mr_failure_last(0, &f) && strlen(f.text) == MR_FAILURE_TEXT - 20);
  memset(text, 'x', sizeof text - 1);
  mr_failure_note(text);
  CHECK(mr_failure_last(0, &f) && strlen(f.text) >= MR_FAILURE_TEXT / 2 && strlen(f.text) < MR_FAILURE_TEXT);
}

enum { THREADS = 4, TURNS = 2000 };

static void note_and_read(void *arg) {
  mr_failure f;
  for (int i = 0; i < TURNS; i++) {
    mr_failure_note(arg);
    CHECK(mr_failure_last(0, &f) && strncmp(f.text, "by a thread", 11) == 0);
  }
}

static void test_threads_lose_none(void) {
  static char text[] = "by a thread";
  port_thread t[THREADS];
  int before = atomic_load(&mr_failures);
  mr_failure_note(text);
  for (int i = 0; i < THREADS; i++) CHECK(port_thread_fork(&t[i], note_and_read, text, "failing") == 0);
  for (int i = 0; i < THREADS; i++) port_thread_join(&t[i]);
  CHECK(atomic_load(&mr_failures) == before + THREADS * TURNS + 1);
}

int main(void) {
  test_the_last_are_kept_the_newest_first();
  test_a_long_text_is_cut_at_the_end_of_a_line();
  test_threads_lose_none();
  return CHECK_RESULT();
}
