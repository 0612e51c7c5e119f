/* Strings and numbers as JSON has them. */
#include "base/json.h"
#include "port/test.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void is(const char *s, int other, const char *wanted) {
  char buf[64 * MR_JSON_WIDEST];
  size_t n = mr_json_escape(buf, s, strlen(s), other);
  CHECK(wanted ? n == strlen(wanted) && memcmp(buf, wanted, n) == 0 : n == MR_JSON_REFUSED);
}

static void test_strings(void) {
  is("", MR_JSON_REFUSE, "");
  is("plain text of more than eight bytes", MR_JSON_REFUSE, "plain text of more than eight bytes");
  is("a \"quote\" and \\ behind seven", MR_JSON_REFUSE, "a \\\"quote\\\" and \\\\ behind seven");
  is("\b\f\n\r\t\v\x01\x1f\x7f", MR_JSON_REFUSE, "\\b\\f\\n\\r\\t\\u000b\\u0001\\u001f\x7f");
  is("12345678\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", MR_JSON_REFUSE, "12345678\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
  /* what is no UTF-8: too long, a surrogate, beyond the last character, cut off, a byte of none */
  static const char *const bad[] = { "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "12345678\xe2\x82", "\xff" };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) is(bad[i], MR_JSON_REFUSE, NULL);
  is("a\xff\x80z", MR_JSON_LATIN1, "a\xc3\xbf\xc2\x80z");
  is("a\xff\xe2\x82z", MR_JSON_MARK, "a???z");
}

/* One special byte at each place of the eight that are looked at together. */
static void test_places(void) {
  for (int c = 1; c < 256; c++)
    for (int at = 0; at < 16; at++) {
      char s[17], buf[16 * MR_JSON_WIDEST];
      memset(s, 'x', 16);
      s[at] = (char)c;
      size_t n = mr_json_escape(buf, s, 16, MR_JSON_MARK);
      size_t grown = c == '"' || c == '\\' || (c >= 8 && c <= 13 && c != 11) ? 1 : c < 0x20 ? 5 : 0;
      CHECK(n == 16 + grown && memcmp(buf, s, (size_t)at) == 0 && memcmp(buf + n - (15 - at), s + at + 1, (size_t)(15 - at)) == 0);
    }
}

static void is_double(double n, const char *wanted) {
  char buf[MR_JSON_NUMBER + 1];
  char *end = mr_json_double(buf, n);
  *end = 0;
  CHECK(strtod(buf, NULL) == n && signbit(strtod(buf, NULL)) == signbit(n));
  CHECK(strchr(buf, '.') || strchr(buf, 'e'));
  if (wanted) CHECK(strcmp(buf, wanted) == 0);
}

static void is_integer(int64_t n, const char *wanted) {
  char buf[MR_JSON_NUMBER + 1];
  *mr_json_integer(buf, n) = 0;
  CHECK(strcmp(buf, wanted) == 0);
}

static void test_numbers(void) {
  is_integer(0, "0");
  is_integer(-7, "-7");
  is_integer(INT64_MAX, "9223372036854775807");
  is_integer(INT64_MIN, "-9223372036854775808");
  is_double(0.1, "0.1");
  is_double(-0.0, "-0.0");
  is_double(100, "100.0");
  is_double(0.1 + 0.2, "0.30000000000000004");
  is_double(DBL_MAX, NULL);
  is_double(DBL_TRUE_MIN, NULL);
  uint64_t x = 88172645463325252u;
  for (int i = 0; i < 20000; i++) {
    double n;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    memcpy(&n, &x, sizeof n);
    if (isfinite(n)) is_double(n, NULL);
  }
}

int main(void) {
  test_strings();
  test_places();
  test_numbers();
  return CHECK_RESULT();
}
