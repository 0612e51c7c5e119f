/* show: see show.h. Who names a process after what came from outside must not let that move a cursor, or hide a line of a report. */
#include "base/show.h"

#include <stdio.h>
#include <string.h>

/* The length of the well-formed character at s; 0: there is none. */
static size_t character(const unsigned char *s) {
  size_t n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3 : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
  for (size_t i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80) return 0;
  return n;
}

/* Those of C0 and C1, and what turns the direction of writing. */
static int controls(const unsigned char *s, size_t n) {
  if (n == 1) return s[0] < 0x20 || s[0] == 0x7f;
  if (n == 2) return s[0] == 0xc2 && s[1] < 0xa0;
  if (n != 3 || s[0] != 0xe2) return 0;
  return (s[1] == 0x80 && ((s[2] >= 0xa8 && s[2] <= 0xae) || s[2] == 0x8e || s[2] == 0x8f)) || (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

static size_t escape(char *to, unsigned char c) {
  const char *known = "\nn\tt\rr";
  for (; *known; known += 2)
    if ((char)c == known[0]) return (size_t)snprintf(to, 5, "\\%c", known[1]);
  return (size_t)snprintf(to, 5, "\\x%02x", c);
}

char *mr_show(char *buf, size_t size, const char *name) {
  const unsigned char *s = (const unsigned char *)name;
  size_t at = 0;
  while (*s) {
    char text[20];
    size_t n = character(s), len = 0, taken = n ? n : 1;
    if (n && !controls(s, n)) memcpy(text, s, len = n);
    else
      for (size_t i = 0; i < taken; i++) len += escape(text + len, s[i]);
    if (at + len >= size) break;
    memcpy(buf + at, text, len);
    at += len;
    s += taken;
  }
  buf[at] = 0;
  return buf;
}
