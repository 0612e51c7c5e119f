/* replay: schedules as text, and back. */
#include "port/test.h"
#include "run/replay.h"
#include "run/rt.h"

/* Nothing runs in this test. */
static int no(mr_thread *t) { return t != NULL; }
const mr_body mr_run_body = { .thread_size = sizeof(mr_thread), .equip = no };

enum { ROOM = 200 };
static mr_deviation list[ROOM];
static mr_schedule s = { .list = list };

static const char *parse(const char *text) { return mr_replay_parse(&s, text, ROOM); }

static void test_a_seed_alone_is_no_list(void) {
  CHECK(!parse("17") && s.seed == 17 && !s.listed && s.given == 0);
  CHECK(!parse("18446744073709551615") && s.seed == UINT64_MAX);
  CHECK(!parse("0:") && s.seed == 0 && s.listed && s.given == 0);
}

static void test_a_list_is_sorted_by_who_and_when(void) {
  CHECK(!parse("3:2.7=1,1.10=4,1.9+2,1.9=5,2.1=3") && s.listed && s.given == 5);
  const mr_deviation want[] = { { 1, 2, 9, '+' }, { 1, 5, 9, '=' }, { 1, 4, 10, '=' }, { 2, 3, 1, '=' }, { 2, 1, 7, '=' } };
  for (int i = 0; i < 5; i++)
    CHECK(list[i].unit == want[i].unit && list[i].value == want[i].value && list[i].point == want[i].point && list[i].kind == want[i].kind);
}

static void test_long_lists_are_sorted_too(void) {
  static char text[ROOM * 64] = "1:";
  for (unsigned i = 0, n = 2; i < ROOM; i++)
    n += (unsigned)snprintf(text + n, sizeof text - n, "%s%u.%u=1", i ? "," : "", i * 7919 % 31, i * 104729 % 200);
  CHECK(!parse(text) && s.given == ROOM);
  for (unsigned i = 1; i < ROOM; i++)
    CHECK(list[i - 1].unit < list[i].unit || (list[i - 1].unit == list[i].unit && list[i - 1].point <= list[i].point));
}

static void test_text_becomes_the_same_text(void) {
  char text[64];
  CHECK(!parse("1:18446744073709551615.4294967295+18446744073709551615"));
  mr_replay_text(list, text);
  CHECK(strcmp(text, "18446744073709551615.4294967295+18446744073709551615") == 0);
}

static void test_what_is_wrong_is_refused(void) {
  static const char *const wrong[] = { "", "x", "-1", "1,", "1 ", "18446744073709551616", "1:x", "1:1", "1:1.", "1:1.2", "1:1.2=", "1:1.2-3", "1:1.2=3 ",
                                       "1:1.2=3,,", "1:1.4294967296=3", "1:.2=3", "1:1.2=3;1.2=4" };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) CHECK(parse(wrong[i]) != NULL);
  CHECK(mr_replay_parse(&s, "1:1.1=1,2.2=2", 1) != NULL && mr_replay_parse(&s, "1:1.1=1", 1) == NULL);
}

int main(void) {
  test_a_seed_alone_is_no_list();
  test_a_list_is_sorted_by_who_and_when();
  test_long_lists_are_sorted_too();
  test_text_becomes_the_same_text();
  test_what_is_wrong_is_refused();
  return CHECK_RESULT();
}
