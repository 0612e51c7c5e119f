/* number: see number.h (CORBA 3.3 part 2, 9.3.1.4 and 9.3.2.8). */
#include <math.h>
#include <string.h>
#include "cdr/number.h"

/* ---- fixed ---- */

static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits are numbered from the last behind the point; two to a byte, the sign in the last half. */
static void set_digit(unsigned char *to, uint32_t digits, uint32_t i, unsigned digit) {
  uint32_t half = digits / 2 * 2 + 1 - 1 - i;  /* from the first half byte */
  to[half / 2] |= (unsigned char)(half % 2 ? digit : digit << 4);
}

const char *mr_fixed_pack(unsigned char *to, const char *s, size_t n, uint32_t digits, uint32_t scale) {
  const char *end = s + n;
  int negative = n && *s == '-', any = 0;
  if (n && (*s == '-' || *s == '+')) s++;
  memset(to, 0, digits / 2 + 1);
  const char *first = s, *point = s;
  while (point < end && is_digit(*point)) point++;
  for (; s < point && *s == '0'; s++) { }
  if ((size_t)(point - s) > digits - scale) return "has too many digits before the point";
  for (const char *p = s; p < point; p++) {
    set_digit(to, digits, scale + (uint32_t)(point - p) - 1, (unsigned)(*p - '0'));
    any |= *p != '0';
  }
  const char *rest = point < end && *point == '.' ? point + 1 : point;
  if (rest - first + (end - rest) == 0 || (point == first && rest == end)) return "is no decimal number";
  for (const char *p = rest; p < end; p++) {
    if (rest == point || !is_digit(*p)) return "is no decimal number";
    if (*p == '0') continue;
    if ((size_t)(p - rest) >= scale) return "has too many digits behind the point";
    set_digit(to, digits, scale - (uint32_t)(p - rest) - 1, (unsigned)(*p - '0'));
    any = 1;
  }
  to[digits / 2] |= negative && any ? 0xd : 0xc;
  return NULL;
}

size_t mr_fixed_text(char *to, const unsigned char *from, uint32_t digits, uint32_t scale) {
  char *at = to;
  uint32_t halves = digits / 2 * 2 + 1;
  unsigned sign = from[digits / 2] & 15u;
  if (sign != 0xc && sign != 0xd) return 0;
  if (sign == 0xd) *at++ = '-';
  int leading = 1;
  for (uint32_t half = 0; half < halves; half++) {
    unsigned digit = half % 2 ? from[half / 2] & 15u : from[half / 2] >> 4;
    uint32_t i = halves - 1 - half;            /* its number, see set_digit */
    if (digit > 9 || (i >= digits && digit)) return 0;
    if (i + 1 == scale) {
      if (leading) *at++ = '0';
      *at++ = '.';
      leading = 0;
    }
    leading = leading && digit == 0 && i != 0;
    if (!leading && i < digits) *at++ = (char)('0' + digit);
  }
  return (size_t)(at - to);
}

/* ---- binary128: 1 bit of sign, 15 of exponent, 112 of fraction ---- */

enum { BIAS64 = 1023, BIAS128 = 16383 };
#define FRACTION64 ((UINT64_C(1) << 52) - 1)
#define FRACTION128 ((UINT64_C(1) << 48) - 1)  /* in the first word */

void mr_quad_from(uint64_t to[2], double n) {
  uint64_t bits;
  memcpy(&bits, &n, 8);
  uint64_t sign = bits & UINT64_C(1) << 63, exponent = bits >> 52 & 2047, fraction = bits & FRACTION64;
  if (exponent == 2047) exponent = 32767;
  else if (exponent) exponent += BIAS128 - BIAS64;
  else if (fraction) {                         /* what is subnormal here is normal there */
    exponent = 1 + BIAS128 - BIAS64;
    for (; !(fraction >> 52); fraction <<= 1) exponent--;
    fraction &= FRACTION64;
  }
  to[0] = sign | exponent << 48 | fraction >> 4;
  to[1] = fraction << 60;
}

double mr_quad_to(const uint64_t from[2]) {
  int exponent = (int)(from[0] >> 48 & 32767);
  uint64_t high = from[0] & FRACTION128;
  double n;
  if (exponent == 32767) n = high || from[1] ? NAN : INFINITY;
  else if (exponent == 0) n = 0;               /* at most 2^-16382: nothing of it is left */
  else {
    /* 62 bits of the number, and in the last whether anything follows: enough to round correctly once, at whatever place. */
    uint64_t top = UINT64_C(1) << 61 | high << 13 | from[1] >> 51;
    if (from[1] << 13) top |= 1;
    int shift = 61 - 52, e = exponent - BIAS128;
    if (e < -1022) shift += -1022 - e;
    if (e > 1023) n = INFINITY;
    else if (shift > 62) n = 0;
    else {
      uint64_t kept = top >> shift, rest = top & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
      if (rest > half || (rest == half && (kept & 1))) kept++;
      n = ldexp((double)kept, e - 61 + shift);
    }
  }
  return from[0] >> 63 ? -n : n;
}
