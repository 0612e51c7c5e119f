/*
 * trace: the traceback of a state that died of an error. Nothing may be called in such a state, and there may be no memory left in
 * it, so this only looks at its stack and writes into a buffer of ours. The form is that of luaL_traceback.
 */
#include "process/rt.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 10, LAST = 11 };                  /* levels shown of a long stack */

typedef struct { char text[8192]; size_t len; } trace;

static void say(trace *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->text + t->len, sizeof t->text - t->len, fmt, ap);
  va_end(ap);
  if (n > 0) t->len += (size_t)n;
  if (t->len >= sizeof t->text) t->len = sizeof t->text - 1;
}

static void say_level(trace *t, lua_State *L, lua_Debug *ar) {
  lua_getinfo(L, "Slnt", ar);
  if (ar->currentline > 0) say(t, "\n\t%s:%d: in ", ar->short_src, ar->currentline);
  else say(t, "\n\t%s: in ", ar->short_src);
  if (strcmp(ar->namewhat, "global") == 0 || (*ar->namewhat && *ar->what == 'C')) say(t, "function '%s'", ar->name);
  else if (*ar->namewhat) say(t, "%s '%s'", ar->namewhat, ar->name);
  else if (*ar->what == 'm') say(t, "main chunk");
  else if (*ar->what != 'C') say(t, "function <%s:%d>", ar->short_src, ar->linedefined);
  else say(t, "?");
  if (ar->istailcall) say(t, "\n\t(...tail calls...)");
}

static int depth(lua_State *L) {
  lua_Debug ar;
  int low = 0, high = 1;
  while (lua_getstack(L, high, &ar)) {
    low = high;
    high *= 2;
  }
  while (high - low > 1) {
    int middle = (low + high) / 2;
    if (lua_getstack(L, middle, &ar)) low = middle;
    else high = middle;
  }
  return lua_getstack(L, low, &ar) ? low + 1 : 0;
}

char *mr_traceback(lua_State *L) {
  trace *t = malloc(sizeof *t);
  if (!t) return NULL;
  t->len = 0;
  say(t, "stack traceback:");
  lua_Debug ar;
  int levels = depth(L);
  for (int i = 0; i < levels && lua_getstack(L, i, &ar); i++) {
    if (levels > FIRST + LAST && i == FIRST) {
      say(t, "\n\t...\t(skipping %d levels)", levels - FIRST - LAST);
      i = levels - LAST - 1;
    } else {
      say_level(t, L, &ar);
    }
  }
  char *text = mr_text_copy(t->text);
  free(t);
  return text;
}
