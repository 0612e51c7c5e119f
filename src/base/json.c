/*
 * json: see json.h.
 *
 * yyjson, where the build has it, knows the shortest text of a double; else the C library is asked with more and more digits.
 */
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef MARE_YYJSON
#include <yyjson.h>
#endif

/* ---- strings ---- */

#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* Is one of eight bytes a control character, a quote, a backslash or not ASCII? (Borrows reach only bytes behind one that is.) */
static inline uint64_t special(uint64_t w) {
  uint64_t quote = w ^ EACH('"'), slash = w ^ EACH('\\');
  return (((w - EACH(0x20)) & ~w) | ((quote - EACH(1)) & ~quote) | ((slash - EACH(1)) & ~slash) | w) & EACH(0x80);
}

size_t mr_json_character(const char *s, size_t n) {
  const unsigned char *p = (const unsigned char *)s;
  size_t len = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
  if (len == 0 || len > n) return 0;
  for (size_t i = 1; i < len; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  if ((*p == 0xe0 && p[1] < 0xa0) || (*p == 0xed && p[1] > 0x9f) || (*p == 0xf0 && p[1] < 0x90) || (*p == 0xf4 && p[1] > 0x8f)) return 0;
  return len;
}

static char *put_ascii(char *o, unsigned char c) {
  static const char hex[] = "0123456789abcdef";
  static const char letters[] = "btn\0fr";       /* of 8 … 13; there is none of 11 */
  if (c >= 0x20) {
    if (c == '"' || c == '\\') *o++ = '\\';
    *o++ = (char)c;
    return o;
  }
  *o++ = '\\';
  if (c >= 8 && c <= 13 && c != 11) {
    *o++ = letters[c - 8];
    return o;
  }
  memcpy(o, "u00", 3);
  o[3] = hex[c >> 4];
  o[4] = hex[c & 15];
  return o + 5;
}

/* A byte that is no ASCII, at p; how many bytes were read, 0: refused. */
static size_t put_other(char **o, const char *p, size_t n, int other) {
  size_t len = mr_json_character(p, n);
  if (len > 0) {
    memcpy(*o, p, len);
    *o += len;
    return len;
  }
  unsigned char c = (unsigned char)*p;
  if (other == MR_JSON_REFUSE) return 0;
  if (other == MR_JSON_MARK) {
    *(*o)++ = '?';
  } else {
    *(*o)++ = (char)(0xc0 | c >> 6);
    *(*o)++ = (char)(0x80 | (c & 0x3f));
  }
  return 1;
}

size_t mr_json_escape(char *to, const char *s, size_t n, int other) {
  const char *p = s, *end = s + n;
  char *o = to;
  while (p < end) {
    for (uint64_t w; end - p >= 8; p += 8, o += 8) {
      memcpy(&w, p, 8);
      memcpy(o, &w, 8);                        /* what is special is written again, by the loop below */
      if (special(w)) break;
    }
    for (int i = 0; i < 8 && p < end; i++) {
      unsigned char c = (unsigned char)*p;
      if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
        *o++ = *p++;
        continue;
      }
      if (c < 0x80) {
        o = put_ascii(o, c);
        p++;
        continue;
      }
      size_t read = put_other(&o, p, (size_t)(end - p), other);
      if (!read) return MR_JSON_REFUSED;
      p += read;
    }
  }
  return (size_t)(o - to);
}

/* ---- numbers ---- */

char *mr_json_natural(char *to, uint64_t n) {
  char digits[24], *p = digits + sizeof digits;
  do *--p = (char)('0' + n % 10); while ((n /= 10) != 0);
  size_t len = (size_t)(digits + sizeof digits - p);
  memcpy(to, p, len);
  return to + len;
}

char *mr_json_integer(char *to, int64_t n) {
  if (n >= 0) return mr_json_natural(to, (uint64_t)n);
  *to++ = '-';
  return mr_json_natural(to, 0 - (uint64_t)n);
}

#ifdef MARE_YYJSON

/* yyjson gives a document of its own; its memory is the caller's place. */
static void *place(void *ud, size_t n) { return n <= MR_JSON_NUMBER ? ud : NULL; }
static void *no_other(void *ud, void *p, size_t was, size_t n) { return p == ud && was <= n && n <= MR_JSON_NUMBER ? p : NULL; }
static void stays(void *ud, void *p) { (void)ud, (void)p; }

static size_t shortest(char *to, double n) {
  char text[MR_JSON_NUMBER];
  yyjson_alc alc = { place, no_other, stays, text };
  yyjson_val value = { 0 };
  size_t len;
  value.tag = YYJSON_TYPE_NUM | YYJSON_SUBTYPE_REAL;
  value.uni.f64 = n;
  if (!yyjson_val_write_opts(&value, YYJSON_WRITE_NOFLAG, &alc, &len, NULL)) return 0;
  memcpy(to, text, len);
  return len;
}

#else
static size_t shortest(char *to, double n) { (void)to, (void)n; return 0; }
#endif

char *mr_json_double(char *to, double n) {
  size_t len = shortest(to, n);
  if (len > 0) return to + len;
  for (int digits = 15; digits <= 17; digits++) {
    len = (size_t)snprintf(to, MR_JSON_NUMBER, "%.*g", digits, n);
    if (strtod(to, NULL) == n) break;
  }
  for (char *p = to; p < to + len; p++)
    if (*p == ',') *p = '.';                   /* a locale's point */
  if (!memchr(to, '.', len) && !memchr(to, 'e', len)) {
    memcpy(to + len, ".0", 2);
    len += 2;
  }
  return to + len;
}
