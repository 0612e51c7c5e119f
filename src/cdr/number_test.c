/* Numbers no machine here has, and code sets: against what the compiler's own 128-bit floats give, and over every character there is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cdr/number.h"
#include "cdr/text.h"

static int failures, checks;
#define CHECK(c) do { checks++; if (!(c)) { failures++; fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #c); } } while (0)

static uint64_t state = 88172645463325252u;
static uint64_t next(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state;
}

static int same(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

static void check_quad(double n) {
  uint64_t word[2];
  mr_quad_from(word, n);
  CHECK(same(mr_quad_to(word), n));
#if defined(__SIZEOF_FLOAT128__) && defined(__x86_64__)
  __float128 q = n;
  uint64_t expected[2];
  memcpy(expected, &q, 16);
  CHECK(n != n || (word[0] == expected[1] && word[1] == expected[0]));
#endif
}

/* Any 128 bits, many of them near a tie. */
static void check_rounding(void) {
  uint64_t word[2] = { next(), next() };
  uint64_t kind = next() % 4;
  word[0] = (word[0] & UINT64_C(0x8000ffffffffffff)) | (16383 - 1100 + next() % 2200) << 48;
  if (kind == 0) word[1] = (word[1] & ~((UINT64_C(1) << 60) - 1)) | UINT64_C(1) << 59;
  if (kind == 1) word[1] |= (UINT64_C(1) << 60) - 1;
  if (kind == 2) word[1] = 0;
#if defined(__SIZEOF_FLOAT128__) && defined(__x86_64__)
  __float128 q;
  uint64_t swapped[2] = { word[1], word[0] };
  memcpy(&q, swapped, 16);
  CHECK(same(mr_quad_to(word), (double)q));
#else
  CHECK(mr_quad_to(word) == mr_quad_to(word));
#endif
}

static void test_quad(void) {
  static const double some[] = { 0.0, -0.0, 1.0, -1.5, 0.1, 5e-324, 2.2250738585072014e-308, 2.225073858507201e-308, 1.7976931348623157e308 };
  for (size_t i = 0; i < sizeof some / sizeof *some; i++) check_quad(some[i]);
  check_quad(INFINITY);
  check_quad(-INFINITY);
  check_quad(NAN);
  for (int i = 0; i < 200000; i++) {
    uint64_t bits = next();
    double n;
    memcpy(&n, &bits, 8);
    check_quad(n);
    check_rounding();
  }
}

static void test_fixed(void) {
  for (int i = 0; i < 100000; i++) {
    unsigned char packed[16];
    char text[MR_FIXED_TEXT + 4], back[MR_FIXED_TEXT];
    uint32_t digits = 1 + (uint32_t)(next() % 31), scale = (uint32_t)(next() % (digits + 1));
    size_t n = 0;
    int nonzero = 0;
    text[n++] = '-';
    uint32_t whole = digits - scale, zeros = whole ? (uint32_t)(next() % whole) : 0;
    if (whole == 0) text[n++] = '0';
    for (uint32_t k = zeros; k < whole; k++) {
      char c = (char)('0' + next() % 10);
      if (k == zeros && c == '0' && k + 1 < whole) c = '1';
      nonzero |= c != '0';
      text[n++] = c;
    }
    if (scale) text[n++] = '.';
    for (uint32_t k = 0; k < scale; k++) {
      text[n] = (char)('0' + next() % 10);
      nonzero |= text[n++] != '0';
    }
    size_t from = nonzero && (next() & 1) ? 0 : 1;
    CHECK(mr_fixed_pack(packed, text + from, n - from, digits, scale) == NULL);
    size_t length = mr_fixed_text(back, packed, digits, scale);
    CHECK(length == n - from && memcmp(back, text + from, length) == 0);
  }
}

static void test_text(void) {
  char text[4], wide[4], back[8];
  size_t used;
  for (uint32_t c = 1; c <= 0x10ffff; c++) {
    size_t n = mr_text_write(text, c);
    int surrogate = c >= 0xd800 && c < 0xe000;
    CHECK(mr_text_read(text, n, &used) == (surrogate ? UINT32_MAX : c));
    if (surrogate) continue;
    CHECK(used == n);
    for (size_t less = 1; less < n; less++) CHECK(mr_text_read(text, less, &used) == UINT32_MAX);
    int big = (int)(c & 1);
    size_t units = mr_text_to_utf16(wide, text, n, big);
    CHECK(units == (c < 0x10000 ? 1u : 2u));
    CHECK(mr_text_from_utf16(back, wide, units, big) == n && memcmp(back, text, n) == 0);
    CHECK(mr_text_to_latin(wide, text, n) == (c < 256 ? 1 : SIZE_MAX));
    if (c < 256) CHECK((unsigned char)wide[0] == c && mr_text_from_latin(back, wide, 1) == n && memcmp(back, text, n) == 0);
  }
  CHECK(mr_text_read("\xc0\x80", 2, &used) == UINT32_MAX && mr_text_read("\xe0\x80\x80", 3, &used) == UINT32_MAX);
  CHECK(mr_text_read("\xf4\x90\x80\x80", 4, &used) == UINT32_MAX && mr_text_read("\x80", 1, &used) == UINT32_MAX);
  static char s[9000];
  memset(s, 'a', sizeof s);
  for (size_t n = 0; n < sizeof s; n += n < 300 || n > 8800 ? 1 : 61) {   /* it goes in blocks, in stretches of them, and then by bytes */
    CHECK(mr_text_ascii(s, n));
    for (size_t i = 0; i < n; i += i < 300 || i + 200 > n ? 1 : 97) {
      s[i] = (char)0x80;
      CHECK(!mr_text_ascii(s, n));
      s[i] = 'a';
    }
    s[n] = (char)0x80;
    CHECK(mr_text_ascii(s, n));
    s[n] = 'a';
  }
}

int main(void) {
  test_quad();
  test_fixed();
  test_text();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
