/* text: see text.h. */
#include "process/text.h"
#include "heap/pool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 512 };

static void add(mr_text *t, const char *s, size_t n) {
  if (t->length + n + 1 > t->size) {
    size_t size = 2 * (t->size + n + 1);
    char *at = mr_pool_failing() ? NULL : realloc(t->at, size);
    if (!at) {
      t->failed = 1;
      return;
    }
    t->at = at;
    t->size = size;
  }
  memcpy(t->at + t->length, s, n);
  t->length += n;
  t->at[t->length] = 0;
}

void mr_say(mr_text *t, const char *format, ...) {
  char line[LINE];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n > 0) add(t, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void mr_say_text(mr_text *t, const char *s) { add(t, s, strlen(s)); }
