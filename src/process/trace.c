/*
 * trace: the traceback of a process that failed, read from its dead stack; the same of one that does not run.
 *
 * A thread that ended with an error can't be called into (Lua asserts so), and there may be no memory left in its heap. So this
 * only reads, writes to malloc'd memory and can't raise; the text is like luaL_traceback's, functions have the names of their calls.
 */
#include "process/rt.h"
#include "process/text.h"

#include <string.h>

enum { FIRST = 10, LAST = 11 };

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

static void say_function(mr_text *t, const lua_Debug *ar) {
  if (strcmp(ar->namewhat, "global") == 0) mr_say(t, "function '%s'", ar->name);
  else if (*ar->namewhat) mr_say(t, "%s '%s'", ar->namewhat, ar->name);
  else if (*ar->what == 'm') mr_say(t, "main chunk");
  else if (*ar->what == 'C') mr_say(t, "?");
  else mr_say(t, "function <%s:%d>", ar->short_src, ar->linedefined);
}

void mr_trace_levels(mr_text *t, lua_State *L) {
  lua_Debug ar;
  int last = depth(L), skip = last - FIRST - LAST;
  for (int level = 0; lua_getstack(L, level, &ar); level++) {
    if (level == FIRST && skip > 1) {
      mr_say(t, "\n\t...\t(skipping %d levels)", skip);
      level += skip - 1;
      continue;
    }
    lua_getinfo(L, "Slnt", &ar);
    if (ar.currentline > 0) mr_say(t, "\n\t%s:%d: in ", ar.short_src, ar.currentline);
    else mr_say(t, "\n\t%s: in ", ar.short_src);
    say_function(t, &ar);
    if (ar.istailcall) mr_say(t, "\n\t(...tail calls...)");
  }
}

char *mr_trace(lua_State *L) {
  mr_text t = { .at = NULL };
  mr_say(&t, "stack traceback:");
  mr_trace_levels(&t, L);
  return t.at;
}
