/* Names as they may be written to a terminal. */
#include "base/show.h"
#include "port/test.h"

#include <string.h>

static void is(const char *name, const char *shown) {
  char buf[64];
  CHECK(strcmp(mr_show(buf, sizeof buf, name), shown) == 0);
}

int main(void) {
  char buf[8];
  is("", "");
  is("worker 1", "worker 1");
  is("a\nb\tc\rd", "a\\nb\\tc\\rd");
  is("\033[2J\a\177", "\\x1b[2J\\x07\\x7f");
  is("Gr\xc3\xbc\xc3\x9f", "Gr\xc3\xbc\xc3\x9f");
  is("\xe6\xbc\xa2 \xf0\x9f\x90\x8e", "\xe6\xbc\xa2 \xf0\x9f\x90\x8e");
  is("\xc2\x9b" "2J", "\\xc2\\x9b2J");                          /* CSI of C1 */
  is("\xe2\x80\xae" "abc", "\\xe2\\x80\\xae" "abc");             /* right to left from here on */
  is("\xff\xc3", "\\xff\\xc3");
  is("\xe6\xbc", "\\xe6\\xbc");
  CHECK(strcmp(mr_show(buf, sizeof buf, "12345\xc3\xbc\xc3\xbc"), "12345\xc3\xbc") == 0);
  CHECK(strcmp(mr_show(buf, sizeof buf, "1234\n\n"), "1234\\n") == 0);
  CHECK(strcmp(mr_show(buf, sizeof buf, "12345\033"), "12345") == 0);
  return CHECK_RESULT();
}
