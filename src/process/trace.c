/*
 * trace: the traceback of a process that failed, read from its dead stack.
 *
 * A thread that ended with an error can't be called into (Lua asserts so), and there may be no memory left in its heap. So this
 * only reads, writes to malloc'd memory and can't raise; the text is like luaL_traceback's, functions have the names of their calls.
 */
#include "process/rt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 10, LAST = 11, LINE = 256 };

typedef struct { char *at; size_t length, size; } text;

static void say(text *t, const char *format, ...) {
  char line[LINE];
  va_list args;
  va_start(args, format);
  int n = vsnprintf(line, sizeof line, format, args);
  va_end(args);
  if (n < 0) return;
  size_t length = (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
  if (t->length + length + 1 > t->size) {
    size_t size = 2 * (t->size + length + 1);
    char *at = realloc(t->at, size);
    if (!at) return;
    t->at = at;
    t->size = size;
  }
  memcpy(t->at + t->length, line, length + 1);
  t->length += length;
}

static int depth(lua_State *L) {
  lua_Debug ar;
  int low = 1, high = 1;
  while (lua_getstack(L, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (low < high) {
    int middle = (low + high) / 2;
    if (lua_getstack(L, middle, &ar)) low = middle + 1;
    else high = middle;
  }
  return high - 1;
}

static void say_function(text *t, const lua_Debug *ar) {
  if (strcmp(ar->namewhat, "global") == 0) say(t, "function '%s'", ar->name);
  else if (*ar->namewhat) say(t, "%s '%s'", ar->namewhat, ar->name);
  else if (*ar->what == 'm') say(t, "main chunk");
  else if (*ar->what == 'C') say(t, "?");
  else say(t, "function <%s:%d>", ar->short_src, ar->linedefined);
}

char *mr_trace(lua_State *L) {
  text t = { NULL, 0, 0 };
  lua_Debug ar;
  int last = depth(L), skip = last - FIRST - LAST;
  say(&t, "stack traceback:");
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == FIRST && skip > 1) {
      say(&t, "\n\t...\t(skipping %d levels)", skip);
      level += skip - 1;
      continue;
    }
    lua_getinfo(L, "Slnt", &ar);
    if (ar.currentline > 0) say(&t, "\n\t%s:%d: in ", ar.short_src, ar.currentline);
    else say(&t, "\n\t%s: in ", ar.short_src);
    say_function(&t, &ar);
    if (ar.istailcall) say(&t, "\n\t(...tail calls...)");
  }
  return t.at;
}
