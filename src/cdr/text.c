/* text: see text.h. */
#include <string.h>
#include "cdr/text.h"

/* Compilers make no vector instructions of a loop over words at the usual -O2; of vectors they do. Four sums, as each waits for its last step. */
typedef uint64_t vector __attribute__((vector_size(16)));
enum { BLOCK = 4 * sizeof(vector) };

static inline vector load(const char *s, int i) {
  vector v;
  memcpy(&v, s + i * (int)sizeof v, sizeof v);
  return v;
}

static uint64_t high_of_blocks(const char *s, size_t n) {
  vector a = { 0 }, b = a, c = a, d = a;
  for (; n; n -= BLOCK, s += BLOCK) {
    a |= load(s, 0);
    b |= load(s, 1);
    c |= load(s, 2);
    d |= load(s, 3);
  }
  a |= b | c | d;
  return a[0] | a[1];
}

int mr_text_ascii(const char *s, size_t n) {
  const uint64_t mask = UINT64_C(0x8080808080808080);
  const size_t stretch = 4096;                 /* looked at whole, then asked */
  uint64_t high = 0, word;
  while (n >= BLOCK && !(high & mask)) {
    size_t some = n < stretch ? n - n % BLOCK : stretch;
    high |= high_of_blocks(s, some);
    s += some;
    n -= some;
  }
  for (; n >= 8; n -= 8, s += 8) {
    memcpy(&word, s, 8);
    high |= word;
  }
  for (; n; n--, s++) high |= (uint64_t)(unsigned char)*s;
  return (high & mask) == 0;
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

/* How many of the first n bytes are ASCII for sure: eight at a time, and copied. */
static size_t copy_ascii(char *to, const char *s, size_t n) {
  size_t i = 0;
  for (uint64_t word; n - i >= 8; i += 8) {
    memcpy(&word, s + i, 8);
    if (word & UINT64_C(0x8080808080808080)) break;
    memcpy(to + i, &word, 8);
  }
  return i;
}

/*
 * A byte beyond ASCII has been read into *c: makes it the last byte of what it becomes. The bytes of the character that follow it are read from *s, the
 * bytes that go before the last one are written to *to. 0: it can't be converted.
 */
typedef int other(unsigned char *c, const char **s, char **to, const char *end);

/* Both directions, and how most of a text is ASCII: compilers make one function of this and `convert_other` for each. */
static inline size_t convert(char *to, const char *s, size_t n, other *convert_other) {
  char *at = to;
  for (const char *end = s + n; s < end;) {
    size_t plain = copy_ascii(at, s, (size_t)(end - s));
    at += plain;
    s += plain;
    for (int i = 0; i < 8 && s < end; i++) {
      unsigned char c = (unsigned char)*s++;
      if (c >= 0x80 && !convert_other(&c, &s, &at, end)) return SIZE_MAX;
      *at++ = (char)c;
    }
  }
  return (size_t)(at - to);
}

/* Characters from U+0080 to U+00FF are two bytes, the first of which is C2 or C3. */
static inline int other_to_latin(unsigned char *c, const char **s, char **to, const char *end) {
  (void)to;
  if ((*c & 0xfe) != 0xc2 || *s == end || ((unsigned char)**s & 0xc0) != 0x80) return 0;
  *c = (unsigned char)(*c << 6 | (*(*s)++ & 0x3f));
  return 1;
}

static inline int other_from_latin(unsigned char *c, const char **s, char **to, const char *end) {
  (void)s;
  (void)end;
  *(*to)++ = (char)(0xc0 | *c >> 6);
  *c = (unsigned char)(0x80 | (*c & 0x3f));
  return 1;
}

size_t mr_text_to_latin(char *to, const char *s, size_t n) { return convert(to, s, n, other_to_latin); }
size_t mr_text_from_latin(char *to, const char *s, size_t n) { return convert(to, s, n, other_from_latin); }

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
