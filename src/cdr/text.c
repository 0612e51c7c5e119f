/* text: see text.h. */
#include <string.h>
#include "cdr/text.h"

int mr_text_ascii(const char *s, size_t n) {
  uint64_t high = 0, word;
  for (; n >= 8; n -= 8, s += 8) {
    memcpy(&word, s, 8);
    high |= word;
  }
  for (; n; n--, s++) high |= (uint64_t)(unsigned char)*s;
  return (high & UINT64_C(0x8080808080808080)) == 0;
}

uint32_t mr_text_read(const char *s, size_t n, size_t *used) {
  static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
  unsigned char c = (unsigned char)*s;
  size_t more = c < 0x80 ? 0 : c < 0xc2 ? 9 : c < 0xe0 ? 1 : c < 0xf0 ? 2 : c < 0xf5 ? 3 : 9;
  if (more > 3 || more >= n) return UINT32_MAX;
  uint32_t v = more == 0 ? c : c & (0x3fu >> more);
  for (size_t i = 1; i <= more; i++) {
    unsigned char d = (unsigned char)s[i];
    if ((d & 0xc0) != 0x80) return UINT32_MAX;
    v = v << 6 | (d & 0x3f);
  }
  *used = more + 1;
  return v < least[more + 1] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000) ? UINT32_MAX : v;
}

size_t mr_text_write(char *to, uint32_t c) {
  size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char lead[] = { 0, 0xc0, 0xe0, 0xf0 };
  to[0] = (char)(lead[more] | c >> 6 * more);
  for (size_t i = 1; i <= more; i++) to[i] = (char)(0x80 | (c >> 6 * (more - i) & 0x3f));
  return more + 1;
}

size_t mr_text_to_latin(char *to, const char *s, size_t n) {
  size_t count = 0, used = 0;
  for (; n; s += used, n -= used, count++) {
    uint32_t c = mr_text_read(s, n, &used);
    if (c > 0xff) return SIZE_MAX;
    if (to) to[count] = (char)c;
  }
  return count;
}

size_t mr_text_from_latin(char *to, const char *s, size_t n) {
  char *at = to;
  for (size_t i = 0; i < n; i++) at += mr_text_write(at, (unsigned char)s[i]);
  return (size_t)(at - to);
}

static void write_unit(char *to, uint32_t unit, int big) {
  to[!big] = (char)(unit >> 8);
  to[big] = (char)unit;
}

static uint32_t read_unit(const char *s, int big) { return (uint32_t)(unsigned char)s[!big] << 8 | (unsigned char)s[big]; }

size_t mr_text_to_utf16(char *to, const char *s, size_t n, int big) {
  size_t count = 0, used = 0;
  big = big != 0;
  for (; n; s += used, n -= used) {
    uint32_t c = mr_text_read(s, n, &used);
    if (c == UINT32_MAX) return SIZE_MAX;
    if (c >= 0x10000) {
      if (to) write_unit(to + 2 * count, 0xd800 + ((c - 0x10000) >> 10), big);
      count++;
      c = 0xdc00 + ((c - 0x10000) & 0x3ff);
    }
    if (to) write_unit(to + 2 * count, c, big);
    count++;
  }
  return count;
}

size_t mr_text_from_utf16(char *to, const char *s, size_t units, int big) {
  char *at = to;
  big = big != 0;
  for (size_t i = 0; i < units; i++) {
    uint32_t c = read_unit(s + 2 * i, big);
    if (c >= 0xd800 && c < 0xe000) {
      uint32_t low = i + 1 < units ? read_unit(s + 2 * ++i, big) : 0;
      if (c >= 0xdc00 || low < 0xdc00 || low >= 0xe000) return SIZE_MAX;
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    }
    at += mr_text_write(at, c);
  }
  return (size_t)(at - to);
}
